//! Tests of the cache: what it keeps, for how long, and what it counts.

use super::*;

fn block(len: usize) -> Arc<Block> {
    Arc::new(Block::new(vec![7; len]))
}

fn cache(capacity_bytes: usize) -> Arc<BlockCache> {
    Arc::new(BlockCache::new(capacity_bytes))
}

/// Slots for 2,000 blocks of table `number`.
fn table(cache: &Arc<BlockCache>, number: u64) -> Arc<Slots> {
    Slots::new(cache.clone(), FileId(number), 2000)
}

fn kept(slots: &Arc<Slots>) -> usize {
    (0..2000).filter(|&number| slots.get(number).is_some()).count()
}

fn queued(cache: &BlockCache) -> usize {
    cache.kept.as_ref().map_or(0, |(clock, _)| clock.queued())
}

#[test]
fn blocks_are_found_by_table_and_number() {
    let cache = cache(1 << 20);
    let tables = [table(&cache, 1), table(&cache, 2)];
    tables[0].offer(0, &block(10));
    tables[0].offer(1, &block(20));
    tables[1].offer(0, &block(30));
    let bytes = |table: usize, number| tables[table].get(number).map(|block| block.len());
    assert_eq!([bytes(0, 0), bytes(0, 1), bytes(1, 0), bytes(1, 1)], [Some(10), Some(20), Some(30), None]);
    assert_eq!(bytes(1, 2000), None, "the table has no such block");
}

#[test]
fn values_are_found_by_file_and_offset() {
    let cache = cache(1 << 20);
    cache.offer_value(FileId(1), 0, &block(10));
    cache.offer_value(FileId(1), 100, &block(20));
    cache.offer_value(FileId(2), 0, &block(30));
    let bytes = |file, offset| cache.value(FileId(file), offset).map(|value| value.len());
    assert_eq!(
        [bytes(1, 0), bytes(1, 100), bytes(2, 0), bytes(2, 100)],
        [Some(10), Some(20), Some(30), None]
    );
}

#[test]
fn a_block_is_kept_at_its_first_offer_while_there_is_room_and_later_at_its_second() {
    let cache = cache(1 << 20);
    let table = table(&cache, 1);
    (0..200).for_each(|number| table.offer(number, &block(4096)));
    assert_eq!(kept(&table), 200);
    (200..400).for_each(|number| table.offer(number, &block(4096)));
    let full = kept(&table);
    assert!((230..=256).contains(&full), "{full} blocks of 4 KiB in 1 MiB");
    (300..400).for_each(|number| table.offer(number, &block(4096)));
    let again = (300..400).filter(|&number| table.get(number).is_some()).count();
    assert!(again > 60, "{again} of 100: a quarter may have lost their marks");
}

#[test]
fn blocks_and_values_share_the_capacity() {
    let cache = cache(1 << 20);
    let table = table(&cache, 1);
    for number in 0..2000 {
        (0..2).for_each(|_| table.offer(number, &block(4096)));
        (0..2).for_each(|_| cache.offer_value(FileId(9), number as u64 * 4096, &block(4096)));
    }
    let values = (0..2000).filter(|number| cache.value(FileId(9), number * 4096).is_some()).count();
    let blocks = kept(&table);
    assert!(cache.bytes() <= 1 << 20 && (200..=256).contains(&(blocks + values)), "{blocks} and {values}");
    assert!(blocks > 50 && values > 50, "{blocks} and {values}");
    assert_eq!(queued(&cache), blocks + values);
}

#[test]
fn without_capacity_nothing_is_kept_and_all_works() {
    for capacity_bytes in [0, 1] {
        let cache = cache(capacity_bytes);
        let table = table(&cache, 1);
        (0..2).for_each(|_| table.offer(0, &block(10)));
        table.keep(1, &block(10));
        (0..2).for_each(|_| cache.offer_value(FileId(1), 0, &block(10)));
        assert_eq!((kept(&table), cache.value(FileId(1), 0).is_some(), cache.bytes()), (0, false, 0));
    }
}

#[test]
fn a_lent_block_outlives_its_eviction_and_its_table() {
    let cache = cache(64 << 10);
    let slots = table(&cache, 1);
    slots.offer(0, &block(2000));
    let lent = slots.get(0).unwrap();
    (1..2000).for_each(|number| slots.keep(number, &block(2000)));
    assert!(slots.get(0).is_none());
    drop(slots);
    assert_eq!((lent.len(), cache.bytes()), (2000, 0));
}

