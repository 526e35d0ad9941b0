//! Nodes of one cluster at a site that runs a job for them: the job runs for one of them at a time, and access lasts while it is renewed.
//! See `cluster` for the clusters themselves.

use godwit_api::ask::{Answer, GrantJob, Question, Refusal, RunJob, SteerJob, SteerVerb, code};
use godwit_api::grant::Mandate;
use godwit_api::job::Text;
use godwit_api::rest::Timestamp;
use serde_json::{Value, json};

use super::super::rest::Caller;
use super::super::rig::Rig;
use super::{Trust, allow, ask};

const HOUR_MILLIS: u64 = 3_600_000;

fn let_in(who: &Rig, path: &str, hours: u64) -> Question {
    Question::Grant(GrantJob {
        job: "j".to_owned(),
        identity: who.identity.clone(),
        paths: vec![Text::from(path)],
        write: true,
        until: Timestamp(0),
        lasts_ms: Some(hours * HOUR_MILLIS),
    })
}

fn job_of(asker: &Rig) -> Mandate {
    Mandate {
        asker: asker.identity.clone(),
        job: "j".to_owned(),
    }
}

/// A slow job of this source.
fn run_of(source: &str) -> Question {
    let new = json!({"sources": [source], "destination": "here:/data/in/", "limit": 100_000});
    Question::Run(Box::new(RunJob {
        job: "j".to_owned(),
        again: true,
        request: None,
        deadline_ms: None,
        new: serde_json::from_value(new).expect("a job"),
        other: None,
        may_list: Some(true),
        may_read: Some(true),
    }))
}

#[test]
fn a_job_runs_for_one_node_of_a_cluster_at_a_time() {
    let trust = Trust::new();
    trust.a.write("export/mine/large", vec![7; 3_000_000]);
    for rig in [&trust.b, &trust.c] {
        allow(&trust.a, &rig.identity, "data", &["--read", "--write"]);
    }
    let run = run_of("here:/data/mine");
    ask(&trust.b, &trust.a, None, &run).expect("it runs for B");
    // C declares that B belongs to its cluster.
    let given = trust.c_asks(&trust.a, &let_in(&trust.b, "data/in", 1));
    given.expect("let in");
    let refused = trust.c_asks(&trust.a, &run).expect_err("it runs already");
    assert_eq!((refused.code.as_str(), refused.retryable), ("busy", true));
    assert!(refused.message.contains(&trust.b.identity), "{refused:?}");
    // A node without admission gets another refusal than one that asks for a missing job.
    let asks = |who: &Rig, of: &Rig| {
        let job = "j".to_owned();
        let asked = ask(who, &trust.a, Some(&job_of(of)), &Question::Job { job });
        asked.expect_err("refused").code
    };
    assert_eq!(asks(&trust.b, &trust.c), code::NO_SUCH_JOB);
    assert_eq!(asks(&trust.c, &trust.b), code::NOT_LET_IN);
    let steer = Question::Steer(SteerJob {
        job: "j".to_owned(),
        verb: Some(SteerVerb::Cancel),
        ..SteerJob::default()
    });
    ask(&trust.b, &trust.a, None, &steer).expect("given up");
    trust.c_asks(&trust.a, &run).expect("it runs for C now");
    let refused = ask(&trust.b, &trust.a, None, &let_in(&trust.c, "data/in", 1));
    refused.expect("let in");
    let again = ask(&trust.b, &trust.a, None, &run).expect_err("it runs already");
    assert_eq!(again.code, code::BUSY);
}

