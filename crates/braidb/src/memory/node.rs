//! What lies in the arenas: nodes, versions, records, and the links between them.
//!
//! ```text
//!  Node                                    Version
//!   0  prefix    first 8 bytes of the key   0  older ──► the next older version, or null
//!   8  newest ──► the version chain         8  Record
//!  16  key_len   u32                            0  seq_and_kind   seq << 8 | kind
//!  20  height    u32                            8  key_len        u32
//!  24  tower     height links                  12  value_len      u32
//!   …  the key                                 16  the key, then the value
//! ```
//!
//! Nodes lie in one arena of a segment and versions in another. A search hops through nodes, so they carry the key and should
//! fill few cache lines. When the segment is flattened, the nodes are freed and the records stay where they are. So a record
//! holds the whole entry by itself. A search compares prefixes, and reads the key only when they are equal.
//!
//! A [`Link`] holds null or the address of a node (or version) that is whole and lives as long as the link does. `write` and
//! [`Link::publish`] uphold this invariant. So following links is safe code: [`Link::next`] gives a [`Ref`], which may be read
//! while the segment is borrowed. A `Ref` keeps the raw pointer, because a reference to the head of a node may not be used to
//! reach the tower and the key behind the head.

use super::arena::ALIGN;

use crate::base::ids::{MAX_SEQ, SeqNo};
use crate::base::key::prefix_u64;
use crate::base::prefetch;
use crate::base::sync::{AtomicPtr, Ordering, PlainBytes};
use crate::visible::EntryKind;
use std::cmp;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::slice;

/// The tallest tower, in levels. Each level has a quarter of the nodes of the level below: 12 levels suffice for tens of millions
/// of keys.
pub const MAX_HEIGHT: usize = if cfg!(loom) { 2 } else { 12 };

/// Cache lines that are prefetched of an entry that will be read soon: 3. They hold its first 136 bytes or more, of which at most 24 are
/// fields.
const ENTRY_LINES: usize = 3;

/// An atomic pointer to a `T` in the same arena, or null.
pub struct Link<T>(AtomicPtr<T>);

impl<T> Link<T> {
    pub fn null() -> Link<T> {
        Link(AtomicPtr::new(ptr::null_mut()))
    }

    /// # Safety
    /// `target` lives as long as the link will.
    unsafe fn to(target: Option<Ref<'_, T>>) -> Link<T> {
        target.map_or_else(Link::null, |target| Link(AtomicPtr::new(target.at.as_ptr())))
    }

    #[inline]
    pub fn next(&self) -> Option<Ref<'_, T>> {
        // Acquire: pairs with `publish`, so that what the target's writer wrote is seen.
        NonNull::new(self.0.load(Ordering::Acquire)).map(|at| Ref { at, arena: PhantomData })
    }

    /// Makes `target` reachable.
    ///
    /// # Safety
    /// `target` lives as long as this link does, and is linked to the current target of this link. No other store to this link
    /// runs at the same time.
    #[inline]
    pub unsafe fn publish(&self, target: Ref<'_, T>) {
        self.0.store(target.at.as_ptr(), Ordering::Release);
    }
}

/// A `T` in an arena that is borrowed for `'a`.
pub struct Ref<'a, T> {
    at: NonNull<T>,
    arena: PhantomData<&'a T>,
}

// SAFETY: a `Ref` is a shared reference to something whose plain bytes never change while it is reachable, and whose
// links are atomic.
unsafe impl<T> Send for Ref<'_, T> {}
// SAFETY: a shared `Ref` gives what a `Ref` gives: plain bytes that do not change, and atomic links.
unsafe impl<T> Sync for Ref<'_, T> {}

impl<T> Clone for Ref<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<'_, T> {}

impl<T> PartialEq for Ref<'_, T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<'a, T> Ref<'a, T> {
    /// Ends the borrow of the arena.
    ///
    /// # Safety
    /// The result is used only while the arena lives.
    #[inline]
    pub unsafe fn detached(self) -> Ref<'static, T> {
        Ref { at: self.at, arena: PhantomData }
    }

    /// Tells the processor that the target will be read soon.
    #[inline]
    pub fn prefetch(self) {
        prefetch::line(self.at.as_ptr());
    }

    /// As [`Ref::prefetch`], for all of a small entry. A walk that reads values would otherwise wait for the end of each.
    #[inline]
    pub fn prefetch_entry(self) {
        let first = self.at.as_ptr().cast::<u8>();
        (0..ENTRY_LINES).for_each(|number| prefetch::line(first.wrapping_add(number * prefetch::LINE_BYTES)));
    }

    #[inline]
    fn head(self) -> &'a T {
        // SAFETY: the target was written whole before it was published, and the arena lives for `'a`.
        unsafe { self.at.as_ref() }
    }

    /// The address `offset` bytes into the target.
    ///
    /// # Safety
    /// The address lies within the piece of the arena that the target was written to.
    #[inline]
    unsafe fn part(self, offset: usize) -> NonNull<u8> {
        // SAFETY: within one allocation, by the caller's promise; the pointer was never narrowed to the head.
        unsafe { self.at.cast::<u8>().add(offset) }
    }
}

