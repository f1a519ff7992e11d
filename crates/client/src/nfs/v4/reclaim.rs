//! What was open when the server forgot this client: claimed back while the server takes claims (RFC 8881 8.4.2.1), or
//! opened again. An open that cannot be had again says so whenever it is used.

use std::sync::Arc;

use nfs_wire::nfs4::{DelegationType, NfsStat4, Op, OpenArgs, OpenClaim, OpenHow as How};

use super::opens::{Held, Opened};
use super::owner::Owner;
use super::{Four, Ops, Verdict, locked};
use crate::error::ErrorKind;
use crate::nfs::NfsStatus;
use crate::nfs::pace::Pace;

impl Four {
    /// Claims back all there is. Called with the client just introduced, by one at a time.
    pub(super) async fn claim_all(&self) {
        let opens: Vec<Arc<Held>> = locked(&self.opens).values().filter_map(|held| held.upgrade()).collect();
        let mut rest = Vec::new();
        for held in opens.into_iter().filter(|held| !held.is_closed()) {
            // One that is just being used finds out by itself.
            let Ok(mut owner) = held.owner.try_lock() else { continue };
            *owner = locked(&self.owners).fresh();
            match self.claim_previous(&held, &mut owner).await {
                Ok(opened) => {
                    held.opened_again(&opened);
                    held.keep_to(held.lock_again(&mut owner, true).await);
                }
                Err(_) => {
                    drop(owner);
                    rest.push(held);
                }
            }
        }
        // Whoever opens next will see what comes of it.
        let _ = self.reclaim_complete().await;
        for held in rest {
            if let Ok(mut owner) = held.owner.try_lock() {
                held.open_again(&mut owner).await;
            }
        }
    }

    async fn claim_previous(&self, held: &Held, owner: &mut Owner) -> Result<Opened, ErrorKind> {
        let claim = OpenClaim::Previous(DelegationType::None);
        let build = |ops: &mut Ops<'_>, args: OpenArgs<'_>| {
            ops.at(&held.fh).op(&Op::Open(args)).op(&Op::Getfh).stat();
        };
        let mut pace = Pace::new(self.lines.timeout);
        loop {
            match self.try_open(owner, held.access, How::NoCreate, claim, 1, build).await? {
                Ok(opened) => return Ok(opened),
                Err(Verdict::Again(NfsStat4::DELAY)) if pace.wait().await => {}
                Err(_) => return Err(NfsStat4::NO_GRACE.into()),
            }
        }
    }
}

impl Held {
    /// Makes sure that the open is not the one with `stateid` any more, which the server does not know.
    pub async fn had_again(&self, stateid: nfs_wire::nfs4::Stateid) -> Result<(), ErrorKind> {
        let _only_one = self.reopening.lock().await;
        if self.stateid() != stateid {
            return self.usable();
        }
        if self.is_closed() {
            // Nobody would close it again.
            return Err(NfsStat4::BAD_STATEID.into());
        }
        let mut owner = self.owner.lock().await;
        *owner = locked(&self.four.owners).fresh();
        self.open_again(&mut owner).await;
        self.usable()
    }

    fn opened_again(&self, opened: &Opened) {
        locked(&self.state).stateid = opened.stateid;
    }

    /// Opens it as anybody would, and takes its locks as anybody would.
    async fn open_again(&self, owner: &mut Owner) {
        let again = async {
            let opened = self.try_again(owner).await?;
            if opened.fh != self.fh {
                // Another file has the name now.
                return Err(NfsStat4::STALE.into());
            }
            self.opened_again(&opened);
            self.lock_again(owner, false).await
        };
        self.keep_to(again.await);
    }

    /// An open that could not be had again with all that was held through it is lost.
    fn keep_to(&self, outcome: Result<(), ErrorKind>) {
        let status = match outcome {
            Ok(()) => return,
            Err(ErrorKind::Nfs(NfsStatus::V4(status))) => status,
            Err(_) => NfsStat4::EXPIRED,
        };
        locked(&self.state).lost = Some(status);
    }

    async fn try_again(&self, owner: &mut Owner) -> Result<Opened, ErrorKind> {
        let four = &self.four;
        let mut pace = Pace::new(four.lines.timeout);
        loop {
            let outcome = if four.minor > 0 {
                let build = |ops: &mut Ops<'_>, args: OpenArgs<'_>| {
                    ops.at(&self.fh).op(&Op::Open(args)).op(&Op::Getfh).stat();
                };
                four.try_open(owner, self.access, How::NoCreate, OpenClaim::Fh, 1, build).await?
            } else {
                let Some((name, dirs)) = self.names.split_last() else { return Err(NfsStat4::STALE.into()) };
                let build = |ops: &mut Ops<'_>, args: OpenArgs<'_>| {
                    ops.at(&self.root).walk(dirs).op(&Op::Open(args)).op(&Op::Getfh).stat();
                };
                let claim = OpenClaim::Null(name);
                four.try_open(owner, self.access, How::NoCreate, claim, 1 + dirs.len(), build).await?
            };
            match outcome {
                Ok(opened) => return Ok(opened),
                Err(Verdict::Again(_)) if pace.wait().await => {}
                Err(Verdict::Again(status) | Verdict::Forgotten(status) | Verdict::Lost(status)) => {
                    return Err(status.into());
                }
                Err(Verdict::Done) => return Err(ErrorKind::Nonsense("an open that is none")),
            }
        }
    }
}
