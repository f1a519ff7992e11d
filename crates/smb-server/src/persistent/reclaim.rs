//! Taking persistent opens up again when a server starts: before anybody can connect, every stored open has its claim on
//! its file, its ranges and its grant, and waits for its client like one whose connection was lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use auth::UserLookup;
use coherence::{AccessKinds, Caching, GrantRequest, Identity, LockOutcome, OpenRequest, Outcome, Owner};
use smb_wire::fscc::AccessMask;
use smb_wire::smb2::{CreateOptions, FileHandle};
use vfs::{Access, Cred, Disposition, Executor, FileId, Node, OpenHow, Path, VfsError, Wait, WantKind};

use super::record::Record;
use super::{Keeper, Kept};
use crate::durable::Durability;
use crate::handlers::close::DeleteBy;
use crate::handlers::create::access_kinds;
use crate::handlers::session_setup::cred_of;
use crate::open::{FileOpen, Object, Open};
use crate::router::Membership;
use crate::sequence::Sequence;
use crate::server::{IdentityLookup, Server};
use crate::session::User;
use crate::store::{Store, StoreError};
use crate::tree::{Target, Tree};
use crate::{Config, Env, Share};

impl Server {
    /// A server with nothing connected whose persistent handles are kept in `store`; those it kept before are taken up
    /// again, and what closes them later runs on `executor`. May wait.
    pub fn with_store(
        config: Config,
        users: Arc<dyn UserLookup + Send + Sync>,
        identities: IdentityLookup,
        env: Env,
        store: Arc<dyn Store>,
        executor: &Arc<dyn Executor>,
    ) -> Result<Arc<Self>, StoreError> {
        let stored = store.load()?;
        let server = Self::build(config, users, identities, env, Some(Keeper::new(store)));
        server.reclaim(stored, executor);
        Ok(server)
    }

    fn reclaim(self: &Arc<Self>, stored: Vec<(u64, Vec<u8>)>, executor: &Arc<dyn Executor>) {
        // Numbers are never used twice, not even those of records that cannot be read.
        let last = stored.iter().map(|(id, _)| *id).max().unwrap_or(0);
        self.next_persistent.fetch_max(last.saturating_add(1), Relaxed);
        let (mut records, mut dropped) = (Vec::new(), Vec::new());
        for (id, bytes) in stored {
            match Record::decode(&bytes).filter(|record| record.id == id) {
                Some(record) => records.push(record),
                None => dropped.push((id, "is damaged".to_owned())),
            }
        }
        cap(&mut records);
        let mut opens = Vec::new();
        for record in &records {
            match self.reopen(record) {
                Ok(open) => opens.push((record, open)),
                Err(why) => dropped.push((record.id, why)),
            }
        }
        let count = opens.len();
        // Ranges come after all opens: they would keep grants from being given.
        for (record, open) in opens {
            restore(record, &open, executor);
            self.durables.remade(record.client, record.create_guid, &open);
            self.await_client(open, executor);
        }
        for (id, why) in dropped {
            tracing::warn!(id, why, "a persistent handle is lost");
            if let Some(keeper) = &self.keeper {
                keeper.forget(id);
            }
        }
        self.commit_closed();
        if count > 0 {
            tracing::info!(count, "persistent handles wait for their clients");
        }
    }

    /// Makes the open again that `record` tells of.
    fn reopen(&self, record: &Record) -> Result<Arc<Open>, String> {
        let config = self.config.load();
        let share = config.shares.get(&record.share.to_lowercase());
        let share = share.filter(|share| share.options.continuously_available).ok_or("has no share any more")?;
        let cred = share.options.force_identity.clone().unwrap_or_else(|| cred_of(self, &record.user));
        let granted = AccessMask::from_bits_retain(record.granted);
        let node = find(share, &cred, record, granted).map_err(|error| format!("{error}"))?;
        let route = self.enroll(record)?;
        let claimed = self.table.open(self.now(), &request(record, granted)).map_err(|e| format!("{e:?}"))?;
        let opened = match claimed {
            Outcome::Done(opened) => opened,
            Outcome::Wait(ticket) => {
                self.table.give_up(record.file, ticket);
                return Err("is in the way of another".into());
            }
        };
        let options = CreateOptions::from_bits_retain(record.options);
        let name = record.path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let mut file = FileOpen::new(Arc::clone(share), node, cred.clone(), opened.claim, options, name, None);
        file.route = route;
        file.parent = record.parent.map_or(Identity::Open, |(client, key)| Identity::Lease { client, key });
        file.client = record.client;
        file.action = record.action;
        file.app_instance = record.app_instance;
        file.durability = Durability::persistent(record.create_guid, record.timeout_ms).into();
        file.lock_sequences = record.lock_sequences.clone().into();
        // Whoever sets it, it is set once.
        let handle = FileHandle { persistent: record.id, volatile: record.volatile };
        let _ = file.kept.set(Kept { handle, user: record.user.clone(), granted });
        let target = Target::Disk(Arc::clone(share));
        let user = Arc::new(User { name: record.user.clone(), cred: cred.clone(), guest: false, anonymous: false });
        let tree = Tree { id: 0, target, user, writable: true, cred, maximal_access: granted, encrypt: false };
        // The sequence begins anew; a client that failed over comes with a later one. Its CREATE may have been answered
        // or not: it may be told again.
        let (sequence, replayable) = (Sequence::new(0), AtomicBool::new(true));
        let object = Object::File(Arc::new(file));
        let (tree, unasked) = (Arc::new(tree), AtomicBool::new(false));
        // Its client comes back to an open of its own.
        let path = Path::here();
        Ok(Arc::new(Open { handle, tree, granted, object, path, sequence, replayable, unasked }))
    }

