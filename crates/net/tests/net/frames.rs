//! Tests that frames arrive whole, in order and unchanged, on every kind of stream.

use std::thread;
use std::time::Duration;

use godwit_net::{Cipher, Stream, StreamError, StreamOptions, Wake};
use proptest::prelude::*;

use super::common::{PATIENCE, content, every_pair, expect, image, pair, receive, send};

const MIB: usize = 1 << 20;

#[test]
fn frames_of_all_sizes_arrive_with_every_cipher() {
    for cipher in Cipher::ALL {
        for plain_payload in [false, true] {
            let options = StreamOptions {
                plain_payload,
                ..StreamOptions::default()
            };
            let (mut client, mut server) = pair(&[cipher], &options);
            thread::scope(|scope| {
                scope.spawn(|| {
                    for (seed, (head, payload)) in SIZES.into_iter().enumerate() {
                        send(&mut client, seed as u64, head, payload).unwrap();
                    }
                });
                for (seed, (head, payload)) in SIZES.into_iter().enumerate() {
                    expect(&mut server, seed as u64, head, payload).unwrap();
                }
            });
            assert_eq!(client.counters().frames_out, SIZES.len() as u64);
            assert_eq!(server.counters().frames_in, SIZES.len() as u64);
            assert_eq!(
                client.counters().bytes_out >> 20,
                server.counters().bytes_in >> 20
            );
        }
    }
}

const SIZES: [(usize, usize); 10] = [
    (0, 0),
    (1, 0),
    (200, 1),
    (16_384 - 16, 16_384),
    (16_385, 16_383),
    (128, 4 * MIB),
    (MIB, 4 * MIB),
    (MIB, 0),
    (3, 262_145),
    (0, 7),
];

/// Both send more than any socket holds before they receive anything: payloads in one direction, heads in
/// the other.
#[test]
fn two_busy_ends_do_not_block_each_other() {
    for (make, mut one, mut other) in every_pair() {
        thread::scope(|scope| {
            scope.spawn(|| {
                for seed in 0..16 {
                    send(&mut one, seed, 300, 4 * MIB).unwrap();
                }
                for seed in 0..6 {
                    expect(&mut one, 100 + seed, MIB, 0).unwrap();
                }
                for seed in 0..100 {
                    expect(&mut one, 200 + seed, 24, 0).unwrap();
                }
            });
            for seed in 0..6 {
                send(&mut other, 100 + seed, MIB, 0).unwrap();
            }
            for seed in 0..100 {
                send(&mut other, 200 + seed, 24, 0).unwrap();
            }
            for seed in 0..16 {
                expect(&mut other, seed, 300, 4 * MIB).unwrap();
            }
        });
        assert!(
            other.counters().frames_in == 16 && one.counters().frames_in == 106,
            "{make}"
        );
    }
}

/// Both send heads only, more than any socket holds, before either receives.
#[test]
fn two_ends_full_of_heads_do_not_block_each_other() {
    for (_, mut one, mut other) in every_pair() {
        let busy = |stream: &mut dyn Stream, mine: u64, theirs: u64| {
            for seed in 0..7 {
                send(stream, mine + seed, MIB, 0).unwrap();
            }
            for seed in 0..7 {
                expect(stream, theirs + seed, MIB, 0).unwrap();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| busy(&mut one, 0, 50));
            busy(&mut other, 50, 0);
        });
    }
}

#[test]
fn a_payload_may_be_taken_in_pieces_and_answered_meanwhile() {
    for (_, mut one, mut other) in every_pair() {
        send(&mut one, 1, 10, 100_000).unwrap();
        send(&mut one, 3, 10, 0).unwrap();
        assert_ne!(other.wait(PATIENCE).unwrap(), Wake::TimedOut);
        let (prelude, head) = loop {
            if let Some(frame) = other.try_recv().unwrap() {
                break frame;
            }
            other.wait(PATIENCE).unwrap();
        };
        assert_eq!((prelude.payload_bytes, head), (100_000, content(1, 10)));
        let mut payload = vec![0; 100_000];
        other.recv_payload(&mut payload[..1]).unwrap();
        send(&mut other, 9, 5, 0).unwrap();
        assert!(matches!(other.try_recv(), Err(StreamError::Misuse { .. })));
        other.recv_payload(&mut payload[1..70_000]).unwrap();
        assert!(matches!(
            other.recv_payload(&mut vec![0; 30_001]),
            Err(StreamError::Misuse { .. })
        ));
        other.recv_payload(&mut payload[70_000..]).unwrap();
        assert!(payload == content(2, 100_000));
        expect(&mut other, 3, 10, 0).unwrap();
        expect(&mut one, 9, 5, 0).unwrap();
    }
}

