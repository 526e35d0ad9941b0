//! Generates arbitrary valid frames for the property tests. Checks nothing.

mod measured;
mod metadata;
mod setup;

use godwit_proto::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) use metadata::metadata;
pub(crate) use setup::setup;
use setup::{name_list, transfer};

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_map(|byte| {
        if byte == 0 || byte == b'/' {
            b'x'
        } else {
            byte
        }
    });
    vec(byte, 1..12).prop_map(|name| {
        if name == b"." || name == b".." {
            b"dots".to_vec()
        } else {
            name
        }
    })
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    // Few different components, so that paths share prefixes.
    let component = prop_oneof![
        Just(b"a".to_vec()),
        Just(b"ab".to_vec()),
        Just(vec![b'n'; 255]),
        name()
    ];
    vec(component, 0..5).prop_map(|components| components.join(&b'/'))
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

prop_compose! {
    fn extensions()(all in vec((any::<u16>(), vec(any::<u8>(), 0..20)), 0..3), known in metadata()) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, value) in all {
            extension::push(&mut bytes, kind, &value).unwrap();
        }
        known.encode(&mut bytes).unwrap();
        bytes
    }
}

prop_compose! {
    fn record()(
        (id, root, kind, flags, attempt, generation) in (any::<u64>(), any::<u16>(), 1..10_u8, any::<u8>(), any::<u16>(), any::<u64>()),
        (bytes, data_bytes, mtime_seconds, mtime_nanoseconds) in (any::<u64>(), any::<u64>(), any::<i64>(), 0..1_000_000_000_u32),
        (mode, uid, gid) in (any::<u32>(), any::<u32>(), any::<u32>()),
        (path, target, digest, extensions) in (path(), name(), option::of(digest()), extensions()),
    ) -> Record {
        let flag = if digest.is_some() { RecordFlags::HAS_DIGEST } else { 0 };
        let flags = flags & !RecordFlags::HAS_DIGEST | flag;
        let kind = EntryKind(kind);
        Record {
            id: EntryId(id),
            root,
            kind,
            flags,
            attempt,
            generation: Generation(generation),
            bytes,
            data_bytes: if flags & RecordFlags::END == 0 { 0 } else { data_bytes },
            mtime_seconds,
            mtime_nanoseconds,
            mode,
            uid,
            gid,
            path,
            target: if matches!(kind, EntryKind::FILE | EntryKind::DIRECTORY) || kind.is_special() { Vec::new() } else { target },
            digest,
            extensions,
        }
    }
}

prop_compose! {
    fn fault()(
        (entry, side, code, errno) in (any::<u64>(), any::<u8>(), any::<u16>(), option::of(1..=u16::MAX)),
        message in "\\PC{0,100}",
    ) -> Fault {
        Fault { entry: EntryId(entry), side: Side(side), code: FaultCode(code), errno, message }
    }
}

prop_compose! {
    fn held()(parts in vec((0..1_u64 << 40, 1..1_u64 << 40, digest()), 0..6)) -> Vec<HeldRange> {
        let mut free = 0;
        parts
            .into_iter()
            .map(|(gap, bytes, digest)| {
                let offset = free + gap;
                free = offset + bytes;
                HeldRange { offset, bytes, digest }
            })
            .collect()
    }
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        4 => Just(Verdict::Send),
        4 => Just(Verdict::Skip),
        4 => Just(Verdict::Done),
        2 => Just(Verdict::Digest),
        2 => Just(Verdict::Adjusted),
        1 => held().prop_map(|held| Verdict::Partial { held }),
        1 => fault().prop_map(Verdict::Failed),
    ]
}

fn notice() -> impl Strategy<Value = Notice> {
    let text = prop_oneof![
        (Just(NoticeKind::DELETED), path()),
        (
            Just(NoticeKind::NOTE),
            "\\PC{0,100}".prop_map(String::into_bytes)
        ),
        ((3..=u8::MAX).prop_map(NoticeKind), vec(any::<u8>(), 0..30)),
    ];
    (text, any::<(u8, u16)>()).prop_map(|((kind, text), (entry, root))| Notice {
        kind,
        entry: EntryKind(entry),
        root,
        text,
    })
}

prop_compose! {
    fn ack_range()(first in 1..=u64::MAX, span in any::<u64>(), status in any::<u8>()) -> AckRange {
        AckRange { first: Seq(first), last: Seq(first.saturating_add(span)), status: AckStatus(status) }
    }
}

