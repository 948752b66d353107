//! `TIER`: the file that tells which tier of which database a slow directory is, and in which state of the database it was used last.
//!
//! ```text
//! TIER    103 bytes
//!   0  magic              "BRAIDTIR"
//!   8  version            u16     1
//!  10  required features  u32     none is known
//!  14  optional features  u32     none is known
//!  18  database id        16 bytes
//!  34  tier               u8
//!  35  epoch              u64
//!  43  earlier            u64     the epoch before, until the open is confirmed; then the epoch
//!  51  times              6 × u64 seek ns, read bytes/s, write bytes/s of the slow device, then of the fast one; 0: unknown
//!  99  crc                u32     of (0, 0, bytes 0..99)
//! ```
//!
//! `TIER` is never changed in place. A new one is written to `TIER.tmp`, synced, and renamed over the old one, and the directory is
//! synced.
//!
//! # Epochs: at most one of two copies goes on
//!
//! A user may copy the directory of a database, or go back to an older copy. Then two manifests have the same database id, and one slow
//! directory. Each would delete the other's tables as orphans. Epochs keep them apart. Each open, and each close, draws a new epoch `n`: the
//! epoch `e` of the manifest, plus 1, plus a random number below 2^32.
//!
//! | step of the open or close | `TIER` says epoch, earlier | manifest | which manifests the tier accepts |
//! |---|---|---|---|
//! | before | `e`, `e` | `e` | `e` |
//! | (a) `TIER` is written and synced | `n`, `e` | `e` | `n` and `e` |
//! | (b) the edit of recovery, or the last edit, is synced | `n`, `e` | `n` | `n` and `e` |
//! | (c) `TIER` is confirmed, before any job starts | `n`, `n` | `n` | `n` |
//!
//! A tier accepts the manifest whose epoch it names, as its own epoch, or as the earlier one of an open that was not confirmed. So an open
//! that dies at any step leaves a tier that its own manifest opens again.
//!
//! Let the other copy have epoch `e`, too. It is accepted up to (c). No file of the tier has changed by then, since no job ran: the copy
//! takes over a tier as it was at `e`. Its own step (a) writes `m`, `e`, with another random number. From then on the first manifest is
//! refused if its edit (b) was synced: `n` is neither `m` nor `e`. If (b) was not synced, both are at `e`, and nothing is lost with
//! either. After (c) of one copy, the other is refused for good.
//!
//! A close raises the epoch because a manifest that was copied while the database was open has the epoch of the open. After the close it is
//! too old. If the database was not closed, because its process died, such a copy cannot be told from the database: copies must be made
//! while the database is closed. If a slow device fails during a close, the epoch stays.

use super::current;
use crate::base::checksum::at_place;
use crate::base::codec::{Decoder, put_u32, put_u64};
use crate::base::error::{Error, Result};
use crate::base::ids::{DatabaseId, Epoch, TierId};
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::tier_dirs::Times;
use braidb_storage::{DeviceTimes, FileSystem, Random};
use std::io;
use std::path::Path;

const MAGIC: &[u8; 8] = b"BRAIDTIR";
const VERSION: u16 = 1;
const BYTES: usize = 103;

/// A random epoch above `epoch`, so that two copies of a database that are opened at one epoch get different epochs. `None` if there is no
/// larger one.
pub fn next_epoch(epoch: Epoch, random: &dyn Random) -> Option<Epoch> {
    if mutant!("epoch_not_raised") {
        return Some(epoch);
    }
    epoch.checked_add(1 + (random.next_u64() >> 32))
}

/// The content of a `TIER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierFile {
    pub database: DatabaseId,
    pub tier: TierId,
    pub epoch: Epoch,
    /// The epoch of the manifest when the open began. Equal to `epoch` once the open is confirmed.
    pub earlier: Epoch,
    pub times: Times,
}

