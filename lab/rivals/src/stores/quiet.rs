//! Waits for a store that tells its work, but has no call that waits until the work is done.

use crate::Outcome;
use std::time::{Duration, Instant};

/// The time for which a store must be idle and unchanged until it counts as settled. A worker may take a task off a queue some time before
/// it raises the counter of running tasks.
const QUIET: Duration = Duration::from_millis(200);
/// The least time between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// The time between two looks is at least this multiple of a look's time. While the store is busy, looking counts as the store's time. So
/// looking takes at most a fiftieth of a processor.
const PAUSE_PER_LOOK: u32 = 50;
/// The time after which a busy store counts as stuck, as after a failed write. No run takes half of it.
const GIVE_UP: Duration = Duration::from_secs(3600);

/// Calls `look` until it has returned equal `Some` for [`QUIET`]. `look` returns `None` while the store is busy. Calls `mark` at the first
/// look of each idle period.
pub fn wait<S: PartialEq>(mark: &mut dyn FnMut(), mut look: impl FnMut() -> Outcome<Option<S>>) -> Outcome {
    let start = Instant::now();
    let mut idle: Option<(S, Instant)> = None;
    loop {
        let began = Instant::now();
        let state = look()?;
        let pause = BETWEEN_LOOKS.max(began.elapsed() * PAUSE_PER_LOOK);
        idle = match (state, idle) {
            (None, _) => None,
            (Some(now), Some((before, since))) if now == before => {
                if since.elapsed() >= QUIET {
                    return Ok(());
                }
                Some((before, since))
            }
            (Some(now), _) => {
                mark();
                Some((now, Instant::now()))
            }
        };
        if start.elapsed() > GIVE_UP {
            return Err("the store has not settled for an hour; its own log may tell why".into());
        }
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn only_the_last_idle_while_counts() {
        // The store is idle for one look, then busy, then idle in other states, of which the last one stays.
        let script = [Some(1), None, None, Some(1), Some(2), Some(3)];
        let (looks, marks) = (Cell::new(0), Cell::new(Vec::new()));
        let look = || {
            let state = script[looks.get().min(script.len() - 1)];
            looks.set(looks.get() + 1);
            Ok(state)
        };
        let mut mark = || marks.set([marks.take(), vec![looks.get()]].concat());
        wait(&mut mark, look).unwrap();
        assert_eq!(marks.take(), [1, 4, 5, 6], "the looks at which an idle while began");
        assert!(looks.get() > script.len());
    }

    #[test]
    fn an_error_ends_it() {
        let error = wait::<()>(&mut || (), || Err("broken".into())).unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }
}
