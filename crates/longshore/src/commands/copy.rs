//! `longshore cp`: on one share by the server itself where it knows how, else through this machine's memory. A copy gets
//! its name when the server that has it says that it is whole, as with `put`.

use std::path::Path;
use std::pin::Pin;

use client::{Entry, Stat, Times};
use futures_util::StreamExt;

use super::args::CpArgs;
use super::budget::{Budget, Claim, TOO_MUCH};
use super::change::{is_directory, make_one};
use super::connect::Place;
use super::report::Report;
use super::trail::{self, Trail};
use super::transfer::{Temporary, Trouble};
use super::{on_servers, words};
use crate::failure::Failure;

/// Files copied at the same time.
const IN_FLIGHT: usize = 8;

/// Does what the command line says.
pub fn cp(args: &CpArgs) -> Result<(), Failure> {
    let report = Report::new("cp");
    on_servers(&[args.from.clone(), args.to.clone()], &args.login, &report, async |places| {
        let [from, to] = &places[..] else { return Ok(()) };
        let copier = Copier { args, report: &report, budget: Budget::default() };
        if let Err(trouble) = copier.named(from, to).await {
            copier.fail(from, &trouble);
        }
        Ok(())
    })
}

struct Copier<'a> {
    args: &'a CpArgs,
    report: &'a Report,
    budget: Budget,
}

impl Copier<'_> {
    async fn named(&self, from: &Place, to: &Place) -> Result<(), Trouble> {
        let stat = from.remote.client.stat(&from.path).await?;
        let is_dir = stat.is_dir() || from.path.as_os_str().is_empty();
        if is_dir && !self.args.recursive {
            return Err(Trouble::Differs("it is a directory; -r copies directories".into()));
        }
        let name = from.path.file_name().unwrap_or(from.remote.share().as_ref());
        let target = if is_directory(to).await { to.join(name) } else { to.clone() };
        if from.is_with(&target) && is_inside(&target.path, &from.path, is_dir) {
            return Err(Trouble::Differs(format!("{target} is the same or inside")));
        }
        match is_dir {
            true => self.tree(from.clone(), target, Trail::default()).await,
            false => self.file(from, &target, &stat).await,
        }
    }

    fn tree<'a>(
        &'a self,
        from: Place,
        to: Place,
        trail: Trail,
    ) -> Pin<Box<dyn Future<Output = Result<(), Trouble>> + 'a>> {
        Box::pin(async move {
            make_one(&to.remote, &to.path).await.map_err(|error| blame(&to, error))?;
            let (entries, _claims) = self.entries(&from).await?;
            let (directories, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.stat.is_dir());
            let (from, to) = (&from, &to);
            let copies = futures_util::stream::iter(files).map(|entry| self.entry(from.clone(), to.clone(), entry));
            copies.buffer_unordered(IN_FLIGHT).collect::<()>().await;
            for entry in directories {
                let place = from.join(&entry.name);
                if self.report.is_lost() {
                    break;
                }
                if let Err(trouble) = self.directory(&place, to.join(&entry.name), &entry.stat, &trail).await {
                    self.fail(&place, &trouble);
                }
            }
            Ok(())
        })
    }

    /// What is in a directory. As long as it is being copied its names are remembered.
    async fn entries(&self, from: &Place) -> Result<(Vec<Entry>, Vec<Claim>), Trouble> {
        let mut listing = from.remote.client.listing(&from.path).await?;
        let (mut entries, mut claims) = (Vec::new(), Vec::new());
        while let Some(batch) = listing.next_batch().await? {
            for entry in batch {
                let claim = self.budget.claim(&[entry.name.as_ref()]);
                claims.push(claim.ok_or_else(|| Trouble::Differs(TOO_MUCH.into()))?);
                entries.push(entry);
            }
        }
        Ok((entries, claims))
    }

    async fn directory(&self, from: &Place, to: Place, stat: &Stat, trail: &Trail) -> Result<(), Trouble> {
        let trail = trail.down(stat).map_err(|why| Trouble::Differs(why.into()))?;
        if trail::is_link(from).await? {
            self.report.warning(from, "it is a link and left out");
            return Ok(());
        }
        self.tree(from.clone(), to, trail).await
    }

    async fn entry(&self, from: Place, to: Place, entry: Entry) {
        let (from, to) = (from.join(&entry.name), to.join(&entry.name));
        if entry.stat.is_link() {
            return self.report.warning(&from, "it is a link and left out");
        }
        if self.report.is_lost() {
            return;
        }
        if let Err(trouble) = self.file(&from, &to, &entry.stat).await {
            self.fail(&from, &trouble);
        }
    }

    /// What is like it was before it was read was not changed meanwhile. A listing may tell what was true some time ago,
    /// so that one that differs is read once more.
    async fn file(&self, from: &Place, to: &Place, listed: &Stat) -> Result<(), Trouble> {
        let mut before = *listed;
        for _ in 0..2 {
            let temporary = Temporary::new(to, words::tag(before.len_bytes, before.times.written));
            self.contents(from, to, &temporary, &before).await?;
            let now = from.remote.client.stat(&from.path).await?;
            if is_same(&before, &now) {
                let named = async {
                    temporary.must_have(now.len_bytes).await?;
                    temporary.complete(now.len_bytes, None).await
                };
                return named.await.map_err(|trouble| blame_trouble(to, trouble));
            }
            temporary.remove().await;
            before = now;
        }
        Err(Trouble::Differs("it was changed while it was copied; try again".into()))
    }

    async fn contents(&self, from: &Place, to: &Place, temporary: &Temporary<'_>, stat: &Stat) -> Result<(), Trouble> {
        let times = Times { written: stat.times.written, accessed: stat.times.accessed, ..Times::default() };
        if !(from.is_with(to) && temporary.copy_of(&from.path, &times).await?) {
            by_hand(from, to, temporary, &times).await?;
        }
        Ok(())
    }

    fn fail(&self, place: &Place, trouble: &Trouble) {
        if let Trouble::Remote(error) = trouble {
            self.report.note_loss(error);
        }
        self.report.failure(place, trouble);
    }
}

