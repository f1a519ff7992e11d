//! What the operations of NFSv4 share (RFC 7530 2, RFC 8881 3): handles, stateids, owners, times. Names and other text
//! are bytes here; whether they are UTF-8 is asked by who uses them.

use super::attr::Fattr;
use crate::xdr::{Bounded, List, Malformed, Put, Reader, Xdr};

/// The longest opaque id or owner (`NFS4_OPAQUE_LIMIT`).
pub const OPAQUE_LIMIT: usize = 1024;

/// A file, as the server names it.
pub type FileHandle<'a> = Bounded<'a, 128>;

/// What a client or a server gives to recognise it by.
pub type OpaqueId<'a> = Bounded<'a, OPAQUE_LIMIT>;

/// One name (`component4`); any length travels, a server says NAMETOOLONG.
pub type Component<'a> = &'a [u8];

/// A path (`pathname4`).
pub type Pathname<'a> = List<'a, Component<'a>>;

/// A client id.
pub type ClientId = u64;

/// A session id.
pub type SessionId = [u8; 16];

/// A verifier.
pub type Verifier = [u8; 8];

xdr_enum! {
    /// What kind of file (`nfs_ftype4`).
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
        /// A directory of named attributes.
        AttrDir = 8,
        /// A named attribute.
        NamedAttr = 9,
    }
}

xdr_struct! {
    /// Time since 1970 (`nfstime4`).
    pub struct Time {
        /// Seconds.
        seconds: i64,
        /// Nanoseconds; a peer may send more than a second of them.
        nanoseconds: u32,
    }

    /// Which file system.
    pub struct Fsid {
        /// One half.
        major: u64,
        /// The other.
        minor: u64,
    }

    /// A device's numbers (`specdata4`).
    pub struct SpecData {
        /// Major.
        major: u32,
        /// Minor.
        minor: u32,
    }

    /// The change attribute of a directory around an operation (`change_info4`).
    pub struct ChangeInfo {
        /// Whether nothing can have happened in between.
        atomic: bool,
        /// Before.
        before: u64,
        /// After.
        after: u64,
    }

    /// An open owner or lock owner (`state_owner4`).
    pub struct StateOwner<'a> {
        /// Whose; of no meaning in 4.1.
        client_id: ClientId,
        /// Who.
        owner: OpaqueId<'a>,
    }

    /// A network address (`netaddr4`, RFC 5665).
    pub struct NetAddr<'a> {
        /// `tcp`, `tcp6`.
        netid: &'a [u8],
        /// Universal address.
        address: &'a [u8],
    }

    /// Who made an implementation (`nfs_impl_id4`).
    pub struct ImplId<'a> {
        /// A DNS domain.
        domain: &'a [u8],
        /// Product and version.
        name: &'a [u8],
        /// When it was built.
        date: Time,
    }
}

/// A claim on a file and its generation (`stateid4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stateid {
    /// Which generation; 0 in a 4.1 request for the newest.
    pub seqid: u32,
    /// Which claim.
    pub other: [u8; 12],
}

impl Stateid {
    /// Nobody's (RFC 8881 8.2.3).
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// A READ with it passes over locks.
    pub const BYPASS: Self = Self { seqid: u32::MAX, other: [0xff; 12] };
    /// 4.1: the one the compound made last.
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// 4.1: never a claim.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };
}

impl<'a> Xdr<'a> for Stateid {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { seqid: r.u32()?, other: r.fixed()? })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u32(self.seqid);
        out.put_fixed(&self.other);
    }
}

/// What becomes of a time (`settime4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The server's present time.
    Server,
    /// This.
    Client(Time),
}

impl<'a> Xdr<'a> for SetTime {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            0 => Ok(Self::Server),
            1 => Time::decode(r).map(Self::Client),
            _ => Err(Malformed::Value("time_how4")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Server => out.put_u32(0),
            Self::Client(time) => (1u32, *time).put(out),
        }
    }
}

