//! Why the command ends without having done its work, in words for the person who gave it. Every module of the binary
//! makes these; only `main` shows them.

use std::fmt::Display;

/// One or more lines to show, and whose mistake it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    lines: Vec<String>,
    code: u8,
}

impl Failure {
    /// The command line or the configuration cannot be followed: exit code 2.
    pub fn usage(line: impl Display) -> Self {
        Self { lines: vec![line.to_string()], code: 2 }
    }

    /// Everything was said right, and the system would not: exit code 1.
    pub fn system(line: impl Display) -> Self {
        Self { lines: vec![line.to_string()], code: 1 }
    }

    /// Several mistakes in one configuration.
    pub fn problems(lines: Vec<String>) -> Self {
        Self { lines, code: 2 }
    }

    /// What to show.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// The process's exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}
