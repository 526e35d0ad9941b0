//! Owns the secrets of tokens: how they are made, and the digest that is stored of them.
//! Stores nothing.

use aws_lc_rs::digest::SHA256;
use data_encoding::{BASE32_NOPAD, HEXLOWER};

/// Prefix of each secret, by which scanners of published files find it.
const PREFIX: &str = "gwt_";

/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// Last characters of a secret that lists show.
const SHOWN: usize = 4;

/// A new secret.
///
/// # Errors
/// The system gives no random numbers.
pub(crate) fn make() -> Result<String, getrandom::Error> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!(
        "{PREFIX}{}",
        BASE32_NOPAD.encode(&bytes).to_lowercase()
    ))
}

/// SHA-256 of the secret in hexadecimal digits. A secret has 256 random bits, so it cannot be found from its digest.
pub(crate) fn digest(secret: &str) -> String {
    HEXLOWER.encode(&sha256(secret.as_bytes()))
}

/// The last characters, by which a list identifies the secret.
pub(crate) fn last_signs(secret: &str) -> String {
    let at = secret.floor_char_boundary(secret.len().saturating_sub(SHOWN));
    secret[at..].to_owned()
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(aws_lc_rs::digest::digest(&SHA256, bytes).as_ref());
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_their_digest_is_sha_256() {
        let (one, other) = (make().expect("random"), make().expect("random"));
        assert_ne!(one, other);
        assert_eq!(one.len(), 56);
        assert_eq!(
            digest("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(last_signs("gwt_abcdef"), "cdef");
    }
}
