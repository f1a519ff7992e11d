//! A small file written in one compound (4.1 and later): OPEN, WRITE, COMMIT, SETATTR and CLOSE, each with the stateid of
//! the one before (RFC 8881 16.2.3.1.2), and where it is to have another name then VERIFY and RENAME: a compound ends with
//! the first operation that fails, so that nothing gets that name that is not whole. Whatever of that a server does not do
//! is done the long way.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use nfs_wire::nfs4::{
    CloseArgs, CommitArgs, Fattr, NfsStat4, Op, OpNum, OpenArgs, OpenClaim, OpenDelegation, OpenHow as How, OpenOk,
    RenameArgs, SetattrArgs, ShareAccess, ShareDeny, StableHow, StateOwner, Stateid, WantDelegation, WriteHead,
};
use nfs_wire::xdr::Bounded;

use super::super::Fh;
use super::super::attr::Wanted;
use super::compound::{Walk, result_of};
use super::opens::{NEW_FILE_MODE, in_task};
use super::owner::Owner;
use super::{Effect, Four, Verdict, locked};
use crate::error::ErrorKind;
use crate::file::{Disposition, OpenHow};

/// A small file to be written.
#[derive(Debug)]
pub(crate) struct Small<'a> {
    pub data: &'a [u8],
    pub how: OpenHow,
    pub wanted: Wanted,
    /// The name it is to have in the end, in the same directory; another file there is replaced.
    pub name: Option<&'a [u8]>,
}

/// The same as the request has it.
struct Written {
    len_bytes: u32,
    wanted: Wanted,
    how: OpenHow,
    name: Option<Vec<u8>>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    Done,
    /// Not; it is to be opened like this, written and closed.
    Otherwise(OpenHow),
}

impl Four {
    /// Makes a file, or replaces the contents of the one there is.
    pub async fn write_whole(
        self: &Arc<Self>,
        root: &Fh,
        names: &[Vec<u8>],
        small: Small<'_>,
    ) -> Result<Whole, ErrorKind> {
        let Small { data, how, wanted, name } = small;
        let is_possible = data.len() <= self.write_bytes() as usize && names.len() <= self.most_names();
        if self.no_current.load(Relaxed) || !is_possible || how.existing == Disposition::Open {
            return Ok(Whole::Otherwise(how));
        }
        let (four, root, names) = (Arc::clone(self), root.clone(), names.to_vec());
        let data = self.lines.next().copy(data);
        let len_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let file = Written { len_bytes, wanted, how, name: name.map(<[u8]>::to_vec) };
        in_task(async move {
            let mut owner = locked(&four.owners).take();
            let outcome = four.write_whole_here(&mut owner, &root, &names, data, &file).await;
            locked(&four.owners).give_back(owner);
            outcome
        })
        .await
    }

