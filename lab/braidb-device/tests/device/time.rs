//! Which operations take virtual time, and of which actor: sync, write-back, dirty limits, jobs that run at the same time as the
//! foreground.

use std::path::Path;
use std::sync::Arc;

use crate::common::{MIB, MS, PAGE_NS, SEEK_NS, create, reading, stored};
use braidb_device::{Profile, Testbed};
use braidb_storage::{Env, File, Lane};

/// Transfer time of 1 MiB at 150 MB/s, in ns.
const MIB_NS: u64 = 6_990_507;

fn hdd(cache_bytes: u64) -> (Testbed, Env) {
    let testbed = Testbed::new(Profile::HDD, 1 << 30, cache_bytes, 2, 1);
    let env = testbed.env();
    (testbed, env)
}

/// Checks that the foreground has spent `ns` on the device since `start_ns`, and at most 2 ms on the processor.
#[track_caller]
fn assert_took(testbed: &Testbed, start_ns: u64, ns: u64) {
    let took_ns = testbed.now_ns() - start_ns;
    assert!((ns..ns + 2 * MS).contains(&took_ns), "{took_ns} ns, not {ns} ns");
}

#[test]
fn a_sync_waits_for_the_pages_and_one_barrier() {
    let (testbed, env) = hdd(64 * MIB);
    let file = create(&env, "a");
    file.append(&vec![1; 2 * MIB as usize]).unwrap();
    assert_eq!(testbed.figures().devices.writes, 0, "no page is written before the sync");
    let start_ns = testbed.now_ns();
    file.sync_data().unwrap();
    assert_took(&testbed, start_ns, SEEK_NS + 2 * MIB_NS + SEEK_NS + PAGE_NS);
    let figures = testbed.figures().devices;
    assert_eq!((figures.writes, figures.seeks, figures.journal_writes), (3, 2, 1));
    assert_eq!(figures.written_bytes, 2 * MIB + 4096);
    let start_ns = testbed.now_ns();
    file.sync_data().unwrap();
    assert_took(&testbed, start_ns, SEEK_NS + PAGE_NS);
    let start_ns = testbed.now_ns();
    env.fs.sync_dir(Path::new("/")).unwrap();
    assert_took(&testbed, start_ns, SEEK_NS + PAGE_NS);
}

#[test]
fn what_was_written_out_is_under_way_and_the_sync_waits_for_the_rest() {
    let (testbed, env) = hdd(64 * MIB);
    let file = create(&env, "a");
    file.append(&vec![1; 2 * MIB as usize]).unwrap();
    let start_ns = testbed.now_ns();
    file.write_out(0, 2 * MIB);
    assert_took(&testbed, start_ns, 0);
    assert_eq!(testbed.figures().devices.writes, 2);
    testbed.charge_cpu_ns(20 * MS);
    file.sync_data().unwrap();
    assert_took(&testbed, start_ns, SEEK_NS + 2 * MIB_NS + SEEK_NS + PAGE_NS);
}

#[test]
fn a_log_is_charged_at_write_back_as_any_file() {
    let (testbed, env) = hdd(64 * MIB);
    let log = env.fs.create_log(Path::new("log")).unwrap();
    log.preallocate(MIB).unwrap();
    (0..1_000).for_each(|_| log.append(&[7; 100]).unwrap());
    assert_eq!(testbed.figures().devices.written_bytes, 0);
    log.sync_data().unwrap();
    let pages = 100_000_u64.div_ceil(4096);
    assert_eq!(testbed.figures().devices.written_bytes, (pages + 1) * 4096, "reserved pages are not written");
}

#[test]
fn writers_do_not_wait_below_the_limit_and_go_at_the_rate_of_the_device_above_it() {
    let (testbed, env) = hdd(100 * MIB);
    let file = create(&env, "a");
    let write = |mib: u64| (0..mib).for_each(|_| file.append(&vec![1; MIB as usize]).unwrap());
    write(10);
    assert_eq!(testbed.figures().devices.writes, 0, "up to 10% of the cache may be dirty");
    write(10);
    let figures = testbed.figures();
    assert!(figures.devices.writes > 0 && figures.throttled_ns == 0, "{figures}");
    let start_ns = testbed.now_ns();
    write(100);
    let took_ns = testbed.now_ns() - start_ns;
    assert!(testbed.figures().throttled_ns > took_ns * 8 / 10);
    assert!((90 * MIB_NS..110 * MIB_NS).contains(&took_ns), "{took_ns} ns");
}

