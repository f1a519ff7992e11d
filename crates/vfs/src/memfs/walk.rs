//! From a directory and a path to an object of a [`MemFs`](super::MemFs), through symbolic links and never above the
//! root. `backend.rs` calls it with the tree locked.

use std::collections::VecDeque;

use super::tree::{ROOT, Tree};
use crate::{AccessMask, Cred, FileKind, Path, VfsError, VfsResult, casefold, shortname};

/// Links followed at most, as in Linux (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// What a path led to.
pub enum Found {
    /// An object, by this entry; no entry for the starting directory itself.
    Object { ino: u64, entry: Option<u64> },
    /// Nothing, but the directory for it is there.
    Missing { dir: u64, name: Vec<u8> },
}

impl Tree {
    /// Walks `path` from the directory `start`.
    pub fn walk(&self, cred: &Cred, start: u64, path: &Path, follow: bool) -> VfsResult<Found> {
        let mut ahead: VecDeque<Vec<u8>> = path.components().map(|n| n.as_bytes().to_vec()).collect();
        let (mut at, mut by) = (start, None);
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            let dir = self.inode(at)?;
            if dir.kind != FileKind::Directory {
                return Err(VfsError::PathNotFound);
            }
            dir.demand(cred, AccessMask::EXECUTE)?;
            match &*name {
                b"" | b"." => continue,
                b".." if at == ROOT => return Err(VfsError::Escapes),
                b".." => {
                    at = self.parent(at).ok_or(VfsError::Stale)?;
                    by = Some(self.inode(at)?.entry).filter(|&e| e != 0);
                    continue;
                }
                _ => {}
            }
            let Some((number, entry)) = self.named(at, &name) else {
                let missing = Found::Missing { dir: at, name };
                return if ahead.is_empty() { Ok(missing) } else { Err(VfsError::PathNotFound) };
            };
            let inode = self.inode(entry.ino)?;
            if inode.kind == FileKind::Symlink && (follow || !ahead.is_empty()) {
                links += 1;
                if links > MAX_LINKS || inode.data.starts_with(b"/") {
                    return Err(VfsError::Escapes);
                }
                for part in inode.data.rsplit(|&b| b == b'/') {
                    ahead.push_front(part.to_vec());
                }
                continue;
            }
            (at, by) = (entry.ino, Some(number));
        }
        Ok(Found::Object { ino: at, entry: by })
    }

    /// The object at `path`, by its entry.
    pub fn find(&self, cred: &Cred, start: u64, path: &Path, follow: bool) -> VfsResult<(u64, Option<u64>)> {
        match self.walk(cred, start, path, follow)? {
            Found::Object { ino, entry } => Ok((ino, entry)),
            Found::Missing { .. } => Err(VfsError::NotFound),
        }
    }

    /// The directory `path`'s last component is in, and that component.
    pub fn find_parent(&self, cred: &Cred, start: u64, path: &Path) -> VfsResult<(u64, Vec<u8>)> {
        let (Some(parent), Some(last)) = (path.parent(), path.last()) else {
            return Err(VfsError::InvalidArgument);
        };
        let (dir, _) = self.find(cred, start, &parent, true).map_err(|e| match e {
            VfsError::NotFound => VfsError::PathNotFound,
            other => other,
        })?;
        let inode = self.inode(dir)?;
        if inode.kind != FileKind::Directory {
            return Err(VfsError::PathNotFound);
        }
        inode.demand(cred, AccessMask::EXECUTE)?;
        Ok((dir, last.as_bytes().to_vec()))
    }

    /// The path as its directories spell it.
    pub fn spell(&self, cred: &Cred, start: u64, path: &Path) -> VfsResult<Path> {
        let mut done = Path::here();
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            let (dir, _) = self.find(cred, start, &done, true).map_err(|e| match e {
                VfsError::NotFound => VfsError::PathNotFound,
                other => other,
            })?;
            let inode = self.inode(dir)?;
            if inode.kind != FileKind::Directory {
                return Err(VfsError::PathNotFound);
            }
            inode.demand(cred, AccessMask::EXECUTE)?;
            let wanted = name.as_bytes();
            let spelled = if inode.names.contains_key(wanted) {
                Some(wanted)
            } else {
                let by_short = || {
                    let short = shortname::may_be_made_up(wanted).then(|| wanted.to_ascii_uppercase())?;
                    inode.names.keys().find(|n| shortname::made_for(n).as_ref() == Some(&short))
                };
                inode.names.keys().find(|n| casefold::same(n, wanted)).or_else(by_short).map(|n| &**n)
            };
            let missing = if names.peek().is_some() { VfsError::PathNotFound } else { VfsError::NotFound };
            let spelled = crate::Name::new(spelled.ok_or(missing)?).map_err(|_| VfsError::InvalidName)?;
            done = done.join(spelled);
        }
        Ok(done)
    }

    /// Where an entry is, from the root.
    pub fn path_of(&self, mut entry: u64) -> VfsResult<Path> {
        let mut names = Vec::new();
        loop {
            let at = self.entry(entry).ok_or(VfsError::Stale)?;
            names.push(&*at.name);
            if at.parent == ROOT {
                break;
            }
            entry = self.inode(at.parent)?.entry;
        }
        names.reverse();
        Path::new(&names.join(&b'/')).map_err(|_| VfsError::Stale)
    }
}