    fn enroll(&self, record: &Record) -> Result<Option<crate::router::Enrolled>, String> {
        let membership = record.lease.map(|(name, v2)| Membership { name, file: record.file, v2, directory: false });
        if membership.is_none() && record.caching.is_empty() {
            return Ok(None);
        }
        self.router.enroll(record.id, membership).map(Some).map_err(|_| "has the lease of another file".into())
    }
}

/// No grant is given again that another open of the file would have to be asked about.
fn cap(records: &mut [Record]) {
    let mut holders: HashMap<FileId, Vec<_>> = HashMap::new();
    for record in records.iter() {
        holders.entry(record.file).or_default().push(record.holder());
    }
    for record in records {
        let others = holders.get(&record.file).map_or(0, |all| {
            all.len() - record.holder().map_or(1, |own| all.iter().filter(|h| **h == Some(own)).count())
        });
        if others > 0 {
            record.caching &= if record.lease.is_some() { !Caching::WRITE } else { Caching::READ };
        }
    }
}

/// The file, if it is still the same.
fn find(share: &Share, cred: &Cred, record: &Record, granted: AccessMask) -> Result<Arc<dyn Node>, VfsError> {
    let path = Path::new(&record.path).map_err(|_| VfsError::NotFound)?;
    let mut access = Access::empty();
    let reads = AccessMask::FILE_READ_DATA | AccessMask::FILE_EXECUTE;
    access.set(Access::READ, granted.intersects(reads));
    access.set(Access::WRITE, granted.intersects(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_APPEND_DATA));
    let how = OpenHow { access, disposition: Disposition::Open, kind: WantKind::File, follow: false, mode: 0 };
    let root = share.backend.root();
    let open = |cred: &Cred| share.backend.open(cred, &*root, &path, &how, Wait::Allowed);
    let opened = match open(cred) {
        // The open was granted its rights when it was made; the file's mode may say something else by now, as it does
        // for its maker from the beginning.
        Err(VfsError::AccessDenied) => open(&Cred { uid: 0, gid: 0, groups: Arc::from([]) }),
        result => result,
    }?;
    if opened.node.id() == record.file { Ok(opened.node) } else { Err(VfsError::Stale) }
}

fn request(record: &Record, granted: AccessMask) -> OpenRequest {
    let kinds: AccessKinds = access_kinds(granted);
    let mut asked = OpenRequest::new(record.file, kinds, record.share_access);
    asked.delete_on_close = record.delete_on_close;
    asked.identity = record.identity();
    // Giving a grant counts the epoch on by one.
    let epoch = record.epoch.wrapping_sub(u16::from(!record.caching.is_empty()));
    asked.grant = GrantRequest { want: record.caching, epoch };
    asked.owner = Owner(record.id);
    asked
}

/// What the open had besides.
fn restore(record: &Record, open: &Open, executor: &Arc<dyn Executor>) {
    let Object::File(file) = &open.object else { return };
    for lock in &record.locks {
        match file.claim.lock(&[*lock], false) {
            Ok(LockOutcome::Held) => {}
            other => tracing::warn!(id = record.id, ?lock, ?other, "a byte range is lost"),
        }
    }
    if record.delete_pending {
        file.claim.set_delete_pending(true, Some(DeleteBy::new(file, executor)));
    }
}
