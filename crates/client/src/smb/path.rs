//! Paths of the caller and names on the wire, by the rules of `smb_wire::name`. Every operation that names something comes
//! through here; a path must never lead above the share, whatever a server makes of it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use smb_wire::name;

use crate::error::ErrorKind;

/// The wire path, UTF-16LE without a leading backslash, of one below the share. A leading `/` is the share's root.
pub(crate) fn to_wire(path: &Path) -> Result<Vec<u8>, ErrorKind> {
    let mut local: Vec<u8> = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) if !part.as_bytes().contains(&0) => {
                if !local.is_empty() {
                    local.push(b'/');
                }
                local.extend(part.as_bytes());
            }
            _ => return Err(ErrorKind::Input("the path leads out of the share or holds a NUL")),
        }
    }
    let mut wire = Vec::new();
    name::path_to_wire(&local, &mut wire);
    if wire.len() > usize::from(u16::MAX) {
        return Err(ErrorKind::Input("the path is too long"));
    }
    Ok(wire)
}

/// The local name of an entry of a listing; `None` for `.` and `..`. What could be mistaken for a path is an error: who
/// copies a tree makes files of these names.
pub(crate) fn entry_name(wire: &[u8]) -> Result<Option<OsString>, ErrorKind> {
    const DOT: &[u8] = b".\0";
    const DOT_DOT: &[u8] = b".\0.\0";
    if wire == DOT || wire == DOT_DOT {
        return Ok(None);
    }
    let local = name::component_to_local(wire).map_err(|_| ErrorKind::Nonsense("a name in a listing is no name"))?;
    Ok(Some(OsString::from_vec(local)))
}

/// A path below a directory, as a change of it is told; `None` for what is no such path.
pub(crate) fn below(wire: &[u8]) -> Option<PathBuf> {
    let (units, rest) = wire.as_chunks::<2>();
    if units.is_empty() || !rest.is_empty() {
        return None;
    }
    let parts = units.split(|unit| *unit == *b"\\\0").map(|part| entry_name(part.as_flattened()).ok().flatten());
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_share() {
        assert_eq!(to_wire(Path::new("/a//b/./c/")).unwrap(), name::utf16le("a\\b\\c"));
        assert_eq!(to_wire(Path::new("/")).unwrap(), b"");
        assert!(to_wire(Path::new("a/../../b")).is_err());
        assert!(to_wire(Path::new("a\0b")).is_err());
        assert!(to_wire(Path::new(&"x".repeat(40_000))).is_err());
    }

    #[test]
    fn changes_are_below_what_is_watched() {
        assert_eq!(below(&name::utf16le("a\\b c")), Some("a/b c".into()));
        for bad in ["", "..\\a", "a\\\\b", "\\a", "a/b"] {
            assert_eq!(below(&name::utf16le(bad)), None, "{bad:?}");
        }
    }

    #[test]
    fn names_of_a_listing_are_names() {
        assert_eq!(entry_name(&name::utf16le(".")).unwrap(), None);
        assert_eq!(entry_name(&name::utf16le("..")).unwrap(), None);
        assert_eq!(entry_name(&name::utf16le("Größe")).unwrap(), Some("Größe".into()));
        for bad in ["", "a/b", "a\\b", "\u{f029}", "x\0"] {
            assert!(entry_name(&name::utf16le(bad)).is_err(), "{bad:?}");
        }
        assert!(entry_name(b"a").is_err());
    }
}
