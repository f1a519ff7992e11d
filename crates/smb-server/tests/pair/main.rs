//! Stories of clients and a server joined in memory, by subject. Each asserts what a client sees.

#[path = "../util/mod.rs"]
mod util;

mod compound;
mod login;
mod protect;
