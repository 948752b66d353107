//! The devices of a database, and the cells on each, as `stats --tiers` shows them. `tier list` prints the devices alone.
//!
//! ```text
//! tier           bytes  cells        free     reads  path
//! 0 fast       1.2 GiB     41    98.0 GiB         -  /srv/db
//! 1 slow       9.8 GiB    400     2.9 TiB     1,204  /mnt/disk/db
//! default
//!   fast              41 cells, 1.2 GiB, heat 9,120: depth 30, flush 6, tier 5
//!     L6 user/ada                    64.0 MiB       2,110 depth
//!     … 39 cells left out
//!     L6 user/zoe                    24.0 MiB           0 tier
//!   slow 1            400 cells, 9.8 GiB, heat 12: tier 400
//!     …
//! ```
//!
//! A cell is named by its level and its guard. The cells of a place are sorted by heat for each byte, the hottest first. The reason tells
//! why the cell's newest table was written; the line of a place counts its cells by reason. No line but that of a path is longer than
//! [`WIDTH`], for any keys.

use super::line;
use super::tree::{Reasons, WIDTH, clipped};
use crate::figures::{bytes_text, counted, grouped};
use crate::text::escaped;
use braidb::stats::{CellTree, FamilyTree, Reason, SliceTree, TierStats};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The text that is printed for a database without slow tiers.
pub const NO_TIERS: &str = "the database has no slow tiers; `braidb tier add` adds one";
/// Columns for the level and the guard of a cell.
const CELL_WIDTH: usize = 30;

/// Where a cell lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Site {
    Fast,
    /// Tables on the fast tier, and values in value files on slow ones.
    SlowValues,
    /// Tables on this slow tier.
    Slow(u8),
}

/// A cell that holds entries.
struct Cell<'a> {
    level: usize,
    guard: &'a [u8],
    bytes: u64,
    slow_bytes: u64,
    heat: u64,
    reason: Option<Reason>,
}

impl Site {
    fn of(cell: &CellTree) -> Site {
        let site = |slice: &SliceTree| match (slice.tier, slice.slow_bytes) {
            (0, 0) => Site::Fast,
            (0, _) => Site::SlowValues,
            (tier, _) => Site::Slow(tier),
        };
        slices(cell).map(site).max().unwrap_or(Site::Fast)
    }

    fn name(self) -> String {
        match self {
            Site::Fast => "fast".to_owned(),
            Site::SlowValues => "fast, slow values".to_owned(),
            Site::Slow(tier) => format!("slow {tier}"),
        }
    }

    /// The tier of the tables.
    fn tier(self) -> u8 {
        match self {
            Site::Fast | Site::SlowValues => 0,
            Site::Slow(tier) => tier,
        }
    }
}

impl<'a> Cell<'a> {
    fn of(level: usize, cell: &'a CellTree, reasons: &Reasons) -> Cell<'a> {
        let sum = |of: fn(&SliceTree) -> u64| slices(cell).map(of).fold(0, u64::saturating_add);
        Cell {
            level,
            guard: &cell.guard,
            bytes: cell.bytes(),
            slow_bytes: sum(|slice| slice.slow_bytes),
            heat: sum(|slice| slice.heat),
            reason: slices(cell).next().and_then(|slice| reasons.get(&slice.table)).copied(),
        }
    }

    /// Heat for each byte, in 2^64ths.
    fn density(&self) -> u128 {
        (u128::from(self.heat) << 64) / u128::from(self.bytes.max(1))
    }
}

fn slices(cell: &CellTree) -> impl Iterator<Item = &SliceTree> {
    cell.runs.iter().flat_map(|run| &run.slices)
}

/// The cells of a family by where they lie, the hottest first.
fn sites<'a>(tree: &'a FamilyTree, reasons: &Reasons) -> BTreeMap<Site, Vec<Cell<'a>>> {
    let mut sites: BTreeMap<Site, Vec<Cell<'a>>> = BTreeMap::new();
    for level in &tree.levels {
        for cell in level.cells.iter().filter(|cell| slices(cell).next().is_some()) {
            sites.entry(Site::of(cell)).or_default().push(Cell::of(level.level, cell, reasons));
        }
    }
    sites.values_mut().for_each(|cells| cells.sort_by_key(|cell| Reverse(cell.density())));
    sites
}

