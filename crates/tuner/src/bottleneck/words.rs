//! Formats a finding: evidence for the limiting stage, and advice for the user. Does not choose the stage.

use std::time::Duration;

use godwit_model::Bottleneck;

use super::{ChannelRate, Chosen, EndCounters, Finding, paths, per_second, positive, worth};
use crate::{STREAMS_MAX, Snapshot};

pub(super) fn finding(
    stage: Bottleneck,
    end_counters: &EndCounters,
    channels: &[ChannelRate],
    chosen: &Chosen,
) -> Finding {
    let source = end_counters.source.unwrap_or_default();
    let destination = end_counters.destination.unwrap_or_default();
    let (figure, advice) = match stage {
        Bottleneck::Limit => (
            limit(
                end_counters.sent_per_second(),
                source.limit_bytes_per_second,
            ),
            Some("`godwit limit` changes it while the transfer runs".to_owned()),
        ),
        Bottleneck::SourceStorage => source_storage(&source, chosen),
        Bottleneck::SourceCpu => (
            format!(
                "{}, {}",
                words_of_sending(end_counters, &source),
                processors(&source)
            ),
            processor_advice(&source, "source", chosen),
        ),
        Bottleneck::Network => network(end_counters, &source, &destination, channels, chosen),
        Bottleneck::DestinationCpu => (
            format!(
                "{}, {}",
                words_of_writing(&destination),
                processors(&destination)
            ),
            processor_advice(&destination, "destination", chosen),
        ),
        Bottleneck::DestinationStorage => destination_storage(&destination, chosen),
    };
    Finding {
        stage,
        figure,
        advice,
    }
}

