//! Tests of the documents by which nodes ask each other.
//! Asks no node.

use super::*;
use crate::job::ClaimId;

#[test]
fn questions_and_answers_are_read_as_they_are_written() {
    let question = Question::List(ListPlace {
        path: Text(b"data/\xff".to_vec()),
        cursor: Some(Text::from("a")),
        limit: 5,
    });
    let document = question.to_document();
    assert_eq!(Question::parse(&document), Ok(question));
    let exports = Question::Exports {};
    assert_eq!(Question::parse(&exports.to_document()), Ok(exports));
    let answer = Answer::Exports(Vec::new());
    assert_eq!(Answer::parse(&answer.to_document()), Ok(answer));
    let answer = Answer::Overlaps(vec![PlaceOverlap {
        one: 0,
        other: 2,
        same: true,
    }]);
    assert_eq!(Answer::parse(&answer.to_document()), Ok(answer));
    let no = Refusal::later(code::BUSY, "too many");
    let refused = Answer::Refused(no.clone());
    assert_eq!(Answer::parse(&refused.to_document()), Err(no));
}

#[test]
fn questions_of_other_versions_are_unsupported_and_nonsense_is_invalid() {
    for (text, expected) in [
        (r#"{"version":2,"ask":"list","with":{}}"#, code::UNSUPPORTED),
        (
            r#"{"version":1,"ask":"fly","with":{"a":1}}"#,
            code::UNSUPPORTED,
        ),
        (r#"{"version":1}"#, code::UNSUPPORTED),
        (r#"{"version":1,"ask":"list","with":{}}"#, code::INVALID),
        (r#"{"ask":"list"}"#, code::INVALID),
        ("{", code::INVALID),
        ("", code::INVALID),
    ] {
        let refusal = Question::parse(text.as_bytes()).expect_err(text);
        assert_eq!(refusal.code, expected, "{text}: {refusal}");
    }
    let more = r#"{"version":1,"ask":"stat","new":1,"with":{"path":"a","new":[]}}"#;
    assert!(Question::parse(more.as_bytes()).is_ok());
}

#[test]
fn a_refusal_is_printed_with_fault_and_advice_of_the_catalogue() {
    let no = Refusal::new(code::NO_SPACE, "/data: the disk is full");
    let expected = format!(
        "/data: the disk is full; fault: destination; what to do: {}",
        code::NO_SPACE.advice().trim_end_matches('.')
    );
    assert_eq!(no.to_string(), expected);
    let newer = Refusal {
        code: crate::failure::Code::of_word("of_tomorrow"),
        ..no
    };
    assert_eq!(newer.to_string(), "/data: the disk is full");
}

#[test]
fn every_question_is_known() {
    let path = || Text::from("a");
    let peer = || Peer {
        name: "b".to_owned(),
        addresses: vec!["h:1".to_owned()],
        identity: "gw1-a".to_owned(),
    };
    let all = [
        Question::Exports {},
        Question::List(ListPlace::default()),
        Question::Stat { path: path() },
        Question::MakeDirectory(MakeDirectory::default()),
        Question::Remove(RemovePlace::default()),
        Question::Rename(RenamePlace::default()),
        Question::Clean(CleanPlace::default()),
        Question::Overlaps {
            paths: vec![path(), path()],
        },
        Question::Seal(SealPlace::default()),
        Question::Claim(ClaimPlace {
            copies: false,
            claim: ClaimId([1; 16]),
            epoch: 1,
            path: path(),
            members: vec!["gw1-a".to_owned()],
            lease_ms: 1_000,
            fence: vec!["gw1-a".to_owned()],
            mark: Mark::Make,
        }),
        Question::Renew(RenewClaim {
            claim: ClaimId([1; 16]),
            epoch: 1,
            lease_ms: 1_000,
        }),
        Question::Release(ReleaseClaim {
            claim: ClaimId([1; 16]),
            epoch: 1,
            path: None,
        }),
        Question::Nodes {
            path: path(),
            of: Some("gw1-a".to_owned()),
        },
        Question::Reach(ReachSite {
            peer: peer(),
            paths: vec![Text::from("data/a")],
            write: true,
        }),
        Question::Grant(GrantJob {
            job: "1".to_owned(),
            identity: "gw1-a".to_owned(),
            paths: vec![path()],
            write: true,
            until: Timestamp(5),
            lasts_ms: Some(60_000),
        }),
        Question::Revoke {
            job: "1".to_owned(),
            keep: vec!["gw1-a".to_owned()],
        },
        Question::Run(Box::new(RunJob {
            job: "1".to_owned(),
            again: true,
            request: Some("r-1".to_owned()),
            deadline_ms: Some(60_000),
            new: serde_json::from_str(r#"{"sources":["here:/a"],"destination":"b:/c"}"#)
                .expect("a job"),
            other: Some(peer()),
            may_list: Some(true),
            may_read: Some(true),
        })),
        Question::Job {
            job: "1".to_owned(),
        },
        Question::Steer(SteerJob {
            verb: Some(SteerVerb::Pause),
            ..SteerJob::default()
        }),
        Question::Steer(SteerJob {
            verb: Some(SteerVerb::TryNow),
            ..SteerJob::default()
        }),
        Question::Manifest(ManifestAfter {
            job: "j".to_owned(),
            offset: 1,
            of: None,
        }),
        Question::Past(PastAfter {
            attempt: 0,
            job: "1".to_owned(),
            line: 7,
            sample: Timestamp(5),
        }),
        Question::Running {},
        Question::Host {},
        Question::Buffer(BufferQuestion::Keep {
            export: "data".to_owned(),
            below: Text::from("run42"),
            seconds: Some(5),
        }),
        Question::Extent(Box::new(AskExtent {
            export: "data".to_owned(),
            path: Text(vec![0xff]),
            bytes: 5,
            stamp: u64::MAX,
            offset: 0,
            length: 5,
            from: 2,
            fill: true,
            keep_ms: Some(1),
            next: vec![4],
        })),
        Question::Cluster(Box::new(ClusterQuestion::Carry(Carried {
            of: "a".to_owned(),
            to: 2,
            kind: "vote".to_owned(),
            once: false,
            is_short: false,
            message: serde_json::json!({"a": [1, null]}),
        }))),
    ];
    // One question is there with two verbs.
    assert_eq!(all.len(), QUESTIONS.len() + 1);
    for question in all {
        assert_eq!(Question::parse(&question.to_document()), Ok(question));
    }
}

#[test]
fn documents_with_too_many_parts_are_invalid() {
    let of = |name_first: bool, path: &str| {
        let (name, with) = (r#""ask":"stat""#, format!(r#""with":{{"path":{path}}}"#));
        let parts = match name_first {
            true => format!("{name},{with}"),
            false => format!("{with},{name}"),
        };
        format!(r#"{{"version":1,{parts}}}"#).into_bytes()
    };
    let why = |document: &[u8]| match Question::parse(document) {
        Ok(_) => String::new(),
        Err(refusal) => {
            assert_eq!(refusal.code, code::INVALID);
            refusal.message
        }
    };
    let text = |bytes: usize| format!("\"{}\"", "a".repeat(bytes));
    assert_eq!(why(&of(false, &text(100))), "");
    assert_eq!(why(&of(true, &text(SMALL_BYTES))), "");
    assert!(why(&of(false, &text(SMALL_BYTES))).contains("must come before"));
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(why(&of(true, &deep(10))).contains("a text, or an object"));
    assert!(why(&of(true, &deep(20))).contains("deeper than 16"));
    let many = |count: usize| format!("[{}0]", "0,".repeat(count));
    assert!(why(&of(true, &many(VALUES_MAX))).contains("more than 50000 values"));
    let message = format!(
        r#"{{"version":1,"ask":"cluster","with":{{"cluster":"carry","with":{{"of":"","to":1,"kind":"","message":{}}}}}}}"#,
        many(5_000)
    );
    assert!(why(message.as_bytes()).contains("outside the cluster"));
    assert!(Question::parse_of_member(message.as_bytes()).is_ok());

    let answer = |value: &str| {
        let document = format!(r#"{{"version":1,"reply":"done","with":{{"new":{value}}}}}"#);
        Answer::parse_to(&Question::Exports {}, document.as_bytes())
    };
    assert_eq!(answer(&many(10)), Ok(Answer::Done {}));
    for too_much in [many(ANSWER_VALUES_MAX), deep(20)] {
        assert_eq!(answer(&too_much).expect_err("bounded").code, code::BROKEN);
    }
}
