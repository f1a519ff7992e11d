//! Client ids and sessions of NFSv4.1 (RFC 8881 18.33 to 18.37, 18.46, 18.47, 18.50, 18.51): EXCHANGE_ID,
//! CREATE_SESSION, SEQUENCE and their kin.

use super::{Bitmap, ClientId, ImplId, NfsStat4, OpaqueId, SessionId, Verifier};
use crate::rpc::{AuthSys, Flavor};
use crate::xdr::{List, Malformed, Put, Reader, Xdr};

/// What EXCHANGE_ID answers.
pub type ExchangeIdRes<'a> = Result<ExchangeIdOk<'a>, NfsStat4>;

/// What CREATE_SESSION answers.
pub type CreateSessionRes = Result<CreateSessionOk, NfsStat4>;

/// What BIND_CONN_TO_SESSION answers.
pub type BindConnRes = Result<BindConnOk, NfsStat4>;

/// What SEQUENCE answers.
pub type SequenceRes = Result<SequenceOk, NfsStat4>;

/// What SET_SSV answers: a digest.
pub type SetSsvRes<'a> = Result<&'a [u8], NfsStat4>;

/// What TEST_STATEID answers: a status for each.
pub type TestStateidRes<'a> = Result<List<'a, NfsStat4>, NfsStat4>;

xdr_flags! {
    /// Flags of EXCHANGE_ID.
    pub struct ExchangeIdFlags {
        /// The client follows referrals.
        SUPP_MOVED_REFER = 0x0000_0001,
        /// The client follows migrations.
        SUPP_MOVED_MIGR = 0x0000_0002,
        /// The client takes stateids that a data server may refuse.
        SUPP_FENCE_OPS = 0x0000_0004,
        /// Stateids are bound to the principal.
        BIND_PRINC_STATEID = 0x0000_0100,
        /// No pNFS.
        USE_NON_PNFS = 0x0001_0000,
        /// A pNFS metadata server.
        USE_PNFS_MDS = 0x0002_0000,
        /// A pNFS data server.
        USE_PNFS_DS = 0x0004_0000,
        /// Request: a confirmed record is updated.
        UPD_CONFIRMED_REC_A = 0x4000_0000,
        /// Result: the record is confirmed.
        CONFIRMED_R = 0x8000_0000,
    }

    /// Flags of CREATE_SESSION.
    pub struct CreateSessionFlags {
        /// The reply cache outlives the server.
        PERSIST = 1,
        /// The connection is the backchannel too.
        CONN_BACK_CHAN = 2,
        /// RDMA.
        CONN_RDMA = 4,
    }

    /// What SEQUENCE tells the client of its state.
    pub struct SequenceStatus {
        /// No session of the client has a backchannel.
        CB_PATH_DOWN = 0x0001,
        /// GSS contexts of the backchannel expire soon.
        CB_GSS_CONTEXTS_EXPIRING = 0x0002,
        /// They have expired.
        CB_GSS_CONTEXTS_EXPIRED = 0x0004,
        /// The lease ran out and all state was lost.
        EXPIRED_ALL_STATE_REVOKED = 0x0008,
        /// The lease ran out and some state was lost.
        EXPIRED_SOME_STATE_REVOKED = 0x0010,
        /// An administrator revoked some state.
        ADMIN_STATE_REVOKED = 0x0020,
        /// A delegation was not given back in time.
        RECALLABLE_STATE_REVOKED = 0x0040,
        /// A file system moved.
        LEASE_MOVED = 0x0080,
        /// The server restarted: reclaim.
        RESTART_RECLAIM_NEEDED = 0x0100,
        /// This session has no backchannel.
        CB_PATH_DOWN_SESSION = 0x0200,
        /// The backchannel misbehaves: make a new session.
        BACKCHANNEL_FAULT = 0x0400,
        /// Device ids changed.
        DEVID_CHANGED = 0x0800,
        /// Device ids were deleted.
        DEVID_DELETED = 0x1000,
    }
}

xdr_enum! {
    /// What a client wants of a connection.
    pub enum ChannelDirFromClient {
        /// Requests.
        Fore = 1,
        /// Callbacks.
        Back = 2,
        /// Requests, or both.
        ForeOrBoth = 3,
        /// Callbacks, or both.
        BackOrBoth = 7,
    }

    /// What a connection became.
    pub enum ChannelDirFromServer {
        /// For requests.
        Fore = 1,
        /// For callbacks.
        Back = 2,
        /// For both.
        Both = 3,
    }
}

