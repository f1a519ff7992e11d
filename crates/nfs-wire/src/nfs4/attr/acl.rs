//! Access control lists of NFSv4 (RFC 7530 6.2, RFC 8881 6.2).

use crate::xdr::List;

xdr_enum! {
    /// What an entry does (`acetype4`).
    pub enum AceType {
        /// It allows.
        Allow = 0,
        /// It denies.
        Deny = 1,
        /// It logs.
        Audit = 2,
        /// It alarms.
        Alarm = 3,
    }
}

xdr_flags! {
    /// Which types of entry a file system keeps.
    pub struct AclSupport {
        /// Allow.
        ALLOW = 1,
        /// Deny.
        DENY = 2,
        /// Audit.
        AUDIT = 4,
        /// Alarm.
        ALARM = 8,
    }

    /// How an entry is inherited and read.
    pub struct AceFlags {
        /// Files in the directory get it.
        FILE_INHERIT = 0x01,
        /// Directories in the directory get it.
        DIRECTORY_INHERIT = 0x02,
        /// They do not pass it on.
        NO_PROPAGATE_INHERIT = 0x04,
        /// It is not for the directory itself.
        INHERIT_ONLY = 0x08,
        /// Audit and alarm: what was allowed.
        SUCCESSFUL_ACCESS = 0x10,
        /// Audit and alarm: what was denied.
        FAILED_ACCESS = 0x20,
        /// `who` is a group.
        IDENTIFIER_GROUP = 0x40,
        /// 4.1: it was inherited.
        INHERITED = 0x80,
    }

    /// What an entry is about.
    pub struct AceMask {
        /// Read the file.
        READ_DATA = 0x0000_0001,
        /// List the directory.
        LIST_DIRECTORY = 0x0000_0001,
        /// Write the file.
        WRITE_DATA = 0x0000_0002,
        /// Add a file to the directory.
        ADD_FILE = 0x0000_0002,
        /// Make the file longer.
        APPEND_DATA = 0x0000_0004,
        /// Add a directory to the directory.
        ADD_SUBDIRECTORY = 0x0000_0004,
        /// Read named attributes.
        READ_NAMED_ATTRS = 0x0000_0008,
        /// Write named attributes.
        WRITE_NAMED_ATTRS = 0x0000_0010,
        /// Execute the file or pass through the directory.
        EXECUTE = 0x0000_0020,
        /// Delete an entry of the directory.
        DELETE_CHILD = 0x0000_0040,
        /// Read attributes.
        READ_ATTRIBUTES = 0x0000_0080,
        /// Write times and the like.
        WRITE_ATTRIBUTES = 0x0000_0100,
        /// Write the retention.
        WRITE_RETENTION = 0x0000_0200,
        /// Write the retention hold.
        WRITE_RETENTION_HOLD = 0x0000_0400,
        /// Delete the file.
        DELETE = 0x0001_0000,
        /// Read the ACL.
        READ_ACL = 0x0002_0000,
        /// Write the ACL and the mode.
        WRITE_ACL = 0x0004_0000,
        /// Change owner and group.
        WRITE_OWNER = 0x0008_0000,
        /// Wait for the file (of no meaning here).
        SYNCHRONIZE = 0x0010_0000,
    }

    /// What holds for an ACL as a whole (`aclflag4`).
    pub struct AclFlags {
        /// It follows what it inherits.
        AUTO_INHERIT = 1,
        /// It does not.
        PROTECTED = 2,
        /// It was made by default.
        DEFAULTED = 4,
    }
}

xdr_struct! {
    /// An entry (`nfsace4`).
    pub struct Ace<'a> {
        /// What it does.
        ace_type: AceType,
        /// How it is inherited and read.
        flags: AceFlags,
        /// What it is about.
        mask: AceMask,
        /// For whom: `OWNER@`, `GROUP@`, `EVERYONE@`, `user@domain`, a number.
        who: &'a [u8],
    }

    /// An ACL with its flags (`nfsacl41`).
    pub struct NfsAcl41<'a> {
        /// What holds for it.
        flags: AclFlags,
        /// The entries.
        aces: List<'a, Ace<'a>>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};

    #[test]
    fn an_acl_by_hand() {
        let ace = Ace {
            ace_type: AceType::Allow,
            flags: AceFlags::IDENTIFIER_GROUP,
            mask: AceMask::READ_DATA | AceMask::READ_ACL,
            who: b"GROUP@",
        };
        let text = "00000000 00000040 00020001 00000006 47524f55 50400000";
        is_on_the_wire(&ace, &unhex(text));
        is_on_the_wire(
            &NfsAcl41 { flags: AclFlags::PROTECTED, aces: List::new(&[ace]) },
            &unhex(&format!("00000002 00000001 {text}")),
        );
    }
}
