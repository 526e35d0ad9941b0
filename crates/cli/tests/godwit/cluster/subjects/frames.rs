//! Each frame that begins a connection, with every subject: which of them open a transfer, a verification or an examination.
//! Questions are in the table.

use std::time::{Duration, Instant};

use godwit_api::ask::{ClaimPlace, LEASE_MS, Mark, Question};
use godwit_api::job::ClaimId;
use godwit_proto::{
    Direction, ErrorCode, Examine, Frame, Join, Open, Token, TransferId, Verification,
};

use super::super::super::asking;
use super::super::Site;
use super::walk::{Key, Walk, remove};
use super::{FOR_JOB, SUBJECTS};

/// The code of the refusal; None is an accepted request.
type Code = Option<ErrorCode>;

const OK: Code = None;
const WHO: Code = Some(ErrorCode::AUTH);
const NO: Code = Some(ErrorCode::NOT_GRANTED);
/// The same answer for all: only participants learn whether a transfer exists.
const NONE: Code = Some(ErrorCode::UNKNOWN_TRANSFER);

/// The answers to each subject, in the order of the columns.
const TABLE: [(&str, [Code; SUBJECTS.len()]); 5] = [
    (
        "push",
        [WHO, NO, OK, WHO, OK, OK, WHO, WHO, WHO, WHO, OK, NO],
    ),
    (
        "pull",
        [WHO, OK, OK, WHO, OK, OK, WHO, WHO, WHO, WHO, OK, NO],
    ),
    (
        "verify",
        [WHO, OK, OK, WHO, OK, OK, WHO, WHO, WHO, WHO, OK, NO],
    ),
    ("join", [NONE; SUBJECTS.len()]),
    (
        "examine",
        [WHO, OK, OK, WHO, OK, OK, WHO, WHO, WHO, WHO, OK, OK],
    ),
];

/// The frame as the subject sends it, about its own directory.
fn frame(walk: &Walk, kind: &str, subject: usize) -> Vec<u8> {
    let own = walk.directory(subject);
    let path = |name: &str| format!("data/{own}/{name}").into_bytes();
    let open = Open {
        digest: 1,
        mandate: walk.mandate(subject).map(|named| godwit_proto::Mandate {
            asker: named.asker,
            job: named.job,
        }),
        ..Open::default()
    };
    let mut head = Vec::new();
    let encoded = match kind {
        "push" => Open {
            direction: Direction::PUSH.0,
            sources: vec![b"source".to_vec()],
            names: vec![b"name".to_vec()],
            destination: path("old"),
            ..open
        }
        .encode(&mut head),
        "pull" => Open {
            direction: Direction::PULL.0,
            sources: vec![path("old")],
            destination: b"here".to_vec(),
            ..open
        }
        .encode(&mut head),
        "verify" => Open {
            direction: Direction::VERIFY.0,
            sources: vec![path("old")],
            verification: Some(Verification::default()),
            ..open
        }
        .encode(&mut head),
        "join" => {
            Join::new(TransferId([7; 16]), Token([7; 16]), 0).encode(&mut head);
            Ok(())
        }
        "examine" => Examine::default().encode(&mut head),
        other => panic!("the test has no frame {other}"),
    };
    encoded.expect("it may be asked");
    head
}

/// The subjects whose answers differ from the table.
pub(super) fn wrong(walk: &Walk) -> Vec<String> {
    let mut wrong = Vec::new();
    for (kind, codes) in TABLE {
        for (subject, name) in SUBJECTS.iter().enumerate() {
            // Access for a job is for the directory of this subject.
            if subject == FOR_JOB {
                walk.let_in();
            }
            let head = frame(walk, kind, subject);
            let until = Instant::now() + super::super::DEADLINE;
            let (answer, code) = loop {
                let answer = asking::ask(walk.asked(subject), &walk.key(subject).home, &head);
                let code = match &answer {
                    Ok(Frame::Error(error)) => Ok(Some(error.code())),
                    Ok(Frame::Opened(_) | Frame::Examined(_)) => Ok(None),
                    _ => Err(()),
                };
                // Waits until the leases of the claims that the questions set have ended.
                if code != Ok(Some(ErrorCode::BUSY)) || Instant::now() > until {
                    break (answer, code);
                }
                std::thread::sleep(Duration::from_millis(100));
            };
            if code != Ok(codes[subject]) {
                let expected = codes[subject];
                wrong.push(format!("{kind}, {name}: {answer:?}, not {expected:?}"));
            }
        }
    }
    wrong
}

/// The claim would keep all others from the destination for an hour.
#[test]
fn a_claim_of_a_node_ends_when_it_is_removed() {
    let site = Site::of(2);
    let node = Key::new(&site.nodes[1].daemon_home);
    let peer = Key::new(&site.nodes[0].path("peer"));
    peer.allow(&site.nodes[0], "read,write", None);
    let claim = Question::Claim(ClaimPlace {
        copies: false,
        claim: ClaimId([7; 16]),
        epoch: 1,
        path: "data/held".into(),
        members: vec![node.id.clone()],
        lease_ms: *LEASE_MS.end(),
        fence: Vec::new(),
        mark: Mark::Untouched,
    });
    let claimed = node.ask(&site.nodes[0], &claim);
    claimed.expect("a node of the site");
    let mut push = Vec::new();
    let open = Open {
        direction: Direction::PUSH.0,
        sources: vec![b"source".to_vec()],
        names: vec![b"name".to_vec()],
        destination: b"data/held".to_vec(),
        digest: 1,
        ..Open::default()
    };
    open.encode(&mut push).expect("it may be asked");
    let code = |site: &Site| match asking::ask(&site.nodes[0], &peer.home, &push) {
        Ok(Frame::Error(error)) => Some(error.code()),
        Ok(Frame::Opened(_)) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(&site), Some(ErrorCode::BUSY));
    remove(&site, "dtn2");
    assert_eq!(code(&site), None);
}
