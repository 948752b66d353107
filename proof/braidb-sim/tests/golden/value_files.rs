//! The database with value files. The tests read value files, manifest fields 14 and 15 and table property 14 from the text of
//! docs/formats.md alone.

use super::{Files, find, open_and_read, stored};
use braidb::Error;
use braidb_sim::golden::{self, write_with_value_files};
use std::collections::BTreeMap;
use std::path::Path;

const NAME: &str = "format-1-value-files";
const VALUE_FILE: u64 = 1;

/// A body of a table, as manifest field 14 and table property 14 name it.
#[derive(Debug, PartialEq, Eq)]
struct Body {
    kind: u64,
    id: u64,
    live_bytes: u64,
    bytes: u64,
}

/// Bytes of the records that slices lead to, by value file.
type Live = BTreeMap<u64, u64>;

/// What the manifest says of value files.
#[derive(Debug, Default)]
struct Named {
    /// From field 14, by table. Tables that a later edit removed stay here.
    bodies: BTreeMap<u64, Vec<Body>>,
    /// From field 15, by the bytes that name the slice in field 6.
    slices: BTreeMap<Vec<u8>, Live>,
    /// Which of the fields 14 and 15 have an odd tag, so that a reader may skip them.
    skippable: Vec<u64>,
}

/// Reads numbers and byte strings from the front of a slice.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes);
        self.0 = rest;
        taken
    }

    fn varint(&mut self) -> u64 {
        let len = self.0.iter().position(|byte| byte & 0x80 == 0).expect("a varint ends") + 1;
        self.take(len).iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
    }

    fn string(&mut self) -> &'a [u8] {
        let len = self.varint();
        self.take(len as usize)
    }

    fn bodies(&mut self) -> Vec<Body> {
        let mut bodies = Vec::new();
        while !self.0.is_empty() {
            let [kind, id, live_bytes, bytes_of_file] = std::array::from_fn(|_| self.varint());
            bodies.push(Body { kind, id, live_bytes, bytes: bytes_of_file });
        }
        bodies
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn crc_at(id: u64, at: usize, bytes: &[u8]) -> u64 {
    let place = [id.to_le_bytes(), (at as u64).to_le_bytes()].concat();
    u64::from(crc32c::crc32c_append(crc32c::crc32c(&place), bytes))
}

/// The values of a value file, each with the hash of its key.
fn records(id: u64, bytes: &[u8]) -> Vec<(&[u8], u64)> {
    assert_eq!(&bytes[..18], b"BRAIDVAL\x01\0\0\0\0\0\0\0\0\0", "magic, version and features");
    assert_eq!((number(bytes, 18, 8), number(bytes, 26, 4)), (id, crc_at(id, 0, &bytes[..26])));
    let (mut at, mut records) = (30, Vec::new());
    while at < bytes.len() {
        assert_eq!(number(bytes, at, 4), crc_at(id, at, &bytes[at + 4..at + 20]), "the record at {at}");
        let end = at + 20 + number(bytes, at + 4, 4) as usize;
        let value = &bytes[at + 20..end];
        assert_eq!(number(bytes, at + 16, 4), u64::from(crc32c::crc32c(value)), "the value at {at}");
        records.push((value, number(bytes, at + 8, 8)));
        at = end;
    }
    records
}

/// Table property 14.
fn property_14(table: &[u8]) -> Vec<Body> {
    let footer = table.len() - 64;
    let [start, end] = [24, 32].map(|field| number(table, footer + field, 8) as usize);
    // Type and checksum end the section.
    let mut input = Input(&table[start..end - 5]);
    while !input.0.is_empty() {
        let (tag, field) = (input.varint(), input.string());
        if tag == 14 {
            return Input(field).bodies();
        }
    }
    Vec::new()
}

fn read_manifest(manifest: &[u8]) -> Named {
    let mut named = Named::default();
    let mut at = 40;
    // Behind the last record are zeros.
    while at + 17 <= manifest.len() && number(manifest, at, 4) != 0 {
        let end = at + 17 + number(manifest, at + 4, 4) as usize;
        let mut edit = Input(&manifest[at + 17..end]);
        while !edit.0.is_empty() {
            let (tag, field) = (edit.varint(), edit.string());
            named.take(tag, field);
        }
        at = end;
    }
    named
}

impl Named {
    fn take(&mut self, tag: u64, field: &[u8]) {
        let mut input = Input(field);
        if matches!(tag / 2, 14 | 15) && tag % 2 == 1 {
            self.skippable.push(tag / 2);
        }
        match tag / 2 {
            6 => drop(self.slices.remove(field)),
            14 => drop(self.bodies.insert(input.varint(), input.bodies())),
            15 => {
                let _family_and_level = (input.varint(), input.varint(), input.string());
                let _epoch_and_table = (input.varint(), input.varint(), input.string());
                // Field 6 names a slice by these fields.
                let name = field[..field.len() - input.0.len()].to_vec();
                input.string();
                // First and last sequence number, entries, tombstones, keys, bytes.
                let _counts: [u64; 6] = std::array::from_fn(|_| input.varint());
                let mut live = Live::new();
                while !input.0.is_empty() {
                    live.insert(input.varint(), input.varint());
                }
                self.slices.insert(name, live);
            }
            _ => {}
        }
    }

    /// The bytes of live records by value file, over all slices.
    fn live(&self) -> Live {
        let mut sum = Live::new();
        for (&file, &bytes) in self.slices.values().flatten() {
            *sum.entry(file).or_default() += bytes;
        }
        sum
    }
}

fn of_kind<'a>(files: &'a Files, ending: &'a str) -> impl Iterator<Item = (u64, &'a [u8])> {
    files.iter().filter_map(move |(name, bytes)| Some((name.strip_suffix(ending)?.parse().ok()?, &bytes[..])))
}