impl TierFile {
    /// Whether the tier accepts a manifest with this epoch.
    pub fn accepts(&self, manifest: Epoch) -> bool {
        manifest == self.epoch || manifest == self.earlier
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        put_u32(&mut out, 0);
        put_u32(&mut out, 0);
        out.extend_from_slice(&self.database.0);
        out.push(self.tier.0);
        put_u64(&mut out, self.epoch);
        put_u64(&mut out, self.earlier);
        for device in [self.times.slow, self.times.fast] {
            let numbers = device.map_or([0; 3], |times| {
                [times.seek_ns, times.read_bytes_per_second, times.write_bytes_per_second]
            });
            numbers.into_iter().for_each(|number| put_u64(&mut out, number));
        }
        let crc = at_place(0, 0, &[&out]);
        put_u32(&mut out, crc);
        assert_eq!(out.len(), BYTES);
        out
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<TierFile> {
        let damaged = |what: &str| Error::corruption(path, 0, what);
        let unsupported = |what: String| Error::Unsupported { path: path.to_owned(), what };
        let content = bytes.len().checked_sub(4).map(|end| bytes.split_at(end));
        let (content, crc) = content.ok_or_else(|| damaged("the file is too short"))?;
        if !content.starts_with(MAGIC) || at_place(0, 0, &[content]).to_le_bytes() != crc {
            return Err(damaged("the file is not a whole TIER"));
        }
        let mut input = Decoder::new(&content[MAGIC.len()..]);
        let head = (|| Some((input.take(2)?, input.u32()?, input.u32()?)))();
        let (version, required, _) = head.ok_or_else(|| damaged("the file is too short"))?;
        if version != VERSION.to_le_bytes() {
            let version = u16::from_le_bytes([version[0], version[1]]);
            return Err(unsupported(format!("the tier has version {version}")));
        }
        if required != 0 {
            return Err(unsupported(format!("the tier requires features {required:#x}")));
        }
        TierFile::parse(&mut input).ok_or_else(|| damaged("the file has another length than a TIER"))
    }

    /// Reads what follows the feature bits.
    fn parse(input: &mut Decoder<'_>) -> Option<TierFile> {
        let database = DatabaseId(input.take(16)?.try_into().ok()?);
        let (tier, epoch, earlier) = (TierId(input.u8()?), input.u64()?, input.u64()?);
        let mut device = || {
            let numbers = [input.u64()?, input.u64()?, input.u64()?];
            let [seek_ns, read_bytes_per_second, write_bytes_per_second] = numbers;
            let times = DeviceTimes { seek_ns, read_bytes_per_second, write_bytes_per_second };
            Some((!numbers.contains(&0)).then_some(times))
        };
        let times = Times { slow: device()?, fast: device()? };
        input.is_empty().then_some(TierFile { database, tier, epoch, earlier, times })
    }

    /// Reads the `TIER` of a directory. `None` if it has none.
    pub fn read(fs: &dyn FileSystem, dir: &Path) -> Result<Option<TierFile>> {
        let path = dir.join(names::TIER);
        match current::read_file(fs, &path) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            read => TierFile::decode(&path, &read?).map(Some),
        }
    }

