//! Planted mutants: deliberate bugs, each chosen at run time by name, that the judges in `braidb-sim` must catch. Without the feature
//! `mutants`, `mutant!` is `false` and the bug is not compiled.
//!
//! `mutant!("name")` marks the place of a bug. [`ALL`] lists every name; a test compares the two.

/// Every mutant, with the rule of docs/crash-safety.md that it breaks.
#[cfg(feature = "mutants")]
pub const ALL: &[(&str, &str)] = &[
    ("cell_order_swapped", "7: a lookup asks the newest run of a cell first"),
    ("checksum_without_place", "14: a checksum covers header, file id and offset"),
    ("cut_loses_the_rest", "1: a slice that is cut for an increment of a merge keeps both sides"),
    ("cut_trusted", "4: a cut of a recovery, and a sync of old pages, prove nothing stable"),
    ("depth_bound_ignored", "18: at rest no cell has as many runs as make it due"),
    ("footer_trusted", "4: a footer proves nothing stable, since a rotation syncs nothing"),
    ("immutable_before_active", "7: for each key, sequence numbers fall from top to bottom"),
    ("upper_half_misses_its_first_key", "1: the subcompactions of a merge hold all of its keys"),
    ("slot_of_a_neighbour", "14: a reader gets the block that its table asked for"),
    ("skip_table_sync", "2: a flush syncs the index before the edit that refers to it"),
    ("seal_not_checked", "14: a sealed log has its footer and the length that its successor tells"),
    ("skip_log_dir_sync", "2: a log's name is stable before its records count as synced"),
    ("skip_log_sync", "2: a log's data is stable before its records count as synced"),
    ("epoch_not_raised", "12: at most one of two copies of a database goes on with a slow tier"),
    ("foreign_tier_accepted", "12: the tier of another database is refused"),
    ("forked_drop_seals", "19: a drop in a forked child writes nothing"),
    ("forked_drop_unlocks", "19: a drop in a forked child leaves the lock to the parent"),
    ("flush_before_log_sync", "2: a flush syncs all logs before the edit that advances replay_from"),
    ("flush_leaves_a_segment_out", "1: a log goes only when each live record in it stands in a synced file"),
    ("block_kept_before_its_check", "14: a reader gets no bytes that were not checked"),
    ("gap_replayed_over", "4: recovery stops at the first end that is not whole"),
    ("garbage_not_bought_back", "18: at rest no more than a quarter of a cell is tombstones"),
    ("backward_jump_one_key_short", "20: a jump ends at the end of its gap"),
    ("gap_of_a_later_number_used", "20: a reader uses gaps with numbers up to its own"),
    ("gap_over_a_put_accepted", "20: no put since a gap's number lies in it"),
    ("gaps_joined_at_the_smaller_number", "20: a joined gap holds from the largest of its numbers on"),
    ("gaps_joined_over_a_key", "20: no key lies between gaps that are joined"),
    ("put_cuts_after_publishing", "20: a put cuts the gaps that it lies in before it is published"),
    ("ring_overrun_accepted", "20: a gap is accepted only if all puts since its number are known"),
    ("guard_in_its_own_edit", "9: guards change in the same edit as the slices that they cut"),
    ("hole_under_a_neighbour", "1: blocks go only when no living slice of their table reaches them"),
    ("hole_in_a_living_value", "1: blocks of a value file go only when no handle leads into them"),
    ("handle_into_a_collected_log", "10: a log collection leaves logs that tables point into"),
    ("hot_not_synced", "2: replay_from advances only past logs whose records are copied in synced ones"),
    ("hot_installed_late", "8: a flush puts table and hot keys into the view in one swap"),
    ("hot_tombstone_lost", "6: a hot tombstone is live data"),
    ("hot_versions_lost_under_snapshot", "5: what a snapshot sees of a hot key goes to L0"),
    ("increment_committed_twice", "7: each increment of a merge replaces its inputs in one edit, once"),
    ("cursor_turn_repeats_a_key", "8: a cursor that turns shows each key of its view once"),
    (
        "older_version_shown_backward",
        "7: a walk backward shows the newest version of a key that its reader sees",
    ),
    ("fence_behind_its_key", "7: a scan meets the newest version of a key first"),
    ("iterator_error_swallowed", "14: an error of one source ends the whole scan"),
    ("l0_handed_over_out_of_order", "7: a newer table of L0 does not pass an older one that it overlaps"),
    ("l0_order_swapped", "7: a lookup asks the newest run of L0 first"),
    ("lock_not_compared", "17: nothing is deleted once another process may be in the directory"),
    ("log_deleted_one_edit_early", "1: a log goes only after the edit that no longer needs it"),
    ("log_deleted_under_a_handle", "1: a log goes only when no table points into it"),
    ("log_table_before_its_log", "2: a log is synced before the edit that adds a table which points into it"),
    ("memory_drops_tombstones", "6: a tombstone in memory hides what lies below"),
    ("merge_leaves_a_run_out", "7: a merge reads every run that it replaces"),
    ("rent_not_cleared", "18: what readers paid in vain buys one merge"),
    ("rent_of_kept_versions", "18: readers owe nothing for what a snapshot keeps"),
    ("rent_of_the_oldest", "18: readers owe nothing for the oldest run under a key"),
    ("replay_by_sequence", "3: position decides whether a record is replayed"),
    ("rewrite_lands_on_top", "7: a merge in place stays among the runs where its inputs were"),
    ("rolled_behind_older", "7: the pipeline has the newest segment first"),
    ("sequence_reused", "3: sequence numbers resume above the largest found"),
    ("skip_current_dir_sync", "2: the directory is synced before an old manifest goes"),
    ("skip_current_sync", "2: CURRENT is synced before it is renamed"),
    ("skip_manifest_dir_sync", "2: a manifest's name is stable before CURRENT names it"),
    ("skip_manifest_sync", "1: a file goes only after a synced edit no longer refers to it"),
    (
        "skip_recovery_sync",
        "4: recovery writes anew and syncs what no synced mark covers before it accepts writes",
    ),
    ("slow_cell_lifted", "7: a cell that comes back to the fast tier stays beneath newer versions"),
    ("slow_cell_with_two_runs", "12: a cell with tables on a slow tier has one run"),
    ("slow_dir_not_synced", "12: names on a slow tier are stable before the edit that refers to them"),
    ("slow_source_deleted_early", "1: the files of a cell that moves go after the edit that names its copy"),
    ("skip_table_dir_sync", "2: a table's name is stable before the edit that refers to it"),
    ("slice_crosses_a_guard", "9: a slice that comes to a level is cut by its guards"),
    ("slice_joins_a_taken_run", "7: what arrives while runs are replaced goes on top of them"),
    (
        "superseding_not_synced",
        "2: replay_from advances only past logs whose dead records have synced successors",
    ),
    ("table_deleted_under_view", "1: a file goes only after the last view of it"),
    ("table_deleted_with_its_first_slice", "1: a table goes only with its last slice"),
    ("replaced_after_a_flush_took_it", "7: memory compaction gives up when a flush took its segments"),
    (
        "relocated_as_a_newer_write",
        "10: a value moves with the version of its key, which keeps its sequence number",
    ),
    ("trie_table_named_too_short", "10: a table names a trie table behind all values that it leads to"),
    ("trie_table_keeps_its_first_length", "10: the length of a trie table is the largest that a table named"),
    (
        "trie_table_synced_once",
        "10: a job syncs a trie table before the edit that names what the job appended",
    ),
    ("truncates_for_one_family", "1: a log goes only when no family has its only copy of a record there"),
    ("tombstone_dropped_early", "6: a tombstone goes only when nothing older can exist below"),
    ("tombstone_ignores_older_runs", "6: older runs of the same cell may hold what a tombstone hides"),
    (
        "value_file_deleted_under_view",
        "1: a value file goes only after the last view of a table that leads into it",
    ),
    (
        "value_file_deleted_with_its_first_table",
        "10: a value file stays while a table of the state leads into it",
    ),
    ("value_file_forgotten_at_open", "1: an open deletes only value files that no edit names"),
    (
        "value_beyond_the_committed_length",
        "10: the edit names the length behind the last value of a value file",
    ),
    ("values_drift_at_a_cut", "10: the account of a value file is exact, whatever is cut or dropped"),
    ("value_not_synced", "10: a value is stable before the edit that adds its handle"),
    ("version_dropped_under_snapshot", "5: no snapshot can see a dropped version"),
    (
        "write_back_after_a_switch",
        "3: a record is written back before its family's next switch, or not at all",
    ),
    ("write_back_beside_a_flush", "1: a log goes only when no flushing set needs it"),
    ("write_back_leaves_tombstones", "6: a tombstone in memory is live data"),
    (
        "write_back_not_synced",
        "2: replay_from advances only past logs whose records are dead or copied in synced ones",
    ),
    ("phantom_unseen", "21: a transaction conflicts with a write in a range that it read"),
    ("change_of_tables_unseen", "21: a transaction whose reads the ring lost compares versions"),
    ("conflict_within_a_group_unseen", "21: a transaction conflicts with a batch before it in its group"),
    ("write_ring_overrun_unseen", "21: a ring that lost a write since the reads proves nothing"),
    ("checkpoint_named_first", "22: a checkpoint is named once its files are whole and stable"),
    ("checkpoint_not_synced", "22: a checkpoint is named once its files are whole and stable"),
    ("checkpoint_named_before_tiers", "22: a checkpoint is named once its slow directories are its tiers"),
    ("linked_file_punched", "22: a file with several names is not punched"),
    ("read_only_changes_files", "23: an open that only reads changes nothing"),
    (
        "excise_forgets_the_log",
        "24: an excise leaves no excised entry in memory or in a log that is replayed",
    ),
    ("excise_cuts_one_key_off", "24: an excise takes the keys of its ranges and no others"),
    ("excise_beside_a_merge", "24: no job carries entries through an excise"),
    ("excise_takes_newer_puts", "24: an excise takes nothing that was written behind its switch"),
    ("excise_unseen_by_transactions", "24: a transaction that read excised keys does not commit"),
    ("own_write_unread", "21: a transaction reads its own writes"),
    ("write_back_waits_for_memory", "16: what frees memory does not wait for memory"),
    (
        "written_back_not_replayed",
        "3: what is written back is replayed where the log of its first home is not",
    ),
];

