//! The `srvsvc` interface (MS-SRVS): what a client calls to list the shares of a server and to ask about one or about the
//! server. It answers from a description it is given and changes nothing. Calls that would change something are not
//! there. Who may see which share is decided by who makes the description.

use super::ndr::{NdrError, NdrReader, NdrWriter};
use super::pdu::Syntax;
use super::pipe::{Fault, Interface};
use std::sync::Arc;

/// A share as it is told to clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// STYPE_* (MS-SRVS 2.2.2.4): [`Share::DISK`], [`Share::IPC`] with [`Share::SPECIAL`].
    pub kind: u32,
    /// A comment.
    pub comment: String,
    /// A path to show at the levels that have one; not necessarily one of this machine.
    pub path: String,
    /// SHI1005_FLAGS_* (MS-SRVS 2.2.4.29): DFS, caching, access-based enumeration.
    pub flags: u32,
}

impl Share {
    /// A directory tree.
    pub const DISK: u32 = 0;
    /// Named pipes.
    pub const IPC: u32 = 3;
    /// For administration: a client does not show it.
    pub const SPECIAL: u32 = 0x8000_0000;
}

/// A server as it is told to clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerInfo {
    /// Its NetBIOS name.
    pub name: String,
    /// Its workgroup or domain.
    pub domain: String,
    /// A comment.
    pub comment: String,
    /// The version of Windows it is like.
    pub version: (u32, u32),
    /// All shares, in the order they are listed.
    pub shares: Vec<Share>,
}

/// The interface, over one description.
#[derive(Debug, Clone)]
pub struct Srvsvc(Arc<ServerInfo>);

impl Srvsvc {
    /// 4b324fc8-1670-01d3-1278-5a47bf6ee188 version 3.0 (MS-SRVS 1.9).
    pub const SYNTAX: Syntax =
        Syntax::new(0x4b32_4fc8, 0x1670, 0x01d3, [0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88], 3);

    /// Answers from `info`.
    pub fn new(info: Arc<ServerInfo>) -> Self {
        Self(info)
    }
}

impl Interface for Srvsvc {
    fn syntax(&self) -> Syntax {
        Self::SYNTAX
    }

    fn call(&self, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
        match opnum {
            SHARE_ENUM | SHARE_ENUM_STICKY => share_enum(&self.0, stub),
            SHARE_GET_INFO => share_get_info(&self.0, stub),
            SERVER_GET_INFO => server_get_info(&self.0, stub),
            _ => Err(Fault::OP_RANGE),
        }
    }
}

/// NetrShareEnum (MS-SRVS 3.1.4.8).
pub const SHARE_ENUM: u16 = 15;
const SHARE_GET_INFO: u16 = 16;
const SERVER_GET_INFO: u16 = 21;
const SHARE_ENUM_STICKY: u16 = 36;

/// Win32 results (MS-ERREF 2.2).
const NERR_SUCCESS: u32 = 0;
const ERROR_INVALID_PARAMETER: u32 = 87;
const NERR_NET_NAME_NOT_FOUND: u32 = 2310;

/// PLATFORM_ID_NT.
pub(super) const PLATFORM_NT: u32 = 500;
/// SV_TYPE_WORKSTATION, SERVER, SERVER_UNIX, NT, SERVER_NT (MS-SRVS 2.2.2.7).
const SERVER_TYPE: u32 = 0x9803;
/// No limit on the users of a share.
const UNLIMITED: u32 = u32::MAX;

/// The SHARE_INFO_* structures of MS-SRVS 2.2.4 that are served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    L0,
    L1,
    L2,
    L501,
    L502,
    L503,
    /// Only of one share, not in a list.
    L1005,
}

impl Level {
    fn new(level: u32) -> Result<Self, Fault> {
        Ok(match level {
            0 => Self::L0,
            1 => Self::L1,
            2 => Self::L2,
            501 => Self::L501,
            502 => Self::L502,
            503 => Self::L503,
            1005 => Self::L1005,
            _ => return Err(Fault::INVALID_TAG),
        })
    }

    /// Writes the structure, its strings only as pointers.
    fn fixed(self, share: &Share, out: &mut NdrWriter) {
        if self == Self::L1005 {
            return out.u32(share.flags);
        }
        out.pointer(true);
        if self == Self::L0 {
            return;
        }
        out.u32(share.kind);
        out.pointer(true);
        match self {
            Self::L501 => out.u32(share.flags),
            Self::L2 | Self::L502 | Self::L503 => self.fixed_details(out),
            _ => {}
        }
    }

