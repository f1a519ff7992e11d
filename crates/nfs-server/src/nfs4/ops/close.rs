//! OPEN_CONFIRM, OPEN_DOWNGRADE and CLOSE (RFC 7530 16.2, 16.18, 16.19; RFC 8881 18.2, 18.18).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nfs_wire::nfs4::{CloseArgs, NfsStat4, OpNum, OpenConfirmArgs, OpenDowngradeArgs, Stateid};

use super::open::forget_closed;
use super::sequenced::by_owner;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, answer};
use crate::nfs4::state::end::Owed;
use crate::nfs4::state::find::check_generation;
use crate::nfs4::state::open::Open;
use crate::nfs4::state::share::Mode;
use crate::reply::ReplyWriter;

/// The open must be one of the current file.
pub(super) fn is_current(c: &Compound, open: &Open) -> Done<()> {
    let same = c.current()?.target().is_some_and(|target| target.object.node.id() == open.file);
    if same { Ok(()) } else { Err(NfsStat4::BAD_STATEID.into()) }
}

/// The open of a stateid whose turn it is: of the current file, of this generation, still open.
fn check(c: &Compound, open: &Open, stateid: &Stateid) -> Done<()> {
    is_current(c, open)?;
    if open.is_closed() {
        return Err(NfsStat4::BAD_STATEID.into());
    }
    check_generation(c, stateid, open.seqid())
}

pub fn open_confirm(c: &mut Compound, args: &OpenConfirmArgs, out: &mut ReplyWriter) -> Answer {
    c.current()?;
    let state = Arc::clone(&c.cx.server.state);
    let open = state.open_of(c, &args.stateid)?;
    let owner = Arc::clone(&open.owner);
    let mut turn = owner.take_turn()?;
    by_owner(c, &mut turn, (args.seqid, OpNum::OpenConfirm), out, |c, turn, out| {
        check(c, &open, &args.stateid)?;
        // RFC 7530 16.18.5: there is nothing to confirm.
        if owner.confirmed.swap(true, Relaxed) {
            return Err(NfsStat4::BAD_STATEID.into());
        }
        forget_closed(&state, turn);
        answer(Ok(state.boot.stateid(open.key, open.advance())), out)
    })
}

pub fn open_downgrade(c: &mut Compound, args: &OpenDowngradeArgs, out: &mut ReplyWriter) -> Answer {
    c.current()?;
    let state = Arc::clone(&c.cx.server.state);
    let stateid = c.resolve(args.stateid)?;
    let open = state.open_of(c, &stateid)?;
    let owner = Arc::clone(&open.owner);
    let mut turn = owner.take_turn()?;
    by_owner(c, &mut turn, (args.seqid, OpNum::OpenDowngrade), out, |c, turn, out| {
        check(c, &open, &stateid)?;
        confirmed(&open)?;
        forget_closed(&state, turn);
        let mode = Mode::new(args.access, args.deny, c.minor)?;
        let modes = open.modes().reduced(mode)?;
        let (access, share) = mode.kinds();
        open.claim.reshare(access, share)?;
        open.set_modes(modes);
        let stateid = state.boot.stateid(open.key, open.advance());
        c.stateid = Some(stateid);
        answer(Ok(stateid), out)
    })
}

fn confirmed(open: &Open) -> Done<()> {
    if open.is_confirmed() { Ok(()) } else { Err(NfsStat4::BAD_STATEID.into()) }
}

pub fn close(c: &mut Compound, args: &CloseArgs, out: &mut ReplyWriter) -> Answer {
    c.current()?;
    let state = Arc::clone(&c.cx.server.state);
    let stateid = c.resolve(args.stateid)?;
    let open = state.open_of(c, &stateid)?;
    // A file that goes with its last open is deleted here, which waits.
    if open.claim.delete_pending() {
        c.must_wait()?;
    }
    let owner = Arc::clone(&open.owner);
    let mut turn = owner.take_turn()?;
    by_owner(c, &mut turn, (args.seqid, OpNum::Close), out, |c, turn, out| {
        check(c, &open, &stateid)?;
        confirmed(&open)?;
        forget_closed(&state, turn);
        state.close(&open).into_iter().for_each(Owed::run);
        let last = match c.minor {
            0 => {
                turn.closed = Some(open.key);
                state.boot.stateid(open.key, open.advance())
            }
            // Nothing that could be used by mistake (RFC 8881 18.2.4).
            _ => {
                state.forget_open(&open);
                Stateid::INVALID
            }
        };
        c.stateid = Some(last);
        answer(Ok(last), out)
    })
}
