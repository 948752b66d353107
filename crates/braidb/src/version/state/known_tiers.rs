//! The tiers that the state knows: ids, epochs, and where the user said that they are.
//!
//! A tier joins the state with a new id, which is larger than all ids before it. It leaves when no file of the state is on it. A
//! snapshot keeps the largest id that was ever given: it adds the tier and removes it again.

use super::State;
use super::edit::{Change, Edit, Reject};
use crate::base::ids::{DatabaseId, Epoch, TierId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the state knows of its tiers.
#[derive(Clone, Debug)]
pub(super) struct KnownTiers {
    /// By id. Once there is a slow tier, all tiers have one epoch.
    epochs: BTreeMap<TierId, Epoch>,
    places: BTreeMap<TierId, PathBuf>,
    database: Option<DatabaseId>,
    /// The largest id that was ever given.
    last: TierId,
}

impl Default for KnownTiers {
    fn default() -> KnownTiers {
        let (epochs, places) = (BTreeMap::new(), BTreeMap::new());
        KnownTiers { epochs, places, database: None, last: TierId::FAST }
    }
}

/// A tier of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier<'a> {
    pub id: TierId,
    pub epoch: Epoch,
    /// Where the user said that the tier is; the fast tier: the path at which the database was opened. Unknown until there is a slow
    /// tier.
    pub place: Option<&'a Path>,
}

impl KnownTiers {
    pub fn contains(&self, tier: TierId) -> bool {
        self.epochs.contains_key(&tier)
    }

    /// Adds a tier, or raises its epoch.
    pub fn raise(&mut self, id: TierId, epoch: Epoch) -> Result<(), Reject> {
        match self.epochs.insert(id, epoch) {
            Some(earlier) if earlier > epoch => {
                return Err(format!("the epoch of tier {} falls to {epoch}", id.0).into());
            }
            None if id != TierId::FAST && id <= self.last => {
                return Err(format!("the id {} of a tier was given before", id.0).into());
            }
            _ => {}
        }
        self.last = self.last.max(id);
        Ok(())
    }

    /// Adds to `edit` the changes that make these tiers in a state without tiers.
    pub fn add_to(&self, edit: &mut Edit) {
        edit.changes.extend(self.database.map(Change::DatabaseId));
        for (&id, &epoch) in &self.epochs {
            edit.push(Change::Tier { id, epoch });
        }
        for (&id, path) in &self.places {
            edit.push(Change::TierPlace { id, path: path.clone() });
        }
        if let Some(&epoch) = self.epochs.get(&TierId::FAST)
            && !self.contains(self.last)
        {
            edit.push(Change::Tier { id: self.last, epoch });
            edit.push(Change::TierRemoved { id: self.last });
        }
    }

    fn set_database(&mut self, id: DatabaseId) -> Result<(), Reject> {
        match self.database.replace(id) {
            Some(earlier) if earlier != id => Err("the id of the database changes".to_owned().into()),
            _ => Ok(()),
        }
    }

    /// Checks what holds after each edit.
    fn check(&self) -> Result<(), Reject> {
        let has_slow = self.epochs.keys().any(|&id| id != TierId::FAST);
        if has_slow && self.database.is_none() {
            return Err("there is a slow tier, but no database id".to_owned().into());
        }
        let fast = self.epochs.get(&TierId::FAST);
        if has_slow && self.epochs.values().any(|epoch| Some(epoch) != fast) {
            return Err("the tiers have different epochs".to_owned().into());
        }
        Ok(())
    }
}

impl State {
    /// The tiers, by id: the fast one first.
    pub fn tiers(&self) -> impl Iterator<Item = Tier<'_>> {
        let KnownTiers { epochs, places, .. } = &self.tiers;
        epochs.iter().map(|(&id, &epoch)| Tier { id, epoch, place: places.get(&id).map(PathBuf::as_path) })
    }

    pub fn slow_tiers(&self) -> impl Iterator<Item = Tier<'_>> {
        self.tiers().filter(|tier| tier.id != TierId::FAST)
    }

    /// The database's id. `None` for a database that never had a slow tier.
    pub fn database(&self) -> Option<DatabaseId> {
        self.tiers.database
    }

    /// The state of another database, which begins with the files of this one and whose tiers are at `place`. It gets an id of its own if
    /// this one has an id.
    pub fn for_another(mut self, id: DatabaseId, place: impl Fn(TierId) -> PathBuf) -> State {
        self.tiers.database = self.tiers.database.map(|_| id);
        self.tiers.places.iter_mut().for_each(|(&tier, path)| *path = place(tier));
        self
    }

    /// The largest id that a tier ever had.
    pub fn last_tier(&self) -> TierId {
        self.tiers.last
    }

    /// Applies the changes of an edit that depend on all tiers and files of the state.
    pub(super) fn apply_tiers(&mut self, edit: &Edit) -> Result<(), Reject> {
        for change in &edit.changes {
            match change {
                Change::DatabaseId(id) => self.tiers.set_database(*id)?,
                Change::TierPlace { id, path } => {
                    if !self.tiers.contains(*id) {
                        return Err(format!("there is no tier {}", id.0).into());
                    }
                    self.tiers.places.insert(*id, path.clone());
                }
                Change::TierRemoved { id } => self.remove_tier(*id)?,
                _ => {}
            }
        }
        self.tiers.check()
    }

    /// Checks that each slow cell has one run, and nothing beneath (rule 12), after an edit of a state in which this held.
    ///
    /// An edit can break the rule with a slice that joins a slow cell or lies beneath one, with a slow slice, or with a change of a guard
    /// that joins two cells. Each cell that is changed in these ways, and each cell above it, holds the low key of the slice's cell, or the
    /// guard. So the cells that hold these keys are checked.
    pub(super) fn check_slow_cells(&self, edit: &Edit) -> Result<(), Reject> {
        let places = edit.changes.iter().filter_map(|change| match change {
            Change::SliceAdded { family, run, .. } => Some((*family, run.cell.as_slice())),
            Change::Guard { family, key, .. } => Some((*family, key.as_slice())),
            _ => None,
        });
        for (family, key) in places.collect::<BTreeSet<_>>() {
            self.families[&family].version.check_slow_cells_at(key)?;
        }
        Ok(())
    }

    fn remove_tier(&mut self, id: TierId) -> Result<(), Reject> {
        let has_tables = self.tables().any(|table| table.tier == id);
        if id == TierId::FAST || has_tables || self.value_files.values().any(|file| file.tier == id) {
            return Err(format!("tier {} is removed, but there are files on it", id.0).into());
        }
        self.tiers.places.remove(&id);
        match self.tiers.epochs.remove(&id) {
            Some(_) => Ok(()),
            None => Err(format!("there is no tier {}", id.0).into()),
        }
    }
}