/// A slice anywhere in a file of known or unknown size, perhaps its last one, with or without
/// holes.
fn slice() -> impl Strategy<Value = Block> {
    let place = (12..=22_u32, 0..1000_u64, 1..=u32::MAX, 0..4_u8);
    (
        record(),
        place,
        vec((0..64_u32, 1..64_u32), 0..6),
        any::<(u64, u8)>(),
        digest(),
    )
        .prop_map(
            |(mut record, (log, index, cut, shape), pieces, (seq, digest_kind), digest)| {
                let window = 1_u32 << log;
                let offset = index * u64::from(window);
                let length = if shape & 1 == 0 {
                    window
                } else {
                    window / 2 + 1 + cut % (window / 2)
                };
                record.kind = EntryKind::FILE;
                record.target.clear();
                record.bytes = if shape & 1 == 1 || shape == 0 {
                    offset + u64::from(length)
                } else {
                    UNKNOWN_BYTES
                };
                let mut ranges = Vec::new();
                let mut free = offset;
                for (gap, bytes) in pieces {
                    let range = Range {
                        offset: free + u64::from(gap),
                        bytes: bytes.into(),
                    };
                    free = range.offset + range.bytes;
                    if free <= offset + u64::from(length) {
                        ranges.push(range);
                    }
                }
                let sparse = shape & 2 != 0;
                if !sparse {
                    ranges.clear();
                }
                let sum: u64 = ranges.iter().map(|range| range.bytes).sum();
                let header = BlockHeader {
                    transfer: TransferId([9; 16]),
                    seq: Seq(seq),
                    kind: BlockKind::SLICE,
                    digest_kind: DigestKind(digest_kind),
                    attempt: record.attempt,
                    flags: if sparse { block::SPARSE } else { 0 },
                    entry: record.id,
                    generation: record.generation,
                    offset,
                    length,
                    entry_bytes: record.bytes,
                    payload_bytes: if sparse {
                        u32::try_from(sum).unwrap()
                    } else {
                        length
                    },
                    digest,
                    ..BlockHeader::default()
                };
                Block {
                    header,
                    ranges,
                    records: vec![record],
                }
            },
        )
}

fn bundle() -> impl Strategy<Value = Block> {
    vec((record(), 0..100_000_u32), 0..20).prop_map(|files| {
        let mut payload_bytes = 0;
        let mut records = Vec::new();
        for (mut record, bytes) in files {
            if record.has_content() {
                record.bytes = bytes.into();
                payload_bytes += bytes;
            }
            records.push(record);
        }
        let header = BlockHeader {
            kind: BlockKind::BUNDLE,
            payload_bytes,
            ..BlockHeader::default()
        };
        Block {
            header,
            ranges: Vec::new(),
            records,
        }
    })
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![slice(), bundle()].prop_map(|mut block| {
        // Sets the fields that the encoder computes, for the comparison.
        let mut section = Vec::new();
        let mut writer = RecordWriter::new(&mut section);
        block
            .records
            .iter()
            .try_for_each(|record| writer.push(record))
            .unwrap();
        block.header.records = writer.count();
        block.header.meta_bytes = u32::try_from(section.len()).unwrap();
        block.header.ranges = u32::try_from(block.ranges.len()).unwrap();
        block
    })
}

pub(crate) fn manifest() -> impl Strategy<Value = Manifest> {
    (any::<([u8; 16], u64)>(), vec(record(), 0..20)).prop_map(|((transfer, seq), records)| {
        Manifest {
            transfer: TransferId(transfer),
            seq: Seq(seq),
            records,
        }
    })
}

pub(crate) fn items() -> impl Strategy<Value = Frame> {
    let ids =
        || any::<([u8; 16], u64)>().prop_map(|(transfer, seq)| (TransferId(transfer), Seq(seq)));
    let manifest = manifest().prop_map(Frame::Manifest);
    let answer = (ids(), vec(verdict(), 0..40)).prop_map(|((transfer, seq), verdicts)| {
        Frame::Answer(Answer {
            transfer,
            seq,
            verdicts,
        })
    });
    let ack = (ids(), vec(ack_range(), 0..20))
        .prop_map(|((transfer, _), items)| Frame::Ack(Ack { transfer, items }));
    let notices = (ids(), 1..=u64::MAX - 20, vec(notice(), 0..20)).prop_map(
        |((transfer, _), first, notices)| {
            Frame::Notices(Notices {
                transfer,
                first,
                notices,
            })
        },
    );
    let failed = (ids(), any::<u16>(), path(), fault()).prop_map(|(ids, root, path, fault)| {
        let (transfer, seq) = ids;
        Frame::EntryFailed(EntryFailed {
            transfer,
            seq,
            root,
            path,
            fault,
        })
    });
    prop_oneof![
        manifest,
        answer,
        ack,
        failed,
        notices,
        block().prop_map(Frame::Block)
    ]
}

