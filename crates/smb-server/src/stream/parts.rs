//! How the bytes of a stream lie in extended attributes. One attribute holds 64 KiB at most, and less on some file
//! systems, so a larger stream goes on in further ones, laid out as Samba's `streams_xattr` lays them out where its
//! `max xattrs per stream` is set: the attribute of the stream itself begins the data, and its last byte counts the
//! further ones, `user.DosStreamExt.1.NAME:$DATA` and on, which hold data and nothing else. A server that knows nothing of
//! them sees the beginning of the stream. The stream's own file calls this; whoever changes one keeps others from it.

use vfs::{Cred, Node, VfsError, VfsResult};

use super::{MAX_KEY_BYTES, PREFIX};

/// What further attributes begin with, before their number.
pub const FURTHER_PREFIX: &str = "user.DosStreamExt.";
/// The longest value the kernel keeps (XATTR_SIZE_MAX).
const MAX_VALUE_BYTES: usize = 65536;
/// The shortest values tried where the file system takes no longer ones.
const MIN_VALUE_BYTES: usize = 4096;
/// Attributes of one stream at most: no more are read by Samba.
const MOST_PARTS: usize = 16;
/// The longest stream: one byte of its first attribute is not data.
pub const MOST_BYTES: usize = MOST_PARTS * MAX_VALUE_BYTES - 1;

/// The attributes of one stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The attribute of the stream itself, with the count behind its data.
    first: Vec<u8>,
    further: Vec<Vec<u8>>,
}

impl Parts {
    /// Reads them. Of further ones that are missing, because whoever wrote them came to no end, nothing is made up.
    pub fn load(base: &dyn Node, key: &str) -> VfsResult<Self> {
        let first = match base.xattr(key, MAX_VALUE_BYTES) {
            Err(VfsError::NoXattr) => return Err(VfsError::Stale),
            value => value?,
        };
        let mut parts = Self { first, further: Vec::new() };
        for number in 1..=parts.announced() {
            let Some(key) = further_key(key, number) else { break };
            match base.xattr(&key, MAX_VALUE_BYTES) {
                Err(VfsError::NoXattr) => break,
                value => parts.further.push(value?),
            }
        }
        Ok(parts)
    }

    /// Whether the first holds all: then what was read is of one moment.
    pub fn is_one(&self) -> bool {
        self.announced() == 0
    }

    fn announced(&self) -> usize {
        self.first.last().map(|&count| usize::from(count)).filter(|&count| count < MOST_PARTS).unwrap_or(0)
    }

    /// The stream's data.
    pub fn data(&self) -> Vec<u8> {
        let first = self.first.split_last().map_or(&[][..], |(_, data)| data);
        std::iter::once(first).chain(self.further.iter().map(Vec::as_slice)).collect::<Vec<_>>().concat()
    }

    /// `data` in attributes of at most `most` bytes each, if it goes in as many as there can be.
    fn of(data: &[u8], most: usize) -> Option<Self> {
        let (first, rest) = data.split_at_checked(most - 1).unwrap_or((data, &[]));
        let further: Vec<_> = rest.chunks(most).map(<[u8]>::to_vec).collect();
        let count = u8::try_from(further.len()).ok().filter(|&count| usize::from(count) < MOST_PARTS)?;
        let mut first = first.to_vec();
        first.push(count);
        Some(Self { first, further })
    }

    /// Writes `data` in place of these parts, in as few attributes as the file system lets it. When it does not fit
    /// everything is as it was.
    pub fn replace(&self, base: &dyn Node, cred: &Cred, key: &str, data: &[u8]) -> VfsResult<()> {
        let mut most = MAX_VALUE_BYTES;
        loop {
            let after = Self::of(data, most).ok_or(VfsError::NoSpace)?;
            match self.write(base, cred, key, &after) {
                Err(VfsError::NoSpace | VfsError::TooLarge) if most > MIN_VALUE_BYTES => most /= 2,
                Err(VfsError::TooLarge) => return Err(VfsError::NoSpace),
                result => return result,
            }
        }
    }

    /// The first is written last, since its count is what makes the further ones count, and only what differs.
    fn write(&self, base: &dyn Node, cred: &Cred, key: &str, after: &Self) -> VfsResult<()> {
        for (index, part) in after.further.iter().enumerate() {
            if self.further.get(index) == Some(part) {
                continue;
            }
            let written = match further_key(key, index + 1) {
                Some(key) => base.set_xattr(cred, &key, part),
                None => Err(VfsError::NoSpace),
            };
            if let Err(error) = written {
                self.restore(base, cred, key, index);
                return Err(error);
            }
        }
        if self.first != after.first
            && let Err(error) = base.set_xattr(cred, key, &after.first)
        {
            self.restore(base, cred, key, after.further.len());
            return Err(error);
        }
        if self.further.len() > after.further.len() {
            remove_further(base, cred, key, after.further.len() + 1);
        }
        Ok(())
    }

    /// Puts back the first `count` further attributes, after what is new has made room.
    fn restore(&self, base: &dyn Node, cred: &Cred, key: &str, count: usize) {
        if count > self.further.len() {
            remove_further(base, cred, key, self.further.len() + 1);
        }
        let put = |(index, part): &(usize, &Vec<u8>)| {
            further_key(key, index + 1).is_some_and(|key| base.set_xattr(cred, &key, part).is_ok())
        };
        let mut left: Vec<_> = self.further.iter().enumerate().take(count).collect();
        // Those that grow have room once the others have shrunk.
        left.retain(|part| !put(part));
        left.retain(|part| !put(part));
        if !left.is_empty() {
            tracing::warn!("part of a stream was lost while the disk was full");
        }
    }
}

/// Removes all attributes of a stream.
pub fn remove(base: &dyn Node, cred: &Cred, key: &str) -> VfsResult<()> {
    base.remove_xattr(cred, key)?;
    remove_further(base, cred, key, 1);
    Ok(())
}

/// Removes further attributes from `number` on, until there is none. They count for nothing any more: what cannot be
/// removed is only in the way of room.
fn remove_further(base: &dyn Node, cred: &Cred, key: &str, number: usize) {
    for number in number..MOST_PARTS {
        let Some(key) = further_key(key, number) else { return };
        if base.remove_xattr(cred, &key).is_err() {
            return;
        }
    }
}

/// The attribute that goes on `key`; `None` where the name would be too long for one.
fn further_key(key: &str, number: usize) -> Option<String> {
    let further = format!("{FURTHER_PREFIX}{number}.{}", key.strip_prefix(PREFIX)?);
    (further.len() <= MAX_KEY_BYTES).then_some(further)
}
