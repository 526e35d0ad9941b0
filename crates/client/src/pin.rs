//! Owns the pinned certificate of a node: its fingerprints, and the check during the TLS handshake. Opens no connections.
//!
//! A certificate has two fingerprints: that of the certificate, which browsers show, and that of its key, which is the same
//! after a renewal. Either may be pinned.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use thiserror::Error as ThisError;

/// SHA-256 of a certificate in DER, or of its public key.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Fingerprint([u8; 32]);

/// The text is not a fingerprint.
#[derive(Clone, Debug, Eq, PartialEq, ThisError)]
#[error(
    "{0:?} is no fingerprint: write 64 hexadecimal digits, as the node prints them at its start"
)]
pub struct FingerprintError(String);

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self::of_bytes(certificate)
    }

    /// The fingerprint of the key of a certificate.
    pub(crate) fn of_key(certificate: &CertificateDer<'_>) -> Result<Self, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        Ok(Self::of_bytes(&parsed.subject_public_key_info()))
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let mut digest = [0; 32];
        // The suite is one of TLS 1.3, and its hash is SHA-256.
        if let Some(suite) = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13() {
            let output = suite.common.hash_provider.hash(bytes);
            digest.copy_from_slice(output.as_ref());
        }
        Self(digest)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Parses hexadecimal digits in either case, with or without colons, and with or without the prefix `sha256:`.
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let error = || FingerprintError(text.to_owned());
        let bare = match text.get(..7) {
            Some(prefix) if prefix.eq_ignore_ascii_case("sha256:") => &text[7..],
            _ => text,
        };
        let digits: String = bare.chars().filter(|sign| *sign != ':').collect();
        let bytes = data_encoding::HEXLOWER_PERMISSIVE
            .decode(digits.as_bytes())
            .map_err(|_error| error())?;
        bytes.try_into().map(Self).map_err(|_bytes| error())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The authority that confirms a certificate.
#[derive(Debug)]
enum Voucher {
    Pin(Fingerprint),
    Roots(Arc<WebPkiServerVerifier>),
}

/// Checks the certificate of a node, and stores its fingerprint.
#[derive(Debug)]
pub(crate) struct Verifier {
    voucher: Voucher,
    provider: Arc<CryptoProvider>,
    shown: Mutex<Option<Fingerprint>>,
}

impl Verifier {
    /// Accepts the certificate, or the certificates of the key, with this fingerprint.
    pub(crate) fn pinned(pin: Fingerprint, provider: Arc<CryptoProvider>) -> Self {
        Self::new(Voucher::Pin(pin), provider)
    }

    /// Accepts certificates that the system's authorities confirm.
    pub(crate) fn by_roots(
        roots: Arc<WebPkiServerVerifier>,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self::new(Voucher::Roots(roots), provider)
    }

    fn new(voucher: Voucher, provider: Arc<CryptoProvider>) -> Self {
        Self {
            voucher,
            provider,
            shown: Mutex::new(None),
        }
    }

    /// The fingerprint of the key in the last certificate that the node presented.
    pub(crate) fn shown(&self) -> Option<Fingerprint> {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = Fingerprint::of_key(end_entity)?;
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        match &self.voucher {
            Voucher::Pin(pin) if *pin == shown || *pin == Fingerprint::of(end_entity) => {
                Ok(ServerCertVerified::assertion())
            }
            Voucher::Pin(_) => Err(Error::InvalidCertificate(
                rustls::CertificateError::ApplicationVerificationFailure,
            )),
            Voucher::Roots(roots) => {
                roots.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_in_each_usual_form() {
        let digest = Fingerprint::of(&CertificateDer::from(b"abc".to_vec()));
        let lower = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), format!("sha256:{lower}"));
        let upper = lower.to_uppercase();
        let pairs: Vec<&str> = (0..32).map(|at| &upper[at * 2..at * 2 + 2]).collect();
        for text in [
            lower.to_owned(),
            upper.clone(),
            format!("SHA256:{}", pairs.join(":")),
            digest.to_string(),
        ] {
            assert_eq!(text.parse(), Ok(digest), "{text}");
        }
        for text in ["", "sha256:", &lower[1..], "gw1-abc", "ä7816bf"] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
