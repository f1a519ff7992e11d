//! QUERY_DIRECTORY (MS-SMB2 3.3.5.18): a listing that goes on where it stopped, however small the client's buffer.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::fscc::{
    AccessMask, Appended, DirEntryInfo, DirInfoClass, DirListWriter, FileInfoClass, Pattern, PosixInfo,
};
use smb_wire::name::{component_to_local, local_to_posix_wire, local_to_wire};
use smb_wire::smb2::{QueryDirectoryFlags, QueryDirectoryRequest, put_output_buffer};
use vfs::{Access, Attr, Buf, Disposition, FileKind, Name, OpenHow, Wait, WantKind, shortname};

use crate::dispatch::Request;
use crate::failure::{Failure, Outcome, status_of};
use crate::meta::{Meta, is_hidden, read_dos, read_entry_dos};
use crate::open::{FileOpen, Listing, Open};
use crate::reply::ReplyWriter;

/// Stands where a class is wanted while the list is of the POSIX one, whose entries encode themselves.
const POSIX_STAND_IN: DirInfoClass = DirInfoClass::Directory;
/// Entries answered at a time at most, however much is asked for: the client asks on.
pub const MOST_BYTES: usize = 1 << 20;
/// Bytes before the entries in the body.
const FIXED_BYTES: usize = 8;

/// QUERY_DIRECTORY.
pub(crate) async fn query_directory(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let message = request.message.clone();
    let asked = QueryDirectoryRequest::decode(&message)?;
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    if !file.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    open.require_any(AccessMask::FILE_LIST_DIRECTORY)?;
    let posix = asked.class == FileInfoClass::POSIX.0;
    let class = if posix && file.posix { Some(POSIX_STAND_IN) } else { DirInfoClass::from_u8(asked.class) };
    let class = class.ok_or(NtStatus::INVALID_INFO_CLASS)?;
    let max = request.conn.negotiated().map_or(0, |n| n.max_transact_bytes);
    if asked.output_bytes > max {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    request.check_charge((asked.output_bytes as usize).max(asked.pattern.len()))?;
    let least = if posix { PosixInfo::ENTRY_FIXED_LEN } else { class.fixed_len() };
    if (asked.output_bytes as usize) < least {
        return Err(NtStatus::INFO_LENGTH_MISMATCH.into());
    }
    begin(file, &asked)?;
    let room = (asked.output_bytes as usize).min(MOST_BYTES);
    out.room(FIXED_BYTES + room);
    let len_at = out.len();
    put_output_buffer(u32::MAX, out);
    let single = asked.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY);
    let (mut buf, open) = (out.lend(), Arc::clone(&open));
    let job = move || {
        let result = fill(&open, (class, posix), single, &mut buf, room);
        (buf, result)
    };
    let (buf, result) = request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?;
    out.give_back(buf);
    let count = result?;
    out.advance(count);
    out.patch_u32(len_at + 4, count as u32);
    Ok(NtStatus::SUCCESS)
}

/// Begins the listing, or begins it again, as the flags ask.
fn begin(file: &FileOpen, asked: &QueryDirectoryRequest<'_>) -> Result<(), NtStatus> {
    let mut listing = file.listing.lock();
    let again = asked.flags.intersects(QueryDirectoryFlags::RESTART_SCANS | QueryDirectoryFlags::REOPEN);
    match &*listing {
        Some(_) if !again => {
            if asked.flags.contains(QueryDirectoryFlags::INDEX_SPECIFIED) && asked.file_index != 0 {
                // Indices are not kept (MS-FSCC 2.4.8: 0 where they mean nothing), so none can be gone back to.
                return Err(NtStatus::INVALID_PARAMETER);
            }
        }
        _ => {
            let pattern: &[u8] = if asked.pattern.is_empty() { &[b'*', 0] } else { asked.pattern };
            let by_short_name = file.share.has_short_names() && looks_short(pattern);
            *listing = Some(Listing::new(Pattern::new(pattern)?, by_short_name));
        }
    }
    Ok(())
}

