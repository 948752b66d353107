//! What `settle` leaves: no work, and no file that nothing refers to.

use super::*;
use std::collections::BTreeSet;

/// The tables and logs that the database says it has. The test switches value files and log tables off.
fn known_files(db: &Db) -> BTreeSet<String> {
    let tables = db.tree().into_iter().flat_map(|family| family.levels);
    let cells = tables.flat_map(|level| level.cells);
    let slices = cells.flat_map(|cell| cell.runs).flat_map(|run| run.slices);
    let tables = slices.map(|slice| format!("{:06}.table", slice.table));
    let logs = db.stats().logs.into_iter().map(|log| format!("{:06}.log", log.id));
    tables.chain(logs).collect()
}

fn files(fs: &SimFs) -> BTreeSet<String> {
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let files = fs.files().into_iter().map(name);
    files.filter(|name| name.ends_with(".table") || name.ends_with(".log")).collect()
}

/// `settle` waits for slow deletions. A job's thread deletes files after it has reported the job as done.
#[test]
fn settle_waits_for_deletions() {
    let (mut env, fs, _) = sim_env(1);
    env.runtime = Arc::new(Threads::new(2).unwrap());
    let db = leveled(env).tuning(|tuning| tuning.separation_threshold(None).log_table_percent(0));
    let db = db.open(DIR).unwrap();
    fs.set_hook(Some(Box::new(|_, op| {
        if op.kind == OpKind::Unlink {
            (0..300).for_each(|_| std::thread::yield_now());
        }
    })));
    let mut deleted = 0;
    for round in 0..60u32 {
        for number in 0..60u32 {
            db.put((number * 7 + round % 3).to_be_bytes(), [round as u8; 200]).unwrap();
        }
        db.settle().unwrap();
        let (found, known) = (files(&fs), known_files(&db));
        assert_eq!(found, known, "round {round}");
        deleted = db.stats().counts.files_deleted;
    }
    assert!(deleted > 60, "{deleted}");
    fs.set_hook(None);
}
