//! The wire formats of NFS and its companions: XDR, ONC RPC with record marking, rpcbind, MOUNT, NFSv3, NFSACL, NLM,
//! NSM, and NFSv4.0 to 4.2. Both directions, no I/O. Every decoder takes hostile bytes: lengths are checked before use,
//! and nothing is allocated because of a count the peer announced.

#![forbid(unsafe_code)]

#[macro_use]
mod macros;

pub mod mount;
pub mod nfs3;
pub mod nfs4;
pub mod nfsacl;
pub mod nlm;
pub mod nsm;
pub mod portmap;
pub mod rpc;
pub mod xdr;

#[cfg(test)]
mod testing;

pub use nfs3::NfsStat3;
pub use nfs4::NfsStat4;
pub use xdr::Malformed;
