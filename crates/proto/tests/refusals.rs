//! Owns the refusals: each rule of `docs/wire.md` broken by itself, and the message that says so.
//! What is right is for the other tests.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use godwit_proto::limits::{MESSAGE_BYTES_MAX, PATHS_BYTES_MAX, SMALL_HEAD_BYTES_MAX, TOKENS_MAX};
use godwit_proto::*;

fn prelude(kind: FrameKind, head: &[u8], payload_bytes: u32) -> Prelude {
    Prelude {
        kind,
        flags: 0,
        head_bytes: u32::try_from(head.len()).unwrap(),
        payload_bytes,
    }
}

fn encode(frame: &Frame) -> Result<Vec<u8>, WireError> {
    let mut image = b"kept".to_vec();
    let encoded = frame.encode(&mut image);
    if encoded.is_err() {
        assert_eq!(image, b"kept", "a refused frame leaves nothing behind");
    }
    encoded.map(|()| image.split_off(4))
}

/// Encodes what is right, changes the head, reads it.
fn changed(frame: &Frame, change: impl FnOnce(&mut Vec<u8>)) -> Result<Frame, WireError> {
    let image = encode(frame).unwrap();
    let (first, head) = image.split_first_chunk().unwrap();
    let payload_bytes = Prelude::decode(first).unwrap().payload_bytes;
    let mut head = head.to_vec();
    change(&mut head);
    decode(&prelude(frame.kind(), &head, payload_bytes), &head)
}

fn file(path: &[u8], bytes: u64) -> Record {
    Record {
        kind: EntryKind::FILE,
        path: path.to_vec(),
        bytes,
        ..Record::default()
    }
}

fn manifest(records: Vec<Record>) -> Frame {
    Frame::Manifest(Manifest {
        transfer: TransferId([1; 16]),
        seq: Seq(1),
        records,
    })
}

fn slice(offset: u64, length: u32, entry_bytes: u64) -> Block {
    let header = BlockHeader {
        kind: BlockKind::SLICE,
        offset,
        length,
        entry_bytes,
        payload_bytes: length,
        ..BlockHeader::default()
    };
    Block {
        header,
        ranges: Vec::new(),
        records: vec![file(b"big", entry_bytes)],
    }
}

fn sparse(ranges: &[(u64, u64)], payload_bytes: u32) -> Block {
    let mut block = slice(1 << 20, 1 << 20, 1 << 30);
    block.header.flags = block::SPARSE;
    block.header.payload_bytes = payload_bytes;
    block.ranges = ranges
        .iter()
        .map(|&(offset, bytes)| Range { offset, bytes })
        .collect();
    block
}

#[test]
fn a_prelude_is_refused_before_memory_is_taken() {
    let long = Prelude {
        kind: FrameKind::MANIFEST,
        head_bytes: HEAD_BYTES_MAX + 1,
        ..Prelude::default()
    };
    assert_eq!(
        Prelude::decode(&long.encode()),
        Err(WireError::TooLong {
            field: "head",
            limit: 1 << 20
        })
    );
    let long = Prelude {
        kind: FrameKind::HELLO,
        head_bytes: SMALL_HEAD_BYTES_MAX + 1,
        ..Prelude::default()
    };
    assert_eq!(
        Prelude::decode(&long.encode()),
        Err(WireError::TooLong {
            field: "head",
            limit: 4096
        })
    );
    let long = Prelude {
        kind: FrameKind::BLOCK,
        payload_bytes: PAYLOAD_BYTES_MAX + 1,
        ..Prelude::default()
    };
    assert_eq!(
        Prelude::decode(&long.encode()),
        Err(WireError::TooLong {
            field: "payload",
            limit: 4 << 20
        })
    );
    let loaded = Prelude {
        kind: FrameKind(999),
        payload_bytes: 1,
        ..Prelude::default()
    };
    assert_eq!(
        Prelude::decode(&loaded.encode()),
        Err(WireError::UnexpectedPayload { kind: 999 })
    );
    assert_eq!(
        Prelude::decode(b"GET / HTTP/1.1\r\n"),
        Err(WireError::NonZeroReserved { what: "a prelude" })
    );
}

