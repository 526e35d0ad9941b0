//! Signatures of manifests: the signed bytes, and the accepted signers. Does not read manifests.

use godwit_net::{Identity, IdentityId, verify_signature};
use godwit_store::manifest::Trailer;

use crate::Home;
use godwit_api::failure::{Failure, FailureCode};

/// Prefix of the digest in the signed bytes, so that a signature for another purpose is never valid here.
const PURPOSE: &[u8] = b"godwit manifest 1\n";

/// Signs manifests with this user's identity.
pub struct Signer(Identity);

impl Signer {
    /// Loads the key, and signs once as a test.
    pub fn load(home: &Home) -> Result<Self, Failure> {
        let identity = home.identity()?;
        identity
            .sign(PURPOSE)
            .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?;
        Ok(Self(identity))
    }

    /// The signature of a manifest with this digest.
    pub fn sign(&self, digest: &[u8; 32]) -> String {
        // The key was tested before. A verifier refuses an empty signature.
        self.0.sign(&message(digest)).unwrap_or_default()
    }
}

/// Returns the signer of the manifest with this trailer. A bad signature is an error, and so is a signer other than `expected`.
pub(crate) fn check_signature(
    trailer: &Trailer,
    expected: Option<&IdentityId>,
) -> Result<Option<IdentityId>, String> {
    let signer = trailer
        .signature
        .as_deref()
        .map(|text| verify_signature(text, &message(&trailer.digest)))
        .transpose()
        .map_err(|error| format!("the signature is not valid: {error}"))?;
    match (expected, signer) {
        (Some(expected), None) => Err(format!(
            "the manifest is not signed, but a signature by {expected} is required"
        )),
        (Some(expected), Some(signer)) if *expected != signer => Err(format!(
            "the manifest is signed by {signer}, not by {expected}"
        )),
        _ => Ok(signer),
    }
}

fn message(digest: &[u8; 32]) -> Vec<u8> {
    [PURPOSE, digest].concat()
}
