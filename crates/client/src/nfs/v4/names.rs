//! Operations of version 4 on names and attributes: one compound each, whatever the depth of the path.

use nfs_wire::nfs4::{
    Attr, Attrs, Bitmap, CreateArgs, CreateType, Fattr, NfsStat4, Op, ReadArgs, ReaddirArgs, RenameArgs, SetattrArgs,
    Stateid,
};

use super::super::attr::{self, Wanted};
use super::super::listing::{Page, Place};
use super::super::{Fh, name};
use super::compound::{asked_of_export, attrs_of, result_of};
use super::{Effect, Four, Verdict};
use crate::error::ErrorKind;
use crate::list::Entry;
use crate::stat::{Space, Stat};

impl Four {
    /// The directory at `names` below the root of all exports. What it says of itself is kept to.
    pub async fn export(&self, names: &[Vec<u8>]) -> Result<Fh, ErrorKind> {
        let answer = self
            .ask(|ops| {
                ops.op(&Op::Putrootfh).walk(names).op(&Op::Getfh).op(&Op::Getattr(asked_of_export()));
            })
            .await?;
        let mut walk = answer.walk()?;
        let fh = walk.pass(1 + names.len())?.handle()?;
        self.keep_to(&walk.attrs()?);
        Ok(fh)
    }