#[test]
fn unknown_values_survive() {
    let unknown = prelude(FrameKind(999), b"news", 0);
    assert_eq!(
        decode(&unknown, b"news"),
        Ok(Frame::Unknown {
            kind: FrameKind(999)
        })
    );
    let record = Record {
        kind: EntryKind(77),
        flags: 0xf0,
        target: b"free".to_vec(),
        ..Record::default()
    };
    let frame = manifest(vec![record]);
    assert_eq!(changed(&frame, |_| {}), Ok(frame));
    let mut block = slice(0, 4096, 4096);
    block.header.flags = 0x8000_0000;
    assert!(encode(&Frame::Block(block)).is_ok());
    // A later version may add a field to a message: number 100 here.
    let ping = Frame::Ping(Ping { nonce: 5 });
    assert_eq!(
        changed(&ping, |head| head.extend(b"\xa0\x06\x01")),
        Ok(ping)
    );
}

#[test]
fn counts_are_held_against_what_is_there() {
    let frame = manifest(vec![file(b"a", 1)]);
    let short = changed(&frame, |head| head[24] = 2);
    assert_eq!(
        short,
        Err(WireError::Short {
            what: "a record section"
        })
    );
    let many = changed(&frame, |head| {
        head[24..28].copy_from_slice(&u32::MAX.to_le_bytes())
    });
    assert_eq!(
        many,
        Err(WireError::TooLong {
            field: "record section",
            limit: 8192
        })
    );
    let left = changed(&frame, |head| head.push(0));
    assert_eq!(
        left,
        Err(WireError::Trailing {
            what: "the records",
            bytes: 1
        })
    );

    let ack = Frame::Ack(Ack {
        transfer: TransferId([1; 16]),
        items: Vec::new(),
    });
    assert_eq!(
        changed(&ack, |head| head[16] = 1),
        Err(WireError::Short {
            what: "an acknowledgement"
        })
    );
    let many = changed(&ack, |head| {
        head[16..20].copy_from_slice(&u32::MAX.to_le_bytes())
    });
    assert_eq!(
        many,
        Err(WireError::TooLong {
            field: "acknowledgement",
            limit: 8192
        })
    );

    let held = Frame::Answer(Answer {
        verdicts: vec![Verdict::Partial { held: Vec::new() }],
        ..Answer::default()
    });
    let many = changed(&held, |head| {
        head[36..40].copy_from_slice(&u32::MAX.to_le_bytes())
    });
    assert_eq!(many, Err(WireError::Short { what: "an answer" }));
}

