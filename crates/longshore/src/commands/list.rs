//! `longshore ls` and `longshore stat`: what a server knows about its files, for people and, with `--json`, for programs.
//! One directory is held in memory at a time; it is shown when it is whole, sorted by name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use client::{Entry, FileKind, Stat};
use serde_json::{Value, json};
use smb_wire::fscc::FileAttributes;

use super::args::{LsArgs, StatArgs};
use super::connect::{Place, Remote};
use super::on_servers;
use super::report::{Output, Piece, Report, for_output};
use super::trail::{self, Trail};
use super::words::{self, rfc3339};
use crate::failure::Failure;

/// What is written at once.
const PIECE_BYTES: usize = 64 << 10;

/// `longshore ls`.
pub fn ls(args: &LsArgs) -> Result<(), Failure> {
    let report = Report::new("ls");
    on_servers(&args.urls, &args.login, &report, async |places| {
        let output = Output::new();
        let lister = Lister { args, report: &report, output: &output, titles: args.recursive || places.len() > 1 };
        for place in places {
            if !lister.place(&place).await {
                break;
            }
        }
        output.finish(&report).await
    })
}

/// `longshore stat`.
pub fn stat(args: &StatArgs) -> Result<(), Failure> {
    let report = Report::new("stat");
    on_servers(&args.urls, &args.login, &report, async |places| {
        let output = Output::new();
        for place in places {
            let Place { remote, path } = &place;
            let text = match remote.client.stat(path).await {
                Ok(stat) if args.json => line(&record(remote, path, &stat)),
                Ok(stat) => description(&place, &stat),
                Err(error) => {
                    report.refused(remote, path, &error);
                    continue;
                }
            };
            if !output.put(Piece::Text(text)).await {
                break;
            }
        }
        output.finish(&report).await
    })
}

/// One `ls` under way. Its methods answer `false` when nobody reads any more.
struct Lister<'a> {
    args: &'a LsArgs,
    report: &'a Report,
    output: &'a Output,
    /// Each directory's name is said above what is in it.
    titles: bool,
}

impl Lister<'_> {
    async fn place(&self, place: &Place) -> bool {
        let Place { remote, path } = place;
        match remote.client.stat(path).await {
            // A link is asked for what it leads to, where the server resolves it.
            Ok(stat) if stat.is_dir() || path.as_os_str().is_empty() => self.tree(place).await,
            Ok(stat) => self.output.put(Piece::Text(self.line(remote, path, &stat, path))).await,
            Err(error) => {
                self.report.refused(remote, path, &error);
                true
            }
        }
    }

    /// A directory and, where wanted, those in it: each before what is in it, in the order of their names.
    async fn tree(&self, top: &Place) -> bool {
        let mut pending = vec![(top.clone(), Trail::default())];
        while let Some((place, trail)) = pending.pop() {
            let Place { remote, path } = &place;
            let entries = match self.entries(remote, path).await {
                Ok(entries) => entries,
                Err(error) => {
                    self.report.refused(remote, path, &error);
                    if self.report.is_lost() { return true } else { continue }
                }
            };
            if !self.directory(remote, path, &entries).await {
                return false;
            }
            if self.args.recursive {
                self.remember(&place, &trail, &entries, &mut pending).await;
            }
        }
        true
    }

    /// Notes the directories among the entries, so that the first of them comes next.
    async fn remember(&self, place: &Place, trail: &Trail, entries: &[Entry], pending: &mut Vec<(Place, Trail)>) {
        for entry in entries.iter().rev().filter(|entry| entry.stat.is_dir()) {
            let place = place.join(&entry.name);
            match (trail.down(&entry.stat), trail::is_link(&place).await) {
                (Err(why), _) => self.report.failure(&place, why),
                (Ok(trail), Ok(false)) => pending.push((place, trail)),
                (Ok(_), Ok(true)) => {}
                (Ok(_), Err(error)) => self.report.refused(&place.remote, &place.path, &error),
            }
        }
    }

    async fn entries(&self, remote: &Remote, path: &Path) -> Result<Vec<Entry>, client::Error> {
        let mut entries = remote.client.list(path).await?;
        entries.retain(|entry| self.args.all || !is_hidden(entry));
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    async fn directory(&self, remote: &Remote, path: &Path, entries: &[Entry]) -> bool {
        let mut text = Vec::new();
        let is_titled = self.titles && !self.args.json;
        if is_titled {
            text.extend(format!("{}:\n", words::printable(&remote.place(path))).into_bytes());
        }
        for entry in entries {
            text.extend(self.line(remote, &path.join(&entry.name), &entry.stat, Path::new(&entry.name)));
            if text.len() >= PIECE_BYTES && !self.output.put(Piece::Text(std::mem::take(&mut text))).await {
                return false;
            }
        }
        if is_titled {
            text.push(b'\n');
        }
        self.output.put(Piece::Text(text)).await
    }

    fn line(&self, remote: &Remote, path: &Path, stat: &Stat, name: &Path) -> Vec<u8> {
        match (self.args.json, self.args.long) {
            (true, _) => line(&record(remote, path, stat)),
            (false, true) => long_line(stat, &for_output(name)),
            (false, false) => [&for_output(name)[..], b"\n"].concat(),
        }
    }
}

