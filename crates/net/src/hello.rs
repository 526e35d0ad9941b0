//! Determines the protocol that a new connection wants (data, or another protocol over TLS) without consuming its
//! bytes. Sends no answer and checks no identity; the code that accepts the connection does.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use godwit_sys::tcp_options::set_readable_from;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::server::Acceptor;

use crate::limits::RECORD_BYTES_MAX;
use crate::tls::ALPN_DATA;

/// Most bytes of the first message that are examined: browsers send 2 KiB, and one record can hold the rest.
const HELLO_BYTES_MAX: usize = RECORD_BYTES_MAX;

/// The protocol that a client wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wants {
    /// A data connection, or one that only the data protocol can refuse with a proper message: without TLS, or
    /// without any bytes.
    Data,
    /// Another protocol inside TLS, such as HTTP, or none named.
    Other,
}

/// Examines a client's first message until it is complete or `deadline` has passed. All bytes stay in the socket.
#[must_use]
pub fn client_wants(socket: &TcpStream, deadline: Duration) -> Wants {
    let until = Instant::now() + deadline;
    let mut seen = vec![0; HELLO_BYTES_MAX];
    let mut known = 0;
    let wants = loop {
        let length = match socket.peek(&mut seen) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break Wants::Data,
        };
        // The client has hung up, or waits although its message is incomplete.
        if length <= known {
            break Wants::Data;
        }
        known = length;
        if let Some(wants) = judge(&seen[..length]) {
            break wants;
        }
        if length == seen.len() || !wait_for_more(socket, length, until) {
            break Wants::Data;
        }
    };
    // Later readers wait for a single byte.
    let _ = set_readable_from(socket, 1);
    wants
}

/// Decides by the first bytes; `None` if there are too few.
fn judge(seen: &[u8]) -> Option<Wants> {
    let mut acceptor = Acceptor::default();
    let mut rest = seen;
    while !rest.is_empty() {
        if acceptor.read_tls(&mut rest).is_err() {
            return Some(Wants::Data);
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let is_data = hello
                    .alpn()
                    .is_some_and(|mut offered| offered.any(|protocol| protocol == ALPN_DATA));
                return Some(if is_data { Wants::Data } else { Wants::Other });
            }
            Err(_) => return Some(Wants::Data),
        }
    }
    None
}

/// Waits until the socket has more than `length` bytes.
fn wait_for_more(socket: &TcpStream, length: usize, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let wake = u32::try_from(length + 1).unwrap_or(u32::MAX);
    let (Ok(wait), Ok(())) = (Timespec::try_from(left), set_readable_from(socket, wake)) else {
        return false;
    };
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&wait)), Ok(1..))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// The first message of a client that offers these protocols.
    fn hello(alpn: &[&[u8]]) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("a version")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        let name = ServerName::try_from("node.example").expect("a name");
        let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("written");
        bytes
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("dialled");
        (client, listener.accept().expect("accepted").0)
    }

    const DEADLINE: Duration = Duration::from_secs(60);

    #[test]
    fn clients_are_distinguished_and_no_byte_is_taken() {
        for (bytes, wants) in [
            (hello(&[ALPN_DATA]), Wants::Data),
            (hello(&[b"h2", ALPN_DATA]), Wants::Data),
            (hello(&[b"h2", b"http/1.1"]), Wants::Other),
            (hello(&[b"http/1.1"]), Wants::Other),
            (hello(&[]), Wants::Other),
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Wants::Data),
            (vec![0x16; 300], Wants::Data),
        ] {
            let (mut client, mut server) = pair();
            client.write_all(&bytes).expect("sent");
            assert_eq!(client_wants(&server, DEADLINE), wants);
            drop(client);
            let mut read = Vec::new();
            server.read_to_end(&mut read).expect("read");
            assert_eq!(read, bytes);
        }
    }

    #[test]
    fn a_message_in_pieces_is_waited_for() {
        let bytes = hello(&[b"h2"]);
        let (mut client, server) = pair();
        client.set_nodelay(true).expect("set");
        let looking = std::thread::spawn(move || (client_wants(&server, DEADLINE), server));
        for piece in bytes.chunks(40) {
            client.write_all(piece).expect("sent");
            std::thread::sleep(Duration::from_millis(2));
        }
        let (wants, _server) = looking.join().expect("no panic");
        assert_eq!(wants, Wants::Other);
    }

    #[test]
    fn a_client_that_stops_in_the_middle_is_left_after_the_deadline() {
        let bytes = hello(&[b"h2"]);
        let (mut client, server) = pair();
        client.write_all(&bytes[..50]).expect("sent");
        assert_eq!(
            client_wants(&server, Duration::from_millis(100)),
            Wants::Data
        );
        let (mut client, server) = pair();
        client.write_all(&bytes[..50]).expect("sent");
        drop(client);
        assert_eq!(client_wants(&server, DEADLINE), Wants::Data);
    }
}
