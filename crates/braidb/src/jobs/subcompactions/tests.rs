use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn parts(count: usize) -> Owned<usize, usize> {
    Owned::new(0..count, Arc::default())
}

#[test]
fn what_becomes_of_pieces_is_collected_in_their_order() {
    let owned = parts(100);
    let make = |part| Ok(part * 10);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let shared = owned.share();
            scope.spawn(move || while shared.work(make) {});
        }
        while owned.work(make) {}
        assert_eq!(owned.outcome().unwrap(), (0..100).map(|part| part * 10).collect::<Vec<_>>());
    });
}

#[test]
fn the_owner_waits_for_a_part_of_another_thread() {
    let owned = parts(2);
    let shared = owned.share();
    let (begun, begins) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            shared.work(|part| {
                begun.send(()).unwrap();
                // `outcome` waits for this part, whether it takes long or not.
                std::thread::yield_now();
                Ok(part + 7)
            })
        });
        begins.recv().unwrap();
        assert!(owned.work(|part| Ok(part + 7)));
        assert!(!owned.work(Ok), "both are begun");
        assert_eq!(owned.outcome().unwrap(), [7, 8]);
    });
}

#[test]
fn after_a_failure_nothing_is_begun() {
    let owned = parts(3);
    assert!(owned.work(Ok));
    assert!(owned.go_on().is_ok());
    assert!(owned.work(|_| Err(Error::Closed)));
    assert!(!owned.work(Ok), "the third is in vain");
    assert!(matches!(owned.go_on(), Err(Error::Closed)));
    assert!(matches!(owned.outcome(), Err(Error::Closed)));
}

#[test]
fn a_panic_is_a_failure_and_keeps_no_thread_waiting() {
    let owned = parts(3);
    let shared = owned.share();
    let panicked = catch_unwind(AssertUnwindSafe(|| shared.work(|_| panic!("a planted panic"))));
    assert!(panicked.is_err());
    assert!(matches!(owned.outcome(), Err(Error::Io { .. } | Error::Poisoned { .. })));
}

#[test]
fn what_its_owner_leaves_is_not_begun() {
    let owned = parts(3);
    let shared = owned.share();
    assert!(shared.work(Ok));
    drop(owned);
    assert!(!shared.work(Ok));
}
