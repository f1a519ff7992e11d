//! What other programs change in watched directories, from fanotify(7): the only way that says which process did it, so
//! that the server's own changes are told apart. `fs.rs` adds watches; a thread, which runs while there has been one, reads
//! events and tells. The kernel lets everybody watch directories he may read (5.13); where it does not, as in many
//! containers and on file systems without handles, nothing is known of local changes.
//!
//! Directories below a watched one have marks of their own, up to [`MAX_DIRS`] in all watches of a backend: what happens in
//! those beyond is not told, nor what happens in a new directory before its mark is set. That a watched directory goes is
//! told only where the one it is in is watched as well: no event of its own comes while it is open here.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use vfs::{Change, FileId, Happened, Told, VfsError, VfsResult, Watching};

use crate::errno::vfs_error;
use crate::feed_events::{Event, Place, parse};
use crate::resolve::{Root, below};
use crate::{stat, sys};

/// How many directories are watched at a time; each takes a descriptor.
const MAX_DIRS: usize = 8192;
const READ_BYTES: usize = 64 << 10;
/// What the kernel puts behind the path of an object without a name.
const DELETED: &[u8] = b" (deleted)";

const NAMES: u64 = libc::FAN_CREATE | libc::FAN_DELETE;
const CONTENT: u64 = libc::FAN_MODIFY | libc::FAN_ATTRIB;
const ALSO: u64 = libc::FAN_ONDIR | libc::FAN_EVENT_ON_CHILD;
/// A rename as one event (Linux 5.17), or as two.
const RENAME: u64 = libc::FAN_RENAME;
const MOVES: u64 = libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO;

/// The kernel's name for a directory: what kind of handle, and its bytes.
pub type Handle = (i32, Vec<u8>);

/// The watches of a backend.
#[derive(Default)]
pub struct Feed {
    open: Mutex<Option<Arc<Group>>>,
}

struct Group {
    fan: OwnedFd,
    /// Written to when the backend goes.
    stop: OwnedFd,
    whole_renames: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    dirs: HashMap<Handle, Marked>,
    watches: HashMap<u64, Watch>,
    next: u64,
}

/// A directory with a mark.
struct Marked {
    fd: OwnedFd,
    id: FileId,
    /// The watches it is in.
    of: HashSet<u64>,
}

struct Watch {
    told: Arc<dyn Told>,
    below: bool,
    dirs: Vec<Handle>,
}

/// Takes the watch away when it is dropped.
struct Guard {
    group: Arc<Group>,
    number: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.group.remove(self.number);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(group) = self.open.lock().take() {
            // Nothing else is ever written there, so there is room.
            let _ = rustix::io::write(&group.stop, &1u64.to_ne_bytes());
        }
    }
}

impl Root {
    /// See [`vfs::Backend::watch`].
    pub fn watch(self: &Arc<Self>, dir: BorrowedFd<'_>, below: bool, told: &Arc<dyn Told>) -> VfsResult<Watching> {
        self.identity.enter_own()?;
        let group = self.group()?;
        let number = {
            let mut state = group.state.lock();
            state.next += 1;
            let number = state.next;
            state.watches.insert(number, Watch { told: Arc::clone(told), below, dirs: Vec::new() });
            number
        };
        let guard = Guard { group: Arc::clone(&group), number };
        group.mark(dir, number)?;
        if below {
            group.mark_below(self, dir, number);
        }
        Ok(Box::new(guard))
    }

    fn group(self: &Arc<Self>) -> VfsResult<Arc<Group>> {
        let mut open = self.feed.open.lock();
        if let Some(group) = &*open {
            return Ok(Arc::clone(group));
        }
        let fan = sys::fanotify_init().map_err(|_| VfsError::NotSupported)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(vfs_error)?;
        let state = Mutex::default();
        let group = Arc::new(Group { fan, stop, whole_renames: AtomicBool::new(true), state });
        let (root, reader) = (Arc::downgrade(self), Arc::clone(&group));
        let started = std::thread::Builder::new().name("local-changes".into()).spawn(move || reader.read(&root));
        started.map_err(|_| VfsError::NotSupported)?;
        *open = Some(Arc::clone(&group));
        Ok(group)
    }

    fn path_of_fd(&self, fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
        let root = self.link_of(self.fd.as_fd()).ok()?;
        let mut full = self.link_of(fd).ok()?;
        // Of one that is gone, where it was.
        if full.ends_with(DELETED) && stat::of_fd(fd).is_ok_and(|attr| attr.nlink == 0) {
            full.truncate(full.len() - DELETED.len());
        }
        Some(below(&root, &full)?.to_vec())
    }
}

impl Group {
    fn mask(&self) -> u64 {
        NAMES | CONTENT | ALSO | if self.whole_renames.load(Relaxed) { RENAME } else { MOVES }
    }

