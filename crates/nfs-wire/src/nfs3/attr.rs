//! What the procedures of NFSv3 share (RFC 1813 2.5, 2.6): handles, attributes, and the attributes before and after an
//! operation by which a client keeps its cache.

use super::{MAX_HANDLE_BYTES, NfsStat3};
use crate::xdr::{Bounded, Malformed, Put, Reader, Xdr};

/// A file, as the server names it.
pub type FileHandle<'a> = Bounded<'a, MAX_HANDLE_BYTES>;

/// Attributes after an operation, where they could be had.
pub type PostOpAttr = Option<Fattr>;

/// The handle of what was created, where it could be had.
pub type PostOpHandle<'a> = Option<FileHandle<'a>>;

xdr_enum! {
    /// What kind of file (`ftype3`).
    pub enum FileType {
        /// A regular file.
        Regular = 1,
        /// A directory.
        Directory = 2,
        /// A block device.
        Block = 3,
        /// A character device.
        Character = 4,
        /// A symbolic link.
        Symlink = 5,
        /// A socket.
        Socket = 6,
        /// A named pipe.
        Fifo = 7,
    }
}

xdr_struct! {
    /// Time since 1970 (`nfstime3`).
    pub struct Time {
        /// Seconds.
        seconds: u32,
        /// Nanoseconds; a peer may send more than a second of them.
        nanoseconds: u32,
    }

    /// A device's numbers (`specdata3`).
    pub struct SpecData {
        /// Major.
        major: u32,
        /// Minor.
        minor: u32,
    }

    /// Attributes before an operation (`wcc_attr`).
    pub struct WccAttr {
        /// Bytes in the file.
        size_bytes: u64,
        /// Last written.
        mtime: Time,
        /// Last changed in any way.
        ctime: Time,
    }

    /// Attributes before and after an operation (`wcc_data`).
    pub struct WccData {
        /// Before, where it could be had in one with the operation.
        before: Option<WccAttr>,
        /// After.
        after: PostOpAttr,
    }

    /// Attributes to be set (`sattr3`).
    pub struct Sattr {
        /// Permission bits.
        mode: Option<u32>,
        /// Owner.
        uid: Option<u32>,
        /// Group.
        gid: Option<u32>,
        /// Size.
        size_bytes: Option<u64>,
        /// Last read.
        atime: SetTime,
        /// Last written.
        mtime: SetTime,
    }
}

/// The attributes of a file (`fattr3`): 84 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fattr {
    /// Kind.
    pub file_type: FileType,
    /// Permission bits with set-uid, set-gid and sticky.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes in the file.
    pub size_bytes: u64,
    /// Bytes on the disk.
    pub used_bytes: u64,
    /// For a device.
    pub rdev: SpecData,
    /// Which file system.
    pub fsid: u64,
    /// Which file in it.
    pub fileid: u64,
    /// Last read.
    pub atime: Time,
    /// Last written.
    pub mtime: Time,
    /// Last changed in any way.
    pub ctime: Time,
}

/// Bytes of a `fattr3`.
const FATTR_BYTES: usize = 84;

/// Nearly every result has one, a listing one for each entry: it is put together first and then appended in one piece.
impl<'a> Xdr<'a> for Fattr {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            file_type: Xdr::decode(r)?,
            mode: Xdr::decode(r)?,
            nlink: Xdr::decode(r)?,
            uid: Xdr::decode(r)?,
            gid: Xdr::decode(r)?,
            size_bytes: Xdr::decode(r)?,
            used_bytes: Xdr::decode(r)?,
            rdev: Xdr::decode(r)?,
            fsid: Xdr::decode(r)?,
            fileid: Xdr::decode(r)?,
            atime: Xdr::decode(r)?,
            mtime: Xdr::decode(r)?,
            ctime: Xdr::decode(r)?,
        })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        let long = |value: u64| [(value >> 32) as u32, value as u32];
        let time = |time: Time| [time.seconds, time.nanoseconds];
        let [size, used, fsid, fileid] = [self.size_bytes, self.used_bytes, self.fsid, self.fileid].map(long);
        let [atime, mtime, ctime] = [self.atime, self.mtime, self.ctime].map(time);
        let head = [self.file_type as u32, self.mode, self.nlink, self.uid, self.gid];
        let pairs = [size, used, [self.rdev.major, self.rdev.minor], fsid, fileid, atime, mtime, ctime];
        let mut bytes = [0; FATTR_BYTES];
        let words = head.iter().chain(pairs.as_flattened());
        for (room, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *room = word.to_be_bytes();
        }
        out.put_bytes(&bytes);
    }
}

impl WccData {
    /// Nothing is known.
    pub const NONE: Self = Self { before: None, after: None };
}

