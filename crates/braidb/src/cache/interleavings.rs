//! Tests under loom: every interleaving of a reader, an insertion that evicts, and the end of a table. `make loom` runs them.

use super::*;
use crate::base::sync;

/// A block of 4,000 bytes that all have the value `byte`.
fn block(byte: u8) -> Arc<Block> {
    Arc::new(Block::new(vec![byte; 4000]))
}

/// A cache that has room for 16 of these blocks, with 16 of them in the table. Each further one displaces one.
fn full() -> (Arc<BlockCache>, Arc<Slots>) {
    let cache = Arc::new(BlockCache::new(16 * 4200));
    let table = Slots::new(cache.clone(), FileId(1), 20);
    (0..16).for_each(|number| table.keep(number, &block(number as u8)));
    (cache, table)
}

fn explore(interleaving: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        sync::begin();
        interleaving();
    });
}

#[test]
fn a_reader_holds_its_block_while_an_insertion_evicts_it() {
    explore(|| {
        let (cache, table) = full();
        let evicting = table.clone();
        let thread = loom::thread::spawn(move || {
            (16..18).for_each(|number| evicting.keep(number, &block(number as u8)))
        });
        let lent = [table.get(0), table.get(16)];
        thread.join().unwrap();
        assert!(lent[0].as_ref().is_none_or(|block| block.iter().all(|byte| *byte == 0)));
        assert!(lent[1].as_ref().is_none_or(|block| block.iter().all(|byte| *byte == 16)));
        let kept =
            (0..20).filter_map(|number| table.get(number)).map(|block| block.cached_bytes()).sum::<u64>();
        assert_eq!(cache.bytes(), kept);
        assert!(kept <= 16 * 4200);
    });
}

#[test]
fn a_table_ends_while_another_one_evicts_its_blocks() {
    explore(|| {
        let (cache, table) = full();
        let other = Slots::new(cache.clone(), FileId(2), 4);
        let inserting = other.clone();
        let thread = loom::thread::spawn(move || {
            (0..2).for_each(|number| inserting.keep(number, &block(number as u8)))
        });
        drop(table);
        thread.join().unwrap();
        let kept =
            (0..4).filter_map(|number| other.get(number)).map(|block| block.cached_bytes()).sum::<u64>();
        assert_eq!(cache.bytes(), kept);
        // While the closed table's bytes still count, an insertion may evict its own block.
        assert!(kept <= 2 * block(0).cached_bytes());
        other.keep(2, &block(2));
        assert!(other.get(2).is_some());
    });
}