#[test]
fn a_block_that_readers_find_stays() {
    let cache = cache(1 << 20);
    let table = table(&cache, 1);
    for number in 0..2000 {
        table.keep(number, &block(4096));
        assert!((0..20).all(|hot| hot > number || table.get(hot).is_some()), "at block {number}");
    }
}

/// The hand passes over 64 used entries at most, so an insertion never waits for a walk over the whole cache.
#[test]
fn an_insertion_finds_room_even_if_readers_found_all_blocks() {
    let cache = cache(1 << 20);
    let table = table(&cache, 1);
    (0..300).for_each(|number| table.keep(number, &block(4096)));
    let idle = || (0..2000).filter(|&number| table.is_idle(number)).count();
    let full = kept(&table);
    assert_eq!(idle(), 0, "all are used now");
    table.keep(300, &block(4096 * 10));
    assert!(cache.bytes() <= 1 << 20);
    assert_eq!(idle(), 64 + 1, "those that the hand passed over, and the new block");
    assert!(kept(&table) + 12 >= full);
}

#[test]
fn the_blocks_of_a_closed_table_leave_with_it() {
    let cache = cache(1 << 20);
    for number in 0..1000 {
        let table = table(&cache, number);
        (0..100).for_each(|number| table.offer(number, &block(4096)));
        assert_eq!(kept(&table), 100);
        assert!(cache.bytes() > 100 * 4096);
        drop(table);
        assert_eq!(cache.bytes(), 0);
        assert!(queued(&cache) <= 200, "{} entries of closed tables", queued(&cache));
    }
}

#[test]
fn two_offers_of_a_block_keep_one() {
    let cache = cache(1 << 20);
    let table = table(&cache, 1);
    let first = block(10);
    table.keep(3, &first);
    let bytes = cache.bytes();
    table.keep(3, &block(20));
    assert!(Arc::ptr_eq(&table.get(3).unwrap(), &first) && cache.bytes() == bytes && queued(&cache) == 1);
}

/// Gets wait for the lock of the clock. `check_free` panics if a block of more than 1 MiB is dropped under it.
#[test]
fn all_that_a_large_block_displaces_is_dropped_after_the_lock() {
    let cache = cache(128 << 20);
    let table = table(&cache, 1);
    (0..64).for_each(|number| table.keep(number, &block(3 << 19)));
    (64..128).for_each(|number| table.keep(number, &block(7 << 20)));
    assert!(cache.bytes() <= 128 << 20 && (64..128).any(|number| table.get(number).is_some()));
}

/// The last share of a table may be the one that the hand took. Its other blocks are freed after the lock is released.
#[test]
fn threads_read_insert_and_close_tables_at_once() {
    let cache = cache(256 << 10);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for number in 0..60 {
                    let table = table(cache, 4 * number + thread);
                    for at in 0..100 {
                        table.keep(at, &Arc::new(Block::new(vec![at as u8; 4096])));
                        let lent = table.get(at / 2);
                        assert!(lent.is_none_or(|block| block.iter().all(|byte| *byte == (at / 2) as u8)));
                    }
                }
            });
        }
    });
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn tables_take_room_from_blocks_and_give_it_back() {
    let cache = Arc::new(BlockCache::sharing(1 << 20, Some(1 << 20)));
    let table = table(&cache, 1);
    let slot_bytes = cache.table_bytes();
    assert_eq!(slot_bytes, 2000 * 8, "the slots of the table");
    (0..300).for_each(|number| table.offer(number, &block(4096)));
    assert!(cache.bytes() > 900 << 10, "{}", cache.bytes());

    let half = Charge::new(cache.clone(), 512 << 10);
    assert_eq!(cache.limit_bytes(), (512 << 10) - slot_bytes);
    assert!((450 << 10..=cache.limit_bytes()).contains(&cache.bytes()), "{}", cache.bytes());
    let more = Charge::new(cache.clone(), 4 << 20);
    assert_eq!((cache.limit_bytes(), kept(&table)), (64 << 10, 15), "a sixteenth stays for blocks");
    drop((half, more));
    assert_eq!((cache.limit_bytes(), cache.table_bytes()), ((1 << 20) - slot_bytes, slot_bytes));
    drop(table);
    assert_eq!((cache.limit_bytes(), cache.table_bytes()), (1 << 20, 0));
}

#[test]
fn a_cache_that_shares_nothing_keeps_its_limit() {
    let cache = cache(1 << 20);
    let charge = Charge::new(cache.clone(), 4 << 20);
    assert_eq!((cache.limit_bytes(), cache.table_bytes()), (1 << 20, 4 << 20));
    drop(charge);
    assert_eq!(cache.table_bytes(), 0);
}
