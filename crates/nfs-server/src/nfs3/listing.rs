//! READDIR and READDIRPLUS (RFC 1813 3.3.16, 3.3.17): entries straight from the backend into the reply. Cookies are the
//! backend's own, which stay good while the directory changes; the two that stand for `.` and `..` come before them.
//! Parts of a long READDIRPLUS are made ahead (`ahead`).

use std::sync::Arc;

use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{DirEntry, DirLimits, DirWriter, MAX_HANDLE_BYTES, PostOpAttr, ReaddirArgs, ReaddirPlusArgs};
use nfs_wire::xdr::{Bounded, Put, Reader, Xdr};
use vfs::{Access, Attr, Name, Wait};

use super::answer;
use super::object::parent;
use super::read::HEAD_BYTES;
use crate::ahead::{Found, Listing, Make, Part};
use crate::attr::fattr;
use crate::dispatch::{Job, LISTING_REPLY_BYTES};
use crate::failure::{Done, Halt, Stop};
use crate::files::{Cx, Target, post_op};
use crate::listed;
use crate::reply::ReplyWriter;

/// The most bytes of one reply, whatever the client would take.
const MOST_BYTES: usize = 256 << 10;
/// Cookies do not become bad as long as their directory is there, so that there is only one verifier.
const VERIFIER: [u8; 8] = [0; 8];
/// The cookie behind `.` and the one behind `..`: file systems number their own entries from there on.
const BEHIND_SELF: u64 = 1;
const BEHIND_PARENT: u64 = 2;

/// What is asked for.
struct Asked<'a> {
    dir: &'a [u8],
    cookie: u64,
    verifier: [u8; 8],
    limits: DirLimits,
    plus: bool,
}

pub fn readdir(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = ReaddirArgs::decode(args)?;
    let limits = DirLimits::of_readdir(&args);
    let (cookie, verifier) = (args.cookie, args.cookie_verifier);
    list(cx, &Asked { dir: &args.dir, cookie, verifier, limits, plus: false }, out)
}

pub fn readdir_plus(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = ReaddirPlusArgs::decode(args)?;
    list(cx, &Asked::plus(&args), out)
}

/// READDIRPLUS of a part that is ready, or of one that can be made in place; false where it cannot.
pub async fn further_part(job: &Job<'_>, out: &mut ReplyWriter) -> Result<bool, Halt> {
    let args = ReaddirPlusArgs::decode(&mut job.args())?;
    let asked = Asked::plus(&args);
    let listing = asked.listing(job);
    let (ahead, executor) = (&job.conn.ahead, &*job.conn.shard.executor);
    let found = ahead.find(&listing, asked.cookie).await;
    if !asked.is_further() {
        return Ok(false);
    }
    let may_make = || (job.conn.shard.idle_cores)() > 0;
    if let Found::Part(Part { out: part, begin, next }) = found {
        out.put_bytes(part.since(begin));
        ahead.used(next, executor, may_make, || maker(job, &listing));
        return Ok(true);
    }
    let begin = out.len();
    let Ok(next) = entries(&job.cx, &asked, out) else {
        out.truncate(begin);
        return Ok(false);
    };
    job.cx.server.answers.note(job.cx.peer.ip());
    let in_order = matches!(found, Found::InOrder);
    ahead.made(&listing, next, in_order, executor, may_make, || maker(job, &listing));
    Ok(true)
}

/// Makes parts of a listing on a worker.
fn maker(job: &Job<'_>, listing: &Listing) -> Make {
    let (pool, listing) = (job.conn.shard.pool.clone(), listing.clone());
    let cx = Cx { wait: Wait::Allowed, ..job.cx.clone() };
    Box::new(move |cookie| {
        let mut out = ReplyWriter::new(&pool, listing.max_count_bytes.min(LISTING_REPLY_BYTES) + HEAD_BYTES);
        let begin = out.len();
        let next = entries(&cx, &Asked::of(&listing, cookie), &mut out).ok()?;
        Some(Part { out, begin, next })
    })
}

impl<'a> Asked<'a> {
    fn plus(args: &'a ReaddirPlusArgs<'a>) -> Self {
        let limits = DirLimits::of_readdir_plus(args);
        Self { dir: &args.dir, cookie: args.cookie, verifier: args.cookie_verifier, limits, plus: true }
    }

    fn of(listing: &'a Listing, cookie: u64) -> Self {
        let Listing { dir, dir_count_bytes, max_count_bytes, .. } = listing;
        let limits = DirLimits { dir_count_bytes: *dir_count_bytes, max_count_bytes: *max_count_bytes };
        Self { dir, cookie, verifier: VERIFIER, limits, plus: true }
    }

