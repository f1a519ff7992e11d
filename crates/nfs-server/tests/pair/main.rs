//! A client made of the wire crate and a server, joined in memory: what a client sees of NFSv3, MOUNT and the portmapper.

mod files;
mod hostile;
mod names;
mod world;
