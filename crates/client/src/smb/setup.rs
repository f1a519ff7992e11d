//! The way into a share: what is offered for a URL, and what follows a login, the first time and every other (MS-SMB2
//! 3.2.4.2.4, 3.2.5.5). `share` and `revive` call it.

use std::time::SystemTime;

use smb_wire::NtStatus;
use smb_wire::name::utf16le;
use smb_wire::smb2::{
    Command, FileHandle, Flags, IoctlRequest, IoctlResponse, ShareCapabilities, ShareFlags, ShareType,
    TreeConnectRequest, TreeConnectResponse, ValidateNegotiate, fsctl,
};

use super::driver::Line;
use super::grip::Terms;
use super::session::Made;
use super::share::good;
use super::{Config, Credentials, Failure, Request, Seed};
use crate::error::ErrorKind;
use crate::options::Options;
use crate::stat;
use crate::url::Url;

/// The most one request moves with any server.
const MOST_TRANSFER_BYTES: u32 = 8 << 20;

pub(super) fn config(url: &Url, credentials: Credentials, options: &Options) -> Result<Config, ErrorKind> {
    if options.min_dialect > options.max_dialect {
        return Err(ErrorKind::Input("the oldest dialect is newer than the newest"));
    }
    let has_domain = !credentials.domain.is_empty();
    Ok(Config {
        server_name: url.host().into(),
        credentials: if has_domain { credentials } else { credentials.in_domain(url.domain()) },
        protection: options.protection,
        min_dialect: options.min_dialect,
        max_dialect: options.max_dialect,
        ciphers: options.ciphers.clone(),
        signing: options.signing.clone(),
        max_transfer_bytes: options.max_transfer_bytes.min(MOST_TRANSFER_BYTES),
        credits: options.credits,
        timeout: options.timeout,
        previous_session_id: 0,
        multi_channel: options.channels > 1,
        seed: seed()?,
    })
}

fn seed() -> Result<Seed, ErrorKind> {
    let mut seed = Seed { client_guid: [0; 16], salt: [0; 32], client_challenge: [0; 8], session_key: [0; 16], now: 0 };
    random(&mut seed.client_guid)?;
    renew(&mut seed)?;
    Ok(seed)
}

/// Makes all new that must be new for each connection; the client stays who it is.
pub(super) fn renew(seed: &mut Seed) -> Result<(), ErrorKind> {
    seed.now = stat::to_wire(Some(SystemTime::now())).0;
    random(&mut seed.salt)?;
    random(&mut seed.client_challenge)?;
    random(&mut seed.session_key)
}

fn random(bytes: &mut [u8]) -> Result<(), ErrorKind> {
    getrandom::fill(bytes).map_err(|_| ErrorKind::Input("the system has no random numbers"))
}

/// The share's name on the wire.
pub(super) fn path(url: &Url) -> Result<Vec<u8>, ErrorKind> {
    let path = utf16le(&format!("\\\\{}\\{}", url.host(), url.share()));
    if path.len() > usize::from(u16::MAX) {
        return Err(ErrorKind::Input("the share's name is too long"));
    }
    Ok(path)
}

/// Enters the share, and proves what was negotiated.
pub(super) async fn enter(line: Line, path: &[u8]) -> Result<Made, ErrorKind> {
    let body = TreeConnectRequest { flags: 0, path };
    let request = Request::new(Command::TreeConnect, 0, 0, |out| body.put(out));
    let response = good(line.call(request).await?)?;
    let tree = TreeConnectResponse::decode(response.message())?;
    if response.header.flags.contains(Flags::ASYNC) {
        // Where the tree connect's number would be, something else is.
        return Err(ErrorKind::Nonsense("a tree connect without a number"));
    }
    if tree.share_type != ShareType::Disk as u8 {
        return Err(ErrorKind::Input("the share holds no files: it is for pipes or a printer"));
    }
    let terms = Terms {
        dialect: line.negotiated.dialect,
        leasing: line.negotiated.leasing,
        tree_id: response.header.tree_id,
        seal: tree.flags.contains(ShareFlags::ENCRYPT_DATA),
        is_available: line.negotiated.dialect.is_3()
            && tree.capabilities.contains(ShareCapabilities::CONTINUOUS_AVAILABILITY),
    };
    validate(&line, &terms).await?;
    Ok(Made { line, terms })
}

/// MS-SMB2 3.2.5.5: before 3.1.1 nothing else proves that the dialect was not talked down on the way. The answer is
/// signed, as the machine sees to.
async fn validate(line: &Line, terms: &Terms) -> Result<(), ErrorKind> {
    const FORGED: Failure = Failure::NotGenuine("what was negotiated is not what the server says it was");
    const OUTPUT_BYTES: u32 = 24;
    let Some((ours, theirs)) = &line.validation else { return Ok(()) };
    let mut input = Vec::new();
    ours.put_request(&mut input);
    let body = IoctlRequest {
        code: fsctl::VALIDATE_NEGOTIATE_INFO,
        handle: FileHandle { persistent: u64::MAX, volatile: u64::MAX },
        input: &input,
        max_input_response: 0,
        max_output_response: OUTPUT_BYTES,
        flags: 1,
    };
    let ask = Request::new(Command::Ioctl, terms.tree_id, OUTPUT_BYTES, |out| body.put(out));
    let answer = line.call(ask.sealed(terms.seal)).await?;
    match answer.status() {
        NtStatus::SUCCESS => {
            let output = IoctlResponse::decode(answer.message())?.output;
            if ValidateNegotiate::decode_response(output)? == *theirs { Ok(()) } else { Err(FORGED.into()) }
        }
        // A server that knows no 3.x says so, and signs that.
        NtStatus::NOT_SUPPORTED | NtStatus::INVALID_DEVICE_REQUEST | NtStatus::FILE_CLOSED if !terms.dialect.is_3() => {
            Ok(())
        }
        status => Err(status.into()),
    }
}
