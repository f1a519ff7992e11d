//! What clients of SMB and NFS see of one another: both servers in memory, on one table of claims and one file system.
//! Each test is a line of the table in DESIGN.md section 4: who holds a claim, and what another protocol's client gets.
#![allow(dead_code, reason = "the harnesses have more than is used here")]

#[path = "../../nfs-server/tests/pair/world.rs"]
mod nfs;
#[path = "../../smb-server/tests/util/mod.rs"]
mod util;

#[path = "coherence/both.rs"]
mod both;
#[path = "coherence/grants.rs"]
mod grants;
#[path = "coherence/names.rs"]
mod names;
#[path = "coherence/ranges.rs"]
mod ranges;
#[path = "coherence/shares.rs"]
mod shares;
