//! Tests the processor time and memory that nodes report with their leases: their sum, and the level that they need.
//! Does not test the figures of one transfer.

use godwit_state::{EndUsage, LEVEL_USAGE, Looked, Usage};

use super::*;

/// The same settlement with figures of the transfers of its lease.
fn with_usage(ended: WorkOp, cpu_us: u64, rss_bytes: u64) -> WorkOp {
    let WorkOp::Settle(settle) = ended else {
        panic!("no settlement");
    };
    let end = EndUsage { cpu_us, rss_bytes };
    WorkOp::Settle(Box::new(Settle {
        looked: Some(Looked {
            usage: Usage {
                source: end,
                destination: EndUsage { cpu_us: 1, ..end },
            },
            ..Looked::default()
        }),
        ..*settle
    }))
}

#[test]
fn processor_times_of_leases_add_up_and_need_the_level_of_all_nodes() {
    let mut state = divided();
    state.op(2, Op::Level(LEVEL_USAGE - 1)).expect("alone");
    let (first, items) = lease(&mut state, 1, "node1");
    let scanned = settle(first, "node1", &[(items[0].number, done())]);
    let ended = Op::Work("job".to_owned(), with_usage(scanned.clone(), 7, 50));
    let early = state.op(2, ended.clone()).expect_err("too early");
    assert!(early.to_string().contains("cluster level"), "{early}");
    raise(&mut state);
    let settled = state.op(2, ended).expect("taken");
    assert_settled(&settled, 1);
    let (second, items) = lease(&mut state, 1, "node2");
    let closed = settle(second, "node2", &[(items[0].number, closed())]);
    assert_settled(&work(&mut state, with_usage(closed, 5, 40)), 1);
    // A lease that is no longer held counts nothing.
    assert_settled(&work(&mut state, with_usage(scanned, 9, 90)), 0);
    let work = Works(&state.reader).of("job").expect("read").expect("open");
    let end = |cpu_us| EndUsage {
        cpu_us,
        rss_bytes: 50,
    };
    let usage = Usage {
        source: end(12),
        destination: end(2),
    };
    assert_eq!(work.counts.looked.usage, usage);
}
