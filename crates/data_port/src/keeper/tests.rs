//! Tests when a transfer ends, and which client may replace it.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use godwit_api::grant::Mandate;
use godwit_api::job::ClaimId;
use godwit_api::record::{TransferDirection, TransferStart};
use godwit_api::rest::Timestamp;
use godwit_engine::session::Engine;
use godwit_engine::tuner::Bounds;
use godwit_engine::{Counters, FailedEntry, Live, Observer, Receiver, ReceiverConfig, Sink};
use godwit_net::{Connection, IdentityId, Stream, StreamOptions, local_pair};
use godwit_proto::{DigestKind, Frame, Pong, TransferId, decode};
use godwit_tree::synthetic::NullSink;

use super::*;
use crate::allow::Who;
use crate::claims::{MemberLease, Spot, Spots};
use crate::gate::{Gate, Limits};
use crate::leave::Leave;
use crate::session::HeldResources;
use crate::table::{Holder, Patience, Table};

struct Deaf;

impl Observer for Deaf {
    fn entry_failed(&self, _failed: &FailedEntry<'_>) {}
}

const KEY: [u8; 32] = [1; 32];
/// Longer than any test waits.
const ENDLESS: Duration = Duration::from_secs(24 * 3600);

const RULES: Rules<'static> = Rules {
    taken_back: &|_| None,
    suspend_after: SUSPEND_AFTER,
};

/// Waits longest for a silent client, and shortest for one that answers.
const STAYS: Patience = Patience {
    silent: ENDLESS,
    leaving: Duration::ZERO,
};

/// A transfer in a table, with one stream; the test is its client.
fn running(table: &Table) -> (Arc<Session>, Connection, std::thread::JoinHandle<()>) {
    running_for(table, Who::itself(owner()), "", None)
}

/// A transfer in a table, as in `running`, opened by `who` with this label, and with this lease if it is a member's.
fn running_for(
    table: &Table,
    who: Who,
    label: &str,
    lease: Option<Arc<MemberLease>>,
) -> (Arc<Session>, Connection, std::thread::JoinHandle<()>) {
    let counters = Arc::new(Counters::default());
    let for_sink = Arc::clone(&counters);
    let config = ReceiverConfig {
        transfer: TransferId([7; 16]),
        digest: DigestKind::CRC64_NVME,
        block_bytes: 4096,
        observer: Arc::new(Deaf),
        resources: Arc::new(|| None),
        comparison: None,
        itemise: false,
    };
    let make = Box::new(move |acks| -> std::io::Result<Arc<dyn Sink>> {
        Ok(Arc::new(NullSink::new(acks, for_sink)))
    });
    let live = Arc::new(Live::receiving(Bounds::fixed(0)));
    let receiver = Receiver::start(config, make, live, counters).unwrap();
    let (mut near, mut far) = local_pair(&StreamOptions::default()).unwrap();
    let serving = Arc::clone(&receiver);
    let thread = std::thread::spawn(move || drop(serving.run_stream(&mut far)));
    let limits = Limits {
        per_peer: 1,
        all: 1,
        newcomers: 0,
    };
    let held = HeldResources {
        journal: None,
        _slot: Gate::new(limits, limits, 1, false)
            .transfer(&[owner()])
            .unwrap(),
    };
    let claim = Claim {
        transfer: TransferId([7; 16]),
        owner: who.peer,
        key: Some(KEY),
        keep_for: ENDLESS,
        label: String::new(),
        job: label.to_owned(),
        heirs: HashSet::from([opener("b", None).peer]),
        writes_to: Spots::look(&[b"/data/run42".to_vec()]),
        lease,
        fence: None,
        leave: Leave::unbound(who),
        wanted: None,
        held: Mutex::new(Some(held)),
    };
    let session = Arc::new(Session {
        claim: Arc::new(claim),
        start: TransferStart {
            id: String::new(),
            job: None,
            identity: None,
            peer: None,
            owner: None,
            direction: TransferDirection::Receive,
            places: Vec::new(),
            label: None,
            request: None,
            encryption: None,
            counted_as: Vec::new(),
        },
        began: Timestamp(0),
        engine: Engine::Receiver(receiver),
        plain_payload: false,
        reached: AtomicBool::new(true),
        output_once: false,
        alone: Arc::default(),
        resumed: false,
        arrived: godwit_tree::Arrived::default(),
        mapped: Vec::new(),
        placed: None,
        tokens: Mutex::default(),
        streams_wanted: 1,
        serving: Mutex::new(Some(0)),
        watch: Mutex::new(Watch::new(Instant::now())),
        _receiving: None,
    });
    table.insert(&session);
    // The transfer reports its state as soon as it is served.
    while near.try_recv().unwrap().is_none() {
        near.wait(ENDLESS).unwrap();
    }
    (session, near, thread)
}

