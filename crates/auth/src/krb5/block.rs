//! AES in CBC mode with ciphertext stealing, the variant of RFC 3962 5 (CBC-CS3), with an initial vector of zeros, in
//! place. `seal` calls it with keys of its own for each use; nothing here knows what is encrypted.

use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes256};

/// The block.
pub(super) const BLOCK: usize = 16;

type Block = [u8; BLOCK];

/// Blocks that are decrypted side by side.
const ABREAST: usize = 32;

/// A key, expanded. Boxed: it is large.
pub(super) enum Aes {
    Short(Box<Aes128>),
    Long(Box<Aes256>),
}

impl Aes {
    /// `None` for a key that has neither 16 nor 32 bytes.
    pub fn new(key: &[u8]) -> Option<Self> {
        match key.len() {
            16 => Aes128::new_from_slice(key).ok().map(|aes| Self::Short(Box::new(aes))),
            32 => Aes256::new_from_slice(key).ok().map(|aes| Self::Long(Box::new(aes))),
            _ => None,
        }
    }

    /// One block.
    pub fn encrypt_block(&self, block: &mut Block) {
        let block: &mut Array<u8, _> = block.into();
        match self {
            Self::Short(aes) => aes.encrypt_block(block),
            Self::Long(aes) => aes.encrypt_block(block),
        }
    }

    fn decrypt_blocks(&self, blocks: &mut [Block]) {
        let blocks = Array::cast_slice_from_core_mut(blocks);
        match self {
            Self::Short(aes) => aes.decrypt_blocks(blocks),
            Self::Long(aes) => aes.decrypt_blocks(blocks),
        }
    }

    /// Encrypts whole blocks; the last one.
    fn chain(&self, blocks: &mut [Block]) -> Block {
        let mut before = [0; BLOCK];
        for block in blocks {
            xor(block, &before);
            self.encrypt_block(block);
            before = *block;
        }
        before
    }

    /// Decrypts whole blocks.
    fn unchain(&self, blocks: &mut [Block]) {
        let mut before = [0; BLOCK];
        for some in blocks.chunks_mut(ABREAST) {
            let mut kept = [[0; BLOCK]; ABREAST];
            kept.iter_mut().zip(&*some).for_each(|(to, from)| *to = *from);
            self.decrypt_blocks(some);
            for (block, encrypted) in some.iter_mut().zip(&kept) {
                xor(block, &before);
                before = *encrypted;
            }
        }
    }

    /// Encrypts at least one block; false, with nothing done, for less.
    pub fn encrypt(&self, data: &mut [u8]) -> bool {
        let Some((head, tail)) = parts(data) else { return false };
        let stolen = self.chain(head);
        let Some(last) = head.last_mut() else { return false };
        if tail.is_empty() {
            return true;
        }
        let mut block = stolen;
        xor(&mut block, tail);
        self.encrypt_block(&mut block);
        *last = block;
        tail.iter_mut().zip(&stolen).for_each(|(to, from)| *to = *from);
        true
    }

    /// Decrypts at least one block; false, with nothing done, for less.
    pub fn decrypt(&self, data: &mut [u8]) -> bool {
        let Some((head, tail)) = parts(data) else { return false };
        let Some((last, head)) = head.split_last_mut() else { return false };
        if !tail.is_empty() {
            // The block of the end stands before it; what it was mixed with is half behind it and half within.
            let mut mixed = [*last];
            self.decrypt_blocks(&mut mixed);
            let [mut mixed] = mixed;
            for (end, mixed) in tail.iter_mut().zip(&mut mixed) {
                let stolen = *end;
                *end ^= *mixed;
                *mixed = stolen;
            }
            *last = mixed;
        }
        let before = head.last().copied().unwrap_or_default();
        self.unchain(head);
        self.decrypt_blocks(std::slice::from_mut(last));
        xor(last, &before);
        true
    }
}

/// Whole blocks but for the last one, unless that is the only one; and the last one, whole or not.
fn parts(data: &mut [u8]) -> Option<(&mut [Block], &mut [u8])> {
    let tail = match data.len() {
        0..BLOCK => return None,
        BLOCK => 0,
        len if len % BLOCK == 0 => BLOCK,
        len => len % BLOCK,
    };
    let (head, tail) = data.split_at_mut_checked(data.len() - tail)?;
    Some((head.as_chunks_mut().0, tail))
}

fn xor(block: &mut Block, other: &[u8]) {
    block.iter_mut().zip(other).for_each(|(to, from)| *to ^= from);
}
