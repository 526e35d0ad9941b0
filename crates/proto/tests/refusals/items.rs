//! Tests refusals of preludes, records, manifests, answers and acknowledgements. `blocks` tests blocks.

use godwit_proto::limits::{PATHS_BYTES_MAX, SMALL_HEAD_BYTES_MAX};
use godwit_proto::*;

use super::{changed, encode, file, manifest, prelude};

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
    let mut block = super::blocks::slice(0, 4096, 4096);
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

    // The same from an incorrect peer: the last record is repeated.
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
fn notices_that_are_not_whole_or_not_clean_are_refused() {
    let of = |notices| {
        Frame::Notices(Notices {
            transfer: TransferId([1; 16]),
            first: 1,
            notices,
        })
    };
    let deleted = |path: &[u8]| Notice {
        kind: NoticeKind::DELETED,
        text: path.to_vec(),
        ..Notice::default()
    };
    let note = |text: &[u8]| Notice {
        kind: NoticeKind::NOTE,
        text: text.to_vec(),
        ..Notice::default()
    };
    assert!(encode(&of(vec![deleted(b"a/b"), note(b"../free\n")])).is_ok());
    for wrong in [
        deleted(b"../a"),
        deleted(b"a//b"),
        note(b"\xff"),
        note(&[b'x'; 1025]),
    ] {
        assert!(encode(&of(vec![wrong.clone()])).is_err(), "{wrong:?}");
    }
    assert!(encode(&of(vec![note(b""); 8193])).is_err());
    assert_eq!(Notice::note(&"ä".repeat(600)).text.len(), 1024);
    let good = of(vec![deleted(b"a")]);
    let refused = |at: usize, byte: u8| changed(&good, |head| head[at] = byte).is_err();
    // The reserved bytes of the head and of a notice, a count beyond the end, a length beyond the end, an
    // invalid name.
    for (at, byte) in [
        (28, 1),
        (38, 1),
        (24, 2),
        (24, 0),
        (36, 2),
        (36, 0),
        (40, b'/'),
    ] {
        assert!(refused(at, byte), "{at}");
    }
}

#[test]
fn notices_have_numbers_that_can_be_counted() {
    let of = |first, count| {
        Frame::Notices(Notices {
            transfer: TransferId([1; 16]),
            first,
            notices: vec![Notice::note("x"); count],
        })
    };
    let good = of(1, 2);
    let with_first = |first: u64| {
        changed(&good, |head| {
            head[16..24].copy_from_slice(&first.to_le_bytes());
        })
    };
    for first in [1, 2, u64::MAX - 2] {
        assert!(encode(&of(first, 2)).is_ok() && with_first(first).is_ok());
    }
    for first in [0, u64::MAX - 1, u64::MAX] {
        assert!(encode(&of(first, 2)).is_err() && with_first(first).is_err());
    }
    // A frame without notices is a sign of life.
    assert!(encode(&of(u64::MAX, 0)).is_ok());
    assert!(encode(&of(0, 0)).is_err());
}
