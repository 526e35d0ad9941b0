//! Tests refusals of selections and of the lists that follow them. The other modules test other
//! messages.

use godwit_proto::limits::{NAMES_BYTES_MAX, PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX, RULES_MAX};
use godwit_proto::*;

use super::{changed, encode};

fn open(selection: Selection) -> Frame {
    Frame::Open(Open {
        direction: Direction::PULL.0,
        sources: vec![b"data/a".to_vec()],
        selection: Some(selection),
        ..Open::default()
    })
}

fn rules(count: usize, bytes: usize) -> Frame {
    open(Selection {
        rules: vec![
            Rule {
                include: false,
                pattern: vec![b'x'; bytes],
            };
            count
        ],
        ..Selection::default()
    })
}

#[test]
fn a_selection_keeps_its_bounds() {
    assert!(encode(&rules(RULES_MAX, 1)).is_ok());
    assert!(encode(&rules(RULES_MAX + 1, 1)).is_err());
    assert!(encode(&rules(1, PATTERN_BYTES_MAX)).is_ok());
    assert!(encode(&rules(1, PATTERN_BYTES_MAX + 1)).is_err());
    let most = PATTERNS_BYTES_MAX / PATTERN_BYTES_MAX;
    assert!(encode(&rules(most, PATTERN_BYTES_MAX)).is_ok());
    assert!(encode(&rules(most + 1, PATTERN_BYTES_MAX)).is_err());
    assert!(encode(&rules(1, 0)).is_err());
    let nul = Rule {
        include: true,
        pattern: b"a\0b".to_vec(),
    };
    let moment = Moment {
        seconds: 0,
        nanoseconds: 1_000_000_000,
    };
    for wrong in [
        Selection {
            rules: vec![nul],
            ..Selection::default()
        },
        Selection {
            newer: Some(moment),
            ..Selection::default()
        },
        Selection {
            older: Some(moment),
            ..Selection::default()
        },
        Selection {
            recursive: true,
            ..Selection::default()
        },
    ] {
        assert!(encode(&open(wrong)).is_err());
    }
}

#[test]
fn a_list_belongs_to_one_source() {
    for count in [0, 2] {
        let frame = Frame::Open(Open {
            direction: Direction::PULL.0,
            sources: vec![b"data/a".to_vec(); count],
            selection: Some(Selection {
                listed: true,
                ..Selection::default()
            }),
            ..Open::default()
        });
        assert!(encode(&frame).is_err());
    }
}

fn part(names: &[u8]) -> NameList {
    NameList {
        transfer: TransferId([1; 16]),
        part: 1,
        taken: 0,
        last: false,
        names: names.to_vec(),
    }
}

#[test]
fn a_part_of_a_list_is_names_with_their_ends() {
    assert!(encode(&Frame::NameList(part(b"a\0b/\0"))).is_ok());
    assert!(encode(&Frame::NameList(part(b""))).is_ok());
    let mut long = vec![b'x'; 65_535];
    long.push(0);
    assert!(encode(&Frame::NameList(part(&long))).is_ok());
    long.insert(0, b'x');
    assert!(encode(&Frame::NameList(part(&long))).is_err());
    let full = [b"abcdefg\0".repeat(NAMES_BYTES_MAX / 8), b"a\0".to_vec()].concat();
    assert!(encode(&Frame::NameList(part(&full[..NAMES_BYTES_MAX]))).is_ok());
    assert!(encode(&Frame::NameList(part(&full))).is_err());
    for names in [&b"a"[..], b"a\0b", b"\0", b"a\0\0"] {
        assert!(encode(&Frame::NameList(part(names))).is_err(), "{names:?}");
    }
    let list = part(b"a\0b c\0");
    assert_eq!(list.names().collect::<Vec<_>>(), [&b"a"[..], b"b c"]);
    assert_eq!(part(b"").names().count(), 0);
}

#[test]
fn a_part_and_what_is_taken_are_distinguished() {
    let taken = NameList::taken(TransferId([1; 16]), 3);
    for wrong in [
        NameList {
            taken: 1,
            ..part(b"a\0")
        },
        NameList {
            last: true,
            ..taken.clone()
        },
        NameList {
            names: b"a\0".to_vec(),
            ..taken.clone()
        },
    ] {
        assert!(encode(&Frame::NameList(wrong)).is_err());
    }
    let frame = Frame::NameList(taken);
    assert!(changed(&frame, |_| {}).is_ok());
    assert!(changed(&frame, |head| head[36] = 2).is_err());
    assert!(changed(&frame, |head| head[39] = 1).is_err());
    assert!(changed(&frame, |head| head.push(0)).is_err());
    assert!(changed(&frame, |head| head[32] = 1).is_err());
    assert!(changed(&frame, |head| head[34] = 0xff).is_err());
    assert!(changed(&frame, |head| head.truncate(39)).is_err());
}
