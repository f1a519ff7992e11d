//! Opening and closing, and what is known of an open while it lasts. Each is done in a task of its own: a caller that
//! gives up leaves no open behind that nobody closes, and no number that nobody counts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use nfs_wire::nfs4::{
    CloseArgs, NfsStat4, Op, OpenArgs, OpenClaim, OpenConfirmArgs, OpenDelegation, OpenHow as How, OpenResultFlags,
    ShareAccess, ShareDeny, StateOwner, Stateid, WantDelegation,
};
use nfs_wire::xdr::Bounded;

use super::super::Fh;
use super::super::attr::Wanted;
use super::super::pace::Pace;
use super::super::ranges::Turns;
use super::compound::result_of;
use super::owner::{self, Owner};
use super::{Answer, Effect, Four, Ops, Verdict, locked};
use crate::error::ErrorKind;
use crate::file::{Disposition, OpenHow};
use crate::stat::Stat;

/// What a new file may be done with; the server's umask takes nothing away.
pub(crate) const NEW_FILE_MODE: u32 = 0o644;

/// An open as the server knows it.
#[derive(Debug)]
pub(crate) struct Held {
    pub four: Arc<Four>,
    pub(super) number: u64,
    pub fh: Fh,
    /// Where it was found: 4.0 can open it again by its name only.
    pub(super) root: Fh,
    pub(super) names: Vec<Vec<u8>>,
    pub(super) access: ShareAccess,
    pub(super) owner: tokio::sync::Mutex<Owner>,
    pub(super) state: Mutex<State>,
    pub(super) reopening: tokio::sync::Mutex<()>,
    pub(super) turns: Turns,
    is_closed: AtomicBool,
}

/// What changes of an open.
#[derive(Debug)]
pub(super) struct State {
    pub stateid: Stateid,
    pub locks: super::lock::Locks,
    /// It could not be had again, and why.
    pub lost: Option<NfsStat4>,
}

/// What an OPEN brought.
pub(super) struct Opened {
    pub stateid: Stateid,
    pub fh: Fh,
    pub stat: Option<Stat>,
}

/// An open that nobody has taken yet: if nobody does, it is closed.
struct Fresh(Option<Arc<Held>>);

impl Drop for Fresh {
    fn drop(&mut self) {
        if let (Some(held), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { held.close().await });
        }
    }
}

impl Four {
    /// Opens what is at `names` below `root`.
    pub async fn open(
        self: &Arc<Self>,
        root: &Fh,
        names: Vec<Vec<u8>>,
        how: OpenHow,
    ) -> Result<(Arc<Held>, Stat), ErrorKind> {
        let (four, root) = (Arc::clone(self), root.clone());
        let (mut fresh, stat) = in_task(async move { four.open_here(root, names, how).await }).await?;
        let held = fresh.0.take().ok_or(NfsStat4::EXPIRED)?;
        Ok((held, stat))
    }

