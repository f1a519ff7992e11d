//! OPEN (RFC 7530 16.16, RFC 8881 18.16): the file is found or made, claimed against everybody else's opens, and the
//! client may be given a delegation.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coherence::{Caching, Change, GrantRequest, Identity, OpenRequest, Outcome};
use nfs_wire::nfs4::attr::{Ace, AceFlags, AceMask, AceType};
use nfs_wire::nfs4::{
    DelegationType, NfsStat4, OpNum, OpenArgs, OpenClaim, OpenDelegation, OpenHow, OpenOk, OpenResultFlags,
    ReadDelegation, ShareAccess, SpaceLimit, Stateid, WantDelegation, WhyNone, WriteDelegation,
};
use vfs::SetAttr;

use super::open_file::{Found, find};
use super::sequenced::by_owner;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, answer};
use crate::nfs4::fh::Fh;
use crate::nfs4::state::client::{Client, Family};
use crate::nfs4::state::end::Owed;
use crate::nfs4::state::find::out_of_resources;
use crate::nfs4::state::open::{Open, OpenOwner, OwnerTurn};
use crate::nfs4::state::seq::{Sequence, Turn};
use crate::nfs4::state::share::Mode;
use crate::nfs4::state::{Held, State};
use crate::reply::ReplyWriter;
use crate::tell;

pub fn open(c: &mut Compound, args: &OpenArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let state = Arc::clone(&c.cx.server.state);
    let client = state.client_of(c, args.owner.client_id)?;
    if c.minor == 0 {
        c.current()?;
    }
    let owner = state.open_owner(&client, &args.owner.owner, args.seqid)?;
    if c.minor > 0 {
        return do_open(c, &state, &owner, args, out);
    }
    let mut turn = owner.take_turn()?;
    // An owner that was never confirmed begins anew, unless this is its first request again (RFC 7530 9.1.11).
    let again = matches!(turn.sequence.turn(args.seqid, OpNum::Open), Ok(Turn::Again(_)));
    if !owner.confirmed.load(Relaxed) && !again {
        c.must_wait()?;
        state.end_owner(&owner);
        turn.sequence = Sequence::starting_at(args.seqid);
    }
    by_owner(c, &mut turn, (args.seqid, OpNum::Open), out, |c, turn, out| {
        forget_closed(&state, turn);
        do_open(c, &state, &owner, args, out)
    })
}

/// The owner goes on: its last CLOSE will not come again.
pub(super) fn forget_closed(state: &State, turn: &mut OwnerTurn) {
    if let Some(key) = turn.closed.take() {
        state.forget_key(key);
    }
}

fn do_open(
    c: &mut Compound,
    state: &State,
    owner: &Arc<OpenOwner>,
    args: &OpenArgs<'_>,
    out: &mut ReplyWriter,
) -> Answer {
    let client = &owner.client;
    let mode = Mode::new(args.access, args.deny, c.minor)?;
    let reclaims = matches!(args.claim, OpenClaim::Previous(_));
    is_legal(c, args)?;
    in_time(c, state, client, reclaims)?;
    delegation_is_there(c, state, args)?;
    // What must not be lost is in the store before the client has anything; and a file that was made is not made again.
    if state.grace.must_keep(client) {
        c.must_wait()?;
        state.grace.keep(client);
    }
    let found = find(c, args, mode)?;
    if found.cut {
        c.must_wait()?;
    }
    let want = wanted(c, state, client, args, &found, mode);
    let (open, caching) = claim(c, state, owner, &found, mode, want)?;
    if found.cut
        && let Err(stop) = cut(c, &open, &found)
    {
        if open.seqid() == 1 {
            state.close(&open).into_iter().for_each(Owed::run);
            state.forget_open(&open);
        }
        return Err(stop);
    }
    if reclaims {
        owner.confirmed.store(true, Relaxed);
    }
    let given = give(state, client, &found, want, caching);
    let stateid = state.boot.stateid(open.key, open.seqid());
    let mut flags = OpenResultFlags::LOCKTYPE_POSIX;
    flags.set(OpenResultFlags::CONFIRM, c.minor == 0 && !owner.confirmed.load(Relaxed));
    let delegation = given.unwrap_or_else(|| none(c, args, want));
    c.set_current(Fh::Real(found.target.clone()));
    c.stateid = Some(stateid);
    answer(Ok(OpenOk { stateid, change: found.change, flags, attrs_set: found.attrs_set, delegation }), out)
}

/// What the minor version and the claim allow.
fn is_legal(c: &Compound, args: &OpenArgs<'_>) -> Done<()> {
    let new_claim = matches!(args.claim, OpenClaim::Fh | OpenClaim::DelegCurFh(_) | OpenClaim::DelegPrevFh);
    let new_how = matches!(args.how, OpenHow::Exclusive41(..));
    if c.minor == 0 && (new_claim || new_how) {
        return Err(NfsStat4::BADXDR.into());
    }
    // Only a name can be made (RFC 8881 18.16.3).
    let names = matches!(args.claim, OpenClaim::Null(_));
    match args.how {
        OpenHow::NoCreate => Ok(()),
        OpenHow::Unchecked(_) if matches!(args.claim, OpenClaim::Fh) => Ok(()),
        _ if names => Ok(()),
        _ => Err(NfsStat4::INVAL.into()),
    }
}

