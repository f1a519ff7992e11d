//! A share of an NFS server: what a [`Client`](crate::Client) asks of paths, whatever the version. The facade calls it and
//! adds to an error what was being done; what has an open is in `open`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nfs_wire::NfsStat4;
use nfs_wire::nfs3::CreateHow;
use nfs_wire::nfs4::Stateid;

use super::attr::Wanted;
use super::mount::Mounts;
use super::open::Open;
use super::rpc::driver::{self, Handle};
use super::rpc::{Caller, Denied, Dial, Limits, TcpDial};
use super::v3::Three;
use super::v3::lockd::{Lockd, Seat};
use super::v4::{Four, Small, Whole};
use super::{Fh, Lines, NfsStatus, name};
use crate::error::ErrorKind;
use crate::file::{Disposition, OpenHow};
use crate::options::Options;
use crate::smb::Failure;
use crate::stat::{FileKind, SetAttributes, Space, Stat, Times};
use crate::url::{NfsVersion, Protocol, Url};

/// The most one request moves with any server.
const MOST_TRANSFER_BYTES: u32 = 8 << 20;
/// What a record may hold beside what a request moves; a listing is not larger than 256 KiB.
const OVERHEAD_BYTES: u32 = 320 << 10;
const MOST_CONNECTIONS: u16 = 16;
const NEW_DIR_MODE: u32 = 0o755;

/// A user at an export.
#[derive(Debug)]
pub(crate) struct Share {
    pub way: Way,
    pub stream_bytes: u32,
    /// The URL's path: the share's root itself may be above every export.
    directory: PathBuf,
}

/// What is spoken: of version 3 with what is mounted, of version 4 with the share's root.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    Three(Arc<Three>, Arc<Mounts>),
    Four(Arc<Four>, Fh),
}

impl Share {
    pub async fn connect(url: &Url, options: &Options) -> Result<Self, ErrorKind> {
        Self::connect_by(Arc::new(TcpDial::new(url.host())), url, options).await
    }

    /// The same by lines made otherwise than over TCP.
    pub async fn connect_by(dial: Arc<dyn Dial>, url: &Url, options: &Options) -> Result<Self, ErrorKind> {
        let transfer_bytes = options.max_transfer_bytes.clamp(512, MOST_TRANSFER_BYTES);
        let record_bytes = (transfer_bytes + OVERHEAD_BYTES) as usize;
        let limits = Limits { record_bytes, timeout: options.timeout };
        let mut handles = Vec::new();
        for _ in 0..options.nfs.connections.clamp(1, MOST_CONNECTIONS) {
            let first_xid = u32::from_ne_bytes(chance()?);
            handles.push(driver::start(Arc::clone(&dial), url.port(), limits, first_xid).await?);
        }
        let meeting = Meeting { dial, url, options, limits, handles, transfer_bytes };
        let way = meeting.meet().await?;
        Ok(Self { way, stream_bytes: options.stream_bytes, directory: url.path().to_owned() })
    }

    /// What was agreed on, in a line for a person.
    pub fn description(&self) -> String {
        let (version, lines, read, write) = match &self.way {
            Way::Three(three, _) => ("3".to_owned(), three.lines.all().len(), three.read_bytes(), three.write_bytes()),
            Way::Four(four, _) => {
                (format!("4.{}", four.minor), four.lines.all().len(), four.read_bytes(), four.write_bytes())
            }
        };
        format!("NFS {version}, READ {} KiB, WRITE {} KiB, connections {lines}", read >> 10, write >> 10)
    }

    /// What is at a path, and what it is like.
    pub async fn find(&self, path: &Path) -> Result<(Fh, Stat), ErrorKind> {
        let names = name::components(path)?;
        match &self.way {
            Way::Three(three, mounts) => find3(three, mounts, &names).await,
            Way::Four(four, root) => four.find(root, &names).await,
        }
    }

    pub async fn stat(&self, path: &Path) -> Result<Stat, ErrorKind> {
        Ok(self.find(path).await?.1)
    }

