//! The contract every backend keeps, tried on a real directory.

mod temp;

use vfs::contract::World;

fn world() -> World {
    let dir = temp::Dir::new();
    World { backend: dir.serve(), cred: temp::me(), keep: Box::new(dir) }
}

vfs::contract_tests!(world);