impl Sattr {
    /// Nothing is set.
    pub const NONE: Self =
        Self { mode: None, uid: None, gid: None, size_bytes: None, atime: SetTime::Keep, mtime: SetTime::Keep };
}

impl Fattr {
    /// The part that goes into [`WccData::before`].
    pub fn wcc(&self) -> WccAttr {
        WccAttr { size_bytes: self.size_bytes, mtime: self.mtime, ctime: self.ctime }
    }
}

/// What becomes of a time (`set_atime`, `set_mtime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// It stays.
    Keep,
    /// The server's present time.
    Server,
    /// This.
    Client(Time),
}

impl<'a> Xdr<'a> for SetTime {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            0 => Ok(Self::Keep),
            1 => Ok(Self::Server),
            2 => Time::decode(r).map(Self::Client),
            _ => Err(Malformed::Value("time_how")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Keep => out.put_u32(0),
            Self::Server => out.put_u32(1),
            Self::Client(time) => {
                out.put_u32(2);
                time.put(out);
            }
        }
    }
}

/// A failure with what the RFC sends along with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed<T> {
    /// Why; never [`NfsStat3::OK`].
    pub status: NfsStat3,
    /// The attributes that are sent all the same.
    pub rest: T,
}

impl<'a, T: Xdr<'a>, F: Xdr<'a>> Xdr<'a> for Result<T, Failed<F>> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match NfsStat3::decode(r)? {
            NfsStat3::OK => T::decode(r).map(Ok),
            status => Ok(Err(Failed { status, rest: F::decode(r)? })),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Ok(item) => {
                NfsStat3::OK.put(out);
                item.put(out);
            }
            Err(failed) => {
                // A failure that says it is none would make the peer read results that are not there.
                let ok = failed.status == NfsStat3::OK;
                if ok { NfsStat3::SERVERFAULT } else { failed.status }.put(out);
                failed.rest.put(out);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::{decode_all, to_vec};

    /// Attributes with a different value in every field, and what they are on the wire.
    pub fn fattr() -> (Fattr, String) {
        let time = |n| Time { seconds: n, nanoseconds: n + 1 };
        let attr = Fattr {
            file_type: FileType::Directory,
            mode: 0o755,
            nlink: 3,
            uid: 1000,
            gid: 100,
            size_bytes: 4096,
            used_bytes: 8192,
            rdev: SpecData { major: 8, minor: 1 },
            fsid: 0x11,
            fileid: 0x22,
            atime: time(0x10),
            mtime: time(0x20),
            ctime: time(0x30),
        };
        let text = "00000002 000001ed 00000003 000003e8 00000064 00000000 00001000 00000000 00002000 00000008 00000001 \
                    00000000 00000011 00000000 00000022 00000010 00000011 00000020 00000021 00000030 00000031";
        (attr, text.into())
    }

    #[test]
    fn attributes_by_hand() {
        let (attr, text) = fattr();
        is_on_the_wire(&attr, &unhex(&text));
        assert_eq!(unhex(&text).len(), 84);
        let wcc = "00000000 00001000 00000020 00000021 00000030 00000031";
        is_on_the_wire(&attr.wcc(), &unhex(wcc));
        is_on_the_wire(
            &WccData { before: Some(attr.wcc()), after: Some(attr) },
            &unhex(&format!("00000001 {wcc} 00000001 {text}")),
        );
        is_on_the_wire(&WccData::NONE, &[0; 8]);
    }

    #[test]
    fn attributes_to_set_by_hand() {
        is_on_the_wire(&Sattr::NONE, &[0; 24]);
        let sattr = Sattr {
            mode: Some(0o644),
            gid: Some(5),
            size_bytes: Some(1 << 32),
            atime: SetTime::Server,
            mtime: SetTime::Client(Time { seconds: 9, nanoseconds: 1_000_000_000 }),
            ..Sattr::NONE
        };
        is_on_the_wire(
            &sattr,
            &unhex(
                "00000001 000001a4 00000000 00000001 00000005 00000001 00000001 00000000 00000001 00000002
                 00000009 3b9aca00",
            ),
        );
        assert_eq!(decode_all::<SetTime>(&[0, 0, 0, 3]), Err(Malformed::Value("time_how")));
    }

    #[test]
    fn a_failure_is_never_sent_as_a_success() {
        let failed: Result<u32, Failed<PostOpAttr>> = Err(Failed { status: NfsStat3::OK, rest: None });
        assert_eq!(to_vec(&failed), unhex("00002716 00000000"));
    }

    #[test]
    fn a_handle_has_64_bytes_at_most() {
        let bytes = to_vec(&&[1u8; 65][..]);
        assert_eq!(decode_all::<FileHandle<'_>>(&bytes), Err(Malformed::TooLong));
        assert!(decode_all::<FileHandle<'_>>(&to_vec(&&[1u8; 64][..])).is_ok());
    }
}