    async fn write_whole_here(
        &self,
        owner: &mut Owner,
        root: &Fh,
        names: &[Vec<u8>],
        data: Bytes,
        file: &Written,
    ) -> Result<Whole, ErrorKind> {
        let Some((name, dirs)) = names.split_last() else { return Err(NfsStat4::ISDIR.into()) };
        let Written { len_bytes, wanted, how, .. } = *file;
        let made = match how.existing {
            Disposition::CreateOrEmpty => Wanted { len_bytes: Some(0), ..Wanted::mode(NEW_FILE_MODE) },
            _ => Wanted::mode(NEW_FILE_MODE),
        };
        let ((mask, values), (set_mask, set_values)) = (made.fattr(), wanted.fattr());
        let made = Fattr { mask, values: &values };
        let attributes = Fattr { mask: set_mask, values: &set_values };
        let access = ShareAccess::WRITE | ShareAccess::from_bits_retain(WantDelegation::NoDelegation as u32);
        let open = OpenArgs {
            seqid: 0,
            access,
            deny: ShareDeny::empty(),
            owner: StateOwner { client_id: self.client_id(), owner: Bounded(&owner.name) },
            how: if how.existing == Disposition::Create { How::Guarded(made) } else { How::Unchecked(made) },
            claim: OpenClaim::Null(name),
        };
        let head = WriteHead { stateid: Stateid::CURRENT, offset_bytes: 0, stable: StableHow::Unstable };
        let effect = if how.existing == Disposition::Create { Effect::Once } else { Effect::Repeatable };
        let (size_mask, size_values) = Wanted { len_bytes: Some(len_bytes.into()), ..Wanted::default() }.fattr();
        let size = Fattr { mask: size_mask, values: &size_values };
        let request = self.request(effect, |ops| {
            ops.at(root).walk(dirs);
            if file.name.is_some() {
                ops.op(&Op::Savefh);
            }
            ops.op(&Op::Open(open)).op(&Op::Getfh);
            if len_bytes > 0 {
                ops.op(&(OpNum::Write, (head, len_bytes))).data_follow();
                ops.op(&Op::Commit(CommitArgs { offset_bytes: 0, count_bytes: 0 }));
            }
            if file.name.is_some() {
                ops.op(&Op::Verify(size));
            }
            if !wanted.is_nothing() {
                ops.op(&Op::Setattr(SetattrArgs { stateid: Stateid::ANONYMOUS, attributes }));
            }
            ops.op(&Op::Close(CloseArgs { seqid: 0, stateid: Stateid::CURRENT }));
            if let Some(new_name) = &file.name {
                ops.op(&Op::Restorefh).op(&Op::Rename(RenameArgs { old_name: name, new_name }));
            }
        });
        let generation = self.generation();
        let response = self.noticed(generation, self.lines.next().call(request.with_body(data)).await)?;
        let verdict = self.judge(&response, effect)?;
        let answer = super::Answer(response);
        let mut walk = answer.walk()?;
        let before = 1 + dirs.len() + usize::from(file.name.is_some());
        let opened = walk.pass(before).and_then(|walk| result_of!(walk, Open));
        let ok: OpenOk<'_> = match opened {
            Ok(ok) => ok,
            Err(_) if verdict != Verdict::Done => return Ok(Whole::Otherwise(how)),
            Err(error) => return Err(error),
        };
        let fh = walk.handle()?;
        let rest = filled(&mut walk, file);
        if rest == Ok(true) && !matches!(ok.delegation, OpenDelegation::Read(_) | OpenDelegation::Write(_)) {
            return Ok(Whole::Done);
        }
        self.abandon(&fh, ok.stateid).await;
        if file.name.is_some() {
            // It may have its other name already.
            let _ = self.remove(root, dirs, name).await;
        }
        match rest {
            // It is not as long as what was sent: the rest is.
            Err(ErrorKind::Nfs(status)) if status == NfsStat4::NOT_SAME.into() => {
                Ok(Whole::Otherwise(OpenHow::overwrite()))
            }
            Err(ErrorKind::Nfs(status)) if !status.is_of_stateids() && verdict == Verdict::Done => {
                Err(ErrorKind::Nfs(status))
            }
            Err(ErrorKind::Nfs(status)) if status.is_of_stateids() => {
                self.no_current.store(true, Relaxed);
                Ok(Whole::Otherwise(OpenHow::overwrite()))
            }
            Err(error @ ErrorKind::Nonsense(_)) => Err(error),
            // It is there by now, and perhaps in part.
            _ => Ok(Whole::Otherwise(OpenHow::overwrite())),
        }
    }

    /// What was opened in a compound that did not get as far as its CLOSE.
    async fn abandon(&self, fh: &Fh, stateid: Stateid) {
        let close = CloseArgs { seqid: 0, stateid: Stateid { seqid: 0, ..stateid } };
        // It may be closed already; whoever opens it next will see.
        let _ = self
            .set(|ops| {
                ops.at(fh).op(&Op::Close(close));
            })
            .await;
    }
}

/// Whether all behind the OPEN was done, and nothing lost between WRITE and COMMIT.
fn filled(walk: &mut Walk<'_>, file: &Written) -> Result<bool, ErrorKind> {
    let (len_bytes, mut is_whole) = (file.len_bytes, true);
    if len_bytes > 0 {
        let written = result_of!(walk, Write)?;
        if written.count_bytes > len_bytes {
            return Err(ErrorKind::Nonsense("it wrote more than it was sent"));
        }
        let committed = result_of!(walk, Commit)?;
        let is_safe = written.committed != StableHow::Unstable || written.verifier == committed;
        is_whole = written.count_bytes == len_bytes && is_safe;
    }
    walk.pass(usize::from(file.name.is_some()) + usize::from(!file.wanted.is_nothing()))?;
    result_of!(walk, Close)?;
    if file.name.is_some() {
        walk.pass(2)?;
    }
    Ok(is_whole)
}
