//! How values lie in value files, as `stats --values` sums it up.
//!
//! ```text
//! default                   12 leaves in L2, 2.3 extents a leaf, 5 at most, 1.2 GiB alive
//!   other levels            20.0 MiB alive
//! value files               170 of 1.3 GiB, 1.2 GiB alive, 120.0 MiB dead (9.0%)
//!   000812.values           8.0 MiB, 2.0 MiB alive, 6.0 MiB dead (75.0%)
//!   … 160 more with dead bytes
//! ```
//!
//! The leaves of a family are the cells of its last level that hold entries. A leaf has one extent for each value file that its slices
//! lead into.

use super::line;
use super::tree::{WIDTH, clipped};
use crate::figures::{bytes_text, counted, ratio};
use crate::text::escaped;
use braidb::stats::{CellTree, FamilyTree, LevelTree, ValueFileStats};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The most value files that the text names.
const FILES_NAMED: usize = 5;

/// One leaf: its guard, and the bytes of its values' records by value file.
struct Leaf<'a> {
    guard: &'a [u8],
    extents: BTreeMap<u64, u64>,
}

/// One column family.
struct Family<'a> {
    name: &'a str,
    /// The last level, if it is not L0.
    last_level: Option<usize>,
    leaves: Vec<Leaf<'a>>,
    /// Bytes of records to which the other levels lead.
    upper_bytes: u64,
}