/// Reclaims are for the time after a restart, everything else for the time after that (RFC 7530 9.6.3, RFC 8881 8.4.2,
/// 18.51.3).
pub(super) fn in_time(c: &Compound, state: &State, client: &Client, reclaims: bool) -> Done<()> {
    let grace = state.grace.is_on(state.now_ms());
    let complete = client.reclaimed.load(Relaxed);
    if reclaims {
        let may = grace && client.may_reclaim.load(Relaxed) && !(c.minor > 0 && complete);
        if may {
            client.reclaiming.store(true, Relaxed);
            state.grace.reclaims(state.now_ms());
        }
        return if may { Ok(()) } else { Err(NfsStat4::NO_GRACE.into()) };
    }
    if grace && client.family == Family::Plain && client.reclaiming.load(Relaxed) {
        // It goes on to new things, so that it has reclaimed the old ones.
        c.must_wait()?;
        state.grace.reclaimed(client);
    }
    let early = c.minor > 0 && !complete;
    if early || state.grace.is_on(state.now_ms()) { Err(NfsStat4::GRACE.into()) } else { Ok(()) }
}

/// Who opens under a delegation must have it.
fn delegation_is_there(c: &Compound, state: &State, args: &OpenArgs<'_>) -> Done<()> {
    let (OpenClaim::DelegateCur(stateid, _) | OpenClaim::DelegCurFh(stateid)) = args.claim else { return Ok(()) };
    match state.held(c, &c.resolve(stateid)?)? {
        Held::Delegation(delegation) if delegation.is_good() => Ok(()),
        Held::Delegation(_) if c.minor > 0 => Err(NfsStat4::DELEG_REVOKED.into()),
        _ => Err(NfsStat4::BAD_STATEID.into()),
    }
}

/// Claims the file for the owner: a new open, or one it has, made wider. Also what it may cache by that.
fn claim(
    c: &Compound,
    state: &State,
    owner: &Arc<OpenOwner>,
    found: &Found,
    mode: Mode,
    want: Caching,
) -> Done<(Arc<Open>, Caching)> {
    let file = found.attr.id;
    let node = node_of(c, found, mode)?;
    // Two requests of an owner do not claim one file at a time. Nothing here waits for a disk, but where the store has
    // just forgotten a client that now holds something again.
    let mut opens = owner.opens.lock();
    if let Some(open) = opens.get(&file).cloned() {
        widen(c, &open, mode, found.cut)?;
        open.keep_node(node.0, node.1);
        open.advance();
        return Ok((open, Caching::empty()));
    }
    owner.client.holdings.lock().admit_state(out_of_resources(&owner.client))?;
    let claimed = fresh(c, owner, found, mode, want);
    let (claim, caching) = match claimed {
        Ok(claimed) => claimed,
        Err(stop) => {
            owner.client.holdings.lock().forget_state();
            return Err(stop);
        }
    };
    state.grace.keep(&owner.client);
    let open = Arc::new(Open::new(owner.client.next_key(), owner, found.target.clone(), claim, mode));
    open.keep_node(node.0, node.1);
    opens.insert(file, Arc::clone(&open));
    owner.open_count.fetch_add(1, Relaxed);
    state.held.insert(open.key, Held::Open(Arc::clone(&open)));
    Ok((open, caching))
}

fn fresh(
    c: &Compound,
    owner: &OpenOwner,
    found: &Found,
    mode: Mode,
    want: Caching,
) -> Done<(coherence::OpenClaim, Caching)> {
    let (access, share) = mode.kinds();
    let request = OpenRequest {
        overwrite: found.cut,
        identity: Identity::Client(owner.client.id),
        grant: GrantRequest { want, epoch: 0 },
        ..OpenRequest::new(found.attr.id, access, share)
    };
    match c.cx.server.table.open(c.cx.server.now(), &request)? {
        Outcome::Done(opened) => Ok((opened.claim, opened.caching)),
        Outcome::Wait(ticket) => {
            c.cx.server.table.give_up(found.attr.id, ticket);
            Err(NfsStat4::DELAY.into())
        }
    }
}

