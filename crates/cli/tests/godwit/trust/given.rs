//! Access that is given for a job lasts no longer than the right of the giving site.
//! See `deputy` for the effect of the access.

use godwit_api::ask::{ListPlace, Question, code};
use godwit_api::grant::Mandate;
use godwit_api::job::Text;
use godwit_api::rest::JobState;
use serde_json::{Value, json};

use super::{JOB, Trust, allow, ask};

fn rules(rig: &super::Rig) -> Vec<Value> {
    let list = rig.admin(&["access", "list", "--json"]).out;
    let rules = list
        .lines()
        .map(|line| serde_json::from_str(line).expect("a rule"));
    rules
        .filter(|rule: &Value| rule["job"].is_string())
        .collect()
}

#[test]
fn access_for_a_job_ends_with_the_right_of_its_asker_and_is_shown_and_removed_with_it() {
    let trust = Trust::new();
    allow(
        &trust.b,
        &trust.c.identity,
        "data:/data",
        &["--read", "--write"],
    );
    // C lets a second key in, for a job that never was.
    trust
        .give(JOB, &trust.a, "data/data", false)
        .expect("given");
    trust.give(JOB, &trust.a, "data/data", true).expect("given");
    let given = rules(&trust.b);
    assert_eq!(given.len(), 2, "{given:?}");
    for rule in &given {
        assert_eq!(rule["asker"], json!(trust.c.identity), "{rule}");
        assert_eq!(rule["expired"], json!(false), "{rule}");
    }
    let list = |mandate: Option<&Mandate>| {
        let wish: ListPlace =
            serde_json::from_value(json!({"path": "data/data", "limit": 10})).expect("a wish");
        ask(&trust.a, &trust.b, mandate, &Question::List(wish)).map(drop)
    };
    let mandate = Mandate {
        asker: trust.c.identity.clone(),
        job: JOB.to_owned(),
    };
    list(Some(&mandate)).expect("for the job");
    let refusal = list(None).expect_err("not by itself");
    assert_eq!(refusal.code, code::NOT_GRANTED, "{refusal:?}");

    // Revoking a right of C by hand, in the file, also revokes the right of the second key.
    let outcome = trust.b.admin(&["access", "deny", &trust.c.identity]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.out.contains(&trust.a.identity), "{outcome:?}");
    assert!(outcome.out.contains(JOB), "{outcome:?}");
    assert_eq!(rules(&trust.b), Vec::<Value>::new());
    let refusal = list(Some(&mandate)).expect_err("C was denied");
    assert_eq!(refusal.code, code::UNKNOWN_IDENTITY, "{refusal:?}");
    let write = Question::MakeDirectory(godwit_api::ask::MakeDirectory {
        path: Text::from("data/data/new"),
        parents: false,
    });
    let refusal = ask(&trust.a, &trust.b, Some(&mandate), &write);
    refusal.expect_err("C was denied");
    trust.assert_untouched();
}

#[test]
fn access_for_a_job_counts_only_while_its_asker_holds_the_right() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data:/data", &["--read"]);
    trust
        .give(JOB, &trust.a, "data/data", false)
        .expect("given");
    let mandate = Mandate {
        asker: trust.c.identity.clone(),
        job: JOB.to_owned(),
    };
    let stat = Question::Stat {
        path: Text::from("data/data/secret"),
    };
    ask(&trust.a, &trust.b, Some(&mandate), &stat).expect("for the job");
    // Only the file is changed, so the rule stays in the state.
    std::fs::write(trust.b.daemon_home.join("grants"), "").expect("written");
    assert_eq!(rules(&trust.b).len(), 1);
    ask(&trust.a, &trust.b, Some(&mandate), &stat).expect_err("C lost the right");
    allow(&trust.b, &trust.c.identity, "data:/data", &["--read"]);
    ask(&trust.a, &trust.b, Some(&mandate), &stat).expect("C has it again");
}

#[test]
fn access_for_a_job_lasts_a_day_at_most() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data:/data", &["--read"]);
    trust
        .give(JOB, &trust.a, "data/data", false)
        .expect("given");
    let rule = rules(&trust.b).remove(0);
    let expires: godwit_api::rest::Timestamp =
        serde_json::from_value(rule["expires"].clone()).expect("a time");
    let hours = (expires.0 - godwit_jobs::now().0) / 3_600_000;
    assert!((22..=24).contains(&hours), "{hours} hours: {rule}");
}

