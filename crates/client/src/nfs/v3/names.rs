//! Operations of version 3 on names (RFC 1813 3.3.3, 3.3.5, 3.3.8 to 3.3.17).

use std::sync::atomic::Ordering::Relaxed;

use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{
    CreateArgs, CreateHow, CreateRes, DirOp, LinkArgs, LinkRes, LookupRes, MkdirArgs, Nfs3Proc, ReaddirArgs,
    ReaddirPlusArgs, ReaddirPlusRes, ReaddirRes, ReadlinkRes, RemoveRes, RenameArgs, RenameRes, SymlinkArgs,
};
use nfs_wire::xdr::Bounded;

use super::super::Fh;
use super::super::attr::Wanted;
use super::super::listing::{Page, Place};
use super::super::name;
use super::{Three, good};
use crate::error::ErrorKind;
use crate::list::Entry;
use crate::stat::Stat;

fn at<'a>(dir: &'a Fh, name: &'a [u8]) -> DirOp<'a> {
    DirOp { dir: Bounded(dir), name }
}

impl Three {
    pub async fn lookup(&self, dir: &Fh, name: &[u8]) -> Result<(Fh, Option<Stat>), ErrorKind> {
        let response = self.call(Nfs3Proc::Lookup, &at(dir, name)).await?;
        let ok = good(response.decode::<LookupRes<'_>>()?)?;
        Ok((ok.handle.0.into(), ok.attributes.as_ref().map(Stat::from)))
    }

    /// From `fh` down along `names`.
    pub async fn walk(&self, fh: &Fh, names: &[Vec<u8>]) -> Result<(Fh, Option<Stat>), ErrorKind> {
        let mut found = (fh.clone(), None);
        for name in names {
            found = self.lookup(&found.0, name).await?;
        }
        Ok(found)
    }

    /// A file, new or there already. An exclusive one is made anew in any case; sent twice it is still one.
    pub async fn create(&self, dir: &Fh, name: &[u8], how: CreateHow) -> Result<(Fh, Option<Stat>), ErrorKind> {
        let response = self.call(Nfs3Proc::Create, &CreateArgs { at: at(dir, name), how }).await?;
        let ok = good(response.decode::<CreateRes<'_>>()?)?;
        match ok.handle {
            Some(handle) => Ok((handle.0.into(), ok.attributes.as_ref().map(Stat::from))),
            None => self.lookup(dir, name).await,
        }
    }

    pub async fn mkdir(&self, dir: &Fh, name: &[u8], wanted: &Wanted) -> Result<(), ErrorKind> {
        let args = MkdirArgs { at: at(dir, name), attributes: wanted.sattr() };
        good(self.call_once(Nfs3Proc::Mkdir, &args).await?.decode::<CreateRes<'_>>()?).map(drop)
    }

    pub async fn symlink(&self, dir: &Fh, name: &[u8], target: &[u8]) -> Result<(), ErrorKind> {
        let args = SymlinkArgs { at: at(dir, name), attributes: Wanted::mode(0o777).sattr(), target };
        good(self.call_once(Nfs3Proc::Symlink, &args).await?.decode::<CreateRes<'_>>()?).map(drop)
    }

    pub async fn readlink(&self, fh: &Fh) -> Result<Vec<u8>, ErrorKind> {
        let response = self.call(Nfs3Proc::Readlink, &Bounded::<64>(fh)).await?;
        Ok(good(response.decode::<ReadlinkRes<'_>>()?)?.target.to_vec())
    }

    /// A file or a link (`is_dir` false), or an empty directory.
    pub async fn remove(&self, dir: &Fh, name: &[u8], is_dir: bool) -> Result<(), ErrorKind> {
        let procedure = if is_dir { Nfs3Proc::Rmdir } else { Nfs3Proc::Remove };
        good(self.call_once(procedure, &at(dir, name)).await?.decode::<RemoveRes>()?).map(drop)
    }

    pub async fn rename(&self, from: (&Fh, &[u8]), to: (&Fh, &[u8])) -> Result<(), ErrorKind> {
        let args = RenameArgs { from: at(from.0, from.1), to: at(to.0, to.1) };
        good(self.call_once(Nfs3Proc::Rename, &args).await?.decode::<RenameRes>()?).map(drop)
    }

    pub async fn link(&self, fh: &Fh, dir: &Fh, name: &[u8]) -> Result<(), ErrorKind> {
        let args = LinkArgs { handle: Bounded(fh), link: at(dir, name) };
        good(self.call_once(Nfs3Proc::Link, &args).await?.decode::<LinkRes>()?).map(drop)
    }

    /// A page of a directory. A server without READDIRPLUS is asked about each entry.
    pub async fn page(&self, dir: &Fh, place: Place) -> Result<Page, ErrorKind> {
        let bytes = self.listing_bytes.load(Relaxed);
        let args = ReaddirPlusArgs {
            dir: Bounded(dir),
            cookie: place.cookie,
            cookie_verifier: place.verifier,
            dir_count_bytes: bytes / 2,
            max_count_bytes: bytes,
        };
        let response = self.call(Nfs3Proc::ReaddirPlus, &args).await?;
        let ok = match response.decode::<ReaddirPlusRes<'_>>()? {
            Err(failed) if failed.status == NfsStat3::NOTSUPP => return self.plain_page(dir, place).await,
            result => good(result)?,
        };
        let mut page = Page { entries: Vec::new(), last: None, verifier: ok.cookie_verifier, eof: ok.eof };
        for entry in ok.entries {
            page.last = Some(entry.entry.cookie);
            let Some(local) = name::entry(entry.entry.name)? else { continue };
            let stat = match &entry.attributes {
                Some(attributes) => Some(Stat::from(attributes)),
                None => self.stat_of(dir, entry.entry.name).await?,
            };
            page.entries.extend(stat.map(|stat| Entry { name: local, stat }));
        }
        Ok(page)
    }

    async fn plain_page(&self, dir: &Fh, place: Place) -> Result<Page, ErrorKind> {
        let args = ReaddirArgs {
            dir: Bounded(dir),
            cookie: place.cookie,
            cookie_verifier: place.verifier,
            count_bytes: self.listing_bytes.load(Relaxed),
        };
        let response = self.call(Nfs3Proc::Readdir, &args).await?;
        let ok = good(response.decode::<ReaddirRes<'_>>()?)?;
        let mut page = Page { entries: Vec::new(), last: None, verifier: ok.cookie_verifier, eof: ok.eof };
        for entry in ok.entries {
            page.last = Some(entry.cookie);
            let Some(local) = name::entry(entry.name)? else { continue };
            let stat = self.stat_of(dir, entry.name).await?;
            page.entries.extend(stat.map(|stat| Entry { name: local, stat }));
        }
        Ok(page)
    }

    /// What an entry is like; `None` when it has gone meanwhile.
    async fn stat_of(&self, dir: &Fh, name: &[u8]) -> Result<Option<Stat>, ErrorKind> {
        let found = async {
            let (fh, stat) = self.lookup(dir, name).await?;
            match stat {
                Some(stat) => Ok(stat),
                None => self.getattr(&fh).await,
            }
        };
        match found.await {
            Ok(stat) => Ok(Some(stat)),
            Err(ErrorKind::Nfs(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
