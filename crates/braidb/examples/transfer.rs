//! Two writers move money between accounts, with a journal in a second column family. Transactions are atomic across families, and no transfer
//! is lost. A snapshot shows one moment of all families while writing goes on.

use braidb::{ColumnFamily, Db, Durability, Snapshot, WriteBatch};
use std::error::Error;
use std::path::Path;
use std::thread;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let dir = std::env::temp_dir().join("braidb-transfer");
    run(&dir)?;
    println!("the database is in {}", dir.display());
    Ok(())
}

const ACCOUNTS: [&str; 3] = ["ada", "alan", "grace"];
const START: u64 = 1000;

pub fn run(dir: &Path) -> Outcome {
    let db = Db::open(dir)?;
    let journal = db.create_column_family("journal")?;

    // An earlier run may have left its books: all accounts and the journal start anew, in one batch.
    let mut opening = WriteBatch::new();
    for entry in journal.iter() {
        opening.delete_in(&journal, entry?.0);
    }
    for account in ACCOUNTS {
        opening.put(account, START.to_le_bytes());
    }
    db.write(opening)?;

    let audits = thread::scope(|scope| -> Outcome<u64> {
        let (db, journal) = (&db, &journal);
        let write = |writer| move || transfers(db, journal, writer).map_err(|error| error.to_string());
        let writers = [scope.spawn(write(0)), scope.spawn(write(1))];
        let mut audits = 0;
        while !writers.iter().all(|writer| writer.is_finished()) {
            audit(&db.snapshot(), journal)?;
            audits += 1;
        }
        for writer in writers {
            writer.join().map_err(|_| "a writer panicked")??;
        }
        Ok(audits)
    })?;
    audit(&db.snapshot(), &journal)?;
    println!("{audits} audits while money moved, and each found all of it");
    Ok(())
}

/// Both accounts and the journal change together, or none of them does. Two writers that touch one account conflict: one of them begins again.
fn transfers(db: &Db, journal: &ColumnFamily, writer: u64) -> Outcome {
    for number in 0..250u64 {
        let from = ACCOUNTS[(number + writer) as usize % 3];
        let to = ACCOUNTS[(number + writer + 1 + number % 2) as usize % 3];
        let amount = number % 7;
        // The last transfer waits for the disk, and covers all earlier ones.
        let durability = if number == 249 { Durability::Sync } else { Durability::Buffer };
        db.transact_with(durability, |transaction| -> Outcome {
            let paid = balance(transaction.get(from)?)?.checked_sub(amount).ok_or("too little money")?;
            let got = balance(transaction.get(to)?)? + amount;
            transaction.put(from, paid.to_le_bytes())?;
            transaction.put(to, got.to_le_bytes())?;
            let line = (2 * number + writer).to_be_bytes();
            transaction.put_in(journal, line, format!("{from} pays {amount} to {to}"))?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Checks one moment: no money is lost, and the journal explains every account.
fn audit(moment: &Snapshot, journal: &ColumnFamily) -> Outcome {
    let mut total = 0;
    for account in ACCOUNTS {
        total += balance(moment.get(account)?)?;
    }
    assert_eq!(total, START * ACCOUNTS.len() as u64);

    let mut paid = [0i64; 3];
    for entry in moment.iter_in(journal) {
        let (_, line) = entry?;
        let words: Vec<&str> = std::str::from_utf8(&line)?.split(' ').collect();
        let &[from, "pays", amount, "to", to] = words.as_slice() else { return Err("a strange line".into()) };
        let amount: i64 = amount.parse()?;
        for (account, paid) in ACCOUNTS.iter().zip(&mut paid) {
            *paid += amount * (i64::from(*account == to) - i64::from(*account == from));
        }
    }
    for (account, paid) in ACCOUNTS.iter().zip(paid) {
        assert_eq!(balance(moment.get(account)?)? as i64, START as i64 + paid);
    }
    Ok(())
}

fn balance(value: Option<braidb::Value>) -> Outcome<u64> {
    let value = value.ok_or("there is no such account")?;
    Ok(u64::from_le_bytes(value[..].try_into()?))
}
