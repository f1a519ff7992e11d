//! The system calls rustix has no safe wrapper for: those that give one thread another identity. `identity.rs` calls
//! them; nothing else may.
//!
//! libc's own wrappers would not do: its `setgroups` changes every thread of the process.

/// Sets the calling thread's file-system user id and answers the one it had. The kernel tells no error: ask with
/// [`current_fsuid`].
pub fn set_fsuid(uid: u32) -> u32 {
    // SAFETY: setfsuid takes one integer, touches no memory, and fails by changing nothing.
    let before = unsafe { libc::syscall(libc::SYS_setfsuid, libc::c_long::from(uid)) };
    before as u32
}

/// Sets the calling thread's file-system group id and answers the one it had.
pub fn set_fsgid(gid: u32) -> u32 {
    // SAFETY: setfsgid takes one integer, touches no memory, and fails by changing nothing.
    let before = unsafe { libc::syscall(libc::SYS_setfsgid, libc::c_long::from(gid)) };
    before as u32
}

/// The calling thread's file-system user id: a switch to the id that cannot exist changes nothing.
pub fn current_fsuid() -> u32 {
    set_fsuid(u32::MAX)
}

/// The calling thread's file-system group id.
pub fn current_fsgid() -> u32 {
    set_fsgid(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_per_thread() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::thread::spawn(|| {
            set_fsuid(1234);
            set_fsgid(4321);
            assert_eq!((current_fsuid(), current_fsgid()), (1234, 4321));
        })
        .join()
        .unwrap();
        assert_eq!((current_fsuid(), current_fsgid()), (0, 0));
    }
}