    fn listing(&self, job: &Job<'_>) -> Listing {
        let DirLimits { dir_count_bytes, max_count_bytes } = self.limits;
        Listing { dir: self.dir.into(), caller: Arc::clone(&job.cx.caller), dir_count_bytes, max_count_bytes }
    }

    /// Whether it goes on with a listing in a way that may be ready.
    fn is_further(&self) -> bool {
        self.cookie > BEHIND_PARENT && self.verifier == VERIFIER && self.limits.max_count_bytes <= listed::MOST_BYTES
    }
}

fn list(cx: &Cx, asked: &Asked<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let begin = out.len();
    match entries(cx, asked, out) {
        Ok(_) => Ok(()),
        Err(stop) => {
            out.truncate(begin);
            answer(Err::<(), _>(stop), || cx.attr_if_known(asked.dir), out)
        }
    }
}

/// Appends a part. The answer is where the next one begins; `None` behind the last.
fn entries(cx: &Cx, asked: &Asked<'_>, out: &mut ReplyWriter) -> Done<Option<u64>> {
    let dir = cx.target(asked.dir)?;
    dir.must_be_directory()?;
    let in_place = asked.cookie > BEHIND_PARENT && dir.object.listed.is_quick(asked.limits.max_count_bytes);
    if cx.wait == Wait::Never && !in_place {
        return Err(Stop::WouldBlock);
    }
    let attr = dir.attr(cx)?;
    if asked.cookie != 0 && asked.verifier != VERIFIER {
        return Err(NfsStat3::BAD_COOKIE.into());
    }
    let node = dir.open(cx, Access::READ, &attr)?;
    let part = dir.object.listed.begin(&*cx.server.env.clock, cx.wait);
    let attributes = Some(fattr(&dir.object.export, &attr));
    let mut limits = asked.limits;
    limits.max_count_bytes = limits.max_count_bytes.min(MOST_BYTES);
    let mut writer = DirWriter::begin(&attributes, VERIFIER, limits, out);
    let fits = dots(cx, asked, &dir, &attr, &mut writer, out);
    let from = if asked.cookie <= BEHIND_PARENT { 0 } else { asked.cookie };
    let mut next = None;
    let eof = fits
        && node.read_dir(from, &mut |entry| {
            if part.is_long(writer.count()) {
                return false;
            }
            let found = DirEntry { fileid: entry.ino, name: entry.name.as_bytes(), cookie: entry.next_cookie };
            let fits = if asked.plus {
                let mut room = [0; MAX_HANDLE_BYTES];
                let (attributes, handle) = more(cx, &dir, entry.name, &mut room);
                writer.entry_plus(&found, &attributes, &handle.map(Bounded), out)
            } else {
                writer.entry(&found, out)
            };
            next = if fits { Some(entry.next_cookie) } else { next };
            fits
        })?;
    part.end(writer.count());
    writer.end(eof, &post_op(&dir.object), out);
    Ok(next.filter(|_| !eof))
}

/// Appends the two entries a backend does not list, as far as they have not been taken; false when one does not fit.
fn dots(cx: &Cx, asked: &Asked<'_>, dir: &Target, attr: &Attr, writer: &mut DirWriter, out: &mut ReplyWriter) -> bool {
    let mut put = |attr: &Attr, handle: &[u8], name: &[u8], cookie: u64| {
        let entry = DirEntry { fileid: attr.id.ino, name, cookie };
        if !asked.plus {
            return writer.entry(&entry, out);
        }
        let attributes: PostOpAttr = Some(fattr(&dir.object.export, attr));
        writer.entry_plus(&entry, &attributes, &Some(Bounded(handle)), out)
    };
    if asked.cookie < BEHIND_SELF && !put(attr, &dir.object.handle, b".", BEHIND_SELF) {
        return false;
    }
    if asked.cookie < BEHIND_PARENT {
        // Above a directory that may not be passed through it is not known; any number does.
        return match parent(cx, dir, *attr) {
            Ok((above, attr)) => put(&attr, &above.handle, b"..", BEHIND_PARENT),
            Err(_) => put(attr, &dir.object.handle, b"..", BEHIND_PARENT),
        };
    }
    true
}

/// Attributes and handle of an entry, where they can be had.
fn more<'a>(
    cx: &Cx,
    dir: &Target,
    name: Name<'_>,
    room: &'a mut [u8; MAX_HANDLE_BYTES],
) -> (PostOpAttr, Option<&'a [u8]>) {
    let export = &dir.object.export;
    match export.backend.entry_handle(&dir.cred, &*dir.object.node, name) {
        Ok((attr, handle)) => (Some(fattr(export, &attr)), cx.server.key.seal_in(&export.id, &handle, room)),
        Err(_) => (None, None),
    }
}