#[test]
fn old_pages_are_written_and_the_journal_commits_without_a_sync() {
    let (testbed, env) = hdd(64 * MIB);
    create(&env, "a").append(&[1; 4096]).unwrap();
    testbed.charge_cpu_ns(4_900 * MS);
    env.fs.list(Path::new("/")).unwrap();
    assert_eq!(testbed.figures().devices.writes, 0);
    testbed.charge_cpu_ns(200 * MS);
    env.fs.list(Path::new("/")).unwrap();
    assert_eq!((testbed.figures().devices.writes, testbed.figures().devices.journal_writes), (1, 1));
    testbed.idle_until_ns(30_100 * MS);
    env.fs.list(Path::new("/")).unwrap();
    assert_eq!((testbed.figures().devices.writes, testbed.figures().devices.journal_writes), (2, 1));
}

#[test]
fn pages_of_a_deleted_file_are_never_written() {
    let (testbed, env) = hdd(64 * MIB);
    create(&env, "a").append(&vec![1; MIB as usize]).unwrap();
    env.fs.unlink(Path::new("a")).unwrap();
    testbed.idle_until_ns(60_000 * MS);
    env.fs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(testbed.figures().devices.written_bytes - 4096 * testbed.figures().devices.journal_writes, 0);
}

#[test]
fn space_that_is_given_back_is_reused_from_the_front() {
    // On this device a longer seek takes more time, so times show the places of files.
    let read_after_read = |first: &str, second: &str| {
        let testbed = Testbed::new(Profile::DISK7200, 1 << 30, 64 * MIB, 1, 1);
        let env = testbed.env();
        stored(&testbed, &env, "a", 8);
        stored(&testbed, &env, "b", 512);
        env.fs.unlink(Path::new("a")).unwrap();
        stored(&testbed, &env, "c", 4);
        stored(&testbed, &env, "d", 16);
        let mut page = [0; 4096];
        env.fs.open(Path::new(first)).unwrap().read_exact_at(4096, &mut page).unwrap();
        let start_ns = testbed.now_ns();
        // Reads the end of the file, because a long file is placed in parts.
        let file = env.fs.open(Path::new(second)).unwrap();
        file.read_exact_at(file.len().unwrap() - 4096, &mut page).unwrap();
        testbed.now_ns() - start_ns
    };
    let (front, behind) = (read_after_read("b", "c"), read_after_read("b", "d"));
    assert!(front < 8 * MS, "c is at the place of a: {front} ns");
    assert!(behind > 14 * MS, "d does not fit into the place of a: {behind} ns");
}

#[test]
fn a_job_overlaps_with_the_foreground() {
    let (testbed, env) = hdd(64 * MIB);
    stored(&testbed, &env, "a", 8);
    let start_ns = testbed.now_ns();
    env.runtime.submit(Lane::Flush, reading(&env, "a"));
    testbed.charge_cpu_ns(50 * MS);
    assert!(env.runtime.help());
    assert_took(&testbed, start_ns, SEEK_NS + 8 * MIB_NS);
    let figures = testbed.figures();
    assert!(figures.background_cpu_ns > 0 && figures.background_cpu_ns < 2 * MS);
    // This job ends, in virtual time, before the foreground asks for progress.
    let start_ns = testbed.now_ns();
    env.runtime.submit(Lane::Flush, reading(&env, "a"));
    testbed.charge_cpu_ns(500 * MS);
    assert!(env.runtime.help());
    assert_took(&testbed, start_ns, 500 * MS);
    assert!(!env.runtime.help());
}

#[test]
fn jobs_share_the_device_and_take_turns() {
    let (testbed, env) = hdd(64 * MIB);
    stored(&testbed, &env, "a", 8);
    stored(&testbed, &env, "b", 8);
    let (start_ns, before) = (testbed.now_ns(), testbed.figures());
    env.runtime.submit(Lane::Flush, reading(&env, "a"));
    env.runtime.submit(Lane::Merge, reading(&env, "b"));
    testbed.step();
    assert_eq!(testbed.now_ns(), start_ns, "the foreground did not wait");
    let after = testbed.figures();
    let seeks = after.devices.seeks - before.devices.seeks;
    assert!(seeks >= 16, "the arm goes between two files, for each MiB: {seeks} seeks");
    let busy_ns = after.devices.busy_ns - before.devices.busy_ns;
    assert!(busy_ns >= 16 * MIB_NS + seeks * SEEK_NS);
    assert!(
        (busy_ns..busy_ns + 2 * MS).contains(&(after.end_ns - start_ns)),
        "the device never rests: {after}"
    );
}