/// Devices and cells as text, with up to `cells` lines for the cells of a family on a tier: half for the hottest, half for the coldest.
pub fn as_text(trees: &[FamilyTree], tiers: &[TierStats], reasons: &Reasons, cells: usize) -> String {
    if tiers.is_empty() {
        return NO_TIERS.to_owned();
    }
    let mut text = String::new();
    devices_text(tiers, &mut text);
    for tree in trees {
        line(&mut text, &clipped(&escaped(tree.name.as_bytes()), WIDTH));
        sites(tree, reasons).into_iter().for_each(|(site, found)| site_text(site, &found, cells, &mut text));
    }
    text.truncate(text.trim_end().len());
    text
}

/// One line for each tier.
pub fn devices_text(tiers: &[TierStats], text: &mut String) {
    line(text, &row("tier", ["bytes", "cells", "free", "reads"], "path"));
    for tier in tiers {
        let kind = match (tier.id, tier.is_closed) {
            (0, _) => "fast",
            (_, false) => "slow",
            (_, true) => "closed",
        };
        let (cells, reads) = (grouped(tier.cells), grouped(tier.reads));
        // Reads of the fast tier are not counted.
        let reads = if tier.id == 0 { "-" } else { &reads };
        let figures = [&bytes_text(tier.bytes), &cells, &bytes_text(tier.free_bytes), reads];
        line(text, &row(&format!("{} {kind}", tier.id), figures, &tier.path.display().to_string()));
    }
}

fn row(name: &str, [bytes, cells, free, reads]: [&str; 4], path: &str) -> String {
    format!("{name:<9}{bytes:>11}{cells:>8}{free:>12}{reads:>11}  {path}")
}

