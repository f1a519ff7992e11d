//! The server's half of SMB 2 and 3: one connection as a machine that takes frames and gives replies.
//!
//! [`Server`] holds what connections share: configuration, sessions, the table of claims. [`Connection`] is one
//! connection; whoever owns the socket hands it frames and sends its replies. Handlers are async functions polled once in
//! place: one that need not wait is done in that poll, one that must is parked while the connection goes on. No socket,
//! file system, runtime or wall clock is named here; a test joins a connection to a client in memory.

#![forbid(unsafe_code)]

mod acl;
mod change_times;
mod changes;
mod config;
mod connection;
mod counters;
mod credits;
mod dispatch;
mod durable;
mod ea;
mod env;
mod failure;
mod grants;
mod handlers;
mod links;
mod local;
mod mailbox;
mod meta;
mod notify;
mod open;
mod opens;
mod overview;
mod persistent;
mod places;
mod posix;
mod reply;
mod router;
mod sequence;
mod server;
mod session;
mod signing;
mod slab;
mod spelling;
mod store;
mod stream;
mod tree;
mod waiting;
mod witness;

pub use config::{Access, Config, Encryption, NamePatterns, Share, ShareOptions};
pub use connection::Connection;
pub use counters::{PathCounters, PathTotals, commands};
pub use env::{Clock, Env, Shard};
pub use overview::SessionInfo;
pub use server::{IdentityLookup, Server};
pub use smb_wire::dcerpc::{Accounts, NoAccounts};
pub use smb_wire::smb2::NetworkInterface;
pub use store::{Change, Store, StoreError};
