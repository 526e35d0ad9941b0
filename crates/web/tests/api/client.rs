//! A client for tests: HTTP as hyper speaks it, one connection for each request.
//! Expects nothing.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::{TcpSocket, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

/// Transport to the server.
enum Transport {
    Unix(PathBuf),
    Tls {
        taker: Taker,
        connector: TlsConnector,
        from: Ipv4Addr,
    },
}

/// Hands a connection to the server, as a node's accept path does.
pub(crate) type Taker = Arc<dyn Fn(TcpStream) + Send + Sync>;

/// Sends requests.
pub(crate) struct Client {
    runtime: Runtime,
    way: Transport,
    headers: Vec<(String, String)>,
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!(
                "{error}: {} {:?}",
                self.status,
                String::from_utf8_lossy(&self.body)
            )
        })
    }

    /// Returns the answer if it has this status; panics otherwise.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(
            self.status.as_u16(),
            status,
            "{}",
            String::from_utf8_lossy(&self.body)
        );
        self
    }

    /// Checks that the answer is a problem of this status and code. Returns the problem.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) -> Value {
        let answer = self.expect(status);
        assert_eq!(answer.header("content-type"), "application/problem+json");
        let problem = answer.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("urn:godwit:problem:{code}"));
        assert_eq!(problem["request"], answer.header("x-request-id"));
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        problem
    }

    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .unwrap_or_else(|| panic!("no {name}"))
            .to_str()
            .unwrap()
    }
}

impl Client {
    pub(crate) fn unix(socket: &Path) -> Self {
        Self::new(Transport::Unix(socket.to_owned()))
    }

    /// A client that trusts this certificate only.
    pub(crate) fn tls(taker: Taker, certificate: &Path) -> Self {
        let connector = TlsConnector::from(Arc::new(tls_config(certificate)));
        Self::new(Transport::Tls {
            taker,
            connector,
            from: Ipv4Addr::LOCALHOST,
        })
    }

    /// Sends from this address.
    pub(crate) fn from(mut self, address: [u8; 4]) -> Self {
        if let Transport::Tls { from, .. } = &mut self.way {
            *from = Ipv4Addr::from(address);
        }
        self
    }

    fn new(way: Transport) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self {
            runtime,
            way,
            headers: Vec::new(),
        }
    }

    /// Sends this header with each request.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends a token with each request.
    pub(crate) fn token(self, secret: &str) -> Self {
        self.with("authorization", &format!("Bearer {secret}"))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Vec::new())
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], Vec::new())
    }

    pub(crate) fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("content-type", "application/json")];
        self.send(method, path, &headers, body.to_string().into_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.json("POST", path, body)
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", "node");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        self.runtime.block_on(async {
            match &self.way {
                Transport::Unix(path) => {
                    let io = TokioIo::new(UnixStream::connect(path).await.unwrap());
                    let (mut sender, connection) =
                        hyper::client::conn::http1::handshake(io).await.unwrap();
                    let connection = tokio::spawn(connection);
                    let answer = whole(sender.send_request(request).await.unwrap()).await;
                    connection.abort();
                    answer
                }
                Transport::Tls {
                    taker,
                    connector,
                    from,
                } => {
                    let stream = dial(taker, connector, *from).await;
                    let (mut sender, connection) = hyper::client::conn::http2::handshake(
                        TokioExecutor::new(),
                        TokioIo::new(stream),
                    )
                    .await
                    .unwrap();
                    let connection = tokio::spawn(connection);
                    let (mut parts, body) = request.into_parts();
                    parts.uri = format!("https://localhost{}", parts.uri).parse().unwrap();
                    let request = Request::from_parts(parts, body);
                    let answer = whole(sender.send_request(request).await.unwrap()).await;
                    connection.abort();
                    answer
                }
            }
        })
    }
}

/// TLS that trusts one certificate only.
pub(crate) fn tls_config(certificate: &Path) -> ClientConfig {
    let pem = std::fs::read(certificate).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// A connection to the server from this address. Nothing has been sent yet.
pub(crate) async fn connect(taker: &Taker, from: Ipv4Addr) -> tokio::net::TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let socket = socket.connect(listener.local_addr().unwrap()).await;
    taker(listener.accept().unwrap().0);
    socket.unwrap()
}

/// The same, after the TLS handshake.
pub(crate) async fn dial(
    taker: &Taker,
    connector: &TlsConnector,
    from: Ipv4Addr,
) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    let socket = connect(taker, from).await;
    let name = ServerName::try_from("localhost").unwrap();
    connector.connect(name, socket).await.unwrap()
}

async fn whole(response: hyper::Response<hyper::body::Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes().to_vec(),
    }
}
