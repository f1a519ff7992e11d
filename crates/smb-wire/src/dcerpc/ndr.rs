//! NDR transfer syntax 2.0 (C706 chapter 14), as far as the calls here use it: aligned numbers, unique pointers, strings.
//! Alignment counts from the start of the stub.

use crate::codec::{Put, Reader, Truncated};
use crate::security::Sid;

/// Stub data that is no NDR of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NdrError;

impl From<Truncated> for NdrError {
    fn from(_: Truncated) -> Self {
        Self
    }
}

impl std::fmt::Display for NdrError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the stub data is malformed")
    }
}

impl std::error::Error for NdrError {}

/// Reads stub data.
#[derive(Debug)]
pub struct NdrReader<'a>(Reader<'a>);

impl<'a> NdrReader<'a> {
    /// A reader at the start of a stub.
    pub fn new(stub: &'a [u8]) -> Self {
        Self(Reader::new(stub))
    }

    /// An aligned `long`.
    pub fn u32(&mut self) -> Result<u32, NdrError> {
        self.0.align(4)?;
        Ok(self.0.u32()?)
    }

    /// An aligned `short`.
    pub fn u16(&mut self) -> Result<u16, NdrError> {
        self.0.align(2)?;
        Ok(self.0.u16()?)
    }

    /// Bytes by value, which have no alignment.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], NdrError> {
        Ok(self.0.array()?)
    }

    /// RPC_UNICODE_STRING (MS-DTYP 2.3.10) with its characters right after it; none is an empty one.
    pub fn counted_string(&mut self) -> Result<String, NdrError> {
        let head = self.counted_head()?;
        self.counted_body(head)
    }

    /// A conformant array of `count` RPC_UNICODE_STRINGs, then their characters.
    pub fn counted_strings(&mut self, count: u32) -> Result<Vec<String>, NdrError> {
        if self.u32()? != count {
            return Err(NdrError);
        }
        self.counted_elements(count)
    }

    /// The elements of such an array. Nothing is reserved for `count`: each has to be there first.
    pub fn counted_elements(&mut self, count: u32) -> Result<Vec<String>, NdrError> {
        let heads = (0..count).map(|_| self.counted_head()).collect::<Result<Vec<_>, _>>()?;
        heads.into_iter().map(|head| self.counted_body(head)).collect()
    }

    /// Length in bytes and whether there are characters.
    fn counted_head(&mut self) -> Result<(u16, bool), NdrError> {
        self.0.align(4)?;
        let (len, _room) = (self.0.u16()?, self.0.u16()?);
        Ok((len, self.pointer()?))
    }

    fn counted_body(&mut self, (len, present): (u16, bool)) -> Result<String, NdrError> {
        if !present {
            return if len == 0 { Ok(String::new()) } else { Err(NdrError) };
        }
        let (room, offset, count) = (self.u32()?, self.u32()?, self.u32()?);
        if offset != 0 || count > room || count != u32::from(len / 2) {
            return Err(NdrError);
        }
        Ok(crate::name::from_utf16le(self.0.bytes(usize::from(len / 2) * 2)?))
    }

    /// RPC_SID (MS-DTYP 2.4.2.3).
    pub fn sid(&mut self) -> Result<Sid, NdrError> {
        let count = self.u32()?;
        if count > 15 {
            return Err(NdrError);
        }
        let sid = Sid::decode(self.0.bytes(8 + count as usize * 4)?).ok_or(NdrError)?;
        if sid.sub_authorities().len() == count as usize { Ok(sid) } else { Err(NdrError) }
    }

    /// A unique pointer's referent: whether it is not null.
    pub fn pointer(&mut self) -> Result<bool, NdrError> {
        Ok(self.u32()? != 0)
    }

    /// A conformant and varying string of UTF-16 characters, without the zero that ends it.
    pub fn wide_string(&mut self) -> Result<String, NdrError> {
        let (room, offset, count) = (self.u32()?, self.u32()?, self.u32()?);
        if offset != 0 || count > room {
            return Err(NdrError);
        }
        let len = usize::try_from(count).ok().and_then(|n| n.checked_mul(2)).ok_or(NdrError)?;
        let text = crate::name::from_utf16le(self.0.bytes(len)?);
        text.strip_suffix('\0').map(str::to_owned).ok_or(NdrError)
    }

    /// A unique pointer to a string, pointer and string one after the other, as they stand among a call's arguments.
    pub fn unique_string(&mut self) -> Result<Option<String>, NdrError> {
        self.pointer()?.then(|| self.wide_string()).transpose()
    }

    /// A unique pointer to a `long`, pointer and number one after the other.
    pub fn unique_u32(&mut self) -> Result<Option<u32>, NdrError> {
        self.pointer()?.then(|| self.u32()).transpose()
    }
}

