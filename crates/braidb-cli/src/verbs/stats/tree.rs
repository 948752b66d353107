//! The tree of `stats --guards`, drawn level by level and one line a cell.
//!
//! ```text
//! default                                                      16.2 GiB in 4 levels, 28 guards
//! L0  1 cell, 2 runs deep, 2 slices of 2 tables, 128.0 MiB, 0.0% deletions
//!   (start)                     128.0 MiB          99 ms flush     e41 64.0 MiB #812 | e40 64.0 MiB #809
//! L1  3 cells, …
//!   (start)                     200.0 MiB  40% of 154 ms depth     e39 120.0 MiB #801 #802×2 | … 1 more run
//!   user/ada                     64.0 MiB          49 ms bought    e39 64.0 MiB #802 #803 +4 | … 2 more runs
//!   … 1 cell left out
//! ```
//!
//! A cell is named by its guard, the lowest key that belongs to it. The milliseconds are the price of a merge of the cell; the percentage
//! in front is the part of it that readers have paid in vain. The word behind is the reason why the cell's newest table was written. A run
//! is named by its epoch; the newest comes first. A slice is named by its table, where `+4` stands for four more slices. No line is longer
//! than [`WIDTH`], for any keys.

use super::line;
use crate::figures::{bytes_text, counted, ratio};
use crate::text::escaped;
use braidb::stats::{CellTree, FamilyTree, LevelTree, Reason, RunTree, SliceTree};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a line.
pub const WIDTH: usize = 100;
/// Columns for the name of a guard.
const GUARD_WIDTH: usize = 24;
/// The most tables of a run that are named.
const TABLES_NAMED: usize = 4;

/// Why tables were written, by their numbers.
pub type Reasons = BTreeMap<u64, Reason>;

/// The trees as text, with up to `cells` lines for the cells of each level: half for the first cells, half for the last.
pub fn as_text(trees: &[FamilyTree], reasons: &Reasons, cells: usize) -> String {
    let mut text = String::new();
    for tree in trees {
        family_text(tree, reasons, cells, &mut text);
    }
    text.truncate(text.trim_end().len());
    text
}

fn family_text(tree: &FamilyTree, reasons: &Reasons, cells: usize, text: &mut String) {
    let filled: Vec<&LevelTree> = tree.levels.iter().filter(|level| slices(level).next().is_some()).collect();
    let bytes: u64 = filled.iter().map(|level| level_bytes(level)).sum();
    // The deepest level has every guard.
    let guards = tree.levels.last().map_or(0, |level| level.cells.len() - 1);
    let name = clipped(&escaped(tree.name.as_bytes()), WIDTH / 2);
    let sums = format!(
        "{} in {}, {}",
        bytes_text(bytes),
        counted(filled.len() as u64, "level", "levels"),
        counted(guards as u64, "guard", "guards")
    );
    line(text, &format!("{name:<26}{sums}"));
    for level in filled {
        line(text, &level_text(level));
        let left_out = level.cells.len().saturating_sub(cells);
        let first = if left_out == 0 { level.cells.len() } else { cells.div_ceil(2) };
        level.cells[..first].iter().for_each(|cell| line(text, &cell_text(cell, reasons)));
        if left_out > 0 {
            line(text, &format!("  … {} left out", counted(left_out as u64, "cell", "cells")));
        }
        level.cells[first + left_out..].iter().for_each(|cell| line(text, &cell_text(cell, reasons)));
    }
}

fn level_text(level: &LevelTree) -> String {
    let (slices, tables) = (slices(level).count(), tables(slices(level)));
    let sum = |of: fn(&SliceTree) -> u64| self::slices(level).map(of).sum::<u64>();
    let depth = level.cells.iter().map(|cell| cell.runs.len()).max().unwrap_or(0);
    format!(
        "L{}  {}, {} deep, {} of {}, {}, {:.1}% deletions",
        level.level,
        counted(level.cells.len() as u64, "cell", "cells"),
        counted(depth as u64, "run", "runs"),
        counted(slices as u64, "slice", "slices"),
        counted(tables.len() as u64, "table", "tables"),
        bytes_text(level_bytes(level)),
        100.0 * ratio(sum(|slice| slice.tombstones), sum(|slice| slice.entries))
    )
}

