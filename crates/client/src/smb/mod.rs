//! SMB 2 and 3 from the client's side: [`Connection`] is the protocol as a machine, `driver` moves its bytes. Above are
//! operations on files; nothing here knows one.

mod config;
mod connection;
mod credits;
pub(crate) mod driver;
mod failure;
mod handshake;
mod offer;
mod protect;
mod request;

pub use config::{Config, Seed};
pub use connection::{Connection, Limits, Token};
pub use failure::Failure;
pub use handshake::Credentials;
pub use offer::Negotiated;
pub use protect::Protection;
pub use request::{Outgoing, Request, Response};
