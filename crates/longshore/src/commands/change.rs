//! `longshore rm`, `mkdir` and `mv`: changes to what a server has, without a byte of a file going over the wire. Links are
//! changed themselves, never what they lead to.

use std::path::{Path, PathBuf};
use std::pin::Pin;

use client::{Error, Stat};
use futures_util::StreamExt;

use super::args::{MkdirArgs, MvArgs, RmArgs};
use super::connect::{Place, Remote};
use super::on_servers;
use super::report::Report;
use super::trail::Trail;
use crate::failure::Failure;

/// Removals under way at the same time.
const IN_FLIGHT: usize = 32;

/// `longshore rm`.
pub fn rm(args: &RmArgs) -> Result<(), Failure> {
    let report = Report::new("rm");
    on_servers(&args.urls, &args.login, &report, async |places| {
        for place in places {
            let remover = Remover { args, report: &report, remote: &place.remote };
            remover.place(&place).await;
            if report.is_lost() {
                break;
            }
        }
        Ok(())
    })
}

struct Remover<'a> {
    args: &'a RmArgs,
    report: &'a Report,
    remote: &'a Remote,
}

impl Remover<'_> {
    async fn place(&self, place: &Place) {
        if place.path.as_os_str().is_empty() {
            return self.report.failure(place, "this is the share itself, which is not removed");
        }
        match self.remote.client.stat(&place.path).await {
            Ok(stat) if stat.is_dir() && !self.args.recursive => {
                self.report.failure(place, "it is a directory; -r removes directories");
            }
            Ok(stat) if stat.is_dir() => drop(self.tree(&place.path, Trail::default()).await),
            Ok(_) => drop(self.one(&place.path).await),
            Err(error) => drop(self.is_well(&place.path, Err(error))),
        }
    }

    /// Removes a directory with what is in it; answers whether it is gone. It is listed before anything is removed, since
    /// servers differ in what a listing shows of a directory that changes.
    fn tree<'a>(&'a self, path: &'a Path, trail: Trail) -> Pin<Box<dyn Future<Output = bool> + 'a>> {
        Box::pin(async move {
            let entries = match self.remote.client.list(path).await {
                Ok(entries) => entries,
                Err(error) => return self.is_well(path, Err(error)),
            };
            let (directories, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.stat.is_dir());
            let files = futures_util::stream::iter(files);
            let removals = files.map(|entry| self.one_in(path, entry.name.into()));
            let gone = removals.buffer_unordered(IN_FLIGHT);
            let mut is_empty = gone.fold(true, |all, gone| std::future::ready(all && gone)).await;
            for entry in directories {
                is_empty &= self.directory(&path.join(entry.name), &entry.stat, &trail).await;
            }
            // Where something is left, that has been said; that its directory is not empty says nothing more.
            is_empty && self.one(path).await
        })
    }

    /// A listing shows a link to a directory as a directory where the server resolves it: what is in there must stay.
    async fn directory(&self, path: &Path, stat: &Stat, trail: &Trail) -> bool {
        match (trail.down(stat), self.remote.client.stat(path).await) {
            (Err(why), _) => {
                self.report.failure(self.remote.place(path), why);
                false
            }
            (Ok(trail), Ok(stat)) if stat.is_dir() => self.tree(path, trail).await,
            (Ok(_), Ok(_)) => self.one(path).await,
            (Ok(_), Err(error)) => self.is_well(path, Err(error)),
        }
    }

    async fn one_in(&self, path: &Path, name: PathBuf) -> bool {
        self.one(&path.join(name)).await
    }

    async fn one(&self, path: &Path) -> bool {
        if self.report.is_lost() {
            return false;
        }
        let removed = self.remote.client.remove(path).await;
        self.is_well(path, removed)
    }

    fn is_well(&self, path: &Path, result: Result<(), Error>) -> bool {
        match result {
            Err(error) if !(self.args.force && error.is_not_found()) => {
                self.report.refused(self.remote, path, &error);
                false
            }
            _ => true,
        }
    }
}

/// `longshore mkdir`.
pub fn mkdir(args: &MkdirArgs) -> Result<(), Failure> {
    let report = Report::new("mkdir");
    on_servers(&args.urls, &args.login, &report, async |places| {
        for Place { remote, path } in &places {
            let made = match args.parents {
                true => make_all(remote, path).await,
                false => remote.client.mkdir(path).await,
            };
            if let Err(error) = made {
                report.refused(remote, path, &error);
            }
        }
        Ok(())
    })
}

/// Makes a directory and those on the way to it, as far as they are not there.
pub async fn make_all(remote: &Remote, path: &Path) -> Result<(), Error> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    match make_one(remote, path).await {
        Err(error) if error.is_not_found() => {}
        done => return done,
    }
    let mut ways: Vec<&Path> = path.ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
    ways.reverse();
    for way in ways {
        make_one(remote, way).await?;
    }
    Ok(())
}

/// Makes a directory unless it is there.
pub async fn make_one(remote: &Remote, path: &Path) -> Result<(), Error> {
    let Err(error) = remote.client.mkdir(path).await else { return Ok(()) };
    // Servers differ in what they say first: that it is there, or that it may not be made.
    match remote.client.stat(path).await {
        Ok(stat) if stat.is_dir() || stat.is_link() => Ok(()),
        _ => Err(error),
    }
}

/// `longshore mv`.
pub fn mv(args: &MvArgs) -> Result<(), Failure> {
    let report = Report::new("mv");
    on_servers(&[args.from.clone(), args.to.clone()], &args.login, &report, async |places| {
        let [from, to] = &places[..] else { return Ok(()) };
        if !from.is_with(to) {
            report.failure(from, format!("{to} is on another share; `longshore cp` copies there"));
            return Ok(());
        }
        let Some(name) = from.path.file_name() else {
            report.failure(from, "this is the share itself, which keeps its name");
            return Ok(());
        };
        let target = if is_directory(to).await { to.join(name) } else { to.clone() };
        if let Err(error) = from.remote.client.rename(&from.path, &target.path, !args.no_clobber).await {
            report.refused(&from.remote, &from.path, &error);
        }
        Ok(())
    })
}

/// Whether something can be put into a place. What cannot be looked at is taken for a name.
pub async fn is_directory(place: &Place) -> bool {
    place.path.as_os_str().is_empty() || place.remote.client.stat(&place.path).await.is_ok_and(|stat| stat.is_dir())
}
