//! A share of an open database, as each object of Python has one.

use braidb_bindings::opened::Opened;
use pyo3::Python;
use std::ops::Deref;
use std::sync::Arc;

/// A share of an open database. The drop of the last share closes the database, with the interpreter's lock released.
///
/// A handle of the engine keeps its database open too. So each struct with such a handle declares its share behind the handle, and drops the
/// handle first. Threads without an interpreter take [`Held::for_thread`].
#[derive(Clone, Debug)]
pub struct Held {
    /// `None` within the drop.
    opened: Option<Arc<Opened>>,
}

impl Held {
    pub fn new(opened: Opened) -> Held {
        Held { opened: Some(Arc::new(opened)) }
    }

    /// A share whose drop does not ask for the interpreter.
    pub fn for_thread(&self) -> Arc<Opened> {
        self.shared().clone()
    }

    #[inline]
    fn shared(&self) -> &Arc<Opened> {
        self.opened.as_ref().expect("there until the drop")
    }
}

impl Deref for Held {
    type Target = Opened;

    #[inline]
    fn deref(&self) -> &Opened {
        self.shared()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(last) = self.opened.take().and_then(Arc::into_inner) {
            Python::attach(|py| py.detach(|| drop(last)));
        }
    }
}
