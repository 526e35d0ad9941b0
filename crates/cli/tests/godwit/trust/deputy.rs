//! A site that runs a job for another site uses that site's rights at the third site, never its own rights.
//! See `given` for the access that is given for a job.

use godwit_api::ask::{Answer, Question, code};
use godwit_api::grant::Mandate;
use godwit_api::job::Text;
use godwit_api::rest::JobState;
use serde_json::json;

use super::{JOB, Trust, allow, ask, assert_denied, wishes};

#[test]
fn a_site_that_is_unknown_at_the_third_gets_nothing_by_one_that_is_known() {
    let trust = Trust::new();
    // B grants A, A grants C, and B does not know C.
    allow(&trust.b, &trust.a.identity, "data", &["--read", "--write"]);
    allow(&trust.a, &trust.c.identity, "data", &["--read", "--write"]);
    for (number, (name, wish)) in wishes().into_iter().enumerate() {
        let seen = trust.end_of(&format!("{JOB}-{number}"), &wish);
        let seen = seen.unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        assert_denied(&seen, &trust.c);
        trust.assert_untouched();
    }
}

#[test]
fn a_verification_for_another_site_reads_with_the_rights_of_that_site_alone() {
    let trust = Trust::new();
    allow(&trust.b, &trust.a.identity, "data", &["--read", "--write"]);
    allow(&trust.a, &trust.c.identity, "data", &["--read", "--write"]);
    // A list of names that C guesses: differences and existing names must not reach C.
    let made = trust.a.client(&[
        "cp",
        "--manifest",
        "export/mine/list",
        "export/mine/evil",
        "export/secret",
    ]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let verify = json!({"kind": "verify", "sources": ["here:/data/mine/list"], "destination": "siteB:/data/data",
                        "settings": {"extra": ["true"]}});
    let seen = trust.end_of(JOB, &verify).expect("it runs");
    assert_denied(&seen, &trust.c);
    assert!(seen.failures.is_empty(), "{:?}", seen.failures);
    // With a grant there, C gets an answer.
    allow(&trust.b, &trust.c.identity, "data:/data", &["--read"]);
    let job = format!("{JOB}-2");
    trust
        .give(&job, &trust.a, "data/data", false)
        .expect("given");
    let seen = trust.end_of(&job, &verify).expect("it runs");
    let code = seen.view.reason.as_ref().map(|reason| reason.code.as_str());
    assert!(code != Some("access_denied"), "{:?}", seen.view);
    assert!(!seen.failures.is_empty(), "{:?}", seen.view);
    trust.assert_untouched();
}

#[test]
fn a_site_needs_rights_at_both_ends_and_each_site_names_the_one_that_lacks() {
    let trust = Trust::new();
    allow(&trust.b, &trust.a.identity, "data", &["--read", "--write"]);
    // B grants C, and A does not.
    allow(&trust.b, &trust.c.identity, "data:/data", &["--read"]);
    trust
        .give(JOB, &trust.a, "data/data/secret", false)
        .expect("given");
    let pull = json!({"sources": ["siteB:/data/data/secret"], "destination": "here:/data/in/"});
    let refusal = trust.run(JOB, &pull).expect_err("A does not know C");
    assert!(
        refusal
            .code
            .is_one_of(&[code::UNKNOWN_IDENTITY, code::NOT_GRANTED]),
        "{refusal:?}"
    );
    assert!(refusal.message.contains(&trust.c.identity), "{refusal:?}");
    // Both sites grant rights to C: to read at the source and to write at the destination.
    allow(&trust.a, &trust.c.identity, "data:/in", &["--write"]);
    let seen = trust.end_of(JOB, &pull).expect("it runs");
    assert_eq!(seen.view.state, JobState::Complete, "{:?}", seen.view);
    assert!(trust.a.export.join("in/secret").exists());
}

#[test]
fn a_grant_for_a_job_opens_no_other_path_right_or_job() {
    let trust = Trust::new();
    allow(&trust.b, &trust.a.identity, "data", &["--read", "--write"]);
    allow(&trust.a, &trust.c.identity, "data", &["--read", "--write"]);
    allow(&trust.b, &trust.c.identity, "data:/data/old", &["--read"]);
    trust
        .give(JOB, &trust.a, "data/data/old", false)
        .expect("given");
    for (number, (name, wish)) in wishes().into_iter().enumerate() {
        let job = format!("{JOB}-{number}");
        trust
            .give(&job, &trust.a, "data/data/old", false)
            .expect("given");
        let seen = trust.end_of(&job, &wish);
        let seen = seen.unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        assert_denied(&seen, &trust.c);
        trust.assert_untouched();
    }
    // C cannot give away a right that C lacks.
    let refusal = trust.give(JOB, &trust.a, "data/data", false);
    assert_eq!(refusal.expect_err("too much").code, code::NOT_GRANTED);
    let refusal = trust.give(JOB, &trust.a, "data/data/old", true);
    assert_eq!(refusal.expect_err("too much").code, code::NOT_GRANTED);
}

#[test]
fn questions_for_a_job_are_answered_by_the_rights_of_that_job_alone() {
    let trust = Trust::new();
    allow(&trust.b, &trust.a.identity, "data", &["--read", "--write"]);
    allow(&trust.b, &trust.c.identity, "data:/data/old", &["--read"]);
    trust
        .give(JOB, &trust.a, "data/data/old", false)
        .expect("given");
    let mandate = |job: &str| Mandate {
        asker: trust.c.identity.clone(),
        job: job.to_owned(),
    };
    let stat = |path: &str| Question::Stat {
        path: Text::from(path),
    };
    let asked = |mandate: Option<&Mandate>, path: &str| {
        ask(&trust.a, &trust.b, mandate, &stat(path)).map(|answer| match answer {
            Answer::Entry(entry) => entry.kind,
            other => panic!("{other:?}"),
        })
    };
    // For itself, A may look everywhere; for the job of C, only at one place.
    assert!(asked(None, "data/data/secret").is_ok());
    assert!(asked(Some(&mandate(JOB)), "data/data/old/f").is_ok());
    for (job, path) in [(JOB, "data/data/secret"), ("c-job-2", "data/data/old/f")] {
        let refusal = asked(Some(&mandate(job)), path).expect_err("no right");
        assert_eq!(refusal.code, code::NOT_GRANTED, "{refusal:?}");
        assert!(refusal.message.contains(&trust.c.identity), "{refusal:?}");
    }
    // Changes that no job makes are refused under a mandate.
    let remove = Question::Remove(godwit_api::ask::RemovePlace {
        path: Text::from("data/data/old"),
        recursive: true,
    });
    let refusal = ask(&trust.a, &trust.b, Some(&mandate(JOB)), &remove);
    assert_eq!(refusal.expect_err("no such question").code, code::INVALID);
    trust.assert_untouched();
}

#[test]
fn a_node_says_of_no_site_but_its_own_that_it_is_of_it() {
    let trust = Trust::new();
    allow(&trust.b, &trust.a.identity, "data", &["--read"]);
    let nodes = |of: Option<&str>| Question::Nodes {
        path: Text::from("data/data"),
        of: of.map(str::to_owned),
    };
    ask(&trust.a, &trust.b, None, &nodes(None)).expect("its own nodes");
    // C has named B as a node of its site.
    let refusal = ask(&trust.a, &trust.b, None, &nodes(Some(&trust.c.identity)));
    let refusal = refusal.expect_err("another site");
    assert_eq!(refusal.code, code::OTHER_CLUSTER, "{refusal:?}");
}

#[test]
fn a_site_removes_none_of_its_files_for_the_job_of_another_one() {
    let trust = Trust::new();
    // Every right does not suffice.
    allow(&trust.a, &trust.c.identity, "data", &["--read", "--write"]);
    allow(&trust.b, &trust.c.identity, "data", &["--read", "--write"]);
    let wish = json!({"sources": ["here:/data/mine/evil"], "destination": "siteB:/data/data/",
                      "remove_source_after": 1});
    let refusal = trust.run(JOB, &wish).expect_err("refused");
    assert_eq!(refusal.code, code::INVALID, "{refusal:?}");
    assert!(refusal.message.contains("none of its files"), "{refusal:?}");
    assert!(trust.a.export.join("mine/evil").exists());
    trust.assert_untouched();
}
