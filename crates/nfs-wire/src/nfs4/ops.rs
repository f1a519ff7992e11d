//! Every operation: its number, arguments and result, as the table in RFC 7530 16, RFC 8881 17 and 18, RFC 7862 14 and
//! RFC 8276 8.4. A server dispatches on [`Op`]; a client reads [`OpResult`].

use super::attr::{Bitmap, Fattr};
use super::basic::{ClientId, Component, CreateArgs, FileHandle, SessionId, StateOwner, Stateid};
use super::client::{SetclientidArgs, SetclientidOk, SetclientidRes};
use super::dir::{ReaddirArgs, ReaddirRes};
use super::file::{
    AccessRes, ChangeRes, CreateRes, GetattrRes, GetfhRes, ReadlinkRes, RenameArgs, RenameRes, SecinfoRes,
    SecinfoStyle, SetattrArgs, SetattrRes, StatusRes,
};
use super::io::{CommitArgs, CommitRes, ReadArgs, ReadPlusRes, ReadRes, WriteArgs, WriteRes};
use super::layout::{
    GetDeviceInfoArgs, GetDeviceListArgs, GetDirDelegationArgs, GetDirDelegationRes, LayoutCommitArgs, LayoutErrorArgs,
    LayoutGetArgs, LayoutReturnArgs, LayoutStatsArgs, WantDelegationArgs, WantDelegationRes,
};
use super::lock::{LockArgs, LockRes, LocktArgs, LocktRes, LockuArgs};
use super::open::{CloseArgs, OpenArgs, OpenConfirmArgs, OpenDowngradeArgs, OpenRes, StateidRes};
use super::session::{
    BackchannelCtlArgs, BindConnArgs, BindConnRes, CreateSessionArgs, CreateSessionRes, ExchangeIdArgs, ExchangeIdRes,
    SequenceArgs, SequenceRes, SetSsvArgs, SetSsvRes, TestStateidRes,
};
use super::status::NfsStat4;
use super::v42::{
    AllocateArgs, CloneArgs, CopyArgs, CopyNotifyArgs, CopyNotifyRes, CopyRes, IoAdviseArgs, IoAdviseRes,
    OffloadStatusRes, SeekArgs, SeekRes, WriteSameArgs,
};
use super::xattr::{GetxattrRes, ListxattrsArgs, ListxattrsRes, SetxattrArgs};
use crate::nfs3::Access;
use crate::xdr::{List, Malformed, Put, Reader, Xdr};

/// What a pNFS operation answers on a server that has no layouts: never OK.
pub type Refused = NfsStat4;

macro_rules! ops {
    ($($name:ident = $number:literal $wire:literal $(($args:ident: $type:ty))? -> $result:ty, $doc:literal;)*) => {
        xdr_enum! {
            /// An operation's number.
            pub enum OpNum {
                $(#[doc = $doc] $name = $number,)*
            }
        }

        impl OpNum {
            /// Its name in the RFCs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $wire,)*
                }
            }
        }

        /// An operation with its arguments.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Op<'a> {
            $(#[doc = $doc] $name $(($type))?,)*
        }

        impl<'a> Op<'a> {
            /// Which operation it is.
            pub const fn number(&self) -> OpNum {
                match self {
                    $(Self::$name { .. } => OpNum::$name,)*
                }
            }

            /// Decodes the arguments of an operation.
            pub fn decode_args(number: OpNum, r: &mut Reader<'a>) -> Result<Self, Malformed> {
                Ok(match number {
                    $(OpNum::$name => Self::$name $((<$type as Xdr>::decode(r)?))?,)*
                })
            }
        }

        impl<'a> Xdr<'a> for Op<'a> {
            fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
                Self::decode_args(OpNum::decode(r)?, r)
            }

            fn put(&self, out: &mut (impl Put + ?Sized)) {
                self.number().put(out);
                match self {
                    $(Self::$name $(($args))? => { $($args.put(out);)? })*
                }
            }
        }

        /// An operation's result.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum OpResult<'a> {
            $(#[doc = $doc] $name($result),)*
        }

        impl<'a> OpResult<'a> {
            /// Which operation's it is.
            pub const fn number(&self) -> OpNum {
                match self {
                    $(Self::$name(_) => OpNum::$name,)*
                }
            }
        }

        impl<'a> Xdr<'a> for OpResult<'a> {
            fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
                Ok(match OpNum::decode(r)? {
                    $(OpNum::$name => Self::$name(Xdr::decode(r)?),)*
                })
            }

            fn put(&self, out: &mut (impl Put + ?Sized)) {
                self.number().put(out);
                match self {
                    $(Self::$name(result) => result.put(out),)*
                }
            }
        }
    };
}

