//! NTLM (MS-NLMP): proofs and keys, message signatures, and the two sides of an exchange. `acceptor` and `initiator`
//! wrap it in SPNEGO. Nothing here knows a socket or a clock.

mod acceptor;
mod initiator;
mod keys;
mod signer;

pub(crate) use acceptor::NtlmAcceptor;
pub(crate) use initiator::NtlmInitiator;
pub(crate) use signer::Signers;

use crate::AuthError;
use smb_wire::ntlmssp::NtlmError;

impl From<NtlmError> for AuthError {
    fn from(_: NtlmError) -> Self {
        Self::InvalidToken
    }
}
