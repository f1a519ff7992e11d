//! MOUNT (RFC 1813 appendix I): a path becomes the handle to begin with, exports are listed. Version 1 is answered for
//! `umount` and `showmount`; its handles are too short for these.

use std::sync::Arc;

use nfs_wire::NfsStat3;
use nfs_wire::mount::{
    DirPath, ExportEntry, ExportList, HostName, MountEntry, MountList, MountOk, MountProc, MountStat3,
};
use nfs_wire::rpc::Flavor;
use nfs_wire::xdr::{Bounded, Chain, List, Reader, Xdr};
use vfs::{Access, Disposition, OpenHow, Path, WantKind};

use crate::config::Sec;
use crate::failure::{Done, Halt, Stop};
use crate::files::{Cx, Object};
use crate::reply::ReplyWriter;
use crate::server::Exported;

/// Runs a procedure: appends its results to `out`.
pub fn run(
    procedure: MountProc,
    version: u32,
    cx: &Cx,
    args: &mut Reader<'_>,
    out: &mut ReplyWriter,
) -> Result<(), Halt> {
    match procedure {
        MountProc::Null => {}
        MountProc::Mnt if version == 1 => {
            DirPath::decode(args)?;
            MountStat3::ACCES.put(out);
        }
        MountProc::Mnt => {
            let path = DirPath::decode(args)?;
            mount(cx, &path, out)?;
        }
        MountProc::Dump => dump(cx, out),
        MountProc::Umnt => {
            let path = DirPath::decode(args)?;
            cx.server.mounts.lock().retain(|(host, mounted)| *host != cx.peer.ip() || **mounted != *path);
        }
        MountProc::UmntAll => cx.server.mounts.lock().retain(|(host, _)| *host != cx.peer.ip()),
        MountProc::Export => exports(cx, out),
        MountProc::ExportAll if version == 1 => exports(cx, out),
        MountProc::ExportAll => return Err(Halt::Unavailable),
    }
    Ok(())
}

fn mount(cx: &Cx, path: &[u8], out: &mut ReplyWriter) -> Result<(), Halt> {
    let found = find(cx, path);
    match &found {
        Ok(object) => {
            cx.server.remember_mount(cx.peer.ip(), path);
            tracing::info!(peer = %cx.peer, path = %String::from_utf8_lossy(path), "mounted over NFS");
            let flavors = flavors(&object.export);
            let ok = MountOk { handle: Bounded(&object.handle), flavors: List::new(&flavors) };
            Ok::<_, MountStat3>(ok).put(out);
        }
        Err(Stop::WouldBlock) => return Err(Halt::WouldBlock),
        Err(Stop::TooWeak) => return Err(Halt::TooWeak),
        Err(Stop::Status(status)) => {
            tracing::info!(peer = %cx.peer, path = %String::from_utf8_lossy(path), why = %status, "not mounted over NFS");
            status_of(*status).put(out);
        }
    }
    Ok(())
}

/// What calls may come with, the preferred first; whoever may say who it is may also not say it.
fn flavors(export: &Exported) -> Vec<Flavor> {
    let own = export.options.sec.iter().map(|sec| sec.flavor());
    own.chain(export.takes(Sec::Sys).then_some(Flavor::NONE)).collect()
}

/// MOUNT's statuses are fewer, with the same numbers (RFC 1813 5.1.5).
fn status_of(status: NfsStat3) -> MountStat3 {
    let same = MountStat3(status.0);
    if same != MountStat3::OK && MountStat3::ALL.contains(&same) { same } else { MountStat3::SERVERFAULT }
}

/// The directory at `/export` or below it.
fn find(cx: &Cx, path: &[u8]) -> Done<Arc<Object>> {
    let mut parts = path.split(|&b| b == b'/').filter(|part| !part.is_empty());
    let name = parts.next().ok_or(NfsStat3::NOENT)?;
    let export = named(cx, name).ok_or(NfsStat3::NOENT)?;
    // This is asked with AUTH_SYS or by nobody, however they will come for the rest (RFC 2623 2.3.2).
    if !export.options.sec.iter().any(|sec| export.admit(cx.peer, *sec).is_some()) {
        return Err(NfsStat3::ACCES.into());
    }
    let below = Path::new(&parts.collect::<Vec<_>>().join(&b'/'))?;
    let how = OpenHow {
        access: Access::empty(),
        disposition: Disposition::Open,
        kind: WantKind::Directory,
        follow: true,
        mode: 0,
    };
    let root = export.backend.root();
    let opened = export.backend.open(&cx.cred(&export)?, &*root, &below, &how, cx.wait)?;
    let handle = export.backend.handle_of(&*opened.node)?;
    cx.adopt(&export, &handle, opened.node)
}

/// The export of that name; case makes no difference where no other export differs in it only.
fn named(cx: &Cx, name: &[u8]) -> Option<Arc<Exported>> {
    let settings = cx.server.settings.load();
    let exact = settings.exports.iter().find(|export| export.name.as_bytes() == name);
    let any = || settings.exports.iter().find(|export| export.name.as_bytes().eq_ignore_ascii_case(name));
    exact.or_else(any).cloned()
}

fn dump(cx: &Cx, out: &mut ReplyWriter) {
    let mounts: Vec<_> = cx.server.mounts.lock().iter().map(|(host, path)| (host.to_string(), path.clone())).collect();
    let entries: Vec<MountEntry<'_>> =
        mounts.iter().map(|(host, path)| MountEntry { host: Bounded(host.as_bytes()), path: Bounded(path) }).collect();
    MountList::new(&entries).put(out);
}

/// Exports that let the host in, and whom else.
fn exports(cx: &Cx, out: &mut ReplyWriter) {
    let settings = cx.server.settings.load();
    let shown = settings.exports.iter().filter(|export| export.is_shown_to(cx.peer.ip()));
    let texts: Vec<(String, Vec<String>)> = shown
        .map(|export| {
            let options = &export.options;
            let networks = options.clients.iter().chain(&options.read_only_clients);
            (format!("/{}", export.name), networks.map(ToString::to_string).collect())
        })
        .collect();
    let groups: Vec<Vec<HostName<'_>>> =
        texts.iter().map(|(_, hosts)| hosts.iter().map(|host| Bounded(host.as_bytes())).collect()).collect();
    let entries: Vec<ExportEntry<'_>> = (texts.iter().zip(&groups))
        .map(|((path, _), groups)| ExportEntry { path: Bounded(path.as_bytes()), groups: Chain::new(groups) })
        .collect();
    ExportList::new(&entries).put(out);
}
