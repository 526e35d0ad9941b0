//! Samples of the questions and answers of two ends about each other's machine. Contains no
//! messages of a transfer.

use super::*;

pub(super) fn examine() -> Examine {
    Examine {
        nonce: 7,
        filler: b"xyz".to_vec(),
        filler_wanted: 300,
        machine: true,
        place: b"data/d".to_vec(),
        dial: true,
    }
}

pub(super) fn examined() -> Examined {
    Examined {
        nonce: 7,
        clock_seconds: -2,
        clock_nanoseconds: 5,
        held_ns: 1000,
        filler: b"\0\0".to_vec(),
        way: Some(PathSeen {
            round_trip_ns: 128,
            path_mtu_bytes: 1500,
            segment_bytes: 1448,
        }),
        machine: Some(MachineSeen {
            send_buffer_bytes: 4096,
            receive_buffer_bytes: 300,
            congestion: "bbr".to_owned(),
            cores: 2,
            seal_bytes_per_second: 1,
            digest_bytes_per_second: 2,
        }),
        storage: Some(StorageSeen {
            free_bytes: 1,
            write_bytes_per_second: 2,
            read_bytes_per_second: 3,
            problem: "p".to_owned(),
        }),
        dialled: vec![Dialled::new("192.0.2.1:5", "no")],
    }
}
