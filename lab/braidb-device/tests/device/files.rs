//! The files of the testbed behave like real files: bytes, lengths, refused calls.

use std::io::ErrorKind;

use crate::common::{MIB, kind, path};
use braidb_device::{Profile, Testbed};
use braidb_storage::inline::SeededRandom;
use braidb_storage::{Env, Random};

fn env_with(device_bytes: u64) -> Env {
    Testbed::new(Profile::SSD, device_bytes, MIB, 1, 1).env()
}

#[test]
fn files_behave_like_vectors_of_bytes() {
    let (plain, cached) =
        (Testbed::new(Profile::SSD, 64 * MIB, MIB, 1, 1), Testbed::new(Profile::HDD, 64 * MIB, MIB, 1, 1));
    cached.cache_on(Profile::SSD, 2 * MIB);
    let random = SeededRandom::new(9);
    for (testbed, name) in [(&plain, "plain"), (&plain, "log"), (&cached, "plain"), (&cached, "log")] {
        let env = testbed.env();
        let file = match name {
            "plain" => env.fs.create(path(name)).unwrap(),
            _ => env.fs.create_log(path(name)).unwrap(),
        };
        let mut model: Vec<u8> = Vec::new();
        for _ in 0..1_500 {
            let (at, len) = (random.below(3_000_000), random.below(30_000));
            match random.below(9) {
                0..=3 => {
                    let byte = random.next_u64() as u8 % 3;
                    file.append(&vec![byte; len as usize]).unwrap();
                    model.resize(model.len() + len as usize, byte);
                }
                4 if random.below(8) == 0 => {
                    file.truncate(at).unwrap();
                    model.resize(at as usize, 0);
                }
                5 => {
                    env.fs.punch_hole(path(name), at, len).unwrap();
                    let end = (at + len).min(model.len() as u64);
                    (at..end.max(at)).for_each(|hole| model[hole as usize] = 0);
                }
                6 => file.sync_data().unwrap(),
                7 => file.preallocate(at).unwrap(),
                8 => file.forget_cached(at, len),
                _ => file.write_out(at, len),
            }
            assert_eq!(file.len().unwrap(), model.len() as u64);
            let mut buf = vec![9; len as usize];
            let read = file.read_at(at, &mut buf).unwrap();
            let end = (at + len).min(model.len() as u64).max(at);
            assert_eq!(&buf[..read], model.get(at as usize..end as usize).unwrap_or_default());
        }
        let mut all = vec![0; model.len()];
        env.fs.open(path(name)).unwrap().read_exact_at(0, &mut all).unwrap();
        assert!(all == model, "the whole file differs");
    }
}

