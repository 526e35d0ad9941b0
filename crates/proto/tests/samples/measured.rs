//! Samples of frames with measurements. Checks nothing.

use godwit_proto::*;

pub(super) fn all() -> Vec<(&'static str, Frame)> {
    vec![
        (
            "status_measured",
            Frame::Status(Status {
                storage_reading_ns: 43000,
                storage_writing_ns: 44000,
                digesting_ns: 45000,
                cpu_waiting_ns: 46000,
                streams_ns: 47000,
                blocked_sending_ns: 48000,
                blocked_receiving_ns: 49000,
                helping_ns: 50000,
                tcp_busy_ns: 51000,
                tcp_window_limited_ns: 52000,
                tcp_buffer_limited_ns: 53000,
                tcp_segments_sent: 54000,
                tcp_segments_resent: 55000,
                tcp_bytes_sent: 56000,
                tcp_bytes_resent: 57000,
                tcp_bytes_acknowledged: 58000,
                streams: 59000,
                round_trip_ns: 60000,
                round_trip_min_ns: 61000,
                delivery_bytes_per_second: 62000,
                streams_app_limited: 63000,
                tcp_window_bytes: 64000,
                tcp_unacknowledged_bytes: 65000,
                tcp_unsent_bytes: 66000,
                cores: 67000,
                limit_bytes_per_second: 68000,
                elapsed_ns: 69000,
                paced_bytes: 71000,
                ..Status::default()
            }),
        ),
        (
            "status_tuned",
            Frame::Status(Status {
                tuned: vec![
                    Tuned {
                        number: 300,
                        what: Tuned::READERS,
                        from: 2,
                        to: 4,
                        reason: "r\u{e9}".to_owned(),
                    },
                    Tuned {
                        number: 301,
                        what: Tuned::WRITERS,
                        from: 0,
                        to: 16,
                        reason: "w".to_owned(),
                    },
                ],
                ..Status::default()
            }),
        ),
        (
            "sending",
            Frame::SendingStream(SendingStream {
                round_trip_ns: 1000,
                round_trip_min_ns: 2000,
                delivery_bytes_per_second: 3000,
                delivery_app_limited: true,
                window_bytes: 5000,
                unacknowledged_bytes: 6000,
                unsent_bytes: 7000,
                busy_ns: 8000,
                window_limited_ns: 9000,
                buffer_limited_ns: 10000,
                segments_sent: 11000,
                segments_resent: 12000,
                bytes_sent: 13000,
                bytes_resent: 14000,
                bytes_acknowledged: 15000,
                blocked_ns: 16000,
            }),
        ),
        (
            "status_priority",
            Frame::Status(Status {
                priority: priority::BACKGROUND,
                ..Status::default()
            }),
        ),
        (
            "limit",
            Frame::Limit(Limit {
                bytes_per_second: 300_000_000,
                priority: 0,
            }),
        ),
        (
            "limit_priority",
            Frame::Limit(Limit {
                bytes_per_second: 300_000_000,
                priority: priority::BACKGROUND,
            }),
        ),
        (
            "open_sharing",
            Frame::Open(Open {
                direction: Direction::PULL.0,
                sources: vec![b"e/f".to_vec()],
                digest: DigestKind::CRC64_NVME.0.into(),
                sharing: Some(Sharing {
                    congestion: "cubic".to_owned(),
                    background: true,
                }),
                ..Open::default()
            }),
        ),
        (
            "open_label",
            Frame::Open(Open {
                direction: Direction::PULL.0,
                sources: vec![b"e/f".to_vec()],
                digest: DigestKind::CRC64_NVME.0.into(),
                label: "job".to_owned(),
                ..Open::default()
            }),
        ),
        (
            "open_view",
            Frame::Open(Open {
                direction: Direction::PULL.0,
                sources: vec![b"e/f".to_vec()],
                destination: b"/here".to_vec(),
                digest: DigestKind::CRC64_NVME.0.into(),
                view: vec![0x55; 16],
                ..Open::default()
            }),
        ),
        (
            "open_one_file_system",
            Frame::Open(Open {
                direction: Direction::PULL.0,
                sources: vec![b"e/f".to_vec()],
                digest: DigestKind::CRC64_NVME.0.into(),
                selection: Some(Selection {
                    one_file_system: true,
                    ..Selection::default()
                }),
                ..Open::default()
            }),
        ),
        (
            "open_ground",
            Frame::Open(Open {
                direction: Direction::PULL.0,
                sources: vec![b"e/f".to_vec()],
                destination: b"/here".to_vec(),
                digest: DigestKind::CRC64_NVME.0.into(),
                ground: Some(Ground {
                    tops: vec![1, 2],
                    around: vec![3],
                    mounts: vec![4],
                    mounts_around: vec![5],
                    own: true,
                    alike: vec![6],
                    alike_around: vec![7, 8],
                }),
                beacon: Some(beacon()),
                ..Open::default()
            }),
        ),
    ]
}

/// The beacon of a transfer `into` a directory that does not exist yet.
pub(super) fn beacon() -> Beacon {
    Beacon {
        name: b".godwit-00112233445566778899aabbccddeeff".to_vec(),
        above: b"top/a".to_vec(),
        rest: b"into".to_vec(),
        into: true,
    }
}
