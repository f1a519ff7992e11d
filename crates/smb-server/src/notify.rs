//! Watched directories: who watches what on a share, and what happened there since it was last told (MS-FSA 2.1.4.1,
//! 2.1.5.11.1). Handlers that change something tell the share's [`Watchers`]; CHANGE_NOTIFY asks a [`Watch`]. Nothing
//! here waits, and while nobody watches a share telling it costs one atomic load.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use futures_channel::oneshot;
use parking_lot::Mutex;
use smb_wire::fscc::{NotifyAction, NotifyFilter, notify_entry_bytes};
use smb_wire::name::path_to_wire;
use vfs::FileId;

/// Something that happened to one object of a share.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// What.
    pub action: NotifyAction,
    /// Who is interested.
    pub filter: NotifyFilter,
    /// Who is told by another event.
    pub except: NotifyFilter,
    /// Its path from the share's root, in local bytes.
    pub path: &'a [u8],
}

impl<'a> Event<'a> {
    /// An event for all whom `filter` interests.
    pub fn new(action: NotifyAction, filter: NotifyFilter, path: &'a [u8]) -> Self {
        Self { action, filter, except: NotifyFilter::empty(), path }
    }
}

/// What a watch has to tell.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// These changes, in order; names as they go on the wire.
    Changes(Vec<(NotifyAction, Vec<u8>)>),
    /// More than was kept: the directory has to be listed again.
    TooMuch,
    /// The directory is going.
    Deleted,
}

/// The watches on one share, by the path of the directory: a change is told to those of its directory and of the
/// directories above it, and costs nothing for all others.
#[derive(Default)]
pub struct Watchers {
    watches: Mutex<HashMap<Vec<u8>, Vec<Arc<Watch>>>>,
    count: AtomicUsize,
    /// How many of them want to know of data that were written: most watch for names.
    of_data: AtomicUsize,
}

/// What a WRITE changes.
const DATA: NotifyFilter = NotifyFilter::LAST_WRITE.union(NotifyFilter::SIZE);

/// One directory open that has asked for changes.
pub struct Watch {
    id: FileId,
    filter: NotifyFilter,
    recursive: bool,
    /// Bytes of entries kept between requests.
    room_bytes: usize,
    /// What has the backend tell what others change, once there is one.
    pub local: OnceLock<vfs::Watching>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where the directory is.
    path: Vec<u8>,
    kept: Vec<(NotifyAction, Vec<u8>)>,
    kept_bytes: usize,
    overflowed: bool,
    deleted: bool,
    ended: bool,
    waiting: VecDeque<oneshot::Sender<News>>,
}

impl Watchers {
    /// Whether anybody watches anything.
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether anybody watches for data that are written.
    pub fn want_data(&self) -> bool {
        self.of_data.load(Relaxed) > 0
    }

    /// Adds a watch.
    pub fn add(&self, watch: Arc<Watch>) {
        let mut watches = self.watches.lock();
        let path = watch.state.lock().path.clone();
        self.of_data.fetch_add(usize::from(watch.wants_data()), Relaxed);
        watches.entry(path).or_default().push(watch);
        self.count.fetch_add(1, Relaxed);
    }

    /// Takes a watch away. Requests that wait on it are told that nothing will come, on whatever connection they are.
    pub fn remove(&self, watch: &Arc<Watch>) {
        let mut watches = self.watches.lock();
        let path = watch.state.lock().path.clone();
        if let Some(there) = watches.get_mut(&path) {
            let before = there.len();
            there.retain(|w| !Arc::ptr_eq(w, watch));
            let gone = before - there.len();
            self.count.fetch_sub(gone, Relaxed);
            self.of_data.fetch_sub(gone * usize::from(watch.wants_data()), Relaxed);
            if there.is_empty() {
                watches.remove(&path);
            }
        }
        drop(watches);
        let mut state = watch.state.lock();
        state.ended = true;
        state.waiting.clear();
    }

    fn each(&self, then: impl Fn(&Watch)) {
        if self.any() {
            self.watches.lock().values().flatten().for_each(|watch| then(watch));
        }
    }

