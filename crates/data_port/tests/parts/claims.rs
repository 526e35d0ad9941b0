//! Tests the rights to write while a destination is claimed, and the writes that stop when a claim
//! ends.

use std::fs;
use std::time::{Duration, Instant};

use godwit_api::ask::code;
use godwit_api::event::{Event, Status};
use godwit_api::failure::FailureCode;
use godwit_api::job::JobSpec;
use godwit_worlds::DEADLINE;

use crate::world::{PART, World};

#[test]
fn a_claimed_destination_is_for_members_alone() {
    let world = World::new();
    world.file("small", 1000);
    // No peer is a member before the claim is set.
    let early = world.run(world.member(0, world.parts("small"), &[]));
    assert!(
        early.message().contains("holds no claim"),
        "{}",
        early.message()
    );
    world.ask(0, &world.claim(5, DEADLINE)).expect("claimed");
    let member = |epoch| {
        let mut spec = world.member(0, world.parts("small"), &[]);
        spec.member.as_mut().expect("a member").epoch = epoch;
        spec
    };
    let passed = world.run(member(4));
    assert!(
        passed.message().contains("is in epoch 5"),
        "{}",
        passed.message()
    );
    let plain = world.run(world.spec(0, &[]));
    let failure = plain.result.as_ref().expect_err("refused");
    assert_eq!(failure.code, FailureCode::BusyDestination, "{failure:?}");
    assert!(
        failure.message.contains("is claimed"),
        "{}",
        failure.message
    );
    let own = world.begin_own().end();
    let failure = own.result.as_ref().expect_err("refused");
    assert_eq!(failure.code, FailureCode::BusyDestination, "{failure:?}");
    let above = JobSpec {
        destination: {
            let text = world.spec(0, &[]).destination;
            let text = String::from_utf8(text.to_text()).expect("text");
            text.trim_end_matches("set/").parse().expect("an endpoint")
        },
        sources: vec!["from/small".parse().expect("an endpoint")],
        ..world.spec(0, &[])
    };
    // Other places beside the claimed directory are free.
    let beside = world.run(above);
    assert_eq!(beside.summary().status, Status::Complete, "{beside:?}");
    let ended = world.run(member(5));
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    // Another epoch takes over, and the old one may not resume from its journal.
    world.ask(0, &world.claim(6, DEADLINE)).expect("taken over");
    let old = world.renew(0, 5).expect_err("it has passed");
    assert_eq!(old.code, code::NO_SUCH_CLAIM);
    world.renew(0, 6).expect("renewed");
    let older = world.ask(0, &world.claim(5, DEADLINE)).expect_err("lower");
    assert_eq!(older.code, code::NO_SUCH_CLAIM);
    assert_eq!(
        world.release(0).expect_err("epoch 1").code,
        code::NO_SUCH_CLAIM
    );
}

#[test]
fn a_claim_waits_for_a_transfer_that_is_no_member() {
    let world = World::new();
    world.file("big", 16 << 20);
    let file = fs::write(world.path("from/big"), vec![1; 16 << 20]);
    file.expect("written");
    let running = world.begin(world.spec(0, &[("limit", "1MB")]));
    running
        .event_log
        .wait_for(|event| matches!(event, Event::Progress(progress) if progress.bytes > 0));
    let busy = world.ask(0, &world.claim(1, DEADLINE)).expect_err("busy");
    assert_eq!(busy.code, code::BUSY);
    assert!(busy.retryable);
    running.control.cancel();
    running.end().result.expect_err("stopped");
}

#[test]
fn a_claim_that_ends_stops_its_members_and_another_takes_their_work() {
    let world = World::new();
    world.file("big", PART + (32 << 20));
    let file = fs::OpenOptions::new()
        .write(true)
        .open(world.path("from/big"))
        .expect("open");
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![7; 32 << 20], PART).expect("written");
    drop(file);
    world
        .ask(0, &world.claim(1, Duration::from_secs(240)))
        .expect("claimed");
    world
        .ask(1, &world.claim(1, Duration::from_secs(240)))
        .expect("claimed");
    let parts = world.parts("big");
    let slow = world.begin(world.member(0, parts[1..].to_vec(), &[("limit", "2MB")]));
    slow.event_log
        .wait_for(|event| matches!(event, Event::Progress(progress) if progress.bytes > 1 << 20));
    // The lease is no longer renewed: after its end, the node writes nothing that the member sends.
    world.release(0).expect("ended");
    let ended = slow.end();
    ended.result.as_ref().expect_err("stopped");
    assert_eq!(ended.digests(1), [None]);
    let again = world.run(world.member(0, parts[1..].to_vec(), &[]));
    assert!(
        again.message().contains("holds no claim"),
        "{}",
        again.message()
    );
    let ended_part = world.run(world.member(1, parts.clone(), &[]));
    let digests = ended_part.digests(2).into_iter().flatten();
    let parts: Vec<_> = parts.into_iter().zip(digests).collect();
    assert_eq!(parts.len(), 2, "{ended_part:?}");
    let ended = world.run(world.member(1, vec![world.assemble("big", &parts)], &[]));
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    world.assert_same("big");
    world.release(1).expect("released");
    // The destination is free again.
    let plain = world.run(world.spec(1, &[]));
    assert_eq!(plain.summary().status, Status::Complete, "{plain:?}");
}

#[test]
fn a_claim_keeps_its_place_while_the_grants_cannot_be_read_and_its_members_stop_soon() {
    let world = World::new();
    world.file("big", PART + (32 << 20));
    let file = fs::OpenOptions::new()
        .write(true)
        .open(world.path("from/big"))
        .expect("open");
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![7; 32 << 20], PART).expect("written");
    drop(file);
    world
        .ask(0, &world.claim(1, Duration::from_secs(240)))
        .expect("claimed");
    let last = world.parts("big")[1..].to_vec();
    let slow = world.begin(world.member(0, last.clone(), &[("limit", "1MB")]));
    slow.event_log
        .wait_for(|event| matches!(event, Event::Progress(progress) if progress.bytes > 0));
    let grants = world.path("node0/grants");
    let kept = fs::read(&grants).expect("there");
    fs::write(&grants, "no grant\n").expect("written");
    // The lease lasts for minutes, but the part only for half of one.
    let ended = slow.end();
    ended.result.as_ref().expect_err("stopped");
    assert_eq!(ended.digests(1), [None]);
    fs::write(&grants, kept).expect("written");
    world.renew(0, 1).expect("the claim still holds");
    // Members are admitted after the next check of the grants.
    let until = Instant::now() + DEADLINE;
    loop {
        let again = world.run(world.member(0, last.clone(), &[]));
        if again.digests(1) != [None] {
            break;
        }
        assert!(Instant::now() < until, "{again:?}");
    }
    world.release(0).expect("released");
}
