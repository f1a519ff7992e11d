//! Changes below a directory, found by looking again: NFS tells nobody of them. The directory is listed every second, or
//! as seldom as listing it takes a tenth of the time; what differs is a change. What comes and goes in between is not
//! seen, and of several changes of one file the last.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{Listing, Share};
use crate::error::ErrorKind;
use crate::stat::Stat;
use crate::watch::{Change, ChangeKind};

const PAUSE: Duration = Duration::from_secs(1);
/// How many times the time of a look the pause between two is at least.
const PAUSE_PER_LOOK: u32 = 9;
/// What is remembered of one look may take so much: a million names of usual length and depth.
const MOST_BYTES: usize = 256 << 20;

/// What shows that something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    file_id: Option<u64>,
    len_bytes: u64,
    written: Option<SystemTime>,
    changed: Option<SystemTime>,
    is_dir: bool,
}

type Look = HashMap<PathBuf, Mark>;

/// A look under way.
#[derive(Debug, Default)]
struct Looking {
    seen: Look,
    to_see: Vec<PathBuf>,
    bytes: usize,
}

impl Looking {
    fn see(&mut self, path: PathBuf, mark: Mark, goes_in: bool) -> Result<(), ErrorKind> {
        const TOO_MUCH: ErrorKind = ErrorKind::Input("there is too much below the directory to be watched");
        let names = if goes_in { 2 } else { 1 };
        self.bytes += size_of::<(PathBuf, Mark)>() + names * path.as_os_str().len();
        if self.bytes > MOST_BYTES {
            return Err(TOO_MUCH);
        }
        if goes_in {
            self.to_see.push(path.clone());
        }
        self.seen.insert(path, mark);
        Ok(())
    }
}

/// A watch.
#[derive(Debug)]
pub(crate) struct Watch {
    share: Arc<Share>,
    path: PathBuf,
    recursive: bool,
    last: Look,
    took: Duration,
    /// When it is looked again; whoever waits may be called away any number of times before.
    again: Instant,
}

impl Watch {
    pub async fn new(share: &Arc<Share>, path: &Path, recursive: bool) -> Result<Self, ErrorKind> {
        let (last, took, again) = (Look::new(), Duration::ZERO, Instant::now() + PAUSE);
        let mut watch = Self { share: Arc::clone(share), path: path.into(), recursive, last, took, again };
        watch.last = watch.look().await?;
        Ok(watch)
    }

    /// Waits for changes. Given up before it is done, it finds them the next time.
    pub async fn next(&mut self) -> Result<Vec<Change>, ErrorKind> {
        loop {
            tokio::time::sleep_until(self.again).await;
            let begun = Instant::now();
            let now = self.look().await?;
            self.took = begun.elapsed();
            self.again = Instant::now() + PAUSE.max(self.took * PAUSE_PER_LOOK);
            let changes = changes(&self.last, &now);
            self.last = now;
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
    }

    async fn look(&self) -> Result<Look, ErrorKind> {
        let mut looking = Looking { to_see: vec![PathBuf::new()], ..Looking::default() };
        while let Some(dir) = looking.to_see.pop() {
            match self.look_into(&dir, &mut looking).await {
                Ok(()) => {}
                // It went while others were looked at.
                Err(ErrorKind::Nfs(status)) if !dir.as_os_str().is_empty() && status.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(looking.seen)
    }

    async fn look_into(&self, dir: &Path, looking: &mut Looking) -> Result<(), ErrorKind> {
        let mut listing = Listing::open(&self.share, &self.path.join(dir)).await?;
        while let Some(batch) = listing.next_batch().await? {
            for entry in batch {
                let goes_in = self.recursive && entry.stat.is_dir();
                looking.see(dir.join(&entry.name), Mark::from(&entry.stat), goes_in)?;
            }
        }
        Ok(())
    }
}

impl From<&Stat> for Mark {
    fn from(stat: &Stat) -> Self {
        let Stat { file_id, len_bytes, times, .. } = *stat;
        Self { file_id, len_bytes, written: times.written, changed: times.changed, is_dir: stat.is_dir() }
    }
}

fn changes(before: &Look, now: &Look) -> Vec<Change> {
    let same = |a: &Mark, b: &Mark| a.file_id.is_some() && (a.file_id, a.is_dir) == (b.file_id, b.is_dir);
    let mut gone: HashMap<u64, &PathBuf> = HashMap::new();
    let mut changes = Vec::new();
    let mut tell = |path: &Path, kind| changes.push(Change { path: path.into(), kind });
    for (path, mark) in before {
        match now.get(path) {
            Some(other) if other == mark => {}
            Some(other) if mark.file_id == other.file_id => tell(path, ChangeKind::Modified),
            // Another has its name.
            Some(_) => tell(path, ChangeKind::Modified),
            None => match mark.file_id {
                Some(id) if gone.insert(id, path).is_none() => {}
                _ => tell(path, ChangeKind::Removed),
            },
        }
    }
    for (path, mark) in now.iter().filter(|(path, _)| !before.contains_key(*path)) {
        let old = mark.file_id.and_then(|id| gone.remove(&id));
        match old {
            Some(old) if before.get(old).is_some_and(|old| same(old, mark)) => {
                tell(old, ChangeKind::RenamedFrom);
                tell(path, ChangeKind::RenamedTo);
            }
            Some(old) => {
                tell(old, ChangeKind::Removed);
                tell(path, ChangeKind::Added);
            }
            None => tell(path, ChangeKind::Added),
        }
    }
    gone.into_values().for_each(|path| tell(path, ChangeKind::Removed));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(entries: &[(&str, u64, u64)]) -> Look {
        let mark = |id, len_bytes| Mark { file_id: Some(id), len_bytes, written: None, changed: None, is_dir: false };
        entries.iter().map(|(name, id, len)| (PathBuf::from(name), mark(*id, *len))).collect()
    }

    #[test]
    fn what_differs_is_a_change() {
        let before = look(&[("same", 1, 1), ("longer", 2, 1), ("gone", 3, 1), ("old", 4, 1)]);
        let now = look(&[("same", 1, 1), ("longer", 2, 2), ("come", 5, 1), ("new", 4, 1)]);
        let mut found: Vec<_> =
            changes(&before, &now).into_iter().map(|c| (c.path.to_str().unwrap().to_owned(), c.kind)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [
            ("come", ChangeKind::Added),
            ("gone", ChangeKind::Removed),
            ("longer", ChangeKind::Modified),
            ("new", ChangeKind::RenamedTo),
            ("old", ChangeKind::RenamedFrom),
        ];
        assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
        assert!(changes(&now, &now).is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded_by_its_bytes() {
        let mark = Mark { file_id: None, len_bytes: 0, written: None, changed: None, is_dir: true };
        // As deep as a server can make a tree of long names.
        let (mut looking, mut path, mut count) = (Looking::default(), PathBuf::new(), 0);
        loop {
            path.push("x".repeat(1000));
            count += 1;
            if looking.see(path.clone(), mark, true).is_err() {
                break;
            }
        }
        assert!((100..1000).contains(&count), "{count}");
        let kept: usize = looking.seen.keys().chain(&looking.to_see).map(|path| path.as_os_str().len()).sum();
        assert!(kept <= MOST_BYTES);
    }
}