    pub async fn open(self: &Arc<Self>, path: &Path, how: OpenHow) -> Result<Open, ErrorKind> {
        let (dirs, name) = match name::split(path) {
            Ok(found) => found,
            Err(_) if name::components(path)?.is_empty() => return Err(NfsStat4::ISDIR.into()),
            Err(error) => return Err(error),
        };
        match &self.way {
            Way::Three(three, mounts) => {
                let dir = find3(three, mounts, &dirs).await?.0;
                let (fh, stat) = open3(three, &dir, &name, how).await?;
                Ok(Open::new(self, fh, stat, None))
            }
            Way::Four(four, root) => {
                let names = dirs.into_iter().chain([name]).collect();
                let (held, stat) = four.open(root, names, how).await?;
                Ok(Open::new(self, held.fh.clone(), stat, Some(held)))
            }
        }
    }

    pub async fn mkdir(&self, path: &Path) -> Result<(), ErrorKind> {
        let (dirs, name) = name::split(path)?;
        let wanted = Wanted::mode(NEW_DIR_MODE);
        match &self.way {
            Way::Three(three, mounts) => {
                let dir = find3(three, mounts, &dirs).await?.0;
                three.mkdir(&dir, &name, &wanted).await
            }
            Way::Four(four, root) => four.mkdir(root, (&dirs, &name), &wanted).await,
        }
    }

    pub async fn symlink(&self, target: &Path, path: &Path) -> Result<(), ErrorKind> {
        use std::os::unix::ffi::OsStrExt;
        let (dirs, name) = name::split(path)?;
        let target = target.as_os_str().as_bytes();
        match &self.way {
            Way::Three(three, mounts) => {
                let dir = find3(three, mounts, &dirs).await?.0;
                three.symlink(&dir, &name, target).await
            }
            Way::Four(four, root) => four.symlink(root, (&dirs, &name), target).await,
        }
    }

    pub async fn read_link(&self, path: &Path) -> Result<PathBuf, ErrorKind> {
        use std::os::unix::ffi::OsStringExt;
        let target = match &self.way {
            Way::Three(three, _) => three.readlink(&self.find(path).await?.0).await?,
            Way::Four(four, root) => four.readlink(root, &name::components(path)?).await?,
        };
        Ok(std::ffi::OsString::from_vec(target).into())
    }

    pub async fn remove(&self, path: &Path) -> Result<(), ErrorKind> {
        let (dirs, name) = name::split(path)?;
        match &self.way {
            Way::Three(three, mounts) => {
                let dir = find3(three, mounts, &dirs).await?.0;
                let (fh, stat) = three.lookup(&dir, &name).await?;
                let stat = match stat {
                    Some(stat) => stat,
                    None => three.getattr(&fh).await?,
                };
                three.remove(&dir, &name, stat.is_dir()).await
            }
            Way::Four(four, root) => four.remove(root, &dirs, &name).await,
        }
    }

