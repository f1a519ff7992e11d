//! Where the table's effects go: tickets to the requests that wait for them, breaks to the connection of the holder.
//! Called from whatever thread caused the effect, with no lock of the table held; keeps its own locks short and calls
//! nobody while holding one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use coherence::{Deletion, Effect, EffectSink, Ticket};
use futures_channel::oneshot;
use parking_lot::Mutex;
use smb_wire::smb2::FileHandle;
use vfs::FileId;

use crate::grants::{LeaseName, lease_name};
use crate::handlers::close::Owed;
use crate::mailbox::{Letter, Mailbox, Notice};
use crate::server::Server;
use crate::session::Session;

/// What became of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketEnd {
    /// Ask again.
    Ready,
    /// The ranges are locked.
    Granted,
    /// They never will be.
    Abandoned,
}

/// A ticket's state; its effect may come before anybody asks for it.
enum Slot {
    Arrived(TicketEnd),
    Waiting(oneshot::Sender<TicketEnd>),
    /// Nobody is interested any more.
    Dropped,
}

/// Where a grant's holder is reached.
#[derive(Clone)]
pub struct Address {
    /// The connection.
    pub mailbox: Arc<Mailbox>,
    /// The session of the open.
    pub session: Weak<Session>,
    /// The open.
    pub handle: FileHandle,
    /// Whether its share wants encryption.
    pub seal: bool,
}

/// One open that holds, or may come to hold, a grant.
enum Route {
    /// Its CREATE is not done; what has come meanwhile is kept.
    Opening(Vec<Notice>),
    /// It is connected.
    At(Address),
    /// It outlives its connection.
    Disconnected,
}

struct Lease {
    file: FileId,
    v2: bool,
    directory: bool,
    members: Vec<u64>,
}

#[derive(Default)]
struct Routes {
    opens: HashMap<u64, Route>,
    leases: HashMap<LeaseName, Lease>,
}

/// The router of a server.
pub struct Router {
    server: Weak<Server>,
    tickets: Mutex<HashMap<Ticket, Slot>>,
    routes: Mutex<Routes>,
    directory_leases: AtomicUsize,
}

/// The lease key is in use for another file (MS-SMB2 3.3.5.9.8: STATUS_INVALID_PARAMETER).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseInUse;

/// A lease that an open takes part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// Which.
    pub name: LeaseName,
    /// On which file.
    pub file: FileId,
    /// Asked for by a context of version 2.
    pub v2: bool,
    /// The file is a directory.
    pub directory: bool,
}

/// An open's place in the router; given up when dropped.
pub struct Enrolled {
    router: Arc<Router>,
    id: u64,
    lease: Option<LeaseName>,
    v2: bool,
    left: AtomicBool,
}

/// Where a notice goes.
enum Way {
    Nowhere,
    Post(Address, bool),
    /// The holder's opens outlive their connection.
    Disconnected(Vec<u64>),
}

impl Router {
    /// A router for `server`.
    pub fn new(server: Weak<Server>) -> Self {
        Self { server, tickets: Mutex::default(), routes: Mutex::default(), directory_leases: AtomicUsize::new(0) }
    }

    /// Makes a place for the open `id` before the table is asked, so that no break can miss it.
    pub fn enroll(self: &Arc<Self>, id: u64, lease: Option<Membership>) -> Result<Enrolled, LeaseInUse> {
        let mut routes = self.routes.lock();
        let mut v2 = false;
        if let Some(member) = lease {
            let lease = routes.leases.entry(member.name).or_insert_with(|| {
                self.directory_leases.fetch_add(usize::from(member.directory), Ordering::Relaxed);
                Lease { file: member.file, v2: member.v2, directory: member.directory, members: Vec::new() }
            });
            if lease.file != member.file {
                return Err(LeaseInUse);
            }
            lease.members.push(id);
            v2 = lease.v2;
        }
        routes.opens.insert(id, Route::Opening(Vec::new()));
        let lease = lease.map(|l| l.name);
        Ok(Enrolled { router: Arc::clone(self), id, lease, v2, left: AtomicBool::new(false) })
    }

