//! Owns the tests of how a bottleneck is told from samples.
//! Runs no transfer.

use super::*;

const SECOND: u64 = 1_000_000_000;

/// Two streams over ten seconds that do nothing but wait for each other.
fn idle() -> Shares {
    let side = Snapshot {
        streams: 2,
        streams_ns: 20 * SECOND,
        elapsed_ns: 10 * SECOND,
        cores: 4,
        entries_scanned: 1,
        bytes_sent: 1_000_000_000,
        bytes_read: 1_000_000_000,
        bytes_received: 1_000_000_000,
        bytes_written: 1_000_000_000,
        ..Snapshot::default()
    };
    Shares {
        source: Some(Snapshot {
            blocked_sending_ns: 18 * SECOND,
            ..side
        }),
        destination: Some(Snapshot {
            waiting_ns: 18 * SECOND,
            ..side
        }),
    }
}

fn with(change: impl FnOnce(&mut Snapshot, &mut Snapshot)) -> Option<Finding> {
    let mut shares = idle();
    let (mut source, mut destination) = (shares.source.unwrap(), shares.destination.unwrap());
    change(&mut source, &mut destination);
    shares.source = Some(source);
    shares.destination = Some(destination);
    shares.finding(&[])
}

fn told(change: impl FnOnce(&mut Snapshot, &mut Snapshot)) -> (&'static str, String) {
    let finding = with(change).unwrap();
    (finding.stage.as_str(), finding.figure)
}

#[test]
fn nothing_measured_names_nothing() {
    assert_eq!(Shares::default().finding(&[]), None);
    let shares = Shares {
        source: Some(Snapshot::default()),
        destination: Some(Snapshot::default()),
    };
    assert_eq!(shares.finding(&[]), None);
}

#[test]
fn each_stage_is_named_with_its_figure() {
    assert_eq!(
        told(|source, _| {
            source.round_trip_ns = 50_400_000;
            source.round_trip_min_ns = 4_900_000;
            source.tcp_bytes_sent = 10_000;
            source.tcp_bytes_resent = 10;
        }),
        (
            "network",
            "800 Mbit/s on 2 streams, round trip 50 ms (least 4.9 ms), 0.10 % sent again"
                .to_owned()
        )
    );
    assert_eq!(
        told(|source, _| {
            source.blocked_sending_ns = 0;
            source.storage_reading_ns = 19 * SECOND;
            source.cpu_ns = SECOND;
        }),
        (
            "source storage",
            "100 MB/s read, readers busy 95 % of the time".to_owned()
        )
    );
    assert_eq!(
        told(|source, _| {
            source.blocked_sending_ns = SECOND;
            source.storage_reading_ns = 8 * SECOND;
            source.cpu_ns = 14 * SECOND;
            source.cpu_waiting_ns = 4 * SECOND;
        }),
        (
            "source CPU",
            "100 MB/s sent, 1.4 of 4 processors busy, threads waiting for one 22 % of the time"
                .to_owned()
        )
    );
    assert_eq!(
        told(|_, destination| {
            destination.waiting_ns = SECOND;
            destination.storage_writing_ns = 19 * SECOND;
            destination.cpu_ns = SECOND;
        }),
        (
            "destination storage",
            "100 MB/s written, writers busy 95 % of the time".to_owned()
        )
    );
    assert_eq!(
        told(|_, destination| {
            destination.waiting_ns = 0;
            destination.undurable_ns = 12 * SECOND;
            destination.syncing_ns = 10 * SECOND;
            destination.cpu_ns = SECOND;
        }),
        (
            "destination storage",
            "100 MB/s written, syncing 100 % of the time".to_owned()
        )
    );
    assert_eq!(
        told(|_, destination| {
            destination.waiting_ns = SECOND;
            destination.cpu_ns = 19 * SECOND;
        }),
        (
            "destination CPU",
            "100 MB/s written, 1.9 of 4 processors busy".to_owned()
        )
    );
    assert_eq!(
        told(|source, _| {
            source.limited_ns = 5 * SECOND;
            source.blocked_sending_ns = 0;
            source.limit_bytes_per_second = 100_000_000;
        }),
        ("limit", "100 MB/s sent of 100 MB/s allowed".to_owned())
    );
}

#[test]
fn a_limit_that_is_not_reached_limits_nothing() {
    let finding = with(|source, _| {
        source.limited_ns = 4 * SECOND;
        source.limit_bytes_per_second = 200_000_000;
    });
    assert_eq!(finding.unwrap().stage, Bottleneck::Network);
}

#[test]
fn a_source_that_has_sent_all_waits_for_the_disk_of_the_other_end() {
    let finding = with(|source, destination| {
        source.blocked_sending_ns = 0;
        source.starved_ns = 19 * SECOND;
        source.cpu_ns = SECOND;
        destination.syncing_ns = 9 * SECOND;
    });
    assert_eq!(finding.unwrap().stage, Bottleneck::DestinationStorage);
}

#[test]
fn a_full_window_of_a_busy_receiver_is_its_own_fault() {
    let slow = |source: &mut Snapshot, destination: &mut Snapshot| {
        source.tcp_busy_ns = 20 * SECOND;
        source.tcp_window_limited_ns = 15 * SECOND;
        destination.waiting_ns = 6 * SECOND;
        destination.storage_writing_ns = 14 * SECOND;
    };
    assert_eq!(with(slow).unwrap().stage, Bottleneck::DestinationStorage);
    let idle = with(|source, destination| {
        slow(source, destination);
        destination.waiting_ns = 18 * SECOND;
    });
    let idle = idle.unwrap();
    assert_eq!(idle.stage, Bottleneck::Network);
    assert!(idle.advice.unwrap().contains("tcp_rmem"));
}

#[test]
fn a_window_of_time_is_judged_by_itself() {
    let before = idle();
    let mut now = before;
    let destination = now.destination.as_mut().unwrap();
    destination.streams_ns += 2 * SECOND;
    destination.storage_writing_ns += 2 * SECOND;
    let source = now.source.as_mut().unwrap();
    source.streams_ns += 2 * SECOND;
    source.blocked_sending_ns += 2 * SECOND;
    assert_eq!(now.bottleneck(), Some(Bottleneck::Network));
    assert_eq!(
        now.since(&before).bottleneck(),
        Some(Bottleneck::DestinationStorage)
    );
}
