//! A server and its clients joined in memory: no socket, no thread, no wall clock. [`World`] is the server with its file
//! system, [`Client`] a small synchronous SMB2 client over one `Connection`. The story tests and the fuzz runner use it;
//! it must never reach into the server but through what a client or a backend could do.
#![allow(dead_code, reason = "every test binary uses another part")]

pub mod client;
pub mod exec;
pub mod message;
pub mod ops;
pub mod rng;
pub mod siege;
pub mod store;
pub mod targets;
pub mod world;

pub use client::{Client, Profile};
pub use exec::ManualExecutor;
pub use message::{Message, Response, wide};
pub use ops::OpenAs;
pub use rng::Rng;
pub use siege::Siege;
pub use store::MemStore;
pub use world::World;
