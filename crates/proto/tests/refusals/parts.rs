//! Tests refusals of parts in the extensions of records, and of members in OPEN. The unit tests of
//! `parts` check which parts a file may have.

use godwit_proto::parts::{
    HELD_ELSEWHERE, HELD_ELSEWHERE_MAX, PART, find_held_elsewhere, push_held_elsewhere,
};
use godwit_proto::*;

use super::encode;

fn extensions(values: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in values {
        extension::push(&mut bytes, *kind, value).unwrap();
    }
    bytes
}

fn part(offset: u64, bytes: u64) -> Vec<u8> {
    [offset.to_le_bytes(), bytes.to_le_bytes()].concat()
}

fn held(offset: u64, bytes: u64) -> HeldRange {
    HeldRange {
        offset,
        bytes,
        ..HeldRange::default()
    }
}

#[test]
fn every_rule_of_a_part_holds() {
    let good = part(4096, 5);
    let found = Part::find(&extensions(&[(999, b"new"), (PART, &good)]));
    let expected = Part {
        offset: 4096,
        bytes: 5,
    };
    assert_eq!(found, Ok(Some(expected)));
    assert_eq!(Part::find(&extensions(&[(999, b"new")])), Ok(None));
    for broken in [
        &[(PART, &b""[..])][..],
        &[(PART, &good[..15])],
        &[(PART, &[good.as_slice(), b"1"].concat())],
        &[(PART, &part(0, 0))],
        &[(PART, &part(u64::MAX, 1))],
        &[(PART, &good), (PART, &good)],
    ] {
        assert!(Part::find(&extensions(broken)).is_err(), "{broken:?}");
    }
}

#[test]
fn every_rule_of_ranges_held_elsewhere_holds() {
    let push = |ranges: &[HeldRange]| {
        let mut out = Vec::new();
        push_held_elsewhere(ranges, &mut out).map(|()| out)
    };
    let most: Vec<HeldRange> = (0..HELD_ELSEWHERE_MAX as u64)
        .map(|number| held(number, 1))
        .collect();
    let bytes = push(&most).unwrap();
    assert_eq!(find_held_elsewhere(&bytes), Ok(Some(most.clone())));
    let beyond = [most.as_slice(), &[held(1 << 20, 1)]].concat();
    for broken in [
        &[][..],
        &beyond,
        &[held(0, 0)],
        &[held(5, 5), held(9, 5)],
        &[held(5, 5), held(0, 5)],
        &[held(u64::MAX, 2)],
    ] {
        assert!(push(broken).is_err(), "{} ranges", broken.len());
    }
    // The same bytes from a peer.
    let wire = |ranges: &[HeldRange]| -> Vec<u8> {
        let each = ranges
            .iter()
            .map(|range| [part(range.offset, range.bytes), range.digest.0.to_vec()].concat());
        each.collect::<Vec<_>>().concat()
    };
    let read = |value: &[u8]| find_held_elsewhere(&extensions(&[(HELD_ELSEWHERE, value)]));
    assert!(read(&wire(&[held(0, 5)])).is_ok());
    assert!(read(&wire(&[held(0, 5)])[..47]).is_err());
    for broken in [
        &[][..],
        &beyond,
        &[held(0, 0)],
        &[held(5, 5), held(9, 5)],
        &[held(u64::MAX, 2)],
    ] {
        assert!(read(&wire(broken)).is_err(), "{} ranges", broken.len());
    }
}

#[test]
fn a_member_names_its_claim_sends_and_deletes_only_as_the_closer() {
    let open = |direction: Direction, claim: usize, epoch, closer, delete| {
        encode(&Frame::Open(Open {
            direction: direction.0,
            sources: vec![b"a".to_vec()],
            comparison: Some(Comparison {
                delete,
                counterpart: true,
                ..Comparison::default()
            }),
            member: Some(Member {
                claim: vec![1; claim],
                epoch,
                closer,
                ..Member::default()
            }),
            ..Open::default()
        }))
    };
    assert!(open(Direction::PUSH, 16, 1, false, false).is_ok());
    assert!(open(Direction::PUSH, 16, 1, true, true).is_ok());
    assert!(open(Direction::PUSH, 15, 1, false, false).is_err());
    assert!(open(Direction::PUSH, 16, 0, false, false).is_err());
    assert!(open(Direction::PUSH, 16, 1, false, true).is_err());
    assert!(open(Direction::PULL, 16, 1, false, false).is_err());
}

