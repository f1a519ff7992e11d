//! What `get` and `put` are to copy: trees are walked while their files are being copied already. Directories are made on
//! the way. A tree is as hostile as the server it is on: its depth and what is remembered of it are bounded, and links are
//! never followed.

use std::ffi::OsString;
use std::fs::FileType;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::{FileKind, Stat};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::local::{Folder, Keep};
use super::{Copying, Trouble, blocking, destination};
use crate::commands::budget::{Claim, TOO_MUCH};
use crate::commands::change;
use crate::commands::connect::Place;
use crate::commands::trail::{self, Trail};
use crate::commands::words;

/// Directories looked into at the same time.
const AT_ONCE: usize = 8;
/// How deep a tree of this machine may be.
const MOST_DEPTH: usize = 256;

/// A file of a server, and where it goes.
pub struct Download {
    /// Where it is.
    pub place: Place,
    /// What it was like when it was found.
    pub stat: Stat,
    /// Where it goes.
    pub folder: Arc<Folder>,
    /// Its name there.
    pub name: OsString,
    /// The same as a path, for people.
    pub local: PathBuf,
}

/// A file of this machine, and where it goes.
pub struct Upload {
    /// Where it is.
    pub local: PathBuf,
    /// Its length when it was found.
    pub len_bytes: u64,
    /// Where it goes.
    pub place: Place,
}

/// Looks into directories, several at a time, from `top` on. `visit` answers the directories in one.
async fn walk<D, F>(copying: &Copying, top: D, visit: impl Fn(D) -> F)
where
    F: Future<Output = Vec<D>> + Send + 'static,
    D: Send + 'static,
{
    let mut pending = vec![top];
    let mut under_way = JoinSet::new();
    loop {
        while under_way.len() < AT_ONCE
            && let Some(directory) = pending.pop()
        {
            under_way.spawn(visit(directory));
        }
        let Some(found) = under_way.join_next().await else { return };
        copying.check(&found);
        pending.extend(found.unwrap_or_default());
    }
}

/// A directory of a server that is to be copied.
///
/// The one the user named has no trail; a link there is followed.
struct Source {
    place: Place,
    stat: Stat,
    into: Goal,
    local: PathBuf,
    trail: Option<Trail>,
    /// Those the user named need none.
    claim: Option<Claim>,
}

/// Where a directory's copy is.
enum Goal {
    /// It is open.
    This(Arc<Folder>),
    /// It is, or is to be made, in another.
    Child(Arc<Folder>, OsString),
}

/// Finds what is to be copied from servers.
pub async fn on_servers(copying: &Arc<Copying>, places: Vec<Place>, target: &Path, jobs: Sender<Download>) {
    let several = places.len() > 1;
    for place in places {
        if copying.report.is_lost() {
            break;
        }
        if let Err(trouble) = named(copying, &place, target, several, &jobs).await {
            copying.fail(&place, trouble).await;
        }
    }
    copying.progress.found_all();
}

/// One of the URLs.
async fn named(
    copying: &Arc<Copying>,
    place: &Place,
    target: &Path,
    several: bool,
    jobs: &Sender<Download>,
) -> Result<(), Trouble> {
    let is_root = place.path.as_os_str().is_empty();
    let stat = place.remote.client.stat(&place.path).await?;
    let is_dir = stat.is_dir() || is_root;
    if is_dir && !copying.args.recursive {
        return Err(Trouble::Differs("it is a directory; -r copies directories".into()));
    }
    let name = place.path.file_name().unwrap_or(place.remote.share().as_ref()).to_owned();
    let (target, is_exact) = (target.to_owned(), copying.args.no_target_directory);
    let local = if target.is_dir() && !is_exact { target.join(&name) } else { target.clone() };
    if is_dir && is_exact && target.is_dir() {
        let folder = Arc::new(blocking(move || Folder::named(&target)).await?);
        tree(
            copying,
            Source { place: place.clone(), stat, into: Goal::This(folder), local, trail: None, claim: None },
            jobs,
        )
        .await;
        return Ok(());
    }
    let (folder, name) = blocking(move || destination(&target, &name, is_exact, several)).await?;
    if is_dir {
        let into = Goal::Child(folder, name);
        tree(copying, Source { place: place.clone(), stat, into, local, trail: None, claim: None }, jobs).await;
    } else {
        copying.progress.found(stat.len_bytes);
        // That nobody takes it any more has been said.
        let _ = jobs.send(Download { place: place.clone(), stat, folder, name, local }).await;
    }
    Ok(())
}

