//! Tests how a bottleneck is found from samples. Runs no transfer.

mod advice;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::ChannelFigures;

const SECOND: u64 = 1_000_000_000;

/// Two streams over ten seconds that only wait for each other.
fn idle() -> EndCounters {
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
    EndCounters {
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
    let mut end_counters = idle();
    let (mut source, mut destination) = (
        end_counters.source.unwrap(),
        end_counters.destination.unwrap(),
    );
    change(&mut source, &mut destination);
    end_counters.source = Some(source);
    end_counters.destination = Some(destination);
    end_counters.finding(&[], &Chosen::default())
}

fn reported(change: impl FnOnce(&mut Snapshot, &mut Snapshot)) -> (&'static str, String) {
    let finding = with(change).unwrap();
    (finding.stage.as_str(), finding.figure)
}

#[test]
fn files_without_bytes_are_counted_by_the_piece() {
    let busy = |source: &mut Snapshot, destination: &mut Snapshot| {
        for side in [source, destination] {
            (side.bytes_read, side.bytes_sent) = (0, 0);
            (side.bytes_received, side.bytes_written) = (0, 0);
            side.entries_scanned = 1_000_000;
        }
    };
    let at_destination = with(|source, destination| {
        busy(source, destination);
        source.blocked_sending_ns = 0;
        destination.waiting_ns = 0;
        destination.files_done = 1_000_000;
        destination.cpu_ns = 38 * SECOND;
    });
    let finding = at_destination.unwrap();
    assert_eq!(finding.stage, Bottleneck::DestinationCpu);
    assert_eq!(
        finding.figure,
        "100000 files/s made, 3.8 of 4 processors busy"
    );
    let advice = finding.advice.unwrap();
    assert_eq!(advice, "fewer and larger files cost less");
    let small = with(|source, destination| {
        busy(source, destination);
        source.blocked_sending_ns = 0;
        destination.waiting_ns = 0;
        destination.files_done = 1_000_000;
        destination.bytes_received = 10_000_000;
        destination.bytes_written = 10_000_000;
        destination.cpu_ns = 38 * SECOND;
    });
    let figure = small.unwrap().figure;
    assert!(
        figure.starts_with("1.0 MB/s written in 100000 files/s, "),
        "{figure}"
    );
    let at_source = with(|source, destination| {
        busy(source, destination);
        source.blocked_sending_ns = 0;
        source.cpu_ns = 38 * SECOND;
        destination.files_done = 1_000_000;
    });
    let finding = at_source.unwrap();
    assert_eq!(finding.stage, Bottleneck::SourceCpu);
    assert_eq!(
        finding.figure,
        "100000 entries/s announced, 3.8 of 4 processors busy"
    );
    assert_eq!(finding.advice.unwrap(), "fewer and larger files cost less");
}

#[test]
fn an_idle_processor_is_not_what_limits() {
    // Parts of ten seconds.
    for (streams_ns, cpu_ns) in [(4 * SECOND, 2 * SECOND), (8 * SECOND, 6 * SECOND)] {
        let finding = with(|source, destination| {
            (source.blocked_sending_ns, destination.waiting_ns) = (0, 0);
            for side in [source, destination] {
                (side.streams_ns, side.cpu_ns) = (streams_ns, cpu_ns);
            }
        });
        let stage = finding.map(|finding| finding.stage);
        let wanted = (cpu_ns > 5 * SECOND).then_some(Bottleneck::DestinationCpu);
        assert_eq!(stage, wanted, "{cpu_ns}");
    }
}

#[test]
fn nothing_measured_names_nothing() {
    assert_eq!(
        EndCounters::default().finding(&[], &Chosen::default()),
        None
    );
    let end_counters = EndCounters {
        source: Some(Snapshot::default()),
        destination: Some(Snapshot::default()),
    };
    assert_eq!(end_counters.finding(&[], &Chosen::default()), None);
}

#[test]
fn each_stage_is_named_with_its_figure() {
    assert_eq!(
        reported(|source, _| {
            source.round_trip_ns = 50_400_000;
            source.round_trip_min_ns = 4_900_000;
            source.tcp_bytes_sent = 10_000;
            source.tcp_bytes_resent = 10;
        }),
        (
            "network",
            "100 MB/s, round trip 50 ms (least 4.9 ms), 0.10 % sent again".to_owned()
        )
    );
    assert_eq!(
        reported(|source, _| {
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
        reported(|source, _| {
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
        reported(|_, destination| {
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
        reported(|_, destination| {
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
        reported(|_, destination| {
            destination.waiting_ns = SECOND;
            destination.cpu_ns = 19 * SECOND;
        }),
        (
            "destination CPU",
            "100 MB/s written, 1.9 of 4 processors busy".to_owned()
        )
    );
    assert_eq!(
        reported(|source, _| {
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
    assert_eq!(idle.unwrap().stage, Bottleneck::Network);
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

#[test]
fn uncounted_time_is_not_work() {
    // A wait is counted when it ends. At the beginning of a transfer no wait has ended, and hardly any work was done.
    let begun = |source: &mut Snapshot, destination: &mut Snapshot| {
        for side in [source, destination] {
            *side = Snapshot {
                streams: 2,
                streams_ns: 4 * SECOND,
                elapsed_ns: 2 * SECOND,
                cores: 2,
                entries_scanned: 1,
                bytes_sent: 1_000_000,
                bytes_received: 1_000_000,
                cpu_ns: 4_000_000,
                ..Snapshot::default()
            };
        }
    };
    assert_eq!(with(begun), None);
    let ends = with(|source, destination| {
        begun(source, destination);
        source.cpu_ns = 0;
        destination.cpu_ns = 0;
    });
    assert_eq!(ends, None);
    let mut end_counters = idle();
    end_counters.source = None;
    end_counters.destination.as_mut().unwrap().waiting_ns = 0;
    assert_eq!(end_counters.finding(&[], &Chosen::default()), None);
    // A visible bottleneck is reported, even if the other end sends no counters.
    let finding = with(|source, destination| {
        begun(source, destination);
        source.cpu_ns = 3 * SECOND;
    });
    assert_eq!(finding.unwrap().stage, Bottleneck::SourceCpu);
}

#[test]
fn one_thread_that_works_for_all_streams_is_named() {
    // Eight streams wait for the only writer, or for the only reader.
    let finding = with(|_, destination| {
        destination.streams_ns = 80 * SECOND;
        destination.waiting_ns = 0;
        destination.helping_ns = 9 * SECOND;
        destination.storage_writing_ns = 9 * SECOND;
    });
    assert_eq!(finding.unwrap().stage, Bottleneck::DestinationStorage);
    let finding = with(|source, _| {
        source.streams_ns = 80 * SECOND;
        source.blocked_sending_ns = 0;
        source.starved_ns = 70 * SECOND;
        source.helping_ns = 9 * SECOND;
        source.storage_reading_ns = 9 * SECOND;
    });
    assert_eq!(finding.unwrap().stage, Bottleneck::SourceStorage);
}

#[test]
fn a_small_limit_is_named_while_a_block_waits() {
    let waits = |source: &mut Snapshot, destination: &mut Snapshot| {
        source.limit_bytes_per_second = 1;
        source.blocked_sending_ns = 0;
        source.limited_ns = 19 * SECOND;
        source.bytes_sent = 0;
        destination.bytes_received = 0;
        destination.waiting_ns = 20 * SECOND;
    };
    assert_eq!(
        reported(waits),
        ("limit", "the next block waits, 1 B/s allowed".to_owned())
    );
    // The last block waits on one stream; the three other streams have no block.
    let stage = reported(|source, destination| {
        waits(source, destination);
        source.streams_ns = 40 * SECOND;
        source.limited_ns = 9 * SECOND;
        source.starved_ns = 30 * SECOND;
    });
    assert_eq!(stage.0, "limit");
}

#[test]
fn a_peer_that_does_not_tell_what_it_has_sent_is_judged_by_what_arrives() {
    assert_eq!(
        reported(|source, _| {
            source.bytes_sent = 0;
            source.limited_ns = 5 * SECOND;
            source.blocked_sending_ns = 0;
            source.limit_bytes_per_second = 100_000_000;
        }),
        ("limit", "100 MB/s sent of 100 MB/s allowed".to_owned())
    );
}

/// Counters that no honest end sends.
fn absurd() -> impl Strategy<Value = Snapshot> {
    let number = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX / 2),
        any::<u64>()
    ];
    let count = Snapshot::default().fields().count();
    proptest::collection::vec(number, count).prop_map(|numbers| {
        let names: Vec<_> = Snapshot::default().fields().map(|(name, _)| name).collect();
        Snapshot::of_fields(|name| {
            let at = names.iter().position(|known| *known == name);
            at.map_or(0, |at| numbers[at])
        })
    })
}

proptest! {
    #[test]
    fn absurd_counters_are_reported_without_panic(
        source in proptest::option::of(absurd()),
        destination in proptest::option::of(absurd()),
        before in absurd(),
    ) {
        let end_counters = EndCounters { source, destination };
        let earlier = EndCounters { source: Some(before), destination: Some(before) };
        let channels = ChannelRate::between(&[], &[
            channel(0, 1, before.bytes_sent),
            channel(1, 1, before.bytes_read),
        ]);
        for end_counters in [end_counters, end_counters.since(&earlier)] {
            end_counters.finding(&channels, &Chosen::default());
            let figure_of = |stage| words::finding(stage, &end_counters, &channels, &Chosen::default());
            for stage in [
                Bottleneck::SourceStorage,
                Bottleneck::SourceCpu,
                Bottleneck::Network,
                Bottleneck::DestinationCpu,
                Bottleneck::DestinationStorage,
                Bottleneck::Limit,
            ] {
                figure_of(stage);
            }
        }
    }
}

fn channel(number: u32, seconds: u64, bytes: u64) -> ChannelFigures {
    ChannelFigures {
        number,
        name: format!("eth{number}"),
        streams: 0,
        bytes,
        round_trip: Duration::ZERO,
        resent_bytes: 0,
        cuts: 0,
        age: Duration::from_secs(seconds),
    }
}

/// The finding about the network, from the byte counts of the channels at one moment and at a later one.
fn figure_of_channels(then: &[ChannelFigures], now: &[ChannelFigures]) -> String {
    let finding = idle()
        .finding(&ChannelRate::between(then, now), &Chosen::default())
        .unwrap();
    assert_eq!(finding.stage, Bottleneck::Network);
    finding.figure
}

#[test]
fn a_channel_is_named_that_carries_less_than_the_others_or_than_before() {
    let carries = |figure: &str| figure.contains("carries");
    let even = [channel(0, 10, 1000), channel(1, 10, 1100)];
    assert!(!carries(&figure_of_channels(&[], &even)));
    // No byte arrived in the last second, because the channel has no streams.
    let dead = [channel(0, 14, 1400), channel(1, 14, 1100)];
    let figure = figure_of_channels(&even, &dead);
    assert!(
        figure.ends_with(", channel 1 (eth1) carries 0 % of it"),
        "{figure}"
    );
    // The channel works again, and is as fast as the other.
    let back = [channel(0, 18, 1800), channel(1, 18, 1500)];
    assert!(!carries(&figure_of_channels(&dead, &back)));
    // The channel carried more than the other, and now carries less than half of that.
    let uneven = [channel(0, 10, 4000), channel(1, 10, 2500)];
    let fallen = [channel(0, 20, 5500), channel(1, 20, 5000)];
    let figure = figure_of_channels(&uneven, &fallen);
    assert!(
        figure.ends_with(", channel 0 (eth0) carries 38 % of it"),
        "{figure}"
    );
    // Both channels are slower, so neither is reported.
    let both = [channel(0, 20, 4400), channel(1, 20, 2780)];
    assert!(!carries(&figure_of_channels(&uneven, &both)));
}

#[test]
fn a_channel_that_has_just_begun_is_not_named() {
    let then = [channel(0, 10, 1000)];
    let now = [channel(0, 14, 1400), channel(1, 0, 10)];
    assert!(!figure_of_channels(&then, &now).contains("carries"));
    // The channel started late, but is as fast as the other.
    let now = [channel(0, 14, 1400), channel(1, 2, 200)];
    assert!(!figure_of_channels(&[], &now).contains("carries"));
}

#[test]
fn a_transfer_in_the_background_says_that_it_yields() {
    let paced = |sent| {
        with(|source, _| {
            source.paced_bytes = 1_000_000_000;
            source.tcp_bytes_sent = sent;
            source.tcp_bytes_resent = sent / 50;
        })
        .unwrap()
    };
    let held = paced(950_000_000);
    assert_eq!(held.stage, Bottleneck::Network);
    let pace = "the pace of background transfers is 100 MB/s";
    assert!(held.figure.ends_with(pace), "{}", held.figure);
    assert!(held.advice.unwrap().contains("yields"));
    // The path is slower than its pace.
    let free = paced(500_000_000);
    assert!(!free.figure.contains("pace"), "{}", free.figure);
    assert!(free.advice.unwrap().contains("lost"));
}