    /// Permissions, uses, path, password, and in the later levels server name and security descriptor.
    fn fixed_details(self, out: &mut NdrWriter) {
        out.u32(0);
        out.u32(UNLIMITED);
        out.u32(0);
        out.pointer(true);
        out.pointer(false);
        if self == Self::L503 {
            out.pointer(true);
        }
        if self != Self::L2 {
            out.u32(0);
            out.pointer(false);
        }
    }

    /// Writes what the pointers point to.
    fn strings(self, share: &Share, out: &mut NdrWriter) {
        if self == Self::L1005 {
            return;
        }
        out.wide_string(&share.name);
        if self == Self::L0 {
            return;
        }
        out.wide_string(&share.comment);
        if matches!(self, Self::L2 | Self::L502 | Self::L503) {
            out.wide_string(&share.path);
        }
        if self == Self::L503 {
            out.wide_string("*");
        }
    }
}

/// NetrShareEnum (MS-SRVS 3.1.4.8): all shares at once, whatever the caller's preferred length; a pipe carries it.
fn share_enum(info: &ServerInfo, stub: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut from = NdrReader::new(stub);
    from.unique_string()?;
    let (number, arm) = (from.u32()?, from.u32()?);
    let level = Level::new(number)?;
    if arm != number || level == Level::L1005 {
        return Err(Fault::INVALID_TAG);
    }
    let has_container = from.pointer()?;
    if has_container {
        skip_empty_container(&mut from)?;
    }
    let _preferred_len = from.u32()?;
    let resume = from.unique_u32()?;

    let mut out = NdrWriter::new();
    out.u32(number);
    out.u32(number);
    out.pointer(has_container);
    if !has_container {
        out.u32(0);
        out.unique_u32(resume.map(|_| 0));
        out.u32(ERROR_INVALID_PARAMETER);
        return Ok(out.finish());
    }
    let start = usize::try_from(resume.unwrap_or(0)).unwrap_or(usize::MAX);
    write_shares(level, info.shares.get(start..).unwrap_or_default(), &mut out);
    out.unique_u32(resume.map(|_| 0));
    out.u32(NERR_SUCCESS);
    Ok(out.finish())
}

/// A container and the number of entries there are in all.
fn write_shares(level: Level, shares: &[Share], out: &mut NdrWriter) {
    let count = u32::try_from(shares.len()).unwrap_or(u32::MAX);
    out.u32(count);
    out.pointer(true);
    out.u32(count);
    shares.iter().for_each(|share| level.fixed(share, out));
    shares.iter().for_each(|share| level.strings(share, out));
    out.u32(count);
}

/// The container a caller sends has no entries: it is there to be filled.
fn skip_empty_container(from: &mut NdrReader<'_>) -> Result<(), NdrError> {
    let count = from.u32()?;
    if from.pointer()? && from.u32()? != 0 || count != 0 {
        return Err(NdrError);
    }
    Ok(())
}

/// NetrShareGetInfo (MS-SRVS 3.1.4.10).
fn share_get_info(info: &ServerInfo, stub: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut from = NdrReader::new(stub);
    from.unique_string()?;
    let name = from.wide_string()?.to_lowercase();
    let number = from.u32()?;
    let level = Level::new(number)?;
    let share = info.shares.iter().find(|share| share.name.to_lowercase() == name);

    let mut out = NdrWriter::new();
    out.u32(number);
    out.pointer(share.is_some());
    if let Some(share) = share {
        level.fixed(share, &mut out);
        level.strings(share, &mut out);
    }
    out.u32(if share.is_some() { NERR_SUCCESS } else { NERR_NET_NAME_NOT_FOUND });
    Ok(out.finish())
}

