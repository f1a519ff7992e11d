//! Named streams of files and directories (MS-FSCC 2.1.5), kept as Samba's `streams_xattr` keeps them: in
//! `user.DosStream.NAME:$DATA`, the data with one zero byte behind them, since an attribute cannot be empty. CREATE finds
//! and makes them; afterwards a stream is a [`Node`] like any other, so that READ, WRITE and the rest need not know.
//!
//! A stream that does not fit one attribute goes on in others ([`parts`]), up to 1 MiB, as far as the file system has room
//! for attributes; what does not fit is refused as a full disk is. It has the file's times, attributes and security descriptor. For share modes, byte ranges
//! and grants it is an object of its own, whose [`FileId`] differs from the file's in the generation.

mod parts;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use smb_wire::NtStatus;
use smb_wire::name::upcase;
use vfs::{
    AccessMask, Attr, Cred, DirEntry, FileId, FileKind, Name, Node, PagePipe, SetAttr, Sync, VfsError, VfsResult, Wait,
};

use self::parts::Parts;
pub use self::parts::{FURTHER_PREFIX, MOST_BYTES};

/// What the attributes of streams begin with.
pub const PREFIX: &str = "user.DosStream.";
const SUFFIX: &str = ":$DATA";
/// The longest name of an attribute (XATTR_NAME_MAX).
const MAX_KEY_BYTES: usize = 255;

/// Streams open now: while there are none, nobody need look for them.
static OPEN_STREAMS: AtomicUsize = AtomicUsize::new(0);

/// Changing a stream reads and writes all of it; streams that share a lock wait for each other.
static CHANGING: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// Whether any stream is open on this server.
pub fn any_open() -> bool {
    OPEN_STREAMS.load(Relaxed) > 0
}

/// The attribute a stream of that name is kept in.
pub fn key(name: &[u8]) -> Result<String, NtStatus> {
    let name = std::str::from_utf8(name).map_err(|_| NtStatus::OBJECT_NAME_INVALID)?;
    let key = format!("{PREFIX}{name}{SUFFIX}");
    if key.len() > MAX_KEY_BYTES { Err(NtStatus::OBJECT_NAME_INVALID) } else { Ok(key) }
}

/// The name of the stream kept in an attribute, if it holds one.
pub fn name_of(key: &str) -> Option<&str> {
    key.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)
}

/// The attributes of an object's streams.
pub fn keys(base: &dyn Node) -> VfsResult<Vec<String>> {
    let mut keys = match base.xattr_names() {
        Err(VfsError::NotSupported) => Vec::new(),
        names => names?,
    };
    keys.retain(|key| name_of(key).is_some());
    Ok(keys)
}

/// The attribute of the stream that `wanted` is for, as it is spelled; names that differ in case only are one.
pub fn find(base: &dyn Node, wanted: &str) -> VfsResult<Option<String>> {
    let keys = keys(base)?;
    if keys.iter().any(|key| key == wanted) {
        return Ok(Some(wanted.to_owned()));
    }
    let folded = fold(wanted);
    Ok(keys.into_iter().find(|key| fold(key) == folded))
}

/// Length of a stream's data in bytes.
pub fn len_bytes(base: &dyn Node, key: &str) -> VfsResult<u64> {
    Ok(read(base, id(base.id(), key), key)?.len() as u64)
}

/// Makes an empty stream.
pub fn make(base: &dyn Node, cred: &Cred, key: &str) -> VfsResult<()> {
    let _changing = changing(id(base.id(), key));
    Parts::default().replace(base, cred, key, &[])
}

/// Removes all streams of an object: it is overwritten.
pub fn remove_all(base: &dyn Node, cred: &Cred) -> VfsResult<()> {
    for key in keys(base)? {
        remove(base, cred, &key)?;
    }
    Ok(())
}

/// Removes a stream.
pub fn remove(base: &dyn Node, cred: &Cred, key: &str) -> VfsResult<()> {
    let _changing = changing(id(base.id(), key));
    parts::remove(base, cred, key)
}

