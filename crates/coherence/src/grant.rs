//! The caching grants on one file: who holds what, what is being broken, who waits for it. Called by the file entry
//! under its lock; absent on a file nobody asked a grant for. The rules it applies are in `grant_rules`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use vfs::FileId;

use crate::effect::{Out, Timer};
use crate::grant_rules::{self, Around, Caching, Change, HolderKey};
use crate::share::ShareCounts;
use crate::{AccessKinds, Effect, GrantRequest, Instant, Limits, Owner, Ticket};

/// What an acknowledgement got wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckError {
    /// Nobody of this key holds a grant on the file: STATUS_OBJECT_NAME_NOT_FOUND.
    NoGrant,
    /// No break is under way: STATUS_UNSUCCESSFUL (MS-SMB2 3.3.5.22.2), STATUS_INVALID_OPLOCK_PROTOCOL.
    NotBreaking,
    /// More is claimed than the break left: STATUS_REQUEST_NOT_ACCEPTED.
    TooMuch,
    /// The acknowledgement came after the deadline; the grant is gone.
    Revoked,
}

/// What a holder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GrantState {
    /// What may be cached, until a break under way is acknowledged.
    pub caching: Caching,
    /// What the break under way leaves, if one is.
    pub breaking_to: Option<Caching>,
    /// The lease epoch.
    pub epoch: u16,
    /// A break was not acknowledged in time.
    pub revoked: bool,
}

#[derive(Debug, Clone, Copy)]
struct Break {
    /// What the holder was told it may keep.
    to: Caching,
    /// What later changes will leave of that; told once this break is over.
    then: Caching,
    deadline: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct Holder {
    /// Which of the file's holders it is, from 1 on. No other has had the number while an open of this one is there.
    number: u32,
    state: Caching,
    breaking: Option<Break>,
    revoked: bool,
    epoch: u16,
    owner: Owner,
    opens: u32,
    data_opens: u32,
    write_opens: u32,
}

/// How many holders have what, so that an open need not look at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    any: u32,
    write: u32,
    handle: u32,
    level_two: u32,
    delegations: u32,
    breaking: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Grants {
    holders: BTreeMap<HolderKey, Holder>,
    tally: Tally,
    waiting: Vec<Ticket>,
    numbered: u32,
}

/// Holders beyond this many, one after the other on a file that was never free of them, have no number.
const MOST_NUMBERED: u32 = u32::MAX >> 2;

/// When, on what and within which bounds a call happens, and where its effects go.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) file: FileId,
    pub(crate) limits: &'a Limits,
    /// How long the holder of a delegation has.
    pub(crate) recall_deadline_ms: u64,
    pub(crate) tickets: &'a AtomicU64,
    pub(crate) out: &'a mut Out,
}

impl Context<'_> {
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.tickets.fetch_add(1, Ordering::Relaxed))
    }
}

impl Tally {
    fn of(key: &HolderKey, holder: &Holder) -> Self {
        let held = !holder.state.is_empty();
        let oplock = matches!(key, HolderKey::Open(_));
        let one = u32::from;
        Self {
            any: one(held),
            write: one(holder.state.contains(Caching::WRITE)),
            handle: one(holder.state.contains(Caching::HANDLE)),
            level_two: one(oplock && holder.state == Caching::READ),
            delegations: one(held && matches!(key, HolderKey::Client(_))),
            breaking: one(holder.breaking.is_some()),
        }
    }

    fn combine(self, other: Self, with: impl Fn(u32, u32) -> u32) -> Self {
        Self {
            any: with(self.any, other.any),
            write: with(self.write, other.write),
            handle: with(self.handle, other.handle),
            level_two: with(self.level_two, other.level_two),
            delegations: with(self.delegations, other.delegations),
            breaking: with(self.breaking, other.breaking),
        }
    }

    fn minus(self, other: Self) -> Self {
        self.combine(other, |a, b| a - b)
    }

    fn plus(self, other: Self) -> Self {
        self.combine(other, |a, b| a + b)
    }

    /// Whether any holder could mind `change`.
    fn concerned(&self, change: Change) -> bool {
        match change {
            Change::Open { overwrite: false, .. } | Change::Read | Change::Inspect => self.write + self.delegations > 0,
            Change::Rename | Change::Delete | Change::ShareConflict => self.handle + self.delegations > 0,
            Change::Attributes => self.delegations > 0,
            Change::Write | Change::Children | Change::Open { overwrite: true, .. } => self.any > 0,
        }
    }
}