fn cell_text(cell: &CellTree, reasons: &Reasons) -> String {
    let guard = match cell.guard.as_slice() {
        [] => "(start)".to_owned(),
        guard => clipped(&escaped(guard), GUARD_WIDTH),
    };
    let reason = cell.runs.first().and_then(|run| reasons.get(&run.slices.first()?.table));
    let reason = reason.map_or(String::new(), Reason::to_string);
    let (bytes, price) = (bytes_text(cell.bytes()), price_text(cell));
    let mut line = format!("  {guard:<GUARD_WIDTH$}{bytes:>11} {price:>14} {reason:<8}  ");
    let mut room = WIDTH - line.chars().count();
    for (at, run) in cell.runs.iter().enumerate() {
        let remark = |runs: usize| format!("… {}", counted(runs as u64, "more run", "more runs"));
        let rest = cell.runs.len() - at - 1;
        let separator = if at > 0 { " | " } else { "" };
        let reserve = if rest > 0 { 3 + remark(rest).chars().count() } else { 0 };
        let fits = |run: &String| separator.len() + run.chars().count() + reserve <= room;
        // A line names fewer tables of a run before it leaves the run out.
        let Some(run) = (0..=TABLES_NAMED).rev().map(|named| run_text(run, named)).find(fits) else {
            line += &format!("{separator}{}", remark(rest + 1));
            break;
        };
        line += separator;
        line += &run;
        room -= separator.len() + run.chars().count();
    }
    line
}

/// What a merge of the cell costs readers, and what part of it they have paid, if any.
fn price_text(cell: &CellTree) -> String {
    let slices = || cell.runs.iter().flat_map(|run| &run.slices);
    let (price_ns, paid_ns) =
        (slices().map(|slice| slice.price_ns).sum(), slices().map(|slice| slice.paid_ns).sum());
    let price_ms = price_ns / 1_000_000;
    match paid_ns {
        _ if cell.runs.is_empty() => String::new(),
        0 => format!("{price_ms} ms"),
        _ => format!("{:.0}% of {price_ms} ms", 100.0 * ratio(paid_ns, price_ns)),
    }
}

/// The epoch of a run, its bytes and the first tables of its slices. `×3` behind a table stands for three slices of it.
fn run_text(run: &RunTree, tables_named: usize) -> String {
    let mut tables: Vec<(u64, u64)> = Vec::new();
    for slice in &run.slices {
        match tables.last_mut() {
            Some((table, count)) if *table == slice.table => *count += 1,
            _ => tables.push((slice.table, 1)),
        }
    }
    let mut text = format!("e{} {}", run.epoch, bytes_text(run.bytes()));
    for (table, slices) in tables.iter().take(tables_named) {
        text += &match slices {
            1 => format!(" #{table}"),
            slices => format!(" #{table}×{slices}"),
        };
    }
    if tables.len() > tables_named {
        text += &format!(" +{}", tables.len() - tables_named);
    }
    text
}

/// The first columns of `text`, at most `width`, with a mark if something is missing.
pub fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

fn slices(level: &LevelTree) -> impl Iterator<Item = &SliceTree> {
    level.cells.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.slices)
}

fn level_bytes(level: &LevelTree) -> u64 {
    level.cells.iter().map(CellTree::bytes).sum()
}

/// The different tables of some slices.
fn tables<'a>(slices: impl Iterator<Item = &'a SliceTree>) -> BTreeSet<u64> {
    slices.map(|slice| slice.table).collect()
}

