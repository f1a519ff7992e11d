//! A directory of its own for each test, gone afterwards.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use localfs::{LocalFs, LocalFsOptions};
use vfs::Cred;

pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// On the file system `parent` is on.
    pub fn below(parent: &std::path::Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("longshore-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = parent.join(unique);
        std::fs::create_dir(&path).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, open).unwrap();
        Self(path)
    }

    pub fn serve(&self) -> Arc<LocalFs> {
        LocalFs::new(&self.0, LocalFsOptions::default()).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = localfs::run_as_process();
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The process itself.
pub fn me() -> Cred {
    Cred {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: rustix::process::getgroups().unwrap().iter().map(|g| g.as_raw()).collect(),
    }
}

pub fn root() -> bool {
    rustix::process::geteuid().is_root()
}
