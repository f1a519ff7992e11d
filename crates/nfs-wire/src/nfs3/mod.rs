//! NFS version 3 (RFC 1813): the 21 procedures, their arguments and results, one file per family. A result is
//! `Result<…Ok, Failed<…>>`, where the failure carries the attributes that the RFC sends along with it.

mod attr;
mod dir;
mod file;
mod fs;
mod io;
mod namespace;
mod status;

pub use attr::{
    Failed, Fattr, FileHandle, FileType, PostOpAttr, PostOpHandle, Sattr, SetTime, SpecData, Time, WccAttr, WccData,
};
pub use dir::{
    DirEntries, DirEntriesPlus, DirEntry, DirEntryPlus, DirLimits, DirWriter, ReaddirArgs, ReaddirOk, ReaddirPlusArgs,
    ReaddirPlusOk, ReaddirPlusRes, ReaddirRes,
};
pub use file::{
    Access, AccessArgs, AccessOk, AccessRes, GetattrRes, LookupOk, LookupRes, ReadlinkOk, ReadlinkRes, SetattrArgs,
    SetattrRes,
};
pub use fs::{FsProperties, FsinfoOk, FsinfoRes, FsstatOk, FsstatRes, PathconfOk, PathconfRes};
pub use io::{
    CommitArgs, CommitOk, CommitRes, ReadArgs, ReadOk, ReadPlace, ReadRes, StableHow, WriteArgs, WriteHead, WriteOk,
    WriteRes, put_read_head,
};
pub use namespace::{
    CreateArgs, CreateHow, CreateOk, CreateRes, DirOp, LinkArgs, LinkRes, LinkWcc, MkdirArgs, MknodArgs, MknodData,
    RemoveRes, RenameArgs, RenameRes, RenameWcc, SymlinkArgs,
};
pub use status::NfsStat3;

/// The version of the program.
pub const VERSION: u32 = 3;

/// The longest handle (RFC 1813 2.4).
pub const MAX_HANDLE_BYTES: usize = 64;

xdr_enum! {
    /// Procedures (RFC 1813 3).
    pub enum Nfs3Proc {
        /// Nothing.
        Null = 0,
        /// [`FileHandle`] to [`GetattrRes`].
        Getattr = 1,
        /// [`SetattrArgs`] to [`SetattrRes`].
        Setattr = 2,
        /// [`DirOp`] to [`LookupRes`].
        Lookup = 3,
        /// [`AccessArgs`] to [`AccessRes`].
        Access = 4,
        /// [`FileHandle`] to [`ReadlinkRes`].
        Readlink = 5,
        /// [`ReadArgs`] to [`ReadRes`].
        Read = 6,
        /// [`WriteArgs`] to [`WriteRes`].
        Write = 7,
        /// [`CreateArgs`] to [`CreateRes`].
        Create = 8,
        /// [`MkdirArgs`] to [`CreateRes`].
        Mkdir = 9,
        /// [`SymlinkArgs`] to [`CreateRes`].
        Symlink = 10,
        /// [`MknodArgs`] to [`CreateRes`].
        Mknod = 11,
        /// [`DirOp`] to [`RemoveRes`].
        Remove = 12,
        /// [`DirOp`] to [`RemoveRes`].
        Rmdir = 13,
        /// [`RenameArgs`] to [`RenameRes`].
        Rename = 14,
        /// [`LinkArgs`] to [`LinkRes`].
        Link = 15,
        /// [`ReaddirArgs`] to [`ReaddirRes`].
        Readdir = 16,
        /// [`ReaddirPlusArgs`] to [`ReaddirPlusRes`].
        ReaddirPlus = 17,
        /// [`FileHandle`] to [`FsstatRes`].
        Fsstat = 18,
        /// [`FileHandle`] to [`FsinfoRes`].
        Fsinfo = 19,
        /// [`FileHandle`] to [`PathconfRes`].
        Pathconf = 20,
        /// [`CommitArgs`] to [`CommitRes`].
        Commit = 21,
    }
}
