//! What threads share state through: atomics, locks and swapped pointers; in the concurrency models (`make loom`) those of
//! loom, which tries every interleaving and the weakest promises of the memory model.
//!
//! Only what the models are about is taken from here. `Arc` is the standard one there too: that it frees at the last drop is
//! not in question, but whether all who need something hold a share of it is, and that the [`alloc`] of the models tells.

pub use std::sync::atomic::Ordering;

#[cfg(not(loom))]
mod real {
    pub use arc_swap::{ArcSwap, Guard};
    pub use parking_lot::Mutex;
    pub use std::alloc::{alloc, dealloc};
    pub use std::sync::atomic::{AtomicPtr, AtomicU64};

    /// Stands for the plain (not atomic) bytes of a node or record. Loom cannot watch those, so it watches this in their
    /// place: created when they are written, read whenever they are read. Outside the models it is nothing.
    pub struct PlainBytes;

    impl PlainBytes {
        #[inline]
        pub fn written() -> PlainBytes {
            PlainBytes
        }

        #[inline]
        pub fn read(&self) {}
    }
}

#[cfg(not(loom))]
pub use real::*;

#[cfg(loom)]
mod model {
    use loom::sync::MutexGuard;
    pub use loom::sync::atomic::{AtomicPtr, AtomicU64};
    use std::alloc::Layout;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::mem;
    use std::ops::Deref;
    use std::sync::Arc;

    /// With the face of `parking_lot`'s.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model ends with the first panic")
        }
    }

    /// Promises what `arc-swap` does and no less: who loads gets the value of the latest store, and sees what its storer had
    /// done. (That is more than an acquire and a release promise; `arc-swap` exchanges pointers in one total order.)
    #[derive(Debug)]
    pub struct ArcSwap<T>(Mutex<Arc<T>>);

    pub struct Guard<T>(T);

    impl<T> Deref for Guard<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> ArcSwap<T> {
        pub fn from_pointee(value: T) -> ArcSwap<T> {
            ArcSwap(Mutex::new(Arc::new(value)))
        }

        pub fn load(&self) -> Guard<Arc<T>> {
            Guard(self.load_full())
        }

        pub fn load_full(&self) -> Arc<T> {
            self.0.lock().clone()
        }

        pub fn store(&self, value: Arc<T>) {
            let old = mem::replace(&mut *self.0.lock(), value);
            // What it frees is freed without the lock.
            drop(old);
        }
    }

    /// As the one above; and it tells when it lies in memory that was freed.
    pub struct PlainBytes {
        cell: loom::cell::UnsafeCell<()>,
        mark: u64,
    }

    const WHOLE: u64 = 0x57_48_4f_4c_45;
    const FREED: u8 = 0xdd;

    impl PlainBytes {
        pub fn written() -> PlainBytes {
            PlainBytes { cell: loom::cell::UnsafeCell::new(()), mark: WHOLE }
        }

        pub fn read(&self) {
            assert_eq!(self.mark, WHOLE, "memory is read after it was freed");
            self.cell.with(|_| ());
        }
    }

    /// The memory of a model, whose threads all run on one of the system's.
    #[derive(Default)]
    struct Heap {
        live: BTreeMap<usize, Layout>,
        freed: BTreeMap<usize, Layout>,
    }

    thread_local! {
        static HEAP: RefCell<Heap> = RefCell::default();
    }

    /// # Safety
    /// As of `std::alloc::alloc`.
    pub unsafe fn alloc(layout: Layout) -> *mut u8 {
        // SAFETY: says the caller.
        let start = unsafe { std::alloc::alloc(layout) };
        HEAP.with_borrow_mut(|heap| heap.live.insert(start.addr(), layout));
        start
    }

    /// Marks memory as freed. It goes back when the next interleaving begins, so that whoever still reads it reads the mark.
    ///
    /// # Safety
    /// As of `std::alloc::dealloc`.
    pub unsafe fn dealloc(start: *mut u8, layout: Layout) {
        HEAP.with_borrow_mut(|heap| {
            assert_eq!(heap.live.remove(&start.addr()), Some(layout), "memory is freed twice");
            heap.freed.insert(start.expose_provenance(), layout);
        });
        // SAFETY: the allocation is still there.
        unsafe { start.write_bytes(FREED, layout.size()) };
    }

    /// How many allocations were not freed.
    #[cfg(test)]
    pub fn live_allocations() -> usize {
        HEAP.with_borrow(|heap| heap.live.len())
    }

    /// Begins an interleaving: all that the last one took must have been freed.
    #[cfg(test)]
    pub fn begin() {
        let heap = HEAP.with_borrow_mut(mem::take);
        assert!(heap.live.is_empty(), "memory is not freed");
        for (start, layout) in heap.freed {
            // SAFETY: `dealloc` was called for it once, and the interleaving that may have read it is over.
            unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(start), layout) };
        }
    }
}

#[cfg(loom)]
pub use model::*;
