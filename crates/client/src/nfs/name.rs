//! Paths of the caller and names from the server. A path must never lead above the share, and a name never be a path: who
//! copies a tree makes files of the names that come in a listing.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

use crate::error::ErrorKind;

/// The longest name a server is asked about; what is longer no file system has.
const MAX_NAME_BYTES: usize = 1024;
/// The most components of a path.
const MAX_COMPONENTS: usize = 1024;

/// The names along a path below the share. A leading `/` is the share's root.
pub(crate) fn components(path: &Path) -> Result<Vec<Vec<u8>>, ErrorKind> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) if !name.as_bytes().contains(&0) && name.len() <= MAX_NAME_BYTES => {
                names.push(name.as_bytes().to_vec());
            }
            Component::Normal(_) => return Err(ErrorKind::Input("a name is too long or holds a NUL")),
            _ => return Err(ErrorKind::Input("the path leads out of the share")),
        }
    }
    if names.len() > MAX_COMPONENTS {
        return Err(ErrorKind::Input("the path is too deep"));
    }
    Ok(names)
}

/// The directory and the name in it.
pub(crate) fn split(path: &Path) -> Result<(Vec<Vec<u8>>, Vec<u8>), ErrorKind> {
    let mut names = components(path)?;
    let name = names.pop().ok_or(ErrorKind::Input("the root of the share is neither made nor removed"))?;
    Ok((names, name))
}

/// The name of an entry of a listing; `None` for `.` and `..`.
pub(crate) fn entry(name: &[u8]) -> Result<Option<OsString>, ErrorKind> {
    match name {
        b"." | b".." => Ok(None),
        b"" => Err(ErrorKind::Nonsense("a name in a listing is empty")),
        _ if name.contains(&b'/') || name.contains(&0) || name.len() > MAX_NAME_BYTES => {
            Err(ErrorKind::Nonsense("a name in a listing is no name"))
        }
        _ => Ok(Some(OsString::from_vec(name.to_vec()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_share() {
        assert_eq!(components(Path::new("/a//b/./c/")).unwrap(), [b"a", b"b", b"c"]);
        assert_eq!(components(Path::new("/")).unwrap(), [b""; 0]);
        for bad in ["a/../../b", "a\0b", &"x".repeat(2000), &"x/".repeat(2000)] {
            assert!(components(Path::new(bad)).is_err(), "{bad}");
        }
        assert_eq!(split(Path::new("a/b")).unwrap(), (vec![b"a".to_vec()], b"b".to_vec()));
        assert!(split(Path::new("/")).is_err());
    }

    #[test]
    fn names_of_a_listing_are_names() {
        assert_eq!(entry(b".").unwrap(), None);
        assert_eq!(entry(b"..").unwrap(), None);
        assert_eq!(entry(b"a\\b\xff").unwrap(), Some(OsString::from_vec(b"a\\b\xff".to_vec())));
        for bad in [&b""[..], b"a/b", b"/", b"x\0", &[b'x'; 2000]] {
            assert!(entry(bad).is_err(), "{bad:?}");
        }
    }
}
