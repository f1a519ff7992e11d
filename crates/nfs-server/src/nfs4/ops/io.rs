//! READ, WRITE and COMMIT (RFC 8881 18.22, 18.32, 18.3): the data path of NFSv3's, behind stateids. Pages move to the
//! socket where a READ is the last operation of its compound, else one copy into the reply; a WRITE is written from the
//! record it came in.

use std::sync::Arc;

use coherence::AccessKinds;
use nfs_wire::nfs4::{
    CommitArgs, NfsStat4, ReadArgs, ReadPlace, StableHow, Stateid, WriteArgs, WriteOk, put_read_head,
};
use vfs::{Access, Attr, FileKind, Node, PagePipe, Sync, VfsError, Wait};

use crate::attr::MAX_FILE_BYTES;
use crate::files::Target;
use crate::nfs3::write::drop_set_ids;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, Stop, answer};
use crate::nfs4::fh::attr_of;
use crate::nfs4::guard::{self, Io};
use crate::reply::ReplyWriter;

/// Bytes of a READ result before the data.
const HEAD_BYTES: usize = 12;
/// Bytes of a READ result besides the data.
const OVERHEAD_BYTES: usize = HEAD_BYTES + 3;

/// The current file, which must be a regular one (RFC 8881 18.22.3; 4.0 has one word for all that are no directories).
pub fn regular(c: &Compound) -> Done<(&Target, Attr)> {
    let target = c.target_or(NfsStat4::ISDIR)?;
    let attr = match &c.seen {
        Some((object, attr)) if Arc::ptr_eq(object, &target.object) => *attr,
        _ => attr_of(&c.cx, target)?,
    };
    match attr.kind {
        FileKind::File => Ok((target, attr)),
        FileKind::Directory => Err(NfsStat4::ISDIR.into()),
        FileKind::Symlink => Err(NfsStat4::SYMLINK.into()),
        _ if c.minor == 0 => Err(NfsStat4::INVAL.into()),
        _ => Err(NfsStat4::WRONG_TYPE.into()),
    }
}

/// A file opened for an operation on a range of it.
pub struct Ranged {
    pub attr: Attr,
    pub node: Arc<dyn Node>,
    pub io: Io,
}

impl Ranged {
    /// Asks state and table about the range, and opens the file.
    pub fn open(
        c: &Compound,
        (target, attr): (&Target, Attr),
        stateid: &Stateid,
        kind: AccessKinds,
        (offset, len): (u64, u64),
    ) -> Done<Self> {
        let right = c.cx.server.state.check_io(c, stateid, attr.id, kind)?;
        let io = Io::begin(c, right, attr.id, kind, offset, len)?;
        let access = if kind == AccessKinds::READ { Access::READ } else { Access::WRITE };
        let node = guard::open(c, target, &io, access, &attr)?;
        Ok(Self { attr, node, io })
    }
}

pub fn read(c: &mut Compound, args: &ReadArgs, out: &mut ReplyWriter) -> Answer {
    let room = c.room_left(out);
    if room <= OVERHEAD_BYTES {
        return Err(c.too_big().into());
    }
    let most = c.cx.server.settings.load().config.max_read_bytes;
    let asked = args.count_bytes.min(most);
    let offset = args.offset_bytes.min(MAX_FILE_BYTES);
    let file = Ranged::open(c, regular(c)?, &args.stateid, AccessKinds::READ, (offset, asked.into()))?;
    let seen = c.target_or(NfsStat4::ISDIR).map(|target| (Arc::clone(&target.object), file.attr));
    c.seen = seen.ok();
    let left = file.attr.len_bytes.saturating_sub(offset);
    let len = left.min(asked.into()).min((room - OVERHEAD_BYTES) as u64) as usize;
    if len < asked as usize && (len as u64) < left && c.session.is_some() {
        // RFC 8881 2.10.6.4: what the session has no room for is refused, not cut.
        return Err(c.too_big().into());
    }
    let count = match by_pages(c, &file, offset, len)? {
        Some((pages, count)) => {
            put_read_head(count as u32, offset + count as u64 >= file.attr.len_bytes, out);
            out.set_pages(pages);
            c.tally.read_pages += 1;
            c.tally.read_pages_bytes += count as u64;
            count
        }
        None => {
            out.room(HEAD_BYTES + len);
            let place = ReadPlace::begin(out);
            let count = file.node.read(offset, out.room(len), c.cx.wait)?;
            out.advance(count);
            // Cut short meanwhile, or at the end.
            place.end(count < len || offset + count as u64 >= file.attr.len_bytes, out);
            c.tally.read_copy += 1;
            count
        }
    };
    c.tally.read_waited += u64::from(c.cx.wait == Wait::Allowed);
    c.tally.read_bytes += count as u64;
    Ok(NfsStat4::OK)
}

