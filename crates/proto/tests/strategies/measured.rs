//! Generates measurements that one end reports to the other.
//! Checks nothing.

use godwit_proto::*;
use proptest::prelude::*;

pub(crate) fn status() -> impl Strategy<Value = Status> {
    let numbers = any::<([u64; 32], [u64; 31], [bool; 3], Option<u64>)>();
    (numbers, tuned()).prop_map(
        |((n, m, [drained, scan_done, wants_stream], max_rss_bytes), tuned)| Status {
            bytes_read: n[0],
            bytes_received: n[1],
            bytes_written: n[2],
            bytes_durable: n[3],
            files_done: n[4],
            files_skipped: n[5],
            bytes_skipped: n[6],
            bytes_resent: n[7],
            reading_ns: n[8],
            sending_ns: n[9],
            starved_ns: n[10],
            unacknowledged_ns: n[11],
            limited_ns: n[12],
            waiting_ns: n[13],
            receiving_ns: n[14],
            writing_ns: n[15],
            undurable_ns: n[16],
            syncing_ns: n[17],
            cpu_ns: n[18],
            max_rss_bytes,
            drained,
            scan_done,
            entries_scanned: n[19],
            bytes_scanned: n[20],
            entries_excluded: n[21],
            owners_lost: n[22],
            groups_lost: n[23],
            set_ids_lost: n[24],
            xattrs_lost: n[25],
            privileged_xattrs_lost: n[26],
            acls_lost: n[27],
            links_split: n[31],
            last_item: n[28],
            entries_failed: n[29],
            scan_faults: n[30],
            wants_stream,
            storage_reading_ns: m[0],
            storage_writing_ns: m[1],
            digesting_ns: m[2],
            cpu_waiting_ns: m[3],
            streams_ns: m[4],
            blocked_sending_ns: m[5],
            blocked_receiving_ns: m[6],
            helping_ns: m[7],
            tcp_busy_ns: m[8],
            tcp_window_limited_ns: m[9],
            tcp_buffer_limited_ns: m[10],
            tcp_segments_sent: m[11],
            tcp_segments_resent: m[12],
            tcp_bytes_sent: m[13],
            tcp_bytes_resent: m[14],
            tcp_bytes_acknowledged: m[15],
            streams: m[16],
            round_trip_ns: m[17],
            round_trip_min_ns: m[18],
            delivery_bytes_per_second: m[19],
            streams_app_limited: m[20],
            tcp_window_bytes: m[21],
            tcp_unacknowledged_bytes: m[22],
            tcp_unsent_bytes: m[23],
            cores: m[24],
            limit_bytes_per_second: m[25],
            elapsed_ns: m[26],
            paced_bytes: m[27],
            bytes_unmoved: m[28],
            times_lost: m[29],
            modes_lost: m[30],
            priority: u32::try_from(m[0] % 4).unwrap_or_default(),
            tuned,
        },
    )
}

fn tuned() -> impl Strategy<Value = Vec<Tuned>> {
    let one =
        (any::<(u64, [u32; 3])>(), ".{0,64}").prop_map(|((number, [what, from, to]), reason)| {
            Tuned {
                number,
                what,
                from,
                to,
                reason,
            }
        });
    prop::collection::vec(one, 0..=limits::TUNED_MAX)
}

pub(crate) fn sending() -> impl Strategy<Value = SendingStream> {
    any::<([u64; 15], bool)>().prop_map(|(n, delivery_app_limited)| SendingStream {
        round_trip_ns: n[0],
        round_trip_min_ns: n[1],
        delivery_bytes_per_second: n[2],
        delivery_app_limited,
        window_bytes: n[3],
        unacknowledged_bytes: n[4],
        unsent_bytes: n[5],
        busy_ns: n[6],
        window_limited_ns: n[7],
        buffer_limited_ns: n[8],
        segments_sent: n[9],
        segments_resent: n[10],
        bytes_sent: n[11],
        bytes_resent: n[12],
        bytes_acknowledged: n[13],
        blocked_ns: n[14],
    })
}
