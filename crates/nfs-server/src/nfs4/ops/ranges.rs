//! What 4.2 does with ranges of files (RFC 7862 15): ALLOCATE, DEALLOCATE, SEEK, READ_PLUS, COPY, CLONE, IO_ADVISE.

use std::sync::Arc;

use coherence::AccessKinds;
use nfs_wire::nfs4::{
    AllocateArgs, Bitmap, CloneArgs, CopyArgs, CopyError, CopyOk, CopyRequirements, CopyRes, IoAdviseArgs, NfsStat4,
    ReadArgs, ReadPlusWriter, SEEK_DATA, SEEK_HOLE, SeekArgs, SeekOk, StableHow, Stateid, WriteResponse,
};
use vfs::{Attr, VfsError};

use super::io::{Ranged, no_wait, regular};
use crate::attr::MAX_FILE_BYTES;
use crate::files::Target;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, Stop, answer, answer_with};
use crate::nfs4::fh::{Fh, attr_of};
use crate::nfs4::guard;
use crate::reply::ReplyWriter;

/// The most a synchronous COPY does in one go, so that no call takes for ever; the client asks for the rest.
const MOST_COPIED_BYTES: u64 = 256 << 20;
/// Bytes of a READ_PLUS segment besides its data.
const SEGMENT_BYTES: usize = 24;
/// The most segments of one READ_PLUS.
const MOST_SEGMENTS: usize = 64;

fn end_of(offset: u64, len: u64) -> Done<u64> {
    let end = offset.checked_add(len).ok_or(NfsStat4::INVAL)?;
    if end > MAX_FILE_BYTES { Err(NfsStat4::FBIG.into()) } else { Ok(end) }
}

pub fn allocate(c: &mut Compound, args: &AllocateArgs, out: &mut ReplyWriter) -> Answer {
    change_range(c, args, |file| file.node.allocate(args.offset_bytes, args.len_bytes, true))?;
    answer(Ok(()), out)
}

/// DEALLOCATE: what lies past the end of the file stays as it is.
pub fn deallocate(c: &mut Compound, args: &AllocateArgs, out: &mut ReplyWriter) -> Answer {
    change_range(c, args, |file| {
        let end = args.offset_bytes.saturating_add(args.len_bytes).min(file.attr.len_bytes);
        match end.checked_sub(args.offset_bytes) {
            None | Some(0) => Ok(()),
            Some(len) => file.node.zero_range(args.offset_bytes, len, true),
        }
    })?;
    answer(Ok(()), out)
}

fn change_range(c: &Compound, args: &AllocateArgs, work: impl FnOnce(&Ranged) -> vfs::VfsResult<()>) -> Done<()> {
    let (target, attr) = regular(c)?;
    guard::may_change(target)?;
    if args.len_bytes == 0 {
        return Err(NfsStat4::INVAL.into());
    }
    end_of(args.offset_bytes, args.len_bytes)?;
    c.must_wait()?;
    let range = (args.offset_bytes, args.len_bytes);
    let file = Ranged::open(c, (target, attr), &args.stateid, AccessKinds::WRITE, range)?;
    let done = work(&file);
    file.io.written(c);
    done.map_err(no_wait)
}

pub fn seek(c: &mut Compound, args: &SeekArgs, out: &mut ReplyWriter) -> Answer {
    let (target, attr) = regular(c)?;
    if !matches!(args.what, SEEK_DATA | SEEK_HOLE) {
        return Err(NfsStat4::UNION_NOTSUPP.into());
    }
    c.must_wait()?;
    let file = Ranged::open(c, (target, attr), &args.stateid, AccessKinds::READ, (args.offset_bytes, 0))?;
    let len = file.attr.len_bytes;
    if args.offset_bytes >= len {
        return Err(NfsStat4::NXIO.into());
    }
    let data = file.node.next_data(args.offset_bytes)?;
    let found = match (args.what, data) {
        (SEEK_DATA, Some(data)) => SeekOk { eof: false, offset_bytes: data.start },
        (SEEK_DATA, None) => SeekOk { eof: true, offset_bytes: len },
        // The end of the file counts as a hole.
        (_, Some(data)) if data.start <= args.offset_bytes => SeekOk { eof: data.end >= len, offset_bytes: data.end },
        _ => SeekOk { eof: false, offset_bytes: args.offset_bytes },
    };
    answer(Ok(found), out)
}

