//! The contexts of a server: bounded, each until its ticket's time is over. Any connection may use one, and calls of one
//! may come on several at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;
use auth::krb5::{Accepted, Context, Principal};
use nfs_wire::rpc::GssService;
use parking_lot::Mutex;

use super::people::{self, Callers};
use super::window::Window;
use crate::config::Caller;
use crate::server::Server;

/// Contexts of a server: a user of a client has one or two.
const MOST: usize = 1 << 14;

/// A handle.
const HANDLE_BYTES: usize = 16;

type Handle = [u8; HANDLE_BYTES];

/// All of them.
pub(super) struct Contexts {
    /// Tells this run's handles from those of others.
    run: u64,
    next: AtomicU64,
    known: Mutex<HashMap<Handle, Arc<Held>>>,
}

/// One.
pub(super) struct Held {
    pub security: Context,
    /// Who is at the other end, as it is written.
    pub principal: String,
    client: Principal,
    /// Its realm is this server's.
    own: bool,
    expires: i64,
    last_use: AtomicI64,
    /// As whom calls act.
    callers: ArcSwap<Callers>,
    pub window: Mutex<Window>,
}

impl Contexts {
    pub fn new(run: u64) -> Self {
        Self { run, next: AtomicU64::new(1), known: Mutex::default() }
    }

    /// Keeps a context; its handle. Where there are too many, those go whose time is over, then the one not used for
    /// longest: its client begins another.
    pub fn add(&self, context: &Arc<Held>, now: i64) -> Vec<u8> {
        let mut handle = [0; HANDLE_BYTES];
        let (run, number) = handle.split_at_mut(HANDLE_BYTES / 2);
        run.copy_from_slice(&self.run.to_be_bytes());
        number.copy_from_slice(&self.next.fetch_add(1, Relaxed).to_be_bytes());
        context.last_use.store(now, Relaxed);
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.retain(|_, held| now <= held.expires);
        }
        if known.len() >= MOST
            && let Some(oldest) = known.iter().min_by_key(|(_, held)| held.last_use.load(Relaxed)).map(|(h, _)| *h)
        {
            known.remove(&oldest);
        }
        known.insert(handle, Arc::clone(context));
        handle.to_vec()
    }

    /// The context of a handle, unless its time is over.
    pub fn find(&self, handle: &[u8], now: i64) -> Option<Arc<Held>> {
        let handle: &Handle = handle.try_into().ok()?;
        let mut known = self.known.lock();
        let held = known.get(handle)?;
        if now > held.expires {
            known.remove(handle);
            return None;
        }
        held.last_use.store(now, Relaxed);
        Some(Arc::clone(held))
    }

    /// Ends a context.
    pub fn remove(&self, handle: &[u8]) {
        if let Ok(handle) = <&Handle>::try_from(handle) {
            self.known.lock().remove(handle);
        }
    }
}

impl Held {
    /// A context that was begun, and the token for its initiator. Looks up whose it is, which may wait.
    pub fn new(server: &Server, accepted: Accepted, own: bool) -> (Self, Vec<u8>) {
        let Accepted { client, context, reply, expires } = accepted;
        let held = Self {
            security: context,
            principal: client.to_string(),
            callers: ArcSwap::from_pointee(people::callers(server, &client, own, None)),
            client,
            own,
            expires,
            last_use: AtomicI64::new(0),
            window: Mutex::default(),
        };
        (held, reply)
    }

    /// As whom a call acts that is protected so.
    pub fn caller(&self, service: GssService) -> Arc<Caller> {
        self.callers.load().of(service)
    }

    /// The user here, for the log.
    pub fn uid(&self) -> Option<u32> {
        self.caller(GssService::None).cred.as_ref().map(|cred| cred.uid)
    }

    /// Whether who that is was looked up too long ago.
    pub fn is_stale(&self, server: &Server) -> bool {
        self.callers.load().until_ms <= server.env.clock.monotonic_ms()
    }

    /// Looks it up again, which may wait.
    pub fn look_up(&self, server: &Server) {
        let before = self.callers.load_full();
        self.callers.store(Arc::new(people::callers(server, &self.client, self.own, Some(&before))));
    }
}
