//! Symbolic links between the wire and the backend: relative ones that stay inside the share are links to both; any
//! other, which the server's own users may have made, leads nowhere for clients and is not shown to them.

use smb_wire::NtStatus;
use smb_wire::fscc::SymlinkReparse;
use smb_wire::name::{component_to_local, local_to_wire, path_to_wire};
use smb_wire::smb2::Dialect;
use vfs::{Access, Cred, Disposition, FileKind, OpenHow, Path, Wait, WantKind};

use crate::Share;
use crate::failure::Failure;

/// SMB2_ERROR_ID_DEFAULT.
const ERROR_ID: u32 = 0;

/// The target of the link at `link` as clients have it, if they may.
pub fn to_wire(link: &Path, target: &[u8]) -> Option<Vec<u8>> {
    if target.is_empty() || !stays_inside(link, target.split(|&b| b == b'/')) {
        return None;
    }
    let mut wire = Vec::with_capacity(target.len() * 2);
    for (index, component) in target.split(|&b| b == b'/').filter(|c| !c.is_empty()).enumerate() {
        if index > 0 {
            wire.extend_from_slice(&[b'\\', 0]);
        }
        match component {
            b"." => wire.extend_from_slice(b".\0"),
            b".." => wire.extend_from_slice(b".\0.\0"),
            name => local_to_wire(name, &mut wire),
        }
    }
    Some(wire)
}

/// A client's target for a link at `link`.
pub fn to_local(link: &Path, reparse: &SymlinkReparse<'_>) -> Result<Vec<u8>, NtStatus> {
    if !reparse.relative || reparse.target.is_empty() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let units: Vec<[u8; 2]> = reparse.target.chunks_exact(2).filter_map(|c| c.try_into().ok()).collect();
    let mut local = Vec::new();
    for component in units.split(|unit| *unit == [b'\\', 0] || *unit == [b'/', 0]) {
        if !local.is_empty() {
            local.push(b'/');
        }
        match component.concat().as_slice() {
            b"" => return Err(NtStatus::IO_REPARSE_DATA_INVALID),
            b".\0" => local.push(b'.'),
            b".\0.\0" => local.extend_from_slice(b".."),
            name => local.extend_from_slice(&component_to_local(name)?),
        }
    }
    if stays_inside(link, local.split(|&b| b == b'/')) { Ok(local) } else { Err(NtStatus::ACCESS_DENIED) }
}

/// Whether a target never leaves the share, whatever its components are. An absolute one begins with an empty component.
fn stays_inside<'a>(link: &Path, target: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut depth = link.components().count().saturating_sub(1);
    for (index, component) in target.enumerate() {
        match component {
            b"" if index == 0 => return false,
            b"" | b"." => {}
            b".." if depth == 0 => return false,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    true
}

/// The answer to an open that met a link the server cannot follow, for the client to do it: STATUS_STOPPED_ON_SYMLINK
/// (MS-SMB2 3.3.5.9). `None` where no such link is in the way. `posix`: one in last place is never followed.
pub fn stopped(share: &Share, cred: &Cred, path: &Path, posix: bool, dialect: Dialect) -> Option<Failure> {
    let backend = &share.backend;
    let root = backend.root();
    let mut reached = Path::here();
    let mut components = path.components();
    while let Some(name) = components.next() {
        reached = reached.join(name);
        let attr = backend.attr_at(cred, &*root, &reached, Wait::Allowed).ok()?;
        let followed = || (!posix || reached != *path) && opens(share, cred, &reached, true).is_some();
        if attr.kind != FileKind::Symlink || followed() {
            continue;
        }
        let target = to_wire(&reached, &opens(share, cred, &reached, false)?.read_link().ok()?)?;
        let mut rest = Vec::new();
        components.for_each(|name| {
            rest.push(b'/');
            rest.extend_from_slice(name.as_bytes());
        });
        let mut unparsed = Vec::new();
        path_to_wire(&rest, &mut unparsed);
        return Some(failure(&target, unparsed.len() as u16, dialect));
    }
    None
}

fn opens(share: &Share, cred: &Cred, path: &Path, follow: bool) -> Option<std::sync::Arc<dyn vfs::Node>> {
    let (access, kind) = (Access::empty(), WantKind::Any);
    let how = OpenHow { access, disposition: Disposition::Open, kind, follow, mode: 0 };
    share.backend.open(cred, &*share.backend.root(), path, &how, Wait::Allowed).ok().map(|opened| opened.node)
}

fn failure(target: &[u8], unparsed_bytes: u16, dialect: Dialect) -> Failure {
    let mut data = Vec::new();
    SymlinkReparse { target, relative: true }.put_error(unparsed_bytes, &mut data);
    let context = (dialect == Dialect::V3_1_1).then_some(ERROR_ID);
    Failure { status: NtStatus::STOPPED_ON_SYMLINK, data, context }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::name::{from_utf16le, utf16le};

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn targets_inside_the_share_are_shown() {
        for (link, target, want) in [
            ("a", "b", Some("b")),
            ("a", "b/c", Some("b\\c")),
            ("d/a", "../b", Some("..\\b")),
            ("d/a", "./b//c/", Some(".\\b\\c")),
            ("a", "../b", None),
            ("d/a", "../../b", None),
            ("d/a", "x/../../../d", None),
            ("a", "/b", None),
            ("a", "", None),
        ] {
            let shown = to_wire(&path(link), target.as_bytes()).map(|wire| from_utf16le(&wire));
            assert_eq!(shown.as_deref(), want, "{link} -> {target}");
        }
    }

    #[test]
    fn clients_make_no_link_that_leads_out() {
        let local = |link: &str, target: &str, relative| {
            to_local(&path(link), &SymlinkReparse { target: &utf16le(target), relative })
        };
        assert_eq!(local("d/a", "..\\b", true), Ok(b"../b".to_vec()));
        assert_eq!(local("a", "b\\c", true), Ok(b"b/c".to_vec()));
        assert_eq!(local("a", "..\\b", true), Err(NtStatus::ACCESS_DENIED));
        assert_eq!(local("a", "\\??\\C:\\x", false), Err(NtStatus::ACCESS_DENIED));
        assert_eq!(local("a", "\\b", true), Err(NtStatus::IO_REPARSE_DATA_INVALID));
        assert!(local("a", "b|c", true).is_err());
    }
}
