//! A backend in memory: the whole contract of [`Backend`](crate::Backend) without a file system below, for tests and
//! simulation. The clock is passed in, space can be short, and any call can be made to fail or to answer `WouldBlock`.
//! The file tree is in `tree.rs`, name resolution in `walk.rs`, the traits' faces in `backend.rs` and `node.rs`.

mod backend;
mod node;
mod tree;
mod walk;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::{Timestamp, VfsError, VfsResult, Wait};
use node::MemNode;
use tree::Tree;

/// A call of the contract, to make the next one of its kind fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the call of its name")]
pub enum Op {
    Open,
    OpenHandle,
    AttrAt,
    Remove,
    Rename,
    Link,
    Symlink,
    PathOf,
    Spell,
    FsStat,
    Attr,
    SetAttr,
    Access,
    Read,
    Write,
    Sync,
    Allocate,
    ReadDir,
    EntryAttr,
    Xattr,
    SetXattr,
}

/// A clock that moves when it is told to.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `secs` seconds since 1970.
    pub fn at_secs(secs: u32) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(u64::from(secs) * 1_000_000_000)))
    }

    /// Moves it forward.
    pub fn advance(&self, by: std::time::Duration) {
        self.0.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// What it shows.
    pub fn now(&self) -> Timestamp {
        let nanos = self.0.load(Relaxed);
        Timestamp { secs: (nanos / 1_000_000_000) as i64, nanos: (nanos % 1_000_000_000) as u32 }
    }
}

/// The backend.
pub struct MemFs {
    shared: Arc<Shared>,
    root: Arc<MemNode>,
}

/// What the backend and its nodes share. `faults` is never locked while `tree` is waited for.
struct Shared {
    clock: Arc<ManualClock>,
    tree: Mutex<Tree>,
    faults: Mutex<Faults>,
}

#[derive(Default)]
struct Faults {
    errors: HashMap<Op, VecDeque<VfsError>>,
    blocking: u32,
    read_only: bool,
}

impl MemFs {
    /// Space unless [`MemFs::set_space`] says otherwise: more than a test should fill.
    pub const DEFAULT_SPACE_BYTES: u64 = 1 << 30;

    /// An empty directory owned by root with mode 0o777.
    pub fn new(clock: Arc<ManualClock>) -> Arc<Self> {
        let tree = Mutex::new(Tree::new(clock.now(), Self::DEFAULT_SPACE_BYTES));
        let shared = Arc::new(Shared { clock, tree, faults: Mutex::default() });
        let root = Arc::new(MemNode::root(&shared));
        Arc::new(Self { shared, root })
    }

    /// The next call of kind `op` fails with `error`; several wait in line.
    pub fn fail_next(&self, op: Op, error: VfsError) {
        self.shared.faults.lock().errors.entry(op).or_default().push_back(error);
    }

    /// The next `calls` calls made with [`Wait::Never`] answer `WouldBlock`, so that the way by the worker is taken.
    pub fn block_next(&self, calls: u32) {
        self.shared.faults.lock().blocking = calls;
    }

    /// Makes everything read-only, or writable again.
    pub fn set_read_only(&self, read_only: bool) {
        self.shared.faults.lock().read_only = read_only;
    }

    /// The device holds this many bytes of file data; what is beyond fails with `NoSpace`.
    pub fn set_space(&self, bytes: u64) {
        self.shared.tree.lock().space_bytes = bytes;
    }

    /// Space is counted, and this user's limited to so many bytes, with a warning at `soft_bytes`; 0 is no limit. Writing
    /// beyond is not refused: only what is told of quotas is there to be tested.
    pub fn set_quota(&self, uid: u32, hard_bytes: u64, soft_bytes: u64) {
        let limits = (hard_bytes, soft_bytes);
        self.shared.tree.lock().quotas.get_or_insert_default().insert(uid, limits);
    }

    /// The extended attributes of one object have room for this many bytes of values; what is beyond fails with `NoSpace`, as
    /// on ext4.
    pub fn set_xattr_space(&self, bytes: usize) {
        self.shared.tree.lock().xattr_space_bytes = bytes;
    }

    /// Bytes of file data held, those of removed files still open included.
    pub fn used_bytes(&self) -> u64 {
        self.shared.tree.lock().used_bytes
    }

    /// Objects held, those removed but still open included: a test's measure of what leaks.
    pub fn objects(&self) -> usize {
        self.shared.tree.lock().objects()
    }
}

