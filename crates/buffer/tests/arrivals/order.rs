//! Tests which waiting file drains next, without a buffer and a clock.

use std::sync::Arc;
use std::time::Duration;

use godwit_buffer::extent::{FileKey, Generation, SourceId};
use godwit_buffer::waiting::{
    BUSY_MAX, First, Phase, RUNNING_MAX, STALLS_AFTER, TRIES_MAX, Waiting,
};
use godwit_seeded::Seeded;

const SOURCE: SourceId = SourceId([3; 16]);

fn key(path: &str, bytes: u64, stamp: u64) -> Arc<FileKey> {
    Arc::new(FileKey {
        source: SOURCE,
        path: path.into(),
        generation: Generation { bytes, stamp },
    })
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn order_rate_and_wishes_decide_the_next_file() {
    let mut waiting = Waiting::default();
    for (name, bytes, since) in [("big", 1000, 1), ("small", 10, 2), ("middle", 100, 3)] {
        waiting.add(&key(name, bytes, since), [].into(), at(since));
    }
    let name = |found: Option<(Arc<FileKey>, Arc<[u8]>)>| {
        found.map(|(file, _)| file.to_string()).unwrap_or_default()
    };
    waiting.set(First::Smallest, Some(1000));
    assert_eq!(name(waiting.poll(at(10_000))), "small");
    assert_eq!(name(waiting.poll(at(10_000))), "middle", "a burst");
    assert_eq!(name(waiting.poll(at(10_000))), "", "the rate");
    assert_eq!(waiting.due(at(10_000)), Some(at(10_010)));
    assert_eq!(waiting.want(SOURCE, b"big", 3), (1, 0, true));
    assert_eq!(name(waiting.poll(at(10_000))), "big", "someone waits");
    assert_eq!(waiting.sums().files, 3, "none is lost");
    waiting.remove(&key("big", 1000, 1));
    assert_eq!(waiting.sums().bytes, 110);
}

#[test]
fn files_that_come_later_do_not_keep_those_who_wait() {
    let mut waiting = Waiting::default();
    for (name, stamp) in [("run/a", 1), ("run/b", 2), ("run/c", 3)] {
        waiting.add(&key(name, 1, stamp), [].into(), at(0));
    }
    assert_eq!(waiting.want(SOURCE, b"run", 1), (1, 0, true));
    waiting.remove(&key("run/a", 1, 1));
    assert_eq!(waiting.want(SOURCE, b"run", 1), (0, 0, false));
    // The latest file of one name is the file that a reader of that name waits for.
    assert_eq!(waiting.want(SOURCE, b"run/c", 1), (1, 0, true));
}

#[test]
fn files_at_and_below_a_path_are_listed_and_no_neighbours() {
    let mut waiting = Waiting::default();
    for name in ["ru", "run", "run-1", "run.txt", "run/a", "run/b/c", "run0"] {
        waiting.add(&key(name, 1, 1), [].into(), at(1));
    }
    let found = |after: Option<&[u8]>| -> Vec<String> {
        let files = waiting.list(SOURCE, b"run", after, 99);
        files.iter().map(|one| one.file.to_string()).collect()
    };
    let run = ["run", "run/a", "run/b/c"];
    assert_eq!(found(None), run);
    for (after, left) in [("a", 0), ("run-1", 1), ("run/a", 2), ("z", 3)] {
        assert_eq!(found(Some(after.as_bytes())), run[left..], "{after}");
    }
    assert_eq!(waiting.below(SOURCE, b"").len(), 7);
}

#[test]
fn bytes_below_a_path_count_for_the_time_in_which_they_arrived() {
    let mut waiting = Waiting::default();
    for (name, bytes, since) in [("run/a", 1, 10), ("run/b", 2, 20), ("other", 4, 30)] {
        waiting.add(&key(name, bytes, since), [].into(), at(since));
    }
    for (below, from, to, expected) in [
        ("", 0, 99, 7),
        ("run", 0, 99, 3),
        ("run", 11, 20, 2),
        ("run", 10, 10, 1),
        // No file arrived in these times: before, between, after.
        ("", 0, 9, 0),
        ("", 11, 19, 0),
        ("", 31, 99, 0),
        // Only files elsewhere did.
        ("run", 21, 99, 0),
    ] {
        let time = at(from)..=at(to);
        let bytes = waiting.bytes(SOURCE, below.as_bytes(), &time);
        assert_eq!(bytes, expected, "{below:?} {from} {to}");
    }
}

#[test]
fn a_refused_file_is_put_aside_and_one_that_may_pass_is_not() {
    let mut waiting = Waiting::default();
    let (refused, passing) = (key("refused", 1, 1), key("passing", 1, 2));
    for file in [&refused, &passing] {
        waiting.add(file, [].into(), at(0));
    }
    let mut now = at(0);
    for _ in 0..TRIES_MAX + 3 {
        while let Some((file, _)) = waiting.poll(now) {
            waiting.fail(&file, now, "no".to_owned(), file == passing);
        }
        now += Duration::from_secs(120);
    }
    let phases: Vec<Phase> = waiting
        .list(SOURCE, b"", None, 9)
        .iter()
        .map(|one| one.phase)
        .collect();
    assert!(matches!(phases[..], [Phase::Later(_), Phase::Aside]));
    assert_eq!(waiting.want(SOURCE, b"", 2), (1, 1, true));
    assert_eq!((waiting.sums().troubled, waiting.sums().aside), (1, 1));
    assert_eq!(waiting.retry(SOURCE, b"refused"), 1);
    assert!(waiting.poll(now).is_some() && waiting.poll(now).is_some());
}

#[test]
fn slow_storage_that_hangs_does_not_hold_up_another_one() {
    let mut waiting = Waiting::default();
    let other = SourceId([4; 16]);
    for stamp in 0..5 {
        waiting.add(&key("hangs", 1, stamp), [].into(), at(stamp));
    }
    let elsewhere = FileKey {
        source: other,
        ..(*key("later", 1, 9)).clone()
    };
    waiting.add(&Arc::new(elsewhere), [].into(), at(9));
    let mut polled = Vec::new();
    while let Some((file, _)) = waiting.poll(at(100)) {
        polled.push(file);
    }
    assert_eq!(polled.len(), BUSY_MAX + 1);
    assert_eq!(polled.last().map(|file| file.source), Some(other));
    assert_eq!(waiting.due(at(100)), None, "none may come");
    waiting.put_back(&polled[0]);
    assert!(waiting.poll(at(100)).is_some());
    waiting.remove(&polled[1]);
    assert!(waiting.poll(at(100)).is_some() && waiting.poll(at(100)).is_none());
}

#[test]
fn places_that_take_no_data_hold_no_share_of_the_others() {
    let mut waiting = Waiting::default();
    let place = |number: u8| SourceId([number; 16]);
    let mut stamp = 0;
    let mut add = |waiting: &mut Waiting, number: u8| {
        for _ in 0..5 {
            stamp += 1;
            let file = FileKey {
                source: place(number),
                ..(*key("a", 1, stamp)).clone()
            };
            waiting.add(&Arc::new(file), [].into(), at(stamp));
        }
    };
    let all = |waiting: &mut Waiting, now| -> Vec<Arc<FileKey>> {
        std::iter::from_fn(|| waiting.poll(now))
            .map(|(file, _)| file)
            .collect()
    };
    for number in 1..=3 {
        add(&mut waiting, number);
    }
    let start = at(100);
    let hung = all(&mut waiting, start);
    assert!(hung.len() <= RUNNING_MAX && hung.len() >= 6, "{hung:?}");
    // One more place is served at once, although none of the others has moved.
    add(&mut waiting, 4);
    let own = all(&mut waiting, start);
    assert!(!own.is_empty());
    assert!(own.iter().all(|file| file.source == place(4)), "{own:?}");
    // Later the others count no more, and get no further file.
    let later = start + STALLS_AFTER;
    waiting.turns.moves(place(4), later);
    let more = all(&mut waiting, later);
    assert!(more.iter().all(|file| file.source == place(4)), "{more:?}");
    assert_eq!(own.len() + more.len(), BUSY_MAX);
    let stalls: Vec<_> = waiting.turns.stalls(later).collect();
    let named: Vec<_> = stalls.iter().map(|one| (one.source, one.since)).collect();
    assert_eq!(named, [1, 2, 3].map(|number| (place(number), start)));
    // A place that answers again goes on.
    waiting.turns.moves(place(1), later);
    assert_eq!(waiting.turns.stalls(later).count(), 2);
    hung.iter().for_each(|file| waiting.remove(file));
    assert_eq!(waiting.turns.stalls(later).count(), 0);
    let next = all(&mut waiting, later);
    assert!(
        [1, 2, 3]
            .map(place)
            .iter()
            .all(|one| next.iter().any(|file| file.source == *one))
    );
}

#[test]
fn many_places_drain_one_file_each() {
    let mut waiting = Waiting::default();
    for number in 0..20 {
        for stamp in 0..3 {
            let file = FileKey {
                source: SourceId([number; 16]),
                ..(*key("a", 1, stamp)).clone()
            };
            waiting.add(&Arc::new(file), [].into(), at(stamp));
        }
    }
    let polled = std::iter::from_fn(|| waiting.poll(at(100))).count();
    assert_eq!(polled, 20);
}

/// Any order of calls keeps each file in one place, and the sums true.
#[test]
fn no_order_of_events_loses_a_waiting_file() {
    let mut numbers = Seeded(37);
    for _ in 0..200 {
        let mut waiting = Waiting::default();
        let mut there: Vec<Arc<FileKey>> = Vec::new();
        let mut now = at(0);
        for step in 0..200 {
            now += at(numbers.below(3000));
            let pick = |numbers: &mut Seeded, there: &[Arc<FileKey>]| {
                let most = there.len().max(1) as u64;
                let at = usize::try_from(numbers.below(most)).expect("small");
                there.get(at).cloned()
            };
            let some = pick(&mut numbers, &there);
            match (numbers.below(8), some) {
                (0 | 1, _) => {
                    let file = key(&format!("d/{step}"), numbers.below(99), step);
                    waiting.add(&file, [].into(), now);
                    there.push(file);
                }
                (2, Some(file)) => {
                    waiting.remove(&file);
                    there.retain(|one| *one != file);
                }
                (3, _) => {
                    if let Some((file, _)) = waiting.poll(now)
                        && numbers.below(2) == 0
                    {
                        waiting.fail(&file, now, String::new(), numbers.below(2) == 0);
                    }
                }
                (4, Some(file)) => {
                    waiting.hold(&file);
                }
                (5, Some(file)) => waiting.let_go(&file),
                (6, Some(file)) => waiting.put_back(&file),
                (7, Some(file)) => {
                    waiting.want(SOURCE, &file.path, u64::MAX);
                    waiting.retry(SOURCE, &file.path);
                }
                _ => {}
            }
            let bytes: u64 = there.iter().map(|file| file.generation.bytes).sum();
            let sums = waiting.sums();
            assert_eq!((sums.files, sums.bytes), (there.len() as u64, bytes));
        }
        // In the end all of them drain.
        for file in &there {
            waiting.let_go(file);
            waiting.put_back(file);
        }
        waiting.retry(SOURCE, b"");
        let mut drained = Vec::new();
        while let Some((file, _)) = waiting.poll(now + at(200_000)) {
            waiting.remove(&file);
            drained.push(file);
        }
        drained.sort();
        there.sort();
        assert_eq!(drained, there);
    }
}
