//! Owns the configuration of TLS: version 1.3 only, ciphers, mutual authentication by pinned keys. Does no IO.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerIncompatible, ServerConfig, SignatureScheme,
};
use thiserror::Error as ThisError;

use crate::aead::{self, Library, library};
use crate::identity::{Identity, IdentityId};

/// ALPN name of the protocol of data connections.
pub const ALPN_DATA: &[u8] = b"godwit-data/1";

/// A cipher for the records of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES with 256 bits in Galois/counter mode.
    Aes256Gcm,
    /// AES with 128 bits in Galois/counter mode.
    Aes128Gcm,
    /// For processors without AES instructions.
    ChaCha20Poly1305,
}

impl Cipher {
    /// All ciphers. `aead` defines the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::Aes256Gcm, Self::Aes128Gcm, Self::ChaCha20Poly1305];

    /// The name in flags and settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "aes-256-gcm",
            Self::Aes128Gcm => "aes-128-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    pub(crate) fn suite(self) -> rustls::SupportedCipherSuite {
        library().suite(self)
    }

    pub(crate) fn of_suite(suite: rustls::SupportedCipherSuite) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.suite() == suite)
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is no cipher's name.
#[derive(Clone, Debug, ThisError, PartialEq, Eq)]
#[error("{0:?} is not a cipher: write aes-256-gcm, aes-128-gcm or chacha20-poly1305")]
pub struct CipherError(String);

impl FromStr for Cipher {
    type Err = CipherError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|cipher| cipher.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| CipherError(text.to_owned()))
    }
}

/// A configuration that TLS refused.
#[derive(Debug, ThisError)]
#[error("cannot set up TLS: {0}")]
pub struct TlsSetupError(#[from] Error);

/// A client's TLS configuration. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    library: Library,
    agreed: Arc<OnceLock<Cipher>>,
}

impl ClientTls {
    /// Offers only `ciphers` (if empty: all, the fastest on this processor first), and shows `identity` to the server.
    ///
    /// # Errors
    /// The identity's key cannot be used.
    pub fn new(identity: &Identity, ciphers: &[Cipher]) -> Result<Self, TlsSetupError> {
        Self::by(library(), identity, ciphers)
    }

    /// Like `new`, with the ciphers of a given library.
    pub(crate) fn by(
        library: Library,
        identity: &Identity,
        ciphers: &[Cipher],
    ) -> Result<Self, TlsSetupError> {
        let provider = provider(library, ciphers);
        let verifier = ServerPin::new(&provider, Expect::Anyone);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(vec![identity.certificate()], identity.key())?;
        config.alpn_protocols = vec![ALPN_DATA.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Self {
            config: Arc::new(config),
            library,
            agreed: Arc::default(),
        })
    }

    /// The cipher that the first peer agreed on, and the library here that implements it; `None` before that. Clones share
    /// it.
    #[must_use]
    pub fn agreed(&self) -> Option<(Cipher, Library)> {
        self.agreed.get().map(|cipher| (*cipher, self.library))
    }

    /// Records the cipher of a connection whose handshake has ended.
    pub(crate) fn note_cipher(&self, suite: Option<rustls::SupportedCipherSuite>) {
        if let Some(cipher) = suite.and_then(Cipher::of_suite) {
            self.agreed.get_or_init(|| cipher);
        }
    }

    /// A connection to the peer that `expect` names, and the object that receives the server's identity.
    pub(crate) fn connect(
        &self,
        expect: Expect,
    ) -> Result<(UnbufferedClientConnection, Arc<ServerPin>), Error> {
        let verifier = Arc::new(ServerPin::new(self.config.crypto_provider(), expect));
        let mut config = ClientConfig::clone(&self.config);
        config
            .dangerous()
            .set_certificate_verifier(Arc::<ServerPin>::clone(&verifier));
        // The name has no meaning: the key is pinned, and no name is sent.
        let name =
            ServerName::try_from("godwit").map_err(|error| Error::General(error.to_string()))?;
        let connection = UnbufferedClientConnection::new(Arc::new(config), name)?;
        Ok((connection, verifier))
    }
}

/// A server's TLS configuration. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Accepts only `ciphers` (if empty: all; the client's preference decides), and shows `identity` to clients.
    ///
    /// # Errors
    /// The identity's key cannot be used.
    pub fn new(identity: &Identity, ciphers: &[Cipher]) -> Result<Self, TlsSetupError> {
        Self::by(library(), identity, ciphers)
    }

    /// Like `new`, with the ciphers of a given library.
    pub(crate) fn by(
        library: Library,
        identity: &Identity,
        ciphers: &[Cipher],
    ) -> Result<Self, TlsSetupError> {
        let provider = provider(library, ciphers);
        let verifier = AnyClient {
            algorithms: provider.signature_verification_algorithms,
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(vec![identity.certificate()], identity.key())?;
        config.alpn_protocols = vec![ALPN_DATA.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    pub(crate) fn connection(&self) -> Result<UnbufferedServerConnection, Error> {
        UnbufferedServerConnection::new(Arc::clone(&self.config))
    }
}

/// The peer that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Only the holder of this key.
    Identity(IdentityId),
    /// Any peer: the caller checks the peer's identity before it sends confidential data.
    Anyone,
}

fn provider(library: Library, ciphers: &[Cipher]) -> Arc<CryptoProvider> {
    let ciphers = if ciphers.is_empty() {
        aead::ciphers()
    } else {
        ciphers
    };
    Arc::new(CryptoProvider {
        cipher_suites: ciphers
            .iter()
            .map(|cipher| library.suite(*cipher))
            .collect(),
        ..aws_lc_rs::default_provider()
    })
}

/// Checks that the server holds the key of its certificate, and that the server is the expected one.
#[derive(Debug)]
pub(crate) struct ServerPin {
    algorithms: WebPkiSupportedAlgorithms,
    expect: Expect,
    found: Mutex<Option<IdentityId>>,
}

impl ServerPin {
    fn new(provider: &CryptoProvider, expect: Expect) -> Self {
        Self {
            algorithms: provider.signature_verification_algorithms,
            expect,
            found: Mutex::new(None),
        }
    }

    /// The identity that the server presented; proven only once the handshake is complete.
    pub(crate) fn found(&self) -> Option<IdentityId> {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerCertVerifier for ServerPin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let id = IdentityId::of_certificate(end_entity)?;
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
        match self.expect {
            Expect::Identity(expected) if expected != id => Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            )),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(
            PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// Checks that a client holds the key of its certificate; the caller decides by the identity whether to admit the
/// client.
#[derive(Debug)]
struct AnyClient {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        IdentityId::of_certificate(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
