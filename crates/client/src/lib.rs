//! A client library for SMB 2.0.2 to 3.1.1 and NFS 3, 4.0, 4.1 and 4.2, asynchronous and pipelined. Programs that link it and the commands of the
//! binary call it; it prints nothing, reads no configuration, and trusts no length a server sends.
//!
//! ```no_run
//! # async fn example() -> Result<(), client::Error> {
//! use client::{Client, Credentials, Url};
//!
//! let url: Url = "smb://anna@server/docs/letters".parse()?;
//! let client = Client::connect(&url, Credentials::password("anna", "secret")).await?;
//! for entry in client.list(url.path()).await? {
//!     println!("{} {}", entry.name.display(), entry.stat.len_bytes);
//! }
//! let mut stream = client.open("letters/one.txt").await?.read_stream(0..u64::MAX);
//! while let Some(chunk) = stream.next().await? {
//!     println!("{} bytes", chunk.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! An NFS server is shown numbers instead of a name and a password: `nfs://server/export/letters`, with `?version=3` or
//! another where the newest that both have is not wanted, and [`NfsOptions`] where the process's own user is not.
//!
//! `smb::Connection` and `nfs::rpc::Connection` are the protocols as machines: bytes in, requests and results out, the time
//! passed in. A task of the runtime for each (`driver`) moves its bytes; `smb::share` and `smb::open`, `nfs::share` and
//! `nfs::open` turn operations into requests. [`Client`] and [`File`] are the same whatever is spoken.
#![forbid(unsafe_code)]

mod buffer;
mod client;
mod error;
mod file;
mod line;
mod list;
pub mod nfs;
mod options;
pub mod smb;
mod stat;
mod stream;
mod url;
mod watch;
mod window;

pub use buffer::Buffer;
pub use client::Client;
pub use error::{Error, ErrorKind};
pub use file::{File, OpenHow};
pub use list::{Entry, Listing};
pub use nfs::NfsStatus;
pub use options::{NfsOptions, Options};
pub use smb::{Credentials, Failure, Protection};
pub use smb_wire::NtStatus;
pub use smb_wire::crypto::{Cipher, SigningAlgorithm};
pub use smb_wire::fscc::FileAttributes;
pub use smb_wire::smb2::Dialect;
pub use stat::{FileKind, SetAttributes, Space, Stat, Times};
pub use stream::{Chunk, ReadStream, WriteStream};
pub use url::{NfsVersion, Protocol, Url};
pub use watch::{Change, ChangeKind, Watch};
