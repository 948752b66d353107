//! One file: its bytes, the place of each page on the device and in the page cache, and which pages are dirty.
//!
//! A page is a hole, or granted (space without a place), or placed. Bytes are held in host memory page by page. A page
//! of zeros takes no memory, so a test can read a gigabyte without allocating it.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::cache::NONE;
use crate::profile::PAGE_BYTES;

type Bytes = Box<[u8; PAGE_BYTES as usize]>;

static ZEROS: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];

/// A page of a file.
#[derive(Debug)]
pub struct FilePage {
    /// The bytes; `None` for zeros.
    data: Option<Bytes>,
    /// The page on the device, or [`NONE`].
    pub place: u32,
    /// The slot of the page cache, or [`NONE`].
    pub slot: u32,
    /// Whether the page has granted space without a place.
    pub is_granted: bool,
    /// Whether the device holds the page's bytes, so an uncached read goes to the device. Preallocated pages are read
    /// as zeros.
    pub is_written: bool,
    /// The slot of the flash cache, or [`NONE`].
    pub flash: u32,
}

impl FilePage {
    const HOLE: FilePage =
        FilePage { data: None, place: NONE, slot: NONE, is_granted: false, is_written: false, flash: NONE };

    pub fn has_space(&self) -> bool {
        self.is_granted || self.place != NONE
    }
}

/// A file.
#[derive(Debug, Default)]
pub struct Inode {
    /// The device that holds the file.
    pub device: usize,
    pub len: u64,
    pub pages: Vec<FilePage>,
    pub dirty: BTreeSet<u32>,
    /// When the first dirty page became dirty.
    pub dirty_since_ns: u64,
    pub links: u32,
    pub handles: u32,
    pub is_locked: bool,
}

/// Splits a range of bytes at page boundaries: the page of each piece, and the range within the page.
pub fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u32, Range<usize>)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let page = at / PAGE_BYTES;
            let piece_end = end.min((page + 1) * PAGE_BYTES);
            let within = (at - page * PAGE_BYTES) as usize..(piece_end - page * PAGE_BYTES) as usize;
            at = piece_end;
            (page as u32, within)
        })
    })
}

impl Inode {
    /// A new file on a device, with a name and a handle.
    pub fn created(device: usize) -> Inode {
        Inode { device, links: 1, handles: 1, ..Inode::default() }
    }

    /// The page; extends the list of pages if necessary.
    pub fn page_mut(&mut self, page: u32) -> &mut FilePage {
        while self.pages.len() <= page as usize {
            self.pages.push(FilePage::HOLE);
        }
        &mut self.pages[page as usize]
    }

    /// Copies the bytes from `offset` on, up to the length. Returns the number of bytes.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let wanted = (buf.len() as u64).min(self.len.saturating_sub(offset));
        let mut filled = 0;
        for (page, within) in pieces(offset, wanted) {
            let out = &mut buf[filled..filled + within.len()];
            filled += within.len();
            match self.pages.get(page as usize).and_then(|page| page.data.as_ref()) {
                Some(data) => out.copy_from_slice(&data[within]),
                None => out.fill(0),
            }
        }
        filled
    }

    /// Sets bytes of one page, without changing the length.
    pub fn write(&mut self, page: u32, within: Range<usize>, bytes: &[u8]) {
        let data = &mut self.page_mut(page).data;
        if data.is_none() && bytes == &ZEROS[..bytes.len()] {
            return;
        }
        data.get_or_insert_with(|| Box::new([0; PAGE_BYTES as usize]))[within].copy_from_slice(bytes);
    }

    /// Sets bytes of one page to zero, if the file has the page.
    pub fn zero(&mut self, page: u32, within: Range<usize>) {
        if let Some(data) = self.pages.get_mut(page as usize).and_then(|page| page.data.as_mut()) {
            data[within].fill(0);
        }
    }

    /// Makes a page a hole. The caller must have freed its space and its slots.
    pub fn forget(&mut self, page: u32) {
        self.pages[page as usize] = FilePage::HOLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_take_no_memory_and_are_read_back() {
        let mut inode = Inode { len: 3 * PAGE_BYTES, ..Inode::default() };
        inode.write(2, 0..4096, &[0; 4096]);
        assert!(inode.pages[2].data.is_none());
        inode.write(1, 10..13, b"abc");
        let mut bytes = [7; 8192];
        assert_eq!(inode.read(4096 + 9, &mut bytes[..5]), 5);
        assert_eq!(&bytes[..5], b"\0abc\0");
        inode.zero(1, 11..12);
        assert_eq!(inode.read(2 * PAGE_BYTES - 1, &mut bytes), 4097);
        inode.read(4096 + 10, &mut bytes[..3]);
        assert_eq!(&bytes[..3], b"a\0c");
        inode.write(1, 10..13, &[0; 3]);
        inode.read(4096 + 10, &mut bytes[..3]);
        assert_eq!(bytes[..3], [0; 3]);
    }

    #[test]
    fn pieces_lie_in_one_page_each() {
        assert_eq!(pieces(4000, 5000).collect::<Vec<_>>(), [(0, 4000..4096), (1, 0..4096), (2, 0..808)]);
        assert_eq!(pieces(5, 0).count(), 0);
    }
}