/// READ_PLUS: the file's data and holes from an offset on.
pub fn read_plus(c: &mut Compound, args: &ReadArgs, out: &mut ReplyWriter) -> Answer {
    let (target, attr) = regular(c)?;
    // Where the holes are may be on the disk; a file as large as its space is taken to have none.
    let dense = attr.allocated_bytes >= attr.len_bytes;
    if !dense {
        c.must_wait()?;
    }
    let most = c.cx.server.settings.load().config.max_read_bytes;
    let offset = args.offset_bytes.min(MAX_FILE_BYTES);
    let asked = u64::from(args.count_bytes.min(most));
    let file = Ranged::open(c, (target, attr), &args.stateid, AccessKinds::READ, (offset, asked))?;
    let end = file.attr.len_bytes.min(offset.saturating_add(asked));
    let room = c.room_left(out);
    if room < SEGMENT_BYTES {
        return Err(c.too_big().into());
    }
    let mut writer = ReadPlusWriter::begin(out);
    let at = segments(c, &file, (offset, end), dense, room, &mut writer, out)?;
    writer.end(at >= file.attr.len_bytes, out);
    c.tally.read_copy += 1;
    c.tally.read_bytes += at.saturating_sub(offset);
    Ok(NfsStat4::OK)
}

/// Appends segments up to `end`, or as far as they have room; answers how far. Of a dense file all is data, without asking:
/// a server may send a hole as zeros (RFC 7862 15.10.3).
fn segments(
    c: &Compound,
    file: &Ranged,
    (mut at, end): (u64, u64),
    dense: bool,
    mut room: usize,
    writer: &mut ReadPlusWriter,
    out: &mut ReplyWriter,
) -> Done<u64> {
    for _ in 0..MOST_SEGMENTS {
        if at >= end || room <= SEGMENT_BYTES {
            break;
        }
        room -= SEGMENT_BYTES;
        let data = if dense { at..end } else { file.node.next_data(at)?.unwrap_or(end..end) };
        let (start, stop) = (data.start.clamp(at, end), data.end.min(end));
        if start > at {
            writer.hole(at, start - at, out);
            at = start;
            continue;
        }
        let len = (stop - at).min(room as u64) as usize;
        let mark = writer.begin_data(at, out);
        let count = file.node.read(at, out.room(len), c.cx.wait)?;
        out.advance(count);
        nfs_wire::xdr::Put::end_opaque(out, mark);
        at += count as u64;
        room -= len;
        if count < len {
            break;
        }
    }
    Ok(at)
}

pub fn io_advise(c: &mut Compound, args: &IoAdviseArgs, out: &mut ReplyWriter) -> Answer {
    let (_, attr) = regular(c)?;
    c.cx.server.state.check_io(c, &args.stateid, attr.id, AccessKinds::empty())?;
    // No hint is acted on, which is said by naming none.
    answer(Ok(Bitmap::EMPTY), out)
}

/// Two files between which bytes go, the saved and the current one.
struct Pair {
    from: Ranged,
    to: Ranged,
    count: u64,
}

struct PairArgs {
    src: Stateid,
    dst: Stateid,
    from: u64,
    to: u64,
    count: u64,
}

