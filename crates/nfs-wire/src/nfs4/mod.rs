//! NFS version 4: 4.0 (RFC 7530), 4.1 (RFC 8881), 4.2 (RFC 7862) and extended attributes (RFC 8276), one set of types
//! for all. One file per family of operations; [`Op`] and [`OpResult`] are the table of them, [`Compound`] walks a
//! call, and [`CompoundReply`] writes the reply in place. State, sequence and permission are nobody's business here.

pub mod attr;
mod basic;
mod callback;
mod client;
mod compound;
mod dir;
mod file;
mod io;
mod layout;
mod lock;
mod open;
mod ops;
mod session;
mod status;
mod v42;
mod xattr;

pub use attr::{Attr, AttrSource, Attrs, Bitmap, Fattr, FattrError, put_fattr};
pub use basic::{
    ChangeInfo, ClientId, Component, CreateArgs, CreateType, FileHandle, FileType, Fsid, ImplId, NetAddr, OPAQUE_LIMIT,
    OpaqueId, Pathname, SessionId, SetTime, SpecData, StateOwner, Stateid, Time, Verifier,
};
pub use callback::{
    CALLBACK_VERSION, CbCompound, CbGetattrArgs, CbNotifyLockArgs, CbOffloadArgs, CbOp, CbOpNum, CbRecallAnyArgs,
    CbRecallArgs, CbResult, CbSequenceArgs, CbSequenceOk, CbSequenceRes, CbWantsCancelledArgs, OffloadInfo,
    ReferringCall, ReferringCalls,
};
pub use client::{SetclientidArgs, SetclientidError, SetclientidOk, SetclientidRes};
pub use compound::{Compound, CompoundCall, CompoundReply, CompoundResults, NextOp, PROC_COMPOUND, PROC_NULL};
pub use dir::{DirEntry, DirWriter, ReaddirArgs, ReaddirOk, ReaddirRes};
pub use file::{
    AccessOk, AccessRes, ChangeRes, CreateOk, CreateRes, GetattrRes, GetfhRes, GssInfo, ReadlinkRes, RenameArgs,
    RenameRes, Secinfo, SecinfoRes, SecinfoStyle, SetattrArgs, SetattrRes, StatusRes,
};
pub use io::{
    CommitArgs, CommitRes, ReadArgs, ReadOk, ReadPlace, ReadPlusOk, ReadPlusRes, ReadPlusWriter, ReadRes, Segment,
    WriteArgs, WriteHead, WriteOk, WriteRes, put_read_head,
};
pub use layout::{
    DelegClaim, DeviceError, DeviceId, DirDelegation, DirDelegationOk, GetDeviceInfoArgs, GetDeviceListArgs,
    GetDirDelegationArgs, GetDirDelegationRes, LayoutCommitArgs, LayoutErrorArgs, LayoutGetArgs, LayoutReturn,
    LayoutReturnArgs, LayoutReturnFile, LayoutStatsArgs, WantDelegationArgs, WantDelegationRes,
};
pub use lock::{
    ExistLockOwner, LockArgs, LockDenied, LockError, LockRes, LockType, Locker, LocktArgs, LocktRes, LockuArgs,
    OpenToLockOwner,
};
pub use open::{
    CloseArgs, DelegationType, OpenArgs, OpenClaim, OpenConfirmArgs, OpenDelegation, OpenDowngradeArgs, OpenHow,
    OpenOk, OpenRes, OpenResultFlags, ReadDelegation, ShareAccess, ShareDeny, SpaceLimit, StateidRes, WantDelegation,
    WhyNone, WriteDelegation,
};
pub use ops::{Op, OpNum, OpResult, Refused};
pub use session::{
    BackchannelCtlArgs, BindConnArgs, BindConnOk, BindConnRes, CallbackSecurity, ChannelAttrs, ChannelDirFromClient,
    ChannelDirFromServer, CreateSessionArgs, CreateSessionFlags, CreateSessionOk, CreateSessionRes, ExchangeIdArgs,
    ExchangeIdFlags, ExchangeIdOk, ExchangeIdRes, GssCallbackHandles, SequenceArgs, SequenceOk, SequenceRes,
    SequenceStatus, SetSsvArgs, SetSsvRes, SsvInfo, SsvParams, StateProtectArgs, StateProtectOk, StateProtectOps,
    TestStateidRes,
};
pub use status::NfsStat4;
pub use v42::{
    AllocateArgs, CloneArgs, CopyArgs, CopyError, CopyNotifyArgs, CopyNotifyOk, CopyNotifyRes, CopyOk,
    CopyRequirements, CopyRes, IoAdviseArgs, IoAdviseRes, NetLocation, OffloadStatusOk, OffloadStatusRes, SEEK_DATA,
    SEEK_HOLE, SeekArgs, SeekOk, SeekRes, WriteResponse, WriteSameArgs,
};
pub use xattr::{
    GetxattrRes, ListxattrsArgs, ListxattrsOk, ListxattrsRes, SetxattrArgs, SetxattrOption, XattrNamesWriter,
};

pub use crate::nfs3::{Access, StableHow};

/// The version of the program.
pub const VERSION: u32 = 4;
