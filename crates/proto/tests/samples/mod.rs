//! Samples of frames of each kind, for the tests and the seeds of the fuzzer. Checks nothing.

mod asking;
mod channels;
mod examination;
mod measured;
mod metadata;
mod parts;

use godwit_proto::*;

/// A name for each frame; names begin with the name of the frame's kind.
pub(crate) fn all() -> Vec<(&'static str, Frame)> {
    let mut all = setup();
    all.extend(items());
    all.extend(blocks());
    all.extend(watch());
    all.extend([channels::all(), asking::all(), parts::all()].concat());
    all.extend(metadata::all());
    all.extend(measured::all());
    all
}

fn transfer() -> TransferId {
    TransferId([0x11; 16])
}

fn setup() -> Vec<(&'static str, Frame)> {
    let open = Open {
        direction: Direction::PUSH.0,
        sources: vec![b"run42".to_vec(), b"\xff".to_vec()],
        destination: b"data/".to_vec(),
        destination_is_directory: true,
        digest: DigestKind::CRC64_NVME.0.into(),
        plain_payload: true,
        retry_for_ms: 300_000,
        streams: 4,
        block_bytes: 524_288,
        names: vec![b"run42".to_vec(), Vec::new()],
        ..Open::default()
    };
    let comparison = Comparison {
        judge: Judge::CHECKSUM.0,
        delete: true,
        max_delete: Some(300),
        dry_run: true,
        counterpart: true,
        ..Comparison::default()
    };
    let sync = Open {
        direction: Direction::PULL.0,
        sources: vec![b"data/run42".to_vec()],
        destination: b"/here".to_vec(),
        comparison: Some(comparison),
        ..Open::default()
    };
    let opened = Opened {
        transfer: transfer().0.to_vec(),
        tokens: vec![vec![0x22; 16], vec![0x33; 16]],
        resumed: true,
        lost_bytes: 1000,
        destination: b"/srv/data/run42".to_vec(),
        block_bytes: 524_288,
        streams_max: 64,
        addresses: Vec::new(),
        ..Opened::default()
    };
    let redigested = Opened {
        digest: 2,
        ..opened.clone()
    };
    let buffering = Opened {
        buffer_bytes: 4_194_304,
        ..opened.clone()
    };
    let lit = Opened {
        beacon: Some(measured::beacon()),
        ..opened.clone()
    };
    let unproved = Opened {
        unproved: true,
        ..opened.clone()
    };
    let holding = Opened {
        held_bytes: 685_000_000,
        held_files: 2_927,
        durable: true,
        ..opened.clone()
    };
    vec![
        ("hello", Frame::Hello(Hello::ours("godwit 0.1.0", 3))),
        ("open", Frame::Open(open)),
        ("open_selection", Frame::Open(selecting())),
        ("open_sync", Frame::Open(sync)),
        ("open_verification", Frame::Open(verifying())),
        ("open_in_order", Frame::Open(in_order())),
        ("open_random_order", Frame::Open(random_order())),
        ("opened", Frame::Opened(opened)),
        ("opened_digest", Frame::Opened(redigested)),
        ("opened_buffer", Frame::Opened(buffering)),
        ("opened_beacon", Frame::Opened(lit)),
        ("opened_unproved", Frame::Opened(unproved)),
        ("opened_held", Frame::Opened(holding)),
        (
            "join",
            Frame::Join(Join::new(transfer(), Token([0x22; 16]), 0)),
        ),
        (
            "joined",
            Frame::Joined(Joined {
                tokens: vec![vec![0x44; 16]],
            }),
        ),
    ]
}

fn selecting() -> Open {
    let rule = |include, pattern: &[u8]| Rule {
        include,
        pattern: pattern.to_vec(),
    };
    let selection = Selection {
        rules: vec![rule(true, b"*.dat"), rule(false, b"/caf\xe9/")],
        bytes_min: 1,
        bytes_max: Some(0),
        newer: Some(Moment {
            seconds: -1,
            nanoseconds: 500_000_000,
        }),
        older: Some(Moment {
            seconds: 1_700_000_000,
            nanoseconds: 0,
        }),
        listed: true,
        recursive: true,
        one_file_system: false,
    };
    Open {
        direction: Direction::PULL.0,
        sources: vec![b"data/run42".to_vec()],
        digest: DigestKind::CRC64_NVME.0.into(),
        selection: Some(selection),
        ..Open::default()
    }
}

