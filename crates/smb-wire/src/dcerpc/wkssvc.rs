//! The `wkssvc` interface (MS-WKST), of which clients ask only who the server is before they list its shares.

use super::ndr::{NdrReader, NdrWriter};
use super::pdu::Syntax;
use super::pipe::{Fault, Interface};
use super::srvsvc::{PLATFORM_NT, ServerInfo};
use std::sync::Arc;

/// The interface, over one description.
#[derive(Debug, Clone)]
pub struct Wkssvc(Arc<ServerInfo>);

impl Wkssvc {
    /// 6bffd098-a112-3610-9833-46c3f87e345a version 1.0 (MS-WKST 1.9).
    pub const SYNTAX: Syntax =
        Syntax::new(0x6bff_d098, 0xa112, 0x3610, [0x98, 0x33, 0x46, 0xc3, 0xf8, 0x7e, 0x34, 0x5a], 1);

    /// Answers from `info`.
    pub fn new(info: Arc<ServerInfo>) -> Self {
        Self(info)
    }
}

const WKSTA_GET_INFO: u16 = 0;

impl Interface for Wkssvc {
    fn syntax(&self) -> Syntax {
        Self::SYNTAX
    }

    fn call(&self, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
        match opnum {
            WKSTA_GET_INFO => wksta_get_info(&self.0, stub),
            _ => Err(Fault::OP_RANGE),
        }
    }
}

/// NetrWkstaGetInfo (MS-WKST 3.2.4.1), level 100.
fn wksta_get_info(info: &ServerInfo, stub: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut from = NdrReader::new(stub);
    from.unique_string()?;
    let level = from.u32()?;
    if level != 100 {
        return Err(Fault::INVALID_TAG);
    }
    let mut out = NdrWriter::new();
    out.u32(level);
    out.pointer(true);
    out.u32(PLATFORM_NT);
    out.pointer(true);
    out.pointer(true);
    out.u32(info.version.0);
    out.u32(info.version.1);
    out.wide_string(&info.name);
    out.wide_string(&info.domain);
    out.u32(0);
    Ok(out.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_the_server_is() {
        let info = ServerInfo { name: "SRV".into(), domain: "WG".into(), version: (6, 1), ..ServerInfo::default() };
        let wkssvc = Wkssvc::new(Arc::new(info));
        let request = b"\0\0\x02\0\x02\0\0\0\0\0\0\0\x02\0\0\0s\0\0\0\x64\0\0\0";
        let mut want = Vec::new();
        for word in [100, 0x20000, 500, 0x20004, 0x20008, 6, 1u32] {
            want.extend_from_slice(&word.to_le_bytes());
        }
        want.extend_from_slice(b"\x04\0\0\0\0\0\0\0\x04\0\0\0S\0R\0V\0\0\0");
        want.extend_from_slice(b"\x03\0\0\0\0\0\0\0\x03\0\0\0W\0G\0\0\0\0\0\0\0\0\0");
        assert_eq!(wkssvc.call(0, request), Ok(want));
        assert_eq!(wkssvc.call(1, request), Err(Fault::OP_RANGE));
        for short in 0..request.len() {
            assert_eq!(wkssvc.call(0, &request[..short]), Err(Fault::BAD_STUB));
        }
        let mut level = *request;
        level[20] = 101;
        assert_eq!(wkssvc.call(0, &level), Err(Fault::INVALID_TAG));
    }
}
