//! The number of connections that a silent known peer may hold.
//! See `strangers` for unknown peers, and `many` for connections that work.

use godwit_api::settings::Cipher;
use godwit_net::{DialOptions, Expect, PeerAddress, Stream as _, dial};
use godwit_run::{Home, client_tls};

use super::super::process::wait_until;
use super::super::rig::Rig;
use super::allow;

/// Connections of known peers count before their first request.
#[test]
fn a_known_peer_that_says_nothing_holds_no_more_connections_than_any_other() {
    let (mut node, peer) = (Rig::new(), Rig::new());
    node.serve(&["--connections-per-peer", "8", "--handshake-deadline", "2m"]);
    peer.own();
    let home = Home::at(peer.path("silent"));
    home.make().expect("made");
    let identity = home.identity().expect("a key");
    allow(&node, &identity.id().to_string(), "data", &["--read"]);
    let tls = client_tls(Cipher::Aes256Gcm, &identity).expect("usable");
    let (host, port) = node.address().rsplit_once(':').expect("a port");
    let address = PeerAddress::new(host, port.parse().expect("a number"));
    let options = DialOptions::new(Expect::Identity(
        node.identity.parse().expect("an identity"),
    ));
    let mut open: Vec<_> = (0..200)
        .filter_map(|_| dial(&address, &tls, &options).ok())
        .collect();
    // Connections of this peer, and those allowed for an address that a known client has come from.
    let kept = wait_until(|| {
        open.retain_mut(|(stream, _)| matches!(stream.try_recv(), Ok(None)));
        (open.len() <= 8 + 128).then_some(open.len())
    });
    let kept = kept.expect("the others are closed");
    assert!(kept >= 8, "{kept} connections are open");
}