impl<'a> Leaf<'a> {
    fn of(cell: &'a CellTree) -> Leaf<'a> {
        let mut extents = BTreeMap::new();
        for extent in cell.runs.iter().flat_map(|run| &run.slices).flat_map(|slice| &slice.extents) {
            *extents.entry(extent.value_file).or_default() += extent.bytes;
        }
        Leaf { guard: &cell.guard, extents }
    }

    fn bytes(&self) -> u64 {
        self.extents.values().sum()
    }
}

impl<'a> Family<'a> {
    fn of(tree: &'a FamilyTree) -> Family<'a> {
        let leaves_of = |level: &'a LevelTree| -> Vec<Leaf<'a>> {
            level.cells.iter().filter(|cell| !cell.runs.is_empty()).map(Leaf::of).collect()
        };
        let levels: Vec<Vec<Leaf<'a>>> = tree.levels.iter().map(leaves_of).collect();
        let last_level = levels.iter().rposition(|leaves| !leaves.is_empty()).filter(|&level| level > 0);
        let (mut leaves, mut upper_bytes) = (Vec::new(), 0);
        for (level, cells) in levels.into_iter().enumerate() {
            if Some(level) == last_level {
                leaves = cells;
            } else {
                upper_bytes += cells.iter().map(Leaf::bytes).sum::<u64>();
            }
        }
        Family { name: &tree.name, last_level, leaves, upper_bytes }
    }

    /// Bytes of records to which the leaves lead.
    fn leaf_bytes(&self) -> u64 {
        self.leaves.iter().map(Leaf::bytes).sum()
    }

    /// Extents of a leaf: the mean, and the most.
    fn extents(&self) -> (f64, usize) {
        let counts = self.leaves.iter().map(|leaf| leaf.extents.len());
        let (sum, most) = (counts.clone().sum::<usize>(), counts.max().unwrap_or(0));
        (ratio(sum as u64, self.leaves.len() as u64), most)
    }
}

/// Sums as text, with the value files that have the largest shares of dead bytes.
pub fn as_text(trees: &[FamilyTree], files: &[ValueFileStats]) -> String {
    if files.is_empty() {
        return "the database has no value files; all its values lie in tables and logs".to_owned();
    }
    let mut text = String::new();
    trees.iter().for_each(|tree| family_text(&Family::of(tree), &mut text));
    files_text(files, &mut text);
    text.truncate(text.trim_end().len());
    text
}

fn family_text(family: &Family<'_>, text: &mut String) {
    let name = clipped(&escaped(family.name.as_bytes()), WIDTH / 4);
    let sums = match family.last_level {
        None => "no leaves".to_owned(),
        Some(level) => {
            let (mean, most) = family.extents();
            format!(
                "{} in L{level}, {mean:.1} extents a leaf, {most} at most, {} alive",
                counted(family.leaves.len() as u64, "leaf", "leaves"),
                bytes_text(family.leaf_bytes())
            )
        }
    };
    line(text, &format!("{name:<26}{sums}"));
    if family.upper_bytes > 0 {
        line(text, &format!("{:<26}{} alive", "  other levels", bytes_text(family.upper_bytes)));
    }
}

fn files_text(files: &[ValueFileStats], text: &mut String) {
    let sum = |of: fn(&ValueFileStats) -> u64| files.iter().map(of).sum::<u64>();
    let share = |dead: u64, bytes: u64| format!("{:.1}%", 100.0 * ratio(dead, bytes));
    let figures = |bytes: u64, live: u64, dead: u64| {
        let [all, alive, rest] = [bytes, live, dead].map(bytes_text);
        format!("{all}, {alive} alive, {rest} dead ({})", share(dead, bytes))
    };
    let sums = figures(sum(|file| file.bytes), sum(|file| file.live_bytes), sum(|file| file.dead_bytes));
    line(text, &format!("{:<26}{} of {sums}", "value files", files.len()));
    let mut dead: Vec<&ValueFileStats> = files.iter().filter(|file| file.dead_bytes > 0).collect();
    let millionths = |file: &ValueFileStats| u128::from(file.dead_bytes) * 1_000_000 / u128::from(file.bytes);
    dead.sort_by_key(|file| (Reverse(millionths(file)), file.id));
    for file in dead.iter().take(FILES_NAMED) {
        let name = format!("  {:06}.values", file.id);
        line(text, &format!("{name:<26}{}", figures(file.bytes, file.live_bytes, file.dead_bytes)));
    }
    if dead.len() > FILES_NAMED {
        line(text, &format!("  … {} more with dead bytes", dead.len() - FILES_NAMED));
    }
}

/// All leaves and value files as JSON, with keys as text.
pub fn as_json(trees: &[FamilyTree], files: &[ValueFileStats]) -> Value {
    let extent = |(value_file, bytes): (&u64, &u64)| json!({ "value_file": value_file, "live_bytes": bytes });
    let leaf = |leaf: &Leaf<'_>| json!({ "guard": escaped(leaf.guard), "extents": leaf.extents.iter().map(extent).collect::<Vec<_>>() });
    let family = |tree: &FamilyTree| {
        let family = Family::of(tree);
        let (mean, most) = family.extents();
        json!({
            "name": family.name,
            "last_level": family.last_level,
            "extents_per_leaf": mean,
            "most_extents": most,
            "live_bytes": family.leaf_bytes(),
            "upper_live_bytes": family.upper_bytes,
            "leaves": family.leaves.iter().map(leaf).collect::<Vec<_>>(),
        })
    };
    let file = |file: &ValueFileStats| {
        json!({
            "id": file.id,
            "bytes": file.bytes,
            "live_bytes": file.live_bytes,
            "dead_bytes": file.dead_bytes,
        })
    };
    json!({
        "families": trees.iter().map(family).collect::<Vec<_>>(),
        "value_files": files.iter().map(file).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb::stats::{Extent, RunTree, SliceTree};

    /// A cell with one run, and in it a slice for each list of extents: value file and MiB.
    fn cell(slices: &[&[(u64, u64)]]) -> CellTree {
        let slice = |extents: &&[(u64, u64)]| {
            let mut slice = SliceTree::default();
            for &(value_file, mib) in *extents {
                let mut extent = Extent::default();
                (extent.value_file, extent.bytes) = (value_file, mib << 20);
                slice.extents.push(extent);
            }
            slice
        };
        let (mut cell, mut run) = (CellTree::default(), RunTree::default());
        run.slices = slices.iter().map(slice).collect();
        cell.runs.push(run);
        cell
    }

    fn tree(levels: Vec<Vec<CellTree>>) -> FamilyTree {
        let mut tree = FamilyTree::default();
        "default".clone_into(&mut tree.name);
        for (number, cells) in levels.into_iter().enumerate() {
            let mut level = LevelTree::default();
            (level.level, level.cells) = (number, cells);
            tree.levels.push(level);
        }
        tree
    }

    fn file(id: u64, live_mib: u64, dead_mib: u64) -> ValueFileStats {
        let mut file = ValueFileStats::default();
        (file.id, file.bytes) = (id, (live_mib + dead_mib) << 20);
        (file.live_bytes, file.dead_bytes) = (live_mib << 20, dead_mib << 20);
        file
    }

    #[test]
    fn leaves_and_the_worst_files_are_summed_up() {
        // Both slices of the first leaf lead into file 3. The last cell is empty and no leaf.
        let leaves = vec![cell(&[&[(3, 1), (4, 2)], &[(3, 5)]]), cell(&[&[(5, 8)]]), CellTree::default()];
        let trees = [tree(vec![vec![cell(&[&[(6, 1)]])], leaves, vec![CellTree::default()]])];
        let mut files = vec![file(3, 6, 2), file(4, 2, 6), file(5, 8, 0), file(6, 1, 7)];
        let expected = "\
default                   2 leaves in L1, 1.5 extents a leaf, 2 at most, 16.0 MiB alive
  other levels            1.0 MiB alive
value files               4 of 32.0 MiB, 17.0 MiB alive, 15.0 MiB dead (46.9%)
  000006.values           8.0 MiB, 1.0 MiB alive, 7.0 MiB dead (87.5%)
  000004.values           8.0 MiB, 2.0 MiB alive, 6.0 MiB dead (75.0%)
  000003.values           8.0 MiB, 6.0 MiB alive, 2.0 MiB dead (25.0%)";
        assert_eq!(as_text(&trees, &files), expected);
        files.extend((7..10).map(|id| file(id, 7, 1)));
        let text = as_text(&trees, &files);
        assert!(text.ends_with("dead (12.5%)\n  … 1 more with dead bytes"), "{text}");
    }

    #[test]
    fn a_family_whose_entries_lie_in_l0_has_no_leaves() {
        let trees = [tree(vec![vec![cell(&[&[(3, 1)]])], vec![CellTree::default()]])];
        let expected = "\
default                   no leaves
  other levels            1.0 MiB alive
value files               1 of 1.0 MiB, 1.0 MiB alive, 0 B dead (0.0%)";
        assert_eq!(as_text(&trees, &[file(3, 1, 0)]), expected);
        assert_eq!(as_json(&trees, &[])["families"][0]["last_level"], Value::Null);
    }
}
