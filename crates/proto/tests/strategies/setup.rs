//! Generates valid hellos and valid messages that open a transfer. Checks nothing.

use godwit_proto::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::metadata::preserve;
use super::name;

pub(super) fn transfer() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 16)
}

prop_compose! {
    fn selection()(
        rules in vec((any::<bool>(), name()), 0..4),
        (bytes_min, bytes_max) in any::<(u64, Option<u64>)>(),
        [newer, older] in [option::of((any::<i64>(), 0..1_000_000_000_u32)), option::of((any::<i64>(), 0..1_000_000_000_u32))],
        [listed, recursive, one_file_system] in any::<[bool; 3]>(),
    ) -> Selection {
        let moment = |(seconds, nanoseconds)| Moment { seconds, nanoseconds };
        Selection {
            rules: rules.into_iter().map(|(include, pattern)| Rule { include, pattern }).collect(),
            bytes_min,
            bytes_max,
            newer: newer.map(moment),
            older: older.map(moment),
            listed,
            recursive: recursive && listed,
            one_file_system,
        }
    }
}

prop_compose! {
    fn comparison()(
        judge in 0..=2_u32,
        flags in any::<[bool; 7]>(),
        max_delete in any::<Option<u64>>(),
    ) -> Comparison {
        Comparison {
            judge,
            update: flags[0],
            existing: flags[1],
            ignore_existing: flags[2],
            delete: flags[3],
            max_delete,
            dry_run: flags[4],
            counterpart: flags[5],
            no_replace: flags[6] && !flags[3],
        }
    }
}

pub(super) fn name_list() -> impl Strategy<Value = NameList> {
    let names = vec(name(), 0..5).prop_map(|names| {
        let ended = |name: Vec<u8>| [name, vec![0]].concat();
        names.into_iter().map(ended).collect::<Vec<_>>().concat()
    });
    (any::<[u8; 16]>(), any::<(u64, bool)>(), names).prop_map(
        |(transfer, (number, last), names)| {
            let transfer = TransferId(transfer);
            if names.is_empty() && !last {
                return NameList::taken(transfer, number);
            }
            NameList {
                transfer,
                part: number.max(1),
                taken: 0,
                last,
                names,
            }
        },
    )
}

