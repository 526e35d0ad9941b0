//! Tests parts that arrive, and the assembled file.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};

use godwit_api::event::{Event, Status};

use crate::world::{PART, World};

fn brings_a_file(digest: &str) {
    let world = World::new();
    world.file("big", 2 * PART + 100_000);
    fs::create_dir(world.path("from/sub")).expect("made");
    fs::write(world.path("from/sub/small"), "small").expect("written");
    fs::hard_link(world.path("from/sub/small"), world.path("from/link")).expect("linked");
    fs::write(world.path("to/set/extra"), "extra").expect("written");
    world.claim_all();
    let settings = [("digest", digest)];
    let parts = world.bring("big", &settings);
    assert_eq!(parts.len(), 3);
    assert!(!world.path("to/set/big").exists(), "nothing has the name");
    assert_eq!(world.temporary().len(), 1, "one file for all members");
    assert!(
        world.path("to/set/extra").exists(),
        "a member deletes nothing"
    );

    let assemble = world.assemble("big", &parts);
    let ended = world.run(world.member(1, vec![assemble.clone()], &settings));
    assert_eq!(ended.summary().status, Status::Complete);
    assert_eq!(ended.summary().files, 1);
    let whole = ended.digests(1).remove(0).expect("done");
    assert!(!parts.iter().any(|(_, part)| *part == whole));
    assert!(world.temporary().is_empty(), "{:?}", world.temporary());
    world.assert_same("big");
    // Repeating a finished item changes nothing.
    let again = world.run(world.member(0, vec![assemble], &settings));
    assert_eq!(again.summary().status, Status::Complete, "{again:?}");
    assert_eq!(again.summary().skipped, 1);

    // The closer removes a member's temporary files.
    let forced = [&settings[..], &[("force", "true")]].concat();
    let rest = world.run(world.member(0, world.parts("big")[..1].to_vec(), &forced));
    assert_eq!(rest.summary().status, Status::Complete);
    assert_eq!(world.temporary().len(), 1);
    let closed = world.run(world.closer(0));
    assert_eq!(closed.summary().status, Status::Complete, "{closed:?}");
    assert_eq!(closed.summary().skipped, 1, "the large file");
    assert!(world.temporary().is_empty(), "{:?}", world.temporary());
    assert!(!world.path("to/set/extra").exists());
    for name in ["big", "sub/small", "link"] {
        world.assert_same(name);
    }
    let modified = |path: &str| {
        let meta = fs::metadata(world.path(path)).expect("there");
        meta.modified().expect("a time")
    };
    assert_eq!(modified("from/sub"), modified("to/set/sub"));
    assert_eq!(modified("from"), modified("to/set"));
}

#[test]
fn parts_through_two_nodes_become_the_file() {
    brings_a_file("crc64-nvme");
}

#[test]
fn parts_with_cryptographic_digests_become_the_file() {
    brings_a_file("blake3");
}

#[test]
fn an_interrupted_part_resumes_from_the_journal() {
    let world = World::new();
    let tail = 16 << 20;
    world.file("big", PART + tail);
    let content: Vec<u8> = (0..tail).map(|at| (at % 251) as u8).collect();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(world.path("from/big"))
        .expect("open");
    std::os::unix::fs::FileExt::write_all_at(&file, &content, PART).expect("written");
    drop(file);
    world.claim_all();
    let part = vec![world.parts("big").remove(1)];
    let slow = world.member(0, part.clone(), &[("limit", "4MB")]);
    let running = world.begin(slow);
    running
        .event_log
        .wait_for(|event| matches!(event, Event::Progress(progress) if progress.bytes > 4 << 20));
    running.control.cancel();
    running.end().result.expect_err("it was stopped");
    let ended = world.run(world.member(0, part, &[]));
    let sent = ended.summary().bytes.expect("known");
    assert!(
        sent > 0 && sent < tail,
        "{sent} of {tail} bytes were sent again"
    );
    let mut done = ended.digests(1);
    let first = world.run(world.member(1, vec![world.parts("big").remove(0)], &[]));
    done.insert(0, first.digests(1).remove(0));
    let digests = done.into_iter().map(|digest| digest.expect("done"));
    let parts: Vec<_> = world.parts("big").into_iter().zip(digests).collect();
    let ended = world.run(world.member(0, vec![world.assemble("big", &parts)], &[]));
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    world.assert_same("big");
}