    async fn open_here(
        self: Arc<Self>,
        root: Fh,
        names: Vec<Vec<u8>>,
        how: OpenHow,
    ) -> Result<(Fresh, Stat), ErrorKind> {
        let mut access = ShareAccess::empty();
        access.set(ShareAccess::READ, how.reads);
        access.set(ShareAccess::WRITE, how.writes);
        let mut owner = locked(&self.owners).take();
        let opened = self.open_by_name(&mut owner, &root, &names, access, how.existing).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                locked(&self.owners).give_back(owner);
                return Err(error);
            }
        };
        let number = self.next_open.fetch_add(1, Relaxed);
        let state = State { stateid: opened.stateid, locks: Default::default(), lost: None };
        let held = Arc::new(Held {
            four: Arc::clone(&self),
            number,
            fh: opened.fh,
            root,
            names,
            access,
            owner: tokio::sync::Mutex::new(owner),
            state: Mutex::new(state),
            reopening: tokio::sync::Mutex::default(),
            turns: Turns::default(),
            is_closed: AtomicBool::new(false),
        });
        locked(&self.opens).insert(number, Arc::downgrade(&held));
        let fresh = Fresh(Some(Arc::clone(&held)));
        let stat = match opened.stat {
            Some(stat) => stat,
            None => self.getattr(&held.fh).await?,
        };
        Ok((fresh, stat))
    }

    pub(super) async fn open_by_name(
        &self,
        owner: &mut Owner,
        root: &Fh,
        names: &[Vec<u8>],
        access: ShareAccess,
        existing: Disposition,
    ) -> Result<Opened, ErrorKind> {
        let (root, names) = self.descend(root, names).await?;
        let Some((name, dirs)) = names.split_last() else { return Err(NfsStat4::ISDIR.into()) };
        let (mask, values) = Wanted { len_bytes: Some(0), ..Wanted::mode(NEW_FILE_MODE) }.fattr();
        let emptied = nfs_wire::nfs4::Fattr { mask, values: &values };
        let (mask, values) = Wanted::mode(NEW_FILE_MODE).fattr();
        let made = nfs_wire::nfs4::Fattr { mask, values: &values };
        let how = match existing {
            Disposition::Open => How::NoCreate,
            Disposition::OpenOrCreate => How::Unchecked(made),
            // Done once whatever happens on the way: by the owner's count in 4.0, by the slot's from 4.1 on.
            Disposition::Create => How::Guarded(made),
            Disposition::CreateOrEmpty => How::Unchecked(emptied),
        };
        let mut pace = Pace::new(self.lines.timeout);
        loop {
            let generation = self.generation();
            let claim = OpenClaim::Null(name);
            let build = |ops: &mut Ops<'_>, args: OpenArgs<'_>| {
                ops.at(&root).walk(dirs).op(&Op::Open(args)).op(&Op::Getfh).stat();
            };
            let before = 1 + dirs.len();
            match self.try_open(owner, access, how, claim, before, build).await? {
                Ok(opened) => return Ok(opened),
                Err(verdict) => self.after(verdict, generation, &mut pace).await?,
            }
        }
    }

    /// What is to be done before a request is made again.
    pub(super) async fn after(&self, verdict: Verdict, generation: u64, pace: &mut Pace) -> Result<(), ErrorKind> {
        let (Verdict::Again(status) | Verdict::Forgotten(status) | Verdict::Lost(status)) = verdict else {
            return Ok(());
        };
        if !pace.wait().await {
            return Err(status.into());
        }
        match verdict {
            Verdict::Forgotten(_) => self.recover(generation).await,
            _ => Ok(()),
        }
    }

    /// One OPEN, with OPEN_CONFIRM where the server wants one. `before`: how many results stand before that of OPEN.
    pub(super) async fn try_open(
        &self,
        owner: &mut Owner,
        mut access: ShareAccess,
        how: How<'_>,
        claim: OpenClaim<'_>,
        before: usize,
        build: impl Fn(&mut Ops<'_>, OpenArgs<'_>),
    ) -> Result<Result<Opened, Verdict>, ErrorKind> {
        if self.minor > 0 {
            access |= ShareAccess::from_bits_retain(WantDelegation::NoDelegation as u32);
        }
        let name = owner.name;
        let effect = if let How::Guarded(_) = how { Effect::Once } else { Effect::Repeatable };
        let (answer, verdict) = self
            .sequenced(owner, effect, |ops, seqid| {
                let owner = StateOwner { client_id: self.client_id(), owner: Bounded(&name) };
                build(ops, OpenArgs { seqid, access, deny: ShareDeny::empty(), owner, how, claim });
            })
            .await?;
        if verdict != Verdict::Done {
            return Ok(Err(verdict));
        }
        let mut walk = answer.walk()?;
        let ok = result_of!(walk.pass(before)?, Open)?;
        let mut stateid = ok.stateid;
        let handle = walk.handle();
        let stat = walk.stat().ok();
        if let (true, Ok(fh)) = (ok.flags.contains(OpenResultFlags::CONFIRM), &handle) {
            stateid = self.confirm(owner, fh, stateid).await?;
        }
        if let OpenDelegation::Read(_) | OpenDelegation::Write(_) = ok.delegation {
            self.give_back(&ok.delegation, handle.as_ref().ok()).await;
        }
        Ok(Ok(Opened { stateid, fh: handle?, stat }))
    }

    async fn confirm(&self, owner: &mut Owner, fh: &Fh, stateid: Stateid) -> Result<Stateid, ErrorKind> {
        let build = |ops: &mut Ops<'_>, seqid| {
            ops.at(fh).op(&Op::OpenConfirm(OpenConfirmArgs { stateid, seqid }));
        };
        let (answer, _) = self.sequenced(owner, Effect::Repeatable, build).await?;
        result_of!(answer.walk()?.pass(1)?, OpenConfirm)
    }

    /// A delegation was not asked for, and recalls could not be heard.
    async fn give_back(&self, delegation: &OpenDelegation<'_>, fh: Option<&Fh>) {
        let stateid = match delegation {
            OpenDelegation::Read(read) => read.stateid,
            OpenDelegation::Write(write) => write.stateid,
            _ => return,
        };
        if let Some(fh) = fh {
            let _ = self
                .patient(|| {
                    self.request(Effect::Repeatable, |ops| {
                        ops.at(fh).op(&Op::Delegreturn(stateid));
                    })
                })
                .await;
        }
    }

    /// A request of an owner, once; the owner has counted it when this is done.
    pub(super) async fn sequenced(
        &self,
        owner: &mut Owner,
        effect: Effect,
        build: impl Fn(&mut Ops<'_>, u32),
    ) -> Result<(Answer, Verdict), ErrorKind> {
        let generation = self.generation();
        // In 4.0 the owner's count is what keeps it from being done twice, so that it may be sent again.
        let sent_as = if self.minor > 0 { effect } else { Effect::Repeatable };
        let request = self.request(sent_as, |ops| build(ops, owner.seqid));
        let response = self.noticed(generation, self.lines.next().call(request).await)?;
        if self.minor == 0 && owner::counts(&response) {
            owner.seqid = owner.seqid.wrapping_add(1);
        }
        let verdict = self.judge(&response, sent_as)?;
        Ok((Answer(response), verdict))
    }
}