#[test]
fn a_node_renews_its_own_access_for_a_job_by_its_own_right_alone() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    let renew = |path: &str| -> Result<Answer, Refusal> {
        let question = let_in(&trust.a, path, 20);
        ask(&trust.a, &trust.b, Some(&job_of(&trust.c)), &question)
    };
    let lasts = || {
        let list = trust.b.admin(&["access", "list", "--json"]).out;
        let rules = list.lines().map(serde_json::from_str::<Value>);
        let mut of_job = rules
            .map(|rule| rule.expect("a rule"))
            .filter(|rule| rule["job"].is_string());
        let rule = of_job.next().expect("a rule");
        assert_eq!(of_job.next(), None);
        let ends: Timestamp = serde_json::from_value(rule["expires"].clone()).expect("a time");
        u64::try_from(ends.0 - godwit_jobs::now().0).expect("later") / HOUR_MILLIS
    };
    let given = trust.c_asks(&trust.b, &let_in(&trust.a, "data/in", 2));
    given.expect("given");
    let refused = renew("data/in").expect_err("no right of its own");
    assert!(refused.message.contains("to itself"), "{refused:?}");
    assert_eq!(lasts(), 1);
    let expires = ["--write", "--expires", "10h"];
    allow(&trust.b, &trust.a.identity, "data:/in", &expires);
    renew("data/in").expect("renewed");
    assert!((2..10).contains(&lasts()), "{}", lasts());
    renew("data/old").expect_err("no right there");
    // Without access for the job there is nothing to renew.
    let revoke = Question::Revoke {
        job: "j".to_owned(),
        keep: Vec::new(),
    };
    trust.c_asks(&trust.b, &revoke).expect("taken back");
    renew("data/in").expect_err("not let in");
}

#[test]
fn access_is_taken_back_from_all_but_those_that_keep_it() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    for rig in [&trust.a, &trust.b] {
        let given = trust.c_asks(&trust.b, &let_in(rig, "data/in", 2));
        given.expect("given");
    }
    let revoke = Question::Revoke {
        job: "j".to_owned(),
        keep: vec![trust.a.identity.clone()],
    };
    trust.c_asks(&trust.b, &revoke).expect("taken back");
    let list = trust.b.admin(&["access", "list", "--json"]).out;
    let of_job = |line: &&str| line.contains("for job j");
    let left: Vec<&str> = list.lines().filter(of_job).collect();
    assert_eq!(left.len(), 1, "{list}");
    assert!(left[0].contains(&trust.a.identity), "{list}");
}

/// Log lines name the asker, whose job it is.
#[test]
fn the_audit_log_names_the_node_that_acts_for_an_asker() {
    let trust = Trust::new();
    allow(&trust.a, &trust.c.identity, "data", &["--read", "--write"]);
    trust.a.write("export/mine/large", vec![7; 3_000_000]);
    let run = run_of("here:/data/mine/large");
    trust.c_asks(&trust.a, &run).expect("taken");
    let given = trust.c_asks(&trust.a, &let_in(&trust.b, "data/in", 1));
    given.expect("let in");
    let mandate = job_of(&trust.c);
    let steer = Question::Steer(SteerJob {
        job: "j".to_owned(),
        priority: Some(-3),
        ..SteerJob::default()
    });
    for _ in 0..3 {
        ask(&trust.b, &trust.a, Some(&mandate), &steer).expect("steered");
    }
    let revoke = Question::Revoke {
        job: "j".to_owned(),
        keep: Vec::new(),
    };
    ask(&trust.b, &trust.a, Some(&mandate), &revoke).expect("taken back");
    let lines = Caller::admin(&trust.a).get("audit").expect(200);
    let all = lines.as_array().expect("lines").iter();
    let steered: Vec<&Value> = all
        .filter(|line| line["remote"] == trust.b.identity)
        .collect();
    let asker = format!("site:{}", trust.c.identity);
    // The number of the asker's lines is bounded. A question without effect writes none.
    assert_eq!(steered.len(), 1, "{lines}");
    assert_eq!(steered[0]["actor"], asker);
    let lines = lines.to_string();
    let remover = format!("site:{}", trust.b.identity);
    assert!(lines.contains(&remover), "{lines}");
    assert!(!lines.contains("steer_for_site"), "{lines}");
}
