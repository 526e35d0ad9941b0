//! Tests works with very many items: each command adds a bounded number of them, and files have fewer parts.
//! Names and lengths cost nothing: anyone who may make files can make sparse ones.

use godwit_state::{Effect, Found, Op, WorkOp};

use super::support::state::State;
use super::{PART, divided, file, find, lease, raise, scan};

/// Directories in this many shares, each of the greatest number.
fn directories(count: usize) -> Vec<Found> {
    (0..count).map(|n| scan(&format!("d{n}"), 1_024)).collect()
}

#[test]
fn one_command_adds_a_bounded_number_of_items() {
    let mut state = divided();
    raise(&mut state);
    let (held, items) = lease(&mut state, 1, "node1");
    let number = items[0].number;
    let is_refused = |state: &mut State, finds: Vec<Found>| {
        let found = WorkOp::Found {
            number,
            lease: held,
            finds,
        };
        let refused = state.op(2, Op::Work("job".to_owned(), found));
        let error = refused.expect_err("too many").to_string();
        assert!(error.contains("items; at most"), "{error}");
    };
    is_refused(&mut state, directories(65));
    let sparse = |n: usize| file(&format!("f{n}"), 1_024 * PART);
    is_refused(&mut state, (0..64).map(sparse).collect());
    // Nothing of them was added.
    let found = find(&mut state, number, held, vec![sparse(0)]);
    assert_eq!(found, Effect::Settled { items: 1_025 });
}

#[test]
fn a_file_has_fewer_parts_the_more_items_are_open() {
    let parts = |is_raised: bool| {
        let mut state = divided();
        if is_raised {
            raise(&mut state);
        }
        let (held, items) = lease(&mut state, 1, "node1");
        let number = items[0].number;
        find(&mut state, number, held, directories(20));
        let sparse = vec![file("f", 1_024 * PART)];
        find(&mut state, number, held, sparse)
    };
    assert_eq!(parts(true), Effect::Settled { items: 1 + 512 });
    assert_eq!(parts(false), Effect::Settled { items: 1 + 1_024 });
}
