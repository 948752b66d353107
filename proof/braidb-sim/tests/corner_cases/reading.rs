//! Readers that cause merges: without a write, a flush or a call of `settle`.

use super::*;

/// Scans pay rent for two tables of L0 that share all keys. Once the rent has reached the price of a merge, the next reader has an idle
/// merge thread ask the planner.
#[test]
fn scans_alone_start_a_merge() {
    let (env, _, runtime) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    for round in 0..2u8 {
        (0..20u8).for_each(|key| db.put([key], [round; 20]).unwrap());
        db.flush().unwrap();
    }
    while runtime.help() {}
    let runs = || -> u64 { db.stats().families[0].levels.iter().map(|level| level.runs).sum() };
    assert_eq!(runs(), 2);
    let mut rounds = 0;
    while runs() > 1 {
        rounds += 1;
        assert!(rounds < 1_000, "readers pay, and nothing comes of it: {:?}", db.stats().counts);
        (0..100).for_each(|_| assert_eq!(db.range([1u8]..).take(5).count(), 5));
        while runtime.help() {}
    }
    assert!(db.stats().counts.merges > 0);
    assert_eq!(db.iter().filter(|entry| entry.as_ref().unwrap().1 == [1; 20]).count(), 20);
}