/// Programs that know a short name ask for its entry to learn the long one.
fn looks_short(pattern: &[u8]) -> bool {
    component_to_local(pattern).is_ok_and(|name| shortname::may_be_made_up(&name))
}

/// Fills `buf`'s room with the entries that come next; the answer is how many bytes they take.
fn fill(
    open: &Open,
    (class, posix): (DirInfoClass, bool),
    single: bool,
    buf: &mut Buf,
    room: usize,
) -> Result<usize, Failure> {
    let file = open.file()?;
    let mut guard = file.listing.lock();
    let listing = guard.as_mut().ok_or(NtStatus::FILE_CLOSED)?;
    let dots_given = listing.dots_given;
    let space = buf.spare().get_mut(..room).unwrap_or_default();
    let list = DirListWriter::new(space, class);
    let mut page = Page { file, class, posix, single, list, wire: Vec::new(), short: Vec::new(), stop: None };
    let mut took = page.dots(listing);
    if took.is_ok() && page.stop.is_none() && !listing.ended {
        took = page.entries(listing);
    }
    if let Err(failure) = took {
        // Nothing of this answer reaches the client: it begins here again.
        listing.dots_given = dots_given;
        return Err(failure);
    }
    match page.stop {
        Some(Stop::TooLarge) => Err(NtStatus::BUFFER_OVERFLOW.into()),
        _ if !page.list.is_empty() => {
            listing.found_any = true;
            Ok(page.list.len())
        }
        _ if listing.found_any => Err(NtStatus::NO_MORE_FILES.into()),
        _ => Err(NtStatus::NO_SUCH_FILE.into()),
    }
}

#[derive(PartialEq)]
enum Stop {
    /// The buffer is full, or one entry was all that was asked.
    Enough,
    /// Not even one entry fits.
    TooLarge,
}

/// One answer's worth of entries.
struct Page<'a> {
    file: &'a FileOpen,
    class: DirInfoClass,
    /// The class is the POSIX one, and `class` only stands in for it.
    posix: bool,
    single: bool,
    list: DirListWriter<'a>,
    wire: Vec<u8>,
    /// The short name beside it.
    short: Vec<u8>,
    stop: Option<Stop>,
}

