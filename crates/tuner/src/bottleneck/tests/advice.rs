//! Tests the table of advice for the settings in force. Runs no transfer.

use super::super::{Chosen, Snapshot};
use super::{SECOND, idle};

/// The advice with these settings.
fn advised(chosen: Chosen, change: impl FnOnce(&mut Snapshot, &mut Snapshot)) -> String {
    let mut end_counters = idle();
    let (mut source, mut destination) = (
        end_counters.source.unwrap(),
        end_counters.destination.unwrap(),
    );
    change(&mut source, &mut destination);
    end_counters.source = Some(source);
    end_counters.destination = Some(destination);
    let finding = end_counters.finding(&[], &chosen).unwrap();
    finding.advice.unwrap_or_default()
}

#[test]
fn nobody_is_advised_to_do_what_is_in_force_or_what_the_tuner_does() {
    let usual = Chosen::default();
    type Change = fn(&mut Snapshot, &mut Snapshot);
    let reads: Change = |source, _| {
        source.blocked_sending_ns = 0;
        source.storage_reading_ns = 19 * SECOND;
    };
    let writes: Change = |_, destination| {
        destination.waiting_ns = SECOND;
        destination.storage_writing_ns = 19 * SECOND;
    };
    let syncs: Change = |_, destination| {
        destination.waiting_ns = 0;
        destination.undurable_ns = 12 * SECOND;
        destination.syncing_ns = 10 * SECOND;
    };
    let busy: Change = |source, _| {
        source.blocked_sending_ns = 0;
        source.cores = 2;
        source.cpu_ns = 20 * SECOND;
    };
    let idle_processors: Change = |source, _| {
        source.blocked_sending_ns = 0;
        source.cpu_ns = 19 * SECOND;
    };
    let loses: Change = |source, _| {
        source.round_trip_min_ns = 50_000_000;
        source.tcp_bytes_sent = 1_000_000_000;
        source.tcp_bytes_resent = 2_000_000;
    };
    let loses_near: Change = |source, _| {
        source.round_trip_min_ns = 1_000_000;
        source.tcp_bytes_sent = 1_000_000_000;
        source.tcp_bytes_resent = 2_000_000;
    };
    let window: Change = |source, _| {
        source.tcp_busy_ns = 20 * SECOND;
        source.tcp_window_limited_ns = 15 * SECOND;
    };
    let two = Chosen {
        streams_most: 2,
        ..usual
    };
    let bbr = Chosen {
        bbr_is_left: true,
        ..usual
    };
    let doctor = "`godwit doctor` tells what the path can carry";
    let storage = "`godwit doctor` measures what it can do";
    let cases: [(&str, Chosen, Change, &str); 16] = [
        ("readers are found", usual, reads, storage),
        (
            "readers are fixed",
            Chosen {
                readers_free: false,
                ..usual
            },
            reads,
            "`--readers auto` tries whether more of them help; `godwit doctor` measures what it can do",
        ),
        ("writers are found", usual, writes, storage),
        (
            "writers are fixed",
            Chosen {
                writers_free: false,
                ..usual
            },
            writes,
            "`--writers auto` tries whether more of them help; `godwit doctor` measures what it can do",
        ),
        (
            "it syncs",
            usual,
            syncs,
            "`godwit doctor` measures what it can do; `--no-sync` does not wait for it, at the risk of a power cut",
        ),
        (
            "it does not sync",
            Chosen {
                syncs: false,
                ..usual
            },
            syncs,
            storage,
        ),
        (
            "the cheapest digest",
            usual,
            busy,
            "where the network is trusted, `--encryption none` costs less",
        ),
        (
            "another digest, no encryption",
            Chosen {
                costly_digest: true,
                encrypted: false,
                ..usual
            },
            busy,
            "`--digest crc64-nvme` costs less",
        ),
        (
            "nothing left",
            Chosen {
                encrypted: false,
                ..usual
            },
            busy,
            "",
        ),
        (
            "idle processors, the tuner knows",
            usual,
            idle_processors,
            "",
        ),
        (
            "idle processors, held",
            two,
            idle_processors,
            "processors are idle: `--streams auto` uses them",
        ),
        (
            "losses, nothing to choose",
            usual,
            loses,
            "packets are lost on the way; `godwit doctor` tells what the path can carry",
        ),
        (
            "losses, bbr is left",
            bbr,
            loses,
            "packets are lost on the way; `--congestion bbr` may carry more",
        ),
        (
            "losses on a short way, where doctor finds nothing to mend",
            bbr,
            loses_near,
            "packets are lost on the way; `godwit doctor` tells what the path can carry",
        ),
        (
            "a small window, the tuner adds streams",
            usual,
            window,
            doctor,
        ),
        (
            "a small window, streams are held",
            two,
            window,
            "the windows of the destination are small for this path; `--streams auto` adds as many as the path wants; or a larger net.ipv4.tcp_rmem there, see `godwit doctor`",
        ),
    ];
    for (name, chosen, change, text) in cases {
        assert_eq!(advised(chosen, change), text, "{name}");
    }
}
