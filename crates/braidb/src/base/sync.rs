//! Atomics, locks and swapped pointers through which threads share state. Under `make loom` they are loom's,
//! which tries every interleaving and the weakest guarantees of the memory model.
//!
//! Only types that the tests under loom check are taken from here. `Arc` is the standard one under loom too, because `Arc` itself is
//! trusted. The tests check that each user holds a share: [`alloc`] under loom detects a read of freed memory.

pub use std::sync::atomic::Ordering;

#[cfg(not(loom))]
mod real {
    pub use arc_swap::{ArcSwap, ArcSwapOption, Guard};
    pub use braidb_storage::locks::Mutex;
    pub use std::alloc::{alloc, dealloc};
    pub use std::sync::OnceLock;
    pub use std::sync::atomic::{AtomicPtr, AtomicU64};

    /// Stands for the plain (not atomic) bytes of a node or record. Loom cannot watch plain bytes, so it watches this instead: created
    /// when the bytes are written, read whenever they are read. Without loom it is empty.
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
mod explored {
    use super::Ordering;
    use loom::sync::MutexGuard;
    pub use loom::sync::atomic::{AtomicPtr, AtomicU64};
    use std::alloc::Layout;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::mem;
    use std::ops::Deref;
    use std::sync::Arc;

    /// A mutex of loom with the interface of the engine's.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("an interleaving ends with the first panic")
        }
    }

    /// Guarantees as much as `arc-swap`: a load returns the value of the latest swap, and sees all that the swapping thread did
    /// before. (Acquire and release guarantee less: `arc-swap` exchanges pointers in one total order.)
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

        pub fn swap(&self, value: Arc<T>) -> Arc<T> {
            mem::replace(&mut *self.0.lock(), value)
        }
    }

    /// Like [`ArcSwap`], of a share that may be missing.
    #[derive(Debug)]
    pub struct ArcSwapOption<T>(Mutex<Option<Arc<T>>>);

    impl<T> ArcSwapOption<T> {
        pub fn empty() -> ArcSwapOption<T> {
            ArcSwapOption(Mutex::new(None))
        }

        pub fn load(&self) -> Guard<Option<Arc<T>>> {
            Guard(self.load_full())
        }

        pub fn load_full(&self) -> Option<Arc<T>> {
            self.0.lock().clone()
        }

        pub fn store(&self, value: Option<Arc<T>>) {
            let before = mem::replace(&mut *self.0.lock(), value);
            drop(before);
        }
    }

    /// Guarantees as much as the standard one: a thread that finds the value sees all that the setting thread did before.
    #[derive(Debug, Default)]
    pub struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        is_set: AtomicU64,
    }

    impl<T> OnceLock<T> {
        pub fn new() -> OnceLock<T> {
            OnceLock { value: std::sync::OnceLock::new(), is_set: AtomicU64::new(0) }
        }

        pub fn get(&self) -> Option<&T> {
            if self.is_set.load(Ordering::Acquire) == 1 { self.value.get() } else { None }
        }

        pub fn set(&self, value: T) -> Result<(), T> {
            self.value.set(value)?;
            self.is_set.store(1, Ordering::Release);
            Ok(())
        }
    }

    /// Stands for the type of this name without loom, and detects a read of freed memory.
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

    /// The allocations of one interleaving. All of its threads run on one thread of the system.
    #[derive(Default)]
    struct Heap {
        live: BTreeMap<usize, Layout>,
        freed: BTreeMap<usize, Layout>,
    }

    thread_local! {
        static HEAP: RefCell<Heap> = RefCell::default();
    }

    /// # Safety
    /// The requirements of `std::alloc::alloc`.
    pub unsafe fn alloc(layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the requirements of `std::alloc::alloc`.
        let start = unsafe { std::alloc::alloc(layout) };
        HEAP.with_borrow_mut(|heap| heap.live.insert(start.addr(), layout));
        start
    }

    /// Marks memory as freed. The memory is given back when the next interleaving begins, so a later reader finds the mark.
    ///
    /// # Safety
    /// The requirements of `std::alloc::dealloc`.
    pub unsafe fn dealloc(start: *mut u8, layout: Layout) {
        HEAP.with_borrow_mut(|heap| {
            assert_eq!(heap.live.remove(&start.addr()), Some(layout), "memory is freed twice");
            heap.freed.insert(start.expose_provenance(), layout);
        });
        // SAFETY: the allocation is given back only in `begin`.
        unsafe { start.write_bytes(FREED, layout.size()) };
    }

    /// Allocations that were not freed.
    #[cfg(test)]
    pub fn live_allocations() -> usize {
        HEAP.with_borrow(|heap| heap.live.len())
    }

    /// Begins an interleaving. All memory of the previous interleaving must have been freed.
    #[cfg(test)]
    pub fn begin() {
        let heap = HEAP.with_borrow_mut(mem::take);
        assert!(heap.live.is_empty(), "memory is not freed");
        for (start, layout) in heap.freed {
            // SAFETY: `dealloc` was called for `start` once, and the interleaving that may have read the memory is over.
            unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(start), layout) };
        }
    }
}

#[cfg(loom)]
pub use explored::*;
