//! The place where it outlives the process which clients of NFSv4 held something, so that they can have it again after a
//! restart (RFC 7530 9.6.3.4.1, RFC 8881 8.4.3): numbered records. The binary puts a database behind it, tests a map. The
//! server makes and reads the records; the store never looks into one.

/// Why a store could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError(pub String);

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

/// One change of what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreChange {
    /// The record `id` is this from now on.
    Put {
        /// Its number.
        id: u64,
        /// Its content.
        record: Vec<u8>,
    },
    /// There is no record of this number any more.
    Remove {
        /// Its number.
        id: u64,
    },
}

/// Keeps records.
pub trait Store: Send + Sync {
    /// All records there are.
    fn load(&self) -> Result<Vec<(u64, Vec<u8>)>, StoreError>;

    /// Makes all of `changes`, in their order, or none. When it returns they outlive the process and the machine's
    /// power. May wait.
    fn apply(&self, changes: &[StoreChange]) -> Result<(), StoreError>;
}
