//! Names as the directories spell them, where a client's are found ignoring case or by a short name. CREATE and renames
//! ask here and never the backend itself: a share's rules about names hold for what is found as for what was asked.

use smb_wire::name::utf16le;
use vfs::{Cred, Path, VfsError, VfsResult, Wait, casefold, shortname};

use crate::Share;

impl Share {
    /// Whether its names have short ones. Where case matters, a name has one spelling only.
    pub(crate) fn has_short_names(&self) -> bool {
        self.options.short_names && !self.options.case_sensitive
    }

    /// As [`vfs::Backend::spell`], from the root; what is found must not be hidden from clients.
    pub(crate) fn spell(&self, cred: &Cred, path: &Path, wait: Wait) -> VfsResult<Path> {
        let found = self.backend.spell(cred, &*self.backend.root(), path, wait)?;
        let count = found.components().count();
        for (index, (found, asked)) in found.components().zip(path.components()).enumerate() {
            if !self.may_be_called(found.as_bytes(), asked.as_bytes()) {
                return Err(if index + 1 == count { VfsError::NotFound } else { VfsError::PathNotFound });
            }
        }
        Ok(found)
    }

    fn may_be_called(&self, found: &[u8], asked: &[u8]) -> bool {
        casefold::same(found, asked) || self.has_short_names() && !self.options.veto.matches_local(found)
    }

    /// As [`vfs::Backend::spell_parent`], from the root.
    pub(crate) fn spell_parent(&self, cred: &Cred, path: &Path, wait: Wait) -> VfsResult<Path> {
        match (path.parent(), path.last()) {
            (Some(parent), Some(last)) => Ok(self.spell(cred, &parent, wait)?.join(last)),
            _ => Ok(path.clone()),
        }
    }

    /// The short name made up for `name` here, if one is; UTF-16LE bytes.
    pub(crate) fn made_up_name(&self, name: &[u8]) -> Option<Vec<u8>> {
        let made =
            shortname::made_for(name).filter(|_| self.has_short_names() && !matches!(name, b"." | b".." | b""))?;
        Some(utf16le(&String::from_utf8_lossy(&made)))
    }

    /// The short name of `name` (FileAlternateNameInformation, MS-FSCC 2.4.5), if it has one; UTF-16LE bytes.
    pub(crate) fn short_name(&self, name: &[u8]) -> Option<Vec<u8>> {
        if shortname::is_short(name) {
            return Some(utf16le(&String::from_utf8_lossy(&name.to_ascii_uppercase())));
        }
        self.made_up_name(name)
    }
}
