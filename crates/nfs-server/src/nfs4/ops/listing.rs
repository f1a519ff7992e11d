//! READDIR (RFC 8881 18.23): entries straight from the backend into the reply. Cookies are the backend's own, which stay
//! good while the directory changes; of the pseudo root they number the exports.

use std::sync::Arc;

use nfs_wire::nfs4::{Attr as A, AttrSource, Bitmap, DirWriter, NfsStat4, ReaddirArgs};
use nfs_wire::xdr::{Put, Xdr};
use vfs::{Access, Attr, Name, Node, Path, Wait};

use super::object::is_readable;
use crate::files::Target;
use crate::nfs3::LOOK;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, Stop};
use crate::nfs4::fh::{Fh, attr_of, root_of};
use crate::nfs4::owners::{Told, Unknown};
use crate::nfs4::view::{OF_QUOTAS, View, entry_fileid, supported};
use crate::reply::ReplyWriter;
use crate::server::Exported;

/// The most bytes of one result, whatever the client would take.
const MOST_BYTES: usize = 256 << 10;
/// Bytes of a result without an entry.
const EMPTY_BYTES: usize = 16;
/// Cookies do not become bad as long as their directory is there, so that there is only one verifier.
const VERIFIER: [u8; 8] = [0; 8];
/// What a directory says of an entry itself. The number is the one of the directory that something is mounted on, not
/// of what is mounted there.
const OF_ENTRIES: &[A] = &[A::RdattrError, A::Fileid, A::MountedOnFileid];
/// Cookies up to here have a meaning of their own (RFC 8881 18.23.3).
const LAST_RESERVED: u64 = 2;

pub fn readdir(c: &mut Compound, args: &ReaddirArgs, out: &mut ReplyWriter) -> Answer {
    let fh = c.current()?;
    if fh.must_be_directory().is_err() {
        return Err(NfsStat4::NOTDIR.into());
    }
    is_readable(&args.request)?;
    if matches!(args.cookie, 1..=LAST_RESERVED) {
        return Err(NfsStat4::BAD_COOKIE.into());
    }
    if args.cookie != 0 && args.cookie_verifier != VERIFIER {
        return Err(NfsStat4::NOT_SAME.into());
    }
    let most = (args.max_count_bytes as usize).min(MOST_BYTES).min(c.room_left(out).saturating_sub(4));
    if most < EMPTY_BYTES {
        return Err(NfsStat4::TOOSMALL.into());
    }
    if !may_go_in_place(fh, args, most) {
        c.must_wait()?;
    }
    let at = out.len();
    let mut whole = Listing::of(c, args, fh, most, out)?;
    // A directory service is asked while no directory is held, and then the entries are written again.
    if whole.0.unknown.look_up(&c.cx)? {
        out.truncate(at);
        whole = Listing::of(c, args, fh, most, out)?;
    }
    let (list, eof) = whole;
    match list.failed {
        Some(stop) => Err(stop),
        None => Ok(list.writer.end(eof, out)),
    }
}

/// Whether a further part of a listing can be had from memory; for an entry's ACL the entry is opened, and quotas are asked.
fn may_go_in_place(fh: &Fh, args: &ReaddirArgs, most_bytes: usize) -> bool {
    match fh {
        Fh::Real(dir) if args.cookie != 0 => {
            !args.request.has(A::Acl)
                && args.request.and(&Bitmap::of(OF_QUOTAS)).is_empty()
                && dir.object.listed.is_quick(most_bytes)
        }
        _ => false,
    }
}

struct Listing<'a> {
    c: &'a Compound,
    args: &'a ReaddirArgs,
    writer: DirWriter,
    /// An entry's attributes cannot be had, and the client does not ask for the reason with the entry.
    failed: Option<Stop>,
    /// Owners who were not known, and are in it by their numbers.
    unknown: Unknown,
}

impl<'a> Listing<'a> {
    /// The entries that fit, and whether they are the last.
    fn of(
        c: &'a Compound,
        args: &'a ReaddirArgs,
        fh: &Fh,
        most_bytes: usize,
        out: &mut ReplyWriter,
    ) -> Done<(Self, bool)> {
        let writer = DirWriter::begin(VERIFIER, args.dir_count_bytes, most_bytes, out);
        let mut list = Self { c, args, writer, failed: None, unknown: Unknown::default() };
        let eof = match fh {
            Fh::Pseudo => list.exports(out),
            Fh::Real(dir) => list.entries(dir, out)?,
        };
        Ok((list, eof))
    }
}

