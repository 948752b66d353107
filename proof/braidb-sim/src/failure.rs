//! A judge's finding: what failed, and the one command that replays it. Panics count as findings.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// A broken promise, as a judge reports it.
#[derive(Clone, Debug)]
pub struct Failure {
    pub what: String,
    /// Whether a panic was the cause.
    panicked: bool,
}

impl Failure {
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), panicked: false }
    }

    /// Prepends where the failure happened.
    pub fn at(self, place: impl fmt::Display) -> Failure {
        Failure { what: format!("{place}: {}", self.what), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl From<String> for Failure {
    fn from(what: String) -> Failure {
        Failure::new(what)
    }
}

/// A judge's result.
pub type Verdict<T = ()> = Result<T, Failure>;

/// Gathers the results of all threads. One panic makes the other threads fail too, so a panic is returned before any other failure.
pub fn all<T>(ended: Vec<Verdict<T>>) -> Verdict<Vec<T>> {
    if let Some(panicked) = ended.iter().filter_map(|one| one.as_ref().err()).find(|failure| failure.panicked)
    {
        return Err(panicked.clone());
    }
    ended.into_iter().collect()
}

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
        Err(Failure { what: format!("it panicked: {}", what.replace('\n', " ")), panicked: true })
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

    #[test]
    fn a_panic_is_told_before_the_failures_that_it_caused() {
        let poisoned = || Err(Failure::new("writing stopped"));
        let found = all::<()>(vec![Ok(()), poisoned(), no_panic(|| panic!("the cause"))]).unwrap_err();
        assert!(found.at("a thread").what.contains("the cause"));
        assert_eq!(all::<()>(vec![Ok(()), poisoned()]).unwrap_err().what, "writing stopped");
        assert_eq!(all(vec![Ok(1), Ok(2)]).unwrap(), [1, 2]);
    }
}
