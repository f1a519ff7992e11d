//! Create contexts of durable and persistent handles (MS-SMB2 2.2.13.2.3, .4, .11, .12, 2.2.14.2.12), of an
//! application instance (2.2.13.2.13), and the request of FSCTL_LMR_REQUEST_RESILIENCY (2.2.31.3).

use super::{FileHandle, Malformed};
use crate::codec::{Put, Reader};

/// SMB2_DHANDLE_FLAG_PERSISTENT.
pub const DURABLE_PERSISTENT: u32 = 2;

/// `DH2Q` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableV2Request {
    /// How long the open is to outlive its connection, in milliseconds; 0 leaves it to the server.
    pub timeout_ms: u32,
    /// Flags; see [`DURABLE_PERSISTENT`].
    pub flags: u32,
    /// Names this CREATE.
    pub create_guid: [u8; 16],
}

impl DurableV2Request {
    /// Decodes the content of the context.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut r = exactly(data, 32)?;
        let (timeout_ms, flags) = (r.u32()?, r.u32()?);
        r.skip(8)?;
        Ok(Self { timeout_ms, flags, create_guid: r.array()? })
    }

    /// Appends the content of the context.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u32(self.timeout_ms);
        out.put_u32(self.flags);
        out.put_u64(0);
        out.put_bytes(&self.create_guid);
    }
}

/// `DH2Q` of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableV2Response {
    /// How long the open outlives its connection, in milliseconds.
    pub timeout_ms: u32,
    /// Flags; see [`DURABLE_PERSISTENT`].
    pub flags: u32,
}

impl DurableV2Response {
    /// Decodes the content of the context.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut r = exactly(data, 8)?;
        Ok(Self { timeout_ms: r.u32()?, flags: r.u32()? })
    }

    /// Appends the content of the context.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u32(self.timeout_ms);
        out.put_u32(self.flags);
    }
}

/// `DH2C`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableV2Reconnect {
    /// The open as it was.
    pub handle: FileHandle,
    /// The CREATE that made it.
    pub create_guid: [u8; 16],
    /// Flags; see [`DURABLE_PERSISTENT`].
    pub flags: u32,
}

impl DurableV2Reconnect {
    /// Decodes the content of the context.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut r = exactly(data, 36)?;
        Ok(Self { handle: FileHandle::decode(&mut r)?, create_guid: r.array()?, flags: r.u32()? })
    }

    /// Appends the content of the context.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        self.handle.put(out);
        out.put_bytes(&self.create_guid);
        out.put_u32(self.flags);
    }
}

/// The handle in a `DHnC`.
pub fn durable_reconnect_handle(data: &[u8]) -> Result<FileHandle, Malformed> {
    Ok(FileHandle::decode(&mut exactly(data, 16)?)?)
}

/// `DHnQ` has 16 reserved bytes.
pub fn check_durable_request(data: &[u8]) -> Result<(), Malformed> {
    exactly(data, 16).map(|_| ())
}

/// AppInstanceId of its context.
pub fn app_instance_id(data: &[u8]) -> Result<[u8; 16], Malformed> {
    let mut r = exactly(data, 20)?;
    if r.u16()? != 20 {
        return Err(Malformed::StructureSize);
    }
    r.skip(2)?;
    Ok(r.array()?)
}

/// Timeout in milliseconds of an FSCTL_LMR_REQUEST_RESILIENCY.
pub fn resiliency_timeout_ms(data: &[u8]) -> Result<u32, Malformed> {
    Ok(Reader::new(data.get(..8).ok_or(Malformed::Truncated)?).u32()?)
}

fn exactly(data: &[u8], len_bytes: usize) -> Result<Reader<'_>, Malformed> {
    match data.len() {
        len if len == len_bytes => Ok(Reader::new(data)),
        len if len < len_bytes => Err(Malformed::Truncated),
        _ => Err(Malformed::Field("create context length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: FileHandle = FileHandle { persistent: 1, volatile: 2 };

    #[test]
    fn contexts_survive_the_wire_and_other_lengths_do_not() {
        let request = DurableV2Request { timeout_ms: 60_000, flags: DURABLE_PERSISTENT, create_guid: [7; 16] };
        let reconnect = DurableV2Reconnect { handle: HANDLE, create_guid: [7; 16], flags: 0 };
        let response = DurableV2Response { timeout_ms: 1, flags: 2 };
        let bytes = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            put(&mut bytes);
            bytes
        };
        let (a, b, c) =
            (bytes(&|out| request.put(out)), bytes(&|out| reconnect.put(out)), bytes(&|out| response.put(out)));
        assert_eq!(DurableV2Request::decode(&a), Ok(request));
        assert_eq!(DurableV2Reconnect::decode(&b), Ok(reconnect));
        assert_eq!(DurableV2Response::decode(&c), Ok(response));
        for len in (0..64).filter(|len| ![8, 32, 36].contains(len)) {
            assert!(DurableV2Request::decode(&[0; 64][..len]).is_err());
            assert!(DurableV2Reconnect::decode(&[0; 64][..len]).is_err());
            assert!(DurableV2Response::decode(&[0; 64][..len]).is_err());
        }
    }

    #[test]
    fn small_contents_are_read() {
        let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(durable_reconnect_handle(&bytes), Ok(HANDLE));
        assert_eq!(check_durable_request(&bytes), Ok(()));
        bytes.push(0);
        assert!(durable_reconnect_handle(&bytes).is_err());
        let mut app = vec![20, 0, 0, 0];
        app.extend([5; 16]);
        assert_eq!(app_instance_id(&app), Ok([5; 16]));
        app[0] = 19;
        assert!(app_instance_id(&app).is_err());
        assert_eq!(resiliency_timeout_ms(&[0x10, 0x27, 0, 0, 0, 0, 0, 0]), Ok(10_000));
        assert!(resiliency_timeout_ms(&[0; 7]).is_err());
    }
}
