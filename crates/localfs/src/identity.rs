//! Whose rights a thread's file-system calls have. Every backend call enters the identity it must run with; the thread
//! keeps it afterwards, so that consecutive calls for the same user switch nothing. Calls on an open descriptor that
//! check no permission (read, write, statx of the descriptor) enter none.
//!
//! A thread is born with the identity its parent had at that moment, which is why a thread that has not entered anything
//! yet is taken to be anybody. Threads that also do other work on files (the configuration, the user database) call
//! [`run_as_process`] first.

use std::cell::RefCell;
use std::sync::Arc;

use rustix::process::{Gid, getegid, geteuid};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_thread_groups};
use vfs::{Cred, VfsError, VfsResult};

use crate::sys;

/// The most supplementary groups the kernel takes (NGROUPS_MAX).
const MAX_GROUPS: usize = 65536;

/// What this thread was last switched to; `None` for each part that is not known.
struct Current {
    uid: Option<u32>,
    gid: Option<u32>,
    groups: Option<Arc<[u32]>>,
}

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current { uid: None, gid: None, groups: None }) };
}

/// Switches threads between the process's identity and those of users, where it may.
pub struct Identity {
    /// The process's own; `None` where it may not switch and everything runs as it is.
    own: Option<Cred>,
}

impl Identity {
    /// Finds out whether the process may switch. `None` where it may but would not lose its power over files by it.
    pub fn new() -> Option<Self> {
        let has = held();
        let may = may_switch(has);
        if may && !geteuid().is_root() && has.intersects(over_files()) {
            return None;
        }
        Some(Self { own: may.then(own_cred) })
    }

    /// Whether calls run with the caller's rights.
    pub fn switches(&self) -> bool {
        self.own.is_some()
    }

    /// Gives this thread the rights of `cred`.
    pub fn enter(&self, cred: &Cred) -> VfsResult<()> {
        match &self.own {
            None => Ok(()),
            Some(_) => switch(cred),
        }
    }

    /// Gives this thread the process's own rights.
    pub fn enter_own(&self) -> VfsResult<()> {
        match &self.own {
            None => Ok(()),
            // Root needs no group to be let in, and a call without a `Cred` makes nothing that would get one.
            Some(own) if own.uid == 0 => CURRENT.with_borrow_mut(|current| set_uid(current, 0)),
            Some(own) => switch(own),
        }
    }
}

impl Identity {
    /// Runs `work` with the process's own rights and gives the thread back those it had: for what is looked up in the
    /// middle of a call that runs as a user.
    pub fn as_own<R>(&self, work: impl FnOnce() -> VfsResult<R>) -> VfsResult<R> {
        let (uid, gid, groups) = CURRENT.with_borrow(|had| (had.uid, had.gid, had.groups.clone()));
        self.enter_own()?;
        let done = work();
        CURRENT.with_borrow_mut(|current| {
            groups.map_or(Ok(()), |groups| set_groups(current, &groups))?;
            gid.map_or(Ok(()), |gid| set_gid(current, gid))?;
            uid.map_or(Ok(()), |uid| set_uid(current, uid))
        })?;
        done
    }
}

/// The capabilities this thread has or could take up.
fn held() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted | sets.effective)
}

fn may_switch(has: CapabilitySet) -> bool {
    has.contains(CapabilitySet::SETUID | CapabilitySet::SETGID)
}

/// The capabilities that pass over file permissions.
fn over_files() -> CapabilitySet {
    CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
}

/// Has this thread, and those it starts from now on, be refused what quotas and reserved blocks refuse to users. The kernel
/// lets whoever has CAP_SYS_RESOURCE pass over both, and changing the file-system user id does not take that away
/// (capabilities(7)).
pub fn heed_limits() {
    let Ok(mut sets) = capabilities(None) else { return };
    if sets.effective.contains(CapabilitySet::SYS_RESOURCE) {
        sets.effective.remove(CapabilitySet::SYS_RESOURCE);
        // Giving up what one has is always allowed.
        let _ = set_capabilities(None, sets);
    }
}

/// Gives the calling thread back the identity of the process, group and supplementary groups included.
pub fn run_as_process() -> VfsResult<()> {
    if may_switch(held()) { switch(&own_cred()) } else { Ok(()) }
}

