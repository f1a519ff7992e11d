//! NTSTATUS, the word every SMB answer ends in (MS-ERREF 2.3.1). Here are the values a file server sends or a client of
//! one meets, with their names for logs. Which status answers which failure is chosen elsewhere.

use std::fmt;

/// A status as it travels, known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct NtStatus(pub u32);

impl NtStatus {
    /// Severity success (MS-ERREF 2.3): the top two bits are clear.
    pub const fn is_success(self) -> bool {
        self.0 >> 30 == 0
    }

    /// Severity error: the top two bits are set.
    pub const fn is_error(self) -> bool {
        self.0 >> 30 == 3
    }

    /// Severity warning, such as [`Self::BUFFER_OVERFLOW`] and [`Self::NO_MORE_FILES`].
    pub const fn is_warning(self) -> bool {
        self.0 >> 30 == 2
    }
}

impl fmt::Display for NtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "STATUS_{:#010x}", self.0),
        }
    }
}

impl fmt::Debug for NtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NtStatus {}

macro_rules! statuses {
    ($($name:ident = $value:literal, $doc:literal;)*) => {
        impl NtStatus {
            $(#[doc = $doc] pub const $name: Self = Self($value);)*

            /// The name in MS-ERREF, for a status listed here.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(concat!("STATUS_", stringify!($name))),)*
                    _ => None,
                }
            }
        }

        #[cfg(test)]
        const ALL: &[(u32, &str)] = &[$(($value, stringify!($name))),*];
    };
}

