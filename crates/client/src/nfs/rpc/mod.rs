//! ONC RPC over TCP from the caller's side (RFC 5531): [`Connection`] is the protocol as a machine, `driver` moves its
//! bytes and connects again when the line is lost. What a call means is not known here, but for the slot a call of an
//! NFSv4.1 session is given.

mod connection;
mod denied;
mod dial;
pub(crate) mod driver;
mod request;
mod slots;
mod transit;

pub use connection::{Connection, Limits, Token};
pub use denied::Denied;
pub(crate) use dial::TcpDial;
pub use dial::{Dial, Dialling, Receiver, Sender};
pub use request::{Caller, Outgoing, Request, Response};
pub use slots::Slots;