#[test]
fn a_late_write_meets_no_file_that_has_a_name() {
    let world = World::new();
    world.file("big", 2 * PART + 100_000);
    world.claim_all();
    let parts = world.bring("big", &[]);
    let shared = world.temporary().remove(0);
    // Simulates a node that hangs in a write: no fence stops a write in the kernel.
    let late = fs::OpenOptions::new().write(true).open(&shared);
    let late = late.expect("opened");
    world.claim_copies();
    let ended = world.run(world.member(1, vec![world.assemble("big", &parts)], &[]));
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    world.assert_same("big");
    let modified = || {
        let meta = fs::metadata(world.path("to/set/big")).expect("there");
        meta.modified().expect("a time")
    };
    let before = modified();
    late.write_all_at(b"late", 5).expect("written");
    assert_eq!(modified(), before);
    world.assert_same("big");
    assert!(world.temporary().is_empty(), "{:?}", world.temporary());
}

#[test]
fn a_member_changes_nothing_that_it_has_not_made() {
    let world = World::new();
    for place in ["from/f", "to/set/f"] {
        fs::write(world.path(place), "content").expect("written");
        let file = fs::File::open(world.path(place)).expect("opened");
        let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30);
        file.set_modified(then).expect("set");
    }
    let mode = |place: &str| fs::metadata(world.path(place)).expect("there").mode() & 0o777;
    for (place, mode) in [("from/f", 0o640), ("to/set/f", 0o600)] {
        fs::set_permissions(world.path(place), fs::Permissions::from_mode(mode)).expect("set");
    }
    world.claim_all();
    let mut member = world.member(0, Vec::new(), &[]);
    member.sources = vec!["from/.".parse().expect("an endpoint")];
    let ended = world.run(member);
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    assert_eq!((ended.summary().skipped, ended.summary().adjusted), (1, 0));
    assert_eq!(
        mode("to/set/f"),
        0o600,
        "a late call would meet the user's file"
    );
    let ended = world.run(world.closer(1));
    assert_eq!(ended.summary().adjusted, 1, "{ended:?}");
    assert_eq!(mode("to/set/f"), 0o640);
}

#[test]
fn a_copy_of_something_else_gets_no_name() {
    let world = World::new();
    world.file("big", 2 * PART + 100_000);
    world.claim_all();
    let parts = world.bring("big", &[]);
    let shared = fs::OpenOptions::new()
        .write(true)
        .open(world.temporary().remove(0));
    let shared = shared.expect("opened");
    shared.write_all_at(b"damage", PART + 7).expect("written");
    world.claim_copies();
    let ended = world.run(world.member(1, vec![world.assemble("big", &parts)], &[]));
    assert_eq!(ended.digests(1), [None], "{ended:?}");
    assert!(!world.path("to/set/big").exists());
}

#[test]
fn items_and_names_go_in_one_transfer() {
    let world = World::new();
    world.file("deep", 1000);
    fs::create_dir_all(world.path("from/a/b")).expect("made");
    fs::rename(world.path("from/deep"), world.path("from/a/b/deep")).expect("moved");
    world.claim_all();
    // A small file may be a single part too.
    let parts = world.bring("a/b/deep", &[]);
    let ended = world.run(world.member(0, vec![world.assemble("a/b/deep", &parts)], &[]));
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    world.assert_same("a/b/deep");
}

#[test]
fn two_lanes_of_one_sender_run_at_the_same_time() {
    let world = World::new();
    world.file("big", 2 * PART);
    world.claim_all();
    let parts = world.parts("big");
    let lane = |number: u32, limit| {
        let part = parts[usize::try_from(number).expect("few")].clone();
        let mut spec = world.member(0, vec![part], limit);
        spec.member.as_mut().expect("a member").lane = number;
        world.begin(spec)
    };
    let slow = lane(0, &[("limit", "1kB")]);
    slow.event_log
        .wait_for(|event| matches!(event, Event::Progress(progress) if progress.streams > 0));
    let beside = lane(1, &[]).end();
    assert_eq!(beside.summary().status, Status::Complete, "{beside:?}");
    slow.control.cancel();
    slow.end().result.expect_err("stopped");
}