statuses! {
    SUCCESS = 0x0000_0000, "It worked.";
    WAIT_1 = 0x0000_0001, "The second object waited for was signalled.";
    ABANDONED_WAIT_0 = 0x0000_0080, "The owner of the waited object ended.";
    USER_APC = 0x0000_00c0, "A user callback came first.";
    TIMEOUT = 0x0000_0102, "The time given ran out.";
    PENDING = 0x0000_0103, "The answer will come later.";
    REPARSE = 0x0000_0104, "A reparse point was met and its target should be opened.";
    MORE_ENTRIES = 0x0000_0105, "More follows.";
    NOT_ALL_ASSIGNED = 0x0000_0106, "Not every privilege was assigned.";
    SOME_NOT_MAPPED = 0x0000_0107, "Not every name was translated.";
    OPLOCK_BREAK_IN_PROGRESS = 0x0000_0108, "Opened while an oplock is being broken.";
    NOTIFY_CLEANUP = 0x0000_010b, "The watched directory was closed.";
    NOTIFY_ENUM_DIR = 0x0000_010c, "Too much changed to say what: list the directory again.";
    FILE_LOCKED_WITH_ONLY_READERS = 0x0000_012a, "Locked, and every holder only reads.";
    FILE_LOCKED_WITH_WRITERS = 0x0000_012b, "Locked, and a holder writes.";
    OPLOCK_SWITCHED_TO_NEW_HANDLE = 0x0000_0215, "The oplock went on to the new handle.";
    OPLOCK_HANDLE_CLOSED = 0x0000_0216, "The handle with the oplock was closed.";
    OBJECT_NAME_EXISTS = 0x4000_0000, "The object was already there.";
    LOCAL_USER_SESSION_KEY = 0x4000_0006, "A fixed session key was given.";
    GUARD_PAGE_VIOLATION = 0x8000_0001, "A guard page was touched.";
    BUFFER_OVERFLOW = 0x8000_0005, "The answer was cut at the buffer's end.";
    NO_MORE_FILES = 0x8000_0006, "The listing is complete.";
    HANDLES_CLOSED = 0x8000_000a, "Handles were closed as a consequence.";
    PARTIAL_COPY = 0x8000_000d, "Only a part was copied.";
    DEVICE_BUSY = 0x8000_0011, "The device is busy.";
    INVALID_EA_NAME = 0x8000_0013, "An extended attribute's name is not valid.";
    EA_LIST_INCONSISTENT = 0x8000_0014, "The extended attribute list contradicts itself.";
    INVALID_EA_FLAG = 0x8000_0015, "An extended attribute's flag is not valid.";
    NO_MORE_ENTRIES = 0x8000_001a, "Nothing more to list.";
    STOPPED_ON_SYMLINK = 0x8000_002d, "A symbolic link stands in the path; the error data says where it leads.";
    CANNOT_GRANT_REQUESTED_OPLOCK = 0x8000_002e, "The oplock as asked for cannot be granted.";
    UNSUCCESSFUL = 0xc000_0001, "It failed, and no better word exists.";
    NOT_IMPLEMENTED = 0xc000_0002, "The server does not do this.";
    INVALID_INFO_CLASS = 0xc000_0003, "The information class is not known.";
    INFO_LENGTH_MISMATCH = 0xc000_0004, "The buffer is too short for the class's fixed part.";
    INVALID_HANDLE = 0xc000_0008, "The handle is not one.";
    INVALID_PARAMETER = 0xc000_000d, "A field has a value it may not have.";
    NO_SUCH_DEVICE = 0xc000_000e, "No such device.";
    NO_SUCH_FILE = 0xc000_000f, "Nothing matched the pattern of a listing.";
    INVALID_DEVICE_REQUEST = 0xc000_0010, "The object cannot do this.";
    END_OF_FILE = 0xc000_0011, "The read starts at or past the end.";
    WRONG_VOLUME = 0xc000_0012, "Another volume is in the device.";
    NO_MEDIA_IN_DEVICE = 0xc000_0013, "No medium.";
    NONEXISTENT_SECTOR = 0xc000_0015, "The sector does not exist.";
    MORE_PROCESSING_REQUIRED = 0xc000_0016, "The exchange needs another message.";
    NO_MEMORY = 0xc000_0017, "Out of memory.";
    INVALID_VIEW_SIZE = 0xc000_001f, "The copy would read past the end of its source.";
    ALREADY_COMMITTED = 0xc000_0021, "Already committed.";
    ACCESS_DENIED = 0xc000_0022, "Not allowed.";
    BUFFER_TOO_SMALL = 0xc000_0023, "The answer does not fit and cannot be cut.";
    OBJECT_TYPE_MISMATCH = 0xc000_0024, "The object is of another type.";
    NONCONTINUABLE_EXCEPTION = 0xc000_0025, "The failure cannot be continued from.";
    NOT_LOCKED = 0xc000_002a, "Nothing was locked there.";
    INVALID_PARAMETER_MIX = 0xc000_0030, "Fields that exclude one another were given together.";
    DISK_CORRUPT_ERROR = 0xc000_0032, "The volume is damaged.";
    OBJECT_NAME_INVALID = 0xc000_0033, "The name holds what a name may not.";
    OBJECT_NAME_NOT_FOUND = 0xc000_0034, "The last component does not exist.";
    OBJECT_NAME_COLLISION = 0xc000_0035, "The name is taken.";
    PORT_DISCONNECTED = 0xc000_0037, "The port is disconnected.";
    OBJECT_PATH_INVALID = 0xc000_0039, "A component before the last is no directory.";
    OBJECT_PATH_NOT_FOUND = 0xc000_003a, "A component before the last does not exist.";
    OBJECT_PATH_SYNTAX_BAD = 0xc000_003b, "The path is not written as a path.";
    DATA_ERROR = 0xc000_003e, "The data is damaged.";
    CRC_ERROR = 0xc000_003f, "A checksum does not match.";
    SHARING_VIOLATION = 0xc000_0043, "Another open does not share this access.";
    QUOTA_EXCEEDED = 0xc000_0044, "The quota is used up.";
    EAS_NOT_SUPPORTED = 0xc000_004f, "No extended attributes here.";
    EA_TOO_LARGE = 0xc000_0050, "The extended attributes are too large.";
    NONEXISTENT_EA_ENTRY = 0xc000_0051, "No such extended attribute.";
    NO_EAS_ON_FILE = 0xc000_0052, "The file has no extended attributes.";
    EA_CORRUPT_ERROR = 0xc000_0053, "The extended attributes are damaged.";
    FILE_LOCK_CONFLICT = 0xc000_0054, "A byte-range lock of another forbids this read or write.";
    LOCK_NOT_GRANTED = 0xc000_0055, "The lock conflicts with another.";
    DELETE_PENDING = 0xc000_0056, "The file is going when its last handle closes.";
    CTL_FILE_NOT_SUPPORTED = 0xc000_0057, "Control files are not supported.";
    UNKNOWN_REVISION = 0xc000_0058, "The revision is not known.";
    REVISION_MISMATCH = 0xc000_0059, "The revisions differ.";
    INVALID_OWNER = 0xc000_005a, "This owner may not be set.";
    INVALID_PRIMARY_GROUP = 0xc000_005b, "This group may not be set.";
    NO_LOGON_SERVERS = 0xc000_005e, "No server to ask about the logon.";
    NO_SUCH_LOGON_SESSION = 0xc000_005f, "No such logon session.";
    NO_SUCH_PRIVILEGE = 0xc000_0060, "No such privilege.";
    PRIVILEGE_NOT_HELD = 0xc000_0061, "A privilege is missing.";
    USER_EXISTS = 0xc000_0063, "The user exists already.";
    NO_SUCH_USER = 0xc000_0064, "No such user.";
    WRONG_PASSWORD = 0xc000_006a, "The password is wrong.";
    PASSWORD_RESTRICTION = 0xc000_006c, "The password breaks a rule.";
    LOGON_FAILURE = 0xc000_006d, "The user name or the proof is wrong.";
    ACCOUNT_RESTRICTION = 0xc000_006e, "The account may not do this.";
    INVALID_LOGON_HOURS = 0xc000_006f, "Not at this hour.";
    INVALID_WORKSTATION = 0xc000_0070, "Not from this machine.";
    PASSWORD_EXPIRED = 0xc000_0071, "The password is too old.";
    ACCOUNT_DISABLED = 0xc000_0072, "The account is disabled.";
    NONE_MAPPED = 0xc000_0073, "No name was translated.";
    TOO_MANY_LUIDS_REQUESTED = 0xc000_0074, "Too many identifiers were asked for.";
    INVALID_ACL = 0xc000_0077, "The access list is not valid.";
    INVALID_SID = 0xc000_0078, "The security identifier is not valid.";
    INVALID_SECURITY_DESCR = 0xc000_0079, "The security descriptor is not valid.";
    PROCEDURE_NOT_FOUND = 0xc000_007a, "No such procedure.";
    NO_TOKEN = 0xc000_007c, "No token.";
    RANGE_NOT_LOCKED = 0xc000_007e, "This range is not locked by this handle.";
    DISK_FULL = 0xc000_007f, "No space left.";
    INSUFFICIENT_RESOURCES = 0xc000_009a, "The server's means are used up.";
    DEVICE_DATA_ERROR = 0xc000_009c, "The device gave damaged data.";
    DEVICE_NOT_CONNECTED = 0xc000_009d, "The device is not connected.";
    DEVICE_POWER_FAILURE = 0xc000_009e, "The device lost power.";
    MEDIA_WRITE_PROTECTED = 0xc000_00a2, "The medium is read-only.";
    DEVICE_NOT_READY = 0xc000_00a3, "The device is not ready.";
    INVALID_GROUP_ATTRIBUTES = 0xc000_00a4, "The group's attributes are not valid.";
    BAD_IMPERSONATION_LEVEL = 0xc000_00a5, "The impersonation level is not known.";
    INSTANCE_NOT_AVAILABLE = 0xc000_00ab, "Every instance of the pipe is taken.";
    PIPE_NOT_AVAILABLE = 0xc000_00ac, "The pipe is not there.";
    INVALID_PIPE_STATE = 0xc000_00ad, "The pipe is in the wrong state.";
    PIPE_BUSY = 0xc000_00ae, "The pipe is busy.";
    ILLEGAL_FUNCTION = 0xc000_00af, "The pipe cannot do this.";
    PIPE_DISCONNECTED = 0xc000_00b0, "The pipe is disconnected.";
    PIPE_CLOSING = 0xc000_00b1, "The pipe's other end is closed.";
    PIPE_CONNECTED = 0xc000_00b2, "The pipe is connected.";
    PIPE_LISTENING = 0xc000_00b3, "The pipe waits for its other end.";
    INVALID_READ_MODE = 0xc000_00b4, "The pipe is not read this way.";
    IO_TIMEOUT = 0xc000_00b5, "The time for the operation ran out.";
    FILE_FORCED_CLOSED = 0xc000_00b6, "The file was closed from elsewhere.";
    FILE_IS_A_DIRECTORY = 0xc000_00ba, "It is a directory.";
    NOT_SUPPORTED = 0xc000_00bb, "This request is not supported.";
    REMOTE_NOT_LISTENING = 0xc000_00bc, "The other machine does not listen.";
    DUPLICATE_NAME = 0xc000_00bd, "The name is used twice on the network.";
    BAD_NETWORK_PATH = 0xc000_00be, "The network path was not found.";
    NETWORK_BUSY = 0xc000_00bf, "The network is busy.";
    DEVICE_DOES_NOT_EXIST = 0xc000_00c0, "The device does not exist.";
    TOO_MANY_COMMANDS = 0xc000_00c1, "Too many commands at a time.";
    INVALID_NETWORK_RESPONSE = 0xc000_00c3, "The answer makes no sense.";
    UNEXPECTED_NETWORK_ERROR = 0xc000_00c4, "The network failed in an unknown way.";
    BAD_REMOTE_ADAPTER = 0xc000_00c5, "The remote adapter does not fit.";
    NETWORK_NAME_DELETED = 0xc000_00c9, "The tree connect is gone.";
    NETWORK_ACCESS_DENIED = 0xc000_00ca, "The share may not be used.";
    BAD_DEVICE_TYPE = 0xc000_00cb, "The share is of another type than asked for.";
    BAD_NETWORK_NAME = 0xc000_00cc, "No such share.";
    TOO_MANY_NAMES = 0xc000_00cd, "Too many names.";
    TOO_MANY_SESSIONS = 0xc000_00ce, "Too many sessions.";
    SHARING_PAUSED = 0xc000_00cf, "Sharing is paused.";
    REQUEST_NOT_ACCEPTED = 0xc000_00d0, "The server takes no more for now.";
    NET_WRITE_FAULT = 0xc000_00d2, "A write failed on the network.";
    NOT_SAME_DEVICE = 0xc000_00d4, "The new name is on another volume.";
    FILE_RENAMED = 0xc000_00d5, "The file was renamed.";
    VIRTUAL_CIRCUIT_CLOSED = 0xc000_00d6, "The connection is gone.";
    NO_SECURITY_ON_OBJECT = 0xc000_00d7, "The object has no security descriptor.";
    CANT_WAIT = 0xc000_00d8, "It would have to wait and may not.";
    PIPE_EMPTY = 0xc000_00d9, "The pipe has nothing to read.";
    CANT_TERMINATE_SELF = 0xc000_00db, "One cannot end oneself.";
    INVALID_SERVER_STATE = 0xc000_00dc, "The server is in the wrong state.";
    NO_SUCH_DOMAIN = 0xc000_00df, "No such domain.";
    OPLOCK_NOT_GRANTED = 0xc000_00e2, "The oplock was not granted.";
    INVALID_OPLOCK_PROTOCOL = 0xc000_00e3, "The acknowledgement does not fit the oplock.";
    INTERNAL_DB_CORRUPTION = 0xc000_00e4, "An internal store is damaged.";
    INTERNAL_ERROR = 0xc000_00e5, "The server found itself wrong.";
    GENERIC_NOT_MAPPED = 0xc000_00e6, "A generic right was not translated.";
    BAD_DESCRIPTOR_FORMAT = 0xc000_00e7, "The security descriptor is in the wrong form.";
    UNEXPECTED_IO_ERROR = 0xc000_00e9, "The storage failed in an unknown way.";
    REDIRECTOR_NOT_STARTED = 0xc000_00fb, "The redirector does not run.";
    NO_SUCH_PACKAGE = 0xc000_00fe, "No such security package.";
    DIRECTORY_NOT_EMPTY = 0xc000_0101, "The directory holds something.";
    FILE_CORRUPT_ERROR = 0xc000_0102, "The file or directory is damaged.";
    NOT_A_DIRECTORY = 0xc000_0103, "It is no directory.";
    BAD_LOGON_SESSION_STATE = 0xc000_0104, "The logon session is in the wrong state.";
    NAME_TOO_LONG = 0xc000_0106, "The name is too long.";
    TOO_MANY_OPENED_FILES = 0xc000_011f, "Too many files are open.";
    CANCELLED = 0xc000_0120, "The request was cancelled.";
    CANNOT_DELETE = 0xc000_0121, "It cannot be deleted.";
    INVALID_COMPUTER_NAME = 0xc000_0122, "The computer name is not valid.";
    FILE_DELETED = 0xc000_0123, "The file was deleted.";
    FILE_CLOSED = 0xc000_0128, "The handle is closed.";
    LOGON_SERVER_CONFLICT = 0xc000_0132, "The logon server conflicts with another.";
    TIME_DIFFERENCE_AT_DC = 0xc000_0133, "The clocks differ too much.";
    ENTRYPOINT_NOT_FOUND = 0xc000_0139, "No such entry point.";
    INVALID_LEVEL = 0xc000_0148, "The level is not known.";
    PIPE_BROKEN = 0xc000_014b, "The pipe's other end is gone.";
    SERIAL_NO_DEVICE_INITED = 0xc000_0150, "No serial device was started.";
    LOGON_TYPE_NOT_GRANTED = 0xc000_015b, "This kind of logon is not granted.";
    ILLEGAL_CHARACTER = 0xc000_0161, "A character that may not be there.";
    UNMAPPABLE_CHARACTER = 0xc000_0162, "A character the code page does not have.";
    INVALID_DEVICE_STATE = 0xc000_0184, "The device is in the wrong state.";
    IO_DEVICE_ERROR = 0xc000_0185, "The device reported a failure.";
    NO_TRUST_SAM_ACCOUNT = 0xc000_018b, "No account for this machine.";
    TRUSTED_DOMAIN_FAILURE = 0xc000_018c, "The trust of the domain failed.";
    TRUSTED_RELATIONSHIP_FAILURE = 0xc000_018d, "The trust of this machine failed.";
    NETLOGON_NOT_STARTED = 0xc000_0192, "The logon service does not run.";
    ACCOUNT_EXPIRED = 0xc000_0193, "The account is too old.";
    NETWORK_CREDENTIAL_CONFLICT = 0xc000_0195, "Credentials conflict with a session there is.";
    DOMAIN_TRUST_INCONSISTENT = 0xc000_019b, "The trust between domains is inconsistent.";
    FS_DRIVER_REQUIRED = 0xc000_019c, "A file system driver is missing; the answer to DFS where there is none.";
    INVALID_LOCK_RANGE = 0xc000_01a1, "The range passes the end of what 64 bits can say.";
    NOT_SAME_OBJECT = 0xc000_01ac, "The handles are to different objects.";
    NO_USER_SESSION_KEY = 0xc000_0202, "The session has no key.";
    USER_SESSION_DELETED = 0xc000_0203, "The session is gone.";
    INSUFF_SERVER_RESOURCES = 0xc000_0205, "The server's means are used up.";
    INVALID_BUFFER_SIZE = 0xc000_0206, "The buffer's size is not allowed.";
    INVALID_ADDRESS_COMPONENT = 0xc000_0207, "The address is not valid.";
    ADDRESS_ALREADY_EXISTS = 0xc000_020a, "The address is in use.";
    ADDRESS_CLOSED = 0xc000_020b, "The address is closed.";
    CONNECTION_DISCONNECTED = 0xc000_020c, "The connection was cut.";
    CONNECTION_RESET = 0xc000_020d, "The connection was reset.";
    TRANSACTION_ABORTED = 0xc000_020f, "The transaction was given up.";
    PASSWORD_MUST_CHANGE = 0xc000_0224, "The password must be changed first.";
    NOT_FOUND = 0xc000_0225, "Not found.";
    DUPLICATE_OBJECTID = 0xc000_022a, "The object id is taken.";
    OBJECTID_EXISTS = 0xc000_022b, "The file already has an object id.";
    RETRY = 0xc000_022d, "Try again.";
    FOUND_OUT_OF_SCOPE = 0xc000_022e, "Found, but outside of the scope.";
    PROPSET_NOT_FOUND = 0xc000_0230, "No such property set.";
    DOMAIN_CONTROLLER_NOT_FOUND = 0xc000_0233, "No domain controller was found.";
    ACCOUNT_LOCKED_OUT = 0xc000_0234, "The account is locked after too many attempts.";
    CONNECTION_REFUSED = 0xc000_0236, "The connection was refused.";
    GRACEFUL_DISCONNECT = 0xc000_0237, "The connection was ended in good order.";
    NETWORK_UNREACHABLE = 0xc000_023c, "The network cannot be reached.";
    HOST_UNREACHABLE = 0xc000_023d, "The machine cannot be reached.";
    PROTOCOL_UNREACHABLE = 0xc000_023e, "The protocol cannot be reached.";
    PORT_UNREACHABLE = 0xc000_023f, "The port cannot be reached.";
    REQUEST_ABORTED = 0xc000_0240, "The request was given up.";
    CONNECTION_ABORTED = 0xc000_0241, "The connection was given up.";
    BAD_COMPRESSION_BUFFER = 0xc000_0242, "The compressed data is damaged.";
    USER_MAPPED_FILE = 0xc000_0243, "A mapped section forbids this.";
    PATH_NOT_COVERED = 0xc000_0257, "The path is another server's (DFS).";
    TOO_MANY_LINKS = 0xc000_0265, "No more hard links to this file.";
    DFS_UNAVAILABLE = 0xc000_026d, "The DFS service is not available.";
    VOLUME_DISMOUNTED = 0xc000_026e, "The volume is not mounted any more.";
    NOT_A_REPARSE_POINT = 0xc000_0275, "It is no reparse point.";
    IO_REPARSE_TAG_INVALID = 0xc000_0276, "The reparse tag is not valid.";
    IO_REPARSE_TAG_MISMATCH = 0xc000_0277, "The reparse tag is another.";
    IO_REPARSE_DATA_INVALID = 0xc000_0278, "The reparse data is not valid.";
    IO_REPARSE_TAG_NOT_HANDLED = 0xc000_0279, "Nobody handles this reparse tag.";
    REPARSE_POINT_NOT_RESOLVED = 0xc000_0280, "The reparse point leads nowhere.";
    DIRECTORY_IS_A_REPARSE_POINT = 0xc000_0281, "The directory is a reparse point.";
    RANGE_LIST_CONFLICT = 0xc000_0282, "The ranges overlap.";
    ENCRYPTION_FAILED = 0xc000_028a, "It could not be encrypted.";
    DECRYPTION_FAILED = 0xc000_028b, "It could not be decrypted.";
    NO_RECOVERY_POLICY = 0xc000_028d, "No recovery policy.";
    NO_EFS = 0xc000_028e, "No encryption on this volume.";
    FILE_NOT_ENCRYPTED = 0xc000_0291, "The file is not encrypted.";
    FILE_ENCRYPTED = 0xc000_0293, "The file is encrypted.";
    VOLUME_NOT_UPGRADED = 0xc000_029c, "The volume is too old for this.";
    OBJECTID_NOT_FOUND = 0xc000_02f0, "No file has the object id.";
    WRONG_CREDENTIAL_HANDLE = 0xc000_02f2, "The credential handle is wrong.";
    NOT_SUPPORTED_ON_SBS = 0xc000_0300, "Not supported on this edition.";
    NETWORK_SESSION_EXPIRED = 0xc000_035c, "The session's authentication ran out; authenticate again.";
    DOWNGRADE_DETECTED = 0xc000_0388, "Someone weakened the negotiation.";
    COMPRESSION_DISABLED = 0xc000_0426, "Compression is switched off.";
    REQUEST_OUT_OF_SEQUENCE = 0xc000_042a, "The request came out of order.";
    ENCOUNTERED_WRITE_IN_PROGRESS = 0xc000_0433, "A write is in progress.";
    NO_RANGES_PROCESSED = 0xc000_0460, "No range was processed.";
    DEVICE_FEATURE_NOT_SUPPORTED = 0xc000_0463, "The device lacks the feature.";
    DEVICE_UNREACHABLE = 0xc000_0464, "The device cannot be reached.";
    INVALID_TOKEN = 0xc000_0465, "The token is not valid.";
    SERVER_UNAVAILABLE = 0xc000_0466, "The server is not available just now.";
    FILE_NOT_AVAILABLE = 0xc000_0467, "The file is not available just now.";
    SHARE_UNAVAILABLE = 0xc000_0480, "The share is not available just now.";
    CASE_DIFFERING_NAMES_IN_DIR = 0xc000_04b3, "Two names in the directory differ only in case.";
    FILE_NOT_SUPPORTED = 0xc000_04b4, "The file does not support this.";
    CALLBACK_BYPASS = 0xc000_0503, "The callback was passed over.";
    REPARSE_POINT_ENCOUNTERED = 0xc000_050b, "A reparse point stands where none is allowed.";
    BAD_FILE_TYPE = 0xc000_0903, "The file is of a type that cannot do this.";
    FILE_TOO_LARGE = 0xc000_0904, "The file is too large for this volume.";
    CANNOT_BREAK_OPLOCK = 0xc000_0909, "The oplock cannot be broken here.";
    BAD_DATA = 0xc000_090b, "The data is malformed.";
    HASH_NOT_SUPPORTED = 0xc000_a100, "The hash is not supported.";
    HASH_NOT_PRESENT = 0xc000_a101, "The hash is not there.";
    OFFLOAD_READ_FLT_NOT_SUPPORTED = 0xc000_a2a1, "A filter forbids the offloaded read.";
    OFFLOAD_WRITE_FLT_NOT_SUPPORTED = 0xc000_a2a2, "A filter forbids the offloaded write.";
    OFFLOAD_READ_FILE_NOT_SUPPORTED = 0xc000_a2a3, "This file cannot be read by offload.";
    OFFLOAD_WRITE_FILE_NOT_SUPPORTED = 0xc000_a2a4, "This file cannot be written by offload.";
    RPC_NT_PROCNUM_OUT_OF_RANGE = 0xc002_002e, "No such call in the RPC interface.";
    SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP = 0xc05d_0000, "No common preauthentication hash.";
    SMB_BAD_CLUSTER_DIALECT = 0xc05d_0001, "The cluster speaks another dialect.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_shown_by_name() {
        assert_eq!(NtStatus(0xc000_0022).to_string(), "STATUS_ACCESS_DENIED");
        assert_eq!(format!("{:?}", NtStatus::SUCCESS), "STATUS_SUCCESS");
        assert_eq!(NtStatus(0xdead_beef).to_string(), "STATUS_0xdeadbeef");
    }

    #[test]
    fn severity_is_in_the_top_bits() {
        assert!(NtStatus::PENDING.is_success());
        assert!(NtStatus::BUFFER_OVERFLOW.is_warning() && !NtStatus::BUFFER_OVERFLOW.is_error());
        assert!(NtStatus::ACCESS_DENIED.is_error() && !NtStatus::ACCESS_DENIED.is_success());
    }

    #[test]
    fn the_list_is_sorted_and_without_doubles() {
        assert!(ALL.windows(2).all(|w| matches!(w, [a, b] if a.0 < b.0)));
    }
}