#[test]
fn payloads_can_be_switched_to_clear_between_frames() {
    let (mut client, mut server) = pair(&[], &StreamOptions::default());
    send(&mut client, 1, 10, 1000).unwrap();
    expect(&mut server, 1, 10, 1000).unwrap();
    client.set_plain_payload(true);
    server.set_plain_payload(true);
    let before = server.counters().bytes_in;
    send(&mut client, 3, 0, MIB).unwrap();
    expect(&mut server, 3, 0, MIB).unwrap();
    // One record for the prelude, and no overhead for the payload.
    assert_eq!(server.counters().bytes_in - before, 16 + 22 + MIB as u64);
}

#[test]
fn an_orderly_end_comes_after_the_last_frame() {
    for (make, mut one, mut other) in every_pair() {
        send(&mut one, 1, 10, 10).unwrap();
        one.shutdown();
        assert!(matches!(
            one.send(&image(&[], 0), &[]),
            Err(StreamError::Misuse { .. })
        ));
        expect(&mut other, 1, 10, 10).unwrap();
        let end = receive(&mut other, 1).unwrap_err();
        assert!(matches!(end, StreamError::Closed { .. }), "{make}: {end}");
        assert!(end.is_retryable());
    }
}

#[test]
fn a_frame_that_contradicts_its_prelude_is_not_sent() {
    for (_, mut one, _other) in every_pair() {
        for (head, payload) in [
            (vec![], vec![]),
            (vec![0xff; 16], vec![]),
            (image(&[], 5), vec![0; 4]),
            (image(&[1, 2], 0)[..17].to_vec(), vec![]),
        ] {
            assert!(matches!(
                one.send(&head, &payload),
                Err(StreamError::Misuse { .. })
            ));
        }
    }
}

#[test]
fn a_wake_ends_a_wait_from_another_thread() {
    for (_, mut one, mut other) in every_pair() {
        // The handshake may have left bytes to process.
        assert!(one.try_recv().unwrap().is_none());
        assert_eq!(one.wait(Duration::ZERO).unwrap(), Wake::TimedOut);
        let waker = one.waker();
        thread::scope(|scope| {
            scope.spawn(move || waker.wake());
            assert_eq!(one.wait(PATIENCE).unwrap(), Wake::Woken);
        });
        one.waker().wake();
        assert_eq!(one.wait(PATIENCE).unwrap(), Wake::Woken);
        assert_eq!(one.wait(Duration::ZERO).unwrap(), Wake::TimedOut);
        send(&mut other, 1, 3, 0).unwrap();
        assert_eq!(one.wait(PATIENCE).unwrap(), Wake::Readable);
        expect(&mut one, 1, 3, 0).unwrap();
    }
}

/// A frame that arrived during a send must end the wait.
#[test]
fn a_wait_sees_what_came_in_during_a_send() {
    for (make, mut one, mut other) in every_pair() {
        assert!(one.try_recv().unwrap().is_none());
        thread::scope(|scope| {
            scope.spawn(|| {
                // This frame is sent first, so it has arrived while `one` waits for room. `other` receives only afterwards.
                send(&mut other, 7, 9, 0).unwrap();
                for seed in 0..8 {
                    expect(&mut other, 10 + seed, 0, 4 * MIB).unwrap();
                }
            });
            for seed in 0..8 {
                send(&mut one, 10 + seed, 0, 4 * MIB).unwrap();
            }
        });
        assert_eq!(one.wait(PATIENCE).unwrap(), Wake::Readable, "{make}");
        expect(&mut one, 7, 9, 0).unwrap();
    }
}

#[test]
fn tcp_and_only_tcp_has_statistics() {
    for (make, mut one, mut other) in every_pair() {
        send(&mut one, 1, 0, 50_000).unwrap();
        expect(&mut other, 1, 0, 50_000).unwrap();
        assert_eq!(one.tcp_info().is_some(), make != "local");
        if let Some(info) = other.tcp_info() {
            assert!(info.received_bytes >= 50_000, "{info:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any sequence of frames, received in pieces of any size.
    #[test]
    fn any_frames_arrive(
        frames in prop::collection::vec((0_usize..40_000, prop_oneof![Just(0), 1_usize..300_000]), 1..12),
        piece_bytes in 1000_usize..100_000,
    ) {
        for (_, mut one, mut other) in every_pair() {
            thread::scope(|scope| {
                scope.spawn(|| {
                    for (seed, (head, payload)) in frames.iter().enumerate() {
                        send(&mut one, seed as u64, *head, *payload).unwrap();
                    }
                });
                for (seed, (head_bytes, payload_bytes)) in frames.iter().enumerate() {
                    let (head, payload) = receive(&mut other, piece_bytes).unwrap();
                    assert!(head == content(seed as u64, *head_bytes));
                    assert!(payload == content(seed as u64 + 1, *payload_bytes));
                }
            });
        }
    }
}
