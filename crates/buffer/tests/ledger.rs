//! Tests of the ledger's rules one by one: admission, watermarks, pins, order and rate of draining, slow volumes, and names of what cannot be
//! had. The model test has all of them at once.

use std::sync::Arc;
use std::time::Duration;

use godwit_buffer::extent::{
    BlockDigest, FileKey, Flow, Generation, Keep, SourceId, State, Ticket, VolumeIndex,
};
use godwit_buffer::health::Health;
use godwit_buffer::ledger::{
    Action, Admission, Begun, DrainSettings, Drained, FileList, FileView, IfFull, Ledger, Notice,
    Order, Reason, Settings, WriteFault,
};
use godwit_store::digest::{Digest, DigestKind};

const EXTENT: u32 = 4096;
const DIGEST: BlockDigest = BlockDigest {
    kind: DigestKind::Crc64Nvme,
    value: Digest([1; 32]),
};

fn at(millis: u64) -> Duration {
    Duration::from_millis(1_000_000 + millis)
}

fn ledger(slots: &[u32], drain: DrainSettings) -> Ledger {
    let mut ledger = Ledger::new(Settings {
        extent_bytes: EXTENT,
        drain,
        ..Settings::default()
    });
    for slots in slots {
        ledger.attach(*slots, Vec::new());
    }
    ledger
}

fn file(name: &str, extents: u64) -> Arc<FileKey> {
    Arc::new(FileKey {
        source: SourceId([0; 16]),
        path: name.into(),
        generation: Generation {
            bytes: extents * u64::from(EXTENT),
            stamp: 1,
        },
    })
}

/// Carries commits out, and returns all other actions.
fn settle(ledger: &mut Ledger, now: Duration) -> Vec<Action> {
    let mut others = Vec::new();
    while let Some(action) = ledger.poll_action(now) {
        match action {
            Action::Commit(commit) => {
                ledger.handle_committed(now, commit.volume, commit.number, true)
            }
            other => others.push(other),
        }
    }
    others
}

/// Writes an extent; returns its ticket and the drains that began.
fn write(
    ledger: &mut Ledger,
    now: Duration,
    key: &Arc<FileKey>,
    index: u64,
    flow: Flow,
) -> (Ticket, Vec<Action>) {
    let Admission::Granted(id) = ledger.reserve(1, IfFull::PassThrough) else {
        panic!("no room");
    };
    let offset = index * u64::from(EXTENT);
    let mut actions = Vec::new();
    for _ in 0..3 {
        if let Begun::Here(ticket) = ledger.begin(now, id, key, offset, flow) {
            ledger.handle_written(now, ticket, Ok(DIGEST));
            actions.extend(settle(ledger, now));
            ledger.release(id);
            return (ticket, actions);
        }
        actions.extend(settle(ledger, now));
    }
    panic!("no slot");
}

fn never() -> DrainSettings {
    DrainSettings {
        at_once: 0,
        ..DrainSettings::default()
    }
}

#[test]
fn a_file_larger_than_the_buffer_passes_through_and_others_wait_in_turn() {
    let mut ledger = ledger(&[6, 4], never());
    let larger = Admission::PassThrough(Reason::LargerThanBuffer);
    assert_eq!(ledger.reserve(11, IfFull::Wait), larger);
    let Admission::Granted(first) = ledger.reserve(8, IfFull::Wait) else {
        panic!("there is room");
    };
    let Admission::Waits(second, Reason::Reserved) = ledger.reserve(5, IfFull::Wait) else {
        panic!("there is none");
    };
    // One extent would fit, but the other came before.
    let Admission::Waits(third, _) = ledger.reserve(1, IfFull::Wait) else {
        panic!("out of turn");
    };
    assert_eq!(
        ledger.reserve(1, IfFull::PassThrough),
        Admission::PassThrough(Reason::Reserved)
    );
    ledger.release(first);
    settle(&mut ledger, at(0));
    assert_eq!(ledger.poll_notice(), Some(Notice::Granted(second)));
    assert_eq!(ledger.poll_notice(), Some(Notice::Granted(third)));
}

