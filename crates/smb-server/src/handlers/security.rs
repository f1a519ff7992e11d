//! QUERY_INFO and SET_INFO of security descriptors (MS-SMB2 3.3.5.20.3, 3.3.5.21.3): which right each part needs, and
//! who may be made an owner. What descriptors say and where they are kept is `acl`'s.

use std::sync::Arc;

use auth::Sid;
use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::fscc::AccessMask;
use smb_wire::security::{SecurityDescriptor, SecurityInfo};
use smb_wire::smb2::put_output_buffer;
use vfs::Cred;

use crate::acl;
use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::open::{FileOpen, Open};
use crate::reply::ReplyWriter;

/// Parts of the SACL that need no privilege: a label, attributes, a policy.
const OF_SACL: SecurityInfo = SecurityInfo::LABEL.union(SecurityInfo::ATTRIBUTE).union(SecurityInfo::SCOPE);

/// QUERY_INFO: the parts named in `parts`.
pub(crate) fn query(open: &Open, file: &FileOpen, parts: u32, room: u32, out: &mut ReplyWriter) -> Outcome {
    let parts = SecurityInfo::from_bits_retain(parts);
    if parts.intersects(SecurityInfo::OWNER | SecurityInfo::GROUP | SecurityInfo::DACL | OF_SACL) {
        open.require_any(AccessMask::READ_CONTROL)?;
    }
    if parts.contains(SecurityInfo::SACL) {
        open.require_any(AccessMask::ACCESS_SYSTEM_SECURITY)?;
    }
    let descriptor = acl::of(&*file.share.backend, &*file.node)?.part(parts).encode();
    if descriptor.len() > room as usize {
        return Err(Failure::buffer_too_small(descriptor.len() as u32));
    }
    put_output_buffer(descriptor.len() as u32, out);
    out.put_bytes(&descriptor);
    Ok(NtStatus::SUCCESS)
}

/// SET_INFO: changes the parts named in `parts`.
pub(crate) async fn set(request: &Request<'_>, open: &Arc<Open>, parts: u32, input: &[u8]) -> Result<(), Failure> {
    let parts = SecurityInfo::from_bits_retain(parts);
    for (part, right) in [
        (SecurityInfo::OWNER | SecurityInfo::GROUP | SecurityInfo::LABEL, AccessMask::WRITE_OWNER),
        (SecurityInfo::DACL | SecurityInfo::ATTRIBUTE, AccessMask::WRITE_DAC),
        (SecurityInfo::SACL | SecurityInfo::SCOPE, AccessMask::ACCESS_SYSTEM_SECURITY),
    ] {
        if parts.intersects(part) {
            open.require_any(right)?;
        }
    }
    let new = SecurityDescriptor::decode(input).map_err(|_| NtStatus::INVALID_SECURITY_DESCR)?;
    let now = request.conn.server.env.filetime();
    let open = Arc::clone(open);
    if let Some(change) = crate::posix::Change::of(&new, parts)
        && open.file()?.posix
    {
        return request.conn.offload(move || change.apply(open.file()?)).await.ok_or(NtStatus::INTERNAL_ERROR)?;
    }
    let job = move || change(open.file()?, parts, &new, now);
    request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?
}

fn change(file: &FileOpen, mut parts: SecurityInfo, new: &SecurityDescriptor, now: u64) -> Result<(), Failure> {
    // An owner that is named but not given stays.
    parts.set(SecurityInfo::OWNER, parts.contains(SecurityInfo::OWNER) && new.owner.is_some());
    parts.set(SecurityInfo::GROUP, parts.contains(SecurityInfo::GROUP) && new.group.is_some());
    let backend = &*file.share.backend;
    let mut descriptor = acl::of(backend, &*file.node)?;
    if parts.contains(SecurityInfo::OWNER) && new.owner != descriptor.owner {
        check_owner(&file.cred, new.owner.as_ref())?;
    }
    if parts.contains(SecurityInfo::GROUP) && new.group != descriptor.group {
        check_group(&file.cred, new.group.as_ref())?;
    }
    descriptor.change(new, parts);
    if !descriptor.fits() {
        return Err(NtStatus::INVALID_ACL.into());
    }
    Ok(acl::store(backend, &*file.node, &file.cred, &descriptor, now)?)
}

/// Only an administrator gives files away; everybody else can make themselves the owner (MS-FSA 2.1.5.17).
pub(crate) fn check_owner(cred: &Cred, owner: Option<&Sid>) -> Result<(), NtStatus> {
    let allowed = owner.is_some_and(|owner| acl::is_admin(cred) || *owner == Sid::unix_user(cred.uid));
    if allowed { Ok(()) } else { Err(NtStatus::INVALID_OWNER) }
}

pub(crate) fn check_group(cred: &Cred, group: Option<&Sid>) -> Result<(), NtStatus> {
    let own = |gid: u32| gid == cred.gid || cred.groups.contains(&gid);
    let allowed = group.is_some_and(|group| acl::is_admin(cred) || group.as_unix_group().is_some_and(own));
    if allowed { Ok(()) } else { Err(NtStatus::INVALID_PRIMARY_GROUP) }
}
