//! Makes one connection to a node: a Unix socket, or TLS over TCP. Sends no requests.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use godwit_api::host::HostPort;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustix::process::geteuid;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::NodeAddress;
use crate::error::ClientError;
use crate::transport::{Target, Tls};

/// Time for the name lookup, for each address, and for TLS: enough for five lost packets in a row at the kernel's timing.
pub(crate) const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Pause before another try at a socket whose queue is full. The kernel gives each free place to the next caller. While a user
/// fills the queue, this takes many tries.
const QUEUE_PAUSE: Duration = Duration::from_millis(2);

const ROOT: u32 = 0;

/// Number of addresses of one name that are tried, in order: enough for two machines with an address of each family.
const ADDRESSES_MAX: usize = 4;

impl Target {
    /// Connects, and starts HTTP on the connection.
    pub(crate) async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        match (&self.address, &self.tls) {
            (NodeAddress::Home(home), _) => {
                let socket = NodeAddress::socket_of(home);
                let not_running = || ClientError::NotRunning { home: home.clone() };
                self.begin(unix(&socket, not_running).await?).await
            }
            (NodeAddress::Socket(socket), _) => {
                let not_running = || self.unreachable("no node runs there");
                self.begin(unix(socket, not_running).await?).await
            }
            (NodeAddress::Https(host), Some(tls)) => self.begin(self.tls(host, tls).await?).await,
            (NodeAddress::Https(_), None) => Err(self.unreachable("TLS is not set up")),
        }
    }

    async fn begin<S>(&self, stream: S) -> Result<SendRequest<Full<Bytes>>, ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(error))?;
        // The task ends when the sender and the answer are dropped; they report its errors.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn tls(&self, host: &HostPort, tls: &Tls) -> Result<TlsStream<TcpStream>, ClientError> {
        let stream = self.tcp(host).await?;
        let name = ServerName::try_from(host.name().to_owned())
            .map_err(|error| self.unreachable(error))?;
        let connector = TlsConnector::from(Arc::clone(&tls.config));
        match timeout(CONNECT_DEADLINE, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.tls_fault(tls, &error)),
            Err(_late) => Err(self.unreachable("no TLS handshake began in time")),
        }
    }

    async fn tcp(&self, host: &HostPort) -> Result<TcpStream, ClientError> {
        let found = timeout(
            CONNECT_DEADLINE,
            lookup_host((host.host.as_str(), host.port)),
        );
        let addresses: Vec<SocketAddr> = match found.await {
            Ok(Ok(addresses)) => addresses.take(ADDRESSES_MAX).collect(),
            Ok(Err(error)) => return Err(self.unreachable(error)),
            Err(_late) => return Err(self.unreachable("the name was not resolved in time")),
        };
        let mut fault = "the name has no address".to_owned();
        for address in addresses {
            match timeout(CONNECT_DEADLINE, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Requests are small, and each waits for its answer.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => fault = format!("{address}: {error}"),
                Err(_late) => fault = format!("{address}: no answer in time"),
            }
        }
        Err(self.unreachable(fault))
    }

    fn tls_fault(&self, tls: &Tls, error: &io::Error) -> ClientError {
        let inner = error.get_ref().and_then(|error| error.downcast_ref());
        let refused = matches!(inner, Some(rustls::Error::InvalidCertificate(_)));
        match (tls.verifier.shown(), tls.pin) {
            (Some(shown), Some(expected)) if refused => ClientError::OtherCertificate {
                node: self.address.to_string(),
                shown,
                expected,
            },
            (Some(shown), None) if refused => ClientError::UnknownCertificate {
                node: self.address.to_string(),
                shown,
                reason: error.to_string(),
            },
            _ => self.unreachable(format!("TLS: {error}")),
        }
    }

    fn unreachable(&self, reason: impl ToString) -> ClientError {
        ClientError::Unreachable {
            node: self.address.to_string(),
            reason: reason.to_string(),
        }
    }
}

async fn unix(
    socket: &Path,
    not_running: impl Fn() -> ClientError,
) -> Result<UnixStream, ClientError> {
    let failed = |source| ClientError::Socket {
        socket: socket.to_owned(),
        source,
    };
    match timeout(CONNECT_DEADLINE, patiently(socket)).await {
        Ok(Ok(stream)) => {
            let by = stream.peer_cred().map_err(failed)?.uid();
            match other_user(socket, by, geteuid().as_raw()) {
                None => Ok(stream),
                Some(why) => Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, why))),
            }
        }
        Ok(Err(error)) => Err(match error.kind() {
            // The socket of a killed node refuses connections.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => not_running(),
            _ => failed(error),
        }),
        Err(_late) => Err(failed(io::ErrorKind::TimedOut.into())),
    }
}

/// Connects as soon as the queue of the socket has room: other users of the machine may fill it for a moment.
async fn patiently(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(QUEUE_PAUSE).await;
            }
            connected => return connected,
        }
    }
}

/// The reason why the user `by` may not answer at a socket: only root, the calling user `own`, and the owner of the socket's directory
/// may. Any other user may have made a socket with this name while the node was down.
fn other_user(socket: &Path, by: u32, own: u32) -> Option<String> {
    let directory = socket.parent();
    let directory = directory.filter(|path| !path.as_os_str().is_empty());
    let owner = fs::metadata(directory.unwrap_or_else(|| Path::new("."))).map(|meta| meta.uid());
    if by == ROOT || by == own || owner.is_ok_and(|owner| owner == by) {
        return None;
    }
    Some(format!(
        "a program of another user (uid {by}) answers there, who owns neither the directory nor this command; \
         have the node serve a socket in a directory of its user: godwit serve --socket"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn a_socket_whose_queue_is_full_is_tried_again() {
        let directory = tempfile::tempdir().expect("made");
        let socket = directory.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("bound");
        // A shorter queue, which is full at once.
        rustix::net::listen(&listener, 1).expect("listens");
        let mut waiting = Vec::new();
        loop {
            match UnixStream::connect(&socket).await {
                Ok(stream) => waiting.push(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let connecting = unix(&socket, || panic!("a node runs there"));
        let accepting = async {
            tokio::task::yield_now().await;
            for _ in 0..waiting.len() {
                listener.accept().expect("accepted");
            }
        };
        let (connected, ()) = tokio::join!(connecting, accepting);
        connected.expect("connected");
    }

    #[test]
    fn no_other_user_answers_in_the_name_of_a_node() {
        let directory = tempfile::tempdir().expect("made");
        let owner = fs::metadata(directory.path()).expect("there").uid();
        let (own, stranger) = (owner.wrapping_add(1), owner.wrapping_add(2));
        let socket = directory.path().join("socket");
        for by in [ROOT, own, owner] {
            assert_eq!(other_user(&socket, by, own), None, "{by}");
        }
        let why = other_user(&socket, stranger, own).expect("refused");
        assert!(why.contains(&format!("uid {stranger}")), "{why}");
    }
}
