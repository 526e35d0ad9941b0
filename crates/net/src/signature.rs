//! Owns signatures by an identity's key, as self-contained text: identity, public key, signature.
//! Does not decide what is signed or whose signature is accepted.

use data_encoding::BASE64;
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use thiserror::Error;

use crate::identity::{Identity, IdentityId};

/// The bytes before the 32 bytes of an Ed25519 key in its `SubjectPublicKeyInfo` (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Reason why a signature is invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SignatureError {
    /// The key cannot sign.
    #[error("this identity's key cannot sign: {0}")]
    Key(String),
    /// The text does not have the form of a signature.
    #[error("it is not a signature by an identity")]
    Form,
    /// The key does not match the identity.
    #[error("its key does not belong to {0}")]
    Stranger(IdentityId),
    /// The signature belongs to another message or key.
    #[error("it was not made by {0} for this content")]
    Invalid(IdentityId),
}

impl Identity {
    /// Signs `message`, which must begin with its purpose. The text is `gw1-…`, a tab, the public key, a tab, the
    /// signature, both in base64.
    ///
    /// # Errors
    /// The key's kind cannot sign.
    pub fn sign(&self, message: &[u8]) -> Result<String, SignatureError> {
        let failed = |what: String| SignatureError::Key(what);
        let key = any_supported_type(&self.key()).map_err(|error| failed(error.to_string()))?;
        let public = key
            .public_key()
            .ok_or_else(|| failed("it has no public key".to_owned()))?;
        let signer = key
            .choose_scheme(&[SignatureScheme::ED25519])
            .ok_or_else(|| failed("it is not an Ed25519 key".to_owned()))?;
        let signature = signer
            .sign(message)
            .map_err(|error| failed(error.to_string()))?;
        Ok(format!(
            "{}\t{}\t{}",
            self.id(),
            BASE64.encode(&public),
            BASE64.encode(&signature)
        ))
    }
}

/// Checks the text that [`Identity::sign`] returned for `message`, and returns the signer.
///
/// # Errors
/// Why the signature is invalid.
pub fn verify_signature(text: &str, message: &[u8]) -> Result<IdentityId, SignatureError> {
    let mut fields = text.split('\t');
    let mut next = || fields.next().ok_or(SignatureError::Form);
    let id: IdentityId = next()?.parse().or(Err(SignatureError::Form))?;
    let mut bytes = || {
        BASE64
            .decode(next()?.as_bytes())
            .or(Err(SignatureError::Form))
    };
    let (public, signature) = (bytes()?, bytes()?);
    if fields.next().is_some() {
        return Err(SignatureError::Form);
    }
    let key = public
        .strip_prefix(&SPKI_PREFIX)
        .filter(|key| key.len() == 32)
        .ok_or(SignatureError::Form)?;
    if IdentityId::of_public_key(&public) != id {
        return Err(SignatureError::Stranger(id));
    }
    let provider = default_provider();
    let algorithms = provider
        .signature_verification_algorithms
        .mapping
        .iter()
        .find(|(scheme, _)| *scheme == SignatureScheme::ED25519)
        .map_or(&[][..], |(_, algorithms)| algorithms);
    if algorithms
        .iter()
        .any(|algorithm| algorithm.verify_signature(key, message, &signature).is_ok())
    {
        Ok(id)
    } else {
        Err(SignatureError::Invalid(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_counts_for_its_message_and_signer_only() {
        let home = tempfile::tempdir().unwrap();
        let identity = Identity::load_or_create(home.path()).unwrap();
        let text = identity.sign(b"for: this").unwrap();
        assert_eq!(verify_signature(&text, b"for: this"), Ok(*identity.id()));
        assert_eq!(
            verify_signature(&text, b"for: that"),
            Err(SignatureError::Invalid(*identity.id()))
        );
        let other_home = tempfile::tempdir().unwrap();
        let other = Identity::load_or_create(other_home.path()).unwrap();
        let (_, rest) = text.split_once('\t').unwrap();
        assert_eq!(
            verify_signature(&format!("{}\t{rest}", other.id()), b"for: this"),
            Err(SignatureError::Stranger(*other.id()))
        );
    }

    #[test]
    fn other_texts_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let identity = Identity::load_or_create(home.path()).unwrap();
        let text = identity.sign(b"m").unwrap();
        for (place, _) in text.char_indices() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            // A name with an upper-case letter is equal to the lower-case one.
            if let Ok(id) = verify_signature(&changed, b"m") {
                assert_eq!(id, *identity.id());
                assert!(place < identity.id().to_string().len(), "{changed}");
            }
        }
        for text in ["", "x", &format!("{text}\tmore"), "gw1-a\tb\tc"] {
            assert_eq!(verify_signature(text, b"m"), Err(SignatureError::Form));
        }
    }
}