    /// Makes this the `TIER` of a directory, stable with its name. After an error either the old or the new one is in place.
    pub fn write(&self, fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        let (tmp, path) = (dir.join(names::TIER_TMP), dir.join(names::TIER));
        match fs.unlink(&tmp) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &tmp, error));
            }
            _ => {}
        }
        if let Err(error) = self.write_new(fs, dir, &tmp) {
            // The next open removes the file if this fails.
            let _ = fs.unlink(&tmp);
            return Err(error);
        }
        fs.rename(&tmp, &path).map_err(|error| Error::io("rename", &tmp, error))?;
        fs.sync_dir(dir).map_err(|error| Error::io("sync the directory", dir, error))
    }

    fn write_new(&self, fs: &dyn FileSystem, dir: &Path, path: &Path) -> Result<()> {
        let file = fs.create(path).map_err(|error| Error::io("create", path, error))?;
        file.preallocate(BYTES as u64).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => {
                let free_bytes = fs.free_space(dir).unwrap_or(0);
                Error::Full { path: path.to_owned(), free_bytes, needed_bytes: BYTES as u64 }
            }
            _ => Error::io("allocate space for", path, error),
        })?;
        file.append(&self.encode()).map_err(|error| Error::io("append to", path, error))?;
        file.sync_data().map_err(|error| Error::io("sync", path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_storage::sim::{Crash, Fault, Lasting, SimFs};

    const DIR: &str = "/slow";

    fn tier_file(epoch: Epoch, earlier: Epoch) -> TierFile {
        let (seek_ns, read_bytes_per_second) = (8_000_000, 200 << 20);
        let slow = DeviceTimes { seek_ns, read_bytes_per_second, write_bytes_per_second: u64::MAX };
        let times = Times { slow: Some(slow), fast: None };
        TierFile { database: DatabaseId(*b"sixteen bytes id"), tier: TierId(3), epoch, earlier, times }
    }

    fn disk() -> SimFs {
        let fs = SimFs::new();
        fs.create_dir_all(Path::new(DIR)).unwrap();
        fs.set_appends_need_space(true);
        fs
    }

    #[test]
    fn it_comes_back_and_no_flip_does() {
        let file = tier_file(u64::MAX, 7);
        let bytes = file.encode();
        assert_eq!(bytes.len(), BYTES);
        let path = Path::new("/slow/TIER");
        assert_eq!(TierFile::decode(path, &bytes).unwrap(), file);
        for bit in 0..BYTES * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(TierFile::decode(path, &flipped).unwrap_err().is_corruption(), "bit {bit}");
        }
        for len in 0..BYTES {
            assert!(TierFile::decode(path, &bytes[..len]).unwrap_err().is_corruption(), "cut to {len}");
        }
    }

    #[test]
    fn a_newer_format_is_unsupported() {
        let path = Path::new("/slow/TIER");
        for (at, what) in [(8, "version"), (10, "features")] {
            let mut bytes = tier_file(1, 1).encode();
            bytes[at] += 1;
            let crc = at_place(0, 0, &[&bytes[..BYTES - 4]]);
            bytes[BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
            match TierFile::decode(path, &bytes) {
                Err(Error::Unsupported { what: named, .. }) => assert!(named.contains(what), "{named}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_tier_accepts_its_epoch_and_that_of_an_open_that_was_not_confirmed() {
        let accepted = |file: TierFile| [4, 5, 9, 10].map(|epoch| file.accepts(epoch));
        assert_eq!(accepted(tier_file(9, 5)), [false, true, true, false]);
        assert_eq!(accepted(tier_file(9, 9)), [false, false, true, false]);
    }

    #[test]
    fn whenever_a_write_ends_there_is_an_old_or_a_new_one() {
        let dir = Path::new(DIR);
        for nth in 1.. {
            let fs = disk();
            tier_file(1, 1).write(&fs, dir).unwrap();
            fs.write_file(&dir.join(names::TIER_TMP), b"left by a crash").unwrap();
            fs.fail_nth_where(nth, Fault::Io, Lasting::ForEver, nth, |op| op.kind.mutates());
            let written = tier_file(2, 1).write(&fs, dir);
            for seed in 0..20 {
                let left = TierFile::read(&fs.crash_image(Crash::PowerTorn, seed), dir).unwrap();
                let left = left.expect("there was one").epoch;
                assert!(left == 2 || written.is_err() && left == 1, "operation {nth}: epoch {left}");
            }
            if written.is_ok() {
                assert!(nth > 6, "every operation was failed");
                return;
            }
        }
    }

    #[test]
    fn a_full_device_is_named() {
        let fs = disk();
        fs.set_capacity(Some(0));
        assert!(tier_file(1, 1).write(&fs, Path::new(DIR)).unwrap_err().is_full());
        assert!(fs.files().is_empty());
        assert_eq!(TierFile::read(&fs, Path::new(DIR)).unwrap(), None);
    }
}
