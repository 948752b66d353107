//! What a crash leaves, decided by seeded dice.
//!
//! Independent coin flips for each unsynced change would rarely give the common crashes: only the first few kept, or only the last
//! lost. So a *mood* is drawn first, for each file and for the directories of each device together: for example, only a prefix of
//! the changes is kept. Then the mood decides about the changes.

use crate::inline::SeededRandom;

/// A kind of crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed. The operating system keeps all written data, synced or not. Of a store into a mapping that was
    /// under way it keeps any part. Locks are released.
    Process,
    /// Power fails before any unsynced change reached the disk.
    PowerAllLost,
    /// Power fails while unsynced changes were on their way. Each change may be kept or dropped, and a write may be torn at
    /// sectors. Lengths and names are decided apart from data. Changes of a failed sync may be kept or dropped as well.
    PowerTorn,
}

/// Decides the fate of a list of changes.
#[derive(Debug)]
pub(super) struct Dice {
    random: SeededRandom,
    mood: Mood,
}

#[derive(Debug)]
enum Mood {
    /// Each change is kept with a chance of `sixteenths` / 16; a change of length with `length_sixteenths` / 16.
    Independent { sixteenths: u64, length_sixteenths: u64 },
    /// The next `left` changes are kept, and the write after them may be torn.
    Prefix { left: u64 },
    /// A write was torn where the prefix ends. Its length may still be kept.
    Edge,
    /// All further changes are dropped.
    Nothing,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice { random: SeededRandom::new(seed), mood: Mood::Nothing }
    }

    /// Begins a new list of `changes` changes.
    pub fn begin(&mut self, changes: usize) {
        self.mood = match self.random.below(3) {
            0 => Mood::Prefix { left: self.random.below(changes as u64 + 1) },
            _ => Mood::Independent { sixteenths: self.bias(), length_sixteenths: self.bias() },
        };
    }

    fn bias(&self) -> u64 {
        const SIXTEENTHS: [u64; 6] = [0, 4, 8, 12, 15, 16];
        SIXTEENTHS[self.random.below(SIXTEENTHS.len() as u64) as usize]
    }

    /// Whether the next change, of bytes or a name, is kept.
    pub fn keeps(&mut self) -> bool {
        match self.mood {
            Mood::Independent { sixteenths, .. } => self.random.below(16) < sixteenths,
            _ => self.keeps_in_order(),
        }
    }

    /// Whether the next change of a length is kept.
    pub fn keeps_length(&mut self) -> bool {
        match self.mood {
            Mood::Independent { length_sixteenths, .. } => self.random.below(16) < length_sixteenths,
            Mood::Edge => {
                self.mood = Mood::Nothing;
                self.random.below(2) == 0
            }
            _ => self.keeps_in_order(),
        }
    }

    fn keeps_in_order(&mut self) -> bool {
        match &mut self.mood {
            Mood::Prefix { left } if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// How a write of `sectors` sectors that is not kept whole is torn. `None` keeps nothing of it.
    pub fn tear(&mut self, sectors: usize) -> Option<Tear> {
        match self.mood {
            Mood::Prefix { .. } => self.mood = Mood::Edge,
            Mood::Edge | Mood::Nothing => return None,
            Mood::Independent { .. } => {}
        }
        match self.random.below(4) {
            0 | 1 => None,
            2 => Some(Tear::Prefix { sectors: self.random.below(sectors as u64) as usize }),
            _ => Some(Tear::Subset),
        }
    }
}

/// Which sectors of a torn write are kept.
#[derive(Debug)]
pub(super) enum Tear {
    Prefix { sectors: usize },
    Subset,
}

impl Tear {
    pub fn keeps(&self, sector: usize, dice: &mut Dice) -> bool {
        match self {
            Tear::Prefix { sectors } => sector < *sectors,
            Tear::Subset => dice.random.below(2) == 0,
        }
    }
}
