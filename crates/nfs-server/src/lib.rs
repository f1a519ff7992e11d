//! The server's half of NFS: one RPC connection as a machine that takes records and gives replies.
//!
//! [`Server`] holds what connections share: exports, the key that signs file handles, open files, the table of claims.
//! [`Connection`] is one connection; whoever owns the socket hands it frames and sends its replies. It answers NFSv3,
//! NFSv4, MOUNT, NFSACL, the lock manager, the status monitor and the portmapper on one port. READ and WRITE are done in place where they need not wait; everything else that
//! may wait runs on a worker. No socket, file system, runtime or wall clock is named here; a test joins a connection to
//! a client in memory.

#![forbid(unsafe_code)]

mod ahead;
mod attr;
mod cache;
mod config;
mod connection;
mod counters;
mod datagram;
mod dispatch;
mod env;
mod failure;
mod files;
mod groups;
mod gss;
mod guard;
mod handle;
mod listed;
mod mount;
mod nfs3;
mod nfs4;
mod nfsacl;
mod nlm;
mod overview;
mod portmap;
mod reach;
mod recent;
mod replay;
mod reply;
mod server;
mod store;
mod tell;

pub use config::{Config, Export, ExportOptions, Network, Owners, Sec, Shown, Squash};
pub use connection::Connection;
pub use counters::{Operation, PathCounters, PathTotals, operations};
pub use env::{Clock, Dialer, Env, OnReply, Random, Shard};
pub use groups::{Accounts, Groups, IdKind, Names};
pub use handle::{HandleKey, KEY_BYTES};
pub use overview::ClientInfo;
pub use portmap::{Listening, PROGRAMS};
pub use server::Server;
pub use store::{Store, StoreChange, StoreError};
