//! A durable queue: jobs are pushed, popped in their order, and acknowledged when they are done. A job that was popped and not acknowledged
//! when the process ended is handed out again.
//!
//! Two column families hold the queue. The keys of both are the numbers of the jobs, as big-endian bytes, which sort as numbers. A pop
//! moves the first waiting job to the jobs in work, in one batch. So a crash leaves each job in one of the two families, and never in
//! both or in none.

use braidb::{ColumnFamily, Db, Durability, Value, WriteBatch};
use std::error::Error;
use std::path::Path;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let dir = std::env::temp_dir().join("braidb-queue");
    run(&dir)?;
    println!("the database is in {}", dir.display());
    Ok(())
}

pub fn run(dir: &Path) -> Outcome {
    let mut queue = Queue::open(dir)?;
    let (first, second) = (queue.push("bake a cake")?, queue.push("eat the cake")?);
    let (number, job) = queue.pop()?.ok_or("the queue has jobs")?;
    assert_eq!((number, &job[..]), (first, &b"bake a cake"[..]));

    // A worker is killed while it bakes. What it had written is there: pushes were synced, and a pop outlives the process.
    drop(queue);
    let mut queue = Queue::open(dir)?;
    println!("after a crash {} jobs are handed out again", queue.returned);
    assert_eq!(queue.returned, 1);

    for expected in [first, second] {
        let (number, job) = queue.pop()?.ok_or("the queue has jobs")?;
        println!("job {number}: {}", job.escape_ascii());
        assert_eq!(number, expected);
        queue.acknowledge(number)?;
    }
    assert!(queue.pop()?.is_none());
    Ok(())
}

struct Queue {
    db: Db,
    waiting: ColumnFamily,
    in_work: ColumnFamily,
    /// The number of the next job.
    next: u64,
    /// Jobs that this open returned to the queue: their worker ended before it acknowledged them.
    returned: usize,
}

impl Queue {
    /// Opens the queue. The jobs in work return to their old places, in front of all others.
    fn open(dir: &Path) -> Outcome<Queue> {
        let db = Db::open(dir)?;
        let (waiting, in_work) = (db.create_column_family("waiting")?, db.create_column_family("in work")?);
        let mut batch = WriteBatch::new();
        for entry in &in_work {
            let (key, job) = entry?;
            batch.put_in(&waiting, &key, job).delete_in(&in_work, &key);
        }
        let returned = batch.len() / 2;
        db.write(batch)?;
        let next = match waiting.last()? {
            Some((key, _)) => number(&key)? + 1,
            None => 0,
        };
        Ok(Queue { db, waiting, in_work, next, returned })
    }

    /// Adds a job at the end. When this returns, no power failure loses the job.
    fn push(&mut self, job: impl AsRef<[u8]>) -> Outcome<u64> {
        let number = self.next;
        self.waiting.put_with(number.to_be_bytes(), job, Durability::Sync)?;
        self.next += 1;
        Ok(number)
    }

    /// Takes the first job. A power failure may undo this: then the job is handed out again.
    fn pop(&mut self) -> Outcome<Option<(u64, Value)>> {
        let Some((key, job)) = self.waiting.first()? else { return Ok(None) };
        let mut batch = WriteBatch::new();
        batch.delete_in(&self.waiting, &key).put_in(&self.in_work, &key, &job);
        self.db.write(batch)?;
        Ok(Some((number(&key)?, job)))
    }

    /// Forgets a job that is done. When this returns, nothing hands the job out again.
    fn acknowledge(&mut self, number: u64) -> Outcome {
        Ok(self.in_work.delete_with(number.to_be_bytes(), Durability::Sync)?)
    }
}

fn number(key: &[u8]) -> Outcome<u64> {
    Ok(u64::from_be_bytes(key.try_into()?))
}