ops! {
    Access = 3 "ACCESS" (args: Access) -> AccessRes, "What the caller may do.";
    Close = 4 "CLOSE" (args: CloseArgs) -> StateidRes, "Ends an open.";
    Commit = 5 "COMMIT" (args: CommitArgs) -> CommitRes, "Makes written data safe.";
    Create = 6 "CREATE" (args: CreateArgs<'a>) -> CreateRes, "Makes anything but a regular file.";
    Delegpurge = 7 "DELEGPURGE" (args: ClientId) -> StatusRes, "Gives up delegations from before a restart.";
    Delegreturn = 8 "DELEGRETURN" (args: Stateid) -> StatusRes, "Returns a delegation.";
    Getattr = 9 "GETATTR" (args: Bitmap) -> GetattrRes<'a>, "Attributes.";
    Getfh = 10 "GETFH" -> GetfhRes<'a>, "The current handle.";
    Link = 11 "LINK" (args: Component<'a>) -> ChangeRes, "A hard link to the saved file.";
    Lock = 12 "LOCK" (args: LockArgs<'a>) -> LockRes<'a>, "Locks a range.";
    Lockt = 13 "LOCKT" (args: LocktArgs<'a>) -> LocktRes<'a>, "Would a lock be granted?";
    Locku = 14 "LOCKU" (args: LockuArgs) -> StateidRes, "Unlocks a range.";
    Lookup = 15 "LOOKUP" (args: Component<'a>) -> StatusRes, "A name in the current directory.";
    Lookupp = 16 "LOOKUPP" -> StatusRes, "The current directory's parent.";
    Nverify = 17 "NVERIFY" (args: Fattr<'a>) -> StatusRes, "Go on if attributes differ.";
    Open = 18 "OPEN" (args: OpenArgs<'a>) -> OpenRes<'a>, "Opens a file.";
    Openattr = 19 "OPENATTR" (args: bool) -> StatusRes, "The named attribute directory; true: make it.";
    OpenConfirm = 20 "OPEN_CONFIRM" (args: OpenConfirmArgs) -> StateidRes, "4.0: confirms an open owner.";
    OpenDowngrade = 21 "OPEN_DOWNGRADE" (args: OpenDowngradeArgs) -> StateidRes, "Reduces an open.";
    Putfh = 22 "PUTFH" (args: FileHandle<'a>) -> StatusRes, "Sets the current handle.";
    Putpubfh = 23 "PUTPUBFH" -> StatusRes, "Sets the current handle to the public one.";
    Putrootfh = 24 "PUTROOTFH" -> StatusRes, "Sets the current handle to the root.";
    Read = 25 "READ" (args: ReadArgs) -> ReadRes<'a>, "Reads.";
    Readdir = 26 "READDIR" (args: ReaddirArgs) -> ReaddirRes<'a>, "Lists.";
    Readlink = 27 "READLINK" -> ReadlinkRes<'a>, "Where a symbolic link leads.";
    Remove = 28 "REMOVE" (args: Component<'a>) -> ChangeRes, "Deletes a name.";
    Rename = 29 "RENAME" (args: RenameArgs<'a>) -> RenameRes, "Renames from the saved to the current directory.";
    Renew = 30 "RENEW" (args: ClientId) -> StatusRes, "4.0: renews the lease.";
    Restorefh = 31 "RESTOREFH" -> StatusRes, "The saved handle becomes current.";
    Savefh = 32 "SAVEFH" -> StatusRes, "The current handle is saved.";
    Secinfo = 33 "SECINFO" (args: Component<'a>) -> SecinfoRes<'a>, "How to authenticate for a name.";
    Setattr = 34 "SETATTR" (args: SetattrArgs<'a>) -> SetattrRes, "Sets attributes.";
    Setclientid = 35 "SETCLIENTID" (args: SetclientidArgs<'a>) -> SetclientidRes<'a>, "4.0: a client comes.";
    SetclientidConfirm = 36 "SETCLIENTID_CONFIRM" (args: SetclientidOk) -> StatusRes, "4.0: and confirms that.";
    Verify = 37 "VERIFY" (args: Fattr<'a>) -> StatusRes, "Go on if attributes are the same.";
    Write = 38 "WRITE" (args: WriteArgs<'a>) -> WriteRes, "Writes.";
    ReleaseLockowner = 39 "RELEASE_LOCKOWNER" (args: StateOwner<'a>) -> StatusRes, "4.0: forgets a lock owner.";
    BackchannelCtl = 40 "BACKCHANNEL_CTL" (args: BackchannelCtlArgs<'a>) -> StatusRes, "4.1: how to call back.";
    BindConnToSession = 41 "BIND_CONN_TO_SESSION" (args: BindConnArgs) -> BindConnRes, "4.1: one more connection.";
    ExchangeId = 42 "EXCHANGE_ID" (args: ExchangeIdArgs<'a>) -> ExchangeIdRes<'a>, "4.1: a client introduces itself.";
    CreateSession = 43 "CREATE_SESSION" (args: CreateSessionArgs<'a>) -> CreateSessionRes, "4.1: begins a session.";
    DestroySession = 44 "DESTROY_SESSION" (args: SessionId) -> StatusRes, "4.1: ends a session.";
    FreeStateid = 45 "FREE_STATEID" (args: Stateid) -> StatusRes, "4.1: the client knows of a revoked state.";
    GetDirDelegation = 46 "GET_DIR_DELEGATION" (args: GetDirDelegationArgs) -> GetDirDelegationRes,
        "4.1: a directory delegation.";
    Getdeviceinfo = 47 "GETDEVICEINFO" (args: GetDeviceInfoArgs) -> Refused, "pNFS: a device.";
    Getdevicelist = 48 "GETDEVICELIST" (args: GetDeviceListArgs) -> Refused, "pNFS: all devices.";
    Layoutcommit = 49 "LAYOUTCOMMIT" (args: LayoutCommitArgs<'a>) -> Refused, "pNFS: commits.";
    Layoutget = 50 "LAYOUTGET" (args: LayoutGetArgs) -> Refused, "pNFS: a layout.";
    Layoutreturn = 51 "LAYOUTRETURN" (args: LayoutReturnArgs<'a>) -> Refused, "pNFS: returns a layout.";
    SecinfoNoName = 52 "SECINFO_NO_NAME" (args: SecinfoStyle) -> SecinfoRes<'a>, "4.1: how to authenticate.";
    Sequence = 53 "SEQUENCE" (args: SequenceArgs) -> SequenceRes, "4.1: the slot of a request.";
    SetSsv = 54 "SET_SSV" (args: SetSsvArgs<'a>) -> SetSsvRes<'a>, "4.1: a shared secret.";
    TestStateid = 55 "TEST_STATEID" (args: List<'a, Stateid>) -> TestStateidRes<'a>, "4.1: are these still good?";
    WantDelegation = 56 "WANT_DELEGATION" (args: WantDelegationArgs) -> WantDelegationRes<'a>,
        "4.1: a delegation without an open.";
    DestroyClientid = 57 "DESTROY_CLIENTID" (args: ClientId) -> StatusRes, "4.1: a client leaves.";
    ReclaimComplete = 58 "RECLAIM_COMPLETE" (args: bool) -> StatusRes, "4.1: all is reclaimed; true: of this fs.";
    Allocate = 59 "ALLOCATE" (args: AllocateArgs) -> StatusRes, "4.2: reserves space.";
    Copy = 60 "COPY" (args: CopyArgs<'a>) -> CopyRes, "4.2: copies on the server.";
    CopyNotify = 61 "COPY_NOTIFY" (args: CopyNotifyArgs<'a>) -> CopyNotifyRes<'a>, "4.2: lets another server fetch.";
    Deallocate = 62 "DEALLOCATE" (args: AllocateArgs) -> StatusRes, "4.2: punches a hole.";
    IoAdvise = 63 "IO_ADVISE" (args: IoAdviseArgs) -> IoAdviseRes, "4.2: hints.";
    Layouterror = 64 "LAYOUTERROR" (args: LayoutErrorArgs<'a>) -> Refused, "pNFS: errors.";
    Layoutstats = 65 "LAYOUTSTATS" (args: LayoutStatsArgs<'a>) -> Refused, "pNFS: statistics.";
    OffloadCancel = 66 "OFFLOAD_CANCEL" (args: Stateid) -> StatusRes, "4.2: stops a copy.";
    OffloadStatus = 67 "OFFLOAD_STATUS" (args: Stateid) -> OffloadStatusRes, "4.2: how far a copy is.";
    ReadPlus = 68 "READ_PLUS" (args: ReadArgs) -> ReadPlusRes<'a>, "4.2: reads data and holes.";
    Seek = 69 "SEEK" (args: SeekArgs) -> SeekRes, "4.2: the next data or hole.";
    WriteSame = 70 "WRITE_SAME" (args: WriteSameArgs<'a>) -> Refused, "4.2: writes a pattern.";
    Clone = 71 "CLONE" (args: CloneArgs) -> StatusRes, "4.2: shares blocks.";
    Getxattr = 72 "GETXATTR" (args: Component<'a>) -> GetxattrRes<'a>, "An extended attribute.";
    Setxattr = 73 "SETXATTR" (args: SetxattrArgs<'a>) -> ChangeRes, "Sets an extended attribute.";
    Listxattrs = 74 "LISTXATTRS" (args: ListxattrsArgs) -> ListxattrsRes<'a>, "Lists extended attributes.";
    Removexattr = 75 "REMOVEXATTR" (args: Component<'a>) -> ChangeRes, "Deletes an extended attribute.";
    Illegal = 10044 "ILLEGAL" -> StatusRes, "Never sent; the result of an operation that does not exist.";
}

impl OpNum {
    /// Whether the minor version has this operation; it may still say that it must not be implemented, as 4.1 does of
    /// OPEN_CONFIRM. ILLEGAL is in none.
    pub const fn is_in(self, minor_version: u32) -> bool {
        let last = match minor_version {
            0 => Self::ReleaseLockowner,
            1 => Self::ReclaimComplete,
            _ => Self::Removexattr,
        };
        self as u32 <= last as u32
    }
}
