//! SMB 2 and 3 from the client's side: [`Connection`] is the protocol as a machine, `driver` moves its bytes, `share` and
//! `open` turn operations on files into requests. The facade calls those two.

mod channels;
mod config;
mod connection;
mod copy;
mod credits;
mod dial;
mod driver;
mod failure;
mod grip;
mod handshake;
mod links;
mod listing;
mod offer;
mod open;
mod path;
mod protect;
mod request;
mod revive;
mod session;
mod setup;
mod share;
mod small;
mod transit;
mod watch;

pub use config::{Config, Seed};
pub use connection::{Connection, Limits, Token};
pub use dial::{Dial, Dialling, Receiver, Sender};
pub(crate) use driver::Pending;
pub use failure::Failure;
pub use handshake::Credentials;
pub(crate) use listing::Listing;
pub use offer::Negotiated;
pub(crate) use open::{Open, was_read, was_written};
pub use protect::Protection;
pub use request::{Outgoing, Request, Response};
pub(crate) use share::Share;
pub(crate) use watch::Watch;