/// Which object a stream is to those who count claims. Two streams of one file are taken for one only if their names'
/// digests are the same 64 bits.
pub fn id(base: FileId, key: &str) -> FileId {
    // FNV-1a of the folded name; never the file itself.
    let digest = fold(key)
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, unit| (hash ^ u64::from(unit)).wrapping_mul(0x0100_0000_01b3));
    FileId { generation: base.generation.wrapping_add(digest | 1), ..base }
}

fn fold(key: &str) -> Vec<u16> {
    key.encode_utf16().map(upcase).collect()
}

fn changing(id: FileId) -> MutexGuard<'static, ()> {
    let stripe = (id.ino ^ id.generation) as usize % CHANGING.len();
    CHANGING[stripe].lock()
}

/// All of the stream `id`, as it is at one moment.
fn read(base: &dyn Node, id: FileId, key: &str) -> VfsResult<Vec<u8>> {
    let parts = Parts::load(base, key)?;
    if parts.is_one() {
        return Ok(parts.data());
    }
    let _changing = changing(id);
    Ok(Parts::load(base, key)?.data())
}

/// An open stream.
pub struct StreamNode {
    base: Arc<dyn Node>,
    cred: Cred,
    id: FileId,
    /// Where it is kept now; a rename changes it.
    key: Mutex<String>,
}

impl StreamNode {
    /// The stream kept in the attribute `key` of `base`, changed as `cred`.
    pub fn new(base: Arc<dyn Node>, cred: Cred, key: String) -> Arc<Self> {
        OPEN_STREAMS.fetch_add(1, Relaxed);
        Arc::new(Self { id: id(base.id(), &key), base, cred, key: Mutex::new(key) })
    }

    /// The object it is a stream of.
    pub fn base(&self) -> &Arc<dyn Node> {
        &self.base
    }

    /// The attribute it is kept in.
    pub fn key(&self) -> String {
        self.key.lock().clone()
    }

    /// Removes it.
    pub fn remove(&self) -> VfsResult<()> {
        remove(&*self.base, &self.cred, &self.key())
    }

    /// Gives it another name; what has that name goes.
    pub fn rename(&self, to: String) -> VfsResult<()> {
        let _changing = changing(self.id);
        let (base, cred, from) = (&*self.base, &self.cred, self.key());
        if from != to {
            let data = Parts::load(base, &from)?.data();
            let there = match Parts::load(base, &to) {
                Err(VfsError::Stale) => Parts::default(),
                there => there?,
            };
            if fold(&from) == fold(&to) {
                // Never two that clients take for one.
                parts::remove(base, cred, &from)?;
                there.replace(base, cred, &to, &data)?;
            } else {
                there.replace(base, cred, &to, &data)?;
                parts::remove(base, cred, &from)?;
            }
            *self.key.lock() = to;
        }
        Ok(())
    }

    fn data(&self) -> VfsResult<Vec<u8>> {
        let key = self.key();
        read(&*self.base, self.id, &key)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<u8>) -> VfsResult<()>) -> VfsResult<()> {
        let _changing = changing(self.id);
        let key = self.key();
        let before = Parts::load(&*self.base, &key)?;
        let mut data = before.data();
        change(&mut data)?;
        before.replace(&*self.base, &self.cred, &key, &data)
    }
}

impl Drop for StreamNode {
    fn drop(&mut self) {
        OPEN_STREAMS.fetch_sub(1, Relaxed);
    }
}

/// An offset or length within what can be a stream.
fn within(bytes: u64) -> VfsResult<usize> {
    usize::try_from(bytes).ok().filter(|&bytes| bytes <= MOST_BYTES).ok_or(VfsError::NoSpace)
}