/// Writes stub data.
#[derive(Debug, Default)]
pub struct NdrWriter {
    out: Vec<u8>,
    referents: u32,
}

impl NdrWriter {
    /// An empty stub.
    pub fn new() -> Self {
        Self::default()
    }

    /// The stub.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    /// An aligned `long`.
    pub fn u32(&mut self, value: u32) {
        self.out.put_align(4);
        self.out.put_u32(value);
    }

    /// An aligned `short`.
    pub fn u16(&mut self, value: u16) {
        self.out.put_align(2);
        self.out.put_u16(value);
    }

    /// Padding.
    pub fn align(&mut self, n: usize) {
        self.out.put_align(n);
    }

    /// Bytes that have no alignment.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.put_bytes(bytes);
    }

    /// RPC_UNICODE_STRING without its characters; `large` leaves room for a zero, as some fields are declared.
    pub fn counted_head(&mut self, text: &str, large: bool) {
        let len = text.encode_utf16().count() * 2;
        let len = u16::try_from(len).unwrap_or(u16::MAX - 3);
        self.out.put_align(4);
        self.out.put_u16(len);
        self.out.put_u16(if large { len + 2 } else { len });
        self.pointer(true);
    }

    /// The characters of one, which come after the structure it is in.
    pub fn counted_body(&mut self, text: &str, large: bool) {
        let wide = crate::name::utf16le(text);
        let count = (wide.len() / 2) as u32;
        self.u32(count + u32::from(large));
        self.u32(0);
        self.u32(count);
        self.out.put_bytes(&wide);
    }

    /// RPC_SID.
    pub fn sid(&mut self, sid: &Sid) {
        self.u32(sid.sub_authorities().len() as u32);
        self.out.put_bytes(&sid.encode());
    }

    /// A unique pointer: a new referent, or null.
    pub fn pointer(&mut self, present: bool) {
        if !present {
            return self.u32(0);
        }
        let referent = 0x0002_0000 | self.referents.wrapping_mul(4);
        self.referents = self.referents.wrapping_add(1);
        self.u32(referent);
    }

    /// A conformant and varying string, with the zero that ends it.
    pub fn wide_string(&mut self, text: &str) {
        let wide = crate::name::utf16le(text);
        let count = u32::try_from(wide.len() / 2 + 1).unwrap_or(u32::MAX);
        self.u32(count);
        self.u32(0);
        self.u32(count);
        self.out.put_bytes(&wide);
        self.out.put_u16(0);
    }

    /// A unique pointer to a string, pointer and string one after the other.
    pub fn unique_string(&mut self, text: Option<&str>) {
        self.pointer(text.is_some());
        if let Some(text) = text {
            self.wide_string(text);
        }
    }

    /// A unique pointer to a `long`, pointer and number one after the other.
    pub fn unique_u32(&mut self, value: Option<u32>) {
        self.pointer(value.is_some());
        if let Some(value) = value {
            self.u32(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_to_a_string() {
        let mut out = NdrWriter::new();
        out.unique_string(Some("ab"));
        out.unique_u32(Some(7));
        out.unique_string(None);
        let stub = out.finish();
        let want = b"\0\0\x02\0\x03\0\0\0\0\0\0\0\x03\0\0\0a\0b\0\0\0\0\0\x04\0\x02\0\x07\0\0\0\0\0\0\0";
        assert_eq!(stub, want);
        let mut from = NdrReader::new(&stub);
        assert_eq!(from.unique_string(), Ok(Some("ab".to_owned())));
        assert_eq!(from.unique_u32(), Ok(Some(7)));
        assert_eq!(from.unique_string(), Ok(None));
        assert_eq!(from.u32(), Err(NdrError));
        for short in 0..22 {
            assert_eq!(NdrReader::new(&stub[..short]).unique_string(), Err(NdrError));
        }
    }

    #[test]
    fn strings_that_are_none() {
        for (room, offset, count) in [(2u32, 0u32, 3u32), (2, 1, 1), (u32::MAX, 0, u32::MAX), (0, 0, 0), (1, 0, 1)] {
            let mut stub: Vec<u8> = [room, offset, count].into_iter().flat_map(u32::to_le_bytes).collect();
            stub.extend_from_slice(b"a\0b\0");
            assert_eq!(NdrReader::new(&stub).wide_string(), Err(NdrError), "{room} {offset} {count}");
        }
    }
}
