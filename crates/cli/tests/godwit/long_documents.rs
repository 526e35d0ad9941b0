//! Long questions from one peer: the memory that they take together is bounded, whatever is in them.
//! Asks nothing that the node could answer.

use std::sync::Barrier;

use godwit_engine::session::{HELLO_DEADLINE, our_hello, receive_frame};
use godwit_net::{
    Cipher, ClientTls, Connection, DialOptions, Expect, Identity, PeerAddress, Stream as _, dial,
};
use godwit_proto::{Ask, DOCUMENT_BYTES_MAX, Frame};

use super::hostile::memory;
use super::rig::Rig;

/// Questions at once, each on its connection.
const AT_ONCE: usize = 48;

/// Memory for these documents in KiB: the buffers of each connection, and eight parsed documents.
const MEMORY_MAX: u64 = 48 * 4 * 1_024 + 8 * 8 * 1_024 + (64 << 10);

/// The beginning of a job with many sources.
const RUN: &str = r#"{"version":1,"ask":"run","with":{"job":"j","new":{"destination":"here:/data/b","sources":[""#;

/// Documents that take most memory for their length.
fn documents() -> Vec<(&'static str, Vec<u8>)> {
    let filled = |before: &str, unit: &str, after: &str| {
        let most = DOCUMENT_BYTES_MAX - before.len() - after.len() - 8;
        let units = unit.repeat(most / unit.len());
        format!("{before}{units}0{after}").into_bytes()
    };
    let late = r#"],"ask":"list"}"#;
    let path = r#"{"version":1,"ask":"stat","with":{"path":["#;
    let deep = format!("{}0{},", "[".repeat(100), "]".repeat(100));
    vec![
        (
            "late lists",
            filled(r#"{"version":1,"with":["#, "[0],", late),
        ),
        (
            "late depths",
            filled(r#"{"version":1,"with":["#, &deep, late),
        ),
        (
            "late objects",
            filled(r#"{"version":1,"with":["#, r#"{"":0},"#, late),
        ),
        ("lists as a path", filled(path, "[0],", "]}}")),
        (
            "a message",
            filled(
                r#"{"version":1,"ask":"cluster","with":{"cluster":"carry","with":{"of":"","to":1,"kind":"","message":["#,
                r#"{"":0},"#,
                "]}}}",
            ),
        ),
        (
            "fewer sources",
            filled(RUN, r#"aaaaaaaaaaaaaaaaaa",""#, r#""]}}}"#),
        ),
        ("sources", filled(RUN, r#""","#, r#""]}}}"#)),
    ]
}

fn connect(rig: &Rig, tls: &ClientTls) -> Connection {
    let (host, port) = rig.address().rsplit_once(':').expect("an address");
    let address = PeerAddress::new(host, port.parse().expect("a port"));
    let node = rig.identity.parse().expect("an identity");
    let options = DialOptions::new(Expect::Identity(node));
    let (mut stream, _) = dial(&address, tls, &options).expect("it listens");
    let mut hello = Vec::new();
    our_hello().encode(&mut hello);
    stream.send_all(&hello).expect("sent");
    let hello = receive_frame(&mut stream, HELLO_DEADLINE).expect("a hello");
    assert!(matches!(hello, Frame::Hello(_)), "{hello:?}");
    stream
}

#[test]
fn long_questions_of_one_peer_take_little_more_than_their_bytes() {
    let mut rig = Rig::new();
    rig.start(&["--connections-per-peer", "64"]);
    let identity = Identity::load_or_create(&rig.client_home()).expect("a key");
    let tls = ClientTls::new(&identity, &[Cipher::Aes256Gcm]).expect("set up");
    let before = memory(&rig, "VmRSS");
    for (name, document) in documents() {
        let mut request = Vec::new();
        let ask = Ask {
            number: 1,
            document,
        };
        ask.encode(&mut request).expect("it may be asked");
        let barrier = Barrier::new(AT_ONCE);
        // One after another: many handshakes at once can be too slow on a busy machine.
        let streams: Vec<Connection> = (0..AT_ONCE).map(|_| connect(&rig, &tls)).collect();
        std::thread::scope(|scope| {
            for mut stream in streams {
                let (barrier, request) = (&barrier, &request);
                scope.spawn(move || {
                    barrier.wait();
                    stream.send_all(request).expect("sent");
                    let reply = receive_frame(&mut stream, HELLO_DEADLINE);
                    match reply.expect("an answer") {
                        Frame::Reply(reply) => {
                            let text = String::from_utf8_lossy(&reply.document).into_owned();
                            assert!(text.contains("refused"), "{text}");
                        }
                        other => panic!("{other:?}"),
                    }
                });
            }
        });
        let more = memory(&rig, "VmHWM").saturating_sub(before);
        eprintln!("{name}: {more} KiB more than before");
        assert!(more < MEMORY_MAX, "{name}: {more} KiB more than before");
    }
}
