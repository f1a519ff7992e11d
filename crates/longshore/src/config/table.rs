//! A TOML table read key by key, with every mistake kept beside the line it is on. `sections` uses it; it knows no key
//! itself, and never stops at the first mistake.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Lines;

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1; `None` where there is none to point to.
    pub line: Option<usize>,
    /// The key with its sections, such as `share.docs.path`; empty where the file is no TOML.
    pub key: String,
    /// What is wrong, and what to do.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "{line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

/// What reading a text leaves behind.
pub(super) struct Journal<'a> {
    text: &'a str,
    found: RefCell<Found>,
}

/// Mistakes, and which keys there could have been and which there were.
#[derive(Default)]
pub(super) struct Found {
    /// All that is wrong.
    pub problems: Vec<Problem>,
    /// Where each key that was set stands.
    pub lines: Lines,
    /// Every key that was asked for, by section.
    pub known: Vec<(String, &'static str)>,
}

impl<'a> Journal<'a> {
    /// For reading `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, found: RefCell::default() }
    }

    /// What was found.
    pub(super) fn into_found(self) -> Found {
        self.found.into_inner()
    }

    /// Notes a mistake; without a place, it is at the key, where that is set.
    pub(super) fn problem(&self, at: Option<Range<usize>>, key: String, what: impl Into<String>) {
        let mut found = self.found.borrow_mut();
        let line = at.map(|span| self.line_of(span.start)).or_else(|| {
            let (section, name) = key.rsplit_once('.')?;
            found.lines.get(&(section.to_owned(), name.to_owned())).copied()
        });
        found.problems.push(Problem { line, key, what: what.into() });
    }

    fn line_of(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().get(..offset).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }
}

/// One table of the text while its keys are taken.
pub(super) struct Section<'a, 'i> {
    journal: &'a Journal<'a>,
    /// `server`, `share.docs`; empty for the whole file.
    name: String,
    table: &'a DeTable<'i>,
    known: Vec<&'static str>,
}

impl<'a, 'i> Section<'a, 'i> {
    /// The table called `name`.
    pub(super) fn new(journal: &'a Journal<'a>, name: String, table: &'a DeTable<'i>) -> Self {
        Self { journal, name, table, known: Vec::new() }
    }

    /// Reads `key` into `target` if it is set; `read` answers what is wrong with the value, if anything.
    pub(super) fn set<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        read: impl FnOnce(&DeValue<'i>) -> Result<T, String>,
    ) {
        let Some(value) = self.take(key) else { return };
        match read(value.get_ref()) {
            Ok(value) => *target = value,
            Err(what) => self.wrong(key, Some(value.span()), what),
        }
    }

    /// The table `key`, if there is one.
    pub(super) fn table(&mut self, key: &'static str) -> Option<&'a DeTable<'i>> {
        let value = self.take(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong(key, Some(value.span()), format!("must be a section: write [{key}]"));
        }
        table
    }

    /// Notes that something is wrong with `key`.
    pub(super) fn wrong(&self, key: &str, at: Option<Range<usize>>, what: impl Into<String>) {
        self.journal.problem(at, self.path(key), what);
    }

    /// Notes every key that nobody took.
    pub(super) fn finish(self) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let what = match nearest(name, &self.known) {
                Some(meant) => format!("unknown key; did you mean `{meant}`?"),
                None => format!("unknown key; there are {}", self.known.join(", ")),
            };
            self.wrong(name, Some(key.span()), what);
        }
    }

    fn take(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.known.push(key);
        let mut found = self.journal.found.borrow_mut();
        found.known.push((self.name.clone(), key));
        let (at, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        found.lines.insert((self.name.clone(), key.to_owned()), self.journal.line_of(at.span().start));
        Some(value)
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

/// The known word most like `word`, if it is like it at all.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word = word.to_lowercase().replace('-', "_");
    let likeness = |k: &str| strsim::jaro_winkler(&word, &k.replace('-', "_"));
    known
        .iter()
        .map(|k| (likeness(k), *k))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}