    /// So far down that what is left fits into one compound.
    pub(super) async fn descend<'n>(
        &self,
        root: &Fh,
        mut names: &'n [Vec<u8>],
    ) -> Result<(Fh, &'n [Vec<u8>]), ErrorKind> {
        let mut fh = root.clone();
        while names.len() > self.most_names() {
            let (now, rest) = names.split_at(self.most_names());
            let answer = self
                .ask(|ops| {
                    ops.at(&fh).walk(now).op(&Op::Getfh);
                })
                .await?;
            let found = answer.walk()?.pass(1 + now.len())?.handle()?;
            (fh, names) = (found, rest);
        }
        Ok((fh, names))
    }

    pub async fn find(&self, root: &Fh, names: &[Vec<u8>]) -> Result<(Fh, Stat), ErrorKind> {
        let (root, names) = self.descend(root, names).await?;
        let answer = self
            .ask(|ops| {
                ops.at(&root).walk(names).op(&Op::Getfh).stat();
            })
            .await?;
        let mut walk = answer.walk()?;
        Ok((walk.pass(1 + names.len())?.handle()?, walk.stat()?))
    }

    pub async fn getattr(&self, fh: &Fh) -> Result<Stat, ErrorKind> {
        let answer = self
            .ask(|ops| {
                ops.at(fh).stat();
            })
            .await?;
        answer.walk()?.pass(1)?.stat()
    }

    /// The first `most_bytes` of a file, and what it is like, in one round trip and without an open.
    pub async fn read_whole(
        &self,
        root: &Fh,
        names: &[Vec<u8>],
        count_bytes: u32,
    ) -> Result<(Stat, Vec<u8>), ErrorKind> {
        let (root, names) = self.descend(root, names).await?;
        let args = ReadArgs { stateid: Stateid::ANONYMOUS, offset_bytes: 0, count_bytes };
        let answer = self
            .ask(|ops| {
                ops.at(&root).walk(names).stat().op(&Op::Read(args));
            })
            .await?;
        let mut walk = answer.walk()?;
        let stat = walk.pass(1 + names.len())?.stat()?;
        Ok((stat, result_of!(walk, Read)?.data.to_vec()))
    }

    pub async fn setattr(&self, fh: &Fh, stateid: Stateid, wanted: &Wanted) -> Result<Verdict, ErrorKind> {
        let (mask, values) = wanted.fattr();
        let attributes = Fattr { mask, values: &values };
        let answer = self
            .set(|ops| {
                ops.at(fh).op(&Op::Setattr(SetattrArgs { stateid, attributes }));
            })
            .await?;
        if let Verdict::Lost(status) = self.judge(&answer.0, Effect::Repeatable)? {
            return Ok(Verdict::Lost(status));
        }
        answer.walk()?.pass(2)?;
        Ok(Verdict::Done)
    }

    async fn make(
        &self,
        root: &Fh,
        (dirs, name): (&[Vec<u8>], &[u8]),
        object: CreateType<'_>,
        wanted: &Wanted,
    ) -> Result<(), ErrorKind> {
        let (root, dirs) = self.descend(root, dirs).await?;
        let (mask, values) = wanted.fattr();
        let args = CreateArgs { object, name, attributes: Fattr { mask, values: &values } };
        let answer = self
            .change(|ops| {
                ops.at(&root).walk(dirs).op(&Op::Create(args));
            })
            .await?;
        answer.walk()?.pass(2 + dirs.len()).map(drop)
    }

    pub async fn mkdir(&self, root: &Fh, at: (&[Vec<u8>], &[u8]), wanted: &Wanted) -> Result<(), ErrorKind> {
        self.make(root, at, CreateType::Directory, wanted).await
    }

    pub async fn symlink(&self, root: &Fh, at: (&[Vec<u8>], &[u8]), target: &[u8]) -> Result<(), ErrorKind> {
        self.make(root, at, CreateType::Symlink(target), &Wanted::mode(0o777)).await
    }

    pub async fn readlink(&self, root: &Fh, names: &[Vec<u8>]) -> Result<Vec<u8>, ErrorKind> {
        let (root, names) = self.descend(root, names).await?;
        let answer = self
            .ask(|ops| {
                ops.at(&root).walk(names).op(&Op::Readlink);
            })
            .await?;
        Ok(result_of!(answer.walk()?.pass(1 + names.len())?, Readlink)?.to_vec())
    }

    pub async fn remove(&self, root: &Fh, dirs: &[Vec<u8>], name: &[u8]) -> Result<(), ErrorKind> {
        let (root, dirs) = self.descend(root, dirs).await?;
        let answer = self
            .change(|ops| {
                ops.at(&root).walk(dirs).op(&Op::Remove(name));
            })
            .await?;
        answer.walk()?.pass(2 + dirs.len()).map(drop)
    }

    /// The directory at `names`: what has two of them cannot be one compound of bounded length.
    pub async fn dir(&self, root: &Fh, names: &[Vec<u8>]) -> Result<Fh, ErrorKind> {
        if names.is_empty() {
            return Ok(root.clone());
        }
        Ok(self.find(root, names).await?.0)
    }

    pub async fn rename(&self, from: (&Fh, &[u8]), to: (&Fh, &[u8])) -> Result<(), ErrorKind> {
        let args = RenameArgs { old_name: from.1, new_name: to.1 };
        let answer = self
            .change(|ops| {
                ops.at(from.0).op(&Op::Savefh).at(to.0).op(&Op::Rename(args));
            })
            .await?;
        answer.walk()?.pass(4).map(drop)
    }

    pub async fn link(&self, fh: &Fh, dir: &Fh, name: &[u8]) -> Result<(), ErrorKind> {
        let answer = self
            .change(|ops| {
                ops.at(fh).op(&Op::Savefh).at(dir).op(&Op::Link(name));
            })
            .await?;
        answer.walk()?.pass(4).map(drop)
    }

    pub async fn space(&self, fh: &Fh) -> Result<Space, ErrorKind> {
        let asked = [Attr::SpaceTotal, Attr::SpaceFree, Attr::SpaceAvail];
        let answer = self
            .ask(|ops| {
                ops.at(fh).op(&Op::Getattr(Bitmap::of(&asked)));
            })
            .await?;
        let attrs = answer.walk()?.pass(1)?.attrs()?;
        let (Some(total_bytes), Some(free_bytes)) = (attrs.space_total, attrs.space_free) else {
            return Err(NfsStat4::ATTRNOTSUPP.into());
        };
        let available_bytes = attrs.space_avail.unwrap_or(free_bytes);
        Ok(Space { total_bytes, free_bytes, available_bytes })
    }

    /// A page of a directory.
    pub async fn page(&self, dir: &Fh, place: Place) -> Result<Page, ErrorKind> {
        /// What one answer holds at most.
        const MOST_BYTES: u32 = 256 << 10;
        let bytes = self.read_bytes().min(MOST_BYTES);
        let args = page_from(place, bytes);
        let answer = self
            .ask(|ops| {
                ops.at(dir).op(&Op::Readdir(args));
            })
            .await?;
        let ok = result_of!(answer.walk()?.pass(1)?, Readdir)?;
        let mut page = Page { entries: Vec::new(), last: None, verifier: ok.cookie_verifier, eof: ok.eof };
        for entry in ok.entries {
            page.last = Some(entry.cookie);
            let Some(local) = name::entry(entry.name)? else { continue };
            let attrs: Attrs<'_> = attrs_of(entry.attributes)?;
            let stat = match attrs.rdattr_error {
                None | Some(NfsStat4::OK) => Stat::from(&attrs),
                // Its attributes cannot be had, such as those of what another server has; its name can.
                Some(_) => Stat::from(&Attrs::default()),
            };
            page.entries.push(Entry { name: local, stat });
        }
        Ok(page)
    }
}

/// What is asked for a page. The hint of how much of it may be names (RFC 8881 18.23.3) is all of it: Ganesha 4 takes none for
/// no entries.
fn page_from(place: Place, bytes: u32) -> ReaddirArgs {
    ReaddirArgs {
        cookie: place.cookie,
        cookie_verifier: place.verifier,
        dir_count_bytes: bytes,
        max_count_bytes: bytes,
        request: attr::asked().with(Attr::RdattrError as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_all_the_room_there_is() {
        let args = page_from(Place::default(), 65_536);
        assert_eq!((args.dir_count_bytes, args.max_count_bytes), (65_536, 65_536));
    }
}