fn is_hidden(entry: &Entry) -> bool {
    entry.name.as_bytes().starts_with(b".") || entry.stat.attributes.contains(FileAttributes::HIDDEN)
}

fn long_line(stat: &Stat, name: &[u8]) -> Vec<u8> {
    let time = stat.times.written.map_or_else(|| "-".to_owned(), |time| rfc3339(time, false));
    let mut text = format!("{} {:>14} {time:<20} ", nature(stat), stat.len_bytes).into_bytes();
    text.extend_from_slice(name);
    text.push(b'\n');
    text
}

/// Kind and mode, as `ls -l` has them, or kind and DOS attributes.
fn nature(stat: &Stat) -> String {
    let kind = match stat.kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Link => 'l',
        FileKind::Other => '?',
    };
    let letters: String = match stat.mode {
        Some(mode) => {
            (0..9).rev().map(|bit| if mode >> bit & 1 == 1 { ['x', 'w', 'r'][bit % 3] } else { '-' }).collect()
        }
        None => ATTRIBUTES
            .iter()
            .map(|(attribute, letter, _)| if stat.attributes.contains(*attribute) { *letter } else { '-' })
            .collect(),
    };
    format!("{kind}{letters}")
}

/// The DOS attributes that are shown (MS-FSCC 2.6).
const ATTRIBUTES: [(FileAttributes, char, &str); 4] = [
    (FileAttributes::READONLY, 'r', "read-only"),
    (FileAttributes::HIDDEN, 'h', "hidden"),
    (FileAttributes::SYSTEM, 's', "system"),
    (FileAttributes::ARCHIVE, 'a', "archive"),
];

fn attribute_names(stat: &Stat) -> Vec<&'static str> {
    ATTRIBUTES.iter().filter(|(a, ..)| stat.attributes.contains(*a)).map(|(.., name)| *name).collect()
}

fn kind_name(stat: &Stat) -> &'static str {
    match stat.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    }
}

/// What `stat` says to a person.
fn description(place: &Place, stat: &Stat) -> Vec<u8> {
    let time = |time: Option<SystemTime>| time.map_or_else(|| "unknown".to_owned(), |time| rfc3339(time, true));
    let mut lines = vec![
        ("name", place.to_string()),
        ("kind", kind_name(stat).to_owned()),
        ("bytes", format!("{} ({} allocated)", stat.len_bytes, stat.allocated_bytes)),
        ("written", time(stat.times.written)),
        ("changed", time(stat.times.changed)),
        ("accessed", time(stat.times.accessed)),
        ("created", time(stat.times.created)),
    ];
    if let Some(mode) = stat.mode {
        lines.push(("mode", format!("{:04o}", mode & 0o7777)));
    }
    if let Some((uid, gid)) = stat.owner {
        lines.push(("owner", format!("{uid}:{gid}")));
    }
    if let Some(links) = stat.links {
        lines.push(("links", links.to_string()));
    }
    let attributes = attribute_names(stat);
    if !attributes.is_empty() {
        lines.push(("attributes", attributes.join(", ")));
    }
    let text: String = lines.iter().map(|(key, value)| format!("{key:>10}  {}\n", words::printable(value))).collect();
    text.into_bytes()
}

/// What `--json` says: the same for `ls` and `stat`.
fn record(remote: &Remote, path: &Path, stat: &Stat) -> Value {
    let time = |time: Option<SystemTime>| time.map(|time| rfc3339(time, true));
    let name = path.file_name().unwrap_or(OsStr::new(remote.share()));
    let mut record = json!({
        "url": remote.url(path),
        "name": name.to_string_lossy(),
        "kind": kind_name(stat),
        "bytes": stat.len_bytes,
        "allocated_bytes": stat.allocated_bytes,
        "written": time(stat.times.written),
        "changed": time(stat.times.changed),
        "accessed": time(stat.times.accessed),
        "created": time(stat.times.created),
        "attributes": attribute_names(stat),
    });
    let optional = [
        ("mode", stat.mode.map(|mode| Value::from(format!("{:04o}", mode & 0o7777)))),
        ("uid", stat.owner.map(|(uid, _)| Value::from(uid))),
        ("gid", stat.owner.map(|(_, gid)| Value::from(gid))),
        ("links", stat.links.map(Value::from)),
        ("file_id", stat.file_id.map(Value::from)),
    ];
    if let Some(fields) = record.as_object_mut() {
        fields.extend(optional.into_iter().filter_map(|(key, value)| value.map(|value| (key.to_owned(), value))));
    }
    record
}

fn line(record: &Value) -> Vec<u8> {
    format!("{record}\n").into_bytes()
}
