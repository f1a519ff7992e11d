//! NEGOTIATE (MS-SMB2 3.3.5.3, 3.3.5.4), and what it settles for the connection.

use std::rc::Rc;

use smb_wire::NtStatus;
use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::smb2::{
    Capabilities, Command, Dialect, Flags, Header, NegotiateContext, NegotiateRequest, NegotiateResponse, POSIX_TAG,
    PREAUTH_SHA512, SecurityMode, is_smb1_negotiate, smb1_negotiate_dialects,
};

use crate::Config;
use crate::config::Encryption;
use crate::connection::Inner;
use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::reply::{ReplyWriter, Then};
use crate::session::Terms;

/// The largest transfer of 2.0.2, whose requests are all charged one credit.
const SMALL_TRANSFER_BYTES: u32 = 64 << 10;

/// What a connection has agreed on.
#[derive(Debug)]
pub struct Negotiated {
    /// The dialect.
    pub dialect: Dialect,
    /// Names the client.
    pub client_guid: [u8; 16],
    /// What the client said of itself.
    pub client_capabilities: Capabilities,
    /// The client's signing.
    pub client_security_mode: SecurityMode,
    /// The revisions the client offered.
    pub offered: Vec<u16>,
    /// What the server answered.
    pub capabilities: Capabilities,
    /// The server's signing.
    pub security_mode: SecurityMode,
    /// The cipher, if both sides have one.
    pub cipher: Option<Cipher>,
    /// POSIX extensions: opens may carry the POSIX create context.
    pub posix: bool,
    /// How messages are signed.
    pub signing: SigningAlgorithm,
    /// Largest READ.
    pub max_read_bytes: u32,
    /// Largest WRITE.
    pub max_write_bytes: u32,
    /// Largest other transfer.
    pub max_transact_bytes: u32,
}

impl Negotiated {
    /// Whether requests may be charged more than one credit.
    pub fn supports_multi_credit(&self) -> bool {
        self.dialect >= Dialect::V2_1
    }

    /// What a session made here has, and another channel of it must have.
    pub fn terms(&self) -> Terms {
        Terms { dialect: self.dialect, cipher: self.cipher, algorithm: self.signing }
    }

    /// The largest transfer of any kind.
    pub fn max_transfer_bytes(&self) -> u32 {
        self.max_read_bytes.max(self.max_write_bytes).max(self.max_transact_bytes)
    }
}

/// An SMB1 message: only a NEGOTIATE that offers SMB 2, only first (3.3.5.3).
pub(crate) fn smb1(conn: &Rc<Inner>, message: &[u8]) {
    if conn.negotiated().is_some() || !is_smb1_negotiate(message) {
        return conn.disconnect("SMB1 is not spoken");
    }
    let Ok(dialects) = smb1_negotiate_dialects(message) else {
        return conn.disconnect("a malformed SMB1 NEGOTIATE");
    };
    let config = conn.server.config.load();
    let revision = if dialects.contains(&&b"SMB 2.???"[..]) && config.max_dialect > Dialect::V2_0_2 {
        Dialect::WILDCARD
    } else if dialects.contains(&&b"SMB 2.002"[..]) && config.min_dialect == Dialect::V2_0_2 {
        Dialect::V2_0_2 as u16
    } else {
        return conn.disconnect("a client that offers SMB1 only");
    };
    if conn.state.borrow_mut().window.consume(0, 1).is_err() {
        return conn.disconnect("a second SMB1 NEGOTIATE");
    }
    let mut out = ReplyWriter::new(&conn.shard.pool, 512);
    let header = Header { flags: Flags::RESPONSE, ..Header::request(Command::Negotiate, 0) };
    out.begin(&header);
    if revision == Dialect::V2_0_2 as u16 {
        let plain = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::empty(),
            client_guid: [0; 16],
            dialects: vec![revision],
            contexts: Vec::new(),
        };
        let negotiated = agree(&config, &plain, Dialect::V2_0_2);
        response(conn, &negotiated, revision, Vec::new()).put(&mut out);
        conn.state.borrow_mut().negotiated = Some(Rc::new(negotiated));
    } else {
        wildcard_response(conn, &config).put(&mut out);
    }
    let credits = conn.state.borrow_mut().window.grant(1);
    out.settle(NtStatus::SUCCESS, credits);
    conn.send(out.finish(None, |_, _| {}));
}