impl Pair {
    fn open(c: &Compound, args: &PairArgs) -> Done<Self> {
        let (to, to_attr) = regular(c)?;
        let (from, from_attr) = source(c)?;
        guard::may_change(to)?;
        if !Arc::ptr_eq(&from.object.export, &to.object.export) {
            return Err(NfsStat4::XDEV.into());
        }
        let left = from_attr.len_bytes.checked_sub(args.from).ok_or(NfsStat4::INVAL)?;
        // 0 means all that follows (RFC 7862 15.2.3, 15.13.3).
        let count = if args.count == 0 { left } else { args.count };
        if count > left {
            return Err(NfsStat4::INVAL.into());
        }
        end_of(args.to, count)?;
        // The saved stateid is current to the source (RFC 7862 15.2.3).
        let src = if c.minor > 0 && args.src == Stateid::CURRENT {
            c.saved_stateid.ok_or(NfsStat4::BAD_STATEID)?
        } else {
            args.src
        };
        let from = Ranged::open(c, (from, from_attr), &src, AccessKinds::READ, (args.from, count))?;
        let to = Ranged::open(c, (to, to_attr), &args.dst, AccessKinds::WRITE, (args.to, count))?;
        Ok(Self { from, to, count })
    }
}

fn source(c: &Compound) -> Done<(&Target, Attr)> {
    let Fh::Real(target) = c.saved()? else { return Err(NfsStat4::ISDIR.into()) };
    let attr = attr_of(&c.cx, target)?;
    match attr.kind {
        vfs::FileKind::File => Ok((target, attr)),
        vfs::FileKind::Directory => Err(NfsStat4::ISDIR.into()),
        vfs::FileKind::Symlink => Err(NfsStat4::SYMLINK.into()),
        _ => Err(NfsStat4::WRONG_TYPE.into()),
    }
}

pub fn copy(c: &mut Compound, args: &CopyArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let result: CopyRes = match copied(c, args) {
        Ok(ok) => Ok(ok),
        Err(Stop::WouldBlock) => return Err(Stop::WouldBlock),
        Err(Stop::Status(status)) => Err(CopyError::Status(status)),
    };
    let status = match &result {
        Ok(_) => NfsStat4::OK,
        Err(CopyError::Status(status)) => *status,
        Err(CopyError::NoReqs(_)) => NfsStat4::OFFLOAD_NO_REQS,
    };
    answer_with(status, &result, out)
}

/// Copies while the caller waits, whatever it asked for (RFC 7862 15.2.3: a server may).
fn copied(c: &Compound, args: &CopyArgs<'_>) -> Done<CopyOk> {
    regular(c)?;
    c.saved()?;
    if !args.source_servers.is_empty() {
        return Err(NfsStat4::NOTSUPP.into());
    }
    c.must_wait()?;
    let (from, to) = (args.src_offset_bytes, args.dst_offset_bytes);
    let pair =
        Pair::open(c, &PairArgs { src: args.src_stateid, dst: args.dst_stateid, from, to, count: args.count_bytes })?;
    let verifier = c.cx.server.write_verifier();
    let len = pair.count.min(MOST_COPIED_BYTES);
    let done = pair.from.node.copy_range(from, &*pair.to.node, to, len);
    pair.to.io.written(c);
    let count_bytes = done.map_err(no_wait)?;
    let response = WriteResponse { callback_id: None, count_bytes, committed: StableHow::Unstable, verifier };
    Ok(CopyOk { response, requirements: CopyRequirements { consecutive: true, synchronous: true } })
}

pub fn clone(c: &mut Compound, args: &CloneArgs, out: &mut ReplyWriter) -> Answer {
    regular(c)?;
    c.saved()?;
    c.must_wait()?;
    let (from, to) = (args.src_offset_bytes, args.dst_offset_bytes);
    let pair =
        Pair::open(c, &PairArgs { src: args.src_stateid, dst: args.dst_stateid, from, to, count: args.count_bytes })?;
    let done = pair.from.node.clone_range(from, &*pair.to.node, to, pair.count);
    pair.to.io.written(c);
    match done {
        Err(VfsError::NotSupported) => Err(NfsStat4::NOTSUPP.into()),
        done => answer(done.map_err(no_wait), out),
    }
}
