//! The store of what outlives the process: an embedded database in the state directory, opened by `assembly` where a
//! share is continuously available. It keeps the server's records and never looks into one.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use smb_server::{Change, Store, StoreError};

const HANDLES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("persistent-handles");
const FILE: &str = "smb-handles.redb";

/// Where the state is when nobody says.
pub fn default_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/longshore");
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let own = std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from).or_else(home);
    own.unwrap_or_else(|| PathBuf::from("/var/lib")).join("longshore")
}

/// The database. One process has it open at a time.
pub struct StateStore(Database);

impl StateStore {
    /// Opens the database in `directory`; both are made where they are not there.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(told)?;
        let database = Database::create(directory.join(FILE)).map_err(told)?;
        let begun = database.begin_write().map_err(told)?;
        begun.open_table(HANDLES).map_err(told)?;
        begun.commit().map_err(told)?;
        Ok(Self(database))
    }
}

impl Store for StateStore {
    fn load(&self) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let reading = self.0.begin_read().map_err(told)?;
        let table = reading.open_table(HANDLES).map_err(told)?;
        let entries = table.iter().map_err(told)?;
        entries.map(|entry| entry.map(|(id, record)| (id.value(), record.value().to_vec())).map_err(told)).collect()
    }

    fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        let begun = self.0.begin_write().map_err(told)?;
        {
            let mut table = begun.open_table(HANDLES).map_err(told)?;
            for change in changes {
                match change {
                    Change::Put { id, record } => drop(table.insert(id, record.as_slice()).map_err(told)?),
                    Change::Remove { id } => drop(table.remove(id).map_err(told)?),
                }
            }
        }
        begun.commit().map_err(told)
    }
}

fn told(error: impl std::fmt::Display) -> StoreError {
    StoreError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_there_again_when_it_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        let put = |id, byte| Change::Put { id, record: vec![byte; 3] };
        let store = StateStore::open(&path).unwrap();
        assert_eq!(store.load(), Ok(Vec::new()));
        store.apply(&[put(1, 1), put(2, 2), put(1, 3)]).unwrap();
        store.apply(&[Change::Remove { id: 2 }, Change::Remove { id: 9 }, put(7, 7)]).unwrap();
        assert!(StateStore::open(&path).is_err(), "two servers with one state");
        drop(store);
        let store = StateStore::open(&path).unwrap();
        assert_eq!(store.load(), Ok(vec![(1, vec![3; 3]), (7, vec![7; 3])]));
    }
}
