//! As whom somebody acts who came with Kerberos: a user of this server's own realm as the account of that name, a machine
//! as root, whom the export squashes or not. Whoever else there is, from other realms too, is nobody in particular.

use std::sync::Arc;

use auth::krb5::Principal;
use nfs_wire::rpc::GssService;
use vfs::Cred;

use crate::config::{Caller, Sec, UserId};
use crate::server::Server;

/// How long what was looked up counts; what could not be is tried again sooner.
const KEEP_MS: u64 = 300_000;
const KEEP_FAILED_MS: u64 = 10_000;

/// Services as which a machine comes when none of its users is meant.
const MACHINES: [&str; 3] = ["nfs", "host", "root"];

/// The same person, by what protects the call.
pub(super) struct Callers {
    by_service: [Arc<Caller>; 3],
    /// Until when that counts.
    pub until_ms: u64,
}

impl Callers {
    pub fn of(&self, service: GssService) -> Arc<Caller> {
        let [plain, signed, sealed] = &self.by_service;
        Arc::clone(match service {
            GssService::None => plain,
            GssService::Integrity => signed,
            GssService::Privacy => sealed,
        })
    }

    fn cred(&self) -> Option<Cred> {
        self.by_service[0].cred.clone()
    }
}

/// Looks somebody up. Where that fails, what was known before goes on; may wait.
pub(super) fn callers(server: &Server, client: &Principal, own: bool, before: Option<&Callers>) -> Callers {
    let (cred, keep_ms) = match cred(server, client, own) {
        Ok(cred) => (cred, KEEP_MS),
        Err(error) => {
            tracing::warn!(principal = %client, %error, "cannot look up whose account that is");
            (before.and_then(Callers::cred), KEEP_FAILED_MS)
        }
    };
    let user = Some(UserId::Kerberos(digest(client)));
    let caller = |sec| Arc::new(Caller { cred: cred.clone(), sec, user });
    let by_service = [caller(Sec::Krb5), caller(Sec::Krb5i), caller(Sec::Krb5p)];
    Callers { by_service, until_ms: server.env.clock.monotonic_ms().saturating_add(keep_ms) }
}

fn cred(server: &Server, client: &Principal, own: bool) -> Result<Option<Cred>, String> {
    if !own {
        return Ok(None);
    }
    match &*client.parts {
        // What Active Directory calls a machine.
        [name] if name.len() > 1 && name.ends_with('$') => Ok(Some(root())),
        // Whoever looks the name up may know names of other realms, and must not take this for one.
        [name] if name.contains(['@', '\\', '/', '\0']) => Ok(None),
        [name] => server.env.accounts.as_ref().map_or(Ok(None), |accounts| accounts.account(name)),
        [service, _] if MACHINES.contains(&&**service) => Ok(Some(root())),
        _ => Ok(None),
    }
}

fn root() -> Cred {
    Cred { uid: 0, gid: 0, groups: Arc::from([]) }
}

/// What tells the principal from others.
fn digest(client: &Principal) -> [u8; 16] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, client.to_string().as_bytes());
    digest.as_ref().first_chunk().copied().unwrap_or_default()
}