#[test]
fn a_read_beside_a_job_waits_for_a_request_and_not_for_the_job() {
    let (testbed, env) = hdd(256 * MIB);
    stored(&testbed, &env, "a", 64);
    let file = stored(&testbed, &env, "b", 8);
    env.runtime.submit(Lane::Merge, reading(&env, "a"));
    testbed.step();
    let (start_ns, before) = (testbed.now_ns(), testbed.figures());
    assert!(before.end_ns - start_ns > 64 * MIB_NS, "the job has booked the device");
    testbed.charge_cpu_ns(30 * MS);
    file.read_exact_at(5 * MIB, &mut [0; 4096]).unwrap();
    let took_ns = testbed.now_ns() - start_ns - 30 * MS;
    assert!(took_ns < SEEK_NS + 2 * MIB_NS, "{took_ns} ns");
    let after = testbed.figures();
    let (moved_ns, busy_ns) = (after.end_ns - before.end_ns, after.devices.busy_ns - before.devices.busy_ns);
    assert_eq!(busy_ns, 2 * SEEK_NS + PAGE_NS, "a seek there and a seek back");
    assert!((busy_ns - MS..=busy_ns).contains(&moved_ns), "the read delays the job by {moved_ns} ns");
}

#[test]
fn what_a_job_that_ran_ahead_will_ask_for_holds_up_no_caller() {
    let (testbed, env) = hdd(256 * MIB);
    stored(&testbed, &env, "a", 64);
    let shared = create(&env, "shared");
    let (read_all, job_env) = (reading(&env, "a"), env.clone());
    let end_of_job: Arc<dyn File> = shared.clone();
    env.runtime.submit(
        Lane::Merge,
        Box::new(move || {
            read_all();
            end_of_job.append(&[1; 4096]).unwrap();
            // 40 MiB are more than 10% of the cache, so they are written back without a sync.
            create(&job_env, "large").append(&vec![0; 40 * MIB as usize]).unwrap();
            end_of_job.sync_data().unwrap();
        }),
    );
    testbed.step();
    let (start_ns, throttled_ns) = (testbed.now_ns(), testbed.figures().throttled_ns);
    assert!(testbed.figures().end_ns > start_ns + 64 * MIB_NS);
    testbed.charge_cpu_ns(30 * MS);
    shared.append(&[2; 4096]).unwrap();
    shared.sync_data().unwrap();
    let took_ns = testbed.now_ns() - start_ns - 30 * MS;
    assert!(took_ns < 5 * SEEK_NS + 3 * MIB_NS, "{took_ns} ns");
    create(&env, "other").append(&vec![0; 16 * MIB as usize]).unwrap();
    assert_eq!(testbed.figures().throttled_ns, throttled_ns, "the job's writes are in the future");
}

#[test]
fn a_step_runs_what_is_due_and_nothing_else() {
    let (testbed, env) = hdd(64 * MIB);
    stored(&testbed, &env, "a", 8);
    let jobs = || testbed.figures().jobs;
    env.runtime.submit(Lane::Flush, reading(&env, "a"));
    testbed.step();
    assert_eq!(jobs(), 1, "the first job of a lane is expected to take no time");
    testbed.drop_cache();
    testbed.idle_until_ns(testbed.figures().end_ns);
    env.runtime.submit(Lane::Flush, reading(&env, "a"));
    testbed.step();
    testbed.charge_cpu_ns(50 * MS);
    testbed.step();
    assert_eq!(jobs(), 1);
    testbed.charge_cpu_ns(30 * MS);
    let now_ns = testbed.now_ns();
    testbed.step();
    assert_eq!((jobs(), testbed.now_ns()), (2, now_ns), "the foreground did not wait");
}

