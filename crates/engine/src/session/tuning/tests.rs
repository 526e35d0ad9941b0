//! Tests of the tuner's inputs.
//! Runs no transfer.

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A second in which two streams wait for room, on a path that carries 100 MB; `paced_bytes` is how many bytes
/// the pace allows.
fn waiting(paced_bytes: u64) -> EndCounters {
    let source = Snapshot {
        streams: 2,
        streams_ns: 2 * SECOND,
        elapsed_ns: SECOND,
        blocked_sending_ns: 2 * SECOND,
        tcp_bytes_sent: 100_000_000,
        paced_bytes,
        cores: 4,
        ..Snapshot::default()
    };
    EndCounters {
        source: Some(source),
        destination: None,
    }
}

#[test]
fn its_own_pace_in_the_background_is_not_the_network() {
    let pace = Holdup::Elsewhere("the pace of background transfers");
    assert_eq!(holdup(&waiting(101_000_000)), pace);
    // Retransmitted bytes and bytes in the sockets may exceed the allowed amount.
    assert_eq!(holdup(&waiting(90_000_000)), pace);
    // The path or the windows carry less than the pace allows. A transfer outside the background has no pace.
    assert_eq!(holdup(&waiting(150_000_000)), Holdup::Network);
    assert_eq!(holdup(&waiting(0)), Holdup::Network);
}

#[test]
fn a_transfer_at_its_own_pace_gets_no_streams() {
    // The pace grows, as it does when other traffic has ended: any trial meanwhile would have succeeded.
    let mut tuner = StreamTuner::new(Bounds::STREAMS, 2);
    let mut sample = ChannelSample {
        round_trip: Duration::from_millis(50),
        round_trip_min: Duration::from_millis(50),
        segment_bytes: 1448,
        ..ChannelSample::default()
    };
    let mut pace = 4_000_000_u64;
    for tick in 0..600_u64 {
        let second = tick / 10;
        pace = if second % 20 == 0 {
            4_000_000
        } else {
            (pace + pace / 50).min(80_000_000)
        };
        sample.streams = tuner.target();
        sample.bytes += pace / 10;
        sample.segments += pace / 10 / 1448;
        sample.retransmitted += pace / 10 / 1448 / 1000;
        sample.busy += Duration::from_millis(100) * sample.streams;
        let reported = holdup(&waiting(101_000_000));
        let decision = tuner.step(Duration::from_millis(tick * 100), &sample, reported);
        assert_eq!(decision, None, "at {} ms", tick * 100);
    }
    assert_eq!(tuner.target(), 2);
}

/// The last blocks are in sockets. The total rate then says nothing about streams, so none are added.
#[test]
fn an_end_that_has_handed_all_to_its_streams_has_stopped_sending() {
    let source = |bytes_sent, sending_ns| EndCounters {
        source: Some(Snapshot {
            bytes_sent,
            sending_ns,
            elapsed_ns: SECOND,
            ..Snapshot::default()
        }),
        destination: None,
    };
    assert!(has_stopped_sending(&source(0, 0)));
    // Before the first status of a remote sender, and while a stream waits for its socket or sends.
    assert!(!has_stopped_sending(&EndCounters::default()));
    assert!(!has_stopped_sending(&source(0, SECOND)));
    assert!(!has_stopped_sending(&source(1, SECOND)));
}
