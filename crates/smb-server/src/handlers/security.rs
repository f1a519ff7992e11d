//! Security descriptors, computed from POSIX permissions (MS-DTYP 2.4.6): owner and group as Samba's Unix users and
//! groups, and a DACL with an entry each for owner, group and everybody. Setting one is not served yet and says so.

use auth::Sid;
use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::fscc::AccessMask;
use smb_wire::smb2::put_output_buffer;

use crate::failure::{Failure, Outcome};
use crate::open::{FileOpen, Open};
use crate::reply::ReplyWriter;

const OWNER: u32 = 1;
const GROUP: u32 = 2;
const DACL: u32 = 4;
/// SE_SELF_RELATIVE and, with a DACL, SE_DACL_PRESENT.
const SELF_RELATIVE: u16 = 0x8000;
const DACL_PRESENT: u16 = 0x0004;
const HEADER_BYTES: u32 = 20;

/// QUERY_INFO of the security descriptor: the parts named in `parts` (MS-SMB2 3.3.5.20.3).
pub(crate) fn query(open: &Open, file: &FileOpen, parts: u32, room: u32, out: &mut ReplyWriter) -> Outcome {
    if parts & (OWNER | GROUP | DACL) != 0 {
        open.require_any(AccessMask::READ_CONTROL)?;
    }
    let descriptor = describe(file, parts)?;
    if descriptor.len() > room as usize {
        return Err(Failure::buffer_too_small(descriptor.len() as u32));
    }
    put_output_buffer(descriptor.len() as u32, out);
    out.put_bytes(&descriptor);
    Ok(NtStatus::SUCCESS)
}

fn describe(file: &FileOpen, parts: u32) -> Result<Vec<u8>, Failure> {
    let attr = file.node.attr()?;
    let (owner, group) = (Sid::unix_user(attr.uid), Sid::unix_group(attr.gid));
    let mut body = Vec::new();
    let mut place = |wanted: bool, bytes: Vec<u8>| {
        if !wanted {
            return 0;
        }
        let at = HEADER_BYTES + body.len() as u32;
        body.extend(bytes);
        at
    };
    let owner_at = place(parts & OWNER != 0, owner.encode());
    let group_at = place(parts & GROUP != 0, group.encode());
    let acl = dacl(attr.mode, attr.kind == vfs::FileKind::Directory, &owner, &group);
    let dacl_at = place(parts & DACL != 0, acl);
    let mut descriptor = vec![1, 0];
    descriptor.put_u16(SELF_RELATIVE | if parts & DACL != 0 { DACL_PRESENT } else { 0 });
    for at in [owner_at, group_at, 0, dacl_at] {
        descriptor.put_u32(at);
    }
    descriptor.extend(body);
    Ok(descriptor)
}

fn dacl(mode: u32, directory: bool, owner: &Sid, group: &Sid) -> Vec<u8> {
    let entries = [
        (owner, rights(mode >> 6, directory) | OWNERS),
        (group, rights(mode >> 3, directory)),
        (&Sid::everyone(), rights(mode, directory)),
    ];
    let aces: Vec<u8> = entries.iter().flat_map(|(sid, mask)| ace(sid, *mask)).collect();
    let mut acl = vec![2, 0];
    acl.put_u16(8 + aces.len() as u16);
    acl.put_u16(entries.len() as u16);
    acl.put_u16(0);
    acl.extend(aces);
    acl
}

/// What an owner can always do.
const OWNERS: AccessMask =
    AccessMask::WRITE_DAC.union(AccessMask::WRITE_OWNER).union(AccessMask::FILE_WRITE_ATTRIBUTES);

/// The rights behind one octal digit.
fn rights(digit: u32, directory: bool) -> AccessMask {
    let map = AccessMask::FILE_MAPPING;
    if digit & 7 == 7 {
        return map.all;
    }
    let mut mask = AccessMask::empty();
    if digit & 4 != 0 {
        mask |= map.read;
    }
    if digit & 2 != 0 {
        mask |= map.write;
        if directory {
            mask |= AccessMask::FILE_DELETE_CHILD;
        }
    }
    if digit & 1 != 0 {
        mask |= map.execute;
    }
    // Everybody who reaches a file sees its attributes and permissions.
    mask | AccessMask::FILE_READ_ATTRIBUTES | AccessMask::READ_CONTROL | AccessMask::SYNCHRONIZE
}

/// ACCESS_ALLOWED_ACE (MS-DTYP 2.4.4.2), not inherited.
fn ace(sid: &Sid, mask: AccessMask) -> Vec<u8> {
    let sid = sid.encode();
    let mut ace = vec![0, 0];
    ace.put_u16(8 + sid.len() as u16);
    ace.put_u32(mask.bits());
    ace.extend(sid);
    ace
}
