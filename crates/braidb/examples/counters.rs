//! Counters that many threads raise at once. No count is lost, and hot counters cost little: they stay in memory.

use braidb::Db;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join("braidb-counters");
    run(&dir)?;
    println!("the database is in {}", dir.display());
    Ok(())
}

const THREADS: u64 = 4;
const VISITS: u64 = 1_000;
const PAGES: [&str; 3] = ["/", "/about", "/news"];

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("counters have 8 bytes"))
}

fn count(db: &Db, page: &str) -> braidb::Result<u64> {
    Ok(db.get(page)?.map_or(0, |value| number(&value)))
}

pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let db = Db::open(dir)?;
    let before = PAGES.map(|page| count(&db, page));
    std::thread::scope(|scope| {
        let visitors = [(); THREADS as usize].map(|()| {
            scope.spawn(|| {
                let pages = PAGES.iter().cycle().take(VISITS as usize);
                pages
                    .map(|page| db.update(page, |old| Some((old.map_or(0, number) + 1).to_be_bytes())))
                    .try_for_each(|outcome| outcome.map(drop))
            })
        });
        visitors.into_iter().try_for_each(|visitor| visitor.join().expect("no panic"))
    })?;
    let mut visits = 0;
    for (page, before) in PAGES.into_iter().zip(before) {
        let now = count(&db, page)?;
        println!("{page}: {now}");
        visits += now - before?;
    }
    assert_eq!(visits, THREADS * VISITS);
    Ok(())
}