impl Held {
    /// What I/O is done with.
    pub fn stateid(&self) -> Stateid {
        let state = locked(&self.state);
        self.newest(state.locks.stateid.unwrap_or(state.stateid))
    }

    /// RFC 8881 8.2.2: from 4.1 on, 0 stands for the newest generation there is.
    pub(super) fn newest(&self, stateid: Stateid) -> Stateid {
        if self.four.minor > 0 { Stateid { seqid: 0, ..stateid } } else { stateid }
    }

    /// An open that could not be had again is of no more use.
    pub fn usable(&self) -> Result<(), ErrorKind> {
        locked(&self.state).lost.map_or(Ok(()), |status| Err(status.into()))
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// Closes it, once. What the server does not know (any more) is closed.
    pub async fn close(self: &Arc<Self>) -> Result<(), ErrorKind> {
        if self.is_closed.swap(true, Relaxed) {
            return Ok(());
        }
        let held = Arc::clone(self);
        in_task(async move { held.close_here().await }).await
    }

    async fn close_here(&self) -> Result<(), ErrorKind> {
        locked(&self.four.opens).remove(&self.number);
        if self.usable().is_err() {
            return Ok(());
        }
        let _turn = self.turns.next().await;
        let mut owner = self.owner.lock().await;
        let mut pace = Pace::new(self.four.lines.timeout);
        loop {
            self.unlock_all(&mut owner).await;
            let generation = self.four.generation();
            let stateid = locked(&self.state).stateid;
            let stateid = self.newest(stateid);
            let build = |ops: &mut Ops<'_>, seqid| {
                ops.at(&self.fh).op(&Op::Close(CloseArgs { seqid, stateid }));
            };
            let (answer, verdict) = self.four.sequenced(&mut owner, Effect::Repeatable, build).await?;
            match verdict {
                Verdict::Done => result_of!(answer.walk()?.pass(1)?, Close).map(drop)?,
                // It is the session that is gone: the open may be there, and is closed in another.
                Verdict::Again(_)
                | Verdict::Forgotten(
                    NfsStat4::BADSESSION | NfsStat4::DEADSESSION | NfsStat4::CONN_NOT_BOUND_TO_SESSION,
                ) => {
                    self.four.after(verdict, generation, &mut pace).await?;
                    continue;
                }
                Verdict::Forgotten(_) | Verdict::Lost(_) => {}
            }
            let gone = Owner { name: owner.name, seqid: owner.seqid };
            locked(&self.four.owners).give_back(gone);
            return Ok(());
        }
    }
}

/// In a task of its own, which goes on when nobody waits for it any more.
pub(crate) async fn in_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, ErrorKind>> + Send + 'static,
) -> Result<T, ErrorKind> {
    let done = tokio::spawn(work).await;
    done.unwrap_or(Err(ErrorKind::Connection(crate::smb::Failure::Ended)))
}
