//! AV_PAIRs (MS-NLMP 2.2.2.1): the attributes in a CHALLENGE's target information and in the NTLMv2 response that
//! answers it. Values are handed out as they are; unknown ids pass through.

use bitflags::bitflags;

use super::{NtlmError, u16_at, utf16le_encode};

/// The id of one attribute. Ids nobody defined are as good as any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AvId(
    /// The number on the wire.
    pub u16,
);

impl AvId {
    /// Ends the list.
    pub const EOL: Self = Self(0);
    /// The server's NetBIOS computer name.
    pub const NB_COMPUTER_NAME: Self = Self(1);
    /// The server's NetBIOS domain name.
    pub const NB_DOMAIN_NAME: Self = Self(2);
    /// The server's fully qualified name.
    pub const DNS_COMPUTER_NAME: Self = Self(3);
    /// The domain's fully qualified name.
    pub const DNS_DOMAIN_NAME: Self = Self(4);
    /// The forest's fully qualified name.
    pub const DNS_TREE_NAME: Self = Self(5);
    /// [`AvFlags`], 4 bytes.
    pub const FLAGS: Self = Self(6);
    /// The server's time as a FILETIME, 8 bytes.
    pub const TIMESTAMP: Self = Self(7);
    /// The client's machine id and restrictions.
    pub const SINGLE_HOST: Self = Self(8);
    /// The service the client believes to talk to.
    pub const TARGET_NAME: Self = Self(9);
    /// MD5 of the channel bindings, 16 bytes; zeros for none.
    pub const CHANNEL_BINDINGS: Self = Self(10);
}

bitflags! {
    /// The value of [`AvId::FLAGS`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct AvFlags: u32 {
        /// The account's authentication is constrained.
        const CONSTRAINED = 1;
        /// The AUTHENTICATE message carries a MIC.
        const MIC_PRESENT = 2;
        /// The target name came from an untrusted source.
        const UNTRUSTED_TARGET = 4;
        const _ = !0;
    }
}

/// A list of attributes, walked without copying. Ends at EOL; a list that just stops is an error.
#[derive(Debug, Clone, Copy)]
pub struct AvPairs<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> AvPairs<'a> {
    /// Over the bytes of a list.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: Some(bytes) }
    }

    /// The value of the first attribute with `id`, provided the whole list is well formed.
    pub fn find(self, id: AvId) -> Result<Option<&'a [u8]>, NtlmError> {
        let mut found = None;
        for pair in self {
            let (this, value) = pair?;
            if this == id && found.is_none() {
                found = Some(value);
            }
        }
        Ok(found)
    }

    fn step(&mut self, bytes: &'a [u8]) -> Result<Option<(AvId, &'a [u8])>, NtlmError> {
        let id = AvId(u16_at(bytes, 0)?);
        if id == AvId::EOL {
            return Ok(None);
        }
        let len = u16_at(bytes, 2)?.into();
        let (value, rest) = bytes.get(4..).and_then(|b| b.split_at_checked(len)).ok_or(NtlmError::Truncated)?;
        self.rest = Some(rest);
        Ok(Some((id, value)))
    }
}

impl<'a> Iterator for AvPairs<'a> {
    type Item = Result<(AvId, &'a [u8]), NtlmError>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.rest.take()?;
        self.step(bytes).transpose()
    }
}

/// Builds a list.
#[derive(Debug, Clone, Default)]
pub struct AvPairsBuilder {
    out: Vec<u8>,
}

impl AvPairsBuilder {
    /// Adds an attribute. Values longer than the wire's 65,535 bytes are cut.
    #[must_use]
    pub fn bytes(mut self, id: AvId, value: &[u8]) -> Self {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.out.extend_from_slice(&id.0.to_le_bytes());
        self.out.extend_from_slice(&len.to_le_bytes());
        self.out.extend_from_slice(&value[..len.into()]);
        self
    }

    /// Adds a string.
    #[must_use]
    pub fn text(self, id: AvId, value: &str) -> Self {
        self.bytes(id, &utf16le_encode(value))
    }

    /// The list with its end.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(&[0; 4]);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_round_trips_with_unknown_ids_in_it() {
        let list = AvPairsBuilder::default()
            .text(AvId::NB_DOMAIN_NAME, "Domain")
            .bytes(AvId(77), b"?")
            .bytes(AvId::FLAGS, &2u32.to_le_bytes())
            .finish();
        let pairs: Vec<_> = AvPairs::new(&list).map(Result::unwrap).collect();
        assert_eq!(pairs.len(), 3);
        assert_eq!(pairs[1], (AvId(77), &b"?"[..]));
        assert_eq!(AvPairs::new(&list).find(AvId::FLAGS), Ok(Some(&[2, 0, 0, 0][..])));
        assert_eq!(AvPairs::new(&list).find(AvId::TIMESTAMP), Ok(None));
    }

    #[test]
    fn a_list_cut_before_its_end_is_an_error_and_ends() {
        let list = AvPairsBuilder::default().text(AvId::DNS_TREE_NAME, "tree").finish();
        for len in 0..list.len() - 2 {
            assert_eq!(AvPairs::new(&list[..len]).find(AvId::FLAGS), Err(NtlmError::Truncated), "cut to {len}");
            assert!(AvPairs::new(&list[..len]).count() <= 2);
        }
    }
}
