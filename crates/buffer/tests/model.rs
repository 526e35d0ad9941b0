//! Compares the ledger with a plain reference, step by step, on volumes that fail, hang, lie, go out and come back, through restarts.
//! Stores no bytes: a content is its digest.

mod model {
    pub(crate) mod ends;
    pub(crate) mod reference;
    pub(crate) mod steps;
    pub(crate) mod world;
}

use std::collections::BTreeMap;

use model::world::World;

#[test]
fn the_ledger_does_what_the_reference_does_for_a_million_steps() {
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..20 {
        eprintln!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..50_000 {
            world.step();
        }
        for (what, times) in world.tally {
            *tally.entry(what).or_default() += times;
        }
    }
    eprintln!("{tally:?}");
    for what in [
        "wait",
        "pass through",
        "later",
        "drain",
        "hung",
        "out",
        "reopen",
        "corrupt",
        "bad commit",
        "restart",
    ] {
        assert!(
            tally.get(what).is_some_and(|times| *times >= 50),
            "{what}: {tally:?}"
        );
    }
}