#[cfg(feature = "mutants")]
mod chosen {
    use std::cell::RefCell;

    // Per thread, so that judges can run side by side; a judge runs the engine on its own thread.
    thread_local! {
        static ACTIVE: RefCell<Option<String>> = const { RefCell::new(None) };
    }

    /// Switches one mutant on for this thread, or all off.
    pub fn activate(name: Option<&str>) {
        if let Some(name) = name {
            assert!(super::ALL.iter().any(|(known, _)| *known == name), "there is no mutant {name:?}");
        }
        ACTIVE.with(|active| *active.borrow_mut() = name.map(str::to_owned));
    }

    /// The mutant that is on for this thread, for other threads of the same judge.
    pub fn active() -> Option<String> {
        ACTIVE.with(|active| active.borrow().clone())
    }

    pub fn is_active(name: &str) -> bool {
        ACTIVE.with(|active| active.borrow().as_deref() == Some(name))
    }
}

#[cfg(feature = "mutants")]
pub use chosen::{activate, active, is_active};

/// Returns `false`. It is a function because Clippy reports a condition that is the constant `false`.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is_never_active(_name: &str) -> bool {
    false
}

macro_rules! mutant {
    ($name:literal) => {{
        #[cfg(feature = "mutants")]
        {
            $crate::base::mutant::is_active($name)
        }
        #[cfg(not(feature = "mutants"))]
        {
            $crate::base::mutant::is_never_active($name)
        }
    }};
}
pub(crate) use mutant;
