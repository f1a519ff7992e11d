//! Names and paths as the backend takes them: bytes, checked once when they are made.

/// One component of a path: 1 to 255 bytes, no `/`, no NUL, neither `.` nor `..`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name<'a>(&'a [u8]);

/// Why some bytes are no [`Name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// No bytes at all.
    Empty,
    /// More than [`Name::MAX_BYTES`].
    TooLong,
    /// `.` or `..`.
    Dots,
    /// A `/` or a NUL inside.
    Forbidden,
}

impl<'a> Name<'a> {
    /// The longest component Linux file systems take, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Checks `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, NameError> {
        match bytes {
            b"" => Err(NameError::Empty),
            b"." | b".." => Err(NameError::Dots),
            _ if bytes.len() > Self::MAX_BYTES => Err(NameError::TooLong),
            _ if bytes.iter().any(|b| matches!(b, b'/' | 0)) => Err(NameError::Forbidden),
            _ => Ok(Self(bytes)),
        }
    }

    /// The bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl std::fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.0))
    }
}

/// Several components below some directory; none at all is the directory itself. It cannot hold `..`, so it cannot lead
/// up; only a symbolic link could, and the backend refuses that.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Path(Vec<u8>);

impl Path {
    /// The directory itself.
    pub const fn here() -> Self {
        Self(Vec::new())
    }

    /// Checks `/`-separated components; empty bytes are [`Path::here`]. A leading, trailing or double `/` is an
    /// [`NameError::Empty`] component.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        if !bytes.is_empty() {
            for component in bytes.split(|&b| b == b'/') {
                Name::new(component)?;
            }
        }
        Ok(Self(bytes.to_vec()))
    }

    /// Whether it is the directory itself.
    pub fn is_here(&self) -> bool {
        self.0.is_empty()
    }

    /// The components joined by `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The components in order.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = Name<'_>> {
        self.0.split(|&b| b == b'/').filter(|c| !c.is_empty()).map(Name)
    }

    /// The last component.
    pub fn last(&self) -> Option<Name<'_>> {
        self.components().next_back()
    }

    /// All components but the last; `None` for the directory itself.
    pub fn parent(&self) -> Option<Self> {
        if self.is_here() {
            return None;
        }
        let end = self.0.iter().rposition(|&b| b == b'/').unwrap_or(0);
        Some(Self(self.0.get(..end).unwrap_or_default().to_vec()))
    }

    /// This path with one more component.
    pub fn join(&self, name: Name<'_>) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.0.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name.0);
        Self(bytes)
    }
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_component() {
        assert!(Name::new(b"a").is_ok());
        assert!(Name::new(&[b'x'; 255]).is_ok());
        assert_eq!(Name::new(&[b'x'; 256]), Err(NameError::TooLong));
        assert_eq!(Name::new(b""), Err(NameError::Empty));
        assert_eq!(Name::new(b".."), Err(NameError::Dots));
        assert_eq!(Name::new(b"a/b"), Err(NameError::Forbidden));
        assert_eq!(Name::new(b"a\0b"), Err(NameError::Forbidden));
    }

    #[test]
    fn a_path_takes_itself_apart() {
        let path = Path::new(b"a/b/c").unwrap();
        assert_eq!(path.components().map(Name::as_bytes).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!(path.last().unwrap().as_bytes(), b"c");
        assert_eq!(path.parent().unwrap().as_bytes(), b"a/b");
        assert_eq!(Path::new(b"a").unwrap().parent(), Some(Path::here()));
        assert_eq!(Path::here().parent(), None);
        assert_eq!(Path::here().join(Name::new(b"x").unwrap()).as_bytes(), b"x");
        assert_eq!(path.join(Name::new(b"d").unwrap()).as_bytes(), b"a/b/c/d");
    }

    #[test]
    fn a_path_cannot_lead_up_or_be_absolute() {
        assert_eq!(Path::new(b"a/../b"), Err(NameError::Dots));
        assert_eq!(Path::new(b"/a"), Err(NameError::Empty));
        assert_eq!(Path::new(b"a//b"), Err(NameError::Empty));
        assert_eq!(Path::new(b"a/"), Err(NameError::Empty));
    }
}
