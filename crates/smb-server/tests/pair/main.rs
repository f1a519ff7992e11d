//! Stories of clients and a server joined in memory, by subject. Each asserts what a client sees.

#[path = "../util/mod.rs"]
mod util;

mod again;
mod beside;
mod channels;
mod compound;
mod counts;
mod deletions;
mod faults;
mod files;
mod hostile;
mod info;
mod ioctl;
mod like_samba;
mod login;
mod model;
mod notify;
mod order;
mod persistent;
mod posix;
mod protect;
mod renames;
mod short_names;
