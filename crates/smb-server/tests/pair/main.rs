//! Stories of clients and a server joined in memory, by subject. Each asserts what a client sees.

#[path = "../util/mod.rs"]
mod util;

mod beside;
mod channels;
mod compound;
mod counts;
mod faults;
mod files;
mod hostile;
mod info;
mod ioctl;
mod like_samba;
mod login;
mod model;
mod notify;
mod persistent;
mod posix;
mod protect;
mod short_names;