fn owner() -> IdentityId {
    format!("gw1-{}", "a".repeat(52)).parse().unwrap()
}

#[test]
fn a_client_that_answers_and_stays_keeps_its_transfer() {
    let table = Table::default();
    let (session, near, thread) = running(&table);
    let client = std::thread::spawn(move || {
        let mut near = near;
        while answer(&mut near) {}
    });
    assert_eq!(table.supersede(&KEY, &owner(), STAYS), Holder::Attended);
    assert!(session.engine.end().is_none());
    session.engine.cancel("over");
    thread.join().unwrap();
    client.join().unwrap();
    session.engine.join();
}

/// Answers the next frame if it is a question; returns false if there are no more frames.
fn answer(near: &mut Connection) -> bool {
    let Ok(frame) = near.try_recv() else {
        return false;
    };
    let Some((prelude, head)) = frame else {
        near.wait(ENDLESS).unwrap();
        return true;
    };
    if let Frame::Ping(ping) = decode(&prelude, &head).unwrap() {
        let mut head = Vec::new();
        Pong { nonce: ping.nonce }.encode(&mut head);
        near.send(&head, &[]).unwrap();
    }
    true
}

/// A client that was just stopped may still answer before it is gone.
#[test]
fn a_client_that_answers_and_then_leaves_makes_way() {
    let table = Table::default();
    let (session, near, thread) = running(&table);
    let Engine::Receiver(receiver) = &session.engine else {
        panic!("it receives");
    };
    let leaving = Patience {
        silent: ENDLESS,
        leaving: ENDLESS,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut near = near;
            // The question for the second transfer has number 1.
            while !receiver.sender_answered(1) {
                answer(&mut near);
            }
            drop(near);
            thread.join().unwrap();
            while step(&RULES, &session, Instant::now(), false) != Step::End {
                std::thread::yield_now();
            }
            table.remove(&session.claim.transfer);
        });
        assert_eq!(table.supersede(&KEY, &owner(), leaving), Holder::Free);
    });
}

#[test]
fn a_client_that_was_reached_only_beside_its_data_is_not_waited_for_as_long() {
    let table = Table::default();
    let (session, near, thread) = running(&table);
    assert_eq!(session.kept_for(), ENDLESS);
    session.reached.store(false, Ordering::Relaxed);
    assert!(session.kept_for() < ENDLESS);
    drop(near);
    thread.join().unwrap();
    let later = Instant::now() + session.kept_for();
    assert_eq!(step(&RULES, &session, later, true), Step::End);
    let end = session.engine.end();
    assert!(matches!(end, Some(End::Cancelled(reason)) if reason.contains("did not reconnect")));
}

#[test]
fn a_client_that_is_silent_and_then_gone_makes_way() {
    let table = Table::default();
    let (session, near, thread) = running(&table);
    let short = Patience {
        silent: Duration::from_millis(1),
        leaving: ENDLESS,
    };
    assert_eq!(table.supersede(&KEY, &owner(), short), Holder::Silent);
    drop(near);
    thread.join().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while step(&RULES, &session, Instant::now(), false) != Step::End {
                std::thread::yield_now();
            }
            table.remove(&session.claim.transfer);
        });
        assert_eq!(table.supersede(&KEY, &owner(), STAYS), Holder::Free);
    });
    assert!(matches!(session.engine.end(), Some(End::Cancelled(_))));
}