#[test]
fn an_answer_does_not_expand_beyond_its_count() {
    let answer = Frame::Answer(Answer {
        verdicts: vec![Verdict::Send; 3],
        ..Answer::default()
    });
    let beyond = Err(WireError::Invalid {
        field: "run of verdicts",
        rule: "is empty or goes beyond the end",
    });
    assert_eq!(
        changed(&answer, |head| head[36..40]
            .copy_from_slice(&u32::MAX.to_le_bytes())),
        beyond
    );
    assert_eq!(changed(&answer, |head| head[36] = 0), beyond);
    let many = changed(&answer, |head| {
        head[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        head[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
    });
    assert_eq!(
        many,
        Err(WireError::TooLong {
            field: "answer",
            limit: 8192
        })
    );
    let split = changed(&answer, |head| {
        head[36] = 2;
        head.extend([1, 0, 0, 0, 1, 0, 0, 0]);
    });
    assert_eq!(
        split,
        Err(WireError::Invalid {
            field: "run of verdicts",
            rule: "continues the run before"
        })
    );
    let unknown = changed(&answer, |head| head[32] = 9);
    assert_eq!(
        unknown,
        Err(WireError::Unknown {
            field: "verdict",
            value: 9
        })
    );
}

#[test]
fn paths_do_not_expand_beyond_their_limit() {
    let long = vec![[b'd'; 250].to_vec(); 100].join(&b'/');
    let count = PATHS_BYTES_MAX / long.len();
    let fits = vec![file(&long, 0); count];
    let mut image = encode(&manifest(fits.clone())).unwrap();
    assert!(image.len() < 300_000, "shared prefixes are sent once");
    let one_more = encode(&manifest([fits, vec![file(&long, 0)]].concat()));
    let refused = WireError::TooLong {
        field: "paths of a record section",
        limit: PATHS_BYTES_MAX as u64,
    };
    assert_eq!(one_more, Err(refused.clone()));

    // The same by a peer that does not care: the last record once more.
    let last = image[image.len() - RECORD_BYTES..].to_vec();
    image.extend(last);
    let head = &mut image[PRELUDE_BYTES..];
    head[24..28].copy_from_slice(&u32::try_from(count + 1).unwrap().to_le_bytes());
    assert_eq!(
        decode(&prelude(FrameKind::MANIFEST, head, 0), head),
        Err(refused)
    );
}

#[test]
fn path_prefixes_are_within_the_path_before_and_as_long_as_they_can_be() {
    let frame = manifest(vec![file(b"abc", 1), file(b"abd", 1)]);
    let prefix = 32 + RECORD_BYTES + 3 + 54;
    let beyond = changed(&frame, |head| head[prefix] = 4);
    assert_eq!(
        beyond,
        Err(WireError::Invalid {
            field: "path prefix",
            rule: "is longer than the path before"
        })
    );
    let lazy = changed(&frame, |head| {
        head[prefix] = 1;
        head[prefix + 2] = 2;
        head.splice(head.len() - 1.., *b"bd");
    });
    assert_eq!(
        lazy,
        Err(WireError::Invalid {
            field: "path prefix",
            rule: "is shorter than what the paths share"
        })
    );
}

#[test]
fn records_that_could_do_harm_are_refused_on_both_sides() {
    let link = |target: &[u8]| Record {
        kind: EntryKind::SYMLINK,
        target: target.to_vec(),
        ..file(b"l", 0)
    };
    let bad = [
        file(b"../out", 1),
        file(b"/etc/passwd", 1),
        Record {
            target: b"x".to_vec(),
            ..file(b"f", 1)
        },
        Record {
            mtime_nanoseconds: 1_000_000_000,
            ..file(b"f", 1)
        },
        Record {
            extensions: vec![1, 0, 9, 0],
            ..file(b"f", 1)
        },
        Record {
            kind: EntryKind::HARD_LINK,
            target: b"../f".to_vec(),
            ..file(b"h", 0)
        },
        link(b""),
        link(b"a\0b"),
    ];
    for record in bad {
        assert!(
            encode(&manifest(vec![record.clone()])).is_err(),
            "{record:?}"
        );
    }
    let good = manifest(vec![file(b"a.c", 1)]);
    assert!(changed(&good, |head| *head.last_mut().unwrap() = b'/').is_err());
    assert!(changed(&good, |head| *head.last_mut().unwrap() = 0).is_err());
    assert!(
        changed(&manifest(vec![link(b"t")]), |head| *head
            .last_mut()
            .unwrap() = 0)
        .is_err()
    );
}

#[test]
fn slices_are_aligned_and_inside_their_file() {
    let good = [
        slice(0, 4096, 4096),
        slice(8192, 4096, 1 << 30),
        slice(4096, 904, 5000),
        slice(0, 904, UNKNOWN_BYTES),
    ];
    for block in good {
        assert!(encode(&Frame::Block(block.clone())).is_ok(), "{block:?}");
    }
    let bad = [
        slice(0, 0, 4096),
        slice(4096, 4096, 8191),
        slice(2048, 4096, 1 << 30),
        slice(0, 904, 5000),
        slice(512, 904, 1416),
        slice(u64::MAX - 4095, 4096, UNKNOWN_BYTES),
        slice(0, 8 << 20, 1 << 30),
    ];
    for block in bad {
        assert!(encode(&Frame::Block(block.clone())).is_err(), "{block:?}");
    }
}

#[test]
fn data_ranges_are_inside_their_slice_and_make_up_the_payload() {
    let start = 1 << 20;
    let good = sparse(
        &[(start, 10), (start + 10, 10), (start + (1 << 20) - 1, 1)],
        21,
    );
    assert!(encode(&Frame::Block(good)).is_ok());
    assert!(encode(&Frame::Block(sparse(&[], 0))).is_ok());
    let bad = [
        sparse(&[(start, 10)], 11),
        sparse(&[(start, 0)], 0),
        sparse(&[(start - 1, 10)], 10),
        sparse(&[(start, 10), (start + 9, 10)], 20),
        sparse(&[(start + 20, 10), (start, 10)], 20),
        sparse(&[(start, (1 << 20) + 1)], (1 << 20) + 1),
        sparse(&[(start, u64::MAX)], 0),
    ];
    for block in bad {
        assert!(encode(&Frame::Block(block.clone())).is_err(), "{block:?}");
    }
}

#[test]
fn the_parts_of_a_block_agree() {
    let good = slice(0, 4096, 4096);
    let mut cases = vec![good.clone(); 6];
    cases[0].records.clear();
    cases[1].records.push(file(b"other", 4096));
    cases[2].records[0].id = EntryId(5);
    cases[3].header.payload_bytes = 4095;
    cases[4].ranges.push(Range {
        offset: 0,
        bytes: 4096,
    });
    cases[5].records[0].kind = EntryKind::DIRECTORY;
    for block in cases {
        assert!(encode(&Frame::Block(block.clone())).is_err(), "{block:?}");
    }
    let image = encode(&Frame::Block(good)).unwrap();
    let head = &image[PRELUDE_BYTES..];
    let other = decode(&prelude(FrameKind::BLOCK, head, 4095), head);
    assert_eq!(
        other,
        Err(WireError::Disagree {
            what: "payload lengths of prelude and block"
        })
    );
}

#[test]
fn a_bundle_holds_the_contents_of_its_files_and_nothing_else() {
    let failed = Record {
        flags: RecordFlags::SOURCE_FAILED,
        ..file(b"gone", 1 << 40)
    };
    let end = Record {
        flags: RecordFlags::END,
        ..file(b"big", 1 << 40)
    };
    let records = vec![file(b"a", 10), failed, file(b"b", 20), end];
    let header = BlockHeader {
        kind: BlockKind::BUNDLE,
        payload_bytes: 30,
        ..BlockHeader::default()
    };
    let good = Block {
        header,
        ranges: Vec::new(),
        records,
    };
    assert!(encode(&Frame::Block(good.clone())).is_ok());
    let mut cases = vec![good; 4];
    cases[0].header.payload_bytes = 31;
    cases[1].header.offset = 1;
    cases[2].ranges.push(Range {
        offset: 0,
        bytes: 1,
    });
    cases[3].records[0].bytes = u64::MAX;
    for block in cases {
        assert!(encode(&Frame::Block(block.clone())).is_err(), "{block:?}");
    }
}

#[test]
fn what_is_no_hello_is_told_apart_from_a_hello_that_is_wrong() {
    assert_eq!(
        Hello::decode(b"GET / HTTP/1.1\r\n"),
        Err(WireError::BadMagic)
    );
    assert_eq!(Hello::decode(b""), Err(WireError::BadMagic));
    let hello = Hello::ours("godwit", 0);
    for wrong in [
        Hello {
            version_min: 0,
            ..hello.clone()
        },
        Hello {
            version_min: 2,
            ..hello.clone()
        },
        Hello {
            max_block_bytes: 4095,
            ..hello
        },
    ] {
        let refused = changed(&Frame::Hello(wrong), |_| {});
        assert!(
            matches!(refused, Err(WireError::Invalid { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn two_sides_agree_or_say_why_not() {
    let speaks = |version_min, version_max, capabilities, max_block_bytes| Hello {
        version_min,
        version_max,
        capabilities,
        max_block_bytes,
        ..Hello::ours("godwit 9.9", 0)
    };
    let old = speaks(1, 2, 0b011, 1 << 20);
    let new = speaks(2, 5, 0b110, 3_000_000);
    let agreed = Agreed {
        version: 2,
        capabilities: 0b010,
        block_bytes_max: 1 << 20,
    };
    assert_eq!(negotiate(&old, &new), Ok(agreed));
    assert_eq!(negotiate(&new, &old), Ok(agreed));
    assert_eq!(negotiate(&new, &new).unwrap().block_bytes_max, 2 << 20);
    let newest = speaks(4, 9, 0, 1 << 20);
    assert_eq!(
        negotiate(&old, &newest).unwrap_err().to_string(),
        "no protocol version in common: this program speaks 1 to 2, the peer (godwit 9.9) speaks 4 to 9; update this program"
    );
    assert!(
        negotiate(&newest, &old)
            .unwrap_err()
            .to_string()
            .ends_with("update the peer")
    );
}

#[test]
fn messages_keep_their_bounds() {
    let open = Open {
        direction: 1,
        sources: vec![b"a".to_vec()],
        destination: b"b".to_vec(),
        ..Open::default()
    };
    assert!(encode(&Frame::Open(open.clone())).is_ok());
    for wrong in [
        Open {
            direction: 3,
            ..open.clone()
        },
        Open {
            digest: 256,
            ..open.clone()
        },
        Open {
            block_bytes: 5000,
            ..open.clone()
        },
        Open {
            block_bytes: 8 << 20,
            ..open.clone()
        },
        Open {
            destination: b"a\0".to_vec(),
            ..open.clone()
        },
        Open {
            names: vec![b"a".to_vec(); 2],
            ..open.clone()
        },
        Open {
            names: vec![b"..".to_vec()],
            ..open.clone()
        },
        Open {
            names: vec![b"a/b".to_vec()],
            ..open.clone()
        },
        Open {
            sources: vec![vec![b'x'; 65_536]],
            ..open.clone()
        },
        Open {
            sources: vec![vec![b'x'; 65_535]; 17],
            ..open
        },
    ] {
        assert!(encode(&Frame::Open(wrong.clone())).is_err());
    }
    assert!(
        encode(&Frame::Joined(Joined {
            tokens: vec![vec![0; 16]; TOKENS_MAX + 1]
        }))
        .is_err()
    );
    assert!(
        encode(&Frame::Joined(Joined {
            tokens: vec![vec![0; 16]; TOKENS_MAX]
        }))
        .is_ok()
    );
    assert!(
        encode(&Frame::Joined(Joined {
            tokens: vec![vec![0; 15]]
        }))
        .is_err()
    );
    let torn = changed(&Frame::Ping(Ping { nonce: 1 << 40 }), |head| {
        head.truncate(3)
    });
    assert!(
        matches!(
            torn,
            Err(WireError::Malformed {
                message: "PING",
                ..
            })
        ),
        "{torn:?}"
    );
}

#[test]
fn long_texts_are_cut_between_characters() {
    let long = "ä".repeat(MESSAGE_BYTES_MAX);
    let Ok(Frame::Error(error)) = changed(
        &Frame::Error(Error::new(ErrorCode::INTERNAL, &long, false)),
        |_| {},
    ) else {
        panic!("an error comes back");
    };
    assert_eq!(error.message.len(), MESSAGE_BYTES_MAX);
    let fault = Fault {
        message: format!("x{long}"),
        ..Fault::default()
    };
    let Ok(Frame::EntryFailed(failed)) = changed(
        &Frame::EntryFailed(EntryFailed {
            fault,
            ..EntryFailed::default()
        }),
        |_| {},
    ) else {
        panic!("a failed entry comes back");
    };
    assert_eq!(failed.fault.message.len(), MESSAGE_BYTES_MAX - 1);
}

#[test]
fn tokens_are_not_printed() {
    let join = format!("{:?}", Join::new(TransferId([1; 16]), Token([0xab; 16])));
    let joined = format!(
        "{:?}",
        Joined {
            tokens: vec![vec![0xab; 16]]
        }
    );
    assert!(
        !join.contains("171") && !joined.contains("171"),
        "{join} {joined}"
    );
}