#[test]
fn dirty_data_makes_others_wait_and_names_the_reason() {
    let mut ledger = ledger(&[10], never());
    let key = file("in", 9);
    for index in 0..9 {
        write(&mut ledger, at(index), &key, index, Flow::In);
    }
    let status = ledger.status();
    assert_eq!(
        (status.count(State::Dirty), status.oldest_dirty),
        (9, Some(at(0)))
    );
    assert!(matches!(
        ledger.reserve(2, IfFull::Wait),
        Admission::Waits(_, Reason::Undrained)
    ));
}

#[test]
fn eviction_goes_from_one_watermark_to_the_other_and_spares_pins() {
    let mut ledger = ledger(&[100], never());
    let (pinned, key) = (file("pinned", 10), file("out", 90));
    for index in 0..10 {
        write(&mut ledger, at(0), &pinned, index, Flow::Out);
    }
    assert!(ledger.keep(&pinned, Keep::Until(at(500))));
    for index in 0..85 {
        write(&mut ledger, at(1), &key, index, Flow::Out);
    }
    assert_eq!(ledger.status().count(State::Clean), 95);
    write(&mut ledger, at(2), &key, 85, Flow::Out);
    assert_eq!(ledger.status().count(State::Clean), 90);
    assert!(ledger.find(at(3), &pinned, 0).is_some());
    assert!(ledger.find(at(3), &key, 5 * u64::from(EXTENT)).is_none());
    assert!(ledger.find(at(3), &key, 6 * u64::from(EXTENT)).is_some());
    // The time is over, so the file is the least recently used one.
    settle(&mut ledger, at(600));
    for index in 0..6 {
        write(&mut ledger, at(600), &key, index, Flow::Out);
    }
    assert!(ledger.find(at(601), &pinned, u64::from(EXTENT)).is_none());
}

#[test]
fn pins_do_not_take_reserved_room() {
    let mut ledger = ledger(&[10], never());
    let key = file("out", 6);
    for index in 0..6 {
        write(&mut ledger, at(0), &key, index, Flow::Out);
    }
    let Admission::Granted(id) = ledger.reserve(8, IfFull::Wait) else {
        panic!("clean extents make room");
    };
    assert!(!ledger.keep(&key, Keep::Pinned));
    ledger.release(id);
    assert!(ledger.keep(&key, Keep::Pinned));
    assert!(matches!(
        ledger.reserve(8, IfFull::Wait),
        Admission::Waits(_, Reason::Kept)
    ));
}

fn order_of(order: Order) -> Vec<(String, u64)> {
    let mut ledger = ledger(&[10], never());
    let (large, small) = (file("large", 3), file("small", 2));
    for (index, key, offset) in [
        (0, &large, 2),
        (1, &small, 1),
        (2, &large, 0),
        (3, &small, 0),
    ] {
        write(&mut ledger, at(index), key, offset, Flow::In);
    }
    ledger.set_drain(DrainSettings {
        order,
        rate: None,
        at_once: 10,
    });
    let drains = settle(&mut ledger, at(10)).into_iter();
    let drains = drains.map(|action| match action {
        Action::Drain(_, content) => (content.file.to_string(), content.offset / u64::from(EXTENT)),
        other => panic!("{other:?}"),
    });
    drains.collect()
}

#[test]
fn extents_drain_in_the_chosen_order() {
    let named = |all: [(&str, u64); 4]| all.map(|(name, index)| (name.to_owned(), index));
    let oldest = [("large", 2), ("small", 1), ("large", 0), ("small", 0)];
    assert_eq!(order_of(Order::Oldest), named(oldest));
    let by_file = [("large", 0), ("large", 2), ("small", 0), ("small", 1)];
    assert_eq!(order_of(Order::ByFile), named(by_file));
    let small = [("small", 0), ("small", 1), ("large", 0), ("large", 2)];
    assert_eq!(order_of(Order::SmallFiles), named(small));
}