    /// The file a lease is on.
    pub fn lease_file(&self, name: &LeaseName) -> Option<FileId> {
        self.routes.lock().leases.get(name).map(|lease| lease.file)
    }

    /// Whether anybody may hold a lease on a directory.
    pub fn has_directory_leases(&self) -> bool {
        self.directory_leases.load(Ordering::Relaxed) > 0
    }

    /// A future for what becomes of `ticket`.
    pub fn turn(self: &Arc<Self>, file: FileId, ticket: Ticket) -> Turn {
        let (sender, receiver) = oneshot::channel();
        let mut tickets = self.tickets.lock();
        let mut early = None;
        match tickets.remove(&ticket) {
            Some(Slot::Arrived(end)) => early = Some(end),
            _ => {
                tickets.insert(ticket, Slot::Waiting(sender));
            }
        }
        Turn { router: Arc::clone(self), file, ticket, early, receiver, done: false }
    }

    fn arrive(&self, ticket: Ticket, end: TicketEnd) {
        let mut tickets = self.tickets.lock();
        match tickets.remove(&ticket) {
            Some(Slot::Waiting(sender)) => {
                drop(tickets);
                // Whoever waited may be gone with its connection.
                let _ = sender.send(end);
            }
            Some(Slot::Dropped) => {}
            _ => {
                tickets.insert(ticket, Slot::Arrived(end));
            }
        }
    }

    /// Brings a notice to the holder; `owner` is the open that an oplock is of.
    pub fn deliver(&self, notice: Notice, owner: u64) {
        match self.way(notice, owner) {
            Way::Nowhere => {}
            Way::Post(address, epoch) => {
                if let Err(letter) = post(address, notice, epoch) {
                    self.undeliverable(letter.notice, vec![owner]);
                }
            }
            Way::Disconnected(opens) => self.undeliverable(notice, opens),
        }
    }

    fn way(&self, notice: Notice, owner: u64) -> Way {
        let mut routes = self.routes.lock();
        let Routes { opens, leases } = &mut *routes;
        let lease = lease_name(&notice.holder).map(|name| leases.get(&name));
        let (members, v2) = match lease {
            Some(None) => return Way::Nowhere,
            Some(Some(lease)) => (lease.members.as_slice(), lease.v2),
            None => (std::slice::from_ref(&owner), false),
        };
        let connected = members.iter().find_map(|id| match opens.get(id) {
            Some(Route::At(address)) => Some(address.clone()),
            _ => None,
        });
        if let Some(address) = connected {
            return Way::Post(address, v2);
        }
        for id in members {
            if let Some(Route::Opening(pending)) = opens.get_mut(id) {
                pending.push(notice);
                return Way::Nowhere;
            }
        }
        match members.is_empty() {
            true => Way::Nowhere,
            false => Way::Disconnected(members.to_vec()),
        }
    }

    /// Nobody is there to be told: opens without a connection are closed when somebody else needs what they hold
    /// (MS-SMB2 3.3.4.6, 3.3.4.7).
    fn undeliverable(&self, notice: Notice, opens: Vec<u64>) {
        if !notice.acknowledge {
            return;
        }
        let Some(server) = self.server.upgrade() else { return };
        let mut stays = false;
        for id in opens {
            stays |= server.purge_durable(id);
        }
        if stays {
            // Nobody is there who could say that it is given up: its client finds that when it comes back.
            let _ = server.table.acknowledge(server.now(), notice.file, &notice.holder, notice.to);
        }
    }
}

/// Leaves a notice where the open was made; when that connection is over, with any other of its session (MS-SMB2
/// 3.3.4.6, 3.3.4.7).
fn post(address: Address, notice: Notice, epoch: bool) -> Result<(), Letter> {
    let Address { mailbox, session, handle, seal } = address;
    let others = session.clone();
    let mut letter = Letter { notice, handle, session, seal, epoch };
    match mailbox.post(letter) {
        Ok(()) => return Ok(()),
        Err(back) => letter = back,
    }
    for other in others.upgrade().map(|s| s.channels()).unwrap_or_default() {
        match other.post(letter) {
            Ok(()) => return Ok(()),
            Err(back) => letter = back,
        }
    }
    Err(letter)
}