pub(crate) fn setup() -> impl Strategy<Value = Frame> {
    let hello = (
        1..9_u32,
        0..9_u32,
        any::<u64>(),
        "\\PC{0,60}",
        4096..=u32::MAX,
    )
        .prop_map(
            |(version_min, more, capabilities, software, max_block_bytes)| {
                let version_max = version_min + more;
                Frame::Hello(Hello {
                    magic: hello::MAGIC,
                    version_min,
                    version_max,
                    capabilities,
                    software,
                    max_block_bytes,
                })
            },
        );
    let names = (vec((name(), name()), 0..5), name());
    let numbers = (
        1..=2_u32,
        0..=255_u32,
        any::<u32>(),
        12..=22_u32,
        any::<u32>(),
    );
    let open = (
        names,
        numbers,
        any::<[bool; 6]>(),
        any::<[u64; 2]>(),
        (
            option::of(comparison()),
            option::of(preserve()),
            option::of(selection()),
            option::of(
                ("[a-z0-9_-]{0,15}", any::<bool>()).prop_map(|(congestion, background)| Sharing {
                    congestion,
                    background,
                }),
            ),
        ),
    )
        .prop_map(
            |(
                (sources, destination),
                (direction, digest, streams, log, threads),
                flags,
                [retry, limit],
                (comparison, preserve, selection, sharing),
            )| {
                let (sources, names): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
                let sources_len = sources.len();
                let counterpart_possible = sources_len < 2;
                Frame::Open(Open {
                    direction,
                    sources,
                    destination,
                    destination_is_directory: flags[0],
                    digest,
                    force: flags[1],
                    verify: flags[2],
                    no_sync: flags[3],
                    plain_payload: flags[4],
                    any_digest: flags[5],
                    more: false,
                    retry_for_ms: retry,
                    streams,
                    block_bytes: if flags[0] { 0 } else { 1 << log },
                    threads,
                    limit_bytes_per_second: limit,
                    preserve,
                    selection: if sources_len == 1 || !selection.as_ref().is_some_and(|s| s.listed)
                    {
                        selection.clone()
                    } else {
                        None
                    },
                    names: if flags[1] { names } else { Vec::new() },
                    comparison: comparison.map(|comparison| Comparison {
                        counterpart: comparison.counterpart && counterpart_possible,
                        delete: comparison.delete
                            && comparison.counterpart
                            && counterpart_possible
                            && !selection.as_ref().is_some_and(|s| s.listed),
                        ..comparison
                    }),
                    verification: None,
                    in_order: flags[4] && direction == Direction::PULL.0,
                    random_order: flags[5] && !flags[4] && direction == Direction::PULL.0,
                    direct: flags[1] != flags[4],
                    sharing,
                    ground: flags[4].then(|| Ground {
                        tops: vec![retry],
                        around: vec![retry; usize::from(flags[1])],
                        mounts: vec![retry; usize::from(flags[2])],
                        mounts_around: vec![retry; usize::from(flags[3])],
                        own: flags[0],
                        alike: vec![retry; usize::from(flags[2])],
                        alike_around: vec![retry; usize::from(flags[1])],
                    }),
                    beacon: flags[1].then(|| beacon(retry)),
                    view: if flags[2] {
                        vec![flags[0].into(); 16]
                    } else {
                        Vec::new()
                    },
                    member: (flags[3] && direction == Direction::PUSH.0).then(|| Member {
                        claim: vec![flags[1].into(); 16],
                        epoch: retry.max(1),
                        lane: threads,
                        closer: flags[0] || comparison.is_some_and(|wanted| wanted.delete),
                        within: match flags[0] {
                            true => vec![b"a/b".to_vec(); usize::from(flags[1])],
                            false => Vec::new(),
                        },
                        flat: flags[0] && flags[1] && flags[2],
                        deletes: flags[2],
                    }),
                    earlier: (flags[0] && direction == Direction::PUSH.0).then(|| Earlier {
                        mapping: Mapping::of(flags[1]).0,
                        tags: vec![retry; usize::from(flags[2])],
                        age_ms: flags[3].then_some(retry),
                    }),
                    may_not_read: flags[2],
                    may_not_list: flags[2],
                    heirs: vec![format!("gw1-{}", "c".repeat(52)); usize::from(flags[1])],
                    mandate: flags[2].then(|| Mandate {
                        asker: format!("gw1-{}", "b".repeat(52)),
                        job: format!("j-{retry}"),
                    }),
                    label: if flags[3] {
                        "job 2zq".to_owned()
                    } else {
                        String::new()
                    },
                })
            },
        );
    let verifying = (name(), 0..=255_u32, any::<[bool; 3]>()).prop_map(
        |(source, digest, [contents_only, extra, durable])| {
            Frame::Open(Open {
                direction: Direction::VERIFY.0,
                sources: vec![source],
                digest,
                verification: Some(Verification {
                    contents_only,
                    extra,
                    durable,
                }),
                ..Open::default()
            })
        },
    );
    let tokens = || vec(vec(any::<u8>(), 16), 0..5);
    let opened = (
        transfer(),
        tokens(),
        any::<(bool, u64, u64)>(),
        name(),
        12..=22_u32,
        any::<u32>(),
        vec(announced(), 0..4),
    )
        .prop_map(
            |(
                transfer,
                tokens,
                (resumed, lost_bytes, buffer_bytes),
                destination,
                log,
                streams_max,
                addresses,
            )| {
                let block_bytes = 1 << log;
                Frame::Opened(Opened {
                    transfer,
                    tokens,
                    resumed,
                    lost_bytes,
                    destination,
                    block_bytes,
                    streams_max,
                    addresses,
                    digest: log % 3,
                    buffer_bytes,
                    mapping: log % 3,
                    tag: lost_bytes.rotate_left(7),
                    beacon: resumed.then(|| beacon(lost_bytes)),
                    unproved: !resumed,
                    held_bytes: buffer_bytes.rotate_left(9),
                    held_files: lost_bytes.rotate_left(5),
                    durable: resumed,
                })
            },
        );
    let join = (transfer(), transfer(), 0..64_u32).prop_map(|(transfer, token, channel)| {
        Frame::Join(Join {
            transfer,
            token,
            channel,
        })
    });
    let joined = tokens().prop_map(|tokens| Frame::Joined(Joined { tokens }));
    prop_oneof![hello, open, verifying, opened, join, joined]
}

fn announced() -> impl Strategy<Value = Announced> {
    let address = prop_oneof![
        (any::<[u8; 4]>(), 0..=32_u8).prop_map(|(ip, bits)| (ip.into(), bits)),
        (any::<[u8; 16]>(), 0..=128_u8).prop_map(|(ip, bits)| (ip.into(), bits)),
    ];
    (address, 1..=u16::MAX, any::<u32>(), any::<bool>()).prop_map(
        |((ip, bits), port, interface, dialled)| Announced {
            dialled,
            ..Announced::new(ip, bits, port, interface)
        },
    )
}

fn beacon(number: u64) -> Beacon {
    Beacon {
        name: format!(".godwit-{number:032x}").into_bytes(),
        above: format!("top/{number}").into_bytes(),
        rest: vec![b'r'; usize::from(number.is_multiple_of(2))],
        into: number.is_multiple_of(3),
    }
}
