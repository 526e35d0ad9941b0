//! Tests refusals of hellos and control messages. The other modules test frames with fixed layouts.

use godwit_proto::limits::{
    GROUND_IDS_MAX, MESSAGE_BYTES_MAX, PATH_BYTES_MAX, TOKENS_MAX, TUNED_MAX,
    TUNED_REASON_BYTES_MAX,
};
use godwit_proto::*;

use super::{changed, encode};

#[test]
fn foreign_bytes_and_invalid_hellos_are_different_errors() {
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
            direction: 4,
            ..open.clone()
        },
        Open {
            direction: Direction::VERIFY.0,
            ..open.clone()
        },
        Open {
            verification: Some(Verification::default()),
            ..open.clone()
        },
        Open {
            direction: Direction::VERIFY.0,
            verification: Some(Verification::default()),
            sources: vec![b"a".to_vec(); 2],
            ..open.clone()
        },
        Open {
            in_order: true,
            ..open.clone()
        },
        Open {
            random_order: true,
            ..open.clone()
        },
        Open {
            direction: Direction::PULL.0,
            in_order: true,
            random_order: true,
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
            view: vec![1; 15],
            ..open.clone()
        },
        Open {
            view: vec![1; 17],
            ..open.clone()
        },
        Open {
            ground: Some(Ground {
                tops: vec![1; GROUND_IDS_MAX + 1],
                ..Ground::default()
            }),
            ..open.clone()
        },
        Open {
            ground: Some(Ground {
                mounts_around: vec![1; GROUND_IDS_MAX + 1],
                ..Ground::default()
            }),
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
            sources: vec![vec![b'x'; 65_535]; 513],
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
fn a_comparison_that_could_delete_what_was_not_meant_is_refused() {
    let asks = |sources: usize, comparison| {
        encode(&Frame::Open(Open {
            direction: 1,
            sources: vec![b"a".to_vec(); sources],
            comparison: Some(comparison),
            ..Open::default()
        }))
    };
    let counterpart = Comparison {
        delete: true,
        counterpart: true,
        ..Comparison::default()
    };
    assert!(asks(1, counterpart).is_ok());
    assert!(asks(2, counterpart).is_err());
    assert!(asks(2, Comparison::default()).is_ok());
    let listed = |listed| {
        let open = Open {
            direction: 1,
            sources: vec![b"a".to_vec()],
            comparison: Some(counterpart),
            ..Open::default()
        };
        // An OPEN with a list, made from a valid one: fields of a message may have any order.
        changed(&Frame::Open(open), |head| {
            head.extend([0x92, 1, 2, 0x30, u8::from(listed)]);
        })
    };
    assert!(listed(false).is_ok());
    let refused = listed(true).unwrap_err();
    assert!(
        refused.to_string().contains("a list does not name"),
        "{refused}"
    );
    for wrong in [
        Comparison {
            counterpart: false,
            ..counterpart
        },
        Comparison {
            judge: 3,
            ..counterpart
        },
        Comparison {
            no_replace: true,
            ..counterpart
        },
    ] {
        assert!(asks(1, wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_request_names_what_the_daemon_must_be_able_to_do() {
    let needed = |comparison| {
        Open {
            comparison,
            ..Open::default()
        }
        .capabilities_needed()
    };
    assert_eq!(needed(None), 0);
    // Every daemon compares like this without a request.
    assert_eq!(needed(Some(Comparison::default())), 0);
    let bits = needed(Some(Comparison {
        delete: true,
        ..Comparison::default()
    }));
    assert_eq!(bits, hello::capability::COMPARISON);
    assert!(!hello::capability::name(bits).is_empty());
    // A receiver that ignored this field would replace entries that stay. A sender compares nothing.
    for (direction, bit) in [
        (Direction::PUSH, hello::capability::NO_REPLACE),
        (Direction::PULL, 0),
    ] {
        let open = Open {
            direction: direction.0,
            comparison: Some(Comparison {
                no_replace: true,
                ..Comparison::default()
            }),
            ..Open::default()
        };
        let bits = open.capabilities_needed();
        assert_eq!(bits, hello::capability::COMPARISON | bit);
    }
    assert!(!hello::capability::name(hello::capability::NO_REPLACE).is_empty());
    // A daemon that ignored these fields would name and compare entries that the owner of the job may not see.
    for (may_not_read, may_not_list) in [(true, false), (false, true)] {
        let open = Open {
            may_not_read,
            may_not_list,
            ..Open::default()
        };
        let bits = open.capabilities_needed();
        assert_eq!(bits, hello::capability::OWNER_SIGHT);
        assert!(!hello::capability::name(bits).is_empty());
    }
    // A daemon that ignored this field would check the rights of the asker's node instead.
    let open = Open {
        mandate: Some(Mandate {
            asker: "gw1-c".to_owned(),
            job: "c-job".to_owned(),
        }),
        ..Open::default()
    };
    assert_eq!(open.capabilities_needed(), hello::capability::MANDATE);
    assert_eq!(hello::capability::name(1 << 63), "");
    assert_eq!(hello::capability::name(0), "");
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
fn decisions_keep_their_bounds_wherever_counters_are_reported() {
    let framed = |count: u64, reason: &str| {
        let tuned = |number| Tuned {
            number,
            what: Tuned::WRITERS,
            reason: reason.to_owned(),
            ..Tuned::default()
        };
        let counters = Status {
            tuned: (1..=count).map(tuned).collect(),
            ..Status::default()
        };
        [
            Frame::Status(counters.clone()),
            Frame::Finish(Finish {
                transfer: vec![1; 16],
                counters: Some(counters.clone()),
                ..Finish::default()
            }),
            Frame::Finished(Finished {
                transfer: vec![1; 16],
                counters: Some(counters),
                ..Finished::default()
            }),
        ]
    };
    let reported = |frame: Frame| match frame {
        Frame::Status(status) => status.tuned,
        Frame::Finish(finish) => finish.counters.unwrap().tuned,
        Frame::Finished(finished) => finished.counters.unwrap().tuned,
        other => panic!("{other:?}"),
    };
    let most = TUNED_MAX as u64;
    // Only the latest decisions are kept, with their reasons cut.
    for frame in framed(
        most + 3,
        &format!("x{}", "ä".repeat(TUNED_REASON_BYTES_MAX)),
    ) {
        let tuned = reported(changed(&frame, |_| {}).unwrap());
        let numbers: Vec<u64> = tuned.iter().map(|tuned| tuned.number).collect();
        assert_eq!(numbers, (4..=most + 3).collect::<Vec<_>>());
        let longest = tuned.iter().map(|tuned| tuned.reason.len()).max();
        assert_eq!(longest, Some(TUNED_REASON_BYTES_MAX - 1));
    }
    // A peer that exceeds the limits by one decision, or by one byte of a reason. The decisions follow all other fields;
    // in FINISH and FINISHED they are in another piece of the counters, as the encoding allows.
    let more = |frame: &Frame, tuned: &[u8]| {
        let field = [&[0xca, 0x04][..], &varint(tuned.len()), tuned].concat();
        let piece = |tag: u8| [&[tag][..], &varint(field.len()), &field].concat();
        let field = match frame {
            Frame::Finish(_) => piece(0x32),
            Frame::Finished(_) => piece(0x52),
            _ => field,
        };
        changed(frame, |head| head.extend(field))
    };
    let reason = |bytes: usize| [&[0x2a][..], &varint(bytes), &vec![b'x'; bytes]].concat();
    for frame in framed(most, "why") {
        let refused = more(&frame, &[]).unwrap_err();
        assert!(refused.to_string().contains("decisions"), "{refused}");
    }
    for frame in framed(0, "") {
        assert!(more(&frame, &reason(TUNED_REASON_BYTES_MAX)).is_ok());
        let refused = more(&frame, &reason(TUNED_REASON_BYTES_MAX + 1)).unwrap_err();
        assert!(refused.to_string().contains("reason"), "{refused}");
    }
}

/// Encodes the length of a field.
fn varint(length: usize) -> Vec<u8> {
    let low = u8::try_from(length % 128).unwrap();
    match u8::try_from(length / 128).unwrap() {
        0 => vec![low],
        high => vec![0x80 | low, high],
    }
}

#[test]
fn the_name_of_a_failed_entry_keeps_the_rules_of_paths() {
    let failed = |path: &[u8]| {
        Frame::EntryFailed(EntryFailed {
            path: path.to_vec(),
            ..EntryFailed::default()
        })
    };
    assert!(encode(&failed(b"a/../b")).is_err());
    assert!(encode(&failed(&[b'a'; PATH_BYTES_MAX + 1])).is_err());
    let longest = [&[b'n'; 255][..]; 256].join(&b'/');
    assert_eq!(changed(&failed(&longest), |_| {}), Ok(failed(&longest)));
    assert!(changed(&failed(b"a/b"), |head| head[33] = b'\0').is_err());
    assert_eq!(
        changed(&failed(b"a"), |head| head[28] = 1),
        Err(WireError::NonZeroReserved {
            what: "a failed entry"
        })
    );
    assert_eq!(
        changed(&failed(b"a"), |head| head[26] = 200),
        Err(WireError::Short {
            what: "a failed entry"
        })
    );
}

#[test]
fn tokens_are_not_printed() {
    let join = format!("{:?}", Join::new(TransferId([1; 16]), Token([0xab; 16]), 0));
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