xdr_struct! {
    /// Arguments of EXCHANGE_ID.
    pub struct ExchangeIdArgs<'a> {
        /// Changes when the client restarts.
        verifier: Verifier,
        /// Who the client is.
        owner_id: OpaqueId<'a>,
        /// Flags.
        flags: ExchangeIdFlags,
        /// How its state shall be protected.
        state_protect: StateProtectArgs<'a>,
        /// Who made it.
        impl_id: Option<ImplId<'a>>,
    }

    /// Result of EXCHANGE_ID.
    pub struct ExchangeIdOk<'a> {
        /// The client id.
        client_id: ClientId,
        /// The sequence id of the first CREATE_SESSION.
        sequence_id: u32,
        /// Flags.
        flags: ExchangeIdFlags,
        /// How its state is protected.
        state_protect: StateProtectOk<'a>,
        /// Which server, the minor half: the same for connections that may share a session.
        server_minor_id: u64,
        /// Which server, the major half: the same for connections that may share a client id.
        server_major_id: OpaqueId<'a>,
        /// In what scope handles and client ids mean the same.
        server_scope: OpaqueId<'a>,
        /// Who made it.
        impl_id: Option<ImplId<'a>>,
    }

    /// Which operations are protected (`state_protect_ops4`).
    pub struct StateProtectOps {
        /// Must be.
        must_enforce: Bitmap,
        /// May be.
        must_allow: Bitmap,
    }

    /// What SP4_SSV asks for (`ssv_sp_parms4`).
    pub struct SsvParams<'a> {
        /// Which operations.
        ops: StateProtectOps,
        /// Hash algorithms.
        hash_algs: List<'a, &'a [u8]>,
        /// Encryption algorithms.
        encr_algs: List<'a, &'a [u8]>,
        /// How many versions of the SSV.
        window: u32,
        /// How many handles.
        num_gss_handles: u32,
    }

    /// What SP4_SSV answers (`ssv_prot_info4`).
    pub struct SsvInfo<'a> {
        /// Which operations.
        ops: StateProtectOps,
        /// Which hash algorithm.
        hash_alg: u32,
        /// Which encryption algorithm.
        encr_alg: u32,
        /// The SSV's length in bytes.
        ssv_len_bytes: u32,
        /// How many versions of the SSV.
        window: u32,
        /// Handles.
        handles: List<'a, &'a [u8]>,
    }

    /// What a channel carries (`channel_attrs4`).
    pub struct ChannelAttrs {
        /// Padding of headers.
        header_pad_bytes: u32,
        /// The largest request.
        max_request_bytes: u32,
        /// The largest reply.
        max_response_bytes: u32,
        /// The largest reply that is cached.
        max_response_cached_bytes: u32,
        /// The most operations of a request.
        max_operations: u32,
        /// The most requests at a time: slots.
        max_requests: u32,
        /// RDMA.
        rdma_ird: Option<u32>,
    }

    /// Arguments of CREATE_SESSION.
    pub struct CreateSessionArgs<'a> {
        /// The client.
        client_id: ClientId,
        /// Its sequence.
        sequence_id: u32,
        /// Flags.
        flags: CreateSessionFlags,
        /// For requests.
        fore_channel: ChannelAttrs,
        /// For callbacks.
        back_channel: ChannelAttrs,
        /// The program to call back.
        callback_program: u32,
        /// With which credentials.
        callback_security: List<'a, CallbackSecurity<'a>>,
    }

    /// Result of CREATE_SESSION.
    pub struct CreateSessionOk {
        /// The session.
        session_id: SessionId,
        /// The call's sequence id.
        sequence_id: u32,
        /// Flags.
        flags: CreateSessionFlags,
        /// For requests.
        fore_channel: ChannelAttrs,
        /// For callbacks.
        back_channel: ChannelAttrs,
    }

    /// GSS contexts of callbacks (`gss_cb_handles4`).
    pub struct GssCallbackHandles<'a> {
        /// 1 none, 2 integrity, 3 privacy.
        service: u32,
        /// The server's context.
        from_server: &'a [u8],
        /// The client's context.
        from_client: &'a [u8],
    }

    /// Arguments of BACKCHANNEL_CTL.
    pub struct BackchannelCtlArgs<'a> {
        /// The program to call back.
        callback_program: u32,
        /// With which credentials.
        callback_security: List<'a, CallbackSecurity<'a>>,
    }

    /// Arguments of BIND_CONN_TO_SESSION.
    pub struct BindConnArgs {
        /// The session.
        session_id: SessionId,
        /// What for.
        direction: ChannelDirFromClient,
        /// RDMA.
        use_rdma: bool,
    }

    /// Result of BIND_CONN_TO_SESSION.
    pub struct BindConnOk {
        /// The session.
        session_id: SessionId,
        /// What for.
        direction: ChannelDirFromServer,
        /// RDMA.
        use_rdma: bool,
    }

    /// Arguments of SEQUENCE.
    pub struct SequenceArgs {
        /// The session.
        session_id: SessionId,
        /// One more than the slot's last.
        sequence_id: u32,
        /// The slot.
        slot_id: u32,
        /// The highest slot in use.
        highest_slot_id: u32,
        /// Whether the reply must be cached.
        cache_this: bool,
    }

    /// Result of SEQUENCE.
    pub struct SequenceOk {
        /// The session.
        session_id: SessionId,
        /// The call's.
        sequence_id: u32,
        /// The call's.
        slot_id: u32,
        /// The highest slot the server will take.
        highest_slot_id: u32,
        /// The highest slot the server would like to be used.
        target_highest_slot_id: u32,
        /// What the client is to know.
        status: SequenceStatus,
    }

    /// Arguments of SET_SSV.
    pub struct SetSsvArgs<'a> {
        /// The SSV.
        ssv: &'a [u8],
        /// Its digest.
        digest: &'a [u8],
    }
}

