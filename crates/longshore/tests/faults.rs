//! The same faults over every path that data take: a client that reads slowly, one that dies, a full disk, a file that is
//! truncated or overwritten while it is being served. The built binary over loopback sockets, on real files.
//!
//! Whatever happens, every frame is whole and checked (by the client library's machine, signatures and seals included), each
//! byte is one that the file had before, has after, or may have in between; and afterwards others are served, and nothing
//! is left of those who went. The counters prove which path was taken.

#[path = "faults/kinds.rs"]
mod kinds;
#[path = "faults/line.rs"]
mod line;
#[path = "faults/nfs.rs"]
mod nfs;
#[path = "faults/scene.rs"]
mod scene;
#[path = "faults/smb.rs"]
mod smb;
mod util;

use std::time::Duration;

use kinds::Cell;
use scene::Scene;

/// What a client does, and over which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Path {
    name: &'static str,
    speaks: Speaks,
    does: Does,
    /// Bytes of each request.
    block_bytes: usize,
    /// The counter that tells this path from the others.
    counter: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Smb(client::Protection),
    Nfs3,
    Nfs41,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Read,
    /// READ of what is not in memory.
    ReadCold,
    Write,
    /// WRITE that is to be on the disk when it is answered.
    WriteThrough,
}

impl Does {
    fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadCold)
    }
}

/// Above and below the size from which READs are of pages; what is written in place in a moment.
const LARGE: usize = 256 << 10;
const MIDDLE: usize = 64 << 10;
const SMALL: usize = 32 << 10;

const PLAIN: Speaks = Speaks::Smb(client::Protection::AsServer);
const SIGNED: Speaks = Speaks::Smb(client::Protection::Signed);
const SEALED: Speaks = Speaks::Smb(client::Protection::Sealed);

const fn path(name: &'static str, speaks: Speaks, does: Does, block_bytes: usize, counter: &'static str) -> Path {
    Path { name, speaks, does, block_bytes, counter }
}

const PATHS: [Path; 21] = [
    path("SMB READ of pages", PLAIN, Does::Read, LARGE, "read_pages"),
    path("SMB READ copied", PLAIN, Does::Read, SMALL, "read_copy"),
    path("SMB READ on a worker", PLAIN, Does::ReadCold, LARGE, "read_waited"),
    path("SMB READ copied on a worker", PLAIN, Does::ReadCold, SMALL, "read_waited"),
    path("SMB READ signed", SIGNED, Does::Read, LARGE, "read_signed"),
    path("SMB READ sealed", SEALED, Does::Read, LARGE, "read_sealed"),
    path("SMB WRITE in place", PLAIN, Does::Write, MIDDLE, "write_inline"),
    path("SMB WRITE signed", SIGNED, Does::Write, MIDDLE, "write_inline"),
    path("SMB WRITE sealed", SEALED, Does::Write, MIDDLE, "write_inline"),
    path("SMB WRITE on a worker", PLAIN, Does::WriteThrough, LARGE, "write_worker"),
    path("NFS 3 READ of pages", Speaks::Nfs3, Does::Read, LARGE, "nfs_read_pages"),
    path("NFS 3 READ copied", Speaks::Nfs3, Does::Read, SMALL, "nfs_read_copy"),
    path("NFS 3 READ on a worker", Speaks::Nfs3, Does::ReadCold, LARGE, "nfs_read_waited"),
    path("NFS 3 READ copied on a worker", Speaks::Nfs3, Does::ReadCold, SMALL, "nfs_read_waited"),
    path("NFS 3 WRITE in place", Speaks::Nfs3, Does::Write, MIDDLE, "nfs_write_inline"),
    path("NFS 3 WRITE on a worker", Speaks::Nfs3, Does::WriteThrough, LARGE, "nfs_write_worker"),
    path("NFS 4.1 READ of pages", Speaks::Nfs41, Does::Read, LARGE, "nfs_read_pages"),
    path("NFS 4.1 READ copied", Speaks::Nfs41, Does::Read, SMALL, "nfs_read_copy"),
    path("NFS 4.1 READ on a worker", Speaks::Nfs41, Does::ReadCold, LARGE, "nfs_read_waited"),
    path("NFS 4.1 WRITE in place", Speaks::Nfs41, Does::Write, MIDDLE, "nfs_write_inline"),
    path("NFS 4.1 WRITE on a worker", Speaks::Nfs41, Does::WriteThrough, LARGE, "nfs_write_worker"),
];

/// How often a path is tried that is not always taken, and how long it takes that a slow disk is no longer expected.
const TRIES: u32 = 5;
const SLOW_FOR: Duration = Duration::from_millis(2100);

/// Every path, one after the other, with one fault.
fn over_each_path(fault: fn(&Cell<'_>) -> bool) {
    let scene = Scene::new();
    // What is made once and kept is there before anything is counted.
    for path in PATHS {
        kinds::nothing(&Cell::new(&scene, path));
    }
    let before = scene.left();
    for path in PATHS {
        if path.does == Does::ReadCold && !scene.goes_cold() {
            eprintln!("SKIPPED {}: files here are always in memory", path.name);
            continue;
        }
        assert!((0..TRIES).any(|_| is_taken(&scene, path, fault)), "{}: nothing went by {}", path.name, path.counter);
        scene.assert_serves();
        scene.assert_nothing_more(&before, path.name);
    }
}

/// Whether the fault, where it can be had here, met its path.
fn is_taken(scene: &Scene, path: Path, fault: fn(&Cell<'_>) -> bool) -> bool {
    let cell = Cell::new(scene, path);
    let taken = !fault(&cell) || cell.was_taken();
    if !taken {
        // A disk that was slow a moment ago is not written to in place.
        std::thread::sleep(SLOW_FOR);
    }
    taken
}

#[test]
fn a_client_that_reads_slowly_gets_all_of_it() {
    over_each_path(kinds::slow_reader);
}

#[test]
fn a_client_that_dies_leaves_nothing() {
    over_each_path(kinds::dead_client);
}

#[test]
fn a_file_truncated_while_it_is_served_gives_short_counts_or_what_it_had() {
    over_each_path(kinds::truncated);
}

#[test]
fn a_file_overwritten_while_it_is_served_gives_old_bytes_or_new_ones() {
    over_each_path(kinds::overwritten);
}

#[test]
fn a_full_disk_is_told_and_what_was_acknowledged_is_there() {
    over_each_path(kinds::full_disk);
}
