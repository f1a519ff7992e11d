//! SMB 2/3 wire formats: MS-SMB2, MS-FSCC, SPNEGO, NTLMSSP and the DCERPC subset a file server needs. No I/O.
#![forbid(unsafe_code)]

pub mod crypto;
pub mod ntlmssp;
pub mod spnego;