impl EffectSink for Router {
    fn effect(&self, effect: Effect) {
        match effect {
            Effect::Ready(ticket) => self.arrive(ticket, TicketEnd::Ready),
            Effect::Granted(ticket) => self.arrive(ticket, TicketEnd::Granted),
            Effect::Abandoned(ticket) => self.arrive(ticket, TicketEnd::Abandoned),
            Effect::Break { file, holder, owner, from, to, epoch, deadline } => {
                let notice = Notice { file, holder, from, to, epoch, acknowledge: deadline.is_some() };
                self.deliver(notice, owner.0);
            }
            Effect::Revoked { file, holder, .. } => {
                tracing::info!(?file, ?holder, "a client did not acknowledge a break in time");
            }
        }
    }

    fn forget(&self, ticket: Ticket) {
        let mut tickets = self.tickets.lock();
        match tickets.remove(&ticket) {
            Some(Slot::Arrived(_)) => {}
            // Its effect is on its way.
            _ => drop(tickets.insert(ticket, Slot::Dropped)),
        }
    }

    fn orphaned(&self, deletion: Deletion) {
        if self.server.strong_count() == 0 {
            // The server ends, and persistent opens go on after it.
            return;
        }
        match Owed::orphan(deletion) {
            // A worker sees to it.
            Some(owed) => drop(owed),
            None => tracing::debug!("nobody left word how a file is to be deleted: it stays"),
        }
    }
}

impl Enrolled {
    /// The lease it takes part in.
    pub fn lease(&self) -> Option<LeaseName> {
        self.lease
    }

    /// Whether that lease is of version 2: whoever took it first decides for all.
    pub fn is_v2(&self) -> bool {
        self.v2
    }

    /// The open is made, or made again: from now on it is reached at `address`.
    pub fn connected(&self, address: Address) {
        let before = self.router.routes.lock().opens.insert(self.id, Route::At(address));
        if let Some(Route::Opening(notices)) = before {
            notices.into_iter().for_each(|notice| self.router.deliver(notice, self.id));
        }
    }

    /// The open outlives its connection.
    pub fn disconnected(&self) {
        self.router.routes.lock().opens.insert(self.id, Route::Disconnected);
    }

    /// The open is about to be connected again; what comes meanwhile is kept.
    pub fn reopening(&self) {
        self.router.routes.lock().opens.insert(self.id, Route::Opening(Vec::new()));
    }