fn verifying() -> Open {
    Open {
        direction: Direction::VERIFY.0,
        sources: vec![b"data/run42".to_vec()],
        digest: DigestKind::BLAKE3.0.into(),
        verification: Some(Verification {
            contents_only: true,
            extra: true,
            durable: true,
        }),
        ..Open::default()
    }
}

fn random_order() -> Open {
    Open {
        in_order: false,
        random_order: true,
        ..in_order()
    }
}

fn in_order() -> Open {
    Open {
        direction: Direction::PULL.0,
        sources: vec![b"data/run42".to_vec()],
        digest: DigestKind::CRC64_NVME.0.into(),
        in_order: true,
        ..Open::default()
    }
}

fn file(id: u64, path: &[u8], bytes: u64) -> Record {
    Record {
        id: EntryId(id),
        kind: EntryKind::FILE,
        generation: Generation(0x0102_0304_0506_0708),
        bytes,
        mtime_seconds: 1_700_000_000,
        mtime_nanoseconds: 123_456_789,
        mode: 0o644,
        uid: 1000,
        gid: 100,
        path: path.to_vec(),
        ..Record::default()
    }
}

fn items() -> Vec<(&'static str, Frame)> {
    let directory = Record {
        kind: EntryKind::DIRECTORY,
        mode: 0o755,
        ..file(1, b"sub", 0)
    };
    let symlink = Record {
        kind: EntryKind::SYMLINK,
        target: b"../x".to_vec(),
        mtime_seconds: -1,
        extensions: b"\xe7\x03\x03\0abc".to_vec(),
        ..file(3, b"sub/link", 0)
    };
    let manifest = Manifest {
        transfer: transfer(),
        seq: Seq(7),
        records: vec![
            directory,
            file(2, b"sub/file", 5),
            symlink,
            Record {
                root: 1,
                ..file(4, b"", 9)
            },
        ],
    };
    let fault = Fault {
        entry: EntryId(6),
        side: Side::DESTINATION,
        code: FaultCode::NO_SPACE,
        errno: Some(28),
        message: "full".to_owned(),
    };
    let held = vec![
        HeldRange {
            offset: 0,
            bytes: 1 << 20,
            digest: Digest([0x55; 32]),
        },
        HeldRange {
            offset: 4 << 20,
            bytes: 1 << 19,
            digest: Digest([0x66; 32]),
        },
    ];
    let verdicts = vec![
        Verdict::Send,
        Verdict::Send,
        Verdict::Skip,
        Verdict::Partial { held },
        Verdict::Done,
        Verdict::Failed(fault.clone()),
        Verdict::Digest,
        Verdict::Adjusted,
        Verdict::Adjusted,
    ];
    let ack = Ack {
        transfer: transfer(),
        items: vec![
            AckRange {
                first: Seq(1),
                last: Seq(9),
                status: AckStatus::WRITTEN,
            },
            AckRange {
                first: Seq(1),
                last: Seq(1),
                status: AckStatus::DURABLE,
            },
            AckRange {
                first: Seq(4),
                last: Seq(5),
                status: AckStatus::RESEND,
            },
        ],
    };
    vec![
        ("manifest", Frame::Manifest(manifest)),
        (
            "answer",
            Frame::Answer(Answer {
                transfer: transfer(),
                seq: Seq(7),
                verdicts,
            }),
        ),
        ("ack", Frame::Ack(ack)),
        (
            "entry_failed",
            Frame::EntryFailed(EntryFailed {
                transfer: transfer(),
                seq: Seq(8),
                root: 1,
                path: b"dir/full".to_vec(),
                fault,
            }),
        ),
    ]
}

fn slice(record: Record) -> Block {
    let header = BlockHeader {
        transfer: transfer(),
        seq: Seq(8),
        kind: BlockKind::SLICE,
        digest_kind: DigestKind::CRC64_NVME,
        entry: record.id,
        generation: record.generation,
        entry_bytes: record.bytes,
        digest: Digest([0x77; 32]),
        records: 1,
        ..BlockHeader::default()
    };
    Block {
        header,
        ranges: Vec::new(),
        records: vec![record],
    }
}

