//! What hosts hold through the lock manager: owners with the files they have locked in, shares, locks waited for. Plain
//! tables without a rule about ranges; `locks` and `grants` keep them in step with the table of claims.

use std::collections::HashMap;
use std::net::IpAddr;

use coherence::{LockRange, OpenClaim, Owner, Ticket};
use vfs::FileId;

/// Hosts that may hold something.
const MOST_HOSTS: usize = 4096;
/// Files an owner has locks in, summed over a host's owners; and its shares.
const MOST_PER_HOST: usize = 1 << 16;
/// Locks a host may wait for, and all of them.
const MOST_WAITING: usize = 1024;
const MOST_WAITING_IN_ALL: usize = 1 << 14;
/// What the names of all owners may take: a client makes them as long as it likes.
const MOST_NAME_BYTES: usize = 64 << 20;

/// Who on a host: the name the host gives itself, the owner and the process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub caller: Box<[u8]>,
    pub owner: Box<[u8]>,
    pub svid: i32,
}

impl Name {
    /// About what it takes to remember it.
    fn cost_bytes(&self) -> usize {
        self.caller.len() + 2 * self.owner.len() + 128
    }
}

/// An owner of locks.
pub(super) struct Holder {
    pub number: Owner,
    /// Where it has locks, or waits for some, and by which handles the files were named.
    pub files: HashMap<FileId, Box<[u8]>>,
}

/// A share (X/Open C702 10.3, DOS sharing).
pub(super) struct Shared {
    pub owner: Name,
    pub file: FileId,
    pub claim: OpenClaim,
}

/// One host.
#[derive(Default)]
pub(super) struct Host {
    pub owners: HashMap<Name, Holder>,
    pub shares: Vec<Shared>,
    /// The state number its calls bore last, and the one it was last said to have restarted with.
    pub state: i32,
    pub notified: Option<i32>,
    files: usize,
    waiting: usize,
}

/// A lock that is waited for, or was granted and its host is to be told.
#[derive(Clone)]
pub(super) struct Wanted {
    pub host: IpAddr,
    pub version: u32,
    pub name: Name,
    pub number: Owner,
    pub file: FileId,
    pub handle: Box<[u8]>,
    /// As it was asked for, for the message.
    pub offset: u64,
    pub len: u64,
    pub range: LockRange,
}

impl Wanted {
    pub fn is_of(&self, number: Owner, file: FileId) -> bool {
        self.number == number && self.file == file
    }
}

/// A granted lock whose host has not yet taken note.
pub(super) struct Owed {
    pub id: u64,
    pub wanted: Wanted,
    /// When it is to be told again, and after when it loses the lock.
    pub next_ms: u64,
    pub until_ms: u64,
}

/// All of it.
#[derive(Default)]
pub(super) struct Inner {
    pub hosts: HashMap<IpAddr, Host>,
    pub waiting: HashMap<Ticket, Wanted>,
    /// What came of a wait before whoever asked knew that it waited: whether it was granted.
    pub early: HashMap<Ticket, bool>,
    /// Locks that are waited for until somebody who caches the file has given that up.
    pub held_up: Vec<Wanted>,
    pub owed: Vec<Owed>,
    pub numbers: HashMap<Owner, (i32, Box<[u8]>)>,
    pub last_id: u64,
    name_bytes: usize,
}

impl Inner {
    /// Makes room for a name, where there is any.
    pub fn reserve(&mut self, name: &Name) -> bool {
        let fits = self.name_bytes + name.cost_bytes() <= MOST_NAME_BYTES;
        if fits {
            self.name_bytes += name.cost_bytes();
        }
        fits
    }

    /// Gives its room back.
    pub fn release(&mut self, name: &Name) {
        self.name_bytes = self.name_bytes.saturating_sub(name.cost_bytes());
    }

    /// Notes that an owner has, or is about to have, something in a file; its number. Nothing where there is no room.
    pub fn enter(
        &mut self,
        host: IpAddr,
        name: &Name,
        file: FileId,
        handle: &[u8],
        new: impl FnOnce() -> Owner,
    ) -> Option<Owner> {
        let is_new = self.number(host, name).is_none();
        let known = self.host(host)?;
        let full = known.files >= MOST_PER_HOST;
        if let Some(holder) = known.owners.get(name)
            && (full || holder.files.contains_key(&file))
        {
            return holder.files.contains_key(&file).then_some(holder.number);
        }
        if full || (is_new && !self.reserve(name)) {
            return None;
        }
        let Self { hosts, numbers, .. } = self;
        let known = hosts.entry(host).or_default();
        known.files += 1;
        let holder = known.owners.entry(name.clone()).or_insert_with(|| {
            let number = new();
            numbers.insert(number, (name.svid, name.owner.clone()));
            Holder { number, files: HashMap::new() }
        });
        holder.files.insert(file, handle.into());
        Some(holder.number)
    }

    /// The number of an owner that has something.
    pub fn number(&self, host: IpAddr, name: &Name) -> Option<Owner> {
        Some(self.hosts.get(&host)?.owners.get(name)?.number)
    }