    /// The open is closed. Later calls do nothing.
    pub fn leave(&self) {
        if self.left.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut routes = self.router.routes.lock();
        routes.opens.remove(&self.id);
        let Some(name) = self.lease else { return };
        let Some(lease) = routes.leases.get_mut(&name) else { return };
        lease.members.retain(|member| *member != self.id);
        if lease.members.is_empty() {
            self.router.directory_leases.fetch_sub(usize::from(lease.directory), Ordering::Relaxed);
            routes.leases.remove(&name);
        }
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A request's place in a line of the table; given up when dropped.
pub struct Turn {
    router: Arc<Router>,
    file: FileId,
    ticket: Ticket,
    early: Option<TicketEnd>,
    receiver: oneshot::Receiver<TicketEnd>,
    done: bool,
}

impl Turn {
    /// What became of it, if that is known already.
    pub fn now(&mut self) -> Option<TicketEnd> {
        let end = self.early.or_else(|| self.receiver.try_recv().ok().flatten());
        self.done |= end.is_some();
        end
    }

    /// Waits for what becomes of it.
    pub async fn end(&mut self) -> TicketEnd {
        if let Some(end) = self.early {
            self.done = true;
            return end;
        }
        let end = (&mut self.receiver).await;
        self.done = true;
        // The router keeps the sender until it has sent.
        end.unwrap_or(TicketEnd::Abandoned)
    }

    /// Steps out of the line; `Some` when it is too late for that.
    pub async fn give_up(mut self) -> Option<TicketEnd> {
        let server = self.router.server.upgrade()?;
        if server.table.cancel(self.file, self.ticket) {
            self.done = true;
            self.router.tickets.lock().remove(&self.ticket);
            return None;
        }
        Some(self.end().await)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.done || self.early.is_some() {
            return;
        }
        let cancelled = self.router.server.upgrade().is_none_or(|s| s.table.cancel(self.file, self.ticket));
        let mut tickets = self.router.tickets.lock();
        if cancelled {
            tickets.remove(&self.ticket);
        } else if let Some(slot) = tickets.get_mut(&self.ticket) {
            *slot = Slot::Dropped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coherence::{Caching, HolderKey, OpenId, Owner};
    use futures_util::FutureExt;

    const FILE: FileId = FileId { dev: 1, ino: 2, generation: 3 };
    const LEASE: LeaseName = ([1; 16], [2; 16]);

    fn router() -> Arc<Router> {
        Arc::new(Router::new(Weak::new()))
    }

    fn address(mailbox: &Arc<Mailbox>) -> Address {
        let handle = FileHandle { persistent: 7, volatile: 8 };
        Address { mailbox: Arc::clone(mailbox), session: Weak::new(), handle, seal: false }
    }

    fn broken(holder: HolderKey) -> Effect {
        let (from, to) = (Caching::all(), Caching::READ);
        Effect::Break { file: FILE, holder, owner: Owner(7), from, to, epoch: 1, deadline: None }
    }

    fn member(file: FileId) -> Option<Membership> {
        Some(Membership { name: LEASE, file, v2: true, directory: true })
    }

    #[test]
    fn a_ticket_may_be_called_before_anybody_waits_for_it() {
        let router = router();
        router.effect(Effect::Granted(Ticket(1)));
        assert_eq!(router.turn(FILE, Ticket(1)).end().now_or_never(), Some(TicketEnd::Granted));
        let mut turn = router.turn(FILE, Ticket(2));
        assert_eq!(turn.now(), None);
        router.effect(Effect::Ready(Ticket(2)));
        assert_eq!(turn.end().now_or_never(), Some(TicketEnd::Ready));
        drop(turn);
        assert!(router.tickets.lock().is_empty(), "nothing is kept of what is over");
    }

    #[test]
    fn a_ticket_that_nobody_wants_is_forgotten_before_and_after_its_effect() {
        let router = router();
        router.effect(Effect::Ready(Ticket(1)));
        router.forget(Ticket(1));
        router.forget(Ticket(2));
        router.effect(Effect::Ready(Ticket(2)));
        assert!(router.tickets.lock().is_empty());
    }

    #[test]
    fn a_break_that_comes_before_the_create_is_done_is_kept_for_it() {
        let (router, mailbox) = (router(), Arc::new(Mailbox::default()));
        let place = router.enroll(7, None).unwrap();
        router.effect(broken(HolderKey::Open(OpenId(0))));
        place.connected(address(&mailbox));
        assert_eq!(mailbox.take().len(), 1);
        router.effect(broken(HolderKey::Open(OpenId(0))));
        assert_eq!(mailbox.take().len(), 1);
        drop(place);
        router.effect(broken(HolderKey::Open(OpenId(0))));
        assert!(mailbox.take().is_empty());
    }

    #[test]
    fn a_lease_is_told_through_any_of_its_opens_and_belongs_to_one_file() {
        let (router, mailbox) = (router(), Arc::new(Mailbox::default()));
        let holder = HolderKey::Lease { client: LEASE.0, key: LEASE.1 };
        let first = router.enroll(7, member(FILE)).unwrap();
        assert_eq!(router.enroll(8, member(FileId { ino: 9, ..FILE })).err(), Some(LeaseInUse));
        let second = router.enroll(9, member(FILE)).unwrap();
        second.connected(address(&mailbox));
        drop(first);
        router.effect(broken(holder));
        assert_eq!(mailbox.take().len(), 1);
        assert!(router.has_directory_leases());
        drop(second);
        assert!(!router.has_directory_leases());
        assert_eq!(router.lease_file(&LEASE), None);
    }
}