#[test]
fn a_region_is_a_closers_and_names_not_too_many_directories() {
    let open = |closer, within: Vec<Vec<u8>>, flat, listed| {
        encode(&Frame::Open(Open {
            direction: Direction::PUSH.0,
            sources: vec![b"a".to_vec()],
            comparison: Some(Comparison {
                delete: closer,
                counterpart: true,
                ..Comparison::default()
            }),
            selection: Some(Selection {
                listed,
                ..Selection::default()
            }),
            member: Some(Member {
                claim: vec![1; 16],
                epoch: 1,
                closer,
                within,
                flat,
                ..Member::default()
            }),
            ..Open::default()
        }))
    };
    let some = || vec![b"a/b".to_vec()];
    assert!(open(true, some(), false, true).is_ok());
    assert!(open(true, some(), true, true).is_ok());
    assert!(open(false, some(), false, true).is_err());
    assert!(open(true, Vec::new(), true, false).is_err());
    assert!(open(true, vec![b"a".to_vec(); 1_025], false, true).is_err());
    assert!(open(true, vec![vec![b'a'; 33 << 10]], false, true).is_err());
    // Entries outside of a list are deleted only in its region.
    assert!(open(true, Vec::new(), false, true).is_err());
}

#[test]
fn earlier_attempts_have_a_known_mapping_and_are_not_too_many() {
    let open = |mapping, tags| {
        encode(&Frame::Open(Open {
            direction: Direction::PUSH.0,
            sources: vec![b"a".to_vec()],
            earlier: Some(Earlier {
                mapping,
                tags: vec![7; tags],
                age_ms: None,
            }),
            ..Open::default()
        }))
    };
    assert!(open(Mapping::BECOMES.0, 64).is_ok());
    assert!(open(Mapping::INTO.0, 0).is_ok());
    assert!(open(0, 0).is_err());
    assert!(open(3, 0).is_err());
    assert!(open(Mapping::INTO.0, 65).is_err());
}

#[test]
fn a_mandate_names_an_identity_and_a_job() {
    let open = |asker: &str, job: &str| {
        encode(&Frame::Open(Open {
            direction: Direction::PULL.0,
            sources: vec![b"a".to_vec()],
            mandate: Some(Mandate {
                asker: asker.to_owned(),
                job: job.to_owned(),
            }),
            ..Open::default()
        }))
    };
    let asker = format!("gw1-{}", "a".repeat(52));
    assert!(open(&asker, "01jd-7").is_ok());
    assert!(open(&asker, &"x".repeat(64)).is_ok());
    for job in ["", "a:b", "a b", "a/b", &"x".repeat(65)] {
        assert!(open(&asker, job).is_err(), "{job}");
    }
    for wrong in ["", "gw1-a", &format!("gw1:{}", "a".repeat(52))] {
        assert!(open(wrong, "01jd-7").is_err(), "{wrong}");
    }
}

#[test]
fn heirs_are_identities_and_few() {
    let open = |heirs: Vec<String>| {
        encode(&Frame::Open(Open {
            direction: Direction::PUSH.0,
            sources: vec![b"a".to_vec()],
            heirs,
            ..Open::default()
        }))
    };
    let heir = format!("gw1-{}", "a".repeat(52));
    assert!(open(vec![heir.clone(); 64]).is_ok());
    assert!(open(vec![heir.clone(); 65]).is_err());
    for wrong in ["", "gw1-a", &format!("gw1:{}", "a".repeat(52))] {
        assert!(
            open(vec![heir.clone(), wrong.to_owned()]).is_err(),
            "{wrong}"
        );
    }
}
