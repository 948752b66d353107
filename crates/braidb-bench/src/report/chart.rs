//! A chart with the table of its numbers, as the page shows it.

/// Rows of cells below a head. The first column names the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A drawing, what it shows in words, and its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    pub title: String,
    /// What a reader has to know to read the drawing.
    pub note: String,
    pub svg: String,
    pub table: Table,
}

/// What a cell shows where a run has no figure.
pub const ABSENT: &str = "—";
