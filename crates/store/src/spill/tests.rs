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
    let room: Room = |_| Some(9_000);
    let full = |error: io::Error| {
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let said = error.to_string();
        assert!(said.contains("quarter") && said.contains("9000"), "{said}");
    };
    let mut sorter = SpillSorter::new(directory.path(), 200);
    sorter.room = room;
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
    let mut stack = SpillStack::new(directory.path(), 200);
    stack.room = room;
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
