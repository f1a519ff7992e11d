//! The client against our own server, joined in memory: what a program sees, with every dialect and protection, and with
//! a server or a line that does what it should not.

#[path = "../../../smb-server/tests/util/mod.rs"]
mod util;

mod channels;
mod files;
mod hostile;
mod logins;
mod machine;
mod operations;
mod pipes;
mod returns;
mod wire;

/// Runs a story with everybody on one thread.
pub fn story(what: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, what);
}

/// Bytes in which a lost, doubled or displaced piece shows.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + i / 65_537) as u8).collect()
}