impl Node for StreamNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn kind(&self) -> FileKind {
        FileKind::File
    }

    /// The file's attributes, but for length and kind; its inode number too, as clients compare file ids.
    fn attr(&self) -> VfsResult<Attr> {
        let len_bytes = self.data()?.len() as u64;
        Ok(Attr {
            id: self.id,
            kind: FileKind::File,
            len_bytes,
            allocated_bytes: len_bytes.next_multiple_of(512),
            ..self.base.attr()?
        })
    }

    fn set_attr(&self, cred: &Cred, set: &SetAttr) -> VfsResult<()> {
        if let Some(len) = set.len_bytes {
            let len = within(len)?;
            self.change(|data| {
                data.resize(len, 0);
                Ok(())
            })?;
        }
        let rest = SetAttr { len_bytes: None, ..*set };
        if rest == SetAttr::default() { Ok(()) } else { self.base.set_attr(cred, &rest) }
    }

    fn access(&self, cred: &Cred, ask: AccessMask) -> VfsResult<AccessMask> {
        self.base.access(cred, ask)
    }

    /// Whoever changes the stream may have to be waited for, and attributes to be read from the device.
    fn read(&self, offset_bytes: u64, buf: &mut [u8], wait: Wait) -> VfsResult<usize> {
        if wait == Wait::Never {
            return Err(VfsError::WouldBlock);
        }
        let data = self.data()?;
        let rest = usize::try_from(offset_bytes).ok().and_then(|at| data.get(at..)).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        Ok(len)
    }

    fn read_pages(&self, _: u64, _: usize, _: &mut dyn PagePipe, _: Wait) -> VfsResult<usize> {
        Err(VfsError::NotSupported)
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8], _wait: Wait) -> VfsResult<()> {
        let start = within(offset_bytes)?;
        let end = within(offset_bytes.saturating_add(bytes.len() as u64))?;
        self.change(|data| {
            data.resize(data.len().max(end), 0);
            data.get_mut(start..end).ok_or(VfsError::NoSpace)?.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn sync(&self, how: Sync) -> VfsResult<()> {
        self.base.sync(how)
    }

    fn allocate(&self, offset_bytes: u64, len_bytes: u64, extend: bool) -> VfsResult<()> {
        if !extend {
            return Err(VfsError::NotSupported); // nothing can be set aside
        }
        let end = within(offset_bytes.saturating_add(len_bytes))?;
        self.change(|data| {
            data.resize(data.len().max(end), 0);
            Ok(())
        })
    }

    fn read_dir(&self, _: u64, _: &mut dyn FnMut(DirEntry<'_>) -> bool) -> VfsResult<bool> {
        Err(VfsError::NotDirectory)
    }

    fn entry_attr(&self, _: Name<'_>) -> VfsResult<Attr> {
        Err(VfsError::NotDirectory)
    }

    fn entry_xattr(&self, _: Name<'_>, _: &str, _: usize) -> VfsResult<Vec<u8>> {
        Err(VfsError::NotDirectory)
    }

    fn read_link(&self) -> VfsResult<Vec<u8>> {
        Err(VfsError::InvalidArgument)
    }

    fn xattr(&self, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>> {
        self.base.xattr(key, max_bytes)
    }

    fn set_xattr(&self, cred: &Cred, key: &str, value: &[u8]) -> VfsResult<()> {
        self.base.set_xattr(cred, key, value)
    }

    fn remove_xattr(&self, cred: &Cred, key: &str) -> VfsResult<()> {
        self.base.remove_xattr(cred, key)
    }

    fn xattr_names(&self) -> VfsResult<Vec<String>> {
        self.base.xattr_names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_attributes_are_one_another() {
        let key = key("Stream One".as_bytes()).unwrap();
        assert_eq!(key, "user.DosStream.Stream One:$DATA");
        assert_eq!(name_of(&key), Some("Stream One"));
        assert_eq!(name_of("user.DosStream.x"), None);
        assert_eq!(name_of("user.DOSATTRIB"), None);
        assert!(super::key(&[0xff]).is_err());
        assert!(super::key(&[b'a'; 240]).is_err());
    }

    #[test]
    fn a_stream_is_an_object_of_its_own_however_it_is_spelled() {
        let file = FileId { dev: 1, ino: 2, generation: 3 };
        let (a, b) = (id(file, "user.DosStream.A:$DATA"), id(file, "user.DosStream.b:$DATA"));
        assert_eq!(a, id(file, "user.DosStream.a:$DATA"));
        assert!(a != b && a != file && b != file && a.ino == file.ino);
    }

    fn file() -> (Arc<dyn Node>, Cred) {
        let (_fs, node, cred) = on_a_file();
        (node, cred)
    }

    fn on_a_file() -> (Arc<vfs::memfs::MemFs>, Arc<dyn Node>, Cred) {
        use vfs::Backend;
        let fs = vfs::memfs::MemFs::new(vfs::memfs::ManualClock::at_secs(1));
        let cred = Cred { uid: 0, gid: 0, groups: Arc::from([]) };
        let how = vfs::OpenHow {
            access: vfs::Access::READ | vfs::Access::WRITE,
            disposition: vfs::Disposition::Create,
            kind: vfs::WantKind::File,
            follow: false,
            mode: 0o644,
        };
        let path = vfs::Path::new(b"f").unwrap();
        let opened = fs.open(&cred, &*fs.root(), &path, &how, Wait::Allowed).unwrap();
        (fs, opened.node, cred)
    }

    #[test]
    fn a_stream_is_kept_with_one_zero_behind_it() {
        let (base, cred) = file();
        let key = key(b"s").unwrap();
        make(&*base, &cred, &key).unwrap();
        assert_eq!(base.xattr(&key, 99).unwrap(), [0]);
        let stream = StreamNode::new(Arc::clone(&base), cred.clone(), key.clone());
        assert!(any_open());
        stream.write(2, b"cd", Wait::Allowed).unwrap();
        stream.write(0, b"ab", Wait::Allowed).unwrap();
        assert_eq!(base.xattr(&key, 99).unwrap(), b"abcd\0");
        let mut buf = [9; 8];
        assert_eq!(stream.read(1, &mut buf, Wait::Allowed), Ok(3));
        assert_eq!(&buf[..3], b"bcd");
        assert_eq!(stream.read(u64::MAX, &mut buf, Wait::Allowed), Ok(0));
        stream.set_attr(&cred, &SetAttr { len_bytes: Some(1), ..SetAttr::default() }).unwrap();
        assert_eq!((stream.attr().unwrap().len_bytes, base.attr().unwrap().len_bytes), (1, 0));
        assert_eq!(find(&*base, "user.DosStream.S:$DATA"), Ok(Some(key)));
        stream.rename("user.DosStream.T:$DATA".into()).unwrap();
        assert_eq!(keys(&*base).unwrap(), ["user.DosStream.T:$DATA"]);
        stream.remove().unwrap();
        assert_eq!(stream.attr().unwrap_err(), VfsError::Stale);
    }

    fn stream() -> (Arc<vfs::memfs::MemFs>, Arc<dyn Node>, Cred, Arc<StreamNode>) {
        let (fs, base, cred) = on_a_file();
        let key = key(b"s").unwrap();
        make(&*base, &cred, &key).unwrap();
        let stream = StreamNode::new(Arc::clone(&base), cred.clone(), key);
        (fs, base, cred, stream)
    }

    fn content(stream: &StreamNode) -> Vec<u8> {
        let mut content = vec![0; MOST_BYTES + 1];
        let len = stream.read(0, &mut content, Wait::Allowed).unwrap();
        content.truncate(len);
        content
    }

    /// Bytes that tell where they are.
    fn pattern(len: usize) -> Vec<u8> {
        (0..len as u32).flat_map(u32::to_le_bytes).take(len).collect()
    }

    fn further(base: &dyn Node) -> Vec<String> {
        let mut names = base.xattr_names().unwrap();
        names.retain(|name| name.starts_with(FURTHER_PREFIX));
        names
    }

    #[test]
    fn a_large_stream_goes_on_in_further_attributes_as_samba_keeps_them() {
        let (_fs, base, cred, stream) = stream();
        let data = pattern(200_000);
        stream.write(0, &data, Wait::Allowed).unwrap();
        assert!(content(&stream) == data && stream.attr().unwrap().len_bytes == 200_000);
        let value = |key: &str| base.xattr(key, 1 << 17).unwrap();
        let first = value("user.DosStream.s:$DATA");
        assert!(first[..65535] == data[..65535] && first[65535] == 3, "the last byte counts what follows");
        assert!(value("user.DosStreamExt.1.s:$DATA") == data[65535..131_071]);
        assert!(value("user.DosStreamExt.3.s:$DATA") == data[196_607..]);
        assert_eq!(keys(&*base).unwrap(), ["user.DosStream.s:$DATA"], "one stream");
        stream.write(131_000, b"across the border of two", Wait::Allowed).unwrap();
        assert_eq!(&content(&stream)[131_000..131_024], b"across the border of two");
        let shorter = |len| SetAttr { len_bytes: Some(len), ..SetAttr::default() };
        stream.set_attr(&cred, &shorter(70_000)).unwrap();
        assert!(content(&stream) == data[..70_000] && further(&*base).len() == 1);
        stream.rename(key(b"t").unwrap()).unwrap();
        assert!(content(&stream) == data[..70_000]);
        assert_eq!(further(&*base), ["user.DosStreamExt.1.t:$DATA"]);
        stream.set_attr(&cred, &shorter(65_535)).unwrap();
        assert!(content(&stream) == data[..65_535] && further(&*base).is_empty());
        stream.write(0, &pattern(MOST_BYTES), Wait::Allowed).unwrap();
        assert!(content(&stream) == pattern(MOST_BYTES) && further(&*base).len() == 15);
        remove_all(&*base, &cred).unwrap();
        assert_eq!(base.xattr_names().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn smaller_attributes_are_tried_where_large_ones_do_not_fit() {
        let (fs, base, _cred, stream) = stream();
        fs.fail_next(vfs::memfs::Op::SetXattr, VfsError::NoSpace);
        let data = pattern(100_000);
        stream.write(0, &data, Wait::Allowed).unwrap();
        assert!(content(&stream) == data && further(&*base).len() == 3, "of 32 KiB each");
    }

    #[test]
    fn a_stream_whose_end_was_never_written_is_as_long_as_it_is() {
        let (_fs, base, cred, stream) = stream();
        stream.write(0, &pattern(200_000), Wait::Allowed).unwrap();
        base.remove_xattr(&cred, "user.DosStreamExt.2.s:$DATA").unwrap();
        assert!(content(&stream) == pattern(131_071));
        base.set_xattr(&cred, "user.DosStream.s:$DATA", b"abc\xff").unwrap();
        assert_eq!(content(&stream), b"abc", "no such count is ever written");
        base.set_xattr(&cred, "user.DosStream.s:$DATA", b"").unwrap();
        assert_eq!(content(&stream), b"");
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let (fs, base, cred, stream) = stream();
        for (at, len) in [(0, MOST_BYTES + 1), (u64::MAX, 1), (MOST_BYTES as u64, 1)] {
            assert_eq!(stream.write(at, &vec![1; len], Wait::Allowed), Err(VfsError::NoSpace));
        }
        let long = SetAttr { len_bytes: Some(1 << 40), ..SetAttr::default() };
        assert_eq!(stream.set_attr(&cred, &long), Err(VfsError::NoSpace));
        assert_eq!(stream.attr().unwrap().len_bytes, 0);
        let data = pattern(100_000);
        stream.write(0, &data, Wait::Allowed).unwrap();
        let all = base.xattr_names().unwrap();
        // There is room for some of what would be written; then everything is as it was.
        fs.set_xattr_space(240_000);
        assert_eq!(stream.write(0, &vec![7; 250_000], Wait::Allowed), Err(VfsError::NoSpace));
        assert_eq!(base.xattr_names().unwrap(), all);
        assert!(content(&stream) == data);
    }
}