    /// RENAME replaces, and does it in one. Where nothing may be replaced a file gets its new name by LINK, which fails
    /// if it is taken, and then loses the old one: in between it has both. What cannot have two names, such as a
    /// directory, is renamed after a look: a name taken just then is replaced if the server lets it be.
    pub async fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<(), ErrorKind> {
        let ((from_dirs, from_name), (to_dirs, to_name)) = (name::split(from)?, name::split(to)?);
        let (from_dir, to_dir) = (self.dir(&from_dirs).await?, self.dir(&to_dirs).await?);
        let (from_at, to_at) = ((&from_dir, from_name.as_slice()), (&to_dir, to_name.as_slice()));
        if !replace {
            let (fh, stat) = self.find(from).await?;
            if stat.kind == FileKind::File {
                match self.link(&fh, to_at).await {
                    Ok(()) => return self.remove_in(from_at).await,
                    Err(ErrorKind::Nfs(status)) if status.is_taken() => return Err(status.into_taken()),
                    // Two names it cannot have there, but perhaps another.
                    Err(ErrorKind::Nfs(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            match self.find(to).await {
                Ok(_) => return Err(self.taken()),
                Err(ErrorKind::Nfs(status)) if status.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        match &self.way {
            Way::Three(three, _) => three.rename(from_at, to_at).await,
            Way::Four(four, _) => four.rename(from_at, to_at).await,
        }
    }

    async fn dir(&self, names: &[Vec<u8>]) -> Result<Fh, ErrorKind> {
        match &self.way {
            Way::Three(three, mounts) => Ok(find3(three, mounts, names).await?.0),
            Way::Four(four, root) => four.dir(root, names).await,
        }
    }

    async fn link(&self, fh: &Fh, (dir, name): (&Fh, &[u8])) -> Result<(), ErrorKind> {
        match &self.way {
            Way::Three(three, _) => three.link(fh, dir, name).await,
            Way::Four(four, _) => four.link(fh, dir, name).await,
        }
    }

    async fn remove_in(&self, (dir, name): (&Fh, &[u8])) -> Result<(), ErrorKind> {
        match &self.way {
            Way::Three(three, _) => three.remove(dir, name, false).await,
            Way::Four(four, _) => four.remove(dir, &[], name).await,
        }
    }

    fn taken(&self) -> ErrorKind {
        match &self.way {
            Way::Three(..) => nfs_wire::NfsStat3::EXIST.into(),
            Way::Four(..) => NfsStat4::EXIST.into(),
        }
    }

    pub async fn set(&self, path: &Path, set: &SetAttributes) -> Result<(), ErrorKind> {
        let (fh, wanted) = (self.find(path).await?.0, Wanted::of(set));
        match &self.way {
            _ if wanted.is_nothing() => Ok(()),
            Way::Three(three, _) => three.setattr(&fh, &wanted).await,
            Way::Four(four, _) => four.setattr(&fh, Stateid::ANONYMOUS, &wanted).await.map(drop),
        }
    }

    pub async fn space(&self) -> Result<Space, ErrorKind> {
        let (fh, _) = self.find(&self.directory).await?;
        match &self.way {
            Way::Three(three, _) => three.space(&fh).await,
            Way::Four(four, _) => four.space(&fh).await,
        }
    }

    /// The file's contents, if they are `most_bytes` at most, and what it is like: one round trip in version 4.
    pub async fn read_whole(&self, path: &Path, most_bytes: u32) -> Result<(Stat, Option<Vec<u8>>), ErrorKind> {
        let (stat, data) = match &self.way {
            Way::Three(three, _) => {
                let (fh, stat) = self.find(path).await?;
                let data = three.read_start(&fh, most_bytes.min(three.read_bytes())).await?;
                (stat, data)
            }
            Way::Four(four, root) => {
                let names = name::components(path)?;
                four.read_whole(root, &names, most_bytes.min(four.read_bytes())).await?
            }
        };
        let is_whole = data.len() as u64 == stat.len_bytes;
        Ok((stat, is_whole.then_some(data)))
    }

    /// Makes the file, or replaces its contents, and sets those times that are given.
    pub async fn write_whole(
        self: &Arc<Self>,
        path: &Path,
        data: &[u8],
        how: OpenHow,
        times: &Times,
    ) -> Result<(), ErrorKind> {
        let small = Small { data, how, wanted: Wanted::times(times), name: None };
        match self.write_at_once(path, small).await? {
            Whole::Done => Ok(()),
            Whole::Otherwise(how) => self.fill(self.open(path, how).await?, data, times).await,
        }
    }

    /// Makes a file at `temporary` that gets the name it has at `path`, in the same directory, when it is whole; one that is
    /// there is replaced. What fails leaves nothing at `temporary`.
    pub async fn write_as(
        self: &Arc<Self>,
        temporary: &Path,
        path: &Path,
        data: &[u8],
        times: &Times,
    ) -> Result<(), ErrorKind> {
        let ((dirs, name), (old_dirs, _)) = (name::split(path)?, name::split(temporary)?);
        let how = OpenHow::overwrite();
        let small = Small { data, how, wanted: Wanted::times(times), name: Some(&name) };
        let outcome =
            if dirs == old_dirs { self.write_at_once(temporary, small).await? } else { Whole::Otherwise(how) };
        let Whole::Otherwise(how) = outcome else { return Ok(()) };
        let open = self.open(temporary, how).await?;
        let written = match self.fill(open, data, times).await {
            Ok(()) => self.rename(temporary, path, true).await,
            error => error,
        };
        if written.as_ref().is_err_and(|error| !matches!(error, ErrorKind::Connection(_))) {
            let _ = self.remove(temporary).await;
        }
        written
    }

    async fn write_at_once(&self, path: &Path, small: Small<'_>) -> Result<Whole, ErrorKind> {
        match &self.way {
            Way::Three(..) => Ok(Whole::Otherwise(small.how)),
            Way::Four(four, root) => four.write_whole(root, &name::components(path)?, small).await,
        }
    }

    async fn fill(&self, open: Open, data: &[u8], times: &Times) -> Result<(), ErrorKind> {
        let filled = async {
            let request_bytes = open.write_bytes() as usize;
            for (piece, offset) in data.chunks(request_bytes).zip((0u64..).step_by(request_bytes)) {
                open.send_write(offset, piece).answer().await?;
            }
            if *times == Times::default() { Ok(()) } else { open.set_times(times).await }
        };
        let filled: Result<(), ErrorKind> = filled.await;
        filled.and(open.close().await)
    }

    /// Copies a whole file at the server, which only 4.2 can; answers how long it is.
    pub async fn copy(self: &Arc<Self>, from: &Path, to: &Path) -> Result<u64, ErrorKind> {
        let source = self.open(from, OpenHow::read()).await?;
        if let Err(error) = source.can_be_copied() {
            let _ = source.close().await;
            return Err(error);
        }
        let target = self.open(to, OpenHow::overwrite()).await?;
        let len_bytes = source.stat_at_open.len_bytes;
        let copied = source.copy_range(0, &target, 0, len_bytes).await;
        let closed = target.close().await;
        let _ = source.close().await;
        copied.and(closed).map(|()| len_bytes)
    }

    pub async fn disconnect(&self) -> Result<(), ErrorKind> {
        match &self.way {
            Way::Three(..) => Ok(()),
            Way::Four(four, _) => four.leave().await,
        }
    }
}

impl NfsStatus {
    fn into_taken(self) -> ErrorKind {
        ErrorKind::Nfs(self)
    }
}

pub(super) fn chance<const N: usize>() -> Result<[u8; N], ErrorKind> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| ErrorKind::Input("the system has no random numbers"))?;
    Ok(bytes)
}

/// A handle may have become stale with the export it was found in: that is mounted again, once.
async fn find3(three: &Three, mounts: &Mounts, names: &[Vec<u8>]) -> Result<(Fh, Stat), ErrorKind> {
    match try_find3(three, mounts, names).await {
        Err(ErrorKind::Nfs(status)) if status == NfsStatus::V3(nfs_wire::NfsStat3::STALE) => {
            mounts.forget();
            try_find3(three, mounts, names).await
        }
        found => found,
    }
}

async fn try_find3(three: &Three, mounts: &Mounts, names: &[Vec<u8>]) -> Result<(Fh, Stat), ErrorKind> {
    let (root, depth) = mounts.start(three, names).await?;
    let (fh, stat) = three.walk(&root, names.get(depth..).unwrap_or_default()).await?;
    match stat {
        Some(stat) => Ok((fh, stat)),
        None => three.getattr(&fh).await.map(|stat| (fh, stat)),
    }
}

async fn open3(three: &Three, dir: &Fh, name: &[u8], how: OpenHow) -> Result<(Fh, Stat), ErrorKind> {
    const LINK: ErrorKind = ErrorKind::Input("it is a symbolic link, which this client does not follow");
    let mode = Wanted::mode(super::v4::NEW_FILE_MODE);
    let (fh, stat) = match how.existing {
        Disposition::Open => three.lookup(dir, name).await?,
        Disposition::OpenOrCreate => three.create(dir, name, CreateHow::Unchecked(mode.sattr())).await?,
        Disposition::CreateOrEmpty => {
            let emptied = Wanted { len_bytes: Some(0), ..mode };
            three.create(dir, name, CreateHow::Unchecked(emptied.sattr())).await?
        }
        Disposition::Create => {
            let (fh, _) = three.create(dir, name, CreateHow::Exclusive(chance()?)).await?;
            // RFC 1813 3.3.8: the verifier may lie in the attributes until they are set.
            three.setattr(&fh, &mode).await?;
            (fh, None)
        }
    };
    let stat = match stat {
        Some(stat) => stat,
        None => three.getattr(&fh).await?,
    };
    match stat.kind {
        FileKind::Directory => Err(nfs_wire::NfsStat3::ISDIR.into()),
        FileKind::Link => Err(LINK),
        _ => Ok((fh, stat)),
    }
}

/// A client that comes to a server.
struct Meeting<'a> {
    dial: Arc<dyn Dial>,
    url: &'a Url,
    options: &'a Options,
    limits: Limits,
    handles: Vec<Handle>,
    transfer_bytes: u32,
}

impl Meeting<'_> {
    /// In the newest version that both have, or the one that is asked for.
    async fn meet(&self) -> Result<Way, ErrorKind> {
        let versions = match self.url.protocol() {
            Protocol::Nfs(Some(version)) => vec![version],
            _ => NfsVersion::ALL.into_iter().rev().collect(),
        };
        let is_free = versions.len() > 1;
        let mut refused = ErrorKind::Input("no version of NFS is left to be tried");
        for version in versions {
            match self.meet_in(version).await {
                Err(error) if is_of_the_version(&error) => refused = error,
                // Version 4 may show its exports below another root than MOUNT does.
                Err(ErrorKind::Nfs(status)) if is_free && version != NfsVersion::V3 && status.is_not_found() => {
                    return self.meet_in_3().await.map_err(|_| ErrorKind::Nfs(status));
                }
                outcome => return outcome,
            }
        }
        Err(refused)
    }

    async fn meet_in(&self, version: NfsVersion) -> Result<Way, ErrorKind> {
        let minor = match version {
            NfsVersion::V3 => return self.meet_in_3().await,
            NfsVersion::V4_0 => 0,
            NfsVersion::V4_1 => 1,
            NfsVersion::V4_2 => 2,
        };
        let random: [u8; 16] = chance()?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("longshore {} {name}", machine());
        let four = Four::new(self.lines(), minor, name.as_bytes(), chance()?, self.transfer_bytes).await?;
        let root = match four.export(&[self.url.share().as_bytes().to_vec()]).await {
            Ok(root) => root,
            Err(error) => {
                let _ = four.leave().await;
                return Err(error);
            }
        };
        four.keep_alive();
        Ok(Way::Four(four, root))
    }

    async fn meet_in_3(&self) -> Result<Way, ErrorKind> {
        let lines = self.lines();
        let found = Mounts::find(&lines, &self.dial, self.limits, self.url.mount_port(), self.url.share()).await;
        let lockd = Lockd::new(Seat {
            nfs: lines.next().clone(),
            dial: Arc::clone(&self.dial),
            limits: self.limits,
            caller: lines.caller.clone(),
            port: self.url.lock_port(),
            machine: machine(),
            instance: chance()?,
        });
        let (mounts, three) = (found?, Three::new(lines, self.transfer_bytes, lockd));
        if !mounts.has_share() {
            return Err(nfs_wire::mount::MountStat3::NOENT.into());
        }
        // What is wrong with the share itself is said now. That it may not be entered, though what is below may, is
        // found out there.
        match mounts.start(&three, &[]).await {
            Err(ErrorKind::Nfs(status)) if status.is_not_found() => {}
            outcome => drop(outcome?),
        }
        Ok(Way::Three(Arc::new(three), Arc::new(mounts)))
    }

    fn lines(&self) -> Lines {
        let nfs = &self.options.nfs;
        let caller = Caller::user(&machine(), nfs.uid, nfs.gid, &nfs.groups);
        Lines::new(self.handles.clone(), caller, self.options.timeout)
    }
}

/// Whether another version may be understood.
fn is_of_the_version(error: &ErrorKind) -> bool {
    match error {
        ErrorKind::Connection(Failure::Denied(denied)) => !matches!(denied, Denied::Auth(_)),
        ErrorKind::Nfs(NfsStatus::V4(status)) => {
            matches!(*status, NfsStat4::MINOR_VERS_MISMATCH | NfsStat4::NOTSUPP | NfsStat4::OP_ILLEGAL)
        }
        _ => false,
    }
}

/// What this machine calls itself.
fn machine() -> String {
    const UNKNOWN: &str = "localhost";
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| UNKNOWN.into(), |name| name.trim().into())
}
