//! Jobs that another thread or a panic interrupts: their counts of holes and of sampling threads stay right.

use super::{Db, MemoryPolicy, Options};
use crate::base::error::Error;
use crate::jobs::Jobs;
use crate::version::shape::Slice;
use crate::version::shape::cut::cut_part;
use crate::version::table_file::TableFile;
use crate::version::usage::rent::Paid;
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::locks::Mutex;
use braidb_storage::real::RealFs;
use braidb_storage::{DirEntry, Env, File, FileSystem, LockGuard, Process};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Hook = Box<dyn FnMut(&str) + Send>;

/// The real file system, with a hook before a file is opened or a hole is punched. The hook gets the name of the call, and is not
/// called while it runs. No hole is punched, so the test runs on any file system.
#[derive(Clone, Default)]
struct Hooked {
    hook: Arc<Mutex<Option<Hook>>>,
    holes: Arc<Mutex<BTreeMap<PathBuf, Vec<Range<u64>>>>>,
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooked").finish_non_exhaustive()
    }
}

impl Hooked {
    fn before(&self, call: &str) {
        let Some(mut hook) = self.hook.lock().take() else { return };
        hook(call);
        self.hook.lock().get_or_insert(hook);
    }

    fn set_hook(&self, hook: impl FnMut(&str) + Send + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }

    /// Bytes that lie in any hole, over all tables.
    fn hole_bytes(&self) -> u64 {
        self.holes.lock().values().map(|holes| bytes_in(holes.clone())).sum()
    }
}

/// Bytes that lie in any of the `holes` of one table.
fn bytes_in(mut holes: Vec<Range<u64>>) -> u64 {
    holes.sort_by_key(|hole| hole.start);
    let mut end = 0;
    let bytes_of = |hole: Range<u64>| {
        let start = hole.start.max(end);
        end = end.max(hole.end);
        hole.end.saturating_sub(start)
    };
    holes.into_iter().map(bytes_of).sum()
}

