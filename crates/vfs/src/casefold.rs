//! Finding a name by ignoring case: how names fold, an index of one directory's names by their folded form, and a
//! bounded cache of such indexes. Backends call it after the exact name was not found; it reads no directory and no
//! clock itself.
//!
//! An index is as good as the evidence that its directory has not changed since it was read. That evidence is the
//! directory's change time, and a change time moves only with the file system's clock: a second change within the tick
//! of the first leaves it as it is. So an index read within [`TICK`] of the directory's last change is *unsettled* and
//! not believed later. A change that goes through this process is entered into the index instead
//! ([`DirIndex::note`]); as another program may have slipped one in between the two looks at the directory, the index is
//! then *patched* and is read again once the directory has been quiet, but never so often that reading takes more than
//! about one part in [`REREAD_SHARE`] of the time.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Name, Timestamp, shortname};

/// Longer than the clock tick behind any change time kept in nanoseconds (a kernel of 100 Hz ticks every 10 ms).
pub const TICK: Duration = Duration::from_millis(25);

/// The same for file systems that keep whole seconds: FAT keeps even ones.
pub const COARSE_TICK: Duration = Duration::from_secs(3);

/// A patched index is read again at the earliest after this many times what the last reading took.
pub const REREAD_SHARE: u32 = 50;

/// Folds a name: each code point to its upper case where that is one code point, as Windows compares names. Names that
/// are not UTF-8 stay as they are.
pub fn fold(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_uppercase();
    }
    let Ok(text) = std::str::from_utf8(name) else { return name.to_vec() };
    let mut folded = String::with_capacity(name.len() + 4);
    folded.extend(text.chars().map(upcase));
    folded.into_bytes()
}

/// Whether two names are the same but for case.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    if a.is_ascii() || b.is_ascii() {
        // A non-ASCII letter may still fold to an ASCII one (U+017F to S).
        return a.eq_ignore_ascii_case(b) || (a.is_ascii() != b.is_ascii() && fold(a) == fold(b));
    }
    match (std::str::from_utf8(a), std::str::from_utf8(b)) {
        (Ok(a), Ok(b)) => a.chars().map(upcase).eq(b.chars().map(upcase)),
        _ => a == b,
    }
}