/// Joins advice of one sentence from its parts, if there are any.
fn advice(parts: &[Option<&str>]) -> Option<String> {
    let parts: Vec<&str> = parts.iter().copied().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Threads that wait for a processor for less than this share of their time are not slowed down by the wait.
const WAITS: f64 = 0.1;

/// A processor digests and encrypts about fifty times this many bytes a second. At a lower rate, neither keeps the processor busy.
const BYTES_FOR_A_SECOND: f64 = 20e6;

/// Files below this mean size cost mainly by number, so their number is shown too.
const SMALL_BYTES: u64 = 16 << 10;

/// Advice to measure storage, which contradicts no other advice.
const STORAGE_IS_MEASURED: &str = "`godwit doctor` measures what it can do";

/// A block waits until all of it may be sent, so at a low rate nothing is sent for a long time.
fn limit(sent: f64, limit: u64) -> String {
    let allowed = bytes(limit as f64);
    if limit == 0 {
        format!("{} sent", bytes(sent))
    } else if sent > 0.0 {
        format!("{} sent of {allowed} allowed", bytes(sent))
    } else {
        format!("the next block waits, {allowed} allowed")
    }
}

fn source_storage(source: &Snapshot, chosen: &Chosen) -> (String, Option<String>) {
    if source.bytes_read == 0 {
        let entries = per_second(source.entries_scanned, source.elapsed_ns);
        return (
            format!("looking at {entries:.0} entries/s, nothing to send meanwhile"),
            Some("fewer and larger files are found faster".to_owned()),
        );
    }
    let figure = format!(
        "{} read, readers busy {} of the time",
        bytes(per_second(source.bytes_read, source.elapsed_ns)),
        percent(busy(source, source.storage_reading_ns))
    );
    (
        figure,
        advice(&[
            (!chosen.readers_free).then_some("`--readers auto` tries whether more of them help"),
            Some(STORAGE_IS_MEASURED),
        ]),
    )
}

fn destination_storage(destination: &Snapshot, chosen: &Chosen) -> (String, Option<String>) {
    let syncing = share(destination.syncing_ns, destination.elapsed_ns);
    let undurable = share(destination.undurable_ns, destination.streams_ns);
    if undurable > 0.3 || destination.bytes_written == 0 {
        let figure = format!(
            "{}, syncing {} of the time",
            words_of_writing(destination),
            percent(syncing)
        );
        let advice = advice(&[
            Some(STORAGE_IS_MEASURED),
            chosen
                .syncs
                .then_some("`--no-sync` does not wait for it, at the risk of a power cut"),
        ]);
        return (figure, advice);
    }
    let writing = destination
        .storage_writing_ns
        .saturating_add(destination.undurable_ns);
    let figure = format!(
        "{}, writers busy {} of the time",
        words_of_writing(destination),
        percent(busy(destination, writing))
    );
    (
        figure,
        advice(&[
            (!chosen.writers_free).then_some("`--writers auto` tries whether more of them help"),
            Some(STORAGE_IS_MEASURED),
        ]),
    )
}

fn network(
    end_counters: &EndCounters,
    source: &Snapshot,
    destination: &Snapshot,
    channels: &[ChannelRate],
    chosen: &Chosen,
) -> (String, Option<String>) {
    let received = per_second(destination.bytes_received, destination.elapsed_ns);
    let rate = if received > 0.0 {
        received
    } else {
        per_second(source.bytes_sent, source.elapsed_ns)
    };
    let count = source.streams.max(destination.streams);
    let mut figure = bytes(rate);
    if source.round_trip_ns > 0 {
        figure += &format!(
            ", round trip {} (least {})",
            milliseconds(source.round_trip_ns),
            milliseconds(source.round_trip_min_ns)
        );
    }
    let resent = share(source.tcp_bytes_resent, source.tcp_bytes_sent);
    if resent > 0.0 {
        figure += &format!(", {:.2} % sent again", resent * 100.0);
    }
    if let Some((channel, share)) = paths::slowest(channels) {
        figure += &format!(
            ", channel {} ({}) carries {} of it",
            channel.number,
            channel.name,
            percent(share)
        );
    }
    // Checked first: the transfer waits for the background pace, regardless of the reports of the sockets.
    if end_counters.is_at_pace() {
        let pace = per_second(source.paced_bytes, source.elapsed_ns);
        figure += &format!(", the pace of background transfers is {}", bytes(pace));
        let advice =
            "it yields to all others, as `--priority background` says: it takes what they leave";
        return (figure, Some(advice.to_owned()));
    }
    (
        figure,
        path_advice(source, chosen.holds_streams(count), chosen),
    )
}

/// Advice for a path. The tuner adds streams if they help, so the advice mentions streams only if the user has limited them.
fn path_advice(source: &Snapshot, held: bool, chosen: &Chosen) -> Option<String> {
    let window = share(source.tcp_window_limited_ns, source.tcp_busy_ns);
    let buffer = share(source.tcp_buffer_limited_ns, source.tcp_busy_ns);
    let more = held.then_some("`--streams auto` adds as many as the path wants");
    let most = source.streams >= u64::from(STREAMS_MAX);
    let doctor = "`godwit doctor` tells what the path can carry";
    if window > 0.3 && (held || most) {
        advice(&[
            Some("the windows of the destination are small for this path"),
            more,
            Some("or a larger net.ipv4.tcp_rmem there, see `godwit doctor`"),
        ])
    } else if buffer > 0.3 && (held || most) {
        advice(&[
            Some("the send buffers are small for this path"),
            more,
            Some("or a larger net.ipv4.tcp_wmem at the source, see `godwit doctor`"),
        ])
    } else if worth::loses_packets(source) {
        let bbr = chosen.bbr_is_left && worth::is_far(source);
        advice(&[
            Some("packets are lost on the way"),
            more,
            bbr.then_some("`--congestion bbr` may carry more"),
            (more.is_none() && !bbr).then_some(doctor),
        ])
    } else {
        advice(&[more, Some(doctor)])
    }
}

fn processors(side: &Snapshot) -> String {
    let used = share(side.cpu_ns, side.elapsed_ns);
    let waited = share(
        side.cpu_waiting_ns,
        side.cpu_ns.saturating_add(side.cpu_waiting_ns),
    );
    let mut figure = match side.cores {
        0 => format!("{used:.1} processors busy"),
        1 => format!("{used:.1} of 1 processor busy"),
        cores => format!("{used:.1} of {cores} processors busy"),
    };
    if waited > WAITS {
        figure += &format!(", threads waiting for one {} of the time", percent(waited));
    }
    figure
}

fn processor_advice(side: &Snapshot, name: &str, chosen: &Chosen) -> Option<String> {
    let used = share(
        side.cpu_ns.saturating_add(side.cpu_waiting_ns),
        side.elapsed_ns,
    );
    if side.cores > 0 && used < 0.7 * side.cores as f64 {
        // Otherwise the tuner has found that more streams do not help.
        return advice(&[chosen
            .holds_streams(side.streams)
            .then_some("processors are idle: `--streams auto` uses them")]);
    }
    // The cost of digests and encryption depends on the bytes, the cost of names on their number.
    let moved = side.bytes_sent.max(side.bytes_received);
    let by_byte = share(moved, side.cpu_ns) * 1e9 > BYTES_FOR_A_SECOND;
    let others = format!("run fewer other programs at the {name}");
    let waits = share(
        side.cpu_waiting_ns,
        side.cpu_ns.saturating_add(side.cpu_waiting_ns),
    );
    advice(&[
        (by_byte && chosen.costly_digest).then_some("`--digest crc64-nvme` costs less"),
        (by_byte && chosen.encrypted)
            .then_some("where the network is trusted, `--encryption none` costs less"),
        (!by_byte).then_some("fewer and larger files cost less"),
        (waits > WAITS).then_some(&others),
    ])
}

/// The share of its busy threads' time that a side spent in its storage.
fn busy(side: &Snapshot, storage: u64) -> f64 {
    share(
        storage,
        side.streams_ns
            .saturating_sub(side.starved_ns)
            .saturating_add(side.helping_ns),
    )
}

fn share(part: u64, whole: u64) -> f64 {
    positive(whole).map_or(0.0, |whole| part as f64 / whole)
}

fn words_of_writing(side: &Snapshot) -> String {
    let rate = per_second(side.bytes_written, side.elapsed_ns);
    let files = per_second(side.files_done, side.elapsed_ns);
    if side.bytes_written / SMALL_BYTES >= side.files_done {
        format!("{} written", bytes(rate))
    } else if side.bytes_written == 0 {
        format!("{files:.0} files/s made")
    } else {
        format!("{} written in {files:.0} files/s", bytes(rate))
    }
}

fn words_of_sending(end_counters: &EndCounters, source: &Snapshot) -> String {
    let rate = end_counters.sent_per_second();
    if rate > 0.0 || source.entries_scanned == 0 {
        return format!("{} sent", bytes(rate));
    }
    let entries = per_second(source.entries_scanned, source.elapsed_ns);
    format!("{entries:.0} entries/s announced")
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share.min(1.0) * 100.0)
}

fn milliseconds(nanoseconds: u64) -> String {
    let time = Duration::from_nanos(nanoseconds).as_secs_f64() * 1e3;
    if time < 10.0 {
        format!("{time:.1} ms")
    } else {
        format!("{time:.0} ms")
    }
}

fn bytes(per_second: f64) -> String {
    let mut value = per_second;
    let mut prefixes = ["", "k", "M", "G"].iter().peekable();
    while let Some(prefix) = prefixes.next() {
        if value < 999.5 || prefixes.peek().is_none() {
            let digits = usize::from(value < 9.95 && !prefix.is_empty());
            return format!("{value:.digits$} {prefix}B/s");
        }
        value /= 1000.0;
    }
    String::new()
}
