//! What others change in directories that clients watch or cache: local programs, and NFS clients of the same process. The
//! backend tells (`vfs::Backend::watch`); here it is passed on to those who wait in CHANGE_NOTIFY and to those who hold a
//! lease on the directory. A directory is watched while somebody does either.

use std::sync::{Arc, Weak};

use coherence::{Identity, Outcome};
use smb_wire::fscc::{NotifyAction, NotifyFilter};
use vfs::{Change, Happened, Told, Watching};

use crate::Share;
use crate::notify::Event;
use crate::open::{FileOpen, name_filter};
use crate::server::Server;

/// Tells the clients of one share.
struct Teller {
    share: Weak<Share>,
    server: Weak<Server>,
}

/// Watches the directory of an open. May wait. Nothing where the backend cannot know.
pub(crate) fn watch(server: &Arc<Server>, file: &FileOpen, below: bool) -> Option<Watching> {
    let share = &file.share;
    let teller = || Arc::new(Teller { share: Arc::downgrade(share), server: Arc::downgrade(server) }) as Arc<dyn Told>;
    let told = share.teller.get_or_init(teller);
    match share.backend.watch(&*file.node, below, told) {
        Ok(watching) => Some(watching),
        Err(error) => {
            tracing::debug!(share = share.name, %error, "changes by others are not known");
            None
        }
    }
}

/// Who is interested in a change that is not one of names.
fn filter_of(what: Happened) -> NotifyFilter {
    match what {
        Happened::Written => NotifyFilter::LAST_WRITE | NotifyFilter::SIZE,
        _ => {
            NotifyFilter::ATTRIBUTES
                | NotifyFilter::LAST_WRITE
                | NotifyFilter::LAST_ACCESS
                | NotifyFilter::SECURITY
                | NotifyFilter::EA
        }
    }
}

impl Told for Teller {
    fn changed(&self, change: &Change<'_>) {
        let (Some(share), Some(server)) = (self.share.upgrade(), self.server.upgrade()) else { return };
        // Whoever caches the listing is told and not waited for: it has happened.
        if let Ok(Outcome::Wait(ticket)) =
            server.table.prepare(server.now(), change.dir, coherence::Change::Children, Identity::Open)
        {
            server.table.cancel(change.dir, ticket);
        }
        let watchers = &share.watchers;
        if !watchers.any() {
            return;
        }
        watchers.found(change.dir, change.dir_path);
        let names = name_filter(change.is_directory);
        match (change.what, change.to) {
            (Happened::Renamed, Some(to)) if parent(change.path) == parent(to) => watchers.tell(&[
                Event::new(NotifyAction::RenamedOldName, names, change.path),
                Event::new(NotifyAction::RenamedNewName, names, to),
            ]),
            (Happened::Renamed, Some(to)) => {
                watchers.tell(&[Event::new(NotifyAction::Removed, names, change.path)]);
                watchers.tell(&[Event::new(NotifyAction::Added, names, to)]);
            }
            (Happened::Added, _) => watchers.tell(&[Event::new(NotifyAction::Added, names, change.path)]),
            (Happened::Removed | Happened::Renamed, _) => {
                watchers.tell(&[Event::new(NotifyAction::Removed, names, change.path)]);
            }
            (what, _) => watchers.tell(&[Event::new(NotifyAction::Modified, filter_of(what), change.path)]),
        }
        if let (true, Some(to)) = (change.is_directory, change.to) {
            watchers.moved(change.path, to);
        }
    }

    fn lost(&self) {
        if let Some(share) = self.share.upgrade() {
            share.watchers.lost();
        }
    }
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&b| b == b'/').map_or(&[], |at| path.split_at(at).0)
}
