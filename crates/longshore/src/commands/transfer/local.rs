//! Directories and files of this machine that copies are written to. Everything is done relative to an open directory and
//! no link on the way is followed, so that whatever a server calls its files, nothing is written outside the destination.
//! All of it may wait for a disk: it is called on threads for that, never in the runtime's.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use crate::commands::words;

/// What a copy keeps of its source.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keep {
    /// When it was written.
    pub written: Option<SystemTime>,
    /// When it was read.
    pub accessed: Option<SystemTime>,
    /// Its permission bits; never more than those.
    pub mode: Option<u32>,
}

impl Keep {
    /// What a file of this machine has.
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            written: metadata.modified().ok(),
            accessed: metadata.accessed().ok(),
            mode: Some(metadata.permissions().mode() & 0o777),
        }
    }

    fn apply(&self, to: &impl std::os::fd::AsFd) -> io::Result<()> {
        if let Some(mode) = self.mode {
            rustix::fs::fchmod(to, Mode::from_raw_mode(mode & 0o777))?;
        }
        if self.written.is_some() || self.accessed.is_some() {
            let times = Timestamps { last_access: timespec(self.accessed), last_modification: timespec(self.written) };
            rustix::fs::futimens(to, &times)?;
        }
        Ok(())
    }
}

fn timespec(time: Option<SystemTime>) -> Timespec {
    const LEAVE: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let Some(time) = time else { return LEAVE };
    let (secs, nanos) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (i64::try_from(since.as_secs()), since.subsec_nanos()),
        // Half a second before is the second before and half a second.
        Err(before) => match (i64::try_from(before.duration().as_secs()), before.duration().subsec_nanos()) {
            (secs, 0) => (secs.map(|secs| -secs), 0),
            (secs, nanos) => (secs.map(|secs| -secs - 1), 1_000_000_000 - nanos),
        },
    };
    secs.map_or(LEAVE, |tv_sec| Timespec { tv_sec, tv_nsec: nanos.into() })
}

/// A directory that is open. What is to be kept of its source is set when the last who writes into it lets it go: only
/// then it changes no more.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    keep: Keep,
    /// Its own times change as long as something is done in this one.
    _parent: Option<Arc<Folder>>,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Folder {
    /// A directory the user named; a link to one will do.
    pub fn named(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let fd = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
        Ok(Self { fd, keep: Keep::default(), _parent: None })
    }

    /// The directory of that name in this one, made if it is not there. A link in its place is an error.
    pub fn child(self: &Arc<Self>, name: &OsStr, keep: Keep) -> io::Result<Self> {
        must_be_plain(name)?;
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let opened = rustix::fs::openat(&self.fd, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        let fd = opened.map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => io::Error::other("a link or a file is in the place of the directory"),
            other => other.into(),
        })?;
        Ok(Self { fd, keep, _parent: Some(Arc::clone(self)) })
    }

    /// What is there under that name; a link is not followed.
    pub fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        must_be_plain(name)?;
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a file of that length and time is there already.
    pub fn has(&self, name: &OsStr, len_bytes: u64, written: Option<SystemTime>) -> bool {
        let Ok(Some(stat)) = self.stat(name) else { return false };
        let Timespec { tv_sec, tv_nsec } = timespec(written);
        let same_time = stat.st_mtime == tv_sec && i64::try_from(stat.st_mtime_nsec) == Ok(tv_nsec);
        written.is_some() && is_file(&stat) && u64::try_from(stat.st_size) == Ok(len_bytes) && same_time
    }

    /// Makes a symbolic link; one that is there is replaced, and nothing else.
    pub fn link(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        must_be_plain(name)?;
        match rustix::fs::symlinkat(target, &self.fd, name) {
            Err(Errno::EXIST) => {}
            done => return done.map_err(Into::into),
        }
        if !self.stat(name)?.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
            return Err(io::Error::other("something that is no link is in its place"));
        }
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?;
        rustix::fs::symlinkat(target, &self.fd, name).map_err(Into::into)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What was written is there; that a file system keeps no times or modes is not worth failing for.
        let _ = self.keep.apply(&self.fd);
    }
}

/// The client library sees to that, too; it is this that nothing is written without.
fn must_be_plain(name: &OsStr) -> io::Result<()> {
    match words::is_plain(name) {
        true => Ok(()),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "the name is no name of a file")),
    }
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// A copy that is not whole yet, beside its place. Dropped before [`Part::complete`], it stays if there is anything in it.
#[derive(Debug)]
pub struct Part {
    folder: Arc<Folder>,
    file: File,
    part_name: OsString,
    name: OsString,
    is_complete: bool,
}

