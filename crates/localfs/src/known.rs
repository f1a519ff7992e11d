//! Handles the kernel has told already, by the object's number and birth, so that a listing need not ask for those of the
//! same entries again and again. `handles.rs` asks and tells. An object never gets another handle, and none but it is ever
//! born with the same number at the same time: nothing here becomes false. Bounded; memory is taken as objects are seen.

use std::sync::OnceLock;

use parking_lot::Mutex;
use vfs::{FileId, Timestamp};

/// Pages of places: 10 KiB each, made when the first object comes to it.
const PAGES: usize = 1024;
/// Objects whose numbers follow one another share a page and have a set each.
const SETS: usize = 64;
/// Objects in a set.
const WAYS: usize = 4;
/// The longest handle that is remembered: those of the common file systems are shorter.
const MAX_BYTES: usize = 23;
/// How long ago an object must have been born. The clock that births are read from stands still for some milliseconds,
/// in which a number may be given twice.
const SETTLED_SECS: i64 = 2;

/// Handles of objects of one file system.
pub struct Known(Box<[OnceLock<Box<Page>>]>);

type Page = Mutex<[[Place; WAYS]; SETS]>;

#[derive(Clone, Copy)]
struct Place {
    ino: u64,
    born: u64,
    /// 0 where the place is free.
    len: u8,
    handle: [u8; MAX_BYTES],
}

const FREE: Place = Place { ino: 0, born: 0, len: 0, handle: [0; MAX_BYTES] };

impl Default for Known {
    fn default() -> Self {
        Self((0..PAGES).map(|_| OnceLock::new()).collect())
    }
}

impl Known {
    /// The handle of an object, if it is remembered.
    pub fn find(&self, id: FileId) -> Option<Vec<u8>> {
        let (page, set) = place_of(id.ino);
        let page = self.0.get(page)?.get()?.lock();
        let place = page.get(set)?.iter().find(|place| place.is_of(id))?;
        place.handle.get(..place.len.into()).map(<[u8]>::to_vec)
    }

    /// Remembers a handle that is the object's without doubt: another of the same number would have been born later.
    pub fn remember(&self, id: FileId, born: Timestamp, handle: &[u8], now: Timestamp) {
        let settled = born.secs.saturating_add(SETTLED_SECS) < now.secs;
        if !settled || handle.is_empty() || handle.len() > MAX_BYTES {
            return;
        }
        let (page, set) = place_of(id.ino);
        let Some(page) = self.0.get(page) else { return };
        let mut page = page.get_or_init(|| Box::new(Mutex::new([[FREE; WAYS]; SETS]))).lock();
        let Some(set) = page.get_mut(set) else { return };
        // The one before goes a place further each time, and out in the end.
        let at = set.iter().position(|place| place.len == 0 || place.ino == id.ino).unwrap_or(WAYS - 1);
        set.copy_within(..at, 1);
        let mut bytes = [0; MAX_BYTES];
        bytes.iter_mut().zip(handle).for_each(|(to, from)| *to = *from);
        set[0] = Place { ino: id.ino, born: id.generation, len: handle.len() as u8, handle: bytes };
    }
}

impl Place {
    fn is_of(&self, id: FileId) -> bool {
        self.len > 0 && self.ino == id.ino && self.born == id.generation
    }
}

/// The page and the set of a number. Those of one directory mostly follow one another.
fn place_of(ino: u64) -> (usize, usize) {
    let run = (ino / SETS as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((run >> 32) as usize % PAGES, ino as usize % SETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp { secs: 1000, nanos: 0 };

    fn id(ino: u64, generation: u64) -> FileId {
        FileId { dev: 1, ino, generation }
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp { secs, nanos: 0 }
    }

    #[test]
    fn an_object_is_told_from_the_one_before_it() {
        let known = Known::default();
        assert_eq!(known.find(id(5, 1)), None);
        known.remember(id(5, 1), at(1), b"first", NOW);
        assert_eq!(known.find(id(5, 1)).unwrap(), b"first");
        assert_eq!(known.find(id(5, 2)), None);
        known.remember(id(5, 2), at(2), b"second", NOW);
        assert_eq!(known.find(id(5, 1)), None, "its number is another's now");
        assert_eq!(known.find(id(5, 2)).unwrap(), b"second");
    }

    #[test]
    fn what_was_born_just_now_is_not_remembered() {
        let known = Known::default();
        known.remember(id(5, 1), at(998), b"first", NOW);
        assert_eq!(known.find(id(5, 1)), None);
        known.remember(id(5, 1), at(997), b"first", NOW);
        assert!(known.find(id(5, 1)).is_some());
        known.remember(id(6, 1), at(1), &[1; MAX_BYTES + 1], NOW);
        assert_eq!(known.find(id(6, 1)), None, "too long");
    }

    #[test]
    fn a_directory_of_many_files_is_remembered_and_memory_is_bounded() {
        let known = Known::default();
        for ino in 0..50_000 {
            known.remember(id(ino, 1), at(1), &ino.to_ne_bytes(), NOW);
        }
        let right = |ino: &u64| known.find(id(*ino, 1)).is_some_and(|handle| handle == ino.to_ne_bytes());
        assert!((0..50_000).filter(right).count() > 49_000);
        for ino in 0..2_000_000 {
            known.remember(id(ino, 2), at(2), b"handle", NOW);
        }
        assert_eq!(known.find(id(1_999_999, 2)).unwrap(), b"handle");
        assert!((0..2_000_000).filter(|ino| known.find(id(*ino, 2)).is_some()).count() <= PAGES * SETS * WAYS);
    }
}
