//! The few pieces of DER that SPNEGO is made of. Only its parent calls it; it knows definite lengths and one-byte tags,
//! and must never read past its slice.

use super::SpnegoError;

pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const GENERAL_STRING: u8 = 0x1b;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const APPLICATION_0: u8 = 0x60;
pub(super) const CONTEXT_0: u8 = context(0);
pub(super) const CONTEXT_1: u8 = context(1);
pub(super) const CONTEXT_2: u8 = context(2);
pub(super) const CONTEXT_3: u8 = context(3);
pub(super) const CONTEXT_4: u8 = context(4);

/// The constructed, context-specific tag `[number]`.
pub(super) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// Walks the elements of one constructed value.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The content of the next element, which has `tag`.
    pub(super) fn expect(&mut self, tag: u8) -> Result<&'a [u8], SpnegoError> {
        match self.any()? {
            (found, content) if found == tag => Ok(content),
            _ => Err(SpnegoError::Malformed),
        }
    }

    /// The next element; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, SpnegoError> {
        if self.rest.is_empty() { Ok(None) } else { self.any().map(Some) }
    }

    /// Tag and content of the next element, which must be there.
    pub(super) fn any(&mut self) -> Result<(u8, &'a [u8]), SpnegoError> {
        let tag = self.byte()?;
        let len = self.length()?;
        let (content, rest) = self.rest.split_at_checked(len).ok_or(SpnegoError::Truncated)?;
        self.rest = rest;
        Ok((tag, content))
    }

    fn length(&mut self) -> Result<usize, SpnegoError> {
        let first = self.byte()?;
        match first {
            0..=0x7f => Ok(first.into()),
            // Up to 4 bytes; the indefinite form (0x80) is not DER.
            0x81..=0x84 => (0x80..first).try_fold(0usize, |len, _| Ok(len << 8 | usize::from(self.byte()?))),
            _ => Err(SpnegoError::Malformed),
        }
    }

    fn byte(&mut self) -> Result<u8, SpnegoError> {
        let (&first, rest) = self.rest.split_first().ok_or(SpnegoError::Truncated)?;
        self.rest = rest;
        Ok(first)
    }
}

/// Builds elements from the outside in.
#[derive(Default)]
pub(super) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// An element whose content `fill` writes.
    pub(super) fn nested(&mut self, tag: u8, fill: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        fill(&mut inner);
        self.leaf(tag, &inner.out);
    }

    /// An element with this content.
    pub(super) fn leaf(&mut self, tag: u8, content: &[u8]) {
        self.out.push(tag);
        self.length(content.len());
        self.raw(content);
    }

    /// Bytes that are elements already.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.out
    }

    fn length(&mut self, len: usize) {
        if len < 0x80 {
            self.out.push(len as u8);
            return;
        }
        let bytes = len.to_be_bytes();
        let significant = &bytes[len.leading_zeros() as usize / 8..];
        self.out.push(0x80 | significant.len() as u8);
        self.raw(significant);
    }
}
