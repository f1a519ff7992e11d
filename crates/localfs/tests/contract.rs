//! The contract every backend keeps, tried on a real directory.

mod temp;

use vfs::contract::World;

fn world() -> World {
    let dir = temp::Dir::new();
    World { backend: dir.serve(), cred: temp::me(), keep: Box::new(dir) }
}

vfs::contract_tests!(world);

/// The same where files are opened in one step.
mod direct {
    use super::*;

    fn world() -> World {
        let dir = temp::Dir::new();
        let options = localfs::LocalFsOptions { assume_no_devices: true, ..Default::default() };
        let backend = localfs::LocalFs::new(&dir.0, options).unwrap();
        World { backend, cred: temp::me(), keep: Box::new(dir) }
    }

    vfs::contract_tests!(world);
}

/// The same on a file system in memory, usually mounted `nodev`.
mod memory {
    use super::*;

    fn world() -> World {
        let memory = std::path::Path::new("/dev/shm");
        let dir = if memory.is_dir() { temp::Dir::below(memory) } else { temp::Dir::new() };
        World { backend: dir.serve(), cred: temp::me(), keep: Box::new(dir) }
    }

    vfs::contract_tests!(world);
}
