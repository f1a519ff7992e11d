//! SHA-256 of what was copied, for `--checksum`.

use std::fmt::Write;

use aws_lc_rs::digest::{Context, SHA256};

/// A hash being made.
pub struct Sha256(Context);

impl Sha256 {
    /// Of nothing so far.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Takes more in.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The hash in hexadecimal digits, as `sha256sum` writes it.
    pub fn finish(self) -> String {
        self.0.finish().as_ref().iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_hash_comes_out() {
        let mut sha = Sha256::new();
        sha.update(b"a");
        sha.update(b"bc");
        // FIPS 180-2 B.1.
        assert_eq!(sha.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