async fn tree(copying: &Arc<Copying>, top: Source, jobs: &Sender<Download>) {
    walk(copying, top, |source| {
        let (copying, jobs) = (Arc::clone(copying), jobs.clone());
        async move {
            let mut found = Vec::new();
            let place = source.place.clone();
            if let Err(trouble) = look_into(&copying, source, &jobs, &mut found).await {
                copying.fail(&place, trouble).await;
            }
            found
        }
    })
    .await;
}

async fn look_into(
    copying: &Copying,
    source: Source,
    jobs: &Sender<Download>,
    found: &mut Vec<Source>,
) -> Result<(), Trouble> {
    let Source { place, stat, into, local, trail, claim: _claim } = source;
    if let (Goal::Child(folder, name), true) = (&into, trail.is_some() && trail::is_link(&place).await?) {
        link_here(copying, &place, Arc::clone(folder), name.clone()).await;
        return Ok(());
    }
    let trail = trail.unwrap_or_default();
    let keep = copying.keep(&stat);
    let folder = match into {
        Goal::This(folder) => folder,
        Goal::Child(parent, name) => Arc::new(blocking(move || parent.child(&name, keep)).await?),
    };
    let mut listing = place.remote.client.listing(&place.path).await?;
    while let Some(batch) = listing.next_batch().await? {
        for client::Entry { name, stat } in batch {
            let (place, local, folder) = (place.join(&name), local.join(&name), Arc::clone(&folder));
            match stat.kind {
                // The client library lets none through; it is this that nothing is written without.
                _ if !words::is_plain(&name) => copying.report.failure(&place, "the server's name for it is none"),
                FileKind::Directory => match trail.down(&stat) {
                    Ok(trail) => {
                        let claim = copying.budget.claim(&[&place.path, &local, name.as_ref()]);
                        let claim = Some(claim.ok_or(Trouble::Differs(TOO_MUCH.into()))?);
                        let into = Goal::Child(folder, name);
                        found.push(Source { place, stat, into, local, trail: Some(trail), claim });
                    }
                    Err(why) => copying.report.failure(&place, why),
                },
                FileKind::File => {
                    copying.progress.found(stat.len_bytes);
                    if jobs.send(Download { place, stat, folder, name, local }).await.is_err() {
                        return Ok(());
                    }
                }
                FileKind::Link => link_here(copying, &place, folder, name).await,
                FileKind::Other => copying.report.warning(&place, "it is no file and left out"),
            }
        }
    }
    Ok(())
}

/// A directory of this machine that is to be copied.
struct Origin {
    local: PathBuf,
    place: Place,
    depth: usize,
    claim: Option<Claim>,
}

/// Finds what is to be copied to a server.
pub async fn on_this_machine(
    copying: &Arc<Copying>,
    sources: &[String],
    target: &Place,
    ends_in_slash: bool,
    jobs: Sender<Upload>,
) {
    let is_exact = copying.args.no_target_directory;
    if ends_in_slash
        && !is_exact
        && let Err(error) = change::make_all(&target.remote, &target.path).await
    {
        return copying.fail(target, error.into()).await;
    }
    let is_inside = !is_exact && (ends_in_slash || change::is_directory(target).await);
    if sources.len() > 1 && !is_inside {
        return copying
            .fail(target, Trouble::Differs("it is no directory, so only one thing can go there".into()))
            .await;
    }
    for source in sources.iter().map(PathBuf::from) {
        if copying.report.is_lost() {
            break;
        }
        let place = match (is_inside, own_name(&source)) {
            (false, _) => target.clone(),
            (true, Ok(name)) => target.join(name),
            (true, Err(error)) => {
                copying.fail(target, error.into()).await;
                continue;
            }
        };
        if let Err(trouble) = given(copying, source, &place, &jobs).await {
            copying.fail(&place, trouble).await;
        }
    }
    copying.progress.found_all();
}

/// What a file or directory is called, though the user called it `.` or `a/..`.
fn own_name(source: &Path) -> std::io::Result<OsString> {
    match source.file_name() {
        Some(name) => Ok(name.to_owned()),
        None => Ok(std::fs::canonicalize(source)?.file_name().unwrap_or("root".as_ref()).to_owned()),
    }
}