/// NetrServerGetInfo (MS-SRVS 3.1.4.17), levels 100 to 102.
fn server_get_info(info: &ServerInfo, stub: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut from = NdrReader::new(stub);
    from.unique_string()?;
    let level = from.u32()?;
    if !(100..=102).contains(&level) {
        return Err(Fault::INVALID_TAG);
    }
    let mut out = NdrWriter::new();
    out.u32(level);
    out.pointer(true);
    out.u32(PLATFORM_NT);
    out.pointer(true);
    if level > 100 {
        out.u32(info.version.0);
        out.u32(info.version.1);
        out.u32(SERVER_TYPE);
        out.pointer(true);
    }
    if level > 101 {
        // users, disconnect minutes, hidden, announce, announce delta, licenses
        [UNLIMITED, 15, 0, 240, 3000, 0].into_iter().for_each(|value| out.u32(value));
        out.pointer(true);
    }
    out.wide_string(&info.name);
    if level > 100 {
        out.wide_string(&info.comment);
    }
    if level > 101 {
        out.wide_string("c:\\");
    }
    out.u32(NERR_SUCCESS);
    Ok(out.finish())
}

/// The stub of a NetrShareEnum at level 1, for a client. `server` is `\\name`.
pub fn share_enum_request(server: &str) -> Vec<u8> {
    let mut out = NdrWriter::new();
    out.unique_string(Some(server));
    out.u32(1);
    out.u32(1);
    out.pointer(true);
    out.u32(0);
    out.pointer(false);
    out.u32(u32::MAX);
    out.unique_u32(Some(0));
    out.finish()
}

/// Reads the answer to it: the shares, and the Win32 result of the call.
pub fn share_enum_response(stub: &[u8]) -> Result<(Vec<Share>, u32), NdrError> {
    let mut from = NdrReader::new(stub);
    if (from.u32()?, from.u32()?) != (1, 1) {
        return Err(NdrError);
    }
    let mut shares = Vec::new();
    if from.pointer()? {
        let count = from.u32()?;
        if from.pointer()? {
            shares = take_shares(count, &mut from)?;
        }
    }
    let _total = from.u32()?;
    from.unique_u32()?;
    Ok((shares, from.u32()?))
}

