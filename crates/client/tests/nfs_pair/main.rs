//! The client against our own NFS server, joined in memory: what a program sees in every version, and with a server or a
//! line that does what it should not. Time stands still unless everybody waits.

#[path = "../../../nfs-server/tests/pair/world.rs"]
#[allow(dead_code)]
mod world;

mod faults;
mod hostile;
mod line;
mod locks;
mod meeting;
mod operations;

use client::{Client, NfsVersion, Options, Url};

/// Runs a story with everybody on one thread.
pub fn story(what: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, what);
}

/// Runs a story in each version.
pub fn in_each_version<F: Future<Output = ()>>(what: impl Fn(NfsVersion) -> F) {
    for version in NfsVersion::ALL {
        story(async {
            println!("version {}", version.as_str());
            what(version).await;
        });
    }
}

/// Bytes in which a lost, doubled or displaced piece shows.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + i / 65_537) as u8).collect()
}

/// Where the export is.
pub fn url(version: NfsVersion) -> Url {
    Url::nfs("longshore", "data", Some(version))
}

/// As the user of the world.
pub fn options() -> Options {
    let mut options = Options::default();
    (options.nfs.uid, options.nfs.gid, options.nfs.groups) = (world::UID, world::UID, vec![world::UID]);
    options
}

/// A client on the export, in that version.
pub async fn join(line: &line::Line, version: NfsVersion) -> Client {
    Client::connect_by(line.dial(), &url(version), &options()).await.unwrap()
}