impl FileSystem for Hooked {
    fn process(&self) -> io::Result<Process> {
        RealFs.process()
    }
    fn hold_dir(&self, _dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(self.clone()))
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealFs.create_dir_all(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        RealFs.create(path)
    }
    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        RealFs.create_log(path)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.before("open");
        RealFs.open(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealFs.sync_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.link(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        RealFs.unlink(path)
    }
    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        self.before("punch");
        self.holes.lock().entry(path.to_owned()).or_default().push(offset..offset + len);
        Ok(())
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        RealFs.list(dir)
    }
    fn links(&self, path: &Path) -> io::Result<u64> {
        RealFs.links(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        RealFs.lock(path)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        RealFs.free_space(path)
    }
}

/// An open database in a directory of its own, which is removed at the end.
struct Bench {
    db: Db,
    fs: Arc<Hooked>,
    dir: PathBuf,
}

impl Bench {
    fn new(test: &str, options: Options) -> Bench {
        let dir = std::env::temp_dir().join(format!("braidb-jobs-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let fs = Arc::new(Hooked::default());
        let clock = Arc::new(StepClock::new());
        let runtime = Arc::new(Inline::new(clock.clone()));
        let env = Env { fs: fs.clone(), clock, random: Arc::new(SeededRandom::new(1)), runtime };
        Bench { db: options.env(env).open(&dir).unwrap(), fs, dir }
    }

    fn jobs(&self) -> Arc<Jobs> {
        self.db.engine().unwrap().jobs.clone()
    }

    /// Four slices of a table of 200 KB that the tree does not hold: half of it, two of a tenth each, and the rest.
    fn slices(&self) -> [Option<Slice>; 4] {
        let key = |row: u32| row.to_be_bytes();
        (0..200).for_each(|row| self.db.put(key(row), [7; 1000]).unwrap());
        self.db.flush().unwrap();
        let view = self.db.engine().unwrap().view().unwrap();
        let whole = view.families[0].version.slices().next().expect("the flush wrote a table").clone();
        let TableFile { id, bytes, checksum, tier, .. } = *whole.table;
        let table = Arc::new(TableFile::new(id, bytes, checksum, tier, self.jobs().parts.tables.clone()));
        let mut rest = whole.part().clone();
        let mut cut = |row| {
            let (before, after) = cut_part(&table, &rest, &key(row)).unwrap();
            rest = after.expect("there are keys behind the cut");
            Some(Slice::new(
                table.clone(),
                before.expect("there are keys before the cut"),
                Paid::default(),
                0,
            ))
        };
        let before = [100, 120, 140].map(&mut cut);
        let [first, second, third] = before;
        [first, second, third, Some(Slice::new(table, rest, Paid::default(), 0))]
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // The hook may hold a handle of the database, so it is dropped first.
        self.fs.hook.lock().take();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A slice is dropped, and another thread collects garbage, while a first thread punches holes and before it counts them.
#[test]
fn a_hole_is_counted_once_however_many_threads_punch() {
    let bench =
        Bench::new("holes", Options::new().tuning(|tuning| tuning.hot_keys_percent(0).log_table_percent(0)));
    let [first, second, third, fourth] = bench.slices();
    let (jobs, mut second) = (bench.jobs(), second);
    let (other, mut is_first) = (jobs.clone(), true);
    bench.fs.set_hook(move |call| {
        if call == "punch" && std::mem::take(&mut is_first) {
            drop(second.take());
            other.collect_garbage();
        }
    });
    let counted = || bench.db.stats().counts.hole_bytes;
    drop(first);
    jobs.collect_garbage();
    let made = bench.fs.hole_bytes();
    assert!(made > 110 << 10, "{made} bytes of holes: the other thread's slice was punched too");
    assert_eq!(counted(), made);
    drop(third);
    jobs.collect_garbage();
    assert!(bench.fs.hole_bytes() > made);
    assert_eq!(counted(), bench.fs.hole_bytes());
    drop(fourth);
}

/// A panic while a hole is punched. The next garbage collection punches this table and the others that waited.
#[test]
fn a_panic_leaves_no_table_without_its_holes() {
    let bench = Bench::new(
        "panicked-hole",
        Options::new().tuning(|tuning| tuning.hot_keys_percent(0).log_table_percent(0)),
    );
    let ([first, ..], [second, ..]) = (&mut bench.slices(), &mut bench.slices());
    bench.fs.set_hook(|call| assert_ne!(call, "punch", "planted"));
    drop((first.take(), second.take()));
    let jobs = bench.jobs();
    assert!(catch_unwind(AssertUnwindSafe(|| jobs.collect_garbage())).is_err());
    bench.fs.hook.lock().take();
    jobs.collect_garbage();
    let counted = bench.db.stats().counts.hole_bytes;
    assert!(counted > 180 << 10, "{counted}");
    assert_eq!(counted, bench.fs.hole_bytes());
}

/// A thread panics while it reads samples. Nothing was written, so the database stays usable, and no thread waits for the one that
/// panicked.
#[test]
fn a_panic_while_samples_are_asked_leaves_nothing_behind() {
    let options = Options::new()
        .memtable_bytes(256 << 10)
        .tuning(|tuning| tuning.table_bytes(1 << 20).hot_keys_percent(0));
    let bench = Bench::new(
        "sampling_threads",
        options.tuning(|tuning| tuning.memory_policy(MemoryPolicy::None).max_runs_per_guard(8)),
    );
    let (jobs, has_panicked) = (bench.jobs(), Arc::new(Mutex::new(false)));
    let (hook_jobs, panics) = (jobs.clone(), has_panicked.clone());
    bench.fs.set_hook(move |_| {
        let is_sampling = hook_jobs.sampling_threads().is_some_and(|threads| threads > 0);
        if is_sampling && !*panics.lock() {
            *panics.lock() = true;
            panic!("planted");
        }
    });
    let key = |number: u32| u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let insert = |numbers: Range<u32>| -> Result<(), Error> {
        numbers.clone().try_for_each(|number| bench.db.put(key(number), [7; 20]))?;
        bench.db.flush()?;
        bench.db.settle()
    };
    let mut number = 0;
    while bench.db.stats().counts.cells_sampled == 0 {
        let before = *has_panicked.lock();
        let inserted = catch_unwind(AssertUnwindSafe(|| insert(number..number + 3_000)));
        let has_panicked = *has_panicked.lock();
        assert_eq!(inserted.is_ok(), before == has_panicked, "{inserted:?}");
        inserted.unwrap_or(Ok(())).unwrap();
        assert_eq!(jobs.sampling_threads(), Some(0), "a thread that settles would wait forever");
        number += 3_000;
        assert!(number < 600_000, "no cell was sampled");
    }
    assert!(*has_panicked.lock());
    bench.db.close().unwrap();
}
