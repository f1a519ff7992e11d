//! Directories of small files over the client library, for [`super::names`]: made before a load, put into the state that it
//! begins with, and removed after.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bench::plan::Operation;
use bench::workload::Workload;
use client::{Client, OpenHow, Times};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::job::{Load, noise};
use super::names::Names;
use super::place::{Address, FILE_PREFIX, Place};
use super::wire::{LEAST_TRANSFER_BYTES, connect};

/// Requests at once where nothing is measured.
const AT_ONCE: usize = 64;
/// The names of files begin so; their numbers follow.
const PREFIX: &str = "file-";

/// A job's directory over a connection of its own.
#[derive(Debug)]
pub struct Tree {
    client: Client,
    path: PathBuf,
}

/// The directory that the job of this number needs for a workload: one whose files stay, by their length, or one whose files
/// come and go.
fn name(workload: &Workload, job: u32) -> String {
    match workload.operation.uses_files_up() {
        true => format!("{FILE_PREFIX}{job}.passing"),
        false => format!("{FILE_PREFIX}{job}.files-{}", workload.block_bytes),
    }
}

/// Connects the job of this number, and brings its directory into the state the load begins with.
pub async fn open(place: &Place, load: &Load, number: u32) -> Result<Vec<Tree>, String> {
    let mut trees = Vec::new();
    for _ in 0..load.connections {
        trees.push(Tree::at(place, &name(&load.workload, number)).await?);
    }
    if let Some(tree) = trees.first().filter(|_| load.workload.operation.uses_files_up()) {
        tree.bring_about(&load.workload).await?;
    }
    Ok(trees)
}

/// Ends connections. What was measured stands, whatever the server says to that.
pub async fn close(trees: impl Iterator<Item = Tree>) {
    for tree in trees {
        let _ = tree.client.disconnect().await;
    }
}

/// Makes the directory that the job of this number needs for a workload, with its files.
pub async fn prepare(place: &Place, workload: &Workload, job: u32) -> Result<(), String> {
    let tree = Tree::at(place, &name(workload, job)).await?;
    if !workload.operation.uses_files_up() {
        tree.bring_about(workload).await?;
    }
    tree.client.disconnect().await.map_err(said)
}

/// Removes it, if it is there: another target may have done so.
pub async fn remove(place: &Place, workload: &Workload, job: u32) -> Result<(), String> {
    let tree = Tree::at(place, &name(workload, job)).await?;
    if let Ok(found) = tree.found().await {
        tree.for_each(found, |file| tree.remove(file)).await?;
        tree.client.remove(&tree.path).await.map_err(said)?;
    }
    tree.client.disconnect().await.map_err(said)
}

impl Tree {
    async fn at(place: &Place, name: &str) -> Result<Self, String> {
        let path = match place.address() {
            Address::Server(way) => way.url.path().join(name),
            Address::Bare(_) => PathBuf::from(name),
        };
        Ok(Self { client: connect(place, LEAST_TRANSFER_BYTES).await?, path })
    }

    /// The files that must be there are, with `block_bytes` each where they are to be read, and no others.
    async fn bring_about(&self, workload: &Workload) -> Result<(), String> {
        if self.client.stat(&self.path).await.is_err() {
            self.client.mkdir(&self.path).await.map_err(said)?;
        }
        let found = self.found().await?;
        let wanted = if workload.operation == Operation::FileCreate { 0 } else { workload.files };
        let excess = found.iter().copied().filter(|file| *file >= wanted);
        self.for_each(excess, |file| self.remove(file)).await?;
        let missing = (0..wanted).filter(|file| !found.contains(file));
        let len_bytes = if workload.operation.uses_files_up() { 0 } else { workload.block_bytes };
        let data = noise(len_bytes as usize, 1);
        self.for_each(missing, |file| self.make(file, &data)).await
    }

    /// The numbers of the files that are there. What else is there is nobody's here to touch.
    async fn found(&self) -> Result<BTreeSet<u32>, String> {
        let (mut found, mut listing) = (BTreeSet::new(), self.client.listing(&self.path).await.map_err(said)?);
        while let Some(entries) = listing.next_batch().await.map_err(said)? {
            let numbers = entries.iter().filter_map(|e| e.name.to_str()?.strip_prefix(PREFIX)?.parse::<u32>().ok());
            found.extend(numbers);
        }
        Ok(found)
    }

    async fn for_each<F: Future<Output = Result<(), String>>>(
        &self,
        files: impl IntoIterator<Item = u32>,
        each: impl Fn(u32) -> F,
    ) -> Result<(), String> {
        stream::iter(files).map(each).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn make(&self, file: u32, data: &[u8]) -> Result<(), String> {
        self.client.write_whole(self.file(file), data, OpenHow::new_file(), &Times::default()).await.map_err(said)
    }

    fn file(&self, number: u32) -> PathBuf {
        self.path.join(format!("{PREFIX}{number:08}"))
    }
}

impl Names for Tree {
    async fn read(&self, file: u32, len_bytes: u32) -> Result<(), String> {
        let path = self.file(file);
        let (stat, data) = self.client.read_whole(&path, len_bytes).await.map_err(said)?;
        let len = data.map_or(stat.len_bytes, |data| data.len() as u64);
        as_long(&path, len, len_bytes)
    }

    async fn create(&self, file: u32) -> Result<(), String> {
        self.make(file, &[]).await
    }

    async fn stat(&self, file: u32, len_bytes: u32) -> Result<(), String> {
        let path = self.file(file);
        let stat = self.client.stat(&path).await.map_err(said)?;
        as_long(&path, stat.len_bytes, len_bytes)
    }

    async fn remove(&self, file: u32) -> Result<(), String> {
        self.client.remove(self.file(file)).await.map_err(said)
    }

    async fn list(&self, mut part: impl FnMut(u32) -> bool) -> Result<(), String> {
        let mut listing = self.client.listing(&self.path).await.map_err(said)?;
        while let Some(entries) = listing.next_batch().await.map_err(said)? {
            if !part(u32::try_from(entries.len()).unwrap_or(u32::MAX)) {
                break;
            }
        }
        Ok(())
    }
}

fn as_long(path: &Path, len_bytes: u64, wanted_bytes: u32) -> Result<(), String> {
    match len_bytes == u64::from(wanted_bytes) {
        true => Ok(()),
        false => Err(format!("{} has {len_bytes} bytes, not {wanted_bytes}", path.display())),
    }
}

fn said(error: client::Error) -> String {
    error.to_string()
}
