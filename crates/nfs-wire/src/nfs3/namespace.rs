//! CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME and LINK (RFC 1813 3.3.8 to 3.3.15).

use super::{Failed, FileHandle, FileType, PostOpAttr, PostOpHandle, Sattr, SpecData, WccData};
use crate::xdr::{Malformed, Put, Reader, Xdr};

/// What CREATE, MKDIR, SYMLINK and MKNOD answer; the failure carries the directory's attributes.
pub type CreateRes<'a> = Result<CreateOk<'a>, Failed<WccData>>;

/// What REMOVE and RMDIR answer: the directory's attributes.
pub type RemoveRes = Result<WccData, Failed<WccData>>;

/// What RENAME answers.
pub type RenameRes = Result<RenameWcc, Failed<RenameWcc>>;

/// What LINK answers.
pub type LinkRes = Result<LinkWcc, Failed<LinkWcc>>;

xdr_struct! {
    /// A name in a directory (`diropargs3`). The name has any length here: a server says NAMETOOLONG.
    pub struct DirOp<'a> {
        /// The directory.
        dir: FileHandle<'a>,
        /// The name.
        name: &'a [u8],
    }

    /// Arguments of CREATE.
    pub struct CreateArgs<'a> {
        /// Where.
        at: DirOp<'a>,
        /// How.
        how: CreateHow,
    }

    /// Arguments of MKDIR.
    pub struct MkdirArgs<'a> {
        /// Where.
        at: DirOp<'a>,
        /// What to set.
        attributes: Sattr,
    }

    /// Arguments of SYMLINK.
    pub struct SymlinkArgs<'a> {
        /// Where.
        at: DirOp<'a>,
        /// What to set.
        attributes: Sattr,
        /// Where it leads.
        target: &'a [u8],
    }

    /// Arguments of MKNOD.
    pub struct MknodArgs<'a> {
        /// Where.
        at: DirOp<'a>,
        /// What.
        data: MknodData,
    }

    /// Result of what creates.
    pub struct CreateOk<'a> {
        /// What was created.
        handle: PostOpHandle<'a>,
        /// Its attributes.
        attributes: PostOpAttr,
        /// The directory's attributes.
        dir_wcc: WccData,
    }

    /// Arguments of RENAME.
    pub struct RenameArgs<'a> {
        /// The old name.
        from: DirOp<'a>,
        /// The new name.
        to: DirOp<'a>,
    }

    /// The attributes of both directories of a RENAME.
    pub struct RenameWcc {
        /// The old one's.
        from_wcc: WccData,
        /// The new one's.
        to_wcc: WccData,
    }

    /// Arguments of LINK.
    pub struct LinkArgs<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// Its new name.
        link: DirOp<'a>,
    }

    /// The attributes after LINK.
    pub struct LinkWcc {
        /// The file's.
        attributes: PostOpAttr,
        /// The directory's.
        dir_wcc: WccData,
    }
}

/// How CREATE treats a file that is there (`createhow3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow {
    /// It is taken, and cut when a size is given.
    Unchecked(Sattr),
    /// It is an error.
    Guarded(Sattr),
    /// It is an error unless made with this verifier.
    Exclusive([u8; 8]),
}

impl<'a> Xdr<'a> for CreateHow {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            0 => Sattr::decode(r).map(Self::Unchecked),
            1 => Sattr::decode(r).map(Self::Guarded),
            2 => r.fixed().map(Self::Exclusive),
            _ => Err(Malformed::Value("createmode3")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Unchecked(attributes) => (0u32, *attributes).put(out),
            Self::Guarded(attributes) => (1u32, *attributes).put(out),
            Self::Exclusive(verifier) => (2u32, *verifier).put(out),
        }
    }
}

/// What MKNOD makes (`mknoddata3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MknodData {
    /// A character device.
    Character(Sattr, SpecData),
    /// A block device.
    Block(Sattr, SpecData),
    /// A socket.
    Socket(Sattr),
    /// A named pipe.
    Fifo(Sattr),
    /// A kind MKNOD does not make: BADTYPE.
    Other(FileType),
}