fn upcase(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// The names of one directory by their folded form. Holds each name once; the folded form is only hashed.
#[derive(Default)]
pub struct FoldIndex {
    hasher: RandomState,
    slots: Slots,
    count: usize,
    /// By the short names made up for them; made when first asked for one.
    shorts: Option<Slots>,
}

#[derive(Default)]
struct Slots(HashMap<u64, Slot>);

enum Slot {
    One(Box<[u8]>),
    Many(Vec<Box<[u8]>>),
}

impl Slot {
    fn names(&self) -> &[Box<[u8]>] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

impl FoldIndex {
    /// An index without names.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many names it holds.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a name; one that is there already stays.
    pub fn insert(&mut self, name: &[u8]) {
        if !self.slots.insert(self.hasher.hash_one(fold(name)), name) {
            return;
        }
        self.count += 1;
        if let (Some(shorts), Some(short)) = (&mut self.shorts, shortname::made_for(name)) {
            shorts.insert(self.hasher.hash_one(short), name);
        }
    }

    /// Takes a name out, by its exact spelling.
    pub fn remove(&mut self, name: &[u8]) {
        if !self.slots.remove(self.hasher.hash_one(fold(name)), name) {
            return;
        }
        self.count -= 1;
        if let (Some(shorts), Some(short)) = (&mut self.shorts, shortname::made_for(name)) {
            shorts.remove(self.hasher.hash_one(short), name);
        }
    }

    /// The spelling under which the directory has `name`: the exact one if it is there, else of several that fold alike
    /// the first in byte order.
    pub fn find(&self, name: &[u8]) -> Option<&[u8]> {
        let names = self.slots.names(self.hasher.hash_one(fold(name)));
        let exact = names.iter().find(|n| ***n == *name);
        exact.or_else(|| names.iter().find(|n| same(n, name))).map(|n| &**n)
    }

    /// The name that the short name `short` was made up for; of several the first in byte order.
    pub fn find_short(&mut self, short: &[u8]) -> Option<&[u8]> {
        let (hasher, slots) = (&self.hasher, &self.slots);
        let shorts = self.shorts.get_or_insert_with(|| {
            let mut shorts = Slots::default();
            for name in slots.0.values().flat_map(Slot::names) {
                if let Some(short) = shortname::made_for(name) {
                    shorts.insert(hasher.hash_one(short), name);
                }
            }
            shorts
        });
        let short = short.to_ascii_uppercase();
        let mut names = shorts.names(hasher.hash_one(&short)).iter();
        names.find(|name| shortname::made_for(name).as_ref() == Some(&short)).map(|name| &**name)
    }

    /// What it holds, in names: those found by short names too are held twice.
    fn weight(&self) -> usize {
        self.count * if self.shorts.is_some() { 2 } else { 1 }
    }
}

impl Slots {
    fn names(&self, hash: u64) -> &[Box<[u8]>] {
        self.0.get(&hash).map_or(&[], Slot::names)
    }

    /// False when it is there already.
    fn insert(&mut self, hash: u64, name: &[u8]) -> bool {
        match self.0.entry(hash) {
            Entry::Vacant(vacant) => {
                vacant.insert(Slot::One(name.into()));
            }
            Entry::Occupied(mut taken) => {
                if taken.get().names().iter().any(|n| **n == *name) {
                    return false;
                }
                let mut names = match std::mem::replace(taken.get_mut(), Slot::Many(Vec::new())) {
                    Slot::One(first) => vec![first],
                    Slot::Many(names) => names,
                };
                names.push(name.into());
                names.sort_unstable();
                *taken.get_mut() = Slot::Many(names);
            }
        }
        true
    }

    /// False when it is not there.
    fn remove(&mut self, hash: u64, name: &[u8]) -> bool {
        let Entry::Occupied(mut slot) = self.0.entry(hash) else { return false };
        let before = slot.get().names().len();
        let left = match slot.get_mut() {
            Slot::One(only) => usize::from(**only != *name),
            Slot::Many(names) => {
                names.retain(|n| **n != *name);
                names.len()
            }
        };
        if left == 0 {
            slot.remove();
        }
        left < before
    }
}

/// A change to a directory's names made through this process.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// The name is there now.
    Added(Name<'a>),
    /// The name is gone.
    Removed(Name<'a>),
}

/// The index of one directory together with what it was read at.
#[derive(Default)]
pub struct DirIndex {
    names: FoldIndex,
    /// The directory's change time that `names` belongs to; `None` before the first reading.
    stamp: Option<Timestamp>,
    read_at: Timestamp,
    read_took: Duration,
    settled: bool,
    patched: bool,
}

impl DirIndex {
    /// Takes in a reading that began at `now`, when the directory's change time was `stamp`, and took `took`.
    pub fn fill(&mut self, names: FoldIndex, stamp: Timestamp, now: Timestamp, took: Duration) {
        let settled = since(stamp, now) > tick_of(stamp);
        *self = Self { names, stamp: Some(stamp), read_at: now, read_took: took, settled, patched: false };
    }

    /// Whether the index can be believed of a directory whose change time is `stamp` now.
    pub fn holds(&self, stamp: Timestamp, now: Timestamp) -> bool {
        if self.stamp != Some(stamp) {
            return false;
        }
        if self.patched {
            let quiet = since(stamp, now) > tick_of(stamp);
            return !quiet || since(self.read_at, now) < self.read_took * REREAD_SHARE;
        }
        self.settled
    }

    /// Enters changes this process made while the directory's change time went from `before` to `after`. An index of
    /// another time is emptied, and so is an unsettled one unless it was read just now: a burst of changes by this
    /// process keeps its directory unsettled all along and must not have it read each time.
    pub fn note(&mut self, before: Timestamp, after: Timestamp, changes: &[Change<'_>]) {
        let believed = self.settled || self.patched || since(self.read_at, after) <= TICK;
        if self.stamp != Some(before) || !believed {
            *self = Self::default();
            return;
        }
        for change in changes {
            match change {
                Change::Added(name) => self.names.insert(name.as_bytes()),
                Change::Removed(name) => self.names.remove(name.as_bytes()),
            }
        }
        self.stamp = Some(after);
        self.patched = true;
    }

    /// The spelling of `name`: as it is written, else ignoring case, else what has it for a short name.
    pub fn find(&mut self, name: &[u8]) -> Option<&[u8]> {
        if shortname::may_be_made_up(name) && self.names.find(name).is_none() {
            return self.names.find_short(name);
        }
        self.names.find(name)
    }

    /// What it holds, in names.
    pub fn weight(&self) -> usize {
        self.names.weight()
    }
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    let nanos = |t: Timestamp| i128::from(t.secs) * 1_000_000_000 + i128::from(t.nanos);
    Duration::from_nanos(u64::try_from(nanos(now) - nanos(then)).unwrap_or(0))
}

fn tick_of(stamp: Timestamp) -> Duration {
    if stamp.nanos == 0 { COARSE_TICK } else { TICK }
}

/// Indexes of the directories asked about most recently, bounded by the names in them. Each index has its own lock, so
/// that reading one directory does not hold up another.
pub struct FoldCache<K> {
    max_names: usize,
    inner: Mutex<Inner<K>>,
}

struct Inner<K> {
    dirs: HashMap<K, Cached>,
    clock: u64,
    names: usize,
}

struct Cached {
    index: Arc<Mutex<DirIndex>>,
    used: u64,
    /// Its names when last counted.
    names: usize,
}

impl<K: Copy + Eq + Hash> FoldCache<K> {
    /// Directories kept at most: bounds the search for the one to forget.
    const MAX_DIRS: usize = 1024;

    /// A cache of up to `max_names` names. One directory alone may exceed it.
    pub fn new(max_names: usize) -> Self {
        Self { max_names, inner: Mutex::new(Inner { dirs: HashMap::new(), clock: 0, names: 0 }) }
    }

    /// The directory's index, made empty when there is none.
    pub fn index(&self, dir: K) -> Arc<Mutex<DirIndex>> {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let clock = inner.clock;
        let cached = inner.dirs.entry(dir).or_insert_with(|| Cached { index: Arc::default(), used: 0, names: 0 });
        cached.used = clock;
        Arc::clone(&cached.index)
    }

    /// The directory's index, if there is one.
    pub fn known(&self, dir: K) -> Option<Arc<Mutex<DirIndex>>> {
        self.inner.lock().dirs.get(&dir).map(|c| Arc::clone(&c.index))
    }

    /// Whether no directory has an index, which spares a caller finding out which directory it is changing.
    pub fn is_empty(&self) -> bool {
        self.inner.lock().dirs.is_empty()
    }

    /// Counts the names `dir` has now and forgets other directories, the longest unused first, until the bound holds.
    pub fn settle(&self, dir: K, names: usize) {
        let mut inner = self.inner.lock();
        let Some(cached) = inner.dirs.get_mut(&dir) else { return };
        let before = std::mem::replace(&mut cached.names, names);
        inner.names = inner.names - before + names;
        while inner.dirs.len() > 1 && (inner.names > self.max_names || inner.dirs.len() > Self::MAX_DIRS) {
            let oldest = inner.dirs.iter().filter(|(k, _)| **k != dir).min_by_key(|(_, c)| c.used).map(|(k, _)| *k);
            let Some(gone) = oldest.and_then(|k| inner.dirs.remove(&k)) else { break };
            inner.names -= gone.names;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: i64, millis: u32) -> Timestamp {
        Timestamp { secs, nanos: millis * 1_000_000 + 1 }
    }

    fn index_of(names: &[&str]) -> FoldIndex {
        let mut index = FoldIndex::new();
        names.iter().for_each(|n| index.insert(n.as_bytes()));
        index
    }

    #[test]
    fn names_fold_as_windows_compares_them() {
        assert_eq!(fold(b"ReadMe.txt"), b"README.TXT");
        assert_eq!(fold("\u{e4}\u{3c3}".as_bytes()), "\u{c4}\u{3a3}".as_bytes());
        // U+00DF upcases to two code points and therefore stays.
        assert_eq!(fold("\u{df}".as_bytes()), "\u{df}".as_bytes());
        assert_eq!(fold(b"a\xff"), b"a\xff");
        assert!(same("\u{c4}b".as_bytes(), "\u{e4}B".as_bytes()));
        assert!(!same(b"a\xff", b"A\xff"));
        assert!(same("\u{17f}".as_bytes(), b"s"));
        assert!(!same(b"a", b"b"));
    }

    #[test]
    fn an_index_finds_the_exact_name_first_and_else_the_lowest() {
        let mut index = index_of(&["readme", "ReadMe", "other"]);
        assert_eq!(index.len(), 3);
        assert_eq!(index.find(b"readme"), Some(&b"readme"[..]));
        assert_eq!(index.find(b"README"), Some(&b"ReadMe"[..]));
        index.insert(b"readme");
        assert_eq!(index.len(), 3);
        index.remove(b"ReadMe");
        index.remove(b"README");
        assert_eq!(index.find(b"README"), Some(&b"readme"[..]));
        index.remove(b"readme");
        assert_eq!((index.find(b"README"), index.len()), (None, 1));
    }

    #[test]
    fn an_index_read_within_the_tick_of_a_change_is_not_believed() {
        let mut dir = DirIndex::default();
        assert!(!dir.holds(at(1, 0), at(9, 0)));
        dir.fill(index_of(&["a"]), at(1, 0), at(1, 10), Duration::ZERO);
        assert!(!dir.holds(at(1, 0), at(9, 0)));
        dir.fill(index_of(&["a"]), at(1, 0), at(1, 100), Duration::ZERO);
        assert!(dir.holds(at(1, 0), at(9, 0)));
        assert!(!dir.holds(at(1, 1), at(9, 0)));
        // Whole seconds: a coarse clock.
        let coarse = Timestamp { secs: 1, nanos: 0 };
        dir.fill(index_of(&["a"]), coarse, at(2, 0), Duration::ZERO);
        assert!(!dir.holds(coarse, at(9, 0)));
    }

    #[test]
    fn a_name_is_found_by_its_short_name() {
        let mut dir = DirIndex::default();
        let (one, two) = ("Some long name.text", "Another long name.text");
        let short = |name: &str| shortname::made_for(name.as_bytes()).unwrap();
        dir.fill(index_of(&[one, "short.txt"]), at(1, 0), at(2, 0), Duration::ZERO);
        assert_eq!(dir.weight(), 2);
        assert_eq!(dir.find(&short(one)), Some(one.as_bytes()));
        assert_eq!(dir.find(&short(one).to_ascii_lowercase()), Some(one.as_bytes()));
        assert_eq!(dir.weight(), 4);
        assert_eq!(dir.find(&short(two)), None);
        let name = |name: &'static str| Name::new(name.as_bytes()).unwrap();
        dir.note(at(1, 0), at(2, 10), &[Change::Added(name(two)), Change::Removed(name(one))]);
        assert_eq!(dir.find(&short(two)), Some(two.as_bytes()));
        assert_eq!(dir.find(&short(one)), None);
        // What is spelled so comes first.
        let taken = String::from_utf8(short(two)).unwrap();
        dir.fill(index_of(&[two, &taken]), at(2, 10), at(3, 0), Duration::ZERO);
        assert_eq!(dir.find(&short(two)), Some(taken.as_bytes()));
    }

    #[test]
    fn our_own_changes_are_entered_and_checked_once_it_is_quiet() {
        let mut dir = DirIndex::default();
        dir.fill(index_of(&["a"]), at(1, 0), at(2, 0), Duration::from_millis(100));
        dir.note(at(1, 0), at(2, 10), &[Change::Added(Name::new(b"B").unwrap())]);
        dir.note(at(2, 10), at(2, 20), &[Change::Removed(Name::new(b"a").unwrap())]);
        assert!(dir.holds(at(2, 20), at(2, 21)));
        assert_eq!(dir.names.find(b"b"), Some(&b"B"[..]));
        assert_eq!(dir.names.find(b"A"), None);
        // Quiet, but reading again would cost too much yet: 50 * 100 ms after the last reading.
        assert!(dir.holds(at(2, 20), at(6, 900)));
        assert!(!dir.holds(at(2, 20), at(7, 100)));
    }

    #[test]
    fn a_burst_of_our_changes_keeps_an_index_that_never_settled() {
        let mut dir = DirIndex::default();
        dir.fill(index_of(&["a"]), at(1, 0), at(1, 1), Duration::ZERO);
        dir.note(at(1, 0), at(1, 2), &[Change::Added(Name::new(b"b").unwrap())]);
        assert!(dir.holds(at(1, 2), at(1, 3)));
        assert!(!dir.holds(at(1, 2), at(2, 0)));
        dir.fill(index_of(&["a"]), at(1, 0), at(1, 1), Duration::ZERO);
        dir.note(at(1, 0), at(5, 0), &[]);
        assert!(!dir.holds(at(5, 0), at(5, 1)));
    }

    #[test]
    fn a_change_by_someone_else_empties_the_index() {
        let mut dir = DirIndex::default();
        dir.fill(index_of(&["a"]), at(1, 0), at(2, 0), Duration::ZERO);
        dir.note(at(1, 500), at(2, 10), &[]);
        assert!(!dir.holds(at(2, 10), at(2, 11)));
        assert!(dir.names.is_empty());
    }

    #[test]
    fn the_cache_forgets_the_longest_unused_directory() {
        let cache = FoldCache::new(10);
        assert!(cache.is_empty());
        for dir in 1..=3 {
            cache.index(dir);
            cache.settle(dir, 4);
        }
        assert!(cache.known(1).is_none());
        assert!(cache.known(2).is_some() && cache.known(3).is_some());
        cache.settle(3, 100);
        assert!(cache.known(2).is_none() && cache.known(3).is_some());
    }
}
