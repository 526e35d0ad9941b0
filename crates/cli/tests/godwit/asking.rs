//! Owns a client that sends raw requests to a daemon, without checks on its own side.
//! Moves nothing.

use std::path::Path;

use godwit_engine::session::{GreetError, HELLO_DEADLINE, our_hello, receive_frame};
use godwit_net::{
    Cipher, ClientTls, DialOptions, Expect, Identity, PeerAddress, Stream as _, dial,
};
use godwit_proto::Frame;

use super::rig::Rig;

/// The answer of the daemon to a request of the client with this home.
pub(crate) fn ask(rig: &Rig, home: &Path, request: &[u8]) -> Result<Frame, GreetError> {
    let identity = Identity::load_or_create(home).expect("a key");
    let tls = ClientTls::new(&identity, &[Cipher::Aes256Gcm]).expect("set up");
    let (host, port) = rig.address().rsplit_once(':').expect("an address");
    let address = PeerAddress::new(host, port.parse().expect("a port"));
    let node = rig.identity.parse().expect("an identity");
    let options = DialOptions::new(Expect::Identity(node));
    let (mut stream, _) = dial(&address, &tls, &options).expect("it listens");
    let mut frames = Vec::new();
    our_hello().encode(&mut frames);
    frames.extend_from_slice(request);
    stream.send_all(&frames).expect("sent");
    let hello = receive_frame(&mut stream, HELLO_DEADLINE).expect("a hello");
    assert!(matches!(hello, Frame::Hello(_)), "{hello:?}");
    receive_frame(&mut stream, HELLO_DEADLINE)
}
