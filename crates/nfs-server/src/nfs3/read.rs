//! READ (RFC 1813 3.3.6): pages moved to the socket where they can be, else one copy into the reply.

use std::sync::Arc;

use coherence::AccessKinds;
use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{ReadArgs, ReadPlace, put_read_head};
use nfs_wire::xdr::{Put, Xdr};
use vfs::{Access, Attr, FileKind, Node, PagePipe, VfsError, Wait};

use super::answer;
use crate::PathCounters;
use crate::attr::{MAX_FILE_BYTES, fattr};
use crate::dispatch::Job;
use crate::failure::{Done, Halt, Stop};
use crate::files::{Cx, Target};
use crate::guard;
use crate::reply::ReplyWriter;

/// Bytes of a READ reply before the data.
pub const HEAD_BYTES: usize = 4 + 24 + 4 + 4 + 84 + 12;

/// A regular file opened for a call.
pub struct File {
    /// Whose and which.
    pub target: Target,
    /// Its attributes.
    pub attr: Attr,
    /// It.
    pub node: Arc<dyn Node>,
}

impl File {
    fn open(cx: &Cx, handle: &[u8], access: Access) -> Done<Self> {
        let target = if access == Access::READ { cx.target(handle)? } else { cx.target_to_change(handle)? };
        let attr = target.attr(cx)?;
        match attr.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(NfsStat3::ISDIR.into()),
            _ => return Err(NfsStat3::INVAL.into()),
        }
        let node = target.open(cx, access, &attr)?;
        Ok(Self { target, attr, node })
    }

    /// Opens the file of a handle, unless it is open already.
    pub async fn of(job: &Job<'_>, handle: &[u8], access: Access) -> Done<Self> {
        match Self::open(&job.cx, handle, access) {
            Err(Stop::WouldBlock) => {}
            other => return other,
        }
        PathCounters::bump(&job.conn.shard.counters.file_opens, 1);
        let (cx, handle) = (Cx { wait: Wait::Allowed, ..job.cx.clone() }, handle.to_vec());
        let opened = job.conn.offload(move || Self::open(&cx, &handle, access)).await;
        match opened.unwrap_or(Err(NfsStat3::SERVERFAULT.into())) {
            Err(Stop::WouldBlock) => Err(NfsStat3::JUKEBOX.into()),
            other => other,
        }
    }
}

/// READ.
pub async fn read(job: &Job<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = ReadArgs::decode(&mut job.args())?;
    let begin = out.len();
    let Err(stop) = data(job, &args, out).await else { return Ok(()) };
    if out.len() < begin {
        return Err(Halt::Lost);
    }
    out.truncate(begin);
    answer(Err::<(), _>(stop), || job.cx.attr_if_known(&args.handle), out)
}

/// The data of the file of a handle; as the call before found it, where both came together.
async fn data(job: &Job<'_>, args: &ReadArgs<'_>, out: &mut ReplyWriter) -> Done<()> {
    let (recent, caller) = (&job.conn.recent, &job.cx.caller);
    let round = recent.round();
    let file = match recent.take(&args.handle, caller) {
        Some(file) => file,
        None => File::of(job, &args.handle, Access::READ).await?,
    };
    data_of(&file, job, args, out).await?;
    recent.keep(round, file, caller);
    Ok(())
}

async fn data_of(file: &File, job: &Job<'_>, args: &ReadArgs<'_>, out: &mut ReplyWriter) -> Done<()> {
    let counters = &job.conn.shard.counters;
    let most = job.cx.server.settings.load().config.max_read_bytes;
    let asked = args.count_bytes.min(most);
    let offset = args.offset_bytes.min(MAX_FILE_BYTES);
    let _claim = guard::io(&job.cx.server, file.attr.id, AccessKinds::READ, offset, asked.into())?;
    // No more than there is: a read that comes back short would have to find out why.
    let left = file.attr.len_bytes.saturating_sub(offset);
    let len = left.min(asked.into()) as usize;
    let attributes = Some(fattr(&file.target.object.export, &file.attr));
    let count = match by_pages(job, file, offset, len).await {
        Some((pages, count)) => {
            put_read_head(&attributes, count as u32, offset + count as u64 >= file.attr.len_bytes, out);
            out.set_pages(pages);
            PathCounters::bump(&counters.read_pages, 1);
            PathCounters::bump(&counters.read_pages_bytes, count as u64);
            count
        }
        None => {
            out.room(HEAD_BYTES + len);
            let place = ReadPlace::begin(&attributes, out);
            let count = by_copy(job, file, offset, len, out).await?;
            // Cut short meanwhile, or at the end.
            place.end(count < len || offset + count as u64 >= file.attr.len_bytes, out);
            PathCounters::bump(&counters.read_copy, 1);
            count
        }
    };
    PathCounters::bump(&counters.read_bytes, count as u64);
    Ok(())
}

/// The page path: only where it is large enough to be worth it.
async fn by_pages(job: &Job<'_>, file: &File, offset: u64, len: usize) -> Option<(Box<dyn PagePipe>, usize)> {
    let threshold = job.cx.server.settings.load().config.page_read_bytes?;
    if len < threshold as usize {
        return None;
    }
    let mut pipe = job.pipes()?.pipe(offset, len)?;
    match file.node.read_pages(offset, len, &mut *pipe, Wait::Never) {
        Ok(count) => return Some((pipe, count)),
        Err(VfsError::WouldBlock) if pipe.len_bytes() == 0 => {}
        // Whatever is wrong, the copy path finds it again and says it.
        Err(_) => return None,
    }
    PathCounters::bump(&job.conn.shard.counters.read_waited, 1);
    let node = Arc::clone(&file.node);
    let fill = move || {
        let count = node.read_pages(offset, len, &mut *pipe, Wait::Allowed).ok()?;
        Some((pipe, count))
    };
    job.conn.offload(fill).await?
}

/// The copy path: straight into the reply's buffer. The answer is the count.
async fn by_copy(job: &Job<'_>, file: &File, offset: u64, len: usize, out: &mut ReplyWriter) -> Done<usize> {
    let count = match file.node.read(offset, out.room(len), Wait::Never) {
        Err(VfsError::WouldBlock) => {
            PathCounters::bump(&job.conn.shard.counters.read_waited, 1);
            let (node, mut lent) = (Arc::clone(&file.node), out.lend());
            let read = move || {
                let result = node.read(offset, lent.room(len), Wait::Allowed);
                (lent, result)
            };
            let (lent, result) = job.conn.offload(read).await.ok_or(NfsStat3::SERVERFAULT)?;
            *out = lent;
            result?
        }
        result => result?,
    };
    out.advance(count);
    Ok(count)
}