#[test]
fn draining_keeps_its_rate_and_failures_wait_longer_each_time() {
    let rate = u64::from(EXTENT) * 10;
    let mut ledger = ledger(&[200], never());
    let key = file("in", 100);
    for index in 0..100 {
        write(&mut ledger, at(0), &key, index, Flow::In);
    }
    ledger.set_drain(DrainSettings {
        order: Order::Oldest,
        rate: Some(rate),
        at_once: 4,
    });
    let mut drained = 0;
    for now in 0..5_000 {
        for action in settle(&mut ledger, at(now)) {
            let Action::Drain(ticket, _) = action else {
                continue;
            };
            ledger.handle_drained(at(now), ticket, Drained::Done);
            drained += 1;
        }
    }
    assert!((49..=52).contains(&drained), "{drained} in five seconds");
    assert_eq!(ledger.status().drained_bytes, drained * u64::from(EXTENT));
    let mut tries = Vec::new();
    for now in 5_000..90_000 {
        for action in settle(&mut ledger, at(now)) {
            let Action::Drain(ticket, _) = action else {
                continue;
            };
            ledger.handle_drained(at(now), ticket, Drained::TargetFailed);
            tries.push((ticket, now));
        }
    }
    let first: Vec<u64> = tries
        .iter()
        .filter(|(ticket, _)| *ticket == tries[0].0)
        .map(|(_, now)| *now)
        .collect();
    assert!(first.len() >= 4, "{first:?}");
    assert!(
        first
            .windows(3)
            .all(|three| three[2] - three[1] > three[1] - three[0]),
        "{first:?}"
    );
    assert!(ledger.next_due().is_some());
    assert_eq!(ledger.status().count(State::Dirty), 100 - drained);
}

#[test]
fn a_slow_volume_gets_one_write_at_a_time_and_an_unwell_one_is_named_with_its_files() {
    let mut ledger = ledger(&[400, 40], never());
    let mut now = 0;
    let mut turns = Vec::new();
    for index in 0..200 {
        let key = file(&format!("f{index}"), 1);
        let Admission::Granted(id) = ledger.reserve(1, IfFull::Wait) else {
            panic!("room");
        };
        let Begun::Here(ticket) = ledger.begin(at(now), id, &key, 0, Flow::In) else {
            panic!("room");
        };
        // The first volume becomes slow.
        let is_first = ticket.place.volume == VolumeIndex(0);
        now += if is_first && index > 60 { 900 } else { 3 };
        ledger.handle_written(at(now), ticket, Ok(DIGEST));
        settle(&mut ledger, at(now));
        ledger.release(id);
        turns.extend(std::iter::from_fn(|| ledger.poll_notice()));
        if turns.contains(&Notice::Health(VolumeIndex(0), Health::Slow)) {
            break;
        }
    }
    assert_eq!(turns, [Notice::Health(VolumeIndex(0), Health::Slow)]);
    let Admission::Granted(id) = ledger.reserve(100, IfFull::Wait) else {
        panic!("room");
    };
    let begun = (0..100)
        .map(|index| ledger.begin(at(now), id, &file(&format!("g{index}"), 1), 0, Flow::In));
    let begun: Vec<Begun> = begun.collect();
    let on_slow: Vec<Ticket> = begun
        .iter()
        .filter_map(|begun| match begun {
            Begun::Here(ticket) if ticket.place.volume == VolumeIndex(0) => Some(*ticket),
            _ => None,
        })
        .collect();
    assert_eq!(on_slow.len(), 1, "the other volume comes first");
    assert!(matches!(begun.last(), Some(Begun::Later(_))));
    assert_eq!(ledger.stranded(), []);
    for _ in 0..3 {
        // No room is left once the volume is out.
        let Admission::Granted(id) = ledger.reserve(1, IfFull::PassThrough) else {
            break;
        };
        ledger.handle_written(at(now), on_slow[0], Err(WriteFault::Failed));
        let again = ledger.begin(at(now), id, &file("again", 1), 0, Flow::In);
        if let Begun::Here(ticket) = again {
            ledger.handle_written(at(now), ticket, Err(WriteFault::Failed));
        }
        ledger.release(id);
    }
    let health: Vec<Notice> = std::iter::from_fn(|| ledger.poll_notice()).collect();
    let is_out =
        |notice: &&Notice| matches!(notice, Notice::Health(VolumeIndex(0), Health::Out(_)));
    assert_eq!(health.iter().filter(is_out).count(), 1, "{health:?}");
    let stranded = ledger.stranded();
    assert!(
        stranded.len() > 50
            && stranded
                .iter()
                .all(|one| !one.is_damaged && one.extents == 1)
    );
    assert!(
        stranded.iter().any(|one| one.file.path == b"f0"),
        "named file by file"
    );
}