fn blocks() -> Vec<(&'static str, Frame)> {
    let mut last = slice(Record {
        flags: RecordFlags::HAS_DIGEST | RecordFlags::END | RecordFlags::DENSE,
        data_bytes: 5000,
        digest: Some(Digest([0x88; 32])),
        ..file(2, b"big", 5000)
    });
    last.header = BlockHeader {
        offset: 4096,
        length: 904,
        payload_bytes: 904,
        meta_bytes: 107,
        ..last.header
    };

    let mut sparse = slice(file(2, b"holes", 1 << 40));
    sparse.header = BlockHeader {
        flags: block::SPARSE,
        offset: 1 << 30,
        length: 1 << 20,
        payload_bytes: 8192,
        meta_bytes: 69,
        ranges: 2,
        ..sparse.header
    };
    sparse.ranges = vec![
        Range {
            offset: (1 << 30) + 4096,
            bytes: 4096,
        },
        Range {
            offset: (1 << 30) + 65_536,
            bytes: 4096,
        },
    ];

    let small = |id, path, bytes| Record {
        flags: RecordFlags::HAS_DIGEST,
        digest: Some(Digest([0x99; 32])),
        ..file(id, path, bytes)
    };
    let failed = Record {
        flags: RecordFlags::SOURCE_FAILED,
        ..file(5, b"a/gone", 0)
    };
    let header = BlockHeader {
        transfer: transfer(),
        seq: Seq(9),
        kind: BlockKind::BUNDLE,
        digest_kind: DigestKind::BLAKE3,
        payload_bytes: 300,
        meta_bytes: 268,
        records: 3,
        ..BlockHeader::default()
    };
    let records = vec![small(3, b"a/one", 100), small(4, b"a/two", 200), failed];
    vec![
        ("block_slice", Frame::Block(last)),
        ("block_sparse", Frame::Block(sparse)),
        (
            "block_bundle",
            Frame::Block(Block {
                header,
                ranges: Vec::new(),
                records,
            }),
        ),
    ]
}

fn watch() -> Vec<(&'static str, Frame)> {
    let status = Status {
        bytes_read: 1,
        bytes_durable: 300,
        cpu_ns: 5,
        max_rss_bytes: Some(1 << 20),
        drained: true,
        scan_done: true,
        entries_scanned: 3,
        bytes_scanned: 4,
        ..Status::default()
    };
    let finish = Finish {
        transfer: transfer().0.to_vec(),
        seq: 10,
        entries: 4,
        bytes: 5300,
        failed: 1,
        counters: Some(status.clone()),
        scan_faults: 1,
    };
    let finished = Finished {
        transfer: transfer().0.to_vec(),
        seq: 10,
        files: 3,
        bytes: 5300,
        skipped: 0,
        failed: 1,
        cpu_seconds: Some(1.5),
        max_rss_bytes: Some(1 << 20),
        synced: true,
        counters: None,
        deleted: 4,
        adjusted: 5,
        delivered_files: 6,
        delivered_bytes: 7000,
    };
    let notices = Notices {
        transfer: transfer(),
        first: 3,
        notices: vec![
            Notice {
                kind: NoticeKind::DELETED,
                entry: EntryKind::FILE,
                root: 1,
                text: b"old/\xff".to_vec(),
            },
            Notice::note("full"),
        ],
    };
    vec![
        ("examine", Frame::Examine(examination::examine())),
        ("examined", Frame::Examined(examination::examined())),
        ("notice", Frame::Notices(notices)),
        ("finish", Frame::Finish(finish)),
        ("finished", Frame::Finished(finished)),
        ("status", Frame::Status(status)),
        (
            "status_excluded",
            Frame::Status(Status {
                entries_excluded: 300,
                ..Status::default()
            }),
        ),
        (
            "status_ending",
            Frame::Status(Status {
                last_item: 300,
                entries_failed: 1,
                scan_faults: 2,
                wants_stream: true,
                ..Status::default()
            }),
        ),
        (
            "selection_part",
            Frame::NameList(NameList {
                transfer: transfer(),
                part: 2,
                taken: 0,
                last: true,
                names: b"a/one\0-two\xff/\0".to_vec(),
            }),
        ),
        (
            "selection_taken",
            Frame::NameList(NameList::taken(transfer(), 2)),
        ),
        (
            "error",
            Frame::Error(Error::new(ErrorCode::BUSY, "in use", true)),
        ),
        ("ping", Frame::Ping(Ping { nonce: 300 })),
        ("pong", Frame::Pong(Pong { nonce: 300 })),
        ("retire", Frame::Retire(Retire {})),
        ("retired", Frame::Retired(Retired {})),
        (
            "cancel",
            Frame::Cancel(Cancel {
                reason: "by hand".to_owned(),
            }),
        ),
    ]
}
