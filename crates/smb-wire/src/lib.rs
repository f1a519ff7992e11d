//! The wire formats of SMB 2 and 3: MS-SMB2 messages, MS-FSCC structures, SPNEGO and NTLMSSP tokens, and the part of
//! DCERPC a file server answers. Both directions, no I/O. Every decoder takes hostile bytes: lengths are checked before
//! use and nothing is allocated beyond what was received.

#![forbid(unsafe_code)]

pub mod codec;
pub mod crypto;
pub mod dcerpc;
pub mod fscc;
pub mod name;
pub mod ntlmssp;
pub mod security;
pub mod smb2;
pub mod spnego;
pub mod status;

pub use status::NtStatus;