#[test]
fn only_a_transfer_without_streams_is_suspended_and_none_comes_afterwards() {
    let table = Table::default();
    let (session, near, thread) = running(&table);
    let later = Instant::now() + SUSPEND_AFTER;
    assert_eq!(step(&RULES, &session, later, true), Step::Wait);
    drop(near);
    thread.join().unwrap();
    let later = later + SUSPEND_AFTER;
    // A stream that is about to be served counts.
    let serving = session.enter().unwrap();
    assert_eq!(step(&RULES, &session, later, true), Step::Wait);
    drop(serving);
    assert_eq!(step(&RULES, &session, later, true), Step::Wait);
    let later = later + SUSPEND_AFTER;
    assert_eq!(step(&RULES, &session, later, true), Step::Suspend);
    assert!(session.enter().is_none());
    // The suspended transfer is ended at once.
    table.hold(&session.claim.transfer, later + ENDLESS);
    assert!(table.find(&session.claim.transfer).is_none());
    assert_eq!(table.count_of(&owner()), (0, 1));
    let none = Patience {
        silent: Duration::ZERO,
        leaving: Duration::ZERO,
    };
    assert_eq!(table.supersede(&KEY, &owner(), none), Holder::Free);
    assert_eq!(table.count_of(&owner()), (0, 0));
    session.engine.join();
}

/// The opener of a transfer: a peer, for a job of the site `c` if there is a number.
fn opener(peer: &str, job: Option<u8>) -> Who {
    // The last of the 52 characters has unused bits.
    let identity = |of: &str| format!("gw1-{}a", of.repeat(51));
    Who {
        peer: identity(peer).parse().unwrap(),
        mandate: job.map(|number| Mandate {
            asker: identity("c"),
            job: number.to_string(),
        }),
    }
}

/// A client's claim to act for a job does not end a transfer for a job of another node, or one with other rights.
#[test]
fn a_deserted_transfer_makes_way_by_its_owner_or_by_its_job_alone() {
    // The owner lets only `b` take over its job.
    let (own, other, stranger) = (opener("a", None), opener("b", None), opener("d", None));
    let (first, second) = (opener("a", Some(1)), opener("b", Some(1)));
    for (held, taker, label, makes_way) in [
        (&own, &own, "", true),
        (&own, &other, "job 7", true),
        (&own, &other, "job 8", false),
        (&own, &other, "", false),
        (&own, &stranger, "job 7", false),
        (&own, &first, "job 7", false),
        (&own, &second, "job 7", false),
        (&first, &own, "job 7", false),
        (&first, &other, "job 7", false),
        (&first, &second, "job 8", true),
        (&first, &opener("b", Some(2)), "job 7", false),
        (&first, &opener("a", Some(2)), "job 7", false),
    ] {
        let table = Table::default();
        let (session, near, thread) = running_for(&table, held.clone(), "job 7", None);
        // The client is gone.
        drop(near);
        thread.join().unwrap();
        table.end_deserted(b"/data/run42", taker, label, Duration::ZERO);
        let ended = session.engine.end().is_some();
        assert_eq!(ended, makes_way, "{held:?}, {taker:?}, {label:?}");
        session.engine.cancel("over");
        session.engine.join();
    }
}

/// The ended transfers of one job must not keep other jobs from their claims.
#[test]
fn a_fenced_transfer_is_awaited_only_by_its_claim_and_at_its_place() {
    let table = Table::default();
    let (own, other) = (ClaimId([1; 16]), ClaimId([2; 16]));
    let lease = Some(MemberLease::ended(own));
    let (session, near, thread) = running_for(&table, Who::itself(owner()), "", lease);
    let spot = |path: &[u8]| Some(Spot::look(path).unwrap());
    for (claim, place, awaits) in [
        (own, None, true),
        (own, spot(b"/data/run43"), true),
        (other, None, false),
        (other, spot(b"/data/run43"), false),
        (other, spot(b"/data/run42/sub"), true),
        (other, spot(b"/data"), true),
    ] {
        let awaited = table.has_fenced(claim, place.as_ref());
        assert_eq!(awaited, awaits, "{claim:?}, {place:?}");
    }
    drop(near);
    thread.join().unwrap();
    session.engine.cancel("over");
    session.engine.join();
}
