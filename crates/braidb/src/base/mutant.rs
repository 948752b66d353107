//! Planted mutants: deliberate bugs, each chosen at run time by name, that the judges in `braidb-sim` must catch.
//! Without the feature `mutants` the question is a constant `false` and the bug is not compiled.
//!
//! `mutant!("name")` marks the place. Every name stands in [`ALL`] (a test compares the two).

/// Every mutant, with the rule of DESIGN.md section 6 that it breaks.
#[cfg(feature = "mutants")]
pub const ALL: &[(&str, &str)] = &[
    ("checksum_without_place", "14: a checksum covers header, file id and offset"),
    ("tombstone_dropped_early", "6: a tombstone goes only when nothing older can exist below"),
    ("version_dropped_under_snapshot", "5: no snapshot can see a dropped version"),
];

#[cfg(feature = "mutants")]
mod chosen {
    use std::cell::RefCell;

    // Per thread, so that judges can run side by side; the engine runs on the judge's own thread then.
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

    pub fn is_active(name: &str) -> bool {
        ACTIVE.with(|active| active.borrow().as_deref() == Some(name))
    }
}

#[cfg(feature = "mutants")]
pub use chosen::{activate, is_active};

macro_rules! mutant {
    ($name:literal) => {{
        #[cfg(feature = "mutants")]
        {
            $crate::base::mutant::is_active($name)
        }
        #[cfg(not(feature = "mutants"))]
        {
            false
        }
    }};
}
pub(crate) use mutant;