const SP4_NONE: u32 = 0;
const SP4_MACH_CRED: u32 = 1;
const SP4_SSV: u32 = 2;

/// How a client wants its state protected (`state_protect4_a`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateProtectArgs<'a> {
    /// Not.
    None,
    /// By the machine's credential.
    MachCred(StateProtectOps),
    /// By a secret.
    Ssv(SsvParams<'a>),
}

impl<'a> Xdr<'a> for StateProtectArgs<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            SP4_NONE => Ok(Self::None),
            SP4_MACH_CRED => Xdr::decode(r).map(Self::MachCred),
            SP4_SSV => Xdr::decode(r).map(Self::Ssv),
            _ => Err(Malformed::Value("state_protect_how4")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::None => out.put_u32(SP4_NONE),
            Self::MachCred(ops) => (SP4_MACH_CRED, *ops).put(out),
            Self::Ssv(params) => (SP4_SSV, *params).put(out),
        }
    }
}

/// How a client's state is protected (`state_protect4_r`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateProtectOk<'a> {
    /// Not.
    None,
    /// By the machine's credential.
    MachCred(StateProtectOps),
    /// By a secret.
    Ssv(SsvInfo<'a>),
}

impl<'a> Xdr<'a> for StateProtectOk<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            SP4_NONE => Ok(Self::None),
            SP4_MACH_CRED => Xdr::decode(r).map(Self::MachCred),
            SP4_SSV => Xdr::decode(r).map(Self::Ssv),
            _ => Err(Malformed::Value("state_protect_how4")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::None => out.put_u32(SP4_NONE),
            Self::MachCred(ops) => (SP4_MACH_CRED, *ops).put(out),
            Self::Ssv(info) => (SP4_SSV, *info).put(out),
        }
    }
}

/// With which credential a server calls back (`callback_sec_parms4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackSecurity<'a> {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    Sys(AuthSys<'a>),
    /// RPCSEC_GSS.
    Gss(GssCallbackHandles<'a>),
}