/// One of the names on the command line; a link there is followed.
async fn given(copying: &Arc<Copying>, source: PathBuf, place: &Place, jobs: &Sender<Upload>) -> Result<(), Trouble> {
    let path = source.clone();
    let metadata = blocking(move || std::fs::metadata(&path).map_err(|error| named_error(&path, error))).await?;
    if metadata.is_dir() && !copying.args.recursive {
        return Err(Trouble::Differs(format!("{} is a directory; -r copies directories", words::shown(&source))));
    }
    if metadata.is_dir() {
        let top = Origin { local: source, place: place.clone(), depth: 0, claim: None };
        walk(copying, top, |origin| {
            let (copying, jobs) = (Arc::clone(copying), jobs.clone());
            async move {
                let mut found = Vec::new();
                let place = origin.place.clone();
                if let Err(trouble) = look_into_local(&copying, origin, &jobs, &mut found).await {
                    copying.fail(&place, trouble).await;
                }
                found
            }
        })
        .await;
    } else {
        copying.progress.found(metadata.len());
        // That nobody takes it any more has been said.
        let _ = jobs.send(Upload { local: source, len_bytes: metadata.len(), place: place.clone() }).await;
    }
    Ok(())
}

async fn look_into_local(
    copying: &Copying,
    origin: Origin,
    jobs: &Sender<Upload>,
    found: &mut Vec<Origin>,
) -> Result<(), Trouble> {
    let Origin { local, place, depth, claim: _claim } = origin;
    if depth > MOST_DEPTH {
        return Err(Trouble::Differs("the tree is too deep; the rest is left out".into()));
    }
    change::make_one(&place.remote, &place.path).await?;
    let directory = local.clone();
    let (keep, entries) = blocking(move || read_directory(&directory)).await?;
    copying.keep_for(&place, keep);
    for (name, kind, len_bytes) in entries {
        let (local, place) = (local.join(&name), place.join(&name));
        if kind.is_dir() {
            let claim = copying.budget.claim(&[&place.path, &local]);
            let claim = Some(claim.ok_or(Trouble::Differs(TOO_MUCH.into()))?);
            found.push(Origin { local, place, depth: depth + 1, claim });
        } else if kind.is_file() {
            copying.progress.found(len_bytes);
            if jobs.send(Upload { local, len_bytes, place }).await.is_err() {
                return Ok(());
            }
        } else if kind.is_symlink() {
            link_there(copying, &place, &local).await;
        } else {
            copying.report.warning(words::shown(&local), "it is no file and left out");
        }
    }
    Ok(())
}

type Entries = Vec<(OsString, FileType, u64)>;

fn read_directory(path: &Path) -> std::io::Result<(Keep, Entries)> {
    let read = || -> std::io::Result<_> {
        let keep = Keep::of(&std::fs::metadata(path)?);
        let entries = std::fs::read_dir(path)?.map(|entry| {
            let entry = entry?;
            let kind = entry.file_type()?;
            let len_bytes = if kind.is_file() { entry.metadata()?.len() } else { 0 };
            Ok((entry.file_name(), kind, len_bytes))
        });
        Ok((keep, entries.collect::<std::io::Result<_>>()?))
    };
    read().map_err(|error| named_error(path, error))
}

/// Makes a link here of one on a server. What it leads to is written down as it is, and never gone to.
async fn link_here(copying: &Copying, place: &Place, folder: Arc<Folder>, name: OsString) {
    if !copying.args.links {
        return copying.report.warning(place, LEFT_OUT);
    }
    let made = async {
        let target = place.remote.client.read_link(&place.path).await?;
        blocking(move || folder.link(&name, &target)).await.map_err(Trouble::from)
    };
    if let Err(trouble) = made.await {
        copying.fail(place, trouble).await;
    }
}

/// Makes a link on a server of one here.
async fn link_there(copying: &Copying, place: &Place, local: &Path) {
    if !copying.args.links {
        return copying.report.warning(words::shown(local), LEFT_OUT);
    }
    let made = async {
        let path = local.to_owned();
        let target = blocking(move || std::fs::read_link(&path).map_err(|error| named_error(&path, error))).await?;
        let client = &place.remote.client;
        match client.symlink(&target, &place.path).await {
            Err(error) if error.is_taken() && client.read_link(&place.path).await.is_ok_and(|old| old == target) => {}
            made => made?,
        }
        Ok(())
    };
    if let Err(trouble) = made.await {
        copying.fail(place, trouble).await;
    }
}

const LEFT_OUT: &str = "it is a symbolic link and left out (--links makes links)";

/// An error with the path it is about.
pub fn named_error(path: &Path, error: std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{}: {error}", words::shown(path)))
}
