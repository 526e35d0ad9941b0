//! Signatures of manifests: what is signed, and whose signature counts.
//! Reads no manifest.

use godwit_net::{Identity, IdentityId, verify_signature};
use godwit_store::manifest::Trailer;

use crate::Home;
use godwit_api::failure::{Failure, FailureCode};

/// Before the digest in what is signed, so that a signature of anything else never counts here.
const PURPOSE: &[u8] = b"godwit manifest 1\n";

/// Signs manifests with this user's identity.
pub struct Signer(Identity);

impl Signer {
    /// Loads the key, and tries it.
    pub fn load(home: &Home) -> Result<Self, Failure> {
        let identity = home.identity()?;
        identity
            .sign(PURPOSE)
            .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?;
        Ok(Self(identity))
    }

    /// The signature of a manifest with this digest.
    pub fn sign(&self, digest: &[u8; 32]) -> String {
        // It was tried before; an empty signature is refused by who checks it.
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
        .map_err(|error| format!("its signature does not count: {error}"))?;
    match (expected, signer) {
        (Some(expected), None) => Err(format!("it is not signed, and should be by {expected}")),
        (Some(expected), Some(signer)) if *expected != signer => {
            Err(format!("{signer} has signed it, not {expected}"))
        }
        _ => Ok(signer),
    }
}

fn message(digest: &[u8; 32]) -> Vec<u8> {
    [PURPOSE, digest].concat()
}
