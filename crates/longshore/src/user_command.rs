//! `longshore user`: changes the user database. The file's format, mode and atomic replacement are `auth`'s; here are the
//! default path, the lock that keeps two commands apart, and the words.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use auth::{NtHash, UserDb, UserDbError};
use rustix::fs::{FlockOperation, flock};

use crate::cli::{UserArgs, UserCommand};
use crate::failure::Failure;
use crate::password;

/// Where the database is unless said otherwise: root's in `/etc`, everybody else's with their own configuration.
pub fn default_path() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/etc/longshore/users");
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let own = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from).or_else(home);
    own.unwrap_or_else(|| PathBuf::from("/etc")).join("longshore/users")
}

/// Does what the command line says.
pub fn run(arguments: &UserArgs) -> Result<(), Failure> {
    let path = arguments.users.clone().unwrap_or_else(default_path);
    match &arguments.command {
        UserCommand::List => list(&path),
        UserCommand::Add { name, uid, password } => {
            change(&path, true, |db| {
                if db.get(name).is_some() {
                    let hint = format!("`longshore user passwd {name}` changes the password");
                    return Err(Failure::usage(format!("user {name} exists already; {hint}")));
                }
                let password = password::obtain(name, password.password_file.as_deref())?;
                db.add(name, *uid, NtHash::of_password(&password)).map_err(|error| explain(&path, &error))
            })?;
            told(&path, &format!("added {name}"))
        }
        UserCommand::Remove { name } => {
            change(&path, false, |db| db.remove(name).map_err(|error| explain(&path, &error)))?;
            told(&path, &format!("removed {name}"))
        }
        UserCommand::Passwd { name, password } => {
            change(&path, false, |db| {
                if db.get(name).is_none() {
                    return Err(explain(&path, &UserDbError::Unknown(name.clone())));
                }
                let password = password::obtain(name, password.password_file.as_deref())?;
                db.set_nt_hash(name, NtHash::of_password(&password)).map_err(|error| explain(&path, &error))
            })?;
            told(&path, &format!("changed the password of {name}"))
        }
    }
}

fn list(path: &Path) -> Result<(), Failure> {
    let db = UserDb::load(path).map_err(|error| explain(path, &error))?;
    let mut text = String::new();
    for user in db.users() {
        let uid = user.uid.map(|uid| format!("  (uid {uid})")).unwrap_or_default();
        text.push_str(&format!("{}{uid}\n", user.name));
    }
    show(&text)
}

/// Loads the database, changes it and puts it back, while no other command does.
fn change(path: &Path, may_make: bool, act: impl FnOnce(&mut UserDb) -> Result<(), Failure>) -> Result<(), Failure> {
    let _lock = lock_beside(path, may_make)?;
    let mut db = match UserDb::load(path) {
        Err(UserDbError::Io { source, .. }) if may_make && source.kind() == std::io::ErrorKind::NotFound => {
            UserDb::default()
        }
        other => other.map_err(|error| explain(path, &error))?,
    };
    act(&mut db)?;
    db.save(path).map_err(|error| explain(path, &error))
}

/// The lock is on the directory: the file itself is replaced.
fn lock_beside(path: &Path, may_make: bool) -> Result<File, Failure> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let failed = |error: std::io::Error| {
        let what = format!("cannot use {}: {error}; name another database with --users FILE", directory.display());
        Failure::usage(what)
    };
    if may_make {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
    }
    let directory = File::open(directory).map_err(failed)?;
    flock(&directory, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
    Ok(directory)
}

/// What is wrong with a database, and what to do about it.
pub fn explain(path: &Path, error: &UserDbError) -> Failure {
    match error {
        UserDbError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Failure::usage(format!(
            "there is no user database {}; `longshore user add --users {} NAME` makes one",
            path.display(),
            path.display()
        )),
        UserDbError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Failure::usage(format!("may not read or write the user database {}; run as its owner", path.display()))
        }
        UserDbError::Unknown(name) => {
            Failure::usage(format!("there is no user {name} in {}; `longshore user list` shows them", path.display()))
        }
        other => Failure::usage(other),
    }
}

fn told(path: &Path, what: &str) -> Result<(), Failure> {
    show(&format!("{what} in {}; a running server takes it up on SIGHUP\n", path.display()))
}

fn show(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).map_err(|error| Failure::system(format!("cannot write the answer: {error}")))
}