impl Shared {
    /// The injected failure of `op`, if one is due.
    fn due(&self, op: Op) -> VfsResult<()> {
        let mut faults = self.faults.lock();
        match faults.errors.get_mut(&op).and_then(VecDeque::pop_front) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The same for a call that may be made without waiting.
    fn due_or_block(&self, op: Op, wait: Wait) -> VfsResult<()> {
        if wait == Wait::Never {
            let mut faults = self.faults.lock();
            if faults.blocking > 0 {
                faults.blocking -= 1;
                return Err(VfsError::WouldBlock);
            }
        }
        self.due(op)
    }

    /// The same for a call that changes something.
    fn due_to_change(&self, op: Op) -> VfsResult<()> {
        if self.faults.lock().read_only {
            return Err(VfsError::ReadOnly);
        }
        self.due(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Backend, Cred, Disposition, Node, OpenHow, Path, WantKind};

    fn root() -> Cred {
        Cred { uid: 0, gid: 0, groups: Arc::from([]) }
    }

    fn file(fs: &MemFs, name: &str) -> Arc<dyn Node> {
        let how = OpenHow {
            access: Access::READ | Access::WRITE,
            disposition: Disposition::OpenOrCreate,
            kind: WantKind::File,
            follow: true,
            mode: 0o644,
        };
        let path = Path::new(name.as_bytes()).unwrap();
        fs.open(&root(), &*fs.root(), &path, &how, Wait::Allowed).unwrap().node
    }

    #[test]
    fn a_fault_hits_the_next_call_only() {
        let fs = MemFs::new(ManualClock::at_secs(1));
        let node = file(&fs, "a");
        fs.fail_next(Op::Write, VfsError::Io(5));
        assert_eq!(node.write(0, b"x", Wait::Allowed), Err(VfsError::Io(5)));
        assert_eq!(node.write(0, b"x", Wait::Allowed), Ok(()));
    }

    #[test]
    fn a_blocked_call_succeeds_on_a_worker() {
        let fs = MemFs::new(ManualClock::at_secs(1));
        let node = file(&fs, "a");
        node.write(0, b"abc", Wait::Allowed).unwrap();
        fs.block_next(1);
        let mut buf = [0; 3];
        assert_eq!(node.read(0, &mut buf, Wait::Never), Err(VfsError::WouldBlock));
        assert_eq!(node.read(0, &mut buf, Wait::Allowed), Ok(3));
        assert_eq!(node.read(0, &mut buf, Wait::Never), Ok(3));
    }

    #[test]
    fn a_full_device_says_so_and_removal_gives_space_back() {
        let fs = MemFs::new(ManualClock::at_secs(1));
        fs.set_space(10);
        let node = file(&fs, "a");
        node.write(0, &[1; 10], Wait::Allowed).unwrap();
        assert_eq!(node.write(10, b"x", Wait::Allowed), Err(VfsError::NoSpace));
        fs.remove(&root(), &*fs.root(), &Path::new(b"a").unwrap(), None).unwrap();
        assert_eq!((fs.used_bytes(), fs.objects()), (10, 2));
        drop(node);
        assert_eq!((fs.used_bytes(), fs.objects()), (0, 1));
    }

    #[test]
    fn times_come_from_the_clock_passed_in() {
        let clock = ManualClock::at_secs(1000);
        let fs = MemFs::new(Arc::clone(&clock));
        let node = file(&fs, "a");
        clock.advance(std::time::Duration::from_secs(5));
        node.write(0, b"x", Wait::Allowed).unwrap();
        let attr = node.attr().unwrap();
        assert_eq!((attr.created.unwrap().secs, attr.modified.secs), (1000, 1005));
    }

    #[test]
    fn nothing_changes_on_a_read_only_backend() {
        let fs = MemFs::new(ManualClock::at_secs(1));
        let node = file(&fs, "a");
        fs.set_read_only(true);
        assert_eq!(node.write(0, b"x", Wait::Allowed), Err(VfsError::ReadOnly));
        let removed = fs.remove(&root(), &*fs.root(), &Path::new(b"a").unwrap(), None);
        assert_eq!(removed, Err(VfsError::ReadOnly));
    }
}

#[cfg(test)]
mod contract {
    use super::*;
    use crate::Cred;
    use crate::contract::World;

    fn world() -> World {
        let cred = Cred { uid: 0, gid: 0, groups: Arc::from([]) };
        World { backend: MemFs::new(ManualClock::at_secs(1_700_000_000)), cred, keep: Box::new(()) }
    }

    crate::contract_tests!(world);
}
