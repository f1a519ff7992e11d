//! SMB 2 and 3 from the client's side: [`Connection`] is the protocol as a machine, `driver` moves its bytes. Above are
//! operations on files; nothing here knows one.

mod connection;
mod credits;
pub(crate) mod driver;
mod failure;
mod handshake;
mod offer;
mod protect;
mod request;

pub use connection::{Config, Connection, Limits, Seed, Token};
pub use failure::Failure;
pub use handshake::Credentials;
pub use offer::Negotiated;
pub use protect::Protection;
pub use request::{Outgoing, Request, Response};