/// The process's identity. Its groups are read once, before any thread was given others.
fn own_cred() -> Cred {
    static GROUPS: std::sync::OnceLock<Arc<[u32]>> = std::sync::OnceLock::new();
    let groups = GROUPS.get_or_init(|| {
        let groups = rustix::process::getgroups().unwrap_or_default();
        groups.iter().map(|g| g.as_raw()).collect()
    });
    Cred { uid: geteuid().as_raw(), gid: getegid().as_raw(), groups: Arc::clone(groups) }
}

fn switch(cred: &Cred) -> VfsResult<()> {
    CURRENT.with_borrow_mut(|current| {
        set_groups(current, &cred.groups)?;
        set_gid(current, cred.gid)?;
        set_uid(current, cred.uid)
    })
}

fn set_uid(current: &mut Current, uid: u32) -> VfsResult<()> {
    if current.uid == Some(uid) {
        return Ok(());
    }
    current.uid = None;
    sys::set_fsuid(uid);
    if uid == u32::MAX || sys::current_fsuid() != uid {
        return Err(VfsError::AccessDenied);
    }
    current.uid = Some(uid);
    Ok(())
}

fn set_gid(current: &mut Current, gid: u32) -> VfsResult<()> {
    if current.gid == Some(gid) {
        return Ok(());
    }
    current.gid = None;
    sys::set_fsgid(gid);
    if gid == u32::MAX || sys::current_fsgid() != gid {
        return Err(VfsError::AccessDenied);
    }
    current.gid = Some(gid);
    Ok(())
}

fn set_groups(current: &mut Current, groups: &Arc<[u32]>) -> VfsResult<()> {
    let same = |had: &Arc<[u32]>| Arc::ptr_eq(had, groups) || had == groups;
    if current.groups.as_ref().is_some_and(same) {
        return Ok(());
    }
    current.groups = None;
    if groups.len() > MAX_GROUPS || groups.contains(&u32::MAX) {
        return Err(VfsError::AccessDenied);
    }
    let raw: Vec<Gid> = groups.iter().map(|&g| Gid::from_raw(g)).collect();
    set_thread_groups(&raw).map_err(|_| VfsError::AccessDenied)?;
    current.groups = Some(Arc::clone(groups));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cred(uid: u32, gid: u32, groups: &[u32]) -> Cred {
        Cred { uid, gid, groups: groups.into() }
    }

    fn thread_is() -> (u32, u32, Vec<u32>) {
        let groups = rustix::process::getgroups().unwrap().iter().map(|g| g.as_raw()).collect();
        (sys::current_fsuid(), sys::current_fsgid(), groups)
    }

    #[test]
    fn a_thread_becomes_who_is_asked_for_and_again_the_process() {
        let identity = Identity::new().unwrap();
        if !identity.switches() {
            return;
        }
        std::thread::spawn(move || {
            let own = thread_is();
            identity.enter(&cred(1000, 1001, &[7, 8])).unwrap();
            assert_eq!(thread_is(), (1000, 1001, vec![7, 8]));
            identity.enter(&cred(1002, 1003, &[])).unwrap();
            assert_eq!(thread_is(), (1002, 1003, vec![]));
            identity.enter_own().unwrap();
            assert_eq!(thread_is().0, own.0);
            // Born under a user, a thread does not believe itself to be the process.
            identity.enter(&cred(1000, 1000, &[])).unwrap();
            let child = std::thread::spawn(move || {
                identity.enter_own().unwrap();
                let entered = thread_is().0;
                (entered, std::thread::spawn(|| run_as_process().map(|()| thread_is())).join().unwrap())
            });
            assert_eq!(child.join().unwrap(), (own.0, Ok(own.clone())));
            run_as_process().unwrap();
            assert_eq!(thread_is(), own);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_id_that_cannot_exist_is_refused() {
        let identity = Identity::new().unwrap();
        if identity.switches() {
            let refused = std::thread::spawn(move || identity.enter(&cred(u32::MAX, 0, &[])));
            assert_eq!(refused.join().unwrap(), Err(VfsError::AccessDenied));
        }
    }
}
