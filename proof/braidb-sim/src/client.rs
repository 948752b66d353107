//! One open database as the judges use it. It opens families by index, scans with one call, and compares all ways to read
//! everything.

use crate::model::{State, show, show_bytes};
use crate::workload::{Bytes, COUNTER_KEY, Change, FAMILIES, Span};
use braidb::{ColumnFamily, Db, Durability, Iter, Snapshot, Value, WriteBatch};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Why a read has no result.
#[derive(Debug)]
pub enum Trouble {
    /// The database reported an error.
    Failed(braidb::Error),
    /// Two ways to read disagree, or entries are out of order: a silent error.
    Wrong(String),
}

impl From<braidb::Error> for Trouble {
    fn from(error: braidb::Error) -> Trouble {
        Trouble::Failed(error)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Failed(error) => write!(f, "it fails: {error}"),
            Trouble::Wrong(what) => write!(f, "{what}"),
        }
    }
}

/// An open database and its families.
#[derive(Clone, Debug)]
pub struct Client {
    pub db: Db,
    families: [Option<ColumnFamily>; FAMILIES.len()],
}

impl Client {
    /// Opens the existing families. [`Client::create`] opens the others.
    pub fn new(db: Db) -> Result<Client, braidb::Error> {
        let mut client = Client { db, families: Default::default() };
        let existing = client.db.column_families();
        for (family, name) in FAMILIES.iter().enumerate() {
            if existing.iter().any(|known| known == name) {
                client.create(family)?;
            }
        }
        Ok(client)
    }

    /// Opens or creates a family.
    pub fn create(&mut self, family: usize) -> Result<(), braidb::Error> {
        self.families[family] = Some(self.db.create_column_family(FAMILIES[family])?);
        Ok(())
    }

    /// Whether the family is open.
    pub fn has(&self, family: usize) -> bool {
        self.families[family].is_some()
    }

    /// A family that is open.
    pub fn family(&self, family: usize) -> &ColumnFamily {
        self.families[family].as_ref().expect("a family is opened before it is used")
    }

    /// Writes a batch.
    pub fn write(&self, changes: &[Change], durability: Option<Durability>) -> Result<(), braidb::Error> {
        let mut batch = WriteBatch::new();
        for Change { family, key, value } in changes {
            match (family, value) {
                (0, Some(value)) => batch.put(key, value),
                (0, None) => batch.delete(key),
                (_, Some(value)) => batch.put_in(self.family(*family), key, value),
                (_, None) => batch.delete_in(self.family(*family), key),
            };
        }
        match durability {
            Some(durability) => self.db.write_with(batch, durability),
            None => self.db.write(batch),
        }
    }

    /// Writes one change by the single-key calls.
    pub fn write_plainly(&self, Change { family, key, value }: &Change) -> Result<(), braidb::Error> {
        match (family, value) {
            (0, Some(value)) => self.db.put(key, value),
            (0, None) => self.db.delete(key),
            (_, Some(value)) => self.family(*family).put(key, value),
            (_, None) => self.family(*family).delete(key),
        }
    }