impl<'a> Xdr<'a> for CallbackSecurity<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match Flavor::decode(r)? {
            Flavor::NONE => Ok(Self::None),
            Flavor::SYS => Xdr::decode(r).map(Self::Sys),
            Flavor::GSS => Xdr::decode(r).map(Self::Gss),
            _ => Err(Malformed::Value("cb_secflavor")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::None => Flavor::NONE.put(out),
            Self::Sys(sys) => (Flavor::SYS, *sys).put(out),
            Self::Gss(handles) => (Flavor::GSS, *handles).put(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Time;
    use super::*;
    use crate::testing::{is_on_the_wire, survives, unhex};
    use crate::xdr::Bounded;

    const OPS: StateProtectOps =
        StateProtectOps { must_enforce: Bitmap::from_words([0, 1, 0]), must_allow: Bitmap::EMPTY };

    #[test]
    fn exchange_id_by_hand() {
        let impl_id = ImplId { domain: b"d.org", name: b"n", date: Time { seconds: 1, nanoseconds: 2 } };
        let impl_text = "00000001 00000005 642e6f72 67000000 00000001 6e000000 00000000 00000001 00000002";
        let args = ExchangeIdArgs {
            verifier: *b"verifier",
            owner_id: Bounded(b"own"),
            flags: ExchangeIdFlags::SUPP_MOVED_REFER | ExchangeIdFlags::BIND_PRINC_STATEID,
            state_protect: StateProtectArgs::None,
            impl_id: Some(impl_id),
        };
        let text = format!("76657269 66696572 00000003 6f776e00 00000101 00000000 {impl_text}");
        is_on_the_wire(&args, &unhex(&text));
        let ok: ExchangeIdRes<'_> = Ok(ExchangeIdOk {
            client_id: 5,
            sequence_id: 1,
            flags: ExchangeIdFlags::USE_NON_PNFS | ExchangeIdFlags::CONFIRMED_R,
            state_protect: StateProtectOk::MachCred(OPS),
            server_minor_id: 0,
            server_major_id: Bounded(b"maj"),
            server_scope: Bounded(b"scp"),
            impl_id: None,
        });
        is_on_the_wire(
            &ok,
            &unhex(
                "00000000 00000000 00000005 00000001 80010000 00000001 00000002 00000000 00000001 00000000
                 00000000 00000000 00000003 6d616a00 00000003 73637000 00000000",
            ),
        );
        let params = SsvParams {
            ops: OPS,
            hash_algs: List::new(&[b"h"]),
            encr_algs: List::new(&[b"e"]),
            window: 1,
            num_gss_handles: 2,
        };
        survives!(StateProtectArgs::Ssv(params), StateProtectArgs<'_>);
        let info =
            SsvInfo { ops: OPS, hash_alg: 0, encr_alg: 0, ssv_len_bytes: 32, window: 1, handles: List::default() };
        survives!(StateProtectOk::Ssv(info), StateProtectOk<'_>);
    }

    fn channel(requests: u32) -> (ChannelAttrs, String) {
        let attrs = ChannelAttrs {
            header_pad_bytes: 0,
            max_request_bytes: 0x10_0000,
            max_response_bytes: 0x10_0000,
            max_response_cached_bytes: 4096,
            max_operations: 8,
            max_requests: requests,
            rdma_ird: None,
        };
        (attrs, format!("00000000 00100000 00100000 00001000 00000008 {requests:08x} 00000000"))
    }

    #[test]
    fn create_session_by_hand() {
        let (fore_channel, fore) = channel(64);
        let (back_channel, back) = channel(1);
        let sys = AuthSys { stamp: 1, machine_name: Bounded(b"m"), uid: 0, gid: 0, gids: List::default() };
        let security = [CallbackSecurity::None, CallbackSecurity::Sys(sys)];
        let args = CreateSessionArgs {
            client_id: 5,
            sequence_id: 1,
            flags: CreateSessionFlags::CONN_BACK_CHAN,
            fore_channel,
            back_channel,
            callback_program: 0x4000_0000,
            callback_security: List::new(&security),
        };
        let sec = "00000002 00000000 00000001 00000001 00000001 6d000000 00000000 00000000 00000000";
        let text = format!("00000000 00000005 00000001 00000002 {fore} {back} 40000000 {sec}");
        is_on_the_wire(&args, &unhex(&text));
        let ok: CreateSessionRes = Ok(CreateSessionOk {
            session_id: [7; 16],
            sequence_id: 1,
            flags: CreateSessionFlags::empty(),
            fore_channel,
            back_channel,
        });
        let id = "07070707".repeat(4);
        is_on_the_wire(&ok, &unhex(&format!("00000000 {id} 00000001 00000000 {fore} {back}")));
        let handles = GssCallbackHandles { service: 1, from_server: b"s", from_client: b"c" };
        let gss = [CallbackSecurity::Gss(handles)];
        survives!(
            BackchannelCtlArgs { callback_program: 1, callback_security: List::new(&gss) },
            BackchannelCtlArgs<'_>
        );
    }

    #[test]
    fn sequence_and_bind_by_hand() {
        let id = "07070707".repeat(4);
        let args =
            SequenceArgs { session_id: [7; 16], sequence_id: 2, slot_id: 3, highest_slot_id: 4, cache_this: true };
        is_on_the_wire(&args, &unhex(&format!("{id} 00000002 00000003 00000004 00000001")));
        let ok: SequenceRes = Ok(SequenceOk {
            session_id: [7; 16],
            sequence_id: 2,
            slot_id: 3,
            highest_slot_id: 63,
            target_highest_slot_id: 62,
            status: SequenceStatus::CB_PATH_DOWN | SequenceStatus::RESTART_RECLAIM_NEEDED,
        });
        is_on_the_wire(&ok, &unhex(&format!("00000000 {id} 00000002 00000003 0000003f 0000003e 00000101")));
        let args = BindConnArgs { session_id: [7; 16], direction: ChannelDirFromClient::BackOrBoth, use_rdma: false };
        is_on_the_wire(&args, &unhex(&format!("{id} 00000007 00000000")));
        let ok: BindConnRes =
            Ok(BindConnOk { session_id: [7; 16], direction: ChannelDirFromServer::Both, use_rdma: false });
        is_on_the_wire(&ok, &unhex(&format!("00000000 {id} 00000003 00000000")));
        survives!(SetSsvArgs { ssv: b"1", digest: b"22" }, SetSsvArgs<'_>);
        survives!(Ok(List::new(&[NfsStat4::OK, NfsStat4::EXPIRED])), TestStateidRes<'_>);
    }
}
