//! Three sites with every assignment of the roles, and every set of grants: a job needs the asker's rights at both other sites.
//! The ways around a missing right are tested in `deputy`.

use std::fs;

use godwit_api::ask::{Refusal, code};
use godwit_api::rest::JobState;
use serde_json::json;

use super::super::rig::Rig;
use super::{JOB, Trust, allow, assert_denied, wishes};

/// The grants between the sites: A grants C, B grants A, B grants C.
#[derive(Clone, Copy, Debug)]
struct Grants {
    a_c: bool,
    b_a: bool,
    b_c: bool,
}

impl Grants {
    fn all() -> impl Iterator<Item = Self> {
        (0..8_u8).map(|bits| Self {
            a_c: bits & 1 != 0,
            b_a: bits & 2 != 0,
            b_c: bits & 4 != 0,
        })
    }

    fn set(self, trust: &Trust) {
        let Trust { a, b, c } = trust;
        for (granted, by, whom) in [(self.a_c, a, c), (self.b_a, b, a), (self.b_c, b, c)] {
            if granted {
                allow(by, &whom.identity, "data", &["--read", "--write"]);
            }
        }
    }
}

/// Takes all grants back, and empties the exports.
fn clear(trust: &Trust) {
    let rigs = [&trust.a, &trust.b, &trust.c];
    for rig in rigs {
        for other in rigs {
            // The command has no effect for a node without a grant.
            rig.admin(&["access", "deny", &other.identity]);
        }
        let list = rig.admin(&["access", "list", "--json"]).out;
        for other in rigs {
            assert!(!list.contains(&other.identity), "{list}");
        }
        for entry in fs::read_dir(&rig.export).expect("there") {
            let path = entry.expect("an entry").path();
            fs::remove_dir_all(path).expect("removed");
        }
    }
}

/// Refused because C is not known, or has no grant.
#[track_caller]
fn assert_names(refusal: &Refusal, c: &Rig, what: &str) {
    let codes = [code::UNKNOWN_IDENTITY, code::NOT_GRANTED];
    assert!(refusal.code.is_one_of(&codes), "{what}: {refusal:?}");
    assert!(refusal.message.contains(&c.identity), "{what}: {refusal:?}");
}

#[test]
fn each_site_asks_runs_and_has_the_data_in_turn_and_only_grants_of_the_asker_count() {
    let mut trust = Trust::new();
    for turn in 0..6 {
        let Trust { a, b, c } = trust;
        trust = match turn % 2 {
            0 => Trust { a: b, b: a, c },
            _ => Trust { a, b: c, c: b },
        };
        for (number, grants) in Grants::all().enumerate() {
            clear(&trust);
            trust.lay_out();
            grants.set(&trust);
            let what = format!("turn {turn}, {grants:?}");
            let job = format!("{JOB}-{turn}-{number}");
            if grants.a_c && grants.b_a && !grants.b_c {
                for (at, (_, wish)) in wishes().iter().enumerate() {
                    let seen = trust.end_of(&format!("{job}-{at}"), wish).expect(&what);
                    assert_denied(&seen, &trust.c);
                    trust.assert_untouched();
                }
            }
            let given = trust.give(&job, &trust.a, "data/data/secret", false);
            match given {
                Ok(()) => assert!(grants.b_c, "{what}"),
                Err(refusal) => {
                    assert!(!grants.b_c, "{what}: {refusal:?}");
                    assert_names(&refusal, &trust.c, &what);
                }
            }
            let pull =
                json!({"sources": ["siteB:/data/data/secret"], "destination": "here:/data/in/"});
            match trust.end_of(&job, &pull) {
                Err(refusal) => {
                    assert!(!grants.a_c, "{what}: {refusal:?}");
                    assert_names(&refusal, &trust.c, &what);
                    trust.assert_untouched();
                }
                Ok(seen) if grants.a_c && grants.b_c => {
                    assert_eq!(
                        seen.view.state,
                        JobState::Complete,
                        "{what}: {:?}",
                        seen.view
                    );
                    let copy = fs::read(trust.a.export.join("in/secret")).expect("a copy");
                    assert_eq!(copy, b"secret", "{what}");
                }
                Ok(seen) => {
                    assert!(grants.a_c, "{what}: {:?}", seen.view);
                    assert_denied(&seen, &trust.c);
                    trust.assert_untouched();
                }
            }
        }
    }
}
