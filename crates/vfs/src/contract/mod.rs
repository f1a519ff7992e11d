//! What every backend must do, as tests. A backend's own tests call [`contract_tests!`](crate::contract_tests) with a
//! function that makes a [`World`]; nothing else uses this. Files and data are in `data.rs`, names in `names.rs`,
//! handles in `handles.rs`.

pub mod data;
pub mod handles;
pub mod names;

use std::any::Any;
use std::sync::Arc;

use crate::{
    Access, Attr, Backend, Cred, Disposition, Node, OpenHow, Opened, Path, VfsError, VfsResult, Wait, WantKind,
};

/// An empty backend to try.
pub struct World {
    /// It.
    pub backend: Arc<dyn Backend>,
    /// Who may do everything in it.
    pub cred: Cred,
    /// What must live as long as it does.
    pub keep: Box<dyn Any>,
}

/// Makes a `#[test]` of every test of the contract. `$make` is a function from nothing to a [`World`](contract::World).
#[macro_export]
macro_rules! contract_tests {
    ($make:path) => {
        $crate::contract_tests! { @each $make, data:
            what_is_written_is_read, reads_end_with_the_file, a_file_is_cut_and_extended, offsets_out_of_reach_are_refused,
            rights_are_those_of_the_open, space_is_reserved, attributes_are_set, times_are_set, extended_attributes,
            an_attribute_only_node_is_enough_for_attributes, modes_are_exact, others_are_refused, pages_or_not_supported,
            a_removed_file_is_read_to_the_end, ranges_are_copied, ranges_are_copied_over_themselves,
            ranges_are_zeroed, data_is_found, extents_are_shared
        }
        $crate::contract_tests! { @each $make, names:
            dispositions, kinds_are_checked, missing_is_told_from_missing_path, nothing_is_made_without_waiting,
            removal, only_that_object_is_removed, renames, renames_that_cannot_be, a_node_knows_where_it_is,
            hard_links, symbolic_links, links_do_not_lead_out, links_within_the_root_work_from_below,
            a_listing_shows_every_entry_once, a_listing_goes_on_while_names_change, case_is_ignored_where_asked,
            short_names_are_found, spelling_follows_changes, names_that_are_not_text, long_names, entries_are_described
        }
        $crate::contract_tests! { @each $make, handles:
            a_handle_leads_back, a_handle_outlives_renames, a_handle_of_what_is_gone_is_stale, strange_handles_are_refused,
            a_handle_gives_no_rights, a_link_is_opened_itself, special_files_are_made
        }
    };
    (@each $make:path, $room:ident: $($name:ident),+) => {
        mod $room {
            use super::*;
            $(#[test]
            fn $name() {
                $crate::contract::$room::$name(&$make());
            })+
        }
    };
}

impl World {
    fn open_how(&self, path: &str, how: OpenHow) -> VfsResult<Opened> {
        self.backend.open(&self.cred, &*self.backend.root(), &self::path(path), &how, Wait::Allowed)
    }

    fn open(&self, path: &str, access: Access) -> VfsResult<Arc<dyn Node>> {
        self.open_how(path, how(access, Disposition::Open, WantKind::Any)).map(|o| o.node)
    }

    fn make(&self, path: &str, content: &[u8]) -> Arc<dyn Node> {
        let how = how(Access::READ | Access::WRITE, Disposition::Create, WantKind::File);
        let node = self.open_how(path, how).unwrap().node;
        node.write(0, content, Wait::Allowed).unwrap();
        node
    }

    fn make_dir(&self, path: &str) -> Arc<dyn Node> {
        self.open_how(path, how(Access::READ, Disposition::Create, WantKind::Directory)).unwrap().node
    }

    fn remove(&self, path: &str) -> VfsResult<()> {
        self.backend.remove(&self.cred, &*self.backend.root(), &self::path(path), None)
    }

    fn attr(&self, path: &str) -> VfsResult<Attr> {
        self.backend.attr_at(&self.cred, &*self.backend.root(), &self::path(path), Wait::Allowed)
    }

    fn spell(&self, path: &str) -> VfsResult<String> {
        let spelled = self.backend.spell(&self.cred, &*self.backend.root(), &self::path(path), Wait::Allowed)?;
        Ok(String::from_utf8(spelled.as_bytes().to_vec()).unwrap())
    }

    fn symlink(&self, path: &str, target: &str) {
        let root = self.backend.root();
        self.backend.symlink(&self.cred, &*root, &self::path(path), target.as_bytes()).unwrap();
    }
}

fn path(text: &str) -> Path {
    Path::new(text.as_bytes()).unwrap()
}

fn how(access: Access, disposition: Disposition, kind: WantKind) -> OpenHow {
    OpenHow { access, disposition, kind, follow: true, mode: 0o755 }
}

fn read_all(node: &dyn Node) -> Vec<u8> {
    let mut buf = vec![0; node.attr().unwrap().len_bytes as usize + 10];
    let count = node.read(0, &mut buf, Wait::Allowed).unwrap();
    buf.truncate(count);
    buf
}

/// Lists a directory `step` entries at a time.
fn list(node: &dyn Node, step: usize) -> Vec<Vec<u8>> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let mut room = step;
        let ended = node
            .read_dir(cookie, &mut |entry| {
                if room == 0 {
                    return false;
                }
                room -= 1;
                cookie = entry.next_cookie;
                names.push(entry.name.as_bytes().to_vec());
                true
            })
            .unwrap();
        if ended {
            return names;
        }
    }
}

fn error<T>(result: VfsResult<T>) -> VfsError {
    result.err().expect("it should have failed")
}
