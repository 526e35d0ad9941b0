//! Nodes whose clocks are days apart: access for a job, and its deadline, go by the clock of the node that keeps them.
//! Shifts no clock: an asker names the times that it would name.

use godwit_api::ask::{GrantJob, Question};
use godwit_api::job::Text;
use godwit_api::rest::{JobState, Timestamp};
use serde_json::{Value, json};

use super::{DAY_MILLIS, JOB, RunJob, Trust, allow, peer};

const HOUR_MILLIS: u64 = 3_600_000;

#[test]
fn access_for_a_job_lasts_by_the_clock_of_the_node_that_gives_it() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    let now = || godwit_jobs::now().0;
    let give = |apart: i64, lasts_ms: Option<u64>| {
        let question = Question::Grant(GrantJob {
            job: JOB.to_owned(),
            identity: trust.a.identity.clone(),
            paths: vec![Text::from("data/in")],
            write: true,
            until: Timestamp(now() + apart + 3_600_000),
            lasts_ms,
        });
        trust.c_asks(&trust.b, &question)
    };
    for apart in [-3 * DAY_MILLIS, 3 * DAY_MILLIS] {
        let before = now();
        give(apart, Some(HOUR_MILLIS)).expect("given");
        let list = trust.b.admin(&["access", "list", "--json"]).out;
        let rules = list.lines().map(serde_json::from_str::<Value>);
        let mut of_job = rules.flatten().filter(|rule| rule["job"] == JOB);
        let expires = of_job.next().expect("a rule")["expires"].clone();
        let expires: Timestamp = serde_json::from_value(expires).expect("a time");
        assert!(
            (before..=now() + 3_600_000).contains(&expires.0),
            "{expires:?}"
        );
        assert!(expires.0 > before + 3_500_000, "{expires:?}");
    }
    // A node of an older version names a time alone.
    let refusal = give(-3 * DAY_MILLIS, None).expect_err("it is over");
    for word in [
        "by the clock of the asking node",
        "the clock here shows",
        "update the asking node",
    ] {
        assert!(refusal.message.contains(word), "{refusal}");
    }
}

#[test]
fn the_deadline_of_a_job_goes_by_the_clock_of_the_site_that_runs_it() {
    let trust = Trust::new();
    allow(&trust.a, &trust.c.identity, "data:/mine", &["--read"]);
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    trust.give(JOB, &trust.a, "data/new", true).expect("given");
    let over = Timestamp(godwit_jobs::now().0 - 3 * DAY_MILLIS).rfc3339();
    let new = json!({
        "sources": ["here:/data/mine"], "destination": "siteB:/data/new", "deadline": over,
    });
    let run = Question::Run(Box::new(RunJob {
        job: JOB.to_owned(),
        again: true,
        deadline_ms: Some(HOUR_MILLIS),
        request: None,
        new: serde_json::from_value(new.clone()).expect("a job"),
        other: Some(peer(&trust.b, "siteB")),
        may_list: Some(true),
        may_read: Some(true),
    }));
    trust.c_asks(&trust.a, &run).expect("taken");
    let seen = trust.end_of(JOB, &new).expect("it runs");
    assert_eq!(seen.view.state, JobState::Complete, "{:?}", seen.view);
}