/// One user key.
#[repr(C)]
pub struct Node {
    prefix: u64,
    newest: Link<Version>,
    key_len: u32,
    height: u32,
    plain: PlainBytes,
}

const TOWER: usize = size_of::<Node>().next_multiple_of(align_of::<Link<Node>>());
const _: () = assert!(align_of::<Node>() <= ALIGN && align_of::<Version>() <= ALIGN);

impl Node {
    /// The room that a node takes.
    #[inline]
    pub fn layout(height: usize, key_len: usize) -> usize {
        TOWER + height * size_of::<Link<Node>>() + key_len
    }

    /// Writes a node that leads to `newest`, and on each level to one of `next`.
    ///
    /// # Safety
    /// `at` is a fresh piece, with the room that [`Node::layout`] asks for. Its arena lives as long as the arenas of `newest` and
    /// `next`.
    pub unsafe fn write<'a>(
        at: NonNull<u8>,
        key: &[u8],
        newest: Ref<'a, Version>,
        next: &[Option<Ref<'a, Node>>],
    ) -> Ref<'a, Node> {
        let node = Node {
            prefix: prefix_u64(key),
            // SAFETY: both arenas live as long, by the caller's promise.
            newest: unsafe { Link::to(Some(newest)) },
            key_len: key.len() as u32,
            height: next.len() as u32,
            plain: PlainBytes::written(),
        };
        // SAFETY: all three parts lie within the piece, one behind the other; pieces are aligned for nodes and links.
        // The nodes that the links lead to live as long.
        unsafe {
            at.cast::<Node>().write(node);
            let tower = at.add(TOWER).cast::<Link<Node>>();
            for (level, &next) in next.iter().enumerate() {
                tower.add(level).write(Link::to(next));
            }
            tower.add(next.len()).cast::<u8>().copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        }
        Ref { at: at.cast(), arena: PhantomData }
    }
}

impl<'a> Ref<'a, Node> {
    /// The link to the next node that is taller than `level`.
    #[inline]
    pub fn link(self, level: usize) -> &'a Link<Node> {
        let node = self.head();
        node.plain.read();
        assert!(level < node.height as usize);
        // SAFETY: `write` put `height` links there; the arena lives for `'a`.
        unsafe { self.part(TOWER).cast::<Link<Node>>().add(level).as_ref() }
    }

    #[inline]
    pub fn key(self) -> &'a [u8] {
        let node = self.head();
        node.plain.read();
        // SAFETY: `write` copied `key_len` bytes to behind the tower; they never change, and the arena lives for `'a`.
        unsafe {
            let key = self.part(TOWER + node.height as usize * size_of::<Link<Node>>());
            slice::from_raw_parts(key.as_ptr(), node.key_len as usize)
        }
    }

    /// Compares the node's key with `key`, whose prefix is `prefix`.
    #[inline]
    pub fn order(self, prefix: u64, key: &[u8]) -> cmp::Ordering {
        let node = self.head();
        node.plain.read();
        node.prefix.cmp(&prefix).then_with(|| self.key().cmp(key))
    }

    #[inline]
    pub fn newest(self) -> Ref<'a, Version> {
        self.head().newest.next().expect("a node is written with a version")
    }

    /// The newest version at or below `at`.
    #[inline]
    pub fn version(self, at: SeqNo) -> Option<Ref<'a, Version>> {
        let mut version = self.newest();
        while version.seq() > at {
            version = version.older()?;
        }
        Some(version)
    }

    /// The link of the chain that a version `seq` belongs to: all versions before it are newer, all behind it older.
    pub fn place(self, seq: SeqNo) -> &'a Link<Version> {
        let mut link = &self.head().newest;
        while let Some(version) = link.next() {
            assert_ne!(version.seq(), seq, "a key gets each sequence number once");
            if version.seq() < seq {
                break;
            }
            link = &version.head().older;
        }
        link
    }
}

/// One version of a key, in the chain of a node.
#[repr(C)]
pub struct Version {
    older: Link<Version>,
    record: Record,
}

/// One entry, whole: the key and then the value follow.
#[repr(C)]
pub struct Record {
    seq_and_kind: u64,
    key_len: u32,
    value_len: u32,
    plain: PlainBytes,
}