    /// Tells of what happened. Events told together reach a waiting request together.
    pub fn tell(&self, events: &[Event<'_>]) {
        if !self.any() {
            return;
        }
        let mut above: Vec<&[u8]> = events.iter().flat_map(|event| ancestors(event.path)).collect();
        above.sort_unstable();
        above.dedup();
        let watches = self.watches.lock();
        let there = above.into_iter().filter_map(|path| watches.get(path));
        there.flatten().for_each(|watch| watch.take(events));
    }

    /// A directory was moved, and what is watched in it with it.
    pub fn moved(&self, from: &[u8], to: &[u8]) {
        self.repath(|_, path| {
            let rest = path.strip_prefix(from).filter(|rest| matches!(rest.first(), None | Some(b'/')))?;
            Some([to, rest].concat())
        });
    }

    /// A watched directory is at `path`: others may have moved it, or one that it is in.
    pub fn found(&self, id: FileId, path: &[u8]) {
        let known = self.watches.lock().get(path).is_some_and(|there| there.iter().any(|watch| watch.id == id));
        if !known {
            self.repath(|watch, _| (watch.id == id).then(|| path.to_vec()));
        }
    }

    /// Gives watches the paths that `new` says.
    fn repath(&self, new: impl Fn(&Watch, &[u8]) -> Option<Vec<u8>>) {
        if !self.any() {
            return;
        }
        let mut watches = self.watches.lock();
        let mut moving = Vec::new();
        watches.retain(|path, there| {
            there.retain(|watch| match new(watch, path) {
                Some(to) => {
                    moving.push((to, Arc::clone(watch)));
                    false
                }
                None => true,
            });
            !there.is_empty()
        });
        for (path, watch) in moving {
            watch.state.lock().path.clone_from(&path);
            watches.entry(path).or_default().push(watch);
        }
    }

    /// More happened than anybody knows: whoever watches has to look again.
    pub fn lost(&self) {
        self.each(|watch| watch.tell(News::TooMuch));
    }

    /// A directory is going: whoever watches it is told at once.
    pub fn going(&self, id: FileId) {
        self.each(|watch| {
            if watch.id == id {
                let mut state = watch.state.lock();
                state.deleted = true;
                // One whose request has ended does not care.
                state.waiting.drain(..).for_each(|waiting| drop(waiting.send(News::Deleted)));
            }
        });
    }
}

/// The directories a path is in, the root of the share among them.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let cuts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    std::iter::once(0).chain(cuts).filter_map(|at| path.get(..at))
}

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchers").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Watch {
    /// A watch on the directory `id` at `path`. What is watched for is fixed by the first request of an open.
    pub fn new(id: FileId, path: &[u8], filter: NotifyFilter, recursive: bool, room_bytes: usize) -> Arc<Self> {
        let state = Mutex::new(State { path: path.to_vec(), ..State::default() });
        Arc::new(Self { id, filter, recursive, room_bytes, local: OnceLock::new(), state })
    }

    fn wants_data(&self) -> bool {
        self.filter.intersects(DATA)
    }

    /// What has been kept, or else the promise of what comes next.
    pub fn ask(&self) -> Result<News, oneshot::Receiver<News>> {
        let mut state = self.state.lock();
        if state.deleted {
            return Ok(News::Deleted);
        }
        if std::mem::take(&mut state.overflowed) {
            return Ok(News::TooMuch);
        }
        if !state.kept.is_empty() {
            state.kept_bytes = 0;
            return Ok(News::Changes(std::mem::take(&mut state.kept)));
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.retain(|waiting| !waiting.is_canceled());
        if !state.ended {
            state.waiting.push_back(sender);
        }
        Err(receiver)
    }

    fn take(&self, events: &[Event<'_>]) {
        let state = self.state.lock();
        let news: Vec<_> = events.iter().filter_map(|event| self.concerns(&state.path, event)).collect();
        if news.is_empty() {
            return;
        }
        let bytes: usize = news.iter().map(|(_, name)| notify_entry_bytes(name)).sum();
        drop(state);
        self.tell(if bytes > self.room_bytes { News::TooMuch } else { News::Changes(news) });
    }

    /// Answers the first who waits, or keeps the news for the next who asks.
    fn tell(&self, mut news: News) {
        let mut state = self.state.lock();
        while let Some(waiting) = state.waiting.pop_front() {
            match waiting.send(news) {
                Ok(()) => return,
                Err(unsent) => news = unsent, // that request has ended
            }
        }
        state.keep(news, self.room_bytes);
    }

    /// The entry for an event below the directory that is watched for; what happens to the directory itself is not told.
    fn concerns(&self, path: &[u8], event: &Event<'_>) -> Option<(NotifyAction, Vec<u8>)> {
        if !self.filter.intersects(event.filter) || self.filter.intersects(event.except) {
            return None;
        }
        let below = match path {
            b"" => event.path,
            path => event.path.strip_prefix(path)?.strip_prefix(b"/")?,
        };
        if below.is_empty() || (!self.recursive && below.contains(&b'/')) {
            return None;
        }
        let mut name = Vec::with_capacity(below.len() * 2);
        path_to_wire(below, &mut name);
        Some((event.action, name))
    }
}

impl State {
    /// Keeps news until they are asked for. A change of the same object again says nothing new.
    fn keep(&mut self, news: News, room_bytes: usize) {
        let News::Changes(changes) = news else { return self.overflow() };
        for change in changes {
            if self.overflowed || (change.0 == NotifyAction::Modified && self.kept.last() == Some(&change)) {
                continue;
            }
            self.kept_bytes += notify_entry_bytes(&change.1);
            if self.kept_bytes > room_bytes {
                return self.overflow();
            }
            self.kept.push(change);
        }
    }

    fn overflow(&mut self) {
        self.overflowed = true;
        self.kept = Vec::new();
        self.kept_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: FileId = FileId { dev: 1, ino: 2, generation: 3 };
    const NAMES: NotifyFilter = NotifyFilter::FILE_NAME.union(NotifyFilter::DIR_NAME);

    fn event(action: NotifyAction, path: &str) -> Event<'_> {
        Event::new(action, NotifyFilter::FILE_NAME, path.as_bytes())
    }

    fn watched(path: &str, recursive: bool, room_bytes: usize) -> (Watchers, Arc<Watch>) {
        let (watchers, watch) = (Watchers::default(), Watch::new(ID, path.as_bytes(), NAMES, recursive, room_bytes));
        watchers.add(Arc::clone(&watch));
        (watchers, watch)
    }

    fn told(watch: &Watch) -> Vec<(NotifyAction, String)> {
        match watch.ask() {
            Ok(News::Changes(changes)) => {
                changes.into_iter().map(|(action, name)| (action, smb_wire::name::from_utf16le(&name))).collect()
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => Vec::new(),
        }
    }

    #[test]
    fn only_what_is_below_is_told() {
        let (watchers, watch) = watched("a/b", true, 1000);
        for path in ["a", "a/b", "a/bc", "a/c/b/x", "x"] {
            watchers.tell(&[event(NotifyAction::Added, path)]);
        }
        assert_eq!(told(&watch), []);
        watchers.tell(&[event(NotifyAction::Added, "a/b/c")]);
        watchers.tell(&[event(NotifyAction::Removed, "a/b/c/d")]);
        let size = Event { filter: NotifyFilter::SIZE, ..event(NotifyAction::Modified, "a/b/c") };
        watchers.tell(&[size]);
        let want = [(NotifyAction::Added, "c".to_owned()), (NotifyAction::Removed, "c\\d".to_owned())];
        assert_eq!(told(&watch), want);
        assert_eq!(told(&watch), []);
    }

    #[test]
    fn depth_is_told_only_where_asked() {
        let (watchers, watch) = watched("", false, 1000);
        watchers.tell(&[event(NotifyAction::Added, "a/b"), event(NotifyAction::Added, "c")]);
        assert_eq!(told(&watch), [(NotifyAction::Added, "c".to_owned())]);
    }

    #[test]
    fn requests_are_answered_in_line() {
        let (watchers, watch) = watched("", true, 1000);
        let (mut first, gone, mut second) =
            (watch.ask().unwrap_err(), watch.ask().unwrap_err(), watch.ask().unwrap_err());
        drop(gone);
        watchers.tell(&[event(NotifyAction::RenamedOldName, "a"), event(NotifyAction::RenamedNewName, "b")]);
        watchers.tell(&[event(NotifyAction::Added, "c")]);
        watchers.tell(&[event(NotifyAction::Added, "d")]);
        let got = |news: Option<News>| match news {
            Some(News::Changes(changes)) => changes.len(),
            _ => 0,
        };
        assert_eq!(got(first.try_recv().unwrap()), 2);
        assert_eq!(got(second.try_recv().unwrap()), 1);
        assert_eq!(told(&watch).len(), 1);
    }

    #[test]
    fn too_much_is_said_once_and_then_changes_again() {
        let (watchers, watch) = watched("", true, 32);
        for path in ["a", "b", "c"] {
            watchers.tell(&[event(NotifyAction::Added, path)]);
        }
        assert_eq!(watch.ask().unwrap(), News::TooMuch);
        watchers.tell(&[event(NotifyAction::Added, "d")]);
        assert_eq!(told(&watch), [(NotifyAction::Added, "d".to_owned())]);
        let mut waiting = watch.ask().unwrap_err();
        watchers.tell(&[event(NotifyAction::Added, "a name that is too long")]);
        assert_eq!(waiting.try_recv().unwrap(), Some(News::TooMuch));
    }

    #[test]
    fn the_same_change_twice_is_one() {
        let (watchers, watch) = watched("", true, 1000);
        for _ in 0..3 {
            watchers.tell(&[event(NotifyAction::Modified, "a")]);
        }
        assert_eq!(told(&watch).len(), 1);
    }

    #[test]
    fn a_watch_moves_with_its_directory() {
        let (watchers, watch) = watched("a/b", true, 1000);
        watchers.moved(b"a", b"x/y");
        watchers.moved(b"x/y/bb", b"z");
        watchers.tell(&[event(NotifyAction::Added, "x/y/b/c")]);
        assert_eq!(told(&watch).len(), 1);
    }

    #[test]
    fn a_directory_that_goes_ends_the_wait() {
        let (watchers, watch) = watched("a", true, 1000);
        let mut waiting = watch.ask().unwrap_err();
        watchers.going(FileId { ino: 9, ..ID });
        assert_eq!(waiting.try_recv().unwrap(), None);
        watchers.going(ID);
        assert_eq!(waiting.try_recv().unwrap(), Some(News::Deleted));
        assert_eq!(watch.ask().unwrap(), News::Deleted);
        watchers.remove(&watch);
        assert!(!watchers.any());
    }

    #[test]
    fn a_watch_that_ends_ends_the_wait() {
        let (watchers, watch) = watched("a", true, 1000);
        let mut waiting = watch.ask().unwrap_err();
        watchers.remove(&watch);
        assert!(waiting.try_recv().is_err());
        assert!(watch.ask().unwrap_err().try_recv().is_err());
    }
}
