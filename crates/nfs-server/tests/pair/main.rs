//! A client made of the wire crate and a server, joined in memory: what a client sees of NFSv3 and NFSv4, MOUNT and the
//! portmapper.

mod ahead;
mod beside;
mod compounds;
mod counts;
mod files;
mod gss;
mod gss_exports;
mod hostile;
mod locks;
mod names;
mod owners;
mod v4;
mod v4_files;
mod v4_locks;
mod v4_names;
mod v4_sessions;

mod world;
