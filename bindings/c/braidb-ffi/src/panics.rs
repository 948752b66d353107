//! What stands around the body of each function that C or Java calls. A panic must not reach the caller: it becomes a text that names its place
//! in the source.
//!
//! With debug assertions, and so in tests, the environment variable `BRAIDB_C_PANIC` plants a panic in the function that it names.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

/// The text of a panic in the body of a function.
#[derive(Clone, Debug)]
pub struct Panicked(pub String);

thread_local! {
    /// Where in the source the last panic of this thread began.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether the hook is there that notes the places of panics.
static IS_HOOKED: AtomicBool = AtomicBool::new(false);

/// Runs the body of a function that returns no error. A panic leads to `neutral`.
#[inline]
pub fn quiet<T>(function: &'static str, neutral: T, body: impl FnOnce() -> T) -> T {
    caught(function, body).unwrap_or_else(|payload| {
        drop(panicked(function, payload));
        neutral
    })
}

/// Runs the body of a function. A panic is a failure.
#[inline]
pub fn attempt<T, E: From<Panicked>>(
    function: &'static str,
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    caught(function, body).unwrap_or_else(|payload| Err(panicked(function, payload).into()))
}

/// Runs the body of a function. A panic becomes its payload.
#[inline]
fn caught<T>(function: &'static str, body: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    if !IS_HOOKED.load(Ordering::Relaxed) {
        note_places();
    }
    // After a panic the caller sees handles as the body left them. They hold no unsafe invariants, and the engine guards its own.
    panic::catch_unwind(AssertUnwindSafe(|| {
        if cfg!(debug_assertions) {
            plant(function);
        }
        body()
    }))
}

/// From here on each panic is noted with its place. The hooks that were there before run too.
#[cold]
fn note_places() {
    // A thread that panics must not set a hook. Another thread does it, or a later call.
    if std::thread::panicking() || IS_HOOKED.swap(true, Ordering::Relaxed) {
        return;
    }
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|place| format!("{}:{}", place.file(), place.line()));
        // A thread that ends may have no such value any more.
        let _ = PLACE.try_with(|noted| noted.replace(place));
        before(info);
    }));
}

#[cold]
fn panicked(function: &'static str, payload: Box<dyn Any + Send>) -> Panicked {
    let text = match payload.downcast_ref::<String>() {
        Some(text) => text.as_str(),
        None => payload.downcast_ref::<&str>().copied().unwrap_or("a panic without a text"),
    };
    let place = PLACE.try_with(|noted| noted.take()).ok().flatten();
    let place = place.unwrap_or_else(|| "an unknown place".to_owned());
    let message = format!("{function} panicked at {place}, which is a bug in BraidDB: {text}");
    if !payload.is::<String>() && !payload.is::<&str>() {
        // What it is, and whether its drop panics, is unknown.
        std::mem::forget(payload);
    }
    Panicked(message)
}

/// Panics if the environment names the function.
fn plant(function: &'static str) {
    let is_named = std::env::var_os("BRAIDB_C_PANIC").is_some_and(|name| name == function);
    assert!(!is_named, "planted in {function}");
}