/// Makes an open wider, if everybody else lets it.
fn widen(c: &Compound, open: &Open, mode: Mode, overwrite: bool) -> Done<()> {
    let server = &c.cx.server;
    let before = open.mode().ok_or(NfsStat4::DELAY)?;
    if before.conflicts(mode) {
        return Err(NfsStat4::SHARE_DENIED.into());
    }
    let whole = before.union(mode);
    let (access, share) = whole.kinds();
    let deny_read = !share.contains(coherence::ShareKinds::READ);
    ask(c, open, Change::Open { write: mode.writes(), deny_read, overwrite })?;
    let denied = |_| open.claim.reshare(access, share);
    let mut done = open.claim.reshare(access, share);
    if done.is_err() && server.state.give_way(open.file) {
        done = done.or_else(denied);
    }
    if done.is_err() {
        // Who merely caches an open is asked to close it.
        ask(c, open, Change::ShareConflict)?;
    }
    done?;
    open.set_modes(open.modes().with(mode));
    Ok(())
}

fn ask(c: &Compound, open: &Open, change: Change) -> Done<()> {
    match open.claim.prepare(c.cx.server.now(), change)? {
        Outcome::Done(()) => Ok(()),
        Outcome::Wait(ticket) => {
            c.cx.server.table.give_up(open.file, ticket);
            Err(NfsStat4::DELAY.into())
        }
    }
}

fn node_of(c: &Compound, found: &Found, mode: Mode) -> Done<(vfs::Access, Arc<dyn vfs::Node>)> {
    match &found.made {
        Some(node) => Ok((vfs::Access::READ | vfs::Access::WRITE, Arc::clone(node))),
        None => Ok((mode.vfs(), found.target.open(&c.cx, mode.vfs(), &found.attr)?)),
    }
}

fn cut(c: &Compound, open: &Open, found: &Found) -> Done<()> {
    let target = &found.target;
    let node = target.open(&c.cx, vfs::Access::WRITE, &found.attr)?;
    let _changing = target.begin_change();
    node.set_attr(&target.cred, &SetAttr { len_bytes: Some(0), ..SetAttr::default() })?;
    tell::written(&target.object);
    if let Ok(Outcome::Wait(ticket)) = open.claim.prepare(c.cx.server.now(), Change::Write) {
        c.cx.server.table.give_up(open.file, ticket);
    }
    Ok(())
}

/// What the client is to be offered to cache, as far as this end is concerned.
fn wanted(c: &Compound, state: &State, client: &Client, args: &OpenArgs<'_>, found: &Found, mode: Mode) -> Caching {
    let both = Caching::READ | Caching::WRITE;
    let most = if mode.writes() { both } else { Caching::READ };
    let asked = if c.minor == 0 { Some(WantDelegation::NoPreference) } else { args.access.want() };
    let want = match (&args.claim, asked) {
        (OpenClaim::Previous(DelegationType::Read), _) => Caching::READ,
        (OpenClaim::Previous(DelegationType::Write), _) => both,
        (OpenClaim::Previous(_), _) | (_, None | Some(WantDelegation::NoDelegation | WantDelegation::Cancel)) => {
            return Caching::empty();
        }
        (_, Some(WantDelegation::Read)) if mode.writes() => return Caching::empty(),
        _ => most,
    };
    let may = !mode.denies() && state.may_delegate(client, found.attr.id);
    if may { want } else { Caching::empty() }
}

/// Gives the delegation that the table has granted, if it is the one to give.
fn give(
    state: &State,
    client: &Arc<Client>,
    found: &Found,
    want: Caching,
    caching: Caching,
) -> Option<OpenDelegation<'static>> {
    if want.is_empty() || caching.is_empty() {
        return None;
    }
    let file = found.attr.id;
    if caching != want {
        state.not_delegated(client, file);
        return None;
    }
    let write = want.contains(Caching::WRITE);
    // A file that was cut is another one by now.
    let attr = found.target.object.node.attr().unwrap_or(found.attr);
    let delegation = state.delegate(client, &found.target, &attr, write).ok()?;
    let stateid: Stateid = delegation.stateid;
    let recall = state.recall_if_broken(&delegation);
    // Nobody need not ask: who may open the file is this end's to say, each time.
    let permissions = Ace { ace_type: AceType::Allow, flags: AceFlags::empty(), mask: AceMask::empty(), who: b"" };
    Some(if write {
        OpenDelegation::Write(WriteDelegation { stateid, recall, space_limit: SpaceLimit::Size(u64::MAX), permissions })
    } else {
        OpenDelegation::Read(ReadDelegation { stateid, recall, permissions })
    })
}

/// No delegation: a 4.1 client that wanted one is told why (RFC 8881 18.16.3).
fn none(c: &Compound, args: &OpenArgs<'_>, want: Caching) -> OpenDelegation<'static> {
    let said = !(args.access & ShareAccess::WANT_DELEG_MASK).is_empty();
    match args.access.want() {
        _ if c.minor == 0 || !said => OpenDelegation::None,
        Some(WantDelegation::NoDelegation) => OpenDelegation::NoneExt(WhyNone::NotWanted),
        Some(WantDelegation::Cancel) => OpenDelegation::NoneExt(WhyNone::Cancelled),
        _ if want.is_empty() => OpenDelegation::NoneExt(WhyNone::Resource(false)),
        _ => OpenDelegation::NoneExt(WhyNone::Contention(false)),
    }
}
