//! Tests that the protocol's numbers equal those in the catalogue of failures. Causes no failures.

use std::collections::HashSet;

use godwit_api::failure::{FailureCode, Scope};
use godwit_proto::{ErrorCode, FaultCode};

fn numbers(scope: Scope) -> HashSet<u32> {
    let codes = FailureCode::ALL.iter().filter(|code| code.scope() == scope);
    codes.filter_map(|code| code.number()).collect()
}

#[test]
fn each_code_of_the_wire_has_one_row() {
    for code in ErrorCode::ALL {
        let row = FailureCode::of_number(Scope::Job, code.0);
        assert_ne!(row, FailureCode::PeerFailed, "{}", code.name());
    }
    for code in FaultCode::ALL {
        let row = FailureCode::of_number(Scope::Entry, code.0.into());
        assert_ne!(row, FailureCode::Other, "{code:?}");
    }
}

#[test]
fn no_row_has_a_number_that_the_wire_does_not_know() {
    let wire: HashSet<u32> = ErrorCode::ALL.iter().map(|code| code.0).collect();
    let only_here = numbers(Scope::Job)
        .into_iter()
        .filter(|number| *number > 100);
    let rows: HashSet<u32> = only_here.chain(wire.iter().copied()).collect();
    assert_eq!(numbers(Scope::Job), rows);
    let wire = FaultCode::ALL.iter().map(|code| u32::from(code.0));
    assert_eq!(numbers(Scope::Entry), wire.chain([0]).collect());
}

#[test]
fn a_peer_cannot_say_what_only_this_side_may_find() {
    for code in FailureCode::ALL
        .iter()
        .filter(|code| code.scope() == Scope::Job)
    {
        let number = code.number().expect("a number of the wire");
        let received = ErrorCode::received(number);
        let taken = FailureCode::of_number(Scope::Job, received.0);
        let expected = match number {
            ..64 => *code,
            _ => FailureCode::PeerFailed,
        };
        assert_eq!(taken, expected);
    }
}