/// The log of a dry run names entries of the destination, also in a job for another site.
#[test]
fn a_dry_run_for_another_site_needs_the_right_of_that_site_to_list() {
    let trust = Trust::new();
    allow(&trust.a, &trust.c.identity, "data:/empty", &["--read"]);
    allow(&trust.b, &trust.c.identity, "data:/data", &["--write"]);
    let dry = json!({"kind": "sync", "sources": ["here:/data/empty/"], "destination": "siteB:/data/data",
                     "settings": {"delete": ["true"], "dry-run": ["true"]}});
    trust.give(JOB, &trust.a, "data/data", true).expect("given");
    let seen = trust.end_of(JOB, &dry).expect("taken");
    super::assert_denied(&seen, &trust.c);
    allow(
        &trust.b,
        &trust.c.identity,
        "data:/data",
        &["--write", "--list"],
    );
    trust
        .give("j2", &trust.a, "data/data", true)
        .expect("given");
    let seen = trust.end_of("j2", &dry).expect("taken");
    assert_eq!(seen.view.state, JobState::Complete, "{:?}", seen.view);
    // In the other direction, the destination is at the site that runs the job.
    allow(&trust.a, &trust.c.identity, "data:/in", &["--write"]);
    let within = json!({"kind": "sync", "sources": ["here:/data/empty/"], "destination": "here:/data/in",
                        "settings": {"delete": ["true"], "dry-run": ["true"]}});
    let new = serde_json::from_value(within).expect("a job");
    let run = Question::Run(Box::new(godwit_api::ask::RunJob {
        job: "j3".to_owned(),
        again: false,
        request: None,
        new,
        deadline_ms: None,
        other: None,
        may_list: Some(true),
        may_read: Some(true),
    }));
    let refusal = trust.c_asks(&trust.a, &run).expect_err("no right to list");
    assert_eq!(refusal.code, code::NOT_GRANTED, "{refusal:?}");
    // A verification reads the copy.
    let verify = json!({"kind": "verify", "sources": ["here:/data/empty/manifest"], "destination": "here:/data/in",
                        "settings": {"extra": ["true"]}});
    let run = Question::Run(Box::new(godwit_api::ask::RunJob {
        job: "j4".to_owned(),
        again: false,
        request: None,
        new: serde_json::from_value(verify).expect("a job"),
        deadline_ms: None,
        other: None,
        may_list: Some(true),
        may_read: Some(true),
    }));
    let refusal = trust.c_asks(&trust.a, &run).expect_err("no right to read");
    assert_eq!(refusal.code, code::NOT_GRANTED, "{refusal:?}");
    trust.assert_untouched();
}

/// The messages of a job for another site go to that site.
#[test]
fn a_job_names_nothing_at_its_destination_that_its_asker_may_not_list() {
    let trust = Trust::new();
    trust.a.write("export/in/secret-name", b"theirs");
    allow(&trust.a, &trust.c.identity, "data:/empty", &["--read"]);
    allow(&trust.a, &trust.c.identity, "data:/in", &["--write"]);
    let run = |job: &str, (most, dry): (&str, &str), may_list: bool| {
        let new = json!({"kind": "sync", "sources": ["here:/data/empty/"], "destination": "here:/data/in",
                         "settings": {"delete": ["true"], "max-delete": [most], "dry-run": [dry]}});
        let run = Question::Run(Box::new(godwit_api::ask::RunJob {
            job: job.to_owned(),
            again: false,
            request: None,
            new: serde_json::from_value(new).expect("a job"),
            deadline_ms: None,
            other: None,
            may_list: Some(may_list),
            may_read: Some(true),
        }));
        trust.c_asks(&trust.a, &run).expect("taken");
        let until = std::time::Instant::now() + super::DEADLINE;
        loop {
            let job = job.to_owned();
            match trust.c_asks(&trust.a, &Question::Job { job }) {
                Ok(godwit_api::ask::Answer::Job(seen)) if seen.view.ended.is_some() => break,
                _ => std::thread::sleep(std::time::Duration::from_millis(50)),
            }
            assert!(std::time::Instant::now() < until, "it does not end");
        }
        let past = Question::Past(godwit_api::ask::PastAfter {
            job: job.to_owned(),
            attempt: 0,
            line: 0,
            sample: godwit_api::rest::Timestamp(0),
        });
        let seen = trust.c_asks(
            &trust.a,
            &Question::Job {
                job: job.to_owned(),
            },
        );
        format!("{seen:?} {:?}", trust.c_asks(&trust.a, &past))
    };
    // Another peer has the right to list, but the owner of its job does not.
    let list = ["--write", "--read"];
    let reported = |may_list: bool| {
        allow(&trust.a, &trust.c.identity, "data:/in", &list);
        run(&format!("owner-{may_list}"), ("5", "true"), may_list)
    };
    assert!(!reported(false).contains("secret-name"), "of the owner");
    assert!(reported(true).contains("secret-name"), "a dry run names it");
    let denied = trust.a.admin(&["access", "deny", &trust.c.identity]);
    assert_eq!(denied.code, Some(0), "{denied:?}");
    allow(&trust.a, &trust.c.identity, "data:/empty", &["--read"]);
    allow(&trust.a, &trust.c.identity, "data:/in", &["--write"]);
    for most in ["0", "5"] {
        let reported = run(&format!("j{most}"), (most, "false"), true);
        assert!(!reported.contains("secret-name"), "{reported}");
    }
    let left = std::fs::read_dir(trust.a.export.join("in")).expect("there");
    assert_eq!(left.count(), 0, "it was deleted");
}
