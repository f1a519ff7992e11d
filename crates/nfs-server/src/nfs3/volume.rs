//! FSSTAT, FSINFO and PATHCONF (RFC 1813 3.3.18 to 3.3.20).

use nfs_wire::nfs3::{FileHandle, FsProperties, FsinfoOk, FsstatOk, PathconfOk, Time};
use nfs_wire::xdr::{Reader, Xdr};
use vfs::{Capabilities, Wait};

use super::answer;
use crate::attr::{MAX_FILE_BYTES, fattr};
use crate::failure::{Done, Halt, Stop};
use crate::files::{Cx, Target};
use crate::reply::ReplyWriter;

/// The preferred READDIR: what one turn of a listing gives without keeping others waiting.
const READDIR_BYTES: u32 = 64 << 10;
/// What every file system of Linux that has hard links takes.
const MAX_LINKS: u32 = 32_000;

pub fn fsstat(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let handle = FileHandle::decode(args)?;
    let done = cx.target_at_mount(&handle).and_then(|target| {
        let attributes = attributes(cx, &target)?;
        let backend = &target.object.export.backend;
        if backend.capabilities().contains(Capabilities::QUOTA) && cx.wait == Wait::Never {
            return Err(Stop::WouldBlock);
        }
        let stat = backend.fs_stat_for(&target.cred)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.block_bytes.into());
        Ok(FsstatOk {
            attributes,
            total_bytes: bytes(stat.total_blocks),
            free_bytes: bytes(stat.free_blocks),
            available_bytes: bytes(stat.available_blocks),
            total_files: stat.total_files,
            free_files: stat.free_files,
            available_files: stat.free_files,
            invariant_seconds: 0,
        })
    });
    answer(done, || cx.attr_if_known(&handle), out)
}

pub fn fsinfo(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let handle = FileHandle::decode(args)?;
    let done = cx.target_at_mount(&handle).and_then(|target| {
        let settings = cx.server.settings.load();
        let (read, write) = (settings.config.max_read_bytes, settings.config.max_write_bytes);
        Ok(FsinfoOk {
            attributes: attributes(cx, &target)?,
            read_max_bytes: read,
            read_preferred_bytes: read,
            read_multiple_bytes: 4096,
            write_max_bytes: write,
            write_preferred_bytes: write,
            write_multiple_bytes: 4096,
            readdir_preferred_bytes: READDIR_BYTES,
            max_file_bytes: MAX_FILE_BYTES,
            time_delta: Time { seconds: 0, nanoseconds: 1 },
            properties: FsProperties::LINK
                | FsProperties::SYMLINK
                | FsProperties::HOMOGENEOUS
                | FsProperties::CAN_SET_TIME,
        })
    });
    answer(done, || cx.attr_if_known(&handle), out)
}

pub fn pathconf(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let handle = FileHandle::decode(args)?;
    let done = cx.target(&handle).and_then(|target| {
        Ok(PathconfOk {
            attributes: attributes(cx, &target)?,
            max_links: MAX_LINKS,
            max_name_bytes: target.object.export.backend.fs_stat()?.name_max,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        })
    });
    answer(done, || cx.attr_if_known(&handle), out)
}

fn attributes(cx: &Cx, target: &Target) -> Done<nfs_wire::nfs3::PostOpAttr> {
    Ok(Some(fattr(&target.object.export, &target.attr(cx)?)))
}