/// The trees as JSON, complete, with keys as text.
pub fn as_json(trees: &[FamilyTree], reasons: &Reasons) -> Value {
    let slice = |slice: &SliceTree| {
        json!({
            "table": slice.table,
            "low": escaped(&slice.low),
            "high": escaped(&slice.high),
            "bytes": slice.bytes,
            "entries": slice.entries,
            "tombstones": slice.tombstones,
            "reason": reasons.get(&slice.table).map(Reason::to_string),
            "paid_ns": slice.paid_ns,
            "price_ns": slice.price_ns,
        })
    };
    let run = |run: &RunTree| json!({ "epoch": run.epoch, "slices": run.slices.iter().map(slice).collect::<Vec<_>>() });
    let cell = |cell: &CellTree| json!({ "guard": escaped(&cell.guard), "runs": cell.runs.iter().map(run).collect::<Vec<_>>() });
    let level = |level: &LevelTree| json!({ "level": level.level, "cells": level.cells.iter().map(cell).collect::<Vec<_>>() });
    let family = |tree: &FamilyTree| json!({ "name": tree.name, "levels": tree.levels.iter().map(level).collect::<Vec<_>>() });
    Value::Array(trees.iter().map(family).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(table: u64) -> SliceTree {
        let mut slice = SliceTree::default();
        (slice.table, slice.bytes, slice.entries, slice.tombstones) = (table, 512 << 10, 100, 5);
        (slice.price_ns, slice.paid_ns) = (3_000_000, if table == 8 { 6_000_000 } else { 0 });
        slice
    }

    fn run(epoch: u64, tables: &[u64]) -> RunTree {
        let mut run = RunTree::default();
        (run.epoch, run.slices) = (epoch, tables.iter().map(|&table| slice(table)).collect());
        run
    }

    fn cell(guard: &[u8], runs: Vec<RunTree>) -> CellTree {
        let mut cell = CellTree::default();
        (cell.guard, cell.runs) = (guard.to_vec(), runs);
        cell
    }

    fn tree(cells: Vec<CellTree>) -> FamilyTree {
        let mut tree = FamilyTree::default();
        "default".clone_into(&mut tree.name);
        for (number, cells) in [vec![cell(b"", vec![])], cells].into_iter().enumerate() {
            let mut level = LevelTree::default();
            (level.level, level.cells) = (number, cells);
            tree.levels.push(level);
        }
        tree
    }

    fn reasons() -> Reasons {
        [(12, Reason::Depth)].into()
    }

    #[test]
    fn a_level_is_drawn_cell_by_cell() {
        let first = cell(b"", vec![run(9, &[12, 12, 13]), run(7, &[8])]);
        let text = as_text(
            &[tree(vec![first, cell(b"m\t\xff", vec![run(9, &[13])]), cell(b"x", vec![])])],
            &reasons(),
            20,
        );
        let expected = "\
default                   2.5 MiB in 1 level, 2 guards
L1  3 cells, 2 runs deep, 5 slices of 3 tables, 2.5 MiB, 5.0% deletions
  (start)                     2.0 MiB   50% of 12 ms depth     e9 1.5 MiB #12×2 #13 | … 1 more run
  m\\t\\xff                   512.0 KiB           3 ms           e9 512.0 KiB #13
  x                               0 B";
        let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(lines(&text), lines(expected));
    }

    #[test]
    fn long_keys_deep_cells_and_large_levels_keep_to_the_page() {
        let tables: Vec<u64> = (1_000_000..1_000_040).collect();
        let runs: Vec<RunTree> = (0..60).rev().map(|epoch| run(epoch, &tables)).collect();
        let mut cells = vec![cell(b"", runs.clone())];
        cells.extend(
            (0..999).map(|number| cell(format!("{number:03}ü{}", "k".repeat(200)).as_bytes(), runs.clone())),
        );
        let text = as_text(&[tree(cells)], &reasons(), 7);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 8, "{text}");
        assert!(lines[2].starts_with("  (start) ") && lines[5].starts_with("  002ükkk"), "{text}");
        assert_eq!(lines[6], "  … 993 cells left out");
        assert!(lines[7].starts_with("  996ük") && lines[9].contains("k… "), "{text}");
        assert!(lines[9].ends_with("7200 ms           e59 20.0 MiB +40 | … 59 more runs"), "{text}");
    }

    #[test]
    fn an_empty_tree_is_drawn_too() {
        assert_eq!(
            as_text(&[tree(vec![cell(b"", vec![])])], &reasons(), 20),
            "default                   0 B in 0 levels, 0 guards"
        );
    }
}
