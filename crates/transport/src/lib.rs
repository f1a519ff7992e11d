//! Everything between the operating system and a protocol's connection machine.
//!
//! A [`Server`] owns one thread for each shard, with a current-thread runtime and the connections it was given. A
//! connection's driver fills a pooled buffer with one `recv`, hands every complete frame in it to the connection's
//! [`Machine`], and sends all replies that are ready in one `sendmsg`. What may wait for a device runs on the
//! [`Workers`]. No protocol is known here.

mod alarm;
mod counters;
mod driver;
mod gather;
mod intake;
mod load;
mod machine;
mod observer;
mod outbox;
mod pipe;
mod placing;
mod server;
mod sockets;
mod sys;
mod whole;
mod workers;

pub use counters::{Counters, Totals};
pub use load::Load;
pub use machine::{Framing, Machine};
pub use observer::{ConnectionInfo, Observer, Traffic};
pub use pipe::Pipes;
pub use server::{Accepted, Limits, MachineFactory, Server, ShardEnv};
pub use sockets::{ListenOptions, Refused, SocketOption};
pub use workers::Workers;