const _: () = assert!(align_of::<Record>() <= ALIGN);

impl Version {
    /// The room that a version takes.
    #[inline]
    pub fn layout(key_len: usize, value_len: usize) -> usize {
        offset_of!(Version, record) + Record::layout(key_len, value_len)
    }

    /// Writes a version that leads to `older`.
    ///
    /// # Safety
    /// `at` is a fresh piece of the arena that `older` lies in, with the room that [`Version::layout`] asks for.
    pub unsafe fn write<'a>(
        at: NonNull<u8>,
        entry: Entry<'_>,
        older: Option<Ref<'a, Version>>,
    ) -> Ref<'a, Version> {
        // SAFETY: both parts lie within the piece, one behind the other, and it is aligned for both. The link leads to a
        // version of the same arena.
        unsafe {
            at.cast::<Link<Version>>().write(Link::to(older));
            Record::write(at.add(offset_of!(Version, record)), entry);
        }
        Ref { at: at.cast(), arena: PhantomData }
    }
}

/// The fields of a record.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub key: &'a [u8],
    pub seq: SeqNo,
    pub kind: EntryKind,
    pub value: &'a [u8],
}

impl Record {
    /// The room that a record takes.
    #[inline]
    pub fn layout(key_len: usize, value_len: usize) -> usize {
        size_of::<Record>() + key_len + value_len
    }

    /// Writes a record.
    ///
    /// # Safety
    /// `at` is a fresh piece of an arena, with the room that [`Record::layout`] asks for.
    pub unsafe fn write<'a>(at: NonNull<u8>, entry: Entry<'_>) -> Ref<'a, Record> {
        let Entry { key, seq, kind, value } = entry;
        debug_assert!(seq <= MAX_SEQ);
        let record = Record {
            seq_and_kind: seq << 8 | kind as u64,
            key_len: key.len() as u32,
            value_len: value.len() as u32,
            plain: PlainBytes::written(),
        };
        // SAFETY: the three parts lie within the piece, one behind the other.
        unsafe {
            at.cast::<Record>().write(record);
            let bytes = at.add(size_of::<Record>());
            bytes.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            bytes.add(key.len()).copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        Ref { at: at.cast(), arena: PhantomData }
    }
}

impl<'a> Ref<'a, Version> {
    #[inline]
    pub fn record(self) -> Ref<'a, Record> {
        // SAFETY: it lies within the version.
        Ref { at: unsafe { self.part(offset_of!(Version, record)) }.cast(), arena: PhantomData }
    }

    #[inline]
    pub fn seq(self) -> SeqNo {
        self.record().seq()
    }

    #[inline]
    pub fn older(self) -> Option<Ref<'a, Version>> {
        self.head().older.next()
    }
}

impl<'a> Ref<'a, Record> {
    /// Tells the processor that a reader will soon read the number and the key, if the key is short.
    #[inline]
    pub fn prefetch_key(self) {
        self.prefetch();
        prefetch::line(self.at.as_ptr().wrapping_byte_add(prefetch::LINE_BYTES));
    }

    #[inline]
    pub fn seq(self) -> SeqNo {
        let record = self.head();
        record.plain.read();
        record.seq_and_kind >> 8
    }

    #[inline]
    pub fn kind(self) -> EntryKind {
        let record = self.head();
        record.plain.read();
        EntryKind::from_u8(record.seq_and_kind as u8).expect("it was written from a kind")
    }

    #[inline]
    pub fn key(self) -> &'a [u8] {
        let record = self.head();
        record.plain.read();
        // SAFETY: `write` copied `key_len` bytes there; they never change, and the arena lives for `'a`.
        unsafe { slice::from_raw_parts(self.part(size_of::<Record>()).as_ptr(), record.key_len as usize) }
    }

    #[inline]
    pub fn value(self) -> &'a [u8] {
        let record = self.head();
        record.plain.read();
        // SAFETY: `write` copied `value_len` bytes to behind the key; they never change, and the arena lives for `'a`.
        unsafe {
            let value = self.part(size_of::<Record>() + record.key_len as usize);
            slice::from_raw_parts(value.as_ptr(), record.value_len as usize)
        }
    }

    #[inline]
    pub fn entry(self) -> Entry<'a> {
        Entry { key: self.key(), seq: self.seq(), kind: self.kind(), value: self.value() }
    }

    /// The room that a copy takes.
    #[inline]
    pub fn layout(self) -> usize {
        let record = self.head();
        record.plain.read();
        Record::layout(record.key_len as usize, record.value_len as usize)
    }
}
