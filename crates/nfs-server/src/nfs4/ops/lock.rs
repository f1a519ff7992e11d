//! LOCK, LOCKT, LOCKU, RELEASE_LOCKOWNER (RFC 8881 18.10 to 18.12, RFC 7530 16.10 to 16.12 and 16.37). The ranges are in
//! the table of claims, where SMB's are too.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coherence::{
    Change, LockConflict, LockError as Refused, LockOutcome, LockOwner as Holder, LockRange, Outcome, Owner,
};
use nfs_wire::nfs4::{
    ExistLockOwner, LockArgs, LockDenied, LockError, LockRes, LockType, Locker, LocktArgs, LockuArgs, NfsStat4, OpNum,
    OpenToLockOwner, StateOwner,
};
use nfs_wire::xdr::{Bounded, Xdr};
use vfs::{FileId, FileKind};

use super::close::is_current;
use super::open::{forget_closed, in_time};
use super::sequenced::{by_lock_owner, by_owner};
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, answer};
use crate::nfs4::state::client::{Client, Family};
use crate::nfs4::state::find::{check_generation, out_of_resources};
use crate::nfs4::state::lock::{LockOwner, LockState};
use crate::nfs4::state::open::Open;
use crate::nfs4::state::seq::Turn;
use crate::nfs4::state::{Held, State};
use crate::reply::ReplyWriter;

/// As whom somebody asks who never locked anything.
const NOBODY: Owner = Owner(u64::MAX);
/// What a lock owner is called that has no name here: an SMB client.
const FOREIGN: &[u8] = b"smb";

pub fn lock(c: &mut Compound, args: &LockArgs<'_>, out: &mut ReplyWriter) -> Answer {
    current_file(c)?;
    let range = range_of(args.offset_bytes, args.len_bytes, args.lock_type)?;
    match &args.locker {
        Locker::New(new) => first_lock(c, args, new, range, out),
        Locker::Existing(existing) => further_lock(c, args, existing, range, out),
    }
}

/// A lock owner's first lock through an open: the request is the open owner's (4.0).
fn first_lock(
    c: &mut Compound,
    args: &LockArgs<'_>,
    new: &OpenToLockOwner<'_>,
    range: LockRange,
    out: &mut ReplyWriter,
) -> Answer {
    let state = Arc::clone(&c.cx.server.state);
    let stateid = c.resolve(new.open_stateid)?;
    if c.minor == 0 {
        state.plain_client(new.owner.client_id)?;
    }
    let open = state.open_of(c, &stateid)?;
    let opener = Arc::clone(&open.owner);
    if c.minor == 0 && new.owner.client_id != opener.client.id {
        return Err(NfsStat4::BAD_STATEID.into());
    }
    let mut turn = opener.take_turn()?;
    by_owner(c, &mut turn, (new.open_seqid, OpNum::Lock), out, |c, turn, out| {
        is_current(c, &open)?;
        if open.is_closed() || !open.is_confirmed() {
            return Err(NfsStat4::BAD_STATEID.into());
        }
        check_generation(c, &stateid, open.seqid())?;
        forget_closed(&state, turn);
        in_time(c, &state, &opener.client, args.reclaim)?;
        before_others(c, args.reclaim)?;
        let owner = state.lock_owner_named(&opener.client, &new.owner.owner, new.lock_seqid)?;
        let mut sequence = owner.sequence.try_lock().ok_or(NfsStat4::DELAY)?;
        // It may have been there before: then its requests go on where they were (RFC 7530 16.10.5).
        if c.minor == 0 && sequence.turn(new.lock_seqid, OpNum::Lock)? != Turn::Next {
            return Err(NfsStat4::BAD_SEQID.into());
        }
        let done = locks_for(&state, &owner, &open).and_then(|locks| take(c, &state, &locks, &open, range, out));
        if done == Ok(NfsStat4::OK) {
            sequence.passed(new.lock_seqid);
        } else {
            // If it holds nothing the client was told of nothing; it may begin again as it likes.
            state.forget_unused(&owner);
        }
        done
    })
}

