//! Message signatures under extended session security (MS-NLMP 3.4.4.2, 3.4.5.2, 3.4.5.3); SMB needs them for SPNEGO's
//! mechListMIC alone. The older CRC-32 signature is left out: no client that knows SPNEGO's MIC uses it.

use rc4::{KeyInit, Rc4, StreamCipher};
use smb_wire::crypto::equal_in_constant_time;
use smb_wire::ntlmssp::Flags;
use zeroize::Zeroizing;

use super::keys::Key;
use crate::hash::{hmac_md5, md5};

const CLIENT_SIGNING: &[u8] = b"session key to client-to-server signing key magic constant\0";
const SERVER_SIGNING: &[u8] = b"session key to server-to-client signing key magic constant\0";
const CLIENT_SEALING: &[u8] = b"session key to client-to-server sealing key magic constant\0";
const SERVER_SEALING: &[u8] = b"session key to server-to-client sealing key magic constant\0";

/// The signing state of both directions.
pub(crate) struct Signers {
    /// What the client signs with.
    pub client: Signer,
    /// What the server signs with.
    pub server: Signer,
}

impl Signers {
    /// `None` where no extended session security was agreed on. Boxed: the two RC4 states are large.
    pub(crate) fn new(exported: &Key, flags: Flags) -> Option<Box<Self>> {
        flags.contains(Flags::EXTENDED_SESSION_SECURITY).then(|| {
            Box::new(Self {
                client: Signer::new(exported, flags, CLIENT_SIGNING, CLIENT_SEALING),
                server: Signer::new(exported, flags, SERVER_SIGNING, SERVER_SEALING),
            })
        })
    }
}

/// The signing state of one direction.
pub(crate) struct Signer {
    key: Key,
    seal: Option<Rc4>,
    sequence: u32,
}

impl Signer {
    fn new(exported: &Key, flags: Flags, signing: &[u8], sealing: &[u8]) -> Self {
        let seal = flags.contains(Flags::KEY_EXCHANGE).then(|| {
            let key = Zeroizing::new(md5(&[sealing_base(exported, flags), sealing]));
            Rc4::new_from_slice(&*key).expect("RC4 takes 16 bytes")
        });
        Self { key: md5(&[&**exported, signing]).into(), seal, sequence: 0 }
    }

    /// The NTLMSSP_MESSAGE_SIGNATURE of the next message.
    pub(crate) fn sign(&mut self, data: &[u8]) -> [u8; 16] {
        let sequence = self.sequence.to_le_bytes();
        self.sequence = self.sequence.wrapping_add(1);
        let [mut checksum @ .., _, _, _, _, _, _, _, _] = hmac_md5(&*self.key, &[&sequence, data]);
        if let Some(seal) = &mut self.seal {
            seal.apply_keystream(&mut checksum);
        }
        let mut signature = [0; 16];
        signature[..4].copy_from_slice(&1u32.to_le_bytes());
        signature[4..12].copy_from_slice(&checksum);
        signature[12..].copy_from_slice(&sequence);
        signature
    }

    /// Whether `signature` is that of the next message.
    pub(crate) fn verify(&mut self, data: &[u8], signature: &[u8]) -> bool {
        equal_in_constant_time(&self.sign(data), signature)
    }
}

/// How much of the key enters the sealing key.
fn sealing_base(exported: &Key, flags: Flags) -> &[u8] {
    let len = if flags.contains(Flags::KEY_128) {
        16
    } else if flags.contains(Flags::KEY_56) {
        7
    } else {
        5
    };
    &exported[..len]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hex;

    fn key(text: &str) -> Key {
        Zeroizing::new(hex(text).try_into().unwrap())
    }

    /// The mechListMICs of Microsoft's published SMB 3.1.1 walk-through, made by Windows on both sides.
    #[test]
    fn windows_signatures_of_a_mech_list() {
        let flags = Flags::from_bits_retain(0xe288_8215);
        let mut signers = Signers::new(&key("270E1BA896585EEB7AF3472D3B4C75A7"), flags).unwrap();
        let list = hex("300C060A2B06010401823702020A");
        assert_eq!(signers.client.sign(&list).to_vec(), hex("0100000063775A9A5FD97F0600000000"));
        assert_eq!(signers.server.sign(&list).to_vec(), hex("010000003B453CDC3524164200000000"));
    }

    /// MS-NLMP 4.2.4.4: the keystream goes over the message first, so encrypt it as the example does.
    #[test]
    fn ms_nlmp_4_2_4_4_gss_wrap() {
        let mut signer = Signers::new(&key("55555555555555555555555555555555"), Flags::from_bits_retain(0xe28a_8233))
            .unwrap()
            .client;
        assert_eq!(signer.key.to_vec(), hex("4788DC861B4782F35D43FD98FE1A2D39"));
        let text = smb_wire::ntlmssp::utf16le_encode("Plaintext");
        let mut sealed = text.clone();
        signer.seal.as_mut().unwrap().apply_keystream(&mut sealed);
        assert_eq!(sealed, hex("54E50165BF1936DC996020C1811B0F06FB5F"));
        assert_eq!(signer.sign(&text).to_vec(), hex("010000007FB38EC5C55D497600000000"));
    }

    /// MS-NLMP 4.2.3.4: without key exchange, and with 56-bit keys.
    #[test]
    fn ms_nlmp_4_2_3_4_signature() {
        let flags = Flags::from_bits_retain(0x820a_8233);
        let exported = key("EB93429A8BD952F8B89C55B87F475EDC");
        assert_eq!(
            md5(&[sealing_base(&exported, flags), CLIENT_SEALING]).to_vec(),
            hex("04DD7F014D8504D265A25CC86A3A7C06")
        );
        let mut signers = Signers::new(&exported, flags).unwrap();
        let text = smb_wire::ntlmssp::utf16le_encode("Plaintext");
        assert_eq!(signers.client.sign(&text).to_vec(), hex("01000000FF2AEB52F681793A00000000"));
    }

    #[test]
    fn a_repeated_or_foreign_signature_does_not_verify() {
        let exported = key("270E1BA896585EEB7AF3472D3B4C75A7");
        let flags = Flags::EXTENDED_SESSION_SECURITY | Flags::KEY_128 | Flags::KEY_EXCHANGE;
        let (mut here, mut there) = (Signers::new(&exported, flags).unwrap(), Signers::new(&exported, flags).unwrap());
        let first = here.client.sign(b"one");
        assert!(there.client.verify(b"one", &first));
        assert!(!there.client.verify(b"one", &first), "replayed");
        assert!(!there.server.verify(b"one", &first), "reflected");
        assert!(Signers::new(&exported, Flags::KEY_128).is_none());
    }
}
