//! An open: what a CREATE made and a CLOSE ends (MS-SMB2 3.3.1.10).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use coherence::{Identity, OpenClaim};
use parking_lot::Mutex;
use smb_wire::NtStatus;
use smb_wire::dcerpc::RpcPipe;
use smb_wire::fscc::{AccessMask, FileTime, NotifyAction, NotifyFilter, Pattern};
use smb_wire::smb2::{CreateOptions, FileHandle};
use vfs::{Cred, FileId, Name, Node, Path, SetAttr, SetTime};

use crate::Share;
use crate::changes::Changes;
use crate::durable::Durability;
use crate::meta::{local_time, mark_archive};
use crate::notify::{Event, Watch};
use crate::persistent::Kept;
use crate::router::Enrolled;
use crate::sequence::Sequence;
use crate::stream::StreamNode;
use crate::tree::Tree;

/// One open.
pub struct Open {
    /// Its two ids.
    pub handle: FileHandle,
    /// The tree connect it was made through.
    pub tree: Arc<Tree>,
    /// Rights granted.
    pub granted: AccessMask,
    /// What it is an open of.
    pub object: Object,
    /// Where that was when it was opened; of a pipe nowhere.
    pub path: Path,
    /// Its channel sequence.
    pub sequence: Sequence,
    /// Nothing was done with it yet: the CREATE that made it may be told again (Open.IsReplayEligible).
    pub replayable: AtomicBool,
    /// A request that named it brought it back, no CREATE: one that asks for it back may still come.
    pub unasked: AtomicBool,
}

/// What can be opened.
pub enum Object {
    /// A file or directory.
    File(Arc<FileOpen>),
    /// A named pipe of IPC$.
    Pipe(Mutex<RpcPipe>),
}

/// An open of a file or directory.
pub struct FileOpen {
    /// The share.
    pub share: Arc<Share>,
    /// The object.
    pub node: Arc<dyn Node>,
    /// As whom.
    pub cred: Cred,
    /// Its claim on the file.
    pub claim: OpenClaim,
    /// The last component of its name when it was opened; empty for the root of the share.
    pub name: Mutex<Box<[u8]>>,
    /// The symbolic link it was opened through, if it was: that is what is renamed or deleted.
    pub link: Option<(Path, FileId)>,
    /// The symbolic link that was made of it (FSCTL_SET_REPARSE_POINT): from then on the open's name is that of the link.
    pub became_link: OnceLock<(Path, FileId)>,
    /// Of a named stream: the stream.
    pub stream: Option<StreamOpen>,
    /// How it was opened.
    pub options: CreateOptions,
    /// With POSIX semantics.
    pub posix: bool,
    /// Of one with POSIX semantics: its name goes when it is closed, whoever else has the file open.
    pub posix_delete: AtomicBool,
    /// CurrentByteOffset, kept for clients that ask (FilePositionInformation).
    pub position: AtomicU64,
    /// Mode bits a client set (FileModeInformation).
    pub mode: AtomicU64,
    /// The change time set through this open, which its own later changes leave as it is (MS-FSA 2.1.1.6,
    /// UserSetChangeTime); 0 for none.
    pub change_time_set: AtomicU64,
    /// The write time set through this open, which its own later writes leave as it is (UserSetModificationTime); 0 for
    /// none.
    pub write_time_set: AtomicU64,
    /// A directory's listing, once begun.
    pub listing: Mutex<Option<Listing>>,
    /// A directory's watch, once it was asked for.
    pub watch: OnceLock<Arc<Watch>>,
    /// What lets a client that caches the directory know what others change in it.
    pub local: OnceLock<vfs::Watching>,
    /// Its place in the router, if it holds or may hold a caching grant.
    pub route: Option<Enrolled>,
    /// As whom the entries of its directory are changed: the lease of the directory, where the client has one.
    pub parent: Identity,
    /// ClientGuid of the connection it was made on.
    pub client: [u8; 16],
    /// CreateAction, to be told again.
    pub action: u32,
    /// Application instance (MS-SMB2 3.3.5.9.13).
    pub app_instance: Option<[u8; 16]>,
    /// Whether and how it outlives its connection.
    pub durability: Mutex<Durability>,
    /// What is stored of it besides, if it was made persistent.
    pub kept: OnceLock<Kept>,
    /// Changes under way beside its connection's thread.
    pub changes: Changes,
    /// LOCKs done by number, where they may be told again.
    pub lock_sequences: Mutex<Vec<Option<u8>>>,
    /// Set once something was written: its entry in the directory has changed when it closes.
    pub modified: AtomicBool,
    /// Set once something was written since attributes were set through this open.
    pub archived: AtomicBool,
}

/// What an open of a named stream has besides.
pub struct StreamOpen {
    /// The stream; the open's node is the same.
    pub node: Arc<StreamNode>,
    /// A claim on the file itself, so that it does not go while the stream is open.
    pub base_claim: OpenClaim,
}

/// Where a directory listing stands (MS-SMB2 3.3.5.18).
pub struct Listing {
    /// The pattern, as it was given first.
    pub pattern: Pattern,
    /// The pattern may be the short name of an entry.
    pub by_short_name: bool,
    /// `.` and `..` are entries 0 and 1; after them the backend's cookies go on.
    pub dots_given: u8,
    /// The backend's cookie.
    pub cookie: u64,
    /// Whether anything was ever found.
    pub found_any: bool,
    /// Whether the end was reached.
    pub ended: bool,
}