fn take_shares(count: u32, from: &mut NdrReader<'_>) -> Result<Vec<Share>, NdrError> {
    if from.u32()? != count {
        return Err(NdrError);
    }
    // Nothing is reserved for `count`: each entry has to be there first.
    let fixed = (0..count)
        .map(|_| Ok((from.pointer()?, from.u32()?, from.pointer()?)))
        .collect::<Result<Vec<_>, NdrError>>()?;
    let string = |from: &mut NdrReader<'_>, present: bool| match present {
        true => from.wide_string(),
        false => Ok(String::new()),
    };
    fixed
        .into_iter()
        .map(|(has_name, kind, has_comment)| {
            let (name, comment) = (string(from, has_name)?, string(from, has_comment)?);
            Ok(Share { name, kind, comment, ..Share::default() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn srvsvc() -> Srvsvc {
        let share = |name: &str, kind, comment: &str| Share {
            name: name.to_owned(),
            kind,
            comment: comment.to_owned(),
            path: "C:\\".to_owned(),
            flags: 0x30,
        };
        Srvsvc::new(Arc::new(ServerInfo {
            name: "SRV".to_owned(),
            domain: "WG".to_owned(),
            comment: "c".to_owned(),
            version: (6, 1),
            shares: vec![share("data", Share::DISK, "Files"), share("IPC$", Share::IPC | Share::SPECIAL, "")],
        }))
    }

    fn hex(text: &str) -> Vec<u8> {
        text.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// NetShareEnumAll at level 1 of `\\srv`, as Samba 4's own NDR code writes it.
    const ENUM: &str = "000002000600000000000000060000005c005c0073007200760000000100000001000000040002000000000000000000\
                        ffffffff0800020000000000";
    /// NetShareGetInfo of `data` at level 2.
    const GET_INFO: &str = "000002000600000000000000060000005c005c007300720076000000050000000000000005000000640061007400\
                            61000000000002000000";
    /// NetSrvGetInfo at level 101.
    const SERVER: &str = "000002000600000000000000060000005c005c00730072007600000065000000";

    #[test]
    fn a_client_writes_what_samba_writes() {
        assert_eq!(share_enum_request("\\\\srv"), hex(ENUM));
    }

    #[test]
    fn shares_at_level_1() {
        let stub = srvsvc().call(SHARE_ENUM, &hex(ENUM)).unwrap();
        let mut want = Vec::new();
        for word in [1, 1, 0x20000, 2, 0x20004, 2, 0x20008, 0, 0x2000c, 0x20010, 0x8000_0003, 0x20014u32] {
            want.extend_from_slice(&word.to_le_bytes());
        }
        want.extend_from_slice(b"\x05\0\0\0\0\0\0\0\x05\0\0\0d\0a\0t\0a\0\0\0\0\0");
        want.extend_from_slice(b"\x06\0\0\0\0\0\0\0\x06\0\0\0F\0i\0l\0e\0s\0\0\0");
        want.extend_from_slice(b"\x05\0\0\0\0\0\0\0\x05\0\0\0I\0P\0C\0$\0\0\0\0\0");
        want.extend_from_slice(b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
        want.extend_from_slice(b"\x02\0\0\0\x18\0\x02\0\0\0\0\0\0\0\0\0");
        assert_eq!(stub, want);

        let (shares, result) = share_enum_response(&stub).unwrap();
        assert_eq!(result, 0);
        assert_eq!(shares.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["data", "IPC$"]);
        assert_eq!((shares[1].kind, shares[0].comment.as_str()), (0x8000_0003, "Files"));
        for short in 0..stub.len() {
            assert_eq!(share_enum_response(&stub[..short]), Err(NdrError), "{short}");
        }
    }

    #[test]
    fn a_share_at_every_level() {
        let request = hex(GET_INFO);
        let level_at = request.len() - 4;
        for (level, len) in [(0u32, 40), (1, 72), (2, 112), (501, 76), (502, 120), (503, 140), (1005, 16)] {
            let mut request = request.clone();
            request[level_at..].copy_from_slice(&level.to_le_bytes());
            let stub = srvsvc().call(SHARE_GET_INFO, &request).unwrap();
            assert_eq!((stub.len(), stub[..4] == level.to_le_bytes()), (len, true), "{level}");
            assert_eq!(stub[len - 4..], [0; 4], "{level}");
        }
        let mut unknown = request.clone();
        unknown[40] = b'x';
        let stub = srvsvc().call(SHARE_GET_INFO, &unknown).unwrap();
        assert_eq!(stub, [2, 0, 0, 0, 0, 0, 0, 0, 0x06, 0x09, 0, 0]);
    }

    #[test]
    fn the_server_at_level_101() {
        let stub = srvsvc().call(SERVER_GET_INFO, &hex(SERVER)).unwrap();
        let mut want = Vec::new();
        for word in [101, 0x20000, 500, 0x20004, 6, 1, 0x9803, 0x20008u32] {
            want.extend_from_slice(&word.to_le_bytes());
        }
        want.extend_from_slice(b"\x04\0\0\0\0\0\0\0\x04\0\0\0S\0R\0V\0\0\0");
        want.extend_from_slice(b"\x02\0\0\0\0\0\0\0\x02\0\0\0c\0\0\0\0\0\0\0");
        assert_eq!(stub, want);
    }

    #[test]
    fn calls_that_fault() {
        let call = |opnum, stub: &[u8]| srvsvc().call(opnum, stub);
        assert_eq!(call(14, b""), Err(Fault::OP_RANGE));
        let mut bad_level = hex(ENUM);
        bad_level[28..36].copy_from_slice(&[9, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(call(SHARE_ENUM, &bad_level), Err(Fault::INVALID_TAG));
        let mut entries = hex(ENUM);
        entries[40] = 1;
        assert_eq!(call(SHARE_ENUM, &entries), Err(Fault::BAD_STUB));
        for (opnum, text) in [(SHARE_ENUM, ENUM), (SHARE_GET_INFO, GET_INFO), (SERVER_GET_INFO, SERVER)] {
            let stub = hex(text);
            for short in 0..stub.len() {
                assert_eq!(call(opnum, &stub[..short]), Err(Fault::BAD_STUB), "{opnum} {short}");
            }
        }
    }

    #[test]
    fn a_listing_goes_on_where_the_caller_says() {
        let mut request = hex(ENUM);
        let at = request.len() - 4;
        for (resume, names) in [(1, &["IPC$"][..]), (2, &[]), (9, &[])] {
            request[at] = resume;
            let (shares, _) = share_enum_response(&srvsvc().call(SHARE_ENUM, &request).unwrap()).unwrap();
            assert_eq!(shares.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), names);
        }
    }
}
