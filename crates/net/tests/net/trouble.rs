//! Tests cut, tampered and stalled connections: they are detected, reported, and never accepted as data.

use std::thread;
use std::time::Duration;

use godwit_net::{Stream, StreamError, StreamOptions, accept, dial, local_pair};

use super::common::{
    PATIENCE, client_tls, expect, image, listen, options, pair, receive, send, server_tls,
    through_proxy,
};

/// Sends frames through a proxy that interferes, and returns the receiver's error.
fn receive_through(
    stream: &StreamOptions,
    touch: impl FnMut(usize, Vec<u8>) -> Option<Vec<u8>> + Send + 'static,
) -> StreamError {
    let (listener, address) = listen();
    let server = format!("{}:{}", address.host(), address.port());
    let (address, proxy) = through_proxy(server.parse().unwrap(), touch);
    let (dialling, accepting) = options(stream);
    let error = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut stream = accept(listener.accept().unwrap().0, &server_tls(&[]), &accepting)
                .unwrap()
                .stream;
            let mut seed = 0;
            loop {
                // Frames that do arrive are correct.
                if let Err(error) = expect(&mut stream, seed, 1000, 100_000) {
                    return error;
                }
                seed += 1;
            }
        });
        let (mut stream, _) = dial(&address, &client_tls(&[]), &dialling).unwrap();
        for seed in 0..20 {
            if send(&mut stream, seed, 1000, 100_000).is_err() {
                break;
            }
        }
        drop(stream);
        receiver.join().unwrap()
    });
    proxy.join().unwrap();
    error
}

/// Well after the handshake, well before the end.
const MIDDLE: usize = 500_000;

#[test]
fn a_byte_changed_on_the_way_is_noticed() {
    let error = receive_through(&StreamOptions::default(), |passed, mut bytes| {
        if (passed..passed + bytes.len()).contains(&MIDDLE) {
            bytes[MIDDLE - passed] ^= 1;
        }
        Some(bytes)
    });
    // A changed length field looks like invalid data of the peer, any other change like a failure of TLS.
    assert!(
        matches!(error, StreamError::Tls { .. } | StreamError::Peer { .. }),
        "{error}"
    );
}

#[test]
fn a_connection_cut_on_the_way_is_no_orderly_end() {
    for plain_payload in [false, true] {
        let options = StreamOptions {
            plain_payload,
            ..StreamOptions::default()
        };
        let error = receive_through(&options, |passed, bytes| (passed < MIDDLE).then_some(bytes));
        assert!(matches!(error, StreamError::Network { .. }), "{error}");
        assert!(error.is_retryable());
    }
}

#[test]
fn an_end_without_goodbye_is_no_orderly_end() {
    let (mut client, server) = pair(&[], &StreamOptions::default());
    drop(server);
    let error = receive(&mut client, 1).unwrap_err();
    assert!(matches!(error, StreamError::Network { .. }), "{error}");
}

#[test]
fn a_peer_that_takes_nothing_is_given_up() {
    let options = StreamOptions {
        stall_limit: Duration::from_millis(50),
        ..StreamOptions::default()
    };
    let mut pairs = vec![local_pair(&options).unwrap()];
    pairs.push(pair(&[], &options));
    for (mut one, _other) in pairs {
        let error = (0..100)
            .find_map(|seed| send(&mut one, seed, 0, 4 << 20).err())
            .unwrap();
        assert!(matches!(error, StreamError::Stalled { .. }), "{error}");
        assert!(matches!(
            one.send(&image(&[], 0), &[]),
            Err(StreamError::Misuse { .. })
        ));
    }
}

#[test]
fn a_peer_that_has_hung_up_and_takes_nothing_is_given_up_at_once() {
    let endless = StreamOptions {
        stall_limit: Duration::from_secs(3600),
        ..StreamOptions::default()
    };
    for (mut one, mut other) in [local_pair(&endless).unwrap(), pair(&[], &endless)] {
        send(&mut other, 7, 10, 0).unwrap();
        other.shutdown();
        let error = (0..100)
            .find_map(|seed| send(&mut one, seed, 0, 4 << 20).err())
            .unwrap();
        assert!(matches!(error, StreamError::Network { .. }), "{error}");
        assert!(error.is_retryable());
        // Frames sent before can still be received.
        expect(&mut one, 7, 10, 0).unwrap();
    }
}

#[test]
fn a_payload_that_does_not_come_is_given_up() {
    let options = StreamOptions {
        stall_limit: Duration::from_millis(50),
        ..StreamOptions::default()
    };
    let (mut one, mut other) = local_pair(&options).unwrap();
    // The rest of the payload is not sent, because the sender stops first.
    let sent = thread::spawn(move || {
        let error = (0..100).find_map(|seed| send(&mut one, seed, 0, 4 << 20).err());
        (one, error.unwrap())
    });
    let (prelude, _) = loop {
        if let Some(frame) = other.try_recv().unwrap() {
            break frame;
        }
        other.wait(PATIENCE).unwrap();
    };
    let (_one, error) = sent.join().unwrap();
    assert!(matches!(error, StreamError::Stalled { .. }), "{error}");
    let mut payload = vec![0; prelude.payload_bytes as usize];
    let error = other.recv_payload(&mut payload).unwrap_err();
    assert!(matches!(error, StreamError::Stalled { .. }), "{error}");
}

#[test]
fn a_wait_in_the_middle_of_a_frame_ends_when_the_owner_wants_the_stream_no_longer() {
    let endless = StreamOptions {
        stall_limit: Duration::from_secs(3600),
        ..StreamOptions::default()
    };
    let (mut one, mut other) = local_pair(&endless).unwrap();
    // The data of this send is not read, so a part of its payload is left.
    let waker = one.waker();
    let sent = thread::spawn(move || {
        let error = (0..100).find_map(|seed| send(&mut one, seed, 0, 4 << 20).err());
        (one, error.unwrap())
    });
    let (prelude, _) = loop {
        if let Some(frame) = other.try_recv().unwrap() {
            break frame;
        }
        other.wait(PATIENCE).unwrap();
    };
    waker.end();
    let (_one, error) = sent.join().unwrap();
    assert!(matches!(error, StreamError::Ended { .. }), "{error}");
    // A receive waits for the rest.
    let waker = other.waker();
    let received = thread::spawn(move || {
        let mut payload = vec![0; prelude.payload_bytes as usize];
        let error = other.recv_payload(&mut payload).unwrap_err();
        // The other direction still carries a final frame.
        send(&mut other, 0, 10, 0).unwrap();
        error
    });
    waker.end();
    let error = received.join().unwrap();
    assert!(matches!(error, StreamError::Ended { .. }), "{error}");
}

#[test]
fn an_impossible_prelude_is_the_peers_fault() {
    let (mut one, mut other) = pair(&[], &StreamOptions::default());
    // The stream's own check would refuse this, so a payload without any frame is sent where the other end expects a
    // frame.
    one.set_plain_payload(true);
    let mut nonsense = image(&[], 0);
    nonsense[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(
        one.send(&nonsense, &[]),
        Err(StreamError::Misuse { .. })
    ));
    send(&mut one, 1, 10, 100_000).unwrap();
    let error = receive(&mut other, 1 << 20).unwrap_err();
    assert!(
        matches!(error, StreamError::Peer { .. } | StreamError::Tls { .. }),
        "{error}"
    );
}
