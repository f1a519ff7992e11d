//! Where in a share the opens are, by the names they were opened by: so that a directory that is to be renamed finds what
//! is open below it, however much is open elsewhere. CREATE adds to it, renames keep it true. What other programs move is
//! looked up where it was before, and an open by way of a symbolic link where the link is: such a rename may go through,
//! as it would on the file system itself.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use vfs::Path;

use crate::open::Open;

/// Opens that are closed are thrown out when there are as many of them as of others, and this many at least.
const LEAST: usize = 1024;

/// The opens of one share.
#[derive(Default)]
pub struct Places(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those made since names were last of interest, as they came: most are closed again before anything is renamed.
    fresh: Vec<Weak<Open>>,
    /// The others, by their names.
    at: BTreeMap<Box<[u8]>, Vec<Weak<Open>>>,
    /// How many those are.
    placed: usize,
    /// How many there may be in all before closed ones are thrown out.
    most: usize,
}

impl Places {
    /// Takes in an open just made.
    pub fn add(&self, open: &Arc<Open>) {
        let mut state = self.0.lock();
        state.fresh.push(Arc::downgrade(open));
        if state.fresh.len() + state.placed > state.most.max(LEAST) {
            state.tidy();
        }
    }

    /// What was called `from` is called `to` now, and with it all that is below it.
    pub fn moved(&self, from: &Path, to: &Path) {
        let mut state = self.0.lock();
        state.place();
        let below = state.keys_below(from);
        let keys = std::iter::once(from.as_bytes().into()).chain(below);
        for key in keys {
            let Some(opens) = state.at.remove(&key) else { continue };
            let rest = key.get(from.as_bytes().len()..).unwrap_or_default();
            let name = [to.as_bytes(), rest].concat();
            state.at.entry(name.into()).or_default().extend(opens);
        }
    }

    /// Whether `is_one` says so of any open below the directory. It may wait.
    pub fn any_below(&self, directory: &Path, is_one: impl Fn(&Open) -> bool) -> bool {
        let prefix = prefix(directory);
        let mut after = Bound::Included(prefix.as_slice());
        let mut last;
        self.0.lock().place();
        loop {
            let opens = {
                let state = self.0.lock();
                let next = state.at.range::<[u8], _>((after, Bound::Unbounded)).next();
                let Some((name, opens)) = next.filter(|(name, _)| name.starts_with(&prefix)) else { return false };
                last = name.clone();
                opens.clone()
            };
            if opens.iter().filter_map(Weak::upgrade).any(|open| is_one(&open)) {
                return true;
            }
            after = Bound::Excluded(&last);
        }
    }
}

impl State {
    /// Enters the fresh ones by their names. Each open is entered once, if it lives that long.
    fn place(&mut self) {
        for weak in std::mem::take(&mut self.fresh) {
            if let Some(open) = weak.upgrade() {
                self.at.entry(open.path.as_bytes().into()).or_default().push(weak);
                self.placed += 1;
            }
        }
    }

    fn tidy(&mut self) {
        let lives = |open: &Weak<Open>| open.strong_count() > 0;
        self.fresh.retain(lives);
        self.at.retain(|_, opens| {
            opens.retain(lives);
            !opens.is_empty()
        });
        self.placed = self.at.values().map(Vec::len).sum();
        self.most = 2 * (self.fresh.len() + self.placed);
    }

    fn keys_below(&self, directory: &Path) -> Vec<Box<[u8]>> {
        let prefix = prefix(directory);
        let range = self.at.range::<[u8], _>((Bound::Included(prefix.as_slice()), Bound::Unbounded));
        range.map(|(name, _)| name.clone()).take_while(|name| name.starts_with(&prefix)).collect()
    }
}

/// What the names of all have that are below a directory, and no others.
fn prefix(directory: &Path) -> Vec<u8> {
    [directory.as_bytes(), b"/"].concat()
}
