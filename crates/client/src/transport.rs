//! The client itself: the node, the credentials, and the thread that runs its requests. Does not know routes.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_api::host::HostPort;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};

use crate::address::NodeAddress;
use crate::error::ClientError;
use crate::pin::{Fingerprint, Verifier};
use crate::token::Token;

/// The way to verify the certificate of a node.
#[derive(Clone, Copy, Debug)]
pub enum Trust {
    /// The certificate with this fingerprint, or any certificate whose key has this fingerprint.
    Pin(Fingerprint),
    /// The authorities that this system trusts.
    Roots,
}

/// A client of one node. Its calls block the thread that makes them.
pub struct Client {
    /// `None` only while the client is dropped.
    runtime: Option<Runtime>,
    pub(crate) target: Target,
}

/// The node, and the credentials.
pub(crate) struct Target {
    pub(crate) address: NodeAddress,
    pub(crate) token: Option<Token>,
    pub(crate) tls: Option<Tls>,
}

/// The TLS configuration, and its certificate checks.
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) pin: Option<Fingerprint>,
}

impl Client {
    /// A client of the node of this machine with this home directory; the node gets the caller's identity from the
    /// kernel.
    ///
    /// # Errors
    /// The system has no resources for the connection.
    pub fn local(home: PathBuf) -> Result<Self, ClientError> {
        Self::new(Target {
            address: NodeAddress::Home(home),
            token: None,
            tls: None,
        })
    }

    /// A client of the node of this machine that listens at this Unix socket.
    ///
    /// # Errors
    /// As [`Client::local`].
    pub fn at_socket(socket: PathBuf) -> Result<Self, ClientError> {
        Self::new(Target {
            address: NodeAddress::Socket(socket),
            token: None,
            tls: None,
        })
    }

    /// A client of a remote node.
    ///
    /// # Errors
    /// The system has no resources for it, or has no certificate authorities although `trust` needs them.
    pub fn remote(node: HostPort, token: Token, trust: Trust) -> Result<Self, ClientError> {
        Self::new(Target {
            address: NodeAddress::Https(node),
            token: Some(token),
            tls: Some(Tls::new(trust)?),
        })
    }

    fn new(target: Target) -> Result<Self, ClientError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| ClientError::Setup(format!("cannot wait for a node: {error}")))?;
        Ok(Self {
            runtime: Some(runtime),
            target,
        })
    }

    /// The name of the node, for users.
    #[must_use]
    pub fn node_name(&self) -> String {
        self.target.address.to_string()
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime
            .as_ref()
            .expect("only dropping takes it")
            .block_on(future)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A name lookup may still run, but no caller waits for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Tls {
    fn new(trust: Trust) -> Result<Self, ClientError> {
        let setup = |error: rustls::Error| ClientError::Setup(format!("TLS: {error}"));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let (verifier, pin) = match trust {
            Trust::Pin(pin) => (Verifier::pinned(pin, Arc::clone(&provider)), Some(pin)),
            Trust::Roots => {
                let roots = system_roots(&provider)?;
                (Verifier::by_roots(roots, Arc::clone(&provider)), None)
            }
        };
        let verifier = Arc::new(verifier);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(setup)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::<Verifier>::clone(&verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            verifier,
            pin,
        })
    }
}

/// A verifier with the certificate authorities of this system.
fn system_roots(provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, ClientError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Some systems have certificates that cannot be used; the other certificates are enough.
    roots.add_parsable_certificates(found.certs);
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|_error| {
            ClientError::Setup(
                "this system has no certificates of authorities (the package ca-certificates has them); name the certificate of the node instead: --fingerprint"
                    .to_owned(),
            )
        })
}
