//! What the bindings of BraidDB have in common: options by name, codes of errors, reports as JSON, and the handle of an open database.
//!
//! | file | subject |
//! |---|---|
//! | `code` | the numbers and names of errors, and the file that an error is about |
//! | `opened` | an open database, which refuses calls after its close and in a forked child |
//! | `reports` | statistics and reports as JSON |
//! | `settings` | options by their names |

pub mod code;
pub mod opened;
pub mod reports;
pub mod settings;