impl Grants {
    pub(crate) fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiting.is_empty()
    }

    /// Whether anyone holds anything a change could break.
    pub(crate) fn any_held(&self) -> bool {
        self.tally.any > 0
    }

    /// The number of a holder; 0 when it has none, or is one whose own writes break what it has.
    pub(crate) fn number(&self, key: &HolderKey) -> u32 {
        match key {
            HolderKey::Open(_) => 0,
            HolderKey::Lease { .. } | HolderKey::Client(_) => self.holders.get(key).map_or(0, |holder| holder.number),
        }
    }

    /// The number of the holder that has all that is granted, when it is known without looking at more than one.
    pub(crate) fn sole(&self) -> u32 {
        match self.holders.first_key_value() {
            Some((key, _)) if self.holders.len() == 1 => self.number(key),
            _ => 0,
        }
    }

    pub(crate) fn holders(&self) -> usize {
        self.holders.len()
    }

    pub(crate) fn state(&self, key: &HolderKey) -> Option<GrantState> {
        self.holders.get(key).map(|holder| GrantState {
            caching: holder.state,
            breaking_to: holder.breaking.map(|broken| broken.to),
            epoch: holder.epoch,
            revoked: holder.revoked,
        })
    }

    /// Tells every other holder what `change` costs it; whether the change must wait for one of them.
    pub(crate) fn contend(&mut self, cx: &mut Context<'_>, change: Change, by: Option<&HolderKey>) -> bool {
        if !self.tally.concerned(change) {
            return false;
        }
        let mut wait = false;
        let minding: Vec<HolderKey> = self
            .holders
            .iter()
            .filter(|(key, holder)| by != Some(key) || grant_rules::breaks_itself(change, key, holder.state))
            .filter(|(key, holder)| !grant_rules::lost(change, key, holder.state).is_empty())
            .map(|(key, _)| *key)
            .collect();
        for key in minding {
            self.with(&key, |holder| {
                let lost = grant_rules::lost(change, &key, holder.state);
                wait |= grant_rules::waits(change, &key, lost);
                match &mut holder.breaking {
                    Some(broken) => broken.then &= !lost,
                    None => {
                        let to = holder.state & !lost;
                        holder.epoch = holder.epoch.wrapping_add(1);
                        start_break(&key, holder, to, to, cx);
                    }
                }
            });
        }
        wait
    }

    /// Puts an operation that must wait on the list. False when the list is full.
    pub(crate) fn enlist(&mut self, ticket: Ticket, limits: &Limits) -> bool {
        let room = self.waiting.len() < limits.waiters_per_file;
        if room {
            self.waiting.push(ticket);
        }
        room
    }

    /// Takes a waiting operation off the list; false when it is not on it.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| *waiting != ticket);
        self.waiting.len() < before
    }

    /// Counts an open of `key` in and grants it what may be granted of what it wants. `counts` are the share counts
    /// with this open in them.
    pub(crate) fn opened(
        &mut self,
        key: &HolderKey,
        owner: Owner,
        access: AccessKinds,
        request: GrantRequest,
        counts: &ShareCounts,
        locks: bool,
    ) -> GrantState {
        let fresh = !self.holders.contains_key(key);
        self.numbered += u32::from(fresh && self.numbered < MOST_NUMBERED);
        let number = if self.numbered < MOST_NUMBERED { self.numbered } else { 0 };
        self.with(key, |holder| {
            if fresh {
                holder.number = number;
                holder.epoch = request.epoch;
            }
            // A client that opens again has learnt that its lease is gone.
            holder.revoked &= !matches!(key, HolderKey::Lease { .. });
            holder.opens += 1;
            holder.data_opens += u32::from(!access.is_empty());
            holder.write_opens += u32::from(access.contains(AccessKinds::WRITE));
        });
        let around = self.around(key, counts, locks);
        self.with(key, |holder| {
            let granted = grant_rules::grantable(request.want, key, &around);
            let settled = holder.breaking.is_none() && !holder.revoked;
            // Who has something already is given all of what it asks for or nothing more.
            let whole = holder.state.is_empty() || granted == request.want;
            if settled && whole && granted.contains(holder.state) && granted != holder.state {
                holder.state = granted;
                holder.epoch = holder.epoch.wrapping_add(1);
                holder.owner = owner;
            }
        });
        self.state(key).unwrap_or_default()
    }

    /// Counts an open of `key` out. An oplock or lease goes with its last open, a delegation stays until returned.
    pub(crate) fn closed(&mut self, cx: &mut Context<'_>, key: &HolderKey, access: AccessKinds) {
        let mut gone = false;
        self.with(key, |holder| {
            holder.opens = holder.opens.saturating_sub(1);
            holder.data_opens = holder.data_opens.saturating_sub(u32::from(!access.is_empty()));
            holder.write_opens = holder.write_opens.saturating_sub(u32::from(access.contains(AccessKinds::WRITE)));
            let delegation = matches!(key, HolderKey::Client(_)) && (!holder.state.is_empty() || holder.revoked);
            gone = holder.opens == 0 && !delegation;
        });
        if gone {
            self.forget(cx, key);
        }
    }

    /// Notes that an open of `key` changed what it may do.
    pub(crate) fn reshared(&mut self, key: &HolderKey, before: AccessKinds, after: AccessKinds) {
        let count = |access: AccessKinds, kinds: AccessKinds| u32::from(access.intersects(kinds));
        self.with(key, |holder| {
            holder.data_opens =
                holder.data_opens + count(after, AccessKinds::all()) - count(before, AccessKinds::all());
            holder.write_opens =
                holder.write_opens + count(after, AccessKinds::WRITE) - count(before, AccessKinds::WRITE);
        });
    }

    /// The holder keeps `kept` and no more (MS-SMB2 3.3.5.22). What it holds now; a break that later changes asked for
    /// starts at once, one kind of caching at a time and under the same epoch, as Windows does, and whoever waits goes on
    /// waiting until the last of it is acknowledged.
    pub(crate) fn acknowledge(
        &mut self,
        cx: &mut Context<'_>,
        key: &HolderKey,
        kept: Caching,
    ) -> Result<Caching, AckError> {
        let holder = self.holders.get(key).ok_or(AckError::NoGrant)?;
        let Some(broken) = holder.breaking else {
            return Err(if holder.revoked { AckError::Revoked } else { AckError::NotBreaking });
        };
        if !broken.to.contains(kept) {
            return Err(AckError::TooMuch);
        }
        let mut over = true;
        self.with(key, |holder| {
            end_break(key, holder, cx);
            holder.state = kept;
            let further = kept & broken.then;
            if further != kept {
                start_break(key, holder, grant_rules::next_step(kept, further), further, cx);
                over = holder.breaking.is_none();
            }
        });
        self.drop_if_unused(cx, key);
        if over {
            self.wake(cx.out);
        }
        Ok(kept)
    }

    /// The holder gives back all it has, asked or not (DELEGRETURN). False when it has nothing.
    pub(crate) fn give_back(&mut self, cx: &mut Context<'_>, key: &HolderKey) -> bool {
        if !self.holders.contains_key(key) {
            return false;
        }
        self.with(key, |holder| {
            end_break(key, holder, cx);
            holder.state = Caching::empty();
            holder.revoked = false;
        });
        self.drop_if_unused(cx, key);
        self.wake(cx.out);
        true
    }

    /// Takes the grant of `key` away if its break is overdue.
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>, key: &HolderKey) {
        let due = self.holders.get(key).and_then(|holder| holder.breaking).is_some_and(|b| b.deadline <= cx.now);
        if !due {
            return;
        }
        self.with(key, |holder| {
            holder.breaking = None;
            holder.state = Caching::empty();
            holder.revoked = true;
            holder.epoch = holder.epoch.wrapping_add(1);
            cx.out.effects.push(Effect::Revoked { file: cx.file, holder: *key, owner: holder.owner });
        });
        self.wake(cx.out);
    }

    fn around(&self, key: &HolderKey, counts: &ShareCounts, locks: bool) -> Around {
        let own = self.holders.get(key).copied().unwrap_or_default();
        let others = self.tally.minus(Tally::of(key, &own));
        Around {
            opens: counts.data_opens() > own.data_opens,
            writers: counts.writers() > own.write_opens,
            write_grant: others.write > 0,
            any_grant: others.any > 0,
            breaking: others.breaking > 0,
            level_two: others.level_two > 0,
            handle_lease: others.handle > 0,
            locks,
        }
    }

    /// Changes one holder, made if absent, and keeps the tally true.
    fn with(&mut self, key: &HolderKey, change: impl FnOnce(&mut Holder)) {
        let holder = self.holders.entry(*key).or_default();
        let before = Tally::of(key, holder);
        change(holder);
        self.tally = self.tally.minus(before).plus(Tally::of(key, holder));
    }

    fn drop_if_unused(&mut self, cx: &mut Context<'_>, key: &HolderKey) {
        let unused = |h: &Holder| h.opens == 0 && h.state.is_empty() && h.breaking.is_none() && !h.revoked;
        if self.holders.get(key).is_some_and(unused) {
            self.forget(cx, key);
        }
    }

    fn forget(&mut self, cx: &mut Context<'_>, key: &HolderKey) {
        if let Some(mut holder) = self.holders.remove(key) {
            self.tally = self.tally.minus(Tally::of(key, &holder));
            end_break(key, &mut holder, cx);
            self.wake(cx.out);
        }
    }

    fn wake(&mut self, out: &mut Out) {
        out.effects.extend(self.waiting.drain(..).map(Effect::Ready));
    }
}

/// Tells the holder that it may keep `to`, and either waits for its answer, after which it will be left with `then`, or
/// takes the difference at once.
fn start_break(key: &HolderKey, holder: &mut Holder, to: Caching, then: Caching, cx: &mut Context<'_>) {
    let from = holder.state;
    let answered = grant_rules::acknowledges(key, from);
    let patience_ms = match key {
        HolderKey::Client(_) => cx.recall_deadline_ms,
        _ => cx.limits.break_deadline_ms,
    };
    let deadline = cx.now.after_ms(patience_ms);
    if answered {
        holder.breaking = Some(Break { to, then, deadline });
        cx.out.timers.push(Timer { when: deadline, holder: *key, set: true });
    } else {
        holder.state = to;
    }
    cx.out.effects.push(Effect::Break {
        file: cx.file,
        holder: *key,
        owner: holder.owner,
        from,
        to,
        epoch: holder.epoch,
        deadline: answered.then_some(deadline),
    });
}

fn end_break(key: &HolderKey, holder: &mut Holder, cx: &mut Context<'_>) {
    if let Some(broken) = holder.breaking.take() {
        cx.out.timers.push(Timer { when: broken.deadline, holder: *key, set: false });
    }
}