impl Listing<'_> {
    /// The exports that the host may know of; true when they are all.
    fn exports(&mut self, out: &mut ReplyWriter) -> bool {
        let settings = self.c.cx.server.settings.load_full();
        let shown = |export: &Arc<Exported>| export.is_shown_to(self.c.cx.peer.ip());
        let shown: Vec<_> = settings.exports.iter().enumerate().filter(|(_, export)| shown(export)).collect();
        for (index, export) in shown {
            let cookie = index as u64 + LAST_RESERVED + 1;
            if cookie > self.args.cookie && !self.export(export, cookie, out) {
                return false;
            }
        }
        true
    }

    fn export(&mut self, export: &Arc<Exported>, cookie: u64, out: &mut ReplyWriter) -> bool {
        let root = root_of(&self.c.cx, export).and_then(|root| Ok((attr_of(&self.c.cx, &root)?, root)));
        let name = export.name.as_bytes();
        match &root {
            Ok((attr, root)) => {
                let (node, handle) = (&*root.object.node, &root.object.handle);
                let told = match self.told(attr, Some(node)) {
                    Ok(told) => told,
                    Err(stop) => return self.without(name, cookie, entry_fileid(export), stop, out),
                };
                let view = View::of(&self.c.cx.server, self.c.minor, export, *attr, handle, Some(node)).telling(told);
                self.writer.entry(cookie, name, &self.args.request, &view, out)
            }
            Err(stop) => self.without(name, cookie, entry_fileid(export), *stop, out),
        }
    }

    /// The entries of a directory; true at its end.
    fn entries(&mut self, dir: &Target, out: &mut ReplyWriter) -> Done<bool> {
        let cx = &self.c.cx;
        let part = dir.object.listed.begin(&*cx.server.env.clock, cx.wait);
        let attr = attr_of(cx, dir)?;
        let node = dir.open(cx, Access::READ, &attr)?;
        let supported = supported(self.c.minor, Some(&dir.object.export));
        let names_only = self.args.request.minus(&Bitmap::of(OF_ENTRIES)).is_empty();
        let from = self.args.cookie;
        let mut list = |entry: vfs::DirEntry<'_>| {
            if part.is_long(self.writer.count()) {
                return false;
            }
            let (name, cookie) = (entry.name.as_bytes(), entry.next_cookie);
            if names_only {
                let source = Bare { status: NfsStat4::OK, fileid: entry.ino };
                return self.writer.entry(cookie, name, &self.args.request, &source, out);
            }
            match self.entry(dir, supported, entry.name, cookie, out) {
                Ok(fits) => fits,
                // Gone meanwhile.
                Err(Stop::Status(NfsStat4::NOENT)) => true,
                Err(stop) => self.without(name, cookie, entry.ino, stop, out),
            }
        };
        let eof = node.read_dir(from, &mut list)?;
        part.end(self.writer.count());
        Ok(eof)
    }

    /// An entry with its attributes; false when it does not fit.
    fn entry(
        &mut self,
        dir: &Target,
        supported: Bitmap,
        name: Name<'_>,
        cookie: u64,
        out: &mut ReplyWriter,
    ) -> Done<bool> {
        let export = &dir.object.export;
        let (attr, handle) = if self.args.request.has(A::Filehandle) {
            let (attr, handle) = export.backend.entry_handle(&dir.cred, &*dir.object.node, name)?;
            (attr, self.c.cx.server.key.seal(&export.id, &handle).ok_or(NfsStat4::SERVERFAULT)?)
        } else {
            let path = Path::here().join(name);
            // Whether it may wait was decided for the listing.
            (export.backend.attr_at(&dir.cred, &*dir.object.node, &path, Wait::Allowed)?, Vec::new())
        };
        let node = self.node_for_acl(dir, name)?;
        let told = self.told(&attr, node.as_deref())?;
        let view = View::with(&self.c.cx.server, supported, export, attr, &handle, node.as_deref()).telling(told);
        Ok(self.writer.entry(cookie, name.as_bytes(), &self.args.request, &view, out))
    }

    fn told(&mut self, attr: &Attr, node: Option<&dyn Node>) -> Done<Told> {
        Told::as_far_as_known(&self.c.cx, &self.args.request, attr, node, &mut self.unknown)
    }

    fn node_for_acl(&self, dir: &Target, name: Name<'_>) -> Done<Option<Arc<dyn Node>>> {
        if !self.args.request.has(A::Acl) {
            return Ok(None);
        }
        let path = Path::here().join(name);
        let opened = dir.object.export.backend.open(&dir.cred, &*dir.object.node, &path, &LOOK, self.c.cx.wait)?;
        Ok(Some(opened.node))
    }

    /// An entry whose attributes cannot be had: with the reason where the client asks for it, else the whole listing
    /// fails (RFC 8881 18.23.3).
    fn without(&mut self, name: &[u8], cookie: u64, fileid: u64, stop: Stop, out: &mut ReplyWriter) -> bool {
        match stop {
            Stop::Status(status) if self.args.request.has(A::RdattrError) => {
                let request = self.args.request.and(&Bitmap::of(OF_ENTRIES));
                self.writer.entry(cookie, name, &request, &Bare { status, fileid }, out)
            }
            stop => {
                self.failed = Some(stop);
                false
            }
        }
    }
}

/// What is known of an entry without looking at it.
struct Bare {
    status: NfsStat4,
    fileid: u64,
}

impl AttrSource for Bare {
    fn put_attr(&self, attr: A, out: &mut (impl Put + ?Sized)) -> bool {
        match attr {
            A::RdattrError => self.status.put(out),
            A::Fileid | A::MountedOnFileid => self.fileid.put(out),
            _ => return false,
        }
        true
    }
}