#[test]
fn a_pause_lets_a_due_job_run_without_waiting_for_it() {
    let (testbed, env) = hdd(64 * MIB);
    stored(&testbed, &env, "a", 8);
    env.runtime.submit(Lane::Merge, reading(&env, "a"));
    let start_ns = testbed.now_ns();
    env.runtime.pause_us(1_000);
    assert_eq!((testbed.now_ns(), testbed.figures().jobs), (start_ns + MS, 1));
    assert!(testbed.figures().end_ns > start_ns + 8 * MIB_NS);
    testbed.wait_for_jobs();
    assert_eq!(testbed.now_ns(), testbed.figures().end_ns);
}

#[test]
fn a_job_may_submit_and_help_and_sees_its_own_clock() {
    let (testbed, env) = hdd(64 * MIB);
    let (inner, clock) = (env.clone(), env.clock.clone());
    let charged = testbed.clone();
    testbed.charge_cpu_ns(1_000 * MS);
    env.runtime.submit(
        Lane::Merge,
        Box::new(move || {
            let before_us = inner.clock.now_us();
            let nested = charged.clone();
            inner.runtime.submit(Lane::Flush, Box::new(move || nested.charge_cpu_ns(30 * MS)));
            charged.charge_cpu_ns(10 * MS);
            assert_eq!(inner.clock.now_us(), before_us + 10_000);
            assert!(inner.runtime.help());
            // The flush began at its submission, while the merge ran.
            assert_eq!(inner.clock.now_us(), before_us + 30_005);
            let nested = charged.clone();
            inner.runtime.submit(Lane::Merge, Box::new(move || nested.charge_cpu_ns(MS)));
        }),
    );
    testbed.charge_cpu_ns(10 * MS);
    assert!(env.runtime.help());
    assert_eq!(clock.now_us(), 1_000_000 + 30_005 + 5);
    assert!(env.runtime.help() && !env.runtime.help());
    assert_eq!(testbed.figures().background_cpu_ns, 41 * MS + 15_000);
}

#[test]
fn a_panic_of_a_job_passes_to_the_caller_and_the_actors_stay_right() {
    let (testbed, env) = hdd(64 * MIB);
    env.runtime.submit(Lane::Merge, Box::new(|| std::panic::resume_unwind(Box::new("planned"))));
    let runtime = env.runtime.clone();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.help()));
    assert!(outcome.is_err());
    testbed.charge_cpu_ns(7);
    assert_eq!(testbed.figures().foreground_cpu_ns, 7);
}

#[test]
fn hits_cost_no_device_and_misses_do() {
    let (testbed, env) = hdd(MIB);
    let file = stored(&testbed, &env, "a", 8);
    let mut page = [0; 4096];
    let read = |page_number: u64, page: &mut [u8]| file.read_exact_at(page_number * 4096, page).unwrap();
    read(77, &mut page);
    let start_ns = testbed.now_ns();
    read(77, &mut page);
    assert!(testbed.now_ns() - start_ns < 1_000);
    let before = testbed.figures();
    // 300 other pages evict page 77 from a cache of 256 pages.
    (0..300).for_each(|index| read(1_000 + index * 3, &mut page));
    read(77, &mut page);
    let after = testbed.figures();
    assert_eq!((after.cache_misses - before.cache_misses, after.cache_hits), (301, before.cache_hits));
    assert_eq!(after.devices.reads - before.devices.reads, 301);
}

#[test]
fn a_caller_that_computes_is_not_held_up_by_two_jobs_that_meet_at_the_device() {
    let (testbed, env) = hdd(64 * MIB);
    stored(&testbed, &env, "a", 1);
    stored(&testbed, &env, "b", 1);
    let start_ns = testbed.now_ns();
    // The first job sends its read after 10 ms, the second after 5 ms. So the second job moves the first job's read
    // back.
    for (lane, name, after_ms) in [(Lane::Flush, "a", 10), (Lane::Merge, "b", 5)] {
        let (job, beside) = (reading(&env, name), testbed.clone());
        let job = move || {
            beside.charge_cpu_ns(after_ms * MS);
            job();
        };
        env.runtime.submit(lane, Box::new(job));
    }
    testbed.charge_cpu_ns(8 * MS);
    testbed.step();
    assert_eq!(testbed.figures().jobs, 2);
    assert_eq!(testbed.now_ns() - start_ns, 8 * MS, "the foreground sent the device no request");
}
