//! Shared helpers of the tests of connections: identities, pairs of ends, frames with checkable content.
//! Tests nothing itself.

use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use godwit_net::{
    AcceptError, AcceptOptions, Accepted, Cipher, ClientTls, Connection, DialError, DialOptions,
    Expect, Identity, IdentityId, PeerAddress, ServerTls, Stream, StreamError, StreamOptions, Wake,
    accept, dial, local_pair,
};
use godwit_proto::{FrameKind, Prelude};

/// Long enough for a loaded machine, short enough that a hang fails the test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn identity() -> Identity {
    let home = tempfile::tempdir().unwrap();
    Identity::load_or_create(home.path()).unwrap()
}

pub(crate) fn client_identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(identity)
}

pub(crate) fn server_identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(identity)
}

pub(crate) fn client_tls(ciphers: &[Cipher]) -> ClientTls {
    ClientTls::new(client_identity(), ciphers).unwrap()
}

pub(crate) fn server_tls(ciphers: &[Cipher]) -> ServerTls {
    ServerTls::new(server_identity(), ciphers).unwrap()
}

pub(crate) fn options(stream: &StreamOptions) -> (DialOptions, AcceptOptions) {
    let mut dial = DialOptions::new(Expect::Identity(*server_identity().id()));
    dial.deadline = PATIENCE;
    dial.stream = stream.clone();
    let accept = AcceptOptions {
        deadline: PATIENCE,
        stream: stream.clone(),
    };
    (dial, accept)
}

pub(crate) fn listen() -> (TcpListener, PeerAddress) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, PeerAddress::new("127.0.0.1", port))
}

/// Both ends' results of one attempt.
pub(crate) fn meet(
    client: &ClientTls,
    server: &ServerTls,
    dialling: &DialOptions,
    accepting: &AcceptOptions,
) -> (
    Result<(Connection, IdentityId), DialError>,
    Result<Accepted, AcceptError>,
) {
    let (listener, address) = listen();
    thread::scope(|scope| {
        let server = scope.spawn(|| accept(listener.accept().unwrap().0, server, accepting));
        let dialled = dial(&address, client, dialling);
        (dialled, server.join().unwrap())
    })
}

/// A client's and a server's end of one connection.
pub(crate) fn pair(ciphers: &[Cipher], stream: &StreamOptions) -> (Connection, Connection) {
    let (dialling, accepting) = options(stream);
    let (client, server) = meet(
        &client_tls(ciphers),
        &server_tls(&[]),
        &dialling,
        &accepting,
    );
    (client.unwrap().0, server.unwrap().stream)
}

/// A pair of each kind: TLS, TLS with unencrypted payloads, inside this process.
pub(crate) fn every_pair() -> Vec<(&'static str, Connection, Connection)> {
    let protected = StreamOptions::default();
    let plain = StreamOptions {
        plain_payload: true,
        ..StreamOptions::default()
    };
    let (a, b) = pair(&[], &protected);
    let (c, d) = pair(&[], &plain);
    let (e, f) = local_pair(&protected).unwrap();
    vec![("tls", a, b), ("plain payload", c, d), ("local", e, f)]
}

/// Bytes that depend on seed and position.
pub(crate) fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend_from_slice(&state.to_le_bytes());
    }
    content.truncate(bytes);
    content
}

/// The image of prelude and head of a frame, of a kind that fits the payload.
pub(crate) fn image(head: &[u8], payload_bytes: usize) -> Vec<u8> {
    let kind = if payload_bytes > 0 {
        FrameKind::BLOCK
    } else {
        FrameKind::MANIFEST
    };
    let prelude = Prelude {
        kind,
        flags: 0,
        head_bytes: u32::try_from(head.len()).unwrap(),
        payload_bytes: u32::try_from(payload_bytes).unwrap(),
    };
    let mut image = prelude.encode().to_vec();
    image.extend_from_slice(head);
    image
}

/// Sends a frame whose content is derived from `seed`.
pub(crate) fn send(
    stream: &mut dyn Stream,
    seed: u64,
    head_bytes: usize,
    payload_bytes: usize,
) -> Result<(), StreamError> {
    let head = content(seed, head_bytes);
    stream.send(
        &image(&head, payload_bytes),
        &content(seed + 1, payload_bytes),
    )
}

/// Waits for the next frame and receives it whole, the payload in pieces of `piece_bytes`.
pub(crate) fn receive(
    stream: &mut dyn Stream,
    piece_bytes: usize,
) -> Result<(Vec<u8>, Vec<u8>), StreamError> {
    loop {
        if let Some((prelude, head)) = stream.try_recv()? {
            let mut payload = vec![0; prelude.payload_bytes as usize];
            for piece in payload.chunks_mut(piece_bytes) {
                stream.recv_payload(piece)?;
            }
            return Ok((head, payload));
        }
        assert_ne!(
            stream.wait(PATIENCE)?,
            Wake::TimedOut,
            "nothing came in time"
        );
    }
}

/// Waits for the next frame and compares it with the one that [`send`] sends for `seed`.
pub(crate) fn expect(
    stream: &mut dyn Stream,
    seed: u64,
    head_bytes: usize,
    payload_bytes: usize,
) -> Result<(), StreamError> {
    let (head, payload) = receive(stream, 1 << 20)?;
    assert!(
        head == content(seed, head_bytes),
        "the head of frame {seed} is damaged"
    );
    assert!(
        payload == content(seed + 1, payload_bytes),
        "the payload of frame {seed} is damaged"
    );
    Ok(())
}

/// Relays bytes between a client and a server; `touch` can change the bytes to the server.
///
/// `touch` gets the number of earlier bytes, and the bytes. Its result is sent on; `None` cuts the connection.
pub(crate) fn through_proxy(
    server: std::net::SocketAddr,
    mut touch: impl FnMut(usize, Vec<u8>) -> Option<Vec<u8>> + Send + 'static,
) -> (PeerAddress, thread::JoinHandle<()>) {
    let (listener, address) = listen();
    let proxy = thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(server).unwrap();
        let mut back_in = server.try_clone().unwrap();
        let mut back_out = client.try_clone().unwrap();
        let back = thread::spawn(move || {
            let _ = std::io::copy(&mut back_in, &mut back_out);
            let _ = back_out.shutdown(std::net::Shutdown::Write);
        });
        let mut buffer = vec![0; 8192];
        let mut passed = 0;
        while let Ok(bytes @ 1..) = client.read(&mut buffer) {
            let Some(touched) = touch(passed, buffer[..bytes].to_vec()) else {
                break;
            };
            passed += bytes;
            if server.write_all(&touched).is_err() {
                break;
            }
        }
        let _ = server.shutdown(std::net::Shutdown::Both);
        let _ = client.shutdown(std::net::Shutdown::Both);
        back.join().unwrap();
    });
    (address, proxy)
}