type Pages = Option<(Box<dyn PagePipe>, usize)>;

/// The page path: only where nothing follows in the reply, the reply is not kept, and it is large enough to be worth it.
fn by_pages(c: &Compound, file: &Ranged, offset: u64, len: usize) -> Done<Pages> {
    let settings = c.cx.server.settings.load();
    let kept = c.session.as_ref().is_some_and(|session| session.cache_this);
    let large = settings.config.page_read_bytes.is_some_and(|least| len >= least as usize);
    if !large || kept || !c.is_last() {
        return Ok(None);
    }
    let Some(mut pipe) = c.pipes.as_ref().and_then(|pipes| pipes.pipe(offset, len)) else { return Ok(None) };
    match file.node.read_pages(offset, len, &mut *pipe, c.cx.wait) {
        Ok(count) => Ok(Some((pipe, count))),
        Err(VfsError::WouldBlock) => Err(Stop::WouldBlock),
        // Whatever is wrong, the copy path finds it again and says it.
        Err(_) => Ok(None),
    }
}

pub fn write(c: &mut Compound, args: &WriteArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let head = &args.head;
    let most = c.cx.server.settings.load().config.max_write_bytes as usize;
    // A server may write less than it is asked to, and says so.
    let data = args.data.get(..args.data.len().min(most)).unwrap_or_default();
    let (target, attr) = regular(c)?;
    guard::may_change(target)?;
    if head.offset_bytes.checked_add(data.len() as u64).is_none_or(|end| end > MAX_FILE_BYTES) {
        return Err(NfsStat4::FBIG.into());
    }
    let in_place = head.stable == StableHow::Unstable
        && !c.beside
        && !target.object.pace.is_slow(|| c.cx.server.env.clock.monotonic_ms());
    if c.cx.wait == Wait::Never && !in_place && !data.is_empty() {
        return Err(Stop::WouldBlock);
    }
    let range = (head.offset_bytes, data.len() as u64);
    let file = Ranged::open(c, (target, attr), &head.stateid, AccessKinds::WRITE, range)?;
    let verifier = c.cx.server.write_verifier();
    if !data.is_empty() {
        store(c, target, &file, head.offset_bytes, data, head.stable)?;
    }
    let count_bytes = data.len() as u32;
    if c.cx.wait == Wait::Never {
        c.tally.write_inline += u64::from(count_bytes > 0);
    } else {
        c.tally.write_worker += u64::from(count_bytes > 0);
        c.tally.write_worker_bytes += u64::from(count_bytes);
    }
    c.tally.write_bytes += u64::from(count_bytes);
    answer(Ok(WriteOk { count_bytes, committed: head.stable, verifier }), out)
}

fn store(c: &Compound, target: &Target, file: &Ranged, offset: u64, data: &[u8], stable: StableHow) -> Done<()> {
    let server = &c.cx.server;
    let begun = server.env.clock.monotonic_ms();
    let written = file.node.write(offset, data, Wait::Allowed);
    target.object.pace.note(begun, server.env.clock.monotonic_ms());
    file.io.written(c);
    written.map_err(no_wait)?;
    drop_set_ids(target, &file.attr, &*file.node).map_err(no_wait)?;
    match stable {
        StableHow::Unstable => Ok(()),
        StableHow::DataSync => Ok(server.synced(file.node.sync(Sync::Data))?),
        StableHow::FileSync => Ok(server.synced(file.node.sync(Sync::All))?),
    }
}

/// What was begun is not begun again on a worker.
pub fn no_wait(error: VfsError) -> Stop {
    match Stop::from(error) {
        Stop::WouldBlock => NfsStat4::DELAY.into(),
        other => other,
    }
}

pub fn commit(c: &mut Compound, args: &CommitArgs, out: &mut ReplyWriter) -> Answer {
    let (target, _) = regular(c)?;
    if args.offset_bytes.checked_add(args.count_bytes.into()).is_none() {
        return Err(NfsStat4::INVAL.into());
    }
    c.must_wait()?;
    // What was true before the data were made safe: a failure meanwhile counts.
    let verifier = c.cx.server.write_verifier();
    c.cx.server.synced(target.object.for_sync().sync(Sync::All))?;
    answer(Ok(verifier), out)
}