/// What CREATE makes (`createtype4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateType<'a> {
    /// A symbolic link to this.
    Symlink(&'a [u8]),
    /// A block device.
    Block(SpecData),
    /// A character device.
    Character(SpecData),
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
    /// A directory.
    Directory,
    /// Anything else, with its number: BADTYPE.
    Other(u32),
}

impl<'a> Xdr<'a> for CreateType<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let number = r.u32()?;
        Ok(match FileType::from_u32(number) {
            Some(FileType::Symlink) => Self::Symlink(Xdr::decode(r)?),
            Some(FileType::Block) => Self::Block(Xdr::decode(r)?),
            Some(FileType::Character) => Self::Character(Xdr::decode(r)?),
            Some(FileType::Socket) => Self::Socket,
            Some(FileType::Fifo) => Self::Fifo,
            Some(FileType::Directory) => Self::Directory,
            _ => Self::Other(number),
        })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Symlink(target) => (FileType::Symlink, *target).put(out),
            Self::Block(device) => (FileType::Block, *device).put(out),
            Self::Character(device) => (FileType::Character, *device).put(out),
            Self::Socket => FileType::Socket.put(out),
            Self::Fifo => FileType::Fifo.put(out),
            Self::Directory => FileType::Directory.put(out),
            Self::Other(number) => out.put_u32(*number),
        }
    }
}

xdr_struct! {
    /// Arguments of CREATE (RFC 8881 18.4).
    pub struct CreateArgs<'a> {
        /// What.
        object: CreateType<'a>,
        /// Its name.
        name: Component<'a>,
        /// What to set.
        attributes: Fattr<'a>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::{decode_all, to_vec};

    #[test]
    fn stateids_and_owners_by_hand() {
        let stateid = Stateid { seqid: 2, other: *b"0123456789ab" };
        is_on_the_wire(&stateid, &unhex("00000002 30313233 34353637 38396162"));
        is_on_the_wire(&Stateid::BYPASS, &[0xff; 16]);
        let owner = StateOwner { client_id: 7, owner: Bounded(b"abcde") };
        is_on_the_wire(&owner, &unhex("00000000 00000007 00000005 61626364 65000000"));
        let long = to_vec(&(0u64, &[0u8; 1025][..]));
        assert_eq!(decode_all::<StateOwner<'_>>(&long), Err(Malformed::TooLong));
        assert!(decode_all::<StateOwner<'_>>(&to_vec(&(0u64, &[0u8; 1024][..]))).is_ok());
        assert_eq!(decode_all::<FileHandle<'_>>(&to_vec(&&[0u8; 129][..])), Err(Malformed::TooLong));
    }

    #[test]
    fn times_by_hand() {
        let time = Time { seconds: -1, nanoseconds: 5 };
        is_on_the_wire(&SetTime::Client(time), &unhex("00000001 ffffffff ffffffff 00000005"));
        is_on_the_wire(&SetTime::Server, &[0; 4]);
        is_on_the_wire(
            &ChangeInfo { atomic: true, before: 1, after: 2 },
            &unhex("00000001 00000000 00000001 00000000 00000002"),
        );
    }

    #[test]
    fn what_create_makes_by_hand() {
        let device = SpecData { major: 8, minor: 1 };
        for (object, text) in [
            (CreateType::Symlink(b"ab"), "00000005 00000002 61620000"),
            (CreateType::Block(device), "00000003 00000008 00000001"),
            (CreateType::Character(device), "00000004 00000008 00000001"),
            (CreateType::Socket, "00000006"),
            (CreateType::Fifo, "00000007"),
            (CreateType::Directory, "00000002"),
            (CreateType::Other(1), "00000001"),
            (CreateType::Other(77), "0000004d"),
        ] {
            is_on_the_wire(&object, &unhex(text));
            let args = CreateArgs { object, name: b"n", attributes: Fattr::NONE };
            is_on_the_wire(&args, &unhex(&format!("{text} 00000001 6e000000 00000000 00000000")));
        }
    }
}
