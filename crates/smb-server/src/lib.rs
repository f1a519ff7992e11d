//! One SMB connection as a machine: bytes in, replies out.
