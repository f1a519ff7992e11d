//! Directories of an NFS server, page by page.

use std::sync::Arc;

use super::Fh;
use super::share::{Share, Way};
use crate::error::ErrorKind;
use crate::list::Entry;

/// Where a listing goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub cookie: u64,
    pub verifier: [u8; 8],
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Page {
    pub entries: Vec<Entry>,
    /// The cookie of the last entry, of those not shown too.
    pub last: Option<u64>,
    pub verifier: [u8; 8],
    pub eof: bool,
}

/// A listing under way.
#[derive(Debug)]
pub(crate) struct Listing {
    share: Arc<Share>,
    dir: Fh,
    /// `None` at the end.
    place: Option<Place>,
}

impl Listing {
    pub async fn open(share: &Arc<Share>, path: &std::path::Path) -> Result<Self, ErrorKind> {
        let dir = share.find(path).await?.0;
        Ok(Self { share: Arc::clone(share), dir, place: Some(Place::default()) })
    }

    pub async fn next_batch(&mut self) -> Result<Option<Vec<Entry>>, ErrorKind> {
        let Some(place) = self.place else { return Ok(None) };
        let page = match &self.share.way {
            Way::Three(three, _) => three.page(&self.dir, place).await?,
            Way::Four(four, _) => four.page(&self.dir, place).await?,
        };
        self.place = match (page.eof, page.last) {
            (true, _) => None,
            // It would be asked the same for ever.
            (false, None) => return Err(ErrorKind::Nonsense("a listing that goes on without entries")),
            (false, Some(cookie)) if cookie == place.cookie => {
                return Err(ErrorKind::Nonsense("a listing that does not get on"));
            }
            (false, Some(cookie)) => Some(Place { cookie, verifier: page.verifier }),
        };
        Ok(Some(page.entries))
    }
}