pub(crate) fn watch() -> impl Strategy<Value = Frame> {
    let finish = (
        transfer(),
        any::<[u64; 5]>(),
        option::of(measured::status()),
    )
        .prop_map(
            |(transfer, [seq, entries, bytes, failed, scan_faults], counters)| {
                Frame::Finish(Finish {
                    transfer,
                    seq,
                    entries,
                    bytes,
                    failed,
                    counters,
                    scan_faults,
                })
            },
        );
    let numbers = (
        any::<[u64; 9]>(),
        option::of(0.0..1e9),
        any::<Option<u64>>(),
        any::<bool>(),
    );
    let finished = (transfer(), numbers, option::of(measured::status())).prop_map(
        |(
            transfer,
            (
                [
                    seq,
                    files,
                    bytes,
                    skipped,
                    failed,
                    deleted,
                    adjusted,
                    delivered_files,
                    delivered_bytes,
                ],
                cpu_seconds,
                max_rss_bytes,
                synced,
            ),
            counters,
        )| {
            Frame::Finished(Finished {
                transfer,
                seq,
                files,
                bytes,
                skipped,
                failed,
                cpu_seconds,
                max_rss_bytes,
                synced,
                counters,
                deleted,
                adjusted,
                delivered_files,
                delivered_bytes,
            })
        },
    );
    let error = (any::<(u32, bool)>(), "\\PC{0,100}").prop_map(|((code, retryable), message)| {
        Frame::Error(Error {
            code,
            message,
            retryable,
        })
    });
    let examine = (
        any::<(u64, bool, bool)>(),
        vec(any::<u8>(), 0..40),
        0..=262_144_u32,
        vec(1..=255_u8, 0..30),
    )
        .prop_map(|((nonce, machine, dial), filler, filler_wanted, place)| {
            Frame::Examine(Examine {
                nonce,
                filler,
                filler_wanted,
                machine,
                place,
                dial,
            })
        });
    let seen = (any::<Option<(u64, u32, u32)>>(), any::<Option<[u64; 4]>>());
    let examined = (
        any::<(u64, i64, u64)>(),
        0..1_000_000_000_u32,
        vec(any::<u8>(), 0..40),
        seen,
        option::of((any::<[u64; 3]>(), "\\PC{0,40}")),
        vec(("\\PC{0,40}", "\\PC{0,40}"), 0..4),
    )
        .prop_map(
            |(
                (nonce, clock_seconds, held_ns),
                clock_nanoseconds,
                filler,
                (way, machine),
                storage,
                dialled,
            )| {
                Frame::Examined(Examined {
                    nonce,
                    clock_seconds,
                    clock_nanoseconds,
                    held_ns,
                    filler,
                    way: way.map(|(round_trip_ns, path_mtu_bytes, segment_bytes)| PathSeen {
                        round_trip_ns,
                        path_mtu_bytes,
                        segment_bytes,
                    }),
                    machine: machine.map(|n| MachineSeen {
                        send_buffer_bytes: n[0],
                        receive_buffer_bytes: n[1],
                        congestion: "cubic".to_owned(),
                        cores: 3,
                        seal_bytes_per_second: n[2],
                        digest_bytes_per_second: n[3],
                    }),
                    storage: storage.map(|(n, problem)| StorageSeen {
                        free_bytes: n[0],
                        write_bytes_per_second: n[1],
                        read_bytes_per_second: n[2],
                        problem,
                    }),
                    dialled: dialled
                        .into_iter()
                        .map(|(address, problem)| Dialled { address, problem })
                        .collect(),
                })
            },
        );
    let ask = (any::<u64>(), vec(any::<u8>(), 0..40))
        .prop_map(|(number, document)| Frame::Ask(Ask { number, document }));
    let reply = (any::<u64>(), vec(any::<u8>(), 0..40), any::<u64>()).prop_map(
        |(number, document, done)| {
            Frame::Reply(Reply {
                number,
                document,
                done,
            })
        },
    );
    prop_oneof![
        ask,
        reply,
        examine,
        examined,
        measured::status().prop_map(Frame::Status),
        measured::sending().prop_map(Frame::SendingStream),
        Just(Frame::Retire(Retire {})),
        Just(Frame::Retired(Retired {})),
        any::<(u64, u32)>().prop_map(|(bytes_per_second, priority)| Frame::Limit(Limit {
            bytes_per_second,
            priority
        })),
        finish,
        finished,
        error,
        any::<u64>().prop_map(|nonce| Frame::Ping(Ping { nonce })),
        any::<u64>().prop_map(|nonce| Frame::Pong(Pong { nonce })),
        "\\PC{0,100}".prop_map(|reason| Frame::Cancel(Cancel { reason })),
        name_list().prop_map(Frame::NameList),
    ]
}
