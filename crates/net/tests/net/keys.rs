//! Tests that traffic keys are replaced in time, in both directions at once, during any other
//! activity.

use std::thread;

use godwit_net::{Cipher, Stream, StreamOptions};

use super::common::{expect, pair, send};

#[test]
fn keys_are_replaced_at_the_limit_and_nothing_is_lost() {
    for (cipher, plain_payload) in [
        (Cipher::Aes256Gcm, false),
        (Cipher::ChaCha20Poly1305, false),
        (Cipher::Aes128Gcm, true),
    ] {
        let options = StreamOptions {
            plain_payload,
            rekey_records: 3,
            ..StreamOptions::default()
        };
        let (mut client, mut server) = pair(&[cipher], &options);
        let frames = 300;
        thread::scope(|scope| {
            scope.spawn(|| {
                for seed in 0..frames {
                    send(&mut client, seed, 100, 300_000).unwrap();
                    expect(&mut client, 1000 + seed, 24, 0).unwrap();
                }
            });
            for seed in 0..frames {
                send(&mut server, 1000 + seed, 24, 0).unwrap();
                expect(&mut server, seed, 100, 300_000).unwrap();
            }
        });
        assert!(client.counters().key_updates >= frames / 4, "{cipher}");
        assert!(server.counters().key_updates >= frames / 4, "{cipher}");
    }
}

/// Hundreds of replacements in one direction while the other direction carries nothing, then an
/// answer.
#[test]
fn keys_are_replaced_on_a_stream_that_is_used_one_way() {
    let options = StreamOptions {
        rekey_records: 1,
        ..StreamOptions::default()
    };
    let (mut client, mut server) = pair(&[], &options);
    for seed in 0..500 {
        send(&mut client, seed, 50, 1000).unwrap();
        expect(&mut server, seed, 50, 1000).unwrap();
    }
    send(&mut server, 7, 20, 0).unwrap();
    expect(&mut client, 7, 20, 0).unwrap();
    assert!(client.counters().key_updates > 900);
}