fn further_lock(
    c: &mut Compound,
    args: &LockArgs<'_>,
    existing: &ExistLockOwner,
    range: LockRange,
    out: &mut ReplyWriter,
) -> Answer {
    let state = Arc::clone(&c.cx.server.state);
    let stateid = c.resolve(existing.lock_stateid)?;
    let locks = state.locks_of(c, &stateid)?;
    let owner = Arc::clone(&locks.owner);
    let mut sequence = owner.sequence.try_lock().ok_or(NfsStat4::DELAY)?;
    by_lock_owner(c, &mut sequence, (existing.lock_seqid, OpNum::Lock), out, |c, out| {
        let open = locks.open.upgrade().ok_or(NfsStat4::BAD_STATEID)?;
        is_current(c, &open)?;
        check_generation(c, &stateid, locks.seqid())?;
        in_time(c, &state, &owner.client, args.reclaim)?;
        before_others(c, args.reclaim)?;
        take(c, &state, &locks, &open, range, out)
    })
}

/// Hosts that held locks over NFSv3 may have them again first.
fn before_others(c: &Compound, reclaims: bool) -> Done<()> {
    if !reclaims && c.cx.server.nlm.is_in_grace() { Err(NfsStat4::GRACE.into()) } else { Ok(()) }
}

/// What the owner has locked in the file, as far as it has a stateid for it.
fn locks_for(state: &State, owner: &Arc<LockOwner>, open: &Arc<Open>) -> Done<Arc<LockState>> {
    owner.client.holdings.lock().admit_state(out_of_resources(&owner.client))?;
    let mut owned = owner.locks.lock();
    let known = owned.get(&open.file).filter(|known| known.open.strong_count() > 0).cloned();
    if known.is_some() || owner.gone.load(Relaxed) {
        drop(owned);
        owner.client.holdings.lock().forget_state();
        // An owner that was forgotten a moment ago is there again when it is named again.
        return known.ok_or(NfsStat4::DELAY.into());
    }
    let locks = Arc::new(LockState::new(owner.client.next_key(), owner, open));
    owned.insert(open.file, Arc::clone(&locks));
    open.locks.lock().push(Arc::clone(&locks));
    state.insert_locks(&locks);
    Ok(locks)
}

fn take(
    c: &mut Compound,
    state: &State,
    locks: &Arc<LockState>,
    open: &Open,
    range: LockRange,
    out: &mut ReplyWriter,
) -> Answer {
    let taken = try_take(c, locks, open, range);
    if locks.seqid() == 0 && !matches!(taken, Ok(Ok(()))) {
        // The client was never told of it.
        open.locks.lock().retain(|known| !Arc::ptr_eq(known, locks));
        state.release(locks);
    }
    match taken? {
        Ok(()) => {
            let stateid = state.boot.stateid(locks.key, locks.advance());
            c.stateid = Some(stateid);
            answer(Ok(stateid), out)
        }
        Err(conflict) => deny(state, &conflict, out),
    }
}

fn try_take(c: &Compound, locks: &LockState, open: &Open, range: LockRange) -> Done<Result<(), LockConflict>> {
    let mode = open.mode().ok_or(NfsStat4::BAD_STATEID)?;
    if !(if range.exclusive { mode.writes() } else { mode.reads() }) {
        return Err(NfsStat4::OPENMODE.into());
    }
    let server = &c.cx.server;
    // Who caches the file may not go on doing so over a range that another one locks (MS-FSA 2.1.5.8).
    if range.exclusive
        && let Outcome::Wait(ticket) = open.claim.prepare(server.now(), Change::Write)?
    {
        server.table.give_up(open.file, ticket);
        return Err(NfsStat4::DELAY.into());
    }
    match server.table.lock_posix(open.file, locks.owner.number, range, false) {
        Ok(LockOutcome::Held) if open.is_closed() => {
            // Whoever closed it has unlocked already.
            server.table.release_posix(open.file, locks.owner.number);
            Err(NfsStat4::BAD_STATEID.into())
        }
        Ok(LockOutcome::Held) => Ok(Ok(())),
        // Nobody asked to wait.
        Ok(LockOutcome::Wait(_)) => Err(NfsStat4::DELAY.into()),
        Err(Refused::Conflict(conflict)) => Ok(Err(conflict)),
        Err(Refused::InvalidRange) => Err(NfsStat4::INVAL.into()),
        Err(Refused::TooMany) => Err(out_of_resources(&locks.owner.client).into()),
    }
}