    /// The file a handle named when an owner locked in it: the file itself may be gone.
    pub fn file_by_handle(&self, host: IpAddr, name: &Name, handle: &[u8]) -> Option<FileId> {
        let holder = self.hosts.get(&host)?.owners.get(name)?;
        holder.files.iter().find(|(_, known)| ***known == *handle).map(|(file, _)| *file)
    }

    /// An owner has nothing in a file any more.
    pub fn leave(&mut self, host: IpAddr, name: &Name, file: FileId) {
        let Some(known) = self.hosts.get_mut(&host) else { return };
        let Some(holder) = known.owners.get_mut(name) else { return };
        if holder.files.remove(&file).is_some() {
            known.files = known.files.saturating_sub(1);
        }
        if holder.files.is_empty() {
            self.numbers.remove(&holder.number);
            known.owners.remove(name);
            self.release(name);
        }
    }

    /// Whether a host may wait for one more lock.
    pub fn may_wait(&self, host: IpAddr) -> bool {
        self.waiting.len() + self.held_up.len() + self.owed.len() < MOST_WAITING_IN_ALL
            && self.hosts.get(&host).is_some_and(|known| known.waiting < MOST_WAITING)
    }

    pub fn wait(&mut self, ticket: Ticket, wanted: Wanted) {
        self.count_wait(wanted.host);
        self.waiting.insert(ticket, wanted);
    }

    pub fn stop_waiting(&mut self, ticket: Ticket) -> Option<Wanted> {
        let wanted = self.waiting.remove(&ticket)?;
        self.count_end(wanted.host);
        Some(wanted)
    }

    pub fn hold_up(&mut self, wanted: Wanted) {
        self.count_wait(wanted.host);
        self.held_up.push(wanted);
    }

    /// Takes out those held up of whom `is_over` is true.
    pub fn let_go(&mut self, is_over: impl Fn(&Wanted) -> bool) -> Vec<Wanted> {
        let gone: Vec<_> = self.held_up.extract_if(.., |wanted| is_over(wanted)).collect();
        gone.iter().for_each(|wanted| self.count_end(wanted.host));
        gone
    }

    fn count_wait(&mut self, host: IpAddr) {
        if let Some(known) = self.hosts.get_mut(&host) {
            known.waiting += 1;
        }
    }

    fn count_end(&mut self, host: IpAddr) {
        if let Some(known) = self.hosts.get_mut(&host) {
            known.waiting = known.waiting.saturating_sub(1);
        }
    }

    /// Whether an owner waits in a file, or has a lock there that its host does not know of.
    pub fn expects(&self, number: Owner, file: FileId) -> bool {
        self.waiting.values().chain(&self.held_up).any(|wanted| wanted.is_of(number, file))
            || self.owed.iter().any(|owed| owed.wanted.is_of(number, file))
    }

    /// Forgets hosts that have nothing.
    pub fn forget_idle(&mut self) {
        self.hosts.retain(|_, host| !host.holds_nothing());
    }

    /// The host's place, for a share or its state.
    pub fn host(&mut self, host: IpAddr) -> Option<&mut Host> {
        if self.hosts.len() >= MOST_HOSTS && !self.hosts.contains_key(&host) {
            return None;
        }
        Some(self.hosts.entry(host).or_default())
    }
}

impl Host {
    /// Whether it may have one more share.
    pub fn may_share(&self) -> bool {
        self.shares.len() < MOST_PER_HOST
    }

    /// Takes all it has away from it.
    pub fn empty(&mut self) -> (HashMap<Name, Holder>, Vec<Shared>) {
        self.files = 0;
        (std::mem::take(&mut self.owners), std::mem::take(&mut self.shares))
    }

    /// Whether nothing is lost with it but what it said of itself.
    pub fn holds_nothing(&self) -> bool {
        self.owners.is_empty() && self.shares.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u32, len: usize) -> Name {
        Name { caller: b"host".as_slice().into(), owner: vec![n as u8; len].into(), svid: n as i32 }
    }

    #[test]
    fn what_hosts_hold_is_bounded_and_is_counted_down_again() {
        let mut inner = Inner::default();
        let (host, file) = (IpAddr::from([192, 0, 2, 1]), FileId { dev: 1, ino: 2, generation: 3 });
        let mut made = 0;
        for n in 0.. {
            if inner.enter(host, &name(n, 1024), file, b"handle", || Owner(n.into())).is_none() {
                break;
            }
            made = n + 1;
        }
        assert!(made > 1000 && made as usize * 1024 < MOST_NAME_BYTES);
        assert_eq!(inner.enter(host, &name(7, 1024), file, b"handle", || Owner(0)), Some(Owner(7)), "it is known");
        (0..made).for_each(|n| inner.leave(host, &name(n, 1024), file));
        assert_eq!((inner.name_bytes, inner.numbers.len(), inner.hosts[&host].files), (0, 0, 0));
        inner.forget_idle();
        assert!(inner.hosts.is_empty());
        for n in 0..=MOST_HOSTS {
            let host = IpAddr::from((n as u32).to_be_bytes());
            assert_eq!(inner.enter(host, &name(1, 1), file, b"", || Owner(1)).is_some(), n < MOST_HOSTS);
        }
    }
}
