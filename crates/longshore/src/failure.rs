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

    /// No server was reached, or it let nobody in: exit code 3.
    pub fn connection(line: impl Display) -> Self {
        Self { lines: vec![line.to_string()], code: 3 }
    }

    /// Somebody pressed Ctrl-C: what a shell makes of SIGINT.
    pub fn interrupted(line: impl Display) -> Self {
        Self { lines: vec![line.to_string()], code: 130 }
    }

    /// What went wrong has been said already, or nobody wants to know it.
    pub fn silent(code: u8) -> Self {
        Self { lines: Vec::new(), code }
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
