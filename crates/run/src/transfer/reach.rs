//! Finds the other end of a transfer: the identity of a node, whether it is trusted, and the channels to it. Does not open transfers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use godwit_api::endpoint::Remote;
use godwit_api::event::Encryption;
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::settings::{Cipher as CipherSetting, CpSettings, Encryption as EncryptionSetting};
use godwit_engine::session::{Client, DaemonConnector, DaemonOptions};
use godwit_engine::tuner::Bounds;
use godwit_net::{
    ChannelWish, ChannelWishError, Cipher, ClientTls, DialOptions, Expect, Identity, IdentityId,
    KnownPeers, PeerAddress, aead, dial,
};

use super::report::refused;
use crate::Home;
use crate::env::{Connectors, Env};

/// The other end of a transfer.
pub(crate) struct OtherEnd {
    pub(crate) client: Client,
    /// The name of the other end, in the key of a journal here.
    pub(super) name: Vec<u8>,
    /// The prefix of the other end's paths in messages.
    pub(super) prefix: String,
    /// Our TLS configuration, which records the cipher.
    tls: ClientTls,
}

impl OtherEnd {
    pub(super) fn new(client: Client, name: Vec<u8>, prefix: String, tls: ClientTls) -> Self {
        Self {
            client,
            name,
            prefix,
            tls,
        }
    }

    /// The cipher of the connections; `None` before the first connection.
    pub(super) fn encryption(&self, settings: &CpSettings) -> Option<Encryption> {
        let (cipher, library) = self.tls.agreed()?;
        Some(Encryption {
            cipher: cipher.to_string(),
            library: library.to_string(),
            plain_contents: settings.encryption == EncryptionSetting::None,
        })
    }

    /// The name of the other end in messages.
    pub(super) fn shown(&self) -> String {
        self.prefix.trim_end_matches(['/', ':']).to_owned()
    }
}

/// Parameters for reaching a daemon.
pub(crate) struct Reach<'a> {
    pub(crate) env: &'a Env,
    /// The channels in the user's spelling.
    pub(crate) channels: &'a [String],
    pub(crate) cipher: CipherSetting,
    pub(crate) streams: Bounds,
    pub(crate) retry_for: Duration,
    pub(crate) handshake_deadline: Duration,
    pub(crate) stall_deadline: Duration,
}

/// Finds the identity of the daemon, and makes the connector to it.
pub(crate) fn reach(how: &Reach<'_>, remote: &Remote) -> Result<OtherEnd, Failure> {
    let wishes = wishes(how.channels)?;
    let identity = how.env.home.identity()?;
    let tls = client_tls(how.cipher, &identity)?;
    let address = PeerAddress::new(&remote.node.host, remote.node.port);
    let identity = trusted(how, &address, &tls)?;
    let connector = DaemonConnector::new(DaemonOptions {
        address,
        tls: tls.clone(),
        identity,
        handshake_deadline: how.handshake_deadline,
        stall_limit: how.stall_deadline,
        streams_max: how.streams.most,
        wishes,
    });
    let client = Client {
        connector: Arc::new(connector),
        streams: how.streams,
        retry_for: how.retry_for,
        once: None,
        retries_first: how.env.retries_first,
    };
    let name = identity.to_string().into_bytes();
    let prefix = format!("godwit://{}/", remote.node);
    Ok(OtherEnd::new(client, name, prefix, tls))
}

/// The channels that the user requests.
pub(crate) fn wishes(texts: &[String]) -> Result<Vec<ChannelWish>, Failure> {
    let mut seen = HashSet::new();
    if let Some(text) = texts.iter().find(|text| !seen.insert(*text)) {
        let message = format!("--channel {text}: this path is named twice; name each path once");
        return Err(Failure::usage(message));
    }
    texts
        .iter()
        .map(|text| {
            text.parse()
                .map_err(|error: ChannelWishError| Failure::usage(error.to_string()))
        })
        .collect()
}

/// The identity that the daemon must have. If it is unknown, the user is asked once whether to trust it.
fn trusted(how: &Reach<'_>, address: &PeerAddress, tls: &ClientTls) -> Result<IdentityId, Failure> {
    if let Some(identity) = how.env.connectors.pinned(address)? {
        // If the site of a job's node is unavailable, the job waits in the queue and reports that, instead of retrying as if it ran. The
        // transfers of a divided job have a controller that knows which nodes answer.
        if how.env.attempts.is_some() {
            let options = DialOptions::new(Expect::Identity(identity));
            let dialled = dial(address, tls, &options).map_err(|error| refused(&error.into()))?;
            drop(dialled);
        }
        return Ok(identity);
    }
    known_identity(&how.env.home, &*how.env.connectors, address, tls)
}

/// The identity of a node, from the known peers. If it is unknown, the user is asked once whether to trust it.
///
/// # Errors
/// The node cannot be reached, or the user does not trust it.
pub fn known_identity(
    home: &Home,
    connectors: &dyn Connectors,
    address: &PeerAddress,
    tls: &ClientTls,
) -> Result<IdentityId, Failure> {
    let peers = KnownPeers::new(home.path());
    if let Some(identity) = peers
        .find(address)
        .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?
    {
        return Ok(identity);
    }
    let (_, found) = dial(address, tls, &DialOptions::new(Expect::Anyone))
        .map_err(|error| refused(&error.into()))?;
    if !connectors.trusts(address, &found)? {
        return Err(Failure::new(FailureCode::UnknownPeer, format!(
            "{address} is not known here; the node there says that it is {found}. If its operator confirms this identity (with godwit id on that machine), run: godwit trust {address} {found}"
        )).about(address));
    }
    peers
        .trust(address, found)
        .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?;
    Ok(found)
}

/// A client's TLS configuration, with the requested cipher.
///
/// # Errors
/// The key cannot be used.
pub fn client_tls(cipher: CipherSetting, identity: &Identity) -> Result<ClientTls, Failure> {
    let ciphers = ciphers(cipher);
    ClientTls::new(identity, &ciphers).map_err(|error| Failure::new(FailureCode::TlsFailed, error))
}

/// The ciphers that a client offers for this setting, in order of preference.
#[must_use]
pub fn ciphers(setting: CipherSetting) -> Vec<Cipher> {
    match setting {
        CipherSetting::Auto => aead::ciphers().to_vec(),
        CipherSetting::Aes256Gcm => vec![Cipher::Aes256Gcm],
        CipherSetting::Aes128Gcm => vec![Cipher::Aes128Gcm],
        CipherSetting::Chacha20Poly1305 => vec![Cipher::ChaCha20Poly1305],
    }
}