    /// Gets a key, as of `snapshot` if there is one.
    pub fn get(
        &self,
        family: usize,
        key: &[u8],
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<Value>, braidb::Error> {
        match (family, snapshot) {
            (0, None) => self.db.get(key),
            (0, Some(snapshot)) => snapshot.get(key),
            (_, None) => self.family(family).get(key),
            (_, Some(snapshot)) => snapshot.get_in(self.family(family), key),
        }
    }

    /// Whether a key exists now.
    pub fn contains(&self, family: usize, key: &[u8]) -> Result<bool, braidb::Error> {
        match family {
            0 => self.db.contains_key(key),
            _ => self.family(family).contains_key(key),
        }
    }

    /// Opens an iterator, as of `snapshot` if there is one.
    pub fn scan(&self, family: usize, span: &Span, snapshot: Option<&Snapshot>) -> Iter {
        match (family, snapshot, span) {
            (0, None, Span::All) => self.db.iter(),
            (0, None, Span::Prefix(prefix)) => self.db.prefix(prefix),
            (0, None, Span::Range(low, high)) => self.db.range((low.clone(), high.clone())),
            (0, Some(snapshot), Span::All) => snapshot.iter(),
            (0, Some(snapshot), Span::Prefix(prefix)) => snapshot.prefix(prefix),
            (0, Some(snapshot), Span::Range(low, high)) => snapshot.range((low.clone(), high.clone())),
            (_, None, Span::All) => self.family(family).iter(),
            (_, None, Span::Prefix(prefix)) => self.family(family).prefix(prefix),
            (_, None, Span::Range(low, high)) => self.family(family).range((low.clone(), high.clone())),
            (_, Some(snapshot), Span::All) => snapshot.iter_in(self.family(family)),
            (_, Some(snapshot), Span::Prefix(prefix)) => snapshot.prefix_in(self.family(family), prefix),
            (_, Some(snapshot), Span::Range(low, high)) => {
                snapshot.range_in(self.family(family), (low.clone(), high.clone()))
            }
        }
    }

    /// Takes all entries out of ranges of a family.
    pub fn excise(&self, family: usize, spans: &[Span]) -> Result<(), braidb::Error> {
        let bounds = spans.iter().map(|span| match span {
            Span::All => (Bound::Unbounded, Bound::Unbounded),
            Span::Range(low, high) => (low.clone(), high.clone()),
            Span::Prefix(_) => unreachable!("no workload excises a prefix"),
        });
        match family {
            0 => self.db.excise(bounds),
            _ => self.family(family).excise(bounds),
        }
    }

    /// Compacts a range of a family.
    pub fn compact_range(&self, family: usize, span: &Span) -> Result<(), braidb::Error> {
        let Span::Range(low, high) = span else { unreachable!("only ranges are compacted") };
        match family {
            0 => self.db.compact_range((low.clone(), high.clone())),
            _ => self.family(family).compact_range((low.clone(), high.clone())),
        }
    }

    /// Reads every family forward, backward and key by key, and compares the three results. `probes` are further keys to get,
    /// which may be absent.
    pub fn read_all(&self, snapshot: Option<&Snapshot>, probes: &[Bytes]) -> Result<State, Trouble> {
        self.read_families(snapshot, probes, |_| true)
    }

    /// As [`Client::read_all`], of the families alone that `wanted` names. The others count as empty.
    pub fn read_families(
        &self,
        snapshot: Option<&Snapshot>,
        probes: &[Bytes],
        wanted: impl Fn(usize) -> bool,
    ) -> Result<State, Trouble> {
        let mut state = State::default();
        for (family, contents) in state.iter_mut().enumerate() {
            if self.has(family) && wanted(family) {
                *contents = self.read_forward(family, snapshot)?;
                self.compare_backward(family, snapshot, contents)?;
                self.compare_gets(family, snapshot, contents, probes)?;
            }
        }
        Ok(state)
    }

    fn read_forward(
        &self,
        family: usize,
        snapshot: Option<&Snapshot>,
    ) -> Result<BTreeMap<Bytes, Bytes>, Trouble> {
        let mut contents: BTreeMap<Bytes, Bytes> = BTreeMap::new();
        for entry in self.scan(family, &Span::All, snapshot) {
            let (key, value) = entry?;
            if let Some((last, _)) = contents.last_key_value()
                && **last >= key[..]
            {
                let (last, key) = (show_bytes(last), show_bytes(&key));
                return Err(Trouble::Wrong(format!(
                    "a forward scan of {} gives {key:?} after {last:?}",
                    FAMILIES[family]
                )));
            }
            contents.insert(key.into(), value[..].into());
        }
        Ok(contents)
    }

    fn compare_backward(
        &self,
        family: usize,
        snapshot: Option<&Snapshot>,
        contents: &BTreeMap<Bytes, Bytes>,
    ) -> Result<(), Trouble> {
        let mut backward = self.scan(family, &Span::All, snapshot).rev();
        let mut expected = contents.iter().rev();
        loop {
            let (got, wanted) = (backward.next().transpose()?, expected.next());
            let same = match (&got, wanted) {
                (None, None) => return Ok(()),
                (Some((key, value)), Some((wanted_key, wanted_value))) => {
                    key[..] == **wanted_key && value[..] == **wanted_value
                }
                _ => false,
            };
            if !same {
                let shown = |key: Option<&[u8]>| key.map_or("the end".to_owned(), show_bytes);
                return Err(Trouble::Wrong(format!(
                    "scans of {} disagree: backward comes to {:?} where forward has {:?}",
                    FAMILIES[family],
                    shown(got.as_ref().map(|(key, _)| &key[..])),
                    shown(wanted.map(|(key, _)| &**key))
                )));
            }
        }
    }

    fn compare_gets(
        &self,
        family: usize,
        snapshot: Option<&Snapshot>,
        contents: &BTreeMap<Bytes, Bytes>,
        probes: &[Bytes],
    ) -> Result<(), Trouble> {
        let counter = Bytes::from(COUNTER_KEY);
        let absent = probes.iter().chain([&counter]).filter(|key| !contents.contains_key(*key));
        for key in contents.keys().chain(absent) {
            let (got, wanted) = (self.get(family, key, snapshot)?, contents.get(key));
            if got.as_deref() != wanted.map(|value| &**value) {
                let got = got.map(|value| Bytes::from(&value[..]));
                return Err(Trouble::Wrong(format!(
                    "get of {} {:?} gives {} and a scan {}",
                    FAMILIES[family],
                    show_bytes(key),
                    show(got.as_ref()),
                    show(wanted)
                )));
            }
        }
        Ok(())
    }
}