impl Part {
    /// Opens the part of that tag in a directory for a file called `name`, emptied unless it is to be gone on with.
    pub fn open(folder: &Arc<Folder>, name: &OsStr, tag: u32, resume: bool) -> io::Result<Self> {
        if folder.stat(name)?.is_some_and(|stat| !is_replaceable(&stat)) {
            return Err(io::Error::other("something that is no file is in its place"));
        }
        let part_name = words::part_name(name, tag);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&folder.fd, &part_name, flags, Mode::from_raw_mode(0o666))?;
        let stat = rustix::fs::fstat(&fd)?;
        if !is_file(&stat) {
            return Err(io::Error::other("something that is no file is in the place of its part"));
        }
        // Where a file system has no locks there is none to be held.
        if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(io::Error::other("another program is just copying it"));
        }
        let file = File::from(fd);
        if !resume && stat.st_size != 0 {
            file.set_len(0)?;
        }
        Ok(Self { folder: Arc::clone(folder), file, part_name, name: name.into(), is_complete: false })
    }

    /// How much of it is there.
    pub fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Writes `data` at `offset`. With `sparse`, aligned blocks of zeros become holes.
    pub fn write(&self, offset: u64, data: &[u8], sparse: bool) -> io::Result<()> {
        if !sparse {
            return self.file.write_all_at(data, offset);
        }
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let in_block = usize::try_from(BLOCK_BYTES - at % BLOCK_BYTES).unwrap_or(usize::MAX);
            let (block, behind) = rest.split_at(rest.len().min(in_block));
            if !(block.len() as u64 == BLOCK_BYTES && ZEROS.get(..block.len()) == Some(block)) {
                self.file.write_all_at(block, at)?;
            }
            at += block.len() as u64;
            rest = behind;
        }
        Ok(())
    }

    /// Reads at `offset`, until `buf` is full or the part ends.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while let Some(room) = buf.get_mut(count..).filter(|room| !room.is_empty()) {
            match self.file.read_at(room, offset + count as u64)? {
                0 => break,
                more => count += more,
            }
        }
        Ok(count)
    }

    /// Makes it begin anew.
    pub fn empty(&self) -> io::Result<()> {
        self.file.set_len(0)
    }

    /// Makes room for a hole at the end, which is not there before.
    pub fn extend(&self, len_bytes: u64) -> io::Result<()> {
        self.file.set_len(len_bytes)
    }

    /// It has all of its `len_bytes`, which is verified: gives it its name.
    pub fn complete(mut self, len_bytes: u64, keep: &Keep, sync: bool, sparse: bool) -> io::Result<()> {
        if sparse {
            self.extend(len_bytes)?;
        }
        let there = self.len_bytes()?;
        if there != len_bytes {
            return Err(io::Error::other(format!("{there} bytes were written instead of {len_bytes}")));
        }
        keep.apply(&self.file)?;
        if sync {
            self.file.sync_all()?;
        }
        rustix::fs::renameat(&self.folder.fd, &self.part_name, &self.folder.fd, &self.name)?;
        self.is_complete = true;
        if sync {
            rustix::fs::fsync(&self.folder.fd)?;
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_complete && self.len_bytes().is_ok_and(|len| len == 0) {
            // There is nothing to go on with. That it stays harms nobody.
            let _ = rustix::fs::unlinkat(&self.folder.fd, &self.part_name, AtFlags::empty());
        }
    }
}

/// A device, a pipe or a directory must not make way for a copy; a link may, and what it leads to is left alone.
fn is_replaceable(stat: &Stat) -> bool {
    matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Symlink)
}

/// What is worth a hole. Smaller ones cost more in a file's map than they save.
const BLOCK_BYTES: u64 = 64 << 10;
static ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Arc<Folder>) {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        let folder = Folder::named(&inside).unwrap();
        (directory, Arc::new(folder))
    }

    #[test]
    fn a_name_that_leads_elsewhere_makes_nothing() {
        let (directory, folder) = folder();
        let absolute = directory.path().join("x");
        for bad in ["../x", "..", ".", "", "a/b", "/x", absolute.to_str().unwrap()].map(OsStr::new) {
            assert!(folder.child(bad, Keep::default()).is_err(), "{bad:?}");
            assert!(folder.link(bad, Path::new("a")).is_err(), "{bad:?}");
            assert!(Part::open(&folder, bad, 1, false).is_err(), "{bad:?}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(directory.path().join("inside")).unwrap().count(), 0);
    }

    #[test]
    fn a_link_that_a_server_made_first_is_not_gone_through() {
        let (directory, folder) = folder();
        let outside = directory.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        folder.link(OsStr::new("a"), &outside).unwrap();
        assert!(folder.child(OsStr::new("a"), Keep::default()).is_err());
        let part_name = words::part_name(OsStr::new("b"), 1);
        folder.link(&part_name, &outside.join("b")).unwrap();
        assert!(Part::open(&folder, OsStr::new("b"), 1, false).is_err());
        assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0);
    }

    #[test]
    fn a_part_gets_its_name_with_its_length_and_not_before() {
        let (directory, folder) = folder();
        let name = OsStr::new("x");
        let part = Part::open(&folder, name, 1, false).unwrap();
        part.write(0, b"abc", false).unwrap();
        assert!(Part::open(&folder, name, 1, false).unwrap_err().to_string().contains("just copying"));
        assert!(part.complete(4, &Keep::default(), false, false).unwrap_err().to_string().contains("3 bytes"));
        assert!(folder.stat(name).unwrap().is_none());
        let part = Part::open(&folder, name, 1, true).unwrap();
        assert_eq!(part.len_bytes().unwrap(), 3, "it is there to be gone on with");
        part.write(3, b"d", false).unwrap();
        let written = Some(UNIX_EPOCH - std::time::Duration::from_millis(1500));
        let keep = Keep { written, accessed: None, mode: Some(0o4640) };
        part.complete(4, &keep, true, false).unwrap();
        let path = directory.path().join("inside/x");
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!((std::fs::read(path).unwrap(), metadata.modified().ok()), (b"abcd".to_vec(), written));
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o640, "no set-user-id from a server");
        assert!(folder.has(name, 4, written) && !folder.has(name, 5, written) && !folder.has(name, 4, None));
        drop(Part::open(&folder, name, 2, false).unwrap());
        assert_eq!(std::fs::read_dir(directory.path().join("inside")).unwrap().count(), 1, "an empty part goes");
    }
}
