//! The wire formats of SMB 2 and 3: MS-SMB2 messages, MS-FSCC structures, SPNEGO and NTLMSSP tokens, and the part of
//! DCERPC a file server answers. Both directions, no I/O. Every decoder takes hostile bytes: lengths are checked before
//! use and nothing is allocated beyond what was received.

#![forbid(unsafe_code)]

pub mod codec;
pub mod smb2;
pub mod status;

pub use status::NtStatus;
