//! Change times that clients set. A POSIX file system keeps its own (ctime) and lets nobody choose it, so a chosen one
//! is remembered here and shown until the object changes next. It does not outlive the server, and of very many only the
//! latest are kept. `meta.rs` asks, SET_INFO remembers; where nothing was ever set asking is one atomic load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use smb_wire::fscc::FileTime;
use vfs::{Attr, FileId, Timestamp};

/// Times remembered at most.
const MOST: usize = 4096;

/// The change times set on one share's objects.
#[derive(Default)]
pub struct ChangeTimes {
    any: AtomicBool,
    set: Mutex<HashMap<FileId, Chosen>>,
}

struct Chosen {
    shown: FileTime,
    /// The backend's own change time that it stands for.
    instead_of: Timestamp,
}

impl ChangeTimes {
    /// `shown` is the change time of the object with these attributes, as long as they stay so.
    pub fn set(&self, attr: &Attr, shown: FileTime) {
        let mut set = self.set.lock();
        if set.len() >= MOST && !set.contains_key(&attr.id) {
            set.clear();
        }
        set.insert(attr.id, Chosen { shown, instead_of: attr.changed });
        self.any.store(true, Relaxed);
    }

    /// What to show for an object with these attributes, if it was chosen.
    pub fn get(&self, attr: &Attr) -> Option<FileTime> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let mut set = self.set.lock();
        let chosen = set.get(&attr.id)?;
        if chosen.instead_of == attr.changed {
            return Some(chosen.shown);
        }
        set.remove(&attr.id);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::FileKind;

    fn attr(ino: u64, changed: i64) -> Attr {
        let time = Timestamp { secs: changed, nanos: 0 };
        Attr {
            id: FileId { dev: 1, ino, generation: 0 },
            kind: FileKind::File,
            mode: 0,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            len_bytes: 0,
            allocated_bytes: 0,
            accessed: time,
            modified: time,
            changed: time,
            created: None,
            change: 0,
        }
    }

    #[test]
    fn a_time_is_shown_until_the_object_changes() {
        let times = ChangeTimes::default();
        assert_eq!(times.get(&attr(1, 5)), None);
        times.set(&attr(1, 5), FileTime(77));
        assert_eq!(times.get(&attr(1, 5)), Some(FileTime(77)));
        assert_eq!(times.get(&attr(2, 5)), None);
        assert_eq!(times.get(&attr(1, 6)), None);
        assert_eq!(times.get(&attr(1, 5)), None);
    }

    #[test]
    fn no_more_than_so_many_are_kept() {
        let times = ChangeTimes::default();
        for ino in 0..=MOST as u64 {
            times.set(&attr(ino, 5), FileTime(1));
        }
        assert!(times.set.lock().len() <= MOST);
        assert_eq!(times.get(&attr(MOST as u64, 5)), Some(FileTime(1)));
    }
}
