//! Tests items that fail, and their leftovers.

use std::fs;
use std::os::unix::fs::FileExt as _;

use godwit_api::event::Status;
use godwit_api::job::{Item, PartDigest};
use godwit_worlds::Ended;

use crate::world::{PART, World};

fn failed(ended: &Ended) -> Vec<(usize, String)> {
    assert_eq!(ended.summary().status, Status::Partial, "{ended:?}");
    ended.failures()
}

fn one(number: usize, code: &str) -> Vec<(usize, String)> {
    vec![(number, code.to_owned())]
}

#[test]
fn a_wrong_digest_or_a_missing_part_gives_no_name() {
    let world = World::new();
    world.file("big", PART + 5000);
    world.claim_all();
    let parts = world.bring("big", &[]);
    let missing = world.assemble("big", &parts[..1]);
    let ended = world.run(world.member(0, vec![missing], &[]));
    assert_eq!(failed(&ended), one(0, "not_found"));
    let end = PART + 5000;
    let named = format!("from {PART} to {end}");
    assert!(ended.message().contains(&named), "{}", ended.message());

    // Both ends of the transfer expect the same wrong digest, so the error is found when the file
    // is read back.
    let mut wrong = parts.clone();
    wrong[1].1 = PartDigest {
        bytes: vec![1; 8],
        ..wrong[1].1.clone()
    };
    let wrong = world.assemble("big", &wrong);
    let ended = world.run(world.member(0, vec![wrong], &[("verify", "true")]));
    assert_eq!(failed(&ended), one(0, "digest"));
    assert!(ended.message().contains(&named), "{}", ended.message());
    assert!(!world.path("to/set/big").exists());
    assert_eq!(world.temporary().len(), 1, "the parts stay");
    let right = world.assemble("big", &parts);
    let ended = world.run(world.member(0, vec![right], &[("verify", "true")]));
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    world.assert_same("big");
}

#[test]
fn parts_of_a_file_that_changed_or_went_fail_and_mix_nothing() {
    let world = World::new();
    world.file("big", PART + 5000);
    world.file("gone", PART + 5000);
    world.claim_all();
    let parts = world.bring("big", &[]);
    let mut items = world.parts("big");
    items.push(world.assemble("big", &parts));
    items.extend(world.parts("gone").drain(..1));
    let file = fs::OpenOptions::new()
        .write(true)
        .open(world.path("from/big"))
        .expect("open");
    file.write_all_at(b"changed", 0).expect("written");
    fs::remove_file(world.path("from/gone")).expect("removed");
    let ended = world.run(world.member(0, items, &[]));
    let mut failures = failed(&ended);
    failures.sort();
    let codes: Vec<&str> = failures.iter().map(|(_, code)| code.as_str()).collect();
    assert_eq!(codes, ["changed", "changed", "changed", "not_found"]);
    assert!(!world.path("to/set/big").exists());
    // The file arrives after it is divided again; the old parts do no harm.
    let parts = world.bring("big", &[]);
    let ended = world.run(world.member(1, vec![world.assemble("big", &parts)], &[]));
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    world.assert_same("big");
    // The old part is swept although no item requests it again.
    fs::write(world.path("from/other"), "x").expect("written");
    let closed = world.run(world.closer(1));
    assert_eq!(closed.summary().status, Status::Complete, "{closed:?}");
    assert!(world.temporary().is_empty());
}

#[test]
fn parts_that_are_no_parts_are_refused() {
    let world = World::new();
    world.file("big", 2 * PART);
    world.claim_all();
    let generation = world.generation("big");
    let part = |offset, bytes| Item::Part {
        path: "big".into(),
        offset,
        bytes,
        generation,
    };
    let items = vec![
        part(0, PART / 2),
        part(PART / 2, PART),
        part(0, PART),
        part(PART, 2 * PART),
        Item::Part {
            path: "../big".into(),
            offset: 0,
            bytes: PART,
            generation,
        },
    ];
    let ended = world.run(world.member(0, items, &[]));
    let numbers: Vec<usize> = {
        let mut failures = failed(&ended);
        failures.sort();
        failures.into_iter().map(|(number, _)| number).collect()
    };
    assert_eq!(numbers, [0, 1, 3, 4], "{ended:?}");
    assert!(ended.digests(5)[2].is_some());
}

/// The closer of the claim would delete the source, so no member may begin to write there.
#[test]
fn a_member_is_refused_where_the_closer_would_delete_its_source() {
    for deletes in [true, false] {
        let world = World::new();
        world.file("big", PART + 5000);
        let items = world.parts("big");
        fs::rename(world.path("from"), world.path("to/set/from")).expect("moved");
        world.claim_all();
        let mut spec = world.member(0, items, &[]);
        spec.sources = vec!["to/set/from".parse().expect("an endpoint")];
        if let Some(member) = &mut spec.member {
            member.deletes = deletes;
        }
        let ended = world.run(spec);
        let is_refused = ended.message().contains("inside the destination");
        assert_eq!(is_refused, deletes, "{ended:?}");
        assert_eq!(world.temporary().is_empty(), deletes, "{ended:?}");
    }
}