/// Whether nobody has written to it in between. Reading it may have changed when it was last read.
fn is_same(before: &Stat, now: &Stat) -> bool {
    let mark = |stat: &Stat| (stat.kind, stat.len_bytes, stat.file_id, stat.times.written, stat.times.changed);
    mark(before) == mark(now)
}

/// Copies through this machine's memory.
async fn by_hand(from: &Place, to: &Place, temporary: &Temporary<'_>, times: &Times) -> Result<(), Trouble> {
    let file = from.remote.client.open(&from.path).await?;
    let blame = |error| blame(to, error);
    let copy = temporary.open_empty().await.map_err(blame)?;
    let mut source = file.read_stream(0..u64::MAX);
    let mut target = copy.write_stream(0);
    while let Some(chunk) = source.next().await? {
        target.write(&chunk).await.map_err(blame)?;
    }
    target.finish().await.map_err(blame)?;
    copy.set_times(times).await.map_err(blame)?;
    copy.close().await.map_err(blame)
}

/// Whether a copy to `to` would be the source, or be made in it for ever. Servers may take capitals for small letters; a
/// copy is not refused for that, and a file's goes by a temporary name.
fn is_inside(to: &Path, from: &Path, is_dir: bool) -> bool {
    to == from || (is_dir && to.starts_with(from))
}

fn blame_trouble(to: &Place, trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Remote(error) => blame(to, error),
        other => other,
    }
}

/// Says of an error that it is about the copy, not the source.
fn blame(to: &Place, error: client::Error) -> Trouble {
    match error.is_of_the_connection() {
        true => error.into(),
        false => Trouble::Differs(format!("{to}: {}", super::report::reason(&error))),
    }
}
