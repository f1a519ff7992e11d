//! A small file written in one compound (4.1 and later): OPEN, WRITE, COMMIT, SETATTR and CLOSE, each with the stateid of
//! the one before (RFC 8881 16.2.3.1.2). Whatever of that a server does not do is done the long way.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use nfs_wire::nfs4::{
    CloseArgs, CommitArgs, Fattr, NfsStat4, Op, OpNum, OpenArgs, OpenClaim, OpenDelegation, OpenHow as How, OpenOk,
    SetattrArgs, ShareAccess, ShareDeny, StableHow, StateOwner, Stateid, WantDelegation, WriteHead,
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

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    Done,
    /// Not; it is to be opened like this, written and closed.
    Otherwise(OpenHow),
}

impl Four {
    /// Makes a file of `data`, or replaces the contents of the one there is.
    pub async fn write_whole(
        self: &Arc<Self>,
        root: &Fh,
        names: &[Vec<u8>],
        data: &[u8],
        how: OpenHow,
        wanted: &Wanted,
    ) -> Result<Whole, ErrorKind> {
        let is_possible = data.len() <= self.write_bytes() as usize && names.len() <= self.most_names();
        if self.no_current.load(Relaxed) || !is_possible || how.existing == Disposition::Open {
            return Ok(Whole::Otherwise(how));
        }
        let (four, root, names, wanted) = (Arc::clone(self), root.clone(), names.to_vec(), *wanted);
        let data = self.lines.next().copy(data);
        in_task(async move {
            let mut owner = locked(&four.owners).take();
            let outcome = four.write_whole_here(&mut owner, &root, &names, data, how, &wanted).await;
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
        how: OpenHow,
        wanted: &Wanted,
    ) -> Result<Whole, ErrorKind> {
        let Some((name, dirs)) = names.split_last() else { return Err(NfsStat4::ISDIR.into()) };
        let len_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
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
        let request = self.request(effect, |ops| {
            ops.at(root).walk(dirs).op(&Op::Open(open)).op(&Op::Getfh);
            if len_bytes > 0 {
                ops.op(&(OpNum::Write, (head, len_bytes))).data_follow();
                ops.op(&Op::Commit(CommitArgs { offset_bytes: 0, count_bytes: 0 }));
            }
            if !wanted.is_nothing() {
                ops.op(&Op::Setattr(SetattrArgs { stateid: Stateid::ANONYMOUS, attributes }));
            }
            ops.op(&Op::Close(CloseArgs { seqid: 0, stateid: Stateid::CURRENT }));
        });
        let generation = self.generation();
        let response = self.noticed(generation, self.lines.next().call(request.with_body(data)).await)?;
        let verdict = self.judge(&response, effect)?;
        let answer = super::Answer(response);
        let mut walk = answer.walk()?;
        let opened = walk.pass(1 + dirs.len()).and_then(|walk| result_of!(walk, Open));
        let ok: OpenOk<'_> = match opened {
            Ok(ok) => ok,
            Err(_) if verdict != Verdict::Done => return Ok(Whole::Otherwise(how)),
            Err(error) => return Err(error),
        };
        let fh = walk.handle()?;
        let rest = filled(&mut walk, len_bytes, !wanted.is_nothing());
        if rest == Ok(true) && !matches!(ok.delegation, OpenDelegation::Read(_) | OpenDelegation::Write(_)) {
            return Ok(Whole::Done);
        }
        self.abandon(&fh, ok.stateid).await;
        match rest {
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
fn filled(walk: &mut Walk<'_>, len_bytes: u32, sets: bool) -> Result<bool, ErrorKind> {
    let mut is_whole = true;
    if len_bytes > 0 {
        let written = result_of!(walk, Write)?;
        if written.count_bytes > len_bytes {
            return Err(ErrorKind::Nonsense("it wrote more than it was sent"));
        }
        let committed = result_of!(walk, Commit)?;
        let is_safe = written.committed != StableHow::Unstable || written.verifier == committed;
        is_whole = written.count_bytes == len_bytes && is_safe;
    }
    if sets {
        walk.done()?;
    }
    result_of!(walk, Close)?;
    Ok(is_whole)
}
