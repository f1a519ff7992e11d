//! The stores of what outlives the process: embedded databases in the state directory, one for SMB's persistent handles,
//! opened by `assembly` where a share is continuously available, one for NFSv4's clients and one for hosts that lock over
//! NFSv3, opened by `nfs`. They keep the
//! servers' records and never look into one.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nfs_server::StoreChange;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use smb_server::{Change, Store, StoreError};

const HANDLES: Table = TableDefinition::new("persistent-handles");
const FILE: &str = "smb-handles.redb";
const CLIENTS: Table = TableDefinition::new("nfsv4-clients");
const CLIENTS_FILE: &str = "nfsv4-clients.redb";

/// Where the state is when nobody says.
pub fn default_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/longshore");
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let own = std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from).or_else(home);
    own.unwrap_or_else(|| PathBuf::from("/var/lib")).join("longshore")
}

const HOSTS: Table = TableDefinition::new("nfsv3-locking-hosts");
const HOSTS_FILE: &str = "nfsv3-hosts.redb";

/// SMB's handles. One process has them open at a time.
pub struct StateStore(Records);

/// NFSv4's clients. One process has them open at a time.
pub struct ClientStore(Records);

/// Hosts that hold locks over NFSv3. The same.
pub struct LockingHosts(Records);

/// A database with one table of numbered records.
struct Records {
    database: Database,
    table: Table,
}

type Table = TableDefinition<'static, u64, &'static [u8]>;

impl StateStore {
    /// Opens the database in `directory`; both are made where they are not there.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Records::open(directory, FILE, HANDLES).map(Self).map_err(StoreError)
    }
}

impl ClientStore {
    /// The same.
    pub fn open(directory: &Path) -> Result<Self, nfs_server::StoreError> {
        Records::open(directory, CLIENTS_FILE, CLIENTS).map(Self).map_err(nfs_server::StoreError)
    }
}

impl LockingHosts {
    /// The same.
    pub fn open(directory: &Path) -> Result<Self, nfs_server::StoreError> {
        Records::open(directory, HOSTS_FILE, HOSTS).map(Self).map_err(nfs_server::StoreError)
    }
}

impl Store for StateStore {
    fn load(&self) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        self.0.load().map_err(StoreError)
    }

    fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        let changes = changes.iter().map(|change| match change {
            Change::Put { id, record } => (*id, Some(record.as_slice())),
            Change::Remove { id } => (*id, None),
        });
        self.0.apply(changes).map_err(StoreError)
    }
}

impl nfs_server::Store for ClientStore {
    fn load(&self) -> Result<Vec<(u64, Vec<u8>)>, nfs_server::StoreError> {
        self.0.load().map_err(nfs_server::StoreError)
    }

    fn apply(&self, changes: &[StoreChange]) -> Result<(), nfs_server::StoreError> {
        self.0.apply_nfs(changes)
    }
}

impl nfs_server::Store for LockingHosts {
    fn load(&self) -> Result<Vec<(u64, Vec<u8>)>, nfs_server::StoreError> {
        self.0.load().map_err(nfs_server::StoreError)
    }

    fn apply(&self, changes: &[StoreChange]) -> Result<(), nfs_server::StoreError> {
        self.0.apply_nfs(changes)
    }
}

impl Records {
    fn open(directory: &Path, file: &str, table: Table) -> Result<Self, String> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(told)?;
        let database = Database::create(directory.join(file)).map_err(told)?;
        let begun = database.begin_write().map_err(told)?;
        begun.open_table(table).map_err(told)?;
        begun.commit().map_err(told)?;
        Ok(Self { database, table })
    }

    fn load(&self) -> Result<Vec<(u64, Vec<u8>)>, String> {
        let reading = self.database.begin_read().map_err(told)?;
        let table = reading.open_table(self.table).map_err(told)?;
        let entries = table.iter().map_err(told)?;
        entries.map(|entry| entry.map(|(id, record)| (id.value(), record.value().to_vec())).map_err(told)).collect()
    }

    fn apply_nfs(&self, changes: &[StoreChange]) -> Result<(), nfs_server::StoreError> {
        let changes = changes.iter().map(|change| match change {
            StoreChange::Put { id, record } => (*id, Some(record.as_slice())),
            StoreChange::Remove { id } => (*id, None),
        });
        self.apply(changes).map_err(nfs_server::StoreError)
    }

    /// Puts the records that are there, removes those that are not.
    fn apply<'a>(&self, changes: impl Iterator<Item = (u64, Option<&'a [u8]>)>) -> Result<(), String> {
        let begun = self.database.begin_write().map_err(told)?;
        {
            let mut table = begun.open_table(self.table).map_err(told)?;
            for (id, record) in changes {
                match record {
                    Some(record) => drop(table.insert(id, record).map_err(told)?),
                    None => drop(table.remove(id).map_err(told)?),
                }
            }
        }
        begun.commit().map_err(told)
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
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
