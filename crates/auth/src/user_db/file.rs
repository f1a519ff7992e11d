//! Reading and replacing the user database's file. Only its parent calls it; it must never leave a half-written file in
//! the database's place, nor hashes in a file others can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::UserDbError;

/// Some 200,000 users: a bound on what a wrong path can make us read.
const MAX_LEN_BYTES: u64 = 16 << 20;
const FOR_OTHERS: u32 = 0o077;

/// The text of the file, once it is clear that it is its owner's alone.
pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, UserDbError> {
    let failed = |source| UserDbError::Io { path: path.into(), source };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() || metadata.len() > MAX_LEN_BYTES {
        return Err(UserDbError::NotADatabase { path: path.into() });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & FOR_OTHERS != 0 {
        return Err(UserDbError::TooOpen { path: path.into(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(metadata.len() as usize));
    file.take(MAX_LEN_BYTES).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Puts `content` in the place of the file. A symbolic link keeps pointing to it.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), UserDbError> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let temporary = temporary_beside(&target);
    write_then_rename(&temporary, &target, content).map_err(|source| {
        // The error worth telling is the first one; a file left behind is only its owner's to read.
        let _ = fs::remove_file(&temporary);
        UserDbError::Io { path: path.into(), source }
    })
}

fn write_then_rename(temporary: &Path, target: &Path, content: &[u8]) -> io::Result<()> {
    // One left by a crashed process of the same number.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    // The process's mask can only have taken bits away; give the owner's back.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(temporary, target)?;
    File::open(directory_of(target))?.sync_all()
}

fn temporary_beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    directory_of(target).join(format!(".{name}.{}.tmp", std::process::id()))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
