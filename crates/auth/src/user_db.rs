//! The user database: a text file of names and NT hashes, read at start-up and on reload, changed by `longshore user`.
//! An NT hash is as good as a password, so the file must be its owner's alone, and is replaced in one step or not at
//! all.
//!
//! One user a line: `name:uid:hash`. The name is everything up to the first colon and is compared without regard to
//! case; the uid may be empty, then the system is asked for the name; the hash is 32 hexadecimal digits. Empty lines and
//! lines that begin with `#` are kept as they are.

mod file;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::{NtHash, UserLookup};

/// Longest name in characters: Windows takes no longer ones.
const MAX_NAME_CHARS: usize = 256;

/// What is wrong with a user database, or a change to it.
#[derive(Debug, thiserror::Error)]
pub enum UserDbError {
    /// The file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than the owner may read or write it.
    #[error("{}: mode {mode:04o} lets others in; make it readable by its owner only (chmod 600)", path.display())]
    TooOpen {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is a directory, a device or larger than any user database.
    #[error("{}: not a user database", path.display())]
    NotADatabase {
        /// Which file.
        path: PathBuf,
    },
    /// A line is wrong.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// Which file; empty for a text that is none.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The name cannot be a user's.
    #[error(
        "a user name has 1 to {MAX_NAME_CHARS} characters, without ':', '/', '\\', control characters, spaces at \
             the ends or '#' at the front"
    )]
    BadName,
    /// There is such a user already.
    #[error("user {0} exists already")]
    Exists(String),
    /// There is no such user.
    #[error("no user {0}")]
    Unknown(String),
}

/// One user.
#[derive(Debug, Clone)]
pub struct User {
    /// The name as it was given.
    pub name: String,
    /// The local user; by name where there is none.
    pub uid: Option<u32>,
    /// What the password is checked against.
    pub nt_hash: NtHash,
}

/// The users of one file, or of one run.
#[derive(Debug, Clone, Default)]
pub struct UserDb {
    lines: Vec<Line>,
    /// Folded name to position in `lines`.
    index: HashMap<String, usize>,
}

#[derive(Debug, Clone)]
enum Line {
    Note(String),
    User(User),
}

impl UserDb {
    /// Reads a file. It must belong to its owner alone.
    pub fn load(path: &Path) -> Result<Self, UserDbError> {
        Self::parse_file(path, &file::read(path)?)
    }

    /// Writes the file in one step: after a crash there is the old one or the new one. Its mode becomes 0600.
    pub fn save(&self, path: &Path) -> Result<(), UserDbError> {
        file::replace(path, self.format().as_bytes())
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, UserDbError> {
        Self::parse_file(Path::new(""), text)
    }

    fn parse_file(path: &Path, text: &str) -> Result<Self, UserDbError> {
        let mut db = Self::default();
        for (number, line) in text.lines().enumerate() {
            db.push_line(line).map_err(|what| UserDbError::Line { path: path.into(), line: number + 1, what })?;
        }
        Ok(db)
    }

    fn push_line(&mut self, line: &str) -> Result<(), &'static str> {
        if line.trim().is_empty() || line.starts_with('#') {
            self.lines.push(Line::Note(line.into()));
            return Ok(());
        }
        let user = parse_user(line)?;
        if self.index.contains_key(&fold(&user.name)) {
            return Err("the user is there already");
        }
        self.push(user);
        Ok(())
    }

    fn push(&mut self, user: User) {
        self.index.insert(fold(&user.name), self.lines.len());
        self.lines.push(Line::User(user));
    }

    fn format(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::new());
        for line in &self.lines {
            match line {
                Line::Note(note) => text.push_str(note),
                Line::User(user) => {
                    let uid = user.uid.map(|uid| uid.to_string()).unwrap_or_default();
                    for part in [&user.name, ":", &uid, ":", &Zeroizing::new(user.nt_hash.to_hex())] {
                        text.push_str(part);
                    }
                }
            }
            text.push('\n');
        }
        text
    }

    /// Adds a user.
    pub fn add(&mut self, name: &str, uid: Option<u32>, nt_hash: NtHash) -> Result<(), UserDbError> {
        if !is_name(name) {
            return Err(UserDbError::BadName);
        }
        if self.get(name).is_some() {
            return Err(UserDbError::Exists(name.into()));
        }
        self.push(User { name: name.into(), uid, nt_hash });
        Ok(())
    }

    /// Removes a user.
    pub fn remove(&mut self, name: &str) -> Result<(), UserDbError> {
        let at = self.position(name).ok_or_else(|| UserDbError::Unknown(name.into()))?;
        self.lines.remove(at);
        self.index.remove(&fold(name));
        self.index.values_mut().filter(|position| **position > at).for_each(|position| *position -= 1);
        Ok(())
    }

    /// Gives a user another password.
    pub fn set_nt_hash(&mut self, name: &str, nt_hash: NtHash) -> Result<(), UserDbError> {
        let at = self.position(name).ok_or_else(|| UserDbError::Unknown(name.into()))?;
        if let Some(Line::User(user)) = self.lines.get_mut(at) {
            user.nt_hash = nt_hash;
        }
        Ok(())
    }

    /// The users in the order of the file.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.lines.iter().filter_map(|line| match line {
            Line::User(user) => Some(user),
            Line::Note(_) => None,
        })
    }

    /// A user by name, whatever its case.
    pub fn get(&self, name: &str) -> Option<&User> {
        match self.lines.get(self.position(name)?)? {
            Line::User(user) => Some(user),
            Line::Note(_) => None,
        }
    }

    /// The user a client means: by name, or by the part before the `@` of a principal name.
    pub fn resolve(&self, name: &str) -> Option<&User> {
        self.get(name).or_else(|| self.get(name.rsplit_once('@')?.0))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.index.get(&fold(name)).copied()
    }
}

/// Any domain will do: all users are this server's own.
impl UserLookup for UserDb {
    fn nt_hash(&self, _domain: &str, user: &str) -> Option<NtHash> {
        self.resolve(user).map(|user| user.nt_hash.clone())
    }
}

fn fold(name: &str) -> String {
    name.to_lowercase()
}

fn parse_user(line: &str) -> Result<User, &'static str> {
    let mut fields = line.split(':');
    let (Some(name), Some(uid), Some(hash), None) = (fields.next(), fields.next(), fields.next(), fields.next()) else {
        return Err("a line is name:uid:hash");
    };
    if !is_name(name) {
        return Err("the name cannot be a user's");
    }
    let uid = match uid {
        "" => None,
        digits => Some(digits.parse().map_err(|_| "the uid is no number")?),
    };
    let nt_hash = NtHash::from_hex(hash.trim_end()).ok_or("the hash is not 32 hexadecimal digits")?;
    Ok(User { name: name.into(), uid, nt_hash })
}

fn is_name(name: &str) -> bool {
    let is_forbidden = |c: char| matches!(c, ':' | '/' | '\\') || c.is_control();
    (1..=MAX_NAME_CHARS).contains(&name.chars().count())
        && !name.contains(is_forbidden)
        && !name.starts_with('#')
        && name.trim() == name
}

#[cfg(test)]
mod tests;