    /// Adds a directory to a watch.
    fn mark(&self, dir: BorrowedFd<'_>, number: u64) -> VfsResult<()> {
        let handle = sys::name_to_handle(dir, c"").map_err(|_| VfsError::NotSupported)?;
        let mut state = self.state.lock();
        let State { dirs, watches, .. } = &mut *state;
        let Some(watch) = watches.get_mut(&number) else { return Ok(()) };
        if let Some(marked) = dirs.get_mut(&handle) {
            if marked.of.insert(number) {
                watch.dirs.push(handle);
            }
            return Ok(());
        }
        if dirs.len() >= MAX_DIRS {
            return Err(VfsError::NoSpace);
        }
        self.add_mark(dir)?;
        let fd = rustix::io::fcntl_dupfd_cloexec(dir, 0).map_err(vfs_error)?;
        let id = stat::of_fd(&fd)?.id;
        watch.dirs.push(handle.clone());
        dirs.insert(handle, Marked { fd, id, of: HashSet::from([number]) });
        Ok(())
    }

    fn add_mark(&self, dir: BorrowedFd<'_>) -> VfsResult<()> {
        let path = proc_path(dir);
        match sys::fanotify_mark(&self.fan, true, self.mask(), &path) {
            Err(Errno::INVAL) if self.whole_renames.swap(false, Relaxed) => {
                sys::fanotify_mark(&self.fan, true, self.mask(), &path)
            }
            result => result,
        }
        .map_err(|errno| match errno {
            Errno::NOSPC | Errno::NOMEM => VfsError::NoSpace,
            _ => VfsError::NotSupported,
        })
    }

    /// Adds the directories below one, as far as there is room and they can be read.
    fn mark_below(&self, root: &Root, dir: BorrowedFd<'_>, number: u64) {
        let Ok(first) = root.reopen(dir, OFlags::RDONLY | OFlags::DIRECTORY) else { return };
        let mut todo = vec![first];
        while let Some(dir) = todo.pop() {
            let Ok(entries) = Dir::read_from(&dir) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let other = !matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
                if other || [c".", c".."].contains(&name) {
                    continue;
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
                let Ok(child) = openat2(&dir, name, flags, Mode::empty(), how) else { continue };
                match self.mark(child.as_fd(), number) {
                    Err(VfsError::NoSpace) => return,
                    _ => todo.push(child),
                }
            }
        }
    }

    fn remove(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(watch) = state.watches.remove(&number) else { return };
        for handle in watch.dirs {
            let Some(marked) = state.dirs.get_mut(&handle) else { continue };
            marked.of.remove(&number);
            if marked.of.is_empty() {
                // Where the directory is gone so is its mark.
                let _ = sys::fanotify_mark(&self.fan, false, self.mask(), &proc_path(marked.fd.as_fd()));
                state.dirs.remove(&handle);
            }
        }
    }