/// SMB2 NEGOTIATE (3.3.5.4).
pub(crate) fn smb2(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let conn = request.conn;
    if conn.negotiated().is_some() {
        conn.disconnect("a second NEGOTIATE");
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let asked = NegotiateRequest::decode(&request.message)?;
    if asked.dialects.is_empty() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let config = conn.server.config.load();
    let allowed = config.min_dialect..=config.max_dialect;
    let dialect = asked.dialects.iter().filter_map(|&d| Dialect::from_u16(d)).filter(|d| allowed.contains(d)).max();
    let dialect = dialect.ok_or(NtStatus::NOT_SUPPORTED)?;
    if dialect == Dialect::V3_1_1 {
        check_contexts(&asked.contexts)?;
    }
    let mut negotiated = agree(&config, &asked, dialect);
    let persistent = dialect.is_3() && conn.server.has_persistent_handles();
    negotiated.capabilities.set(Capabilities::PERSISTENT_HANDLES, persistent);
    let contexts = if dialect == Dialect::V3_1_1 { answer_contexts(conn, &asked, &negotiated) } else { Vec::new() };
    response(conn, &negotiated, dialect as u16, contexts).put(out);
    if dialect == Dialect::V3_1_1 {
        conn.state.borrow_mut().preauth.update(&request.message);
        if let Some(element) = out.current() {
            element.then = Then::HashConnection;
        }
    }
    tracing::debug!(peer = %conn.peer, %dialect, cipher = ?negotiated.cipher, signing = ?negotiated.signing, "negotiated");
    conn.state.borrow_mut().negotiated = Some(Rc::new(negotiated));
    Ok(NtStatus::SUCCESS)
}

/// 3.1.1 needs exactly one preauthentication context with a hash both know, and no context twice.
fn check_contexts(contexts: &[NegotiateContext]) -> Result<(), NtStatus> {
    let count = |is: fn(&NegotiateContext) -> bool| contexts.iter().filter(|c| is(c)).count();
    let preauths = count(|c| matches!(c, NegotiateContext::Preauth { .. }));
    if preauths != 1
        || count(|c| matches!(c, NegotiateContext::Encryption(_))) > 1
        || count(|c| matches!(c, NegotiateContext::Signing(_))) > 1
        || count(|c| matches!(c, NegotiateContext::Compression { .. })) > 1
    {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let empty = |c: &NegotiateContext| match c {
        NegotiateContext::Encryption(list) | NegotiateContext::Signing(list) => list.is_empty(),
        NegotiateContext::Preauth { hashes, .. } => hashes.is_empty(),
        _ => false,
    };
    if contexts.iter().any(empty) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let torn = |c: &NegotiateContext| matches!(c, NegotiateContext::Posix(tags) if tags.is_empty() || !tags.len().is_multiple_of(POSIX_TAG.len()));
    if contexts.iter().any(torn) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let overlap = contexts.iter().any(|c| match c {
        NegotiateContext::Preauth { hashes, .. } => hashes.contains(&PREAUTH_SHA512),
        _ => false,
    });
    if overlap { Ok(()) } else { Err(NtStatus::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP) }
}

/// A list of tags of 16 bytes each, of which only one is known.
fn offers_posix(contexts: &[NegotiateContext]) -> bool {
    contexts.iter().any(|c| matches!(c, NegotiateContext::Posix(tags) if tags.chunks(16).any(|tag| tag == POSIX_TAG)))
}

fn agree(config: &Config, asked: &NegotiateRequest, dialect: Dialect) -> Negotiated {
    let cipher = choose_cipher(config, asked, dialect);
    let small = dialect == Dialect::V2_0_2;
    let bound = |bytes: u32| if small { bytes.min(SMALL_TRANSFER_BYTES) } else { bytes };
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::LARGE_MTU, !small);
    capabilities.set(Capabilities::LEASING, !small);
    // Only to who has it too: there are clients that stumble over a capability they did not name.
    for mutual in [Capabilities::DIRECTORY_LEASING, Capabilities::MULTI_CHANNEL] {
        capabilities.set(mutual, dialect.is_3() && asked.capabilities.contains(mutual));
    }
    let by_flag = matches!(dialect, Dialect::V3_0 | Dialect::V3_0_2);
    capabilities.set(Capabilities::ENCRYPTION, by_flag && cipher.is_some());
    let mut security_mode = SecurityMode::SIGNING_ENABLED;
    security_mode.set(SecurityMode::SIGNING_REQUIRED, config.signing_required);
    Negotiated {
        dialect,
        client_guid: asked.client_guid,
        client_capabilities: asked.capabilities,
        client_security_mode: asked.security_mode,
        offered: asked.dialects.clone(),
        capabilities,
        security_mode,
        cipher,
        posix: dialect == Dialect::V3_1_1 && offers_posix(&asked.contexts),
        signing: choose_signing(config, asked, dialect),
        max_read_bytes: bound(config.max_read_bytes),
        max_write_bytes: bound(config.max_write_bytes),
        max_transact_bytes: bound(config.max_transact_bytes),
    }
}

/// 3.1.1 negotiates the cipher; 3.0 and 3.0.2 have AES-128-CCM, where the client has the capability.
fn choose_cipher(config: &Config, asked: &NegotiateRequest, dialect: Dialect) -> Option<Cipher> {
    if config.encryption == Encryption::Off {
        return None;
    }
    match dialect {
        Dialect::V3_0 | Dialect::V3_0_2 => {
            asked.capabilities.contains(Capabilities::ENCRYPTION).then_some(Cipher::Aes128Ccm)
        }
        Dialect::V3_1_1 => asked.contexts.iter().find_map(|c| match c {
            NegotiateContext::Encryption(offered) => {
                config.ciphers.iter().copied().find(|c| offered.contains(&c.to_wire()))
            }
            _ => None,
        }),
        _ => None,
    }
}

/// 3.1.1 may negotiate the algorithm; else the dialect decides (3.1.4.1).
fn choose_signing(config: &Config, asked: &NegotiateRequest, dialect: Dialect) -> SigningAlgorithm {
    if !dialect.is_3() {
        return SigningAlgorithm::HmacSha256;
    }
    let offered = asked.contexts.iter().find_map(|c| match c {
        NegotiateContext::Signing(offered) => Some(offered),
        _ => None,
    });
    let chosen = offered
        .filter(|_| dialect == Dialect::V3_1_1)
        .and_then(|offered| config.signing_algorithms.iter().copied().find(|a| offered.contains(&a.to_wire())));
    chosen.unwrap_or(SigningAlgorithm::AesCmac)
}

fn answer_contexts(conn: &Inner, asked: &NegotiateRequest, negotiated: &Negotiated) -> Vec<NegotiateContext> {
    let mut contexts = vec![NegotiateContext::Preauth {
        hashes: vec![PREAUTH_SHA512],
        salt: conn.server.env.random_bytes::<32>().to_vec(),
    }];
    for context in &asked.contexts {
        match context {
            // 0 says that there is no cipher in common (2.2.4.1.2).
            NegotiateContext::Encryption(_) => {
                let id = negotiated.cipher.map_or(0, Cipher::to_wire);
                contexts.push(NegotiateContext::Encryption(vec![id]));
            }
            NegotiateContext::Signing(_) => {
                contexts.push(NegotiateContext::Signing(vec![negotiated.signing.to_wire()]));
            }
            NegotiateContext::Posix(_) if negotiated.posix => {
                contexts.push(NegotiateContext::Posix(POSIX_TAG.to_vec()));
            }
            _ => {}
        }
    }
    contexts
}

fn response(conn: &Inner, n: &Negotiated, dialect: u16, contexts: Vec<NegotiateContext>) -> NegotiateResponse {
    NegotiateResponse {
        security_mode: n.security_mode,
        dialect,
        server_guid: conn.server.guid,
        capabilities: n.capabilities,
        max_transact_bytes: n.max_transact_bytes,
        max_read_bytes: n.max_read_bytes,
        max_write_bytes: n.max_write_bytes,
        system_time: conn.server.env.filetime(),
        security_buffer: initial_token(conn),
        contexts,
    }
}

/// The answer to `SMB 2.???`: nothing is agreed yet, an SMB2 NEGOTIATE follows.
fn wildcard_response(conn: &Inner, config: &Config) -> NegotiateResponse {
    let mut security_mode = SecurityMode::SIGNING_ENABLED;
    security_mode.set(SecurityMode::SIGNING_REQUIRED, config.signing_required);
    NegotiateResponse {
        security_mode,
        dialect: Dialect::WILDCARD,
        server_guid: conn.server.guid,
        capabilities: Capabilities::LARGE_MTU,
        max_transact_bytes: config.max_transact_bytes,
        max_read_bytes: config.max_read_bytes,
        max_write_bytes: config.max_write_bytes,
        system_time: conn.server.env.filetime(),
        security_buffer: initial_token(conn),
        contexts: Vec::new(),
    }
}

/// The mechanisms there are, for the client to choose from.
fn initial_token(conn: &Inner) -> Vec<u8> {
    auth::Acceptor::new(&conn.server.config.load().ntlm, [0; 8], 0).initial_token()
}
