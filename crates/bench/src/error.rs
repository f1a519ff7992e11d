//! What can be wrong with a declaration, an observation or a report file. Every message is for the person who wrote the
//! declaration or named the file; nothing here is a reason to panic.

use crate::plan::Operation;
use thiserror::Error;

/// Why a plan, a set of observations or a report file was refused.
#[derive(Debug, Error)]
pub enum Error {
    /// A declared dimension has nothing in it.
    #[error("the plan names no {0}")]
    Empty(&'static str),
    /// A declared dimension has the same thing twice: its cells could not be told apart.
    #[error("the plan names the {what} {name:?} twice")]
    Twice {
        /// Which dimension.
        what: &'static str,
        /// What is there twice.
        name: String,
    },
    /// A number or a label outside its limits.
    #[error("{what} is {value}; it must be {allowed}")]
    OutOfRange {
        /// Which setting.
        what: &'static str,
        /// What was declared.
        value: String,
        /// What may be declared.
        allowed: String,
    },
    /// An operation on files by their names, where one open file is worked on.
    #[error("{0} is not done with one open file")]
    NotOnOneFile(Operation),
    /// An operation on an open file, where files are gone to by their names.
    #[error("{0} is not done with many files by their names")]
    NotOnNames(Operation),
    /// The baseline is not one of the targets.
    #[error("the baseline {0:?} is none of the targets")]
    NoSuchBaseline(String),
    /// The machine's limit is not one of the targets.
    #[error("the limit {0:?} is none of the targets")]
    NoSuchCeiling(String),
    /// An observation of a cell or block that the plan does not have.
    #[error("an observation of cell {cell} in block {block}, which the plan does not have")]
    NotPlanned {
        /// The cell's number.
        cell: u32,
        /// The block's number.
        block: u32,
    },
    /// Two observations of one cell in one block: which of them counts was not declared.
    #[error("cell {cell} was observed twice in block {block}")]
    ObservedTwice {
        /// The cell's number.
        cell: u32,
        /// The block's number.
        block: u32,
    },
    /// A histogram in a file contradicts itself.
    #[error("a latency histogram is not valid: {0}")]
    Histogram(&'static str),
    /// The file is JSON, but not a report of ours.
    #[error("this is not a report of longshore bench")]
    NotAReport,
    /// The report is of a version that this program does not know.
    #[error("the report has format version {found}; this program reads version {known}")]
    Version {
        /// What the file says.
        found: u64,
        /// What this program writes.
        known: u64,
    },
    /// The file is not JSON, or a field is missing or of another type.
    #[error("the report cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}
