//! A judge's finding: what failed, and the one command that replays it. Panics count as findings.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// A broken promise, as a judge reports it.
#[derive(Clone, Debug)]
pub struct Failure {
    pub what: String,
}

impl Failure {
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { what: what.into() }
    }

    /// Prepends where the failure happened.
    pub fn at(self, place: impl fmt::Display) -> Failure {
        Failure { what: format!("{place}: {}", self.what) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl From<String> for Failure {
    fn from(what: String) -> Failure {
        Failure { what }
    }
}

/// A judge's result.
pub type Verdict<T = ()> = Result<T, Failure>;

thread_local! {
    /// The last panic's message and place, while panics of this thread count as findings.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    static CATCHING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `judged`. A panic on this thread becomes a failure with message and place, and is not printed.
pub fn no_panic<T>(judged: impl FnOnce() -> Verdict<T>) -> Verdict<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match CATCHING.get() {
            true => CAUGHT.set(Some(info.to_string())),
            false => previous(info),
        }));
    });
    let before = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(judged));
    CATCHING.set(before);
    result.unwrap_or_else(|_| {
        let what = CAUGHT.take().unwrap_or_else(|| "without a message".to_owned());
        Err(Failure::new(format!("it panicked: {}", what.replace('\n', " "))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_finding() {
        let found = no_panic::<()>(|| panic!("the {} is broken", "rule")).unwrap_err();
        assert!(found.what.contains("the rule is broken") && found.what.contains("failure.rs"), "{found}");
        assert_eq!(no_panic(|| Ok(1)).unwrap(), 1);
    }
}
