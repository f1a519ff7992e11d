//! SMB 2/3 wire formats: MS-SMB2, MS-FSCC, SPNEGO, NTLMSSP and the DCERPC subset a file server needs. No I/O.

#![forbid(unsafe_code)]

pub mod codec;
pub mod dcerpc;
pub mod fscc;
pub mod name;
pub mod status;