#[test]
fn what_the_real_one_refuses_is_refused() {
    let fs = env_with(64 * MIB).fs;
    fs.create_dir_all(path("/a/b")).unwrap();
    let file = fs.create(path("/a/b/file")).unwrap();
    assert_eq!(kind(fs.create(path("/a/b/file"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.open(path("/a/none"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.open(path("/a/b"))), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.list(path("/none"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.list(path("/a/b/file"))), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.create_dir_all(path("/a/b/file"))), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.sync_dir(path("/none"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.unlink(path("/none"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.rename(path("/none"), path("/a/x"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.rename(path("/a/b/file"), path("/a/b"))), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.punch_hole(path("/none"), 0, 1)), ErrorKind::NotFound);
    file.append(b"hello").unwrap();
    let read = fs.open(path("/a/b/file")).unwrap();
    for refused in [read.append(b"x"), read.preallocate(1), read.truncate(0)] {
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(9));
    }
    read.sync_data().unwrap();
    assert_eq!(kind(read.rewrite(0, b"x")), ErrorKind::Unsupported);
    assert_eq!(kind(read.read_exact_at(1, &mut [0; 5])), ErrorKind::UnexpectedEof);
    let rewritten = fs.open_to_rewrite(path("/a/b/file")).unwrap();
    assert_eq!(rewritten.append(b"x").unwrap_err().raw_os_error(), Some(9));
    assert_eq!(kind(rewritten.rewrite(1, b"hello")), ErrorKind::InvalidInput);
    rewritten.rewrite(1, b"ell").unwrap();
    rewritten.sync_data().unwrap();
    assert_eq!(rewritten.len().unwrap(), 5);
    assert_eq!(file.mapped_bytes(), 0);
}

#[test]
fn names_lead_to_files_and_open_files_outlive_them() {
    let fs = env_with(64 * MIB).fs;
    fs.create(path("a")).unwrap().append(b"one").unwrap();
    fs.link(path("a"), path("b")).unwrap();
    fs.create(path("c")).unwrap().append(b"two").unwrap();
    let held = fs.open(path("b")).unwrap();
    assert_eq!(kind(fs.link(path("a"), path("c"))), ErrorKind::AlreadyExists);
    fs.rename(path("c"), path("b")).unwrap();
    fs.unlink(path("a")).unwrap();
    let mut word = [0; 3];
    held.read_exact_at(0, &mut word).unwrap();
    assert_eq!(&word, b"one");
    fs.open(path("b")).unwrap().read_exact_at(0, &mut word).unwrap();
    assert_eq!(&word, b"two");
    let names: Vec<_> = fs.list(path("/")).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn a_lock_keeps_others_out_and_knows_its_place() {
    let fs = env_with(64 * MIB).fs;
    let lock = fs.lock(path("LOCK")).unwrap();
    assert_eq!(kind(fs.lock(path("LOCK"))), ErrorKind::WouldBlock);
    assert!(lock.is_in_place().unwrap());
    fs.unlink(path("LOCK")).unwrap();
    assert!(!lock.is_in_place().unwrap());
    let other = fs.lock(path("LOCK")).unwrap();
    assert!(!lock.is_in_place().unwrap() && other.is_in_place().unwrap());
    drop(other);
    fs.lock(path("LOCK")).unwrap();
}

#[test]
fn a_directory_that_is_held_serves_its_own_files_only() {
    let fs = env_with(64 * MIB).fs;
    fs.create_dir_all(path("/db/sub")).unwrap();
    assert_eq!(kind(fs.hold_dir(path("/none"))), ErrorKind::NotFound);
    let held = fs.hold_dir(path("/db")).unwrap();
    held.create(path("/db/a")).unwrap();
    held.sync_dir(path("/db")).unwrap();
    assert!(held.free_space(path("/db/a")).unwrap() > 0);
    assert_eq!(held.list(path("/db")).unwrap().len(), 2);
    for outside in ["/other", "/db/sub/a", "/db/../a", "a"] {
        assert_eq!(kind(held.create(path(outside))), ErrorKind::InvalidInput, "{outside}");
        assert_eq!(kind(held.rename(path("/db/a"), path(outside))), ErrorKind::InvalidInput, "{outside}");
    }
}

#[test]
fn a_full_device_refuses_and_gets_its_space_back() {
    let fs = env_with(8 * MIB).fs;
    let free = || fs.free_space(path("/")).unwrap();
    let all = free();
    assert_eq!(all, 8 * MIB - 8 * MIB / 64);
    let file = fs.create(path("a")).unwrap();
    file.preallocate(4 * MIB).unwrap();
    assert_eq!((free(), file.len().unwrap()), (all - 4 * MIB, 0));
    assert_eq!(kind(file.preallocate(9 * MIB)), ErrorKind::StorageFull);
    assert_eq!(free(), all - 4 * MIB, "a refused call takes no space");
    let other = fs.create(path("b")).unwrap();
    other.append(&vec![1; MIB as usize]).unwrap();
    assert_eq!(free(), all - 5 * MIB);
    assert_eq!(kind(other.append(&vec![1; 4 * MIB as usize])), ErrorKind::StorageFull);
    assert_eq!(free(), 0);
    file.append(&vec![2; 4 * MIB as usize]).unwrap();
    other.truncate(MIB).unwrap();
    assert_eq!(free(), all - 5 * MIB);
    fs.punch_hole(path("a"), 4096, MIB).unwrap();
    assert_eq!(free(), all - 4 * MIB);
    file.sync_data().unwrap();
    fs.unlink(path("a")).unwrap();
    assert_eq!(free(), all - 4 * MIB, "an unlinked file with an open handle keeps its space");
    drop(file);
    assert_eq!(free(), all - MIB);
    fs.unlink(path("b")).unwrap();
    drop(other);
    assert_eq!(free(), all);
}

#[test]
fn a_log_is_as_long_as_its_space_for_others() {
    let fs = env_with(64 * MIB).fs;
    let log = fs.create_log(path("log")).unwrap();
    log.preallocate(MIB).unwrap();
    (0..100).for_each(|_| log.append(&[7; 100]).unwrap());
    assert_eq!((log.len().unwrap(), log.mapped_bytes()), (10_000, 9_900));
    let mut buf = [1; 200];
    assert_eq!(log.read_at(9_900, &mut buf).unwrap(), 100);
    let other = fs.open(path("log")).unwrap();
    assert_eq!(other.len().unwrap(), MIB);
    assert_eq!(other.read_at(9_900, &mut buf).unwrap(), 200);
    assert_eq!((&buf[..100], &buf[100..]), (&[7; 100][..], &[0; 100][..]));
    log.truncate(10_000).unwrap();
    assert_eq!(other.len().unwrap(), 10_000);
}