/// Compares value files, tables and the manifest with each other. Returns the bytes of live records by value file.
fn checked(files: &Files) -> Live {
    let named = read_manifest(of_kind(files, ".manifest").next().expect("there is one").1);
    assert_eq!(named.skippable, [], "a reader that does not know these fields refuses the manifest");
    for (id, table) in of_kind(files, ".table") {
        let bodies = property_14(table);
        assert_eq!(Some(&bodies), named.bodies.get(&id), "property 14 and field 14 of table {id}");
        for body in bodies {
            let ending = if body.kind == VALUE_FILE { "values" } else { "log" };
            let file = &files[&format!("{:06}.{ending}", body.id)];
            assert_eq!(body.bytes, file.len() as u64, "{body:?}");
        }
    }
    let live = named.live();
    assert!(of_kind(files, ".values").map(|(id, _)| id).eq(live.keys().copied()), "{live:?}");
    for (id, file) in of_kind(files, ".values") {
        let record_bytes: u64 = records(id, file).iter().map(|(value, _)| value.len() as u64 + 20).sum();
        assert_eq!(record_bytes + 30, file.len() as u64);
        assert!(live[&id] <= record_bytes, "{live:?}");
    }
    live
}

#[test]
fn values_in_value_files_are_read() {
    let files = stored(NAME);
    let live = checked(&files);
    let first = &files["000006.values"];
    let records = records(6, first);
    let is_dead =
        |value: &[u8]| value.starts_with(b"large value 2 of life 0") || value.starts_with(b"large value 5 ");
    let dead = records.iter().filter(|(value, _)| is_dead(value));
    let dead_bytes: u64 = dead.map(|(value, _)| value.len() as u64 + 20).sum();
    let expected_bytes = first.len() as u64 - 30 - dead_bytes;
    assert_eq!((records.len(), live[&6]), (10, expected_bytes), "two of ten values are dead");
    let kinds = |table: &[u8]| property_14(table).iter().map(|body| body.kind).collect::<Vec<_>>();
    assert!(
        of_kind(&files, ".table").any(|(_, table)| kinds(table) == [1, 0]),
        "a table points into a log too"
    );
    let holding = |wanted: &[u8]| {
        let files = files.iter().filter(|(name, bytes)| name.ends_with(".table") && find(bytes, wanted));
        files.count()
    };
    assert_eq!((holding(b"small value 3"), holding(b"medium value 3"), holding(b"large value")), (1, 1, 0));

    let expected = write_with_value_files().unwrap().1;
    assert!(expected[0].len() == 59 && expected[1].len() == 1);
    let fs = golden::place(&files).unwrap();
    let (db, contents) = open_and_read(&fs).unwrap();
    assert_eq!(contents, expected);
    assert!(db.verify().unwrap().damages.is_empty());
    let stats = db.stats();
    assert_eq!((stats.value_files, stats.value_live_bytes), (4, live.values().sum()));

    // Without a threshold a merge brings values into its tables. The family `visits` needs no merge.
    db.compact().unwrap();
    assert_eq!((db.stats().value_files, db.stats().pinned_logs), (1, 0));
    db.close().unwrap();
    assert_eq!(open_and_read(&fs).unwrap().1, expected);
}

#[test]
fn the_present_code_writes_value_files_of_this_format() {
    let (fs, contents) = write_with_value_files().unwrap();
    let files = golden::files(&*fs, Path::new(golden::DIR)).unwrap();
    assert_eq!(checked(&files).len(), 4);
    let stored = stored(NAME);
    let hashes = |files| -> BTreeMap<_, _> {
        of_kind(files, ".values").flat_map(|(id, file)| records(id, file)).collect()
    };
    let (old, new) = (hashes(&stored), hashes(&files));
    let both = new.iter().filter(|(value, _)| old.contains_key(*value));
    assert!(both.clone().all(|(value, hash)| old[value] == *hash), "the hash of keys is another one");
    assert!(both.count() >= 20);
    assert_eq!(open_and_read(&fs).unwrap().1, contents);
}

#[test]
fn a_missing_or_short_value_file_refuses_to_open() {
    let files = stored(NAME);
    for name in files.keys().filter(|name| name.ends_with(".values")) {
        let len = files[name].len();
        for left in [None, Some(0), Some(len - 1)] {
            let mut files = files.clone();
            match left {
                None => files.remove(name),
                Some(left) => files.insert(name.clone(), files[name][..left].to_vec()),
            };
            match open_and_read(&golden::place(&files).unwrap()) {
                Err(Error::Corruption { path, .. }) => assert_eq!(path, Path::new(golden::DIR).join(name)),
                other => panic!("{:?}", other.map(|_| "opened and read")),
            }
        }
    }
}

/// `verify` alone reads the header and the heads of records.
#[test]
fn verify_finds_a_value_file_of_another_version() {
    let mut files = stored(NAME);
    let file = files.get_mut("000006.values").unwrap();
    file[8] = 2;
    let crc = crc_at(6, 0, &file[..26]) as u32;
    file[26..30].copy_from_slice(&crc.to_le_bytes());
    let db = golden::open(&golden::place(&files).unwrap()).unwrap();
    let damages = db.verify().unwrap().damages;
    assert!(damages.len() == 1 && damages[0].path.ends_with("000006.values"), "{damages:?}");
    assert!(damages[0].what.contains("of a version"), "{damages:?}");
}
