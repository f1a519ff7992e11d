//! What other protocols' servers did on a share, for the clients that watch its directories: the share as the witness of
//! it. The binary hands it to those servers; the events are those the handlers tell of their own changes.

use smb_wire::fscc::{NotifyAction, NotifyFilter};
use vfs::{Path, Seen, Witness};

use crate::Share;
use crate::notify::{Event, Watchers};
use crate::open::name_filter;

impl Witness for Share {
    fn watches(&self) -> bool {
        self.watchers.any()
    }

    fn saw(&self, what: Seen<'_>) {
        let watchers = &self.watchers;
        let name = |action, path: &Path, directory| {
            watchers.tell(&[Event::new(action, name_filter(directory), path.as_bytes())]);
        };
        let modified = |filter, path: &Path| {
            watchers.tell(&[Event::new(NotifyAction::Modified, filter, path.as_bytes())]);
        };
        match what {
            Seen::Made { path, directory } => name(NotifyAction::Added, path, directory),
            Seen::Removed { path, directory } => name(NotifyAction::Removed, path, directory),
            Seen::Moved { from, to, directory } => {
                self.places.moved(from, to);
                renamed(watchers, from, to, directory);
            }
            Seen::Written(path) => modified(NotifyFilter::LAST_WRITE | NotifyFilter::SIZE, path),
            Seen::Changed(path) => {
                let times = NotifyFilter::LAST_WRITE | NotifyFilter::LAST_ACCESS | NotifyFilter::SIZE;
                modified(NotifyFilter::ATTRIBUTES | NotifyFilter::SECURITY | times, path);
            }
        }
    }
}

/// Within one directory a rename is told as a pair of names, else as going and coming.
pub(crate) fn renamed(watchers: &Watchers, from: &Path, to: &Path, is_directory: bool) {
    let event = |action, path| Event::new(action, name_filter(is_directory), path);
    let (old, new) = (from.as_bytes(), to.as_bytes());
    if from.parent() == to.parent() {
        watchers.tell(&[event(NotifyAction::RenamedOldName, old), event(NotifyAction::RenamedNewName, new)]);
    } else {
        watchers.tell(&[event(NotifyAction::Removed, old)]);
        watchers.tell(&[event(NotifyAction::Added, new)]);
    }
    if is_directory {
        return watchers.moved(old, new);
    }
    // As Windows: who does not watch names is told that the file under its new one changed.
    let filter = NotifyFilter::ATTRIBUTES | NotifyFilter::CREATION;
    watchers.tell(&[Event { except: NotifyFilter::FILE_NAME, ..Event::new(NotifyAction::Modified, filter, new) }]);
}