/// Says what is in the way and whose it is.
fn deny(state: &State, conflict: &LockConflict, out: &mut ReplyWriter) -> Answer {
    let owner = match conflict.owner {
        Holder::Posix(number) => state.lock_owner_of(number),
        Holder::Open(_) => None,
    };
    let (client_id, name) = owner.as_ref().map_or((0, FOREIGN), |owner| (owner.client.id, &owner.name));
    let to_end = conflict.offset.checked_add(conflict.len).is_none_or(|end| end == u64::MAX);
    let denied = LockDenied {
        offset_bytes: conflict.offset,
        len_bytes: if to_end { u64::MAX } else { conflict.len },
        lock_type: if conflict.exclusive { LockType::Write } else { LockType::Read },
        owner: StateOwner { client_id, owner: Bounded(name) },
    };
    let result: LockRes<'_> = Err(LockError::Denied(denied));
    result.put(out);
    Ok(NfsStat4::DENIED)
}

pub fn lockt(c: &mut Compound, args: &LocktArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let file = current_file(c)?;
    let range = range_of(args.offset_bytes, args.len_bytes, args.lock_type)?;
    let state = &c.cx.server.state;
    let client = state.client_of(c, args.owner.client_id)?;
    if state.grace.is_on(state.now_ms()) {
        return Err(NfsStat4::GRACE.into());
    }
    let number = state.known_lock_owner(&client, &args.owner.owner).map_or(NOBODY, |owner| owner.number);
    let table = &c.cx.server.table;
    let conflict = || table.test_posix(file, number, range);
    let found = match conflict() {
        Some(_) if state.give_way(file) => conflict(),
        found => found,
    };
    match found {
        None => answer(Ok(()), out),
        Some(conflict) => deny(state, &conflict, out),
    }
}

pub fn locku(c: &mut Compound, args: &LockuArgs, out: &mut ReplyWriter) -> Answer {
    let file = current_file(c)?;
    let range = range_of(args.offset_bytes, args.len_bytes, args.lock_type)?;
    let state = Arc::clone(&c.cx.server.state);
    let stateid = c.resolve(args.stateid)?;
    let locks = state.locks_of(c, &stateid)?;
    let owner = Arc::clone(&locks.owner);
    let mut sequence = owner.sequence.try_lock().ok_or(NfsStat4::DELAY)?;
    by_lock_owner(c, &mut sequence, (args.seqid, OpNum::Locku), out, |c, out| {
        if locks.file != file {
            return Err(NfsStat4::BAD_STATEID.into());
        }
        check_generation(c, &stateid, locks.seqid())?;
        match c.cx.server.table.unlock_posix(file, owner.number, range) {
            Ok(()) => {}
            Err(Refused::TooMany) => return Err(out_of_resources(&owner.client).into()),
            Err(_) => return Err(NfsStat4::INVAL.into()),
        }
        let stateid = state.boot.stateid(locks.key, locks.advance());
        c.stateid = Some(stateid);
        answer(Ok(stateid), out)
    })
}

pub fn release_lockowner(c: &mut Compound, args: &StateOwner<'_>, out: &mut ReplyWriter) -> Answer {
    let state = &c.cx.server.state;
    let client: Arc<Client> = state.plain_client(args.client_id)?;
    debug_assert!(client.family == Family::Plain);
    if let Some(owner) = state.known_lock_owner(&client, &args.owner) {
        let files: Vec<FileId> = owner.locks.lock().keys().copied().collect();
        if files.iter().any(|file| c.cx.server.table.holds_posix(*file, owner.number)) {
            return Err(NfsStat4::LOCKS_HELD.into());
        }
        state.forget_lock_owner(&owner);
    }
    answer(Ok(()), out)
}

/// The current file: only regular files have ranges.
fn current_file(c: &Compound) -> Done<FileId> {
    let target = c.target_or(NfsStat4::ISDIR)?;
    match target.object.node.kind() {
        FileKind::File => Ok(target.object.node.id()),
        FileKind::Directory => Err(NfsStat4::ISDIR.into()),
        _ => Err(NfsStat4::INVAL.into()),
    }
}

/// All ones reach to the end of any file; another length must end below it (RFC 8881 18.10.3).
fn range_of(offset: u64, len: u64, lock_type: LockType) -> Done<LockRange> {
    let exclusive = lock_type.is_exclusive();
    match len {
        0 => Err(NfsStat4::INVAL.into()),
        // Bytes that no file has.
        u64::MAX if offset == u64::MAX => Ok(LockRange { offset, len: 1, exclusive }),
        u64::MAX => Ok(LockRange::to_end(offset, exclusive)),
        _ if offset.checked_add(len).is_none() => Err(NfsStat4::INVAL.into()),
        _ => Ok(LockRange { offset, len, exclusive }),
    }
}

impl State {
    fn insert_locks(&self, locks: &Arc<LockState>) {
        self.held.insert(locks.key, Held::Lock(Arc::clone(locks)));
    }
}