impl<'a> Xdr<'a> for MknodData {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match FileType::decode(r)? {
            FileType::Character => Self::Character(Sattr::decode(r)?, SpecData::decode(r)?),
            FileType::Block => Self::Block(Sattr::decode(r)?, SpecData::decode(r)?),
            FileType::Socket => Self::Socket(Sattr::decode(r)?),
            FileType::Fifo => Self::Fifo(Sattr::decode(r)?),
            other => Self::Other(other),
        })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Character(attributes, device) => (FileType::Character, (*attributes, *device)).put(out),
            Self::Block(attributes, device) => (FileType::Block, (*attributes, *device)).put(out),
            Self::Socket(attributes) => (FileType::Socket, *attributes).put(out),
            Self::Fifo(attributes) => (FileType::Fifo, *attributes).put(out),
            Self::Other(kind) => kind.put(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attr::tests::fattr;
    use super::super::{NfsStat3, SetTime};
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::Bounded;

    const AT: DirOp<'_> = DirOp { dir: Bounded(b"dir"), name: b"new" };
    const AT_TEXT: &str = "00000003 64697200 00000003 6e657700";
    const MODE: Sattr = Sattr { mode: Some(0o600), ..Sattr::NONE };
    const MODE_TEXT: &str = "00000001 00000180 00000000 00000000 00000000 00000000 00000000";

    #[test]
    fn create_by_hand() {
        for (how, text) in [
            (CreateHow::Unchecked(MODE), format!("00000000 {MODE_TEXT}")),
            (CreateHow::Guarded(MODE), format!("00000001 {MODE_TEXT}")),
            (CreateHow::Exclusive(*b"verifier"), "00000002 76657269 66696572".into()),
        ] {
            is_on_the_wire(&CreateArgs { at: AT, how }, &unhex(&format!("{AT_TEXT} {text}")));
        }
        let (attr, text) = fattr();
        let ok: CreateRes<'_> =
            Ok(CreateOk { handle: Some(Bounded(b"file")), attributes: Some(attr), dir_wcc: WccData::NONE });
        let bytes = unhex(&format!("00000000 00000001 00000004 66696c65 00000001 {text} 00000000 00000000"));
        is_on_the_wire(&ok, &bytes);
        let failed: CreateRes<'_> = Err(Failed { status: NfsStat3::EXIST, rest: WccData::NONE });
        is_on_the_wire(&failed, &unhex("00000011 00000000 00000000"));
    }

    #[test]
    fn mkdir_symlink_and_mknod_by_hand() {
        let attributes = Sattr { atime: SetTime::Server, ..MODE };
        let text = "00000001 00000180 00000000 00000000 00000000 00000001 00000000";
        is_on_the_wire(&MkdirArgs { at: AT, attributes }, &unhex(&format!("{AT_TEXT} {text}")));
        is_on_the_wire(
            &SymlinkArgs { at: AT, attributes, target: b"to" },
            &unhex(&format!("{AT_TEXT} {text} 00000002 746f0000")),
        );
        let device = SpecData { major: 1, minor: 3 };
        for (data, text) in [
            (MknodData::Character(MODE, device), format!("00000004 {MODE_TEXT} 00000001 00000003")),
            (MknodData::Block(MODE, device), format!("00000003 {MODE_TEXT} 00000001 00000003")),
            (MknodData::Socket(MODE), format!("00000006 {MODE_TEXT}")),
            (MknodData::Fifo(MODE), format!("00000007 {MODE_TEXT}")),
            (MknodData::Other(FileType::Regular), "00000001".into()),
        ] {
            is_on_the_wire(&MknodArgs { at: AT, data }, &unhex(&format!("{AT_TEXT} {text}")));
        }
    }

    #[test]
    fn rename_link_and_remove_by_hand() {
        let rename = RenameArgs { from: AT, to: DirOp { dir: Bounded(b"dir2"), name: b"x" } };
        is_on_the_wire(&rename, &unhex(&format!("{AT_TEXT} 00000004 64697232 00000001 78000000")));
        let wcc = RenameWcc { from_wcc: WccData::NONE, to_wcc: WccData::NONE };
        let failed: RenameRes = Err(Failed { status: NfsStat3::XDEV, rest: wcc });
        is_on_the_wire(&failed, &unhex("00000012 00000000 00000000 00000000 00000000"));
        is_on_the_wire(&LinkArgs { handle: Bounded(b"fh"), link: AT }, &unhex(&format!("00000002 66680000 {AT_TEXT}")));
        let ok: LinkRes = Ok(LinkWcc { attributes: None, dir_wcc: WccData::NONE });
        is_on_the_wire(&ok, &unhex("00000000 00000000 00000000 00000000"));
        let ok: RemoveRes = Ok(WccData::NONE);
        is_on_the_wire(&ok, &unhex("00000000 00000000 00000000"));
    }
}