#[test]
fn a_list_of_files_takes_few_extents_at_a_time_and_is_the_same() {
    let mut ledger = ledger(&[64], never());
    let names = [("a", 1), ("dir/b", 5), ("dir/c", 3), ("dir/d", 1), ("e", 2)];
    let keys = names.map(|(name, extents)| file(name, extents));
    for (key, (_, extents)) in keys.iter().zip(names) {
        for index in 0..extents {
            write(&mut ledger, at(index), key, index, Flow::Out);
        }
    }
    write(&mut ledger, at(9), &file("dir/in", 1), 0, Flow::In);
    let whole = |ledger: &Ledger, below: &[u8], after: Option<&FileKey>, most| {
        let mut list = FileList::new(SourceId([0; 16]), below, after, most);
        assert!(list.look(ledger, 1000));
        list.into_page().0
    };
    let shown = |files: &[FileView]| -> Vec<String> {
        let each = files.iter().map(|one| {
            let extents = one.bytes / u64::from(EXTENT);
            format!("{} {extents} {}", one.file, one.is_dirty)
        });
        each.collect()
    };
    let below = whole(&ledger, b"dir", None, 9);
    let all = [
        "dir/b 5 false",
        "dir/c 3 false",
        "dir/d 1 false",
        "dir/in 1 true",
    ];
    assert_eq!(shown(&below), all);
    assert_eq!(shown(&whole(&ledger, b"dir", Some(&keys[1]), 2)), all[1..3]);
    for work in 1..12 {
        let mut list = FileList::new(SourceId([0; 16]), b"dir", None, 9);
        let mut steps = 1;
        while !list.look(&ledger, work) {
            steps += 1;
        }
        // Ten extents and four files.
        assert!(steps * work.max(2) >= 14, "{steps} steps of {work}");
        assert_eq!(list.into_page(), (below.clone(), false), "{work}");
    }
    // A file is removed while its extents are counted.
    let mut list = FileList::new(SourceId([0; 16]), b"dir", None, 9);
    assert!(!list.look(&ledger, 3));
    ledger.abandon(&keys[1], true);
    settle(&mut ledger, at(20));
    while !list.look(&ledger, 3) {}
    assert_eq!(shown(&list.into_page().0), all[1..]);
}

#[test]
fn a_page_of_long_paths_is_short_and_the_next_one_continues_behind_it() {
    let mut ledger = ledger(&[4096], never());
    let name = |number: u32| format!("{number:03}{}", "\u{1}".repeat(4000));
    for number in 0..100 {
        write(&mut ledger, at(1), &file(&name(number), 1), 0, Flow::Out);
    }
    let (mut after, mut found, mut pages) = (None, 0, 0);
    loop {
        let mut list = FileList::new(SourceId([0; 16]), b"", after.as_ref(), 1000);
        assert!(list.look(&ledger, 1000));
        let (files, has_more) = list.into_page();
        let bytes: usize = files.iter().map(|one| one.file.path.len()).sum();
        assert!(bytes < (256 << 10) + 4096, "{bytes}");
        found += files.len();
        pages += 1;
        after = files.last().map(|last| (*last.file).clone());
        if !has_more {
            break;
        }
    }
    assert_eq!((found, pages), (100, 2));
}