impl Listing {
    /// A listing of what `pattern` has, at its start.
    pub fn new(pattern: Pattern, by_short_name: bool) -> Self {
        Self { pattern, by_short_name, dots_given: 0, cookie: 0, found_any: false, ended: false }
    }
}

impl FileOpen {
    /// An open of `node`, which is no named stream.
    pub fn new(
        share: Arc<Share>,
        node: Arc<dyn Node>,
        cred: Cred,
        claim: OpenClaim,
        options: CreateOptions,
        name: &[u8],
        link: Option<(Path, FileId)>,
    ) -> Self {
        Self {
            share,
            node,
            cred,
            claim,
            name: Mutex::new(name.into()),
            link,
            became_link: OnceLock::new(),
            stream: None,
            options,
            posix: false,
            posix_delete: AtomicBool::new(false),
            position: AtomicU64::new(0),
            mode: AtomicU64::new(0),
            change_time_set: AtomicU64::new(0),
            write_time_set: AtomicU64::new(0),
            listing: Mutex::new(None),
            watch: OnceLock::new(),
            local: OnceLock::new(),
            route: None,
            parent: Identity::default(),
            client: [0; 16],
            action: 0,
            app_instance: None,
            durability: Mutex::default(),
            kept: OnceLock::new(),
            modified: AtomicBool::new(false),
            archived: AtomicBool::new(false),
            changes: Changes::default(),
            lock_sequences: Mutex::default(),
        }
    }

    /// Whether the share's rules hide it where nothing is stored.
    pub fn is_hidden(&self) -> bool {
        crate::meta::is_hidden(&self.share, Name::new(&self.name.lock()).ok())
    }

    /// Whether it survives the server.
    pub fn is_persistent(&self) -> bool {
        self.durability.lock().persistent
    }

    /// Whether the object is a directory.
    pub fn is_directory(&self) -> bool {
        self.node.kind() == vfs::FileKind::Directory
    }

    /// The object in the directory: of a stream the file.
    pub fn base(&self) -> &Arc<dyn Node> {
        self.stream.as_ref().map_or(&self.node, |stream| stream.node.base())
    }

    /// Notes that the data were changed through it (MS-FSA 2.1.4.17): the ARCHIVE attribute is set, unless that was done
    /// before, and a write time set by the client stays. Two atomic loads where there is nothing to do.
    pub fn note_written(&self) {
        let (base, time) = (self.base(), self.write_time_set.load(Relaxed));
        let mut noted = Ok(());
        if !self.archived.load(Relaxed) {
            self.modified.store(true, Relaxed);
            self.archived.store(true, Relaxed);
            noted = mark_archive(&**base, &self.cred);
        }
        if time != 0 {
            let modified = Some(SetTime::At(local_time(FileTime(time))));
            noted = noted.and(base.set_attr(&self.cred, &SetAttr { modified, ..SetAttr::default() }));
        }
        if let Err(error) = noted {
            tracing::debug!(%error, "a write is not noted in the file's attributes");
        }
    }

    /// Tells who watches that the object changed in a way that `filter` names.
    pub fn tell_changed(&self, filter: NotifyFilter) {
        if !self.share.watchers.any() || filter.is_empty() {
            return;
        }
        // Where it is gone nobody watches it any more.
        if let Ok(path) = self.path() {
            self.share.watchers.tell(&[Event::new(NotifyAction::Modified, filter, path.as_bytes())]);
        }
    }

    /// Tells who watches that the name `path` of the object came or went.
    pub fn tell_name(&self, action: NotifyAction, path: &Path) {
        let filter = name_filter(self.is_directory());
        self.share.watchers.tell(&[Event::new(action, filter, path.as_bytes())]);
    }

    /// The symbolic link that is renamed or deleted through it, if one is.
    pub fn link(&self) -> Option<&(Path, FileId)> {
        self.became_link.get().or(self.link.as_ref())
    }

    /// Where the object, or the link it was opened through, is now.
    pub fn path(&self) -> vfs::VfsResult<Path> {
        match self.link() {
            Some((path, _)) => Ok(path.clone()),
            None => self.share.backend.path_of(&**self.base()),
        }
    }
}

/// Who is interested in names.
pub fn name_filter(is_directory: bool) -> NotifyFilter {
    if is_directory { NotifyFilter::DIR_NAME } else { NotifyFilter::FILE_NAME }
}

impl Open {
    /// The file; a pipe is an invalid device for file operations.
    pub fn file(&self) -> Result<&FileOpen, NtStatus> {
        match &self.object {
            Object::File(file) => Ok(file),
            Object::Pipe(_) => Err(NtStatus::INVALID_DEVICE_REQUEST),
        }
    }

    /// Whether its claim is given up.
    pub fn is_closed(&self) -> bool {
        matches!(&self.object, Object::File(file) if file.claim.is_closed())
    }

    /// Checks that the open was granted any of `rights`.
    pub fn require_any(&self, rights: AccessMask) -> Result<(), NtStatus> {
        if self.granted.intersects(rights) { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
    }

    /// Marks where the last READ ended, as Samba does; a WRITE moves nothing there either.
    pub fn moved_to(&self, offset_bytes: u64) {
        if let Object::File(file) = &self.object {
            file.position.store(offset_bytes, Relaxed);
        }
    }
}
