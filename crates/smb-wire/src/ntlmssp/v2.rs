//! The NTLMv2 response of an AUTHENTICATE message (MS-NLMP 2.2.2.7, 2.2.2.8): a proof and the client's blob it proves.

use super::{AvPairs, NtlmError, array_at};

/// Where the attributes begin in the blob.
const AV_PAIRS_AT: usize = 28;

/// A view of an NTLMv2 response.
#[derive(Debug, Clone, Copy)]
pub struct NtlmV2Response<'a> {
    /// NTProofStr.
    pub proof: [u8; 16],
    /// NTLMv2_CLIENT_CHALLENGE, "temp": all that the proof covers besides the server's challenge.
    pub blob: &'a [u8],
    /// The client's time as a FILETIME.
    pub timestamp: u64,
    /// The client's challenge.
    pub client_challenge: [u8; 8],
}

impl<'a> NtlmV2Response<'a> {
    /// Reads a response. Its versions must be 1 (MS-NLMP 2.2.2.7).
    pub fn decode(bytes: &'a [u8]) -> Result<Self, NtlmError> {
        let (proof, blob) = bytes.split_first_chunk().ok_or(NtlmError::Truncated)?;
        if array_at::<2>(blob, 0)? != [1, 1] {
            return Err(NtlmError::Malformed);
        }
        blob.get(AV_PAIRS_AT..).ok_or(NtlmError::Truncated)?;
        Ok(Self {
            proof: *proof,
            blob,
            timestamp: u64::from_le_bytes(array_at(blob, 8)?),
            client_challenge: array_at(blob, 16)?,
        })
    }

    /// The attributes the client sends back.
    pub fn av_pairs(&self) -> AvPairs<'a> {
        AvPairs::new(self.blob.get(AV_PAIRS_AT..).unwrap_or_default())
    }

    /// The blob for a response: `av_pairs` is a finished list.
    pub fn encode_blob(timestamp: u64, client_challenge: [u8; 8], av_pairs: &[u8]) -> Vec<u8> {
        let mut blob = vec![1, 1, 0, 0, 0, 0, 0, 0];
        blob.extend_from_slice(&timestamp.to_le_bytes());
        blob.extend_from_slice(&client_challenge);
        blob.extend_from_slice(&[0; 4]);
        blob.extend_from_slice(av_pairs);
        blob.extend_from_slice(&[0; 4]);
        blob
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AvId, AvPairsBuilder};
    use super::*;

    #[test]
    fn a_blob_round_trips_and_a_cut_one_is_refused() {
        let list = AvPairsBuilder::default().text(AvId::TARGET_NAME, "cifs/server").finish();
        let blob = NtlmV2Response::encode_blob(0x1122_3344, [0xaa; 8], &list);
        let bytes = [&[9; 16][..], &blob].concat();
        let response = NtlmV2Response::decode(&bytes).unwrap();
        assert_eq!((response.proof, response.timestamp), ([9; 16], 0x1122_3344));
        assert_eq!(response.client_challenge, [0xaa; 8]);
        assert_eq!(response.av_pairs().count(), 1);
        for len in 0..16 + AV_PAIRS_AT {
            assert!(NtlmV2Response::decode(&bytes[..len]).is_err(), "cut to {len}");
        }
        let mut version = bytes.clone();
        version[16] = 2;
        assert_eq!(NtlmV2Response::decode(&version).err(), Some(NtlmError::Malformed));
    }
}
