//! ONC RPC version 2 (RFC 5531): records on a stream, calls, replies and their credentials. The bodies of calls and
//! replies belong to the programs. Called by both ends of an RPC connection; it decides nothing about who may do what.

mod auth;
mod gss;
mod message;
mod record;

pub use auth::{AuthSys, Credential, Flavor, MAX_AUTH_BYTES, MAX_GIDS, OpaqueAuth};
pub use gss::{
    GSS_VERSION, GssCred, GssInitArgs, GssInitRes, GssIntegrity, GssPrivacy, GssProc, GssService, MAX_GSS_HANDLE_BYTES,
    MAX_GSS_SEQUENCE, MAX_GSS_TOKEN_BYTES, put_failed_verified, signed_header_bytes,
};
pub use message::{
    AcceptStat, AuthStat, BadCall, Call, Outcome, RPC_VERSION, Reply, put_auth_error, put_garbage_args,
    put_proc_unavail, put_prog_mismatch, put_prog_unavail, put_rpc_mismatch, put_success, put_success_verified,
    put_system_err,
};
pub use record::{FragmentHeader, Record, RecordError, RecordMark, Records, begin_record, end_record};

/// Program numbers (RFC 1833, RFC 1813, RFC 7530, X/Open C702).
pub mod program {
    /// The portmapper and rpcbind.
    pub const PORTMAP: u32 = 100_000;
    /// NFS, versions 3 and 4.
    pub const NFS: u32 = 100_003;
    /// MOUNT.
    pub const MOUNT: u32 = 100_005;
    /// The lock manager.
    pub const NLM: u32 = 100_021;
    /// The status monitor.
    pub const NSM: u32 = 100_024;
    /// POSIX ACLs beside NFSv3.
    pub const NFSACL: u32 = 100_227;
    /// What a 4.0 client's callback program usually is; it says its own in SETCLIENTID.
    pub const NFS4_CALLBACK: u32 = 0x4000_0000;
}