fn site_text(site: Site, cells: &[Cell<'_>], most: usize, text: &mut String) {
    let sum = |of: fn(&Cell<'_>) -> u64| cells.iter().map(of).fold(0, u64::saturating_add);
    let bytes = match (site, sum(|cell| cell.slow_bytes)) {
        (Site::SlowValues, slow) => {
            format!("{}, {} of it slow", bytes_text(sum(|c| c.bytes)), bytes_text(slow))
        }
        _ => bytes_text(sum(|cell| cell.bytes)),
    };
    let count = counted(cells.len() as u64, "cell", "cells");
    let sums = format!("  {:<17} {count}, {bytes}, heat {}", site.name(), grouped(sum(|cell| cell.heat)));
    line(text, &clipped(&(sums + &reasons_text(cells)), WIDTH));
    let left_out = cells.len().saturating_sub(most);
    let first = if left_out == 0 { cells.len() } else { most.div_ceil(2) };
    cells[..first].iter().for_each(|cell| line(text, &cell_text(cell)));
    if left_out > 0 {
        line(text, &format!("    … {} left out", counted(left_out as u64, "cell", "cells")));
    }
    cells[first + left_out..].iter().for_each(|cell| line(text, &cell_text(cell)));
}

/// How many cells have each reason, the most frequent first.
fn reasons_text(cells: &[Cell<'_>]) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for reason in cells.iter().filter_map(|cell| cell.reason) {
        *counts.entry(reason.to_string()).or_default() += 1;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let texts: Vec<String> =
        counts.into_iter().map(|(reason, count)| format!("{reason} {}", grouped(count))).collect();
    if texts.is_empty() { String::new() } else { format!(": {}", texts.join(", ")) }
}

fn cell_text(cell: &Cell<'_>) -> String {
    let guard = if cell.guard.is_empty() { "(start)".to_owned() } else { escaped(cell.guard) };
    let name = clipped(&format!("L{} {guard}", cell.level), CELL_WIDTH);
    let reason = cell.reason.map_or(String::new(), |reason| reason.to_string());
    let (bytes, heat) = (bytes_text(cell.bytes), grouped(cell.heat));
    format!("    {name:<CELL_WIDTH$}{bytes:>11}{heat:>12} {reason}").trim_end().to_owned()
}

/// A tier as JSON.
pub fn tier_json(tier: &TierStats) -> Value {
    json!({
        "id": tier.id,
        "path": tier.path.to_string_lossy(),
        "bytes": tier.bytes,
        "cells": tier.cells,
        "free_bytes": tier.free_bytes,
        "reads": tier.reads,
        "is_closed": tier.is_closed,
    })
}

/// Devices and all cells as JSON, with keys as text.
pub fn as_json(trees: &[FamilyTree], tiers: &[TierStats], reasons: &Reasons) -> Value {
    let cell = |(site, cell): (Site, &Cell<'_>)| {
        json!({
            "tier": site.tier(),
            "level": cell.level,
            "guard": escaped(cell.guard),
            "bytes": cell.bytes,
            "slow_bytes": cell.slow_bytes,
            "heat": cell.heat,
            "reason": cell.reason.map(|reason| reason.to_string()),
        })
    };
    let family = |tree: &FamilyTree| {
        let sites = sites(tree, reasons);
        let cells = sites.iter().flat_map(|(&site, cells)| cells.iter().map(move |cell| (site, cell)));
        json!({ "name": tree.name, "cells": cells.map(cell).collect::<Vec<_>>() })
    };
    json!({
        "tiers": tiers.iter().map(tier_json).collect::<Vec<_>>(),
        "families": trees.iter().map(family).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb::stats::{LevelTree, RunTree};

    fn cell(guard: &[u8], table: u64, tier: u8, [mib, slow_mib, heat]: [u64; 3]) -> CellTree {
        let (mut cell, mut run, mut slice) = (CellTree::default(), RunTree::default(), SliceTree::default());
        (slice.table, slice.tier, slice.heat) = (table, tier, heat);
        (slice.bytes, slice.slow_bytes) = (mib << 20, slow_mib << 20);
        run.slices.push(slice);
        (cell.guard, cell.runs) = (guard.to_vec(), vec![run]);
        cell
    }

    fn tree(cells: Vec<CellTree>) -> FamilyTree {
        let (mut tree, mut level) = (FamilyTree::default(), LevelTree::default());
        "default".clone_into(&mut tree.name);
        (level.level, level.cells) = (6, cells);
        tree.levels = vec![LevelTree::default(), level];
        tree
    }

    fn tier(id: u8, path: &str, is_closed: bool) -> TierStats {
        let mut tier = TierStats::default();
        (tier.id, tier.path, tier.is_closed) = (id, path.into(), is_closed);
        (tier.bytes, tier.cells, tier.free_bytes, tier.reads) = (3 << 30, 1234, 5 << 40, 98_765);
        tier
    }

    #[test]
    fn cells_are_drawn_by_tier_and_by_heat_for_each_byte() {
        let cells = vec![
            cell(b"", 1, 0, [8, 0, 100]),
            cell(b"a\t", 2, 0, [2, 0, 90]),
            cell(b"b", 3, 1, [64, 64, 5]),
            cell(b"c", 4, 0, [32, 30, 7]),
            CellTree::default(),
        ];
        let reasons = [(1, Reason::Depth), (2, Reason::Flush), (3, Reason::Tier)].into();
        let tiers = [tier(0, "/db", false), tier(1, "/slow", false), tier(2, "/mnt/other", true)];
        let expected = "\
tier           bytes   cells        free      reads  path
0 fast       3.0 GiB   1,234     5.0 TiB          -  /db
1 slow       3.0 GiB   1,234     5.0 TiB     98,765  /slow
2 closed     3.0 GiB   1,234     5.0 TiB     98,765  /mnt/other
default
  fast              2 cells, 10.0 MiB, heat 190: depth 1, flush 1
    L6 a\\t                            2.0 MiB          90 flush
    L6 (start)                        8.0 MiB         100 depth
  fast, slow values 1 cell, 32.0 MiB, 30.0 MiB of it slow, heat 7
    L6 c                             32.0 MiB           7
  slow 1            1 cell, 64.0 MiB, heat 5: tier 1
    L6 b                             64.0 MiB           5 tier";
        let trees = [tree(cells)];
        assert_eq!(as_text(&trees, &tiers, &reasons, 20), expected);
        let json = as_json(&trees, &tiers, &reasons);
        let cells = json["families"][0]["cells"].as_array().unwrap();
        assert_eq!((cells.len(), &cells[3]["tier"], &cells[3]["reason"]), (4, &1.into(), &"tier".into()));
        assert_eq!((&cells[2]["slow_bytes"], &cells[2]["reason"]), (&(30 << 20).into(), &Value::Null));
        assert_eq!(as_text(&trees, &[], &reasons, 20), NO_TIERS);
    }

    #[test]
    fn long_keys_and_many_cells_keep_to_the_page() {
        let key = |number: u64| format!("{number:03}{}", "ü".repeat(100));
        let cells = (0..100)
            .map(|number| cell(key(number).as_bytes(), number, 3, [1, 1, number * 1_000_000_000_000]));
        let reasons = (0..100).map(|table| (table, Reason::Recovery)).collect();
        let text = as_text(&[tree(cells.collect())], &[tier(3, "/slow", false)], &reasons, 3);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(lines.len(), 4 + 4, "{text}");
        assert!(
            lines[4].contains(" 099ü") && lines[5].contains(" 098ü") && lines[7].contains(" 000ü"),
            "{text}"
        );
        assert_eq!(lines[6], "    … 97 cells left out");
    }
}
