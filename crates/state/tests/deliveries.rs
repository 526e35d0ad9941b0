//! Tests that many deliveries to one webhook take nothing from another, and that a webhook has a bounded owner and keeps its key.
//! See `objects` for the deliveries of a job.

mod support;

use godwit_state::{
    Change, Command, CommandError, Delivery, FEATURE_LEVEL, JobOp, LEVEL_DELIVERIES,
    LEVEL_KEPT_KEY, Op, ProposeError, Secret, Webhook,
};
use support::air::Cluster;
use support::state::State;
use support::{alice, at, submit};

/// More than the state keeps for all webhooks.
const MANY: i64 = 11_000;

fn hook(id: &str, events: &[&str]) -> Op {
    Op::Webhook(Change::Create(Webhook {
        id: id.to_owned(),
        url: "https://example.org".to_owned(),
        events: events.iter().map(|name| (*name).to_owned()).collect(),
        owner: None,
        secret: Secret::new("key"),
        disabled: false,
    }))
}

#[test]
fn a_webhook_with_many_deliveries_leaves_room_for_another() {
    let mut state = State::new();
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("alone");
    state.op(0, hook("good", &["queued"])).expect("created");
    state.apply(&submit(1, "first")).expect("submitted");
    let quiet = Op::Webhook(Change::Put(Webhook {
        events: vec!["failed".to_owned()],
        ..state.reader.object("good").expect("read").expect("there")
    }));
    state.op(2, quiet).expect("changed");
    state.op(2, hook("slow", &[])).expect("created");
    state.apply(&submit(3, "job")).expect("submitted");
    for n in 0..MANY / 2 {
        state.job(4 + n, JobOp::Pause).expect("paused");
        state.job(4 + n, JobOp::Resume).expect("resumed");
    }
    let due = state.reader.deliveries().due(at(MANY), 2).expect("due");
    let webhooks: Vec<&str> = due.iter().map(|one| one.webhook.as_str()).collect();
    assert_eq!(webhooks, ["good", "slow", "slow"]);
    let end = |id: u64| {
        Op::Delivery(Delivery {
            id,
            next_attempt: None,
            status: "200".to_owned(),
        })
    };
    // The oldest of the many made way.
    state.op(MANY, end(2)).expect_err("deleted");
    state.op(MANY, end(due[1].id)).expect("kept");
    state.op(MANY, end(due[0].id)).expect("kept");
}

#[test]
fn a_webhook_that_is_made_again_gets_no_earlier_delivery() {
    for (level, due) in [(LEVEL_DELIVERIES - 1, 1), (LEVEL_DELIVERIES, 0)] {
        let mut state = State::new();
        state.op(0, Op::Level(level)).expect("alone");
        state.op(0, hook("hook", &["queued"])).expect("created");
        state.apply(&submit(1, "first")).expect("submitted");
        let remove = Op::Webhook(Change::Remove("hook".to_owned()));
        state.op(2, remove).expect("removed");
        state.op(3, hook("hook", &["failed"])).expect("created");
        let left = state.reader.deliveries().due(at(10), 2).expect("due");
        assert_eq!(left.len(), due, "level {level}");
    }
}

#[test]
fn the_owner_of_a_webhook_has_the_length_of_a_name() {
    let cluster = Cluster::of_one();
    let of = |owner: &str| {
        let Op::Webhook(Change::Create(webhook)) = hook("hook", &[]) else {
            panic!("a webhook");
        };
        let owner = Some(owner.to_owned());
        let put = Op::Webhook(Change::Put(Webhook { owner, ..webhook }));
        cluster.nodes[&1].propose_blocking(Command::new(at(0), alice(), put))
    };
    of("otto").expect("put");
    let refused = of(&"x".repeat(256)).expect_err("too long");
    let ProposeError::Refused(CommandError::Invalid { field, .. }) = &refused else {
        panic!("{refused}");
    };
    assert_eq!(field, "owner");
}

/// The node of one admin read the webhook before another admin changed its key.
#[test]
fn a_new_address_keeps_the_key_that_another_admin_has_changed_meanwhile() {
    let put = |url: &str, key: &str| {
        Op::Webhook(Change::Put(Webhook {
            id: "hook".to_owned(),
            url: url.to_owned(),
            events: Vec::new(),
            owner: None,
            secret: Secret::new(key),
            disabled: false,
        }))
    };
    for (level, key) in [(LEVEL_KEPT_KEY - 1, ""), (LEVEL_KEPT_KEY, "second")] {
        let mut state = State::new();
        state.op(0, Op::Level(level)).expect("alone");
        state.op(1, hook("hook", &[])).expect("created");
        let second = put("https://example.org/a", "second");
        state.op(2, second).expect("a new key");
        let address = put("https://example.org/b", "");
        state.op(3, address.clone()).expect("a new address");
        let row: Option<Webhook> = state.reader.object("hook").expect("read");
        let row = row.expect("there");
        assert_eq!(row.url, "https://example.org/b");
        assert_eq!(row.secret, Secret::new(key), "level {level}");
        // Without a row there is no key to keep. Older programs put the whole row.
        let remove = Op::Webhook(Change::Remove("hook".to_owned()));
        state.op(4, remove).expect("removed");
        assert_eq!(state.op(5, address).is_ok(), level < LEVEL_KEPT_KEY);
    }
}

#[test]
fn only_webhooks_that_name_it_hear_that_an_ended_job_has_drained() {
    let mut state = State::new();
    state.op(0, Op::Level(FEATURE_LEVEL - 1)).expect("alone");
    state.op(0, hook("named", &["drained"])).expect("created");
    state.op(0, hook("usual", &[])).expect("created");
    state.apply(&submit(1, "job")).expect("submitted");
    let early = state.job(2, JobOp::Drained).expect_err("too early");
    assert!(early.to_string().contains("needs cluster level"), "{early}");
    state.op(2, Op::Level(FEATURE_LEVEL)).expect("alone");
    let heard = |state: &State| {
        let due = state.reader.deliveries().due(at(9), 10).expect("due");
        let heard = due.iter().filter(|one| one.event == "drained");
        heard.map(|one| one.webhook.clone()).collect::<Vec<_>>()
    };
    state.job(3, JobOp::Drained).expect("it has not ended");
    assert!(heard(&state).is_empty());
    state
        .job(4, JobOp::Cancel { comment: None })
        .expect("cancelled");
    state.job(5, JobOp::Drained).expect("ended");
    assert_eq!(heard(&state), ["named"]);
}
