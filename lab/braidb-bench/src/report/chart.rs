//! A chart with the table of its numbers.

/// Rows of cells below a head. The first column names the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A chart: its drawing, a description, and its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    pub title: String,
    /// The note that a reader needs to understand the drawing.
    pub note: String,
    pub svg: String,
    pub table: Table,
}

/// The text of a cell whose run lacks the figure.
pub const ABSENT: &str = "—";