impl Page<'_> {
    /// `.` and `..` come first, where the pattern has them. The root of a share is its own parent.
    fn dots(&mut self, listing: &mut Listing) -> Result<(), Failure> {
        while listing.dots_given < 2 && self.stop.is_none() {
            let name: &[u8] = if listing.dots_given == 0 { b"." } else { b".." };
            if self.matches(listing, name) {
                let meta = if listing.dots_given == 0 { Meta::of(&*self.file.node, false)? } else { self.parent()? };
                if !self.push(Some(&meta)) {
                    return Ok(());
                }
            }
            listing.dots_given += 1;
        }
        Ok(())
    }

    fn parent(&self) -> Result<Meta, Failure> {
        let backend = &self.file.share.backend;
        let root = backend.root();
        let parent = backend.path_of(&*self.file.node)?.parent();
        let node = match parent {
            Some(path) if !path.is_here() => {
                let how = OpenHow {
                    access: Access::empty(),
                    disposition: Disposition::Open,
                    kind: WantKind::Directory,
                    follow: true,
                    mode: 0,
                };
                backend.open(&self.file.cred, &*root, &path, &how, Wait::Allowed)?.node
            }
            _ => root,
        };
        Ok(Meta::of(&*node, false)?)
    }

    fn entries(&mut self, listing: &mut Listing) -> Result<(), Failure> {
        let node = Arc::clone(&self.file.node);
        let mut cookie = listing.cookie;
        let mut failed = None;
        let ended = node.read_dir(cookie, &mut |entry| {
            let name = entry.name;
            if self.matches(listing, name.as_bytes()) && !self.is_vetoed(name.as_bytes()) {
                let meta = if self.class.names_only() { Ok(None) } else { self.meta(name) };
                match meta {
                    Ok(meta) => {
                        self.shorten(name.as_bytes());
                        if !self.push(meta.as_ref()) {
                            return false;
                        }
                    }
                    // It went away since it was read, or is something that nobody here may look at: one such entry must
                    // not end the listing.
                    Err(vfs::VfsError::NotFound | vfs::VfsError::Stale | vfs::VfsError::AccessDenied) => {}
                    Err(error) => {
                        failed = Some(error);
                        return false;
                    }
                }
            }
            cookie = entry.next_cookie;
            self.stop.is_none()
        })?;
        listing.cookie = cookie;
        listing.ended = ended && self.stop.is_none();
        // What was found is told first; the failure comes back when the client asks for more.
        match failed {
            Some(error) if self.list.is_empty() => Err(status_of(error).into()),
            _ => Ok(()),
        }
    }

    /// Puts the wire's form of `name` into `self.wire` and tells whether the listing's pattern has it.
    fn matches(&mut self, listing: &Listing, name: &[u8]) -> bool {
        self.wire.clear();
        if self.posix {
            local_to_posix_wire(name, &mut self.wire);
        } else {
            local_to_wire(name, &mut self.wire);
        }
        let pattern = &listing.pattern;
        let by_short = || self.file.share.made_up_name(name).is_some_and(|short| pattern.matches(&short));
        pattern.matches_all() || pattern.matches(&self.wire) || listing.by_short_name && !self.posix && by_short()
    }

    /// Puts the short name of the entry `name` beside it, where entries have one.
    fn shorten(&mut self, name: &[u8]) {
        if self.class.has_short_name() && !self.posix {
            self.short = self.file.share.made_up_name(name).unwrap_or_default();
        }
    }

    fn is_vetoed(&self, name: &[u8]) -> bool {
        let veto = &self.file.share.options.veto;
        if self.posix { veto.matches_local(name) } else { veto.matches(&self.wire) }
    }

    /// What the entry is; for a symbolic link what it leads to, where that is inside the share.
    fn meta(&self, name: Name<'_>) -> vfs::VfsResult<Option<Meta>> {
        let hidden = is_hidden(&self.file.share, Some(name));
        let attr: Attr = self.file.node.entry_attr(name)?;
        if attr.kind == FileKind::Symlink
            && !self.posix
            && let Some(meta) = self.behind_link(name, hidden)
        {
            return Ok(Some(meta));
        }
        Ok(Some(Meta::new(attr, read_entry_dos(&*self.file.node, name)?, hidden).on(&self.file.share)))
    }

    fn behind_link(&self, name: Name<'_>, hidden: bool) -> Option<Meta> {
        let how = OpenHow {
            access: Access::empty(),
            disposition: Disposition::Open,
            kind: WantKind::Any,
            follow: true,
            mode: 0,
        };
        let path = vfs::Path::here().join(name);
        let backend = &self.file.share.backend;
        let opened = backend.open(&self.file.cred, &*self.file.node, &path, &how, Wait::Allowed).ok()?;
        Some(Meta::new(opened.attr, read_dos(&*opened.node).ok()?, hidden).on(&self.file.share))
    }

    /// Appends the entry whose name is in `self.wire`; false when it has to wait for the next answer.
    fn push(&mut self, meta: Option<&Meta>) -> bool {
        let entry = match meta {
            None => DirEntryInfo { name_utf16: &self.wire, ..DirEntryInfo::default() },
            Some(meta) => DirEntryInfo {
                file_index: 0,
                times: meta.dir_times(),
                end_of_file: meta.end_of_file(),
                allocation: meta.allocation_bytes(),
                attributes: meta.attributes,
                ea_size: 0,
                reparse_tag: meta.reparse_tag(),
                file_id: u128::from(meta.attr.id.ino),
                short_name: &self.short,
                name_utf16: &self.wire,
            },
        };
        let appended = match meta.filter(|_| self.posix) {
            Some(meta) => self.list.push_encoded(&crate::posix::info(meta).entry(&self.wire)),
            None => self.list.push(&entry),
        };
        match appended {
            Appended::Fitted => {
                if self.single {
                    self.stop = Some(Stop::Enough);
                }
                true
            }
            Appended::Full => {
                self.stop = Some(Stop::Enough);
                false
            }
            Appended::TooLarge => {
                self.stop = Some(Stop::TooLarge);
                false
            }
        }
    }
}
