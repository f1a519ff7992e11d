//! Signing and sealing of one session's messages (MS-SMB2 3.2.4.1.1, 3.2.4.1.8, 3.2.5.1.1, 3.2.5.1.3). The machine sends
//! every message through here; one that must be protected must never be taken unprotected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smb_wire::crypto::{
    Cipher, CryptoError, Derivation, PreauthHash, SealingKey, SessionKeys, SigningAlgorithm, SigningKey,
    TRANSFORM_HEADER_LEN, TransformHeader,
};
use smb_wire::smb2::Dialect;

use super::Failure;

/// How much protection the caller insists on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protection {
    /// What the server asks for.
    #[default]
    AsServer,
    /// Every message signed.
    Signed,
    /// Every message sealed; without a cipher in common there is no connection.
    Sealed,
}

/// The keys of a session and what is done with them.
#[derive(Debug, Clone)]
pub(crate) struct Shield {
    session_id: u64,
    signing: Arc<SigningKey>,
    seals: Option<Seals>,
    /// Every message is signed, both ways.
    pub sign_all: bool,
    /// Every message is sealed, both ways.
    pub seal_all: bool,
}

/// All channels of a session seal with the same keys, and so no two messages with the same nonce.
#[derive(Debug, Clone)]
struct Seals {
    out: Arc<SealingKey>,
    back: Arc<SealingKey>,
    nonce: Arc<AtomicU64>,
}

impl Shield {
    /// Derives the keys (MS-SMB2 3.2.5.3.1).
    pub fn new(
        session_id: u64,
        key: &auth::SessionKey,
        dialect: Dialect,
        hash: &PreauthHash,
        algorithm: SigningAlgorithm,
        cipher: Option<Cipher>,
    ) -> Self {
        let derivation = match dialect {
            Dialect::V2_0_2 | Dialect::V2_1 => Derivation::Smb2,
            Dialect::V3_0 | Dialect::V3_0_2 => Derivation::Smb30,
            Dialect::V3_1_1 => Derivation::Smb311(hash),
        };
        let keys = SessionKeys::derive(derivation, &key.first_16(), key.full(), cipher);
        let seals = || {
            let cipher = cipher?;
            let key = |key: &Option<_>| SealingKey::new(cipher, AsRef::<[u8]>::as_ref(key.as_ref()?)).ok();
            let (out, back) = (key(&keys.client_to_server)?, key(&keys.server_to_client)?);
            Some(Seals { out: Arc::new(out), back: Arc::new(back), nonce: Arc::default() })
        };
        let seals: Option<Seals> = seals();
        let signing = Arc::new(SigningKey::new(algorithm, &keys.signing));
        Self { session_id, signing, seals, sign_all: false, seal_all: false }
    }

    /// For a further channel of the session that `self` is of: `own` signs there, all else is the session's (MS-SMB2
    /// 3.2.5.3.3).
    pub fn for_channel(&self, own: Self) -> Self {
        Self { signing: own.signing, ..self.clone() }
    }

    /// Whether there are keys to seal with.
    pub fn can_seal(&self) -> bool {
        self.seals.is_some()
    }

    /// Signs a message of ours.
    pub fn sign(&self, message: &mut [u8]) {
        self.signing.sign(message);
    }

    /// Whether the message carries the server's signature.
    pub fn verify(&self, message: &mut [u8]) -> bool {
        self.signing.verify(message)
    }

    /// Seals a frame that has room for the transform header in front.
    pub fn seal(&self, frame: &mut [u8]) -> Result<(), Failure> {
        const NONE: Failure = Failure::NoCommonGround("the share is to be sealed and there is no cipher in common");
        let seals = self.seals.as_ref().ok_or(NONE)?;
        seals.out.seal(frame, self.session_id, seals.nonce.fetch_add(1, Relaxed) + 1);
        Ok(())
    }

    /// Opens a frame in place that was sealed here.
    pub fn unseal(&self, frame: &mut [u8]) -> Result<(), Failure> {
        let seals = self.seals.as_ref().ok_or(Failure::Protocol("a sealed frame without keys"))?;
        seals.out.open(frame).map(drop).map_err(said)
    }

    /// Opens a sealed frame in place; the message begins behind the transform header then.
    pub fn open(&self, frame: &mut [u8]) -> Result<usize, Failure> {
        let seals = self.seals.as_ref().ok_or(Failure::Protocol("a sealed answer without keys"))?;
        let header = TransformHeader::parse(frame).map_err(said)?;
        if header.session_id != self.session_id {
            return Err(Failure::Protocol("an answer sealed for another session"));
        }
        seals.back.open(frame).map_err(said)?;
        Ok(TRANSFORM_HEADER_LEN)
    }
}

fn said(error: CryptoError) -> Failure {
    match error {
        CryptoError::TooShort => Failure::Protocol("a sealed frame shorter than its header"),
        CryptoError::SizeMismatch => Failure::Protocol("a sealed frame has another size than it says"),
        CryptoError::Tampered => Failure::NotGenuine("a sealed frame does not open"),
        CryptoError::NotTransform | CryptoError::BadFlags | CryptoError::KeyLength => {
            Failure::Protocol("a sealed frame is no sealed frame")
        }
    }
}
