//! The directories that are open, one backend for each share, kept over a reload as long as the share still means the
//! same directory: its caches stay warm. `assembly` owns it.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use localfs::{LocalFs, LocalFsOptions};

use crate::failure::Failure;
use crate::plan::PlannedShare;

/// Open directories by the share's lower-case name.
#[derive(Default)]
pub struct Volumes(HashMap<String, (Key, Arc<LocalFs>)>);

/// What must stay the same for a backend to be kept.
#[derive(PartialEq, Eq)]
struct Key {
    path: PathBuf,
    directory: (u64, u64),
    options: LocalFsOptions,
}

impl Volumes {
    /// Opens what `shares` name, taking over what `self` has open already. `self` stays as it is, so that a reload that
    /// fails leaves the server as it was.
    pub fn for_shares(&self, shares: &[PlannedShare]) -> Result<Self, Failure> {
        shares.iter().map(|share| self.open(share)).collect::<Result<_, _>>().map(Self)
    }

    /// The backend of a share.
    pub fn get(&self, name: &str) -> Option<&Arc<LocalFs>> {
        self.0.get(&name.to_lowercase()).map(|(_, backend)| backend)
    }

    /// Any of them.
    pub fn any(&self) -> Option<&Arc<LocalFs>> {
        self.0.values().next().map(|(_, backend)| backend)
    }

    fn open(&self, share: &PlannedShare) -> Result<(String, (Key, Arc<LocalFs>)), Failure> {
        let settings = &share.settings;
        let failed = |why: String| Failure::system(format!("cannot serve {}: {why}", settings.name));
        let metadata = std::fs::metadata(&settings.path).map_err(|error| failed(error.to_string()))?;
        let options = LocalFsOptions {
            read_only: settings.read_only,
            assume_no_devices: settings.assume_no_devices,
            ..LocalFsOptions::default()
        };
        let key = Key { path: settings.path.clone(), directory: (metadata.dev(), metadata.ino()), options };
        let name = settings.name.to_lowercase();
        let backend = match self.0.get(&name) {
            Some((kept, backend)) if *kept == key => Arc::clone(backend),
            _ => LocalFs::new(&settings.path, options).map_err(|error| failed(error.to_string()))?,
        };
        Ok((name, (key, backend)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Share;

    #[test]
    fn a_reload_keeps_what_is_the_same_and_opens_what_is_not() {
        let root = tempfile::tempdir().unwrap();
        let share = |read_only| PlannedShare {
            settings: Share { read_only, ..Share::new("Docs", root.path()) },
            force: None,
            from_command_line: true,
        };
        let first = Volumes::default().for_shares(&[share(false)]).unwrap();
        let same = first.for_shares(&[share(false)]).unwrap();
        assert!(Arc::ptr_eq(first.get("docs").unwrap(), same.get("DOCS").unwrap()));
        let other = first.for_shares(&[share(true)]).unwrap();
        assert!(!Arc::ptr_eq(first.get("docs").unwrap(), other.get("docs").unwrap()));
    }
}
