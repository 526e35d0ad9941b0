//! Tests of data that overflows to disk: it is read back unchanged, and leaves space to others.

use super::*;
use proptest::prelude::*;

fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..400)
}

proptest! {
    #[test]
    fn a_stack_gives_back_what_a_vector_would(
        steps in proptest::collection::vec(prop_oneof![3 => records(), 2 => Just(vec![])], 0..6),
        pops in 0..500_usize,
        bytes_max in 1..2000_usize,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut stack = SpillStack::new(directory.path(), bytes_max);
        let mut model = Vec::new();
        for records in steps {
            for record in records {
                stack.push(&record).unwrap();
                model.push(record);
            }
            for _ in 0..pops {
                prop_assert_eq!(stack.pop().unwrap(), model.pop());
            }
            // Two chunks, and one more record.
            prop_assert!(stack.memory.len() <= bytes_max + 2 * 44 + 2);
        }
        while let Some(record) = model.pop() {
            prop_assert_eq!(stack.pop().unwrap(), Some(record));
        }
        prop_assert_eq!(stack.pop().unwrap(), None);
    }

    #[test]
    fn a_list_gives_back_what_it_was_given_from_either_end(
        own_bytes in 0..20_usize,
        records in records(),
        long in proptest::collection::vec((0..3_u8, 50_000..80_000_usize), 0..40),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut list = SpillList::new(directory.path(), own_bytes);
        // Long records that begin alike fill several groups.
        let long = long.into_iter().map(|(byte, length)| vec![byte; length]);
        let again = records.clone();
        let records: Vec<_> = records.into_iter().chain(long).chain(again).collect();
        for record in &records {
            list.push(record).unwrap();
        }
        let mut given = Vec::new();
        list.forward(|record| given.push(record.to_vec())).unwrap();
        prop_assert!(given == records);
        given.clear();
        list.backward(|record| given.push(record.to_vec())).unwrap();
        given.reverse();
        prop_assert!(given == records);
        prop_assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_sorter_sorts(mut records in records(), bytes_max in prop_oneof![1..200_usize, Just(1 << 20)]) {
        let directory = tempfile::tempdir().unwrap();
        let mut sorter = SpillSorter::new(directory.path(), bytes_max);
        for record in &records {
            sorter.push(record).unwrap();
        }
        records.sort();
        let mut merge = sorter.finish().unwrap();
        for record in records {
            prop_assert_eq!(merge.next_record().unwrap(), Some(record));
        }
        prop_assert_eq!(merge.next_record().unwrap(), None);
    }
}

#[test]
fn long_runs_are_read_in_parts() {
    let directory = tempfile::tempdir().unwrap();
    let mut sorter = SpillSorter::new(directory.path(), 300_000);
    for number in (0..50_000_u32).rev() {
        sorter.push(&number.to_be_bytes()).unwrap();
    }
    sorter.push(&vec![255; 70_000]).unwrap();
    assert!(sorter.runs.len() > 1);
    let mut merge = sorter.finish().unwrap();
    for number in 0..50_000_u32 {
        assert_eq!(merge.next_record().unwrap().unwrap(), number.to_be_bytes());
    }
    assert_eq!(merge.next_record().unwrap().unwrap().len(), 70_000);
    assert!(merge.next_record().unwrap().is_none());
}

#[test]
fn a_directory_that_cannot_hold_the_overflow_is_an_error_that_loses_nothing() {
    let mut stack = SpillStack::new(Path::new("/nonexistent/spill"), 8);
    let held = (0..100_u8)
        .take_while(|number| stack.push(&[*number; 8]).is_ok())
        .count();
    assert!(held > 0 && held < 100);
    for number in (0..held).rev() {
        assert_eq!(stack.pop().unwrap().unwrap()[0] as usize, number);
    }
    assert!(stack.pop().unwrap().is_none());
}

#[test]
fn a_spill_takes_a_quarter_of_the_room_and_then_says_so() {
    let directory = tempfile::tempdir().unwrap();
    // The free space stays constant except for the stack's own records.
    let room = || SpillRoom::with_free(directory.path(), |_| Some(9_000));
    let full = |error: io::Error| {
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let said = error.to_string();
        assert!(said.contains("quarter") && said.contains("9000"), "{said}");
    };
    let mut sorter = SpillSorter::new(room(), 200);
    let mut records = 0_u64;
    let ended = loop {
        match sorter.push(&records.to_be_bytes()) {
            Ok(()) => records += 1,
            Err(error) => break error,
        }
        assert!(records < 10_000, "it has no bound");
    };
    full(ended);
    assert!(records > 100 && sorter.file_bytes <= 3_000, "{records}");
    let mut stack = SpillStack::new(room(), 200);
    let mut records = 0_u64;
    let ended = loop {
        match stack.push(&records.to_be_bytes()) {
            Ok(()) => records += 1,
            Err(error) => break error,
        }
        assert!(records < 10_000, "it has no bound");
    };
    full(ended);
    // The refused record is not on the stack, but all others are.
    for number in (0..records).rev() {
        assert_eq!(stack.pop().unwrap().unwrap(), number.to_be_bytes());
    }
    assert!(stack.is_empty());
}

/// Pushes records until the list refuses one; returns the number in the list.
fn fill(list: &mut SpillList, record: impl Fn(u64) -> Vec<u8>) -> u64 {
    for number in 0..1_000_000 {
        if let Err(error) = list.push(&record(number)) {
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            return number;
        }
    }
    panic!("it has no bound");
}

/// Records that have nothing in common.
fn odd(number: u64) -> Vec<u8> {
    let hash = blake3::hash(&number.to_le_bytes());
    hash.as_bytes().repeat(128)
}

#[test]
fn a_list_takes_a_quarter_of_the_room_and_all_of_a_transfer_take_half() {
    let directory = tempfile::tempdir().unwrap();
    let room = SpillRoom::with_free(directory.path(), |_| Some(30 << 20));
    let new = || SpillList::new(&room, 8);
    let mut lists = [new(), new(), new(), new()];
    let held: Vec<u64> = lists.iter_mut().map(|list| fill(list, odd) >> 8).collect();
    // In MiB, with one group in memory: a third of the constant free space is a quarter of all, and all of the free space is a half.
    assert!(held[0] >= 9 && held[0] <= 11, "{held:?}");
    assert_eq!(held[1], held[0]);
    let all: u64 = held.iter().sum();
    assert!((28..=34).contains(&all), "{held:?}");
    // A refused record takes no memory either.
    let list = &mut lists[0];
    for number in 0..1000 {
        assert!(list.push(&odd(number)).is_err());
    }
    let (mut count, last) = (0, held[0]);
    list.forward(|record| {
        assert_eq!(record, odd(count));
        count += 1;
    })
    .unwrap();
    assert_eq!(count >> 8, last);
    // A dropped list leaves its space to the others.
    let [first, second, ..] = &mut lists;
    drop(std::mem::replace(first, new()));
    assert!(fill(second, odd) == 0, "it has its quarter");
    assert_eq!(fill(first, odd) >> 8, last);
}

/// On the wire a name that was sent before takes two bytes.
#[test]
fn a_long_name_that_comes_again_takes_no_room() {
    let directory = tempfile::tempdir().unwrap();
    let room = SpillRoom::with_free(directory.path(), |_| Some(4 << 20));
    let mut list = SpillList::new(&room, 8);
    let named = |number: u64| [&number.to_le_bytes()[..], &[b'n'; 4000]].concat();
    for number in 0..20_000 {
        list.push(&named(number)).unwrap();
    }
    let mut count = 20_000;
    list.backward(|record| {
        count -= 1;
        assert_eq!(record, named(count));
    })
    .unwrap();
    assert_eq!(count, 0);
}
