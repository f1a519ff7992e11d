//! The way down to a directory of a server. Who walks a tree goes by it, and so never round in a circle, however a server
//! resolves its links, and never without end into a tree that a hostile one makes up.

use std::sync::Arc;
use std::time::SystemTime;

use client::{Error, Stat};

use super::connect::Place;

/// How deep a tree may be.
const MOST_DEPTH: usize = 256;

/// A directory and those above it, up to where the walk began.
#[derive(Debug, Clone, Default)]
pub struct Trail {
    depth: usize,
    step: Option<Arc<Step>>,
}

#[derive(Debug)]
struct Step {
    known: Known,
    above: Option<Arc<Step>>,
}

/// By what a directory is known again. A number alone is not enough: a share may have several volumes in it.
type Known = (u64, Option<SystemTime>, Option<SystemTime>);

impl Trail {
    /// Goes into a directory that a listing told of; an error says why that must not be.
    pub fn down(&self, stat: &Stat) -> Result<Self, &'static str> {
        if self.depth == MOST_DEPTH {
            return Err("the tree is too deep; the rest is left out");
        }
        let depth = self.depth + 1;
        let Some(id) = stat.file_id else { return Ok(Self { depth, step: self.step.clone() }) };
        let known = (id, stat.times.created, stat.times.written);
        let above = std::iter::successors(self.step.as_deref(), |step| step.above.as_deref());
        if above.into_iter().any(|step| step.known == known) {
            return Err("it is a directory that it is in itself, and left out");
        }
        Ok(Self { depth, step: Some(Arc::new(Step { known, above: self.step.clone() })) })
    }
}

/// Whether a directory is in truth a link to one, which the server resolves in listings.
pub async fn is_link(place: &Place) -> Result<bool, Error> {
    Ok(place.remote.client.stat(&place.path).await?.is_link())
}

#[cfg(test)]
mod tests {
    use client::FileKind;
    use smb_wire::fscc::FileAttributes;

    use super::*;

    fn directory(file_id: Option<u64>, secs: u64) -> Stat {
        let written = Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(secs));
        Stat {
            len_bytes: 0,
            allocated_bytes: 0,
            times: client::Times { written, ..client::Times::default() },
            kind: FileKind::Directory,
            mode: None,
            owner: None,
            links: None,
            file_id,
            attributes: FileAttributes::DIRECTORY,
        }
    }

    #[test]
    fn nobody_goes_round_in_a_circle() {
        let a = Trail::default().down(&directory(Some(1), 1)).unwrap();
        let b = a.down(&directory(Some(2), 1)).unwrap();
        assert!(b.down(&directory(Some(1), 1)).is_err());
        assert!(b.down(&directory(Some(1), 2)).is_ok(), "another volume's");
        assert!(a.down(&directory(Some(3), 1)).unwrap().down(&directory(Some(2), 1)).is_ok(), "beside, not above");
    }

    #[test]
    fn nobody_goes_down_for_ever() {
        let mut trail = Trail::default();
        let steps = (0..).take_while(|_| trail.down(&directory(None, 1)).map(|next| trail = next).is_ok()).count();
        assert_eq!(steps, MOST_DEPTH);
    }
}
