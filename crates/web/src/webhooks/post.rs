//! Owns one request to a receiver of webhooks: name, connection, TLS, answer.
//! Decides nothing about attempts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::uri::Scheme;
use axum::http::{Request, Uri};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Network, may_reach};

/// Limit for the whole request: the specification asks for 15 to 30 seconds.
const WITHIN: Duration = Duration::from_secs(20);

/// Addresses of one name to try.
const ADDRESSES_MAX: usize = 4;

/// The request to send.
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) seconds: i64,
    pub(crate) signature: String,
    pub(crate) body: String,
}

/// Answer of a receiver.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// How long the receiver asks the sender to wait.
    pub(crate) wish: Option<Duration>,
}

/// Checks that a text can be the address of a webhook. The error says why not.
pub(crate) fn check(url: &str) -> Result<(), String> {
    parse(url).map(|_| ())
}

struct Target {
    tls: bool,
    host: String,
    port: u16,
    authority: String,
    path: String,
}

fn parse(url: &str) -> Result<Target, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
    let tls = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => true,
        Some(scheme) if *scheme == Scheme::HTTP => false,
        _ => return Err("the URL must begin with https:// or http://".to_owned()),
    };
    let authority = uri
        .authority()
        .ok_or_else(|| "the URL names no host".to_owned())?;
    if authority.as_str().contains('@') {
        return Err(
            "the URL must not contain a user name or password; receivers check the signature"
                .to_owned(),
        );
    }
    let host = authority.host();
    if authority.as_str() != host && authority.port_u16().is_none() {
        return Err(format!("{authority}: the port is invalid"));
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Ok(Target {
        tls,
        host: host.trim_matches(['[', ']']).to_owned(),
        port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        authority: authority.as_str().to_owned(),
        path: path.to_owned(),
    })
}

/// TLS configuration that trusts the roots of the system.
pub(crate) fn tls() -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    // Unreadable certificates are not trusted.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Sends a message. Redirects are not followed.
pub(crate) async fn post(
    url: &str,
    message: Message,
    allowed: &[Network],
    tls: &Arc<ClientConfig>,
) -> Result<Answer, String> {
    let sent = async {
        let target = parse(url)?;
        let stream = connect(&target, allowed).await?;
        if !target.tls {
            return exchange(stream, &target, message).await;
        }
        let name = ServerName::try_from(target.host.clone()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(Arc::clone(tls))
            .connect(name, stream)
            .await
            .map_err(|error| format!("TLS: {error}"))?;
        exchange(stream, &target, message).await
    };
    timeout(WITHIN, sent)
        .await
        .unwrap_or_else(|_late| Err(format!("no answer within {} s", WITHIN.as_secs())))
}

async fn connect(target: &Target, allowed: &[Network]) -> Result<TcpStream, String> {
    let host = &target.host;
    let found: Vec<SocketAddr> = lookup_host((host.as_str(), target.port))
        .await
        .map_err(|error| format!("the name {host}: {error}"))?
        .take(ADDRESSES_MAX)
        .collect();
    let mut fault = format!("the name {host} has no address");
    for address in found {
        if !may_reach(address.ip(), allowed) {
            fault = format!(
                "{} is no address of the Internet; the operator of the node can allow it with --webhook-network {}",
                address.ip(),
                address.ip()
            );
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => fault = format!("{address}: {error}"),
        }
    }
    Err(fault)
}

async fn exchange<S>(stream: S, target: &Target, message: Message) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // The task ends when the sender and the answer are dropped; its error shows there.
    let connection = tokio::spawn(async move {
        let _ = connection.await;
    });
    let request = Request::post(&target.path)
        .header(HOST, &target.authority)
        .header(USER_AGENT, concat!("godwit/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", message.id)
        .header("webhook-timestamp", message.seconds)
        .header("webhook-signature", message.signature)
        .body(Full::new(Bytes::from(message.body)))
        .map_err(|error| error.to_string())?;
    let answered = sender.send_request(request).await;
    // The head says all; no body is read.
    connection.abort();
    let answer = answered.map_err(|error| format!("no answer: {error}"))?;
    let wish = answer
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    Ok(Answer {
        status: answer.status().as_u16(),
        wish,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_webhooks_are_urls_of_http() {
        for right in [
            "https://chat.example/x?y=z",
            "http://192.0.2.1:8080",
            "https://[2001:db8::1]:8443/hook",
        ] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
        for wrong in [
            "",
            "chat.example/x",
            "file:///etc/passwd",
            "https://",
            "https://user:password@chat.example/x",
            "https://chat.example:99999/",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        let target = parse("https://[2001:db8::1]:8443/hook").expect("right");
        assert_eq!((target.host.as_str(), target.port), ("2001:db8::1", 8443));
    }
}
