//! FSSTAT, FSINFO and PATHCONF (RFC 1813 3.3.18 to 3.3.20).

use super::{Failed, PostOpAttr, Time};

/// What FSSTAT answers.
pub type FsstatRes = Result<FsstatOk, Failed<PostOpAttr>>;

/// What FSINFO answers.
pub type FsinfoRes = Result<FsinfoOk, Failed<PostOpAttr>>;

/// What PATHCONF answers.
pub type PathconfRes = Result<PathconfOk, Failed<PostOpAttr>>;

xdr_flags! {
    /// What a file system can do.
    pub struct FsProperties {
        /// Hard links.
        LINK = 0x01,
        /// Symbolic links.
        SYMLINK = 0x02,
        /// PATHCONF answers the same for every file.
        HOMOGENEOUS = 0x08,
        /// SETATTR can set times.
        CAN_SET_TIME = 0x10,
    }
}

xdr_struct! {
    /// Result of FSSTAT.
    pub struct FsstatOk {
        /// The file's attributes.
        attributes: PostOpAttr,
        /// Bytes in all.
        total_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
        /// Bytes free for the caller.
        available_bytes: u64,
        /// Files in all.
        total_files: u64,
        /// Files that can still be made.
        free_files: u64,
        /// Files that the caller can still make.
        available_files: u64,
        /// For how many seconds this is expected to stay so.
        invariant_seconds: u32,
    }

    /// Result of FSINFO.
    pub struct FsinfoOk {
        /// The file's attributes.
        attributes: PostOpAttr,
        /// The largest READ.
        read_max_bytes: u32,
        /// The preferred READ.
        read_preferred_bytes: u32,
        /// READs should be a multiple of this.
        read_multiple_bytes: u32,
        /// The largest WRITE.
        write_max_bytes: u32,
        /// The preferred WRITE.
        write_preferred_bytes: u32,
        /// WRITEs should be a multiple of this.
        write_multiple_bytes: u32,
        /// The preferred READDIR.
        readdir_preferred_bytes: u32,
        /// The largest file.
        max_file_bytes: u64,
        /// The granularity of times.
        time_delta: Time,
        /// What it can do.
        properties: FsProperties,
    }

    /// Result of PATHCONF.
    pub struct PathconfOk {
        /// The file's attributes.
        attributes: PostOpAttr,
        /// The most hard links.
        max_links: u32,
        /// The longest name.
        max_name_bytes: u32,
        /// Whether a longer name is an error, not cut.
        no_trunc: bool,
        /// Whether only the superuser gives files away.
        chown_restricted: bool,
        /// Whether names differ that differ in case only (then false).
        case_insensitive: bool,
        /// Whether a name keeps its case.
        case_preserving: bool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};

    #[test]
    fn what_a_file_system_says_by_hand() {
        let ok: FsstatRes = Ok(FsstatOk {
            attributes: None,
            total_bytes: 1,
            free_bytes: 2,
            available_bytes: 3,
            total_files: 4,
            free_files: 5,
            available_files: 6,
            invariant_seconds: 7,
        });
        let words: String = (1..=6).map(|n| format!("00000000 {n:08x} ")).collect();
        is_on_the_wire(&ok, &unhex(&format!("00000000 00000000 {words} 00000007")));

        let ok: FsinfoRes = Ok(FsinfoOk {
            attributes: None,
            read_max_bytes: 1,
            read_preferred_bytes: 2,
            read_multiple_bytes: 3,
            write_max_bytes: 4,
            write_preferred_bytes: 5,
            write_multiple_bytes: 6,
            readdir_preferred_bytes: 7,
            max_file_bytes: i64::MAX as u64,
            time_delta: Time { seconds: 0, nanoseconds: 1 },
            properties: FsProperties::all(),
        });
        let words: String = (1..=7).map(|n| format!("{n:08x} ")).collect();
        let text = format!("00000000 00000000 {words} 7fffffff ffffffff 00000000 00000001 0000001b");
        is_on_the_wire(&ok, &unhex(&text));

        let ok: PathconfRes = Ok(PathconfOk {
            attributes: None,
            max_links: 32000,
            max_name_bytes: 255,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        });
        let text = "00000000 00000000 00007d00 000000ff 00000001 00000001 00000000 00000001";
        is_on_the_wire(&ok, &unhex(text));
    }
}