    /// The thread: until the backend goes.
    fn read(&self, root: &Weak<Root>) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let mut ready = [PollFd::new(&self.fan, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut ready, None) {
                Err(Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) if !ready[1].revents().is_empty() => return,
                Ok(_) => {}
            }
            let Some(root) = root.upgrade() else { return };
            let len = rustix::io::read(&self.fan, &mut buffer).unwrap_or(0);
            for event in parse(buffer.get(..len).unwrap_or_default()) {
                self.take(&root, &event);
            }
        }
    }

    fn take(&self, root: &Root, event: &Event) {
        let has = |bits: u64| event.mask & bits != 0;
        let is_directory = has(libc::FAN_ONDIR);
        if has(libc::FAN_Q_OVERFLOW) {
            return self.each(None, |told| told.lost());
        }
        if is_directory && has(libc::FAN_CREATE | libc::FAN_MOVED_TO | RENAME) {
            event.renamed.1.iter().chain(&event.place).for_each(|place| self.follow(root, place));
        }
        if event.pid == std::process::id() as i32 {
            return; // told already by who did it
        }
        if has(RENAME) {
            return self.tell_renamed(root, &event.renamed.0, &event.renamed.1, is_directory);
        }
        let Some(place) = &event.place else { return };
        if place.1 == b"." {
            return; // the directory itself, which is told of where its own directory is watched
        }
        let came = has(libc::FAN_CREATE | libc::FAN_MOVED_TO);
        let went = has(libc::FAN_DELETE | libc::FAN_MOVED_FROM);
        // Events of one process with one entry may be told as one: what is there now says which came last.
        let is_there = came && went && self.is_there(place);
        for (happens, what) in [
            (went && is_there, Happened::Removed),
            (came, Happened::Added),
            (has(libc::FAN_MODIFY), Happened::Written),
            (has(libc::FAN_ATTRIB), Happened::Attributes),
            (went && !is_there, Happened::Removed),
        ] {
            if happens {
                self.tell(root, place, what, is_directory);
            }
        }
    }

    fn is_there(&self, place: &Place) -> bool {
        let state = self.state.lock();
        state.dirs.get(&place.0).is_some_and(|marked| stat::of_entry(&marked.fd, &place.1).is_ok())
    }

    /// A directory that came to one which is watched with all below it is watched too.
    fn follow(&self, root: &Root, place: &Place) {
        let (dir, numbers) = {
            let state = self.state.lock();
            let Some(marked) = state.dirs.get(&place.0) else { return };
            let deep = |number: &u64| state.watches.get(number).is_some_and(|watch| watch.below);
            let numbers: Vec<u64> = marked.of.iter().copied().filter(deep).collect();
            let Ok(dir) = rustix::io::fcntl_dupfd_cloexec(&marked.fd, 0) else { return };
            (dir, numbers)
        };
        if numbers.is_empty() || root.identity.enter_own().is_err() {
            return;
        }
        let Ok(name) = CString::new(place.1.as_slice()) else { return };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let Ok(child) = openat2(&dir, &name, flags, Mode::empty(), how) else { return };
        for number in numbers {
            if self.mark(child.as_fd(), number).is_ok() {
                self.mark_below(root, child.as_fd(), number);
            }
        }
    }

    fn tell(&self, root: &Root, place: &Place, what: Happened, is_directory: bool) {
        let Some((dir, dir_path)) = self.where_is(root, &place.0) else { return };
        let path = join(&dir_path, &place.1);
        let change = Change { what, path: &path, to: None, is_directory, dir, dir_path: &dir_path };
        self.each(Some(&place.0), |told| told.changed(&change));
    }

    /// Of a rename out of, or into, what is watched only half can be told.
    fn tell_renamed(&self, root: &Root, from: &Option<Place>, to: &Option<Place>, is_directory: bool) {
        let found = |place: &Option<Place>| {
            let (handle, name) = place.as_ref()?;
            let (dir, dir_path) = self.where_is(root, handle)?;
            Some((handle.clone(), dir, join(&dir_path, name), dir_path))
        };
        let (what, at, to) = match (found(from), found(to)) {
            (Some(from), Some(to)) => (Happened::Renamed, from, Some(to)),
            (Some(from), None) => (Happened::Removed, from, None),
            (None, Some(to)) => (Happened::Added, to, None),
            (None, None) => return,
        };
        let to_path = to.as_ref().map(|to| to.2.as_slice());
        let (path, dir_path) = (&at.2, &at.3);
        let change = Change { what, path, to: to_path, is_directory, dir: at.1, dir_path };
        let mut told = self.told_of(&at.0);
        if let Some((handle, dir, path, dir_path)) = &to {
            // Who watches only the second directory is told of what came there.
            let more = self.told_of(handle).into_iter().filter(|t| !told.iter().any(|known| Arc::ptr_eq(known, t)));
            let came = Change { what: Happened::Added, path, to: None, is_directory, dir: *dir, dir_path };
            more.for_each(|told| told.changed(&came));
        }
        told.drain(..).for_each(|told| told.changed(&change));
    }

    fn where_is(&self, root: &Root, handle: &Handle) -> Option<(FileId, Vec<u8>)> {
        let state = self.state.lock();
        let marked = state.dirs.get(handle)?;
        Some((marked.id, root.path_of_fd(marked.fd.as_fd())?))
    }

    fn told_of(&self, handle: &Handle) -> Vec<Arc<dyn Told>> {
        let state = self.state.lock();
        let numbers = state.dirs.get(handle).into_iter().flat_map(|marked| &marked.of);
        unique(numbers.filter_map(|number| state.watches.get(number)))
    }

    /// Tells those who watch a directory, or all.
    fn each(&self, handle: Option<&Handle>, tell: impl Fn(&dyn Told)) {
        let all = || unique(self.state.lock().watches.values());
        handle.map_or_else(all, |handle| self.told_of(handle)).iter().for_each(|told| tell(&**told));
    }
}

/// Each of them once: a share is told once, however many watch on it.
fn unique<'a>(watches: impl Iterator<Item = &'a Watch>) -> Vec<Arc<dyn Told>> {
    let mut told: Vec<Arc<dyn Told>> = Vec::new();
    for watch in watches {
        if !told.iter().any(|known| Arc::ptr_eq(known, &watch.told)) {
            told.push(Arc::clone(&watch.told));
        }
    }
    told
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

/// Where the kernel finds an object that is open here.
fn proc_path(fd: BorrowedFd<'_>) -> CString {
    CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_default()
}
