//! Every question between nodes with every subject, by keys of the test: which are answered, and which are refused by which code.
//! The contents of the answers are tested in other modules.

mod frames;
mod walk;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use godwit_api::ask::{
    CLUSTER_QUESTIONS, ClusterQuestion, Peer, QUESTIONS, Question, ReachSite, code,
};
use godwit_api::failure::FailureCode;
use godwit_api::job::Text;

use super::super::rig::Rig;
use super::Site;
use walk::{Key, Walk};

/// The askers, in the order of the columns. The job `g1` and the claims belong to the asker of a guest job.
const SUBJECTS: [&str; 12] = [
    "stranger",
    "peer that may read",
    "peer that may write",
    "peer whose grant has expired",
    "asker of a guest job",
    "another asker",
    "member of the cluster",
    "member that was removed",
    "member that was removed, at a node that was removed later",
    "site that is known here",
    // Both may read and write for themselves, and ask for a job of the asker of the guest job.
    "for a job, with access for it",
    "for a job, without access for it",
];
const GUEST: usize = 4;
const ANOTHER: usize = 5;
const MEMBER: usize = 6;
const REMOVED: usize = 7;
const LATER: usize = 8;
const KNOWN_SITE: usize = 9;
const FOR_JOB: usize = 10;
const WITHOUT: usize = 11;

const OK: &str = "ok";
/// The identity is not known.
const WHO: &str = "unknown_identity";
/// The identity is known, and may not do this.
const NO: &str = "not_granted";
const JOIN: &str = "bad_invitation";
/// The question is not asked for a job of another node.
const NOT_SO: &str = "invalid";
/// The claim is of another asker.
const GONE: &str = "no_such_claim";
const NO_JOB: &str = "no_such_job";
const NOT_IN: &str = "not_let_in";
const OTHER: &str = "other_cluster";
const UNKNOWN: &str = "unsupported";

/// The year 2100. Access for a job ends sooner.
const FAR: i64 = 4_102_444_800_000;

type Row = (&'static str, [&'static str; SUBJECTS.len()]);

/// For each question, the answer to each subject: `ok`, or the code of the refusal. Questions within a cluster begin with `cluster/`.
const TABLE: &[Row] = &[
    (
        "exports",
        [WHO, OK, OK, WHO, OK, OK, OK, WHO, WHO, WHO, OK, OK],
    ),
    (
        "list",
        [WHO, OK, OK, WHO, OK, OK, OK, WHO, WHO, WHO, OK, NO],
    ),
    (
        "stat",
        [WHO, OK, OK, WHO, OK, OK, OK, WHO, WHO, WHO, OK, NO],
    ),
    (
        "make_directory",
        [WHO, NO, OK, WHO, OK, OK, OK, WHO, WHO, WHO, OK, NO],
    ),
    (
        "remove",
        [WHO, NO, OK, WHO, OK, OK, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    (
        "rename",
        [WHO, NO, OK, WHO, OK, OK, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    (
        "clean",
        [WHO, NO, OK, WHO, OK, OK, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    (
        "overlaps",
        [WHO, NO, OK, WHO, OK, OK, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    (
        "seal",
        [WHO, NO, OK, WHO, OK, OK, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    (
        "claim",
        [WHO, NO, OK, WHO, OK, OK, OK, WHO, WHO, WHO, OK, NO],
    ),
    (
        "renew",
        [
            WHO, GONE, GONE, WHO, OK, GONE, OK, WHO, WHO, WHO, GONE, GONE,
        ],
    ),
    (
        // As for an id that no claim has: a peer that may not write here does not learn that there is one.
        "release",
        [WHO, OK, GONE, WHO, OK, GONE, OK, WHO, WHO, WHO, GONE, OK],
    ),
    (
        "nodes",
        [WHO, OK, OK, WHO, OK, OK, OK, WHO, WHO, WHO, OK, NO],
    ),
    (
        "reach",
        [WHO, OK, OK, WHO, OK, OK, NO, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    (
        "grant",
        [WHO, NO, OK, WHO, OK, OK, NO, WHO, WHO, WHO, OK, NO],
    ),
    (
        "revoke",
        [WHO, OK, OK, WHO, OK, OK, OK, WHO, WHO, WHO, OK, NOT_IN],
    ),
    (
        "run",
        [WHO, NO, OK, WHO, OK, OK, NO, WHO, WHO, WHO, NOT_IN, NOT_IN],
    ),
    (
        "job",
        [
            WHO, NO_JOB, NO_JOB, WHO, OK, NO_JOB, NO_JOB, WHO, WHO, WHO, NOT_IN, NOT_IN,
        ],
    ),
    (
        "steer",
        [
            WHO, NO_JOB, NO_JOB, WHO, OK, NO_JOB, NO_JOB, WHO, WHO, WHO, NOT_IN, NOT_IN,
        ],
    ),
    (
        "past",
        [
            WHO, NO_JOB, NO_JOB, WHO, OK, NO_JOB, NO_JOB, WHO, WHO, WHO, NOT_IN, NOT_IN,
        ],
    ),
    (
        "manifest",
        [
            WHO, NO_JOB, NO_JOB, WHO, NO_JOB, NO_JOB, OK, WHO, WHO, WHO, NOT_SO, NOT_SO,
        ],
    ),
    (
        "running",
        [WHO, NO, NO, WHO, NO, NO, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    (
        "buffer",
        [WHO, NO, NO, WHO, NO, NO, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    // The asked node has no buffer.
    (
        "extent",
        [
            WHO, NO, NO, WHO, NO, NO, UNKNOWN, WHO, WHO, WHO, NOT_SO, NOT_SO,
        ],
    ),
    // No subject has a transfer here: `shown` has a node that does.
    (
        "host",
        [
            WHO, NO_JOB, NO_JOB, WHO, NO_JOB, NO_JOB, NO_JOB, WHO, WHO, WHO, NOT_SO, NOT_SO,
        ],
    ),
    (
        "cluster/carry",
        [
            OTHER, OTHER, OTHER, OTHER, OTHER, OTHER, "io", OTHER, OTHER, OTHER, NOT_SO, NOT_SO,
        ],
    ),
    (
        "cluster/announce",
        [
            OTHER, OTHER, OTHER, OTHER, OTHER, OTHER, OK, OTHER, OTHER, OTHER, NOT_SO, NOT_SO,
        ],
    ),
    (
        "cluster/status",
        [
            OTHER, OTHER, OTHER, OTHER, OTHER, OTHER, OK, OTHER, OTHER, OTHER, NOT_SO, NOT_SO,
        ],
    ),
    (
        "cluster/join",
        [
            JOIN, JOIN, JOIN, JOIN, JOIN, JOIN, JOIN, JOIN, JOIN, JOIN, NOT_SO, NOT_SO,
        ],
    ),
];

/// Further questions of the same kinds, which the table has in their plainest form.
const MORE: &[Row] = &[
    (
        "buffer/waiting",
        [WHO, NO, NO, WHO, NO, NO, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    (
        "buffer/retry",
        [WHO, NO, NO, WHO, NO, NO, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    (
        "buffer/give up",
        [WHO, NO, NO, WHO, NO, NO, OK, WHO, WHO, WHO, NOT_SO, NOT_SO],
    ),
    // From a node of another site, to which the asker was led.
    (
        "nodes/of a member",
        [WHO, OK, OK, WHO, OK, OK, OK, WHO, WHO, WHO, OK, NO],
    ),
    (
        "nodes/of a stranger",
        [
            WHO, OTHER, OTHER, WHO, OTHER, OTHER, OTHER, WHO, WHO, WHO, OTHER, NO,
        ],
    ),
    (
        "nodes/of a removed member",
        [
            WHO, OTHER, OTHER, WHO, OTHER, OTHER, OTHER, WHO, WHO, WHO, OTHER, NO,
        ],
    ),
    (
        "cluster/carry a command",
        [
            OTHER, OTHER, OTHER, OTHER, OTHER, OTHER, OK, OTHER, OTHER, OTHER, NOT_SO, NOT_SO,
        ],
    ),
    // A member may send entries, but these entries are invalid.
    (
        "cluster/carry entries",
        [
            OTHER, OTHER, OTHER, OTHER, OTHER, OTHER, "io", OTHER, OTHER, OTHER, NOT_SO, NOT_SO,
        ],
    ),
];

#[test]
fn the_table_has_every_question() {
    let rows: BTreeSet<&str> = TABLE.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(rows.len(), TABLE.len(), "a row twice");
    let of_clusters = CLUSTER_QUESTIONS.map(|name| format!("cluster/{name}"));
    let plain = QUESTIONS.iter().filter(|name| **name != "cluster");
    let known = of_clusters.iter().map(String::as_str).chain(plain.copied());
    assert_eq!(rows, known.collect());
}

#[test]
fn every_question_is_answered_to_every_subject_as_the_table_says() {
    let walk = Walk::new();
    let mut wrong = Vec::new();
    for (kind, codes) in TABLE.iter().chain(MORE) {
        for (subject, name) in SUBJECTS.iter().enumerate() {
            let question = walk.question(kind, subject);
            walk.let_in();
            let answer = walk.ask(subject, &question);
            let code = answer.as_ref().map_or_else(|no| no.code.as_str(), |_| OK);
            if code != codes[subject] {
                wrong.push(format!(
                    "{kind}, {name}: {answer:?}, not {}",
                    codes[subject]
                ));
            }
        }
    }
    wrong.extend(frames::wrong(&walk));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The answer to an asker, and its time, do not depend on the process behind the address.
#[test]
fn a_site_that_is_not_reached_gets_one_text_at_one_time() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let asker = Key::new(&rig.path("asker"));
    asker.allow(&rig, "read,write", None);
    let silent = TcpListener::bind("127.0.0.1:0").expect("bound");
    let ssh = TcpListener::bind("127.0.0.1:0").expect("bound");
    let at = |listener: &TcpListener| listener.local_addr().expect("bound").to_string();
    let closed = at(&TcpListener::bind("127.0.0.1:0").expect("bound"));
    let addresses = [
        closed,
        at(&silent),
        at(&ssh),
        "no-such-host.invalid".to_owned(),
        // The address answers, as another node.
        rig.address().to_owned(),
    ];
    std::thread::scope(|scope| {
        let banner = scope.spawn(|| {
            let (mut stream, _): (TcpStream, _) = ssh.accept().expect("dialled");
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n");
            stream
        });
        let asked = addresses.map(|address| {
            let (asker, rig) = (&asker, &rig);
            scope.spawn(move || {
                let begun = Instant::now();
                let peer = Peer {
                    name: "b".to_owned(),
                    addresses: vec![address],
                    identity: asker.id.clone(),
                };
                let answer = asker.ask(rig, &reach(peer));
                (answer.expect_err("nobody is there"), begun.elapsed())
            })
        });
        let refusals = asked.map(|thread| thread.join().expect("asked"));
        for (refusal, after) in &refusals {
            assert_eq!(*refusal, refusals[0].0);
            assert!(*after >= Duration::from_secs(6), "{after:?}");
        }
        assert_eq!(refusals[0].0.code, FailureCode::Unreachable);
        drop(banner.join().expect("served"));
    });
    // The operator reads more.
    rig.daemon().wait_for("Connection refused");
}

/// The question names no job. A right to the paths that the job would need is the condition, and comes before any dial.
#[test]
fn no_site_is_dialled_for_an_outsider_or_without_the_right_to_the_paths() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let [outsider, elsewhere] = ["outsider", "elsewhere"].map(|name| Key::new(&rig.path(name)));
    elsewhere.allow_at(&rig, "data:/other", "read,write", None);
    let there = TcpListener::bind("127.0.0.1:0").expect("bound");
    there.set_nonblocking(true).expect("set");
    let question = reach(Peer {
        name: "b".to_owned(),
        addresses: vec![there.local_addr().expect("bound").to_string()],
        identity: outsider.id.clone(),
    });
    for (asker, code) in [(&outsider, WHO), (&elsewhere, NO)] {
        let refusal = asker.ask(&rig, &question).expect_err("refused");
        assert_eq!(refusal.code.as_str(), code, "{refusal:?}");
    }
    let dialled = there.accept().expect_err("nothing has dialled");
    assert_eq!(dialled.kind(), std::io::ErrorKind::WouldBlock);
}

fn reach(peer: Peer) -> Question {
    Question::Reach(ReachSite {
        peer,
        paths: vec![Text::from("data/a")],
        write: false,
    })
}

/// The log of the cluster does not bring its removal to a node that was down at that time.
#[test]
fn a_node_that_was_removed_while_it_was_down_serves_no_member() {
    let mut site = Site::of(3);
    let member = Key::new(&site.nodes[0].daemon_home);
    let cluster = site.view(0).expect("a view")["cluster"].clone();
    let of = cluster.as_str().expect("an id").to_owned();
    let status = Question::Cluster(Box::new(ClusterQuestion::Status { of }));
    let serves = |site: &Site| member.ask(&site.nodes[2], &status);
    serves(&site).expect("a member");
    site.nodes[2].kill_daemon();
    site.wait_at(&[0], "a node is lost", |view| {
        super::state_of(view, "dtn3") == "lost"
    });
    let removed = site.nodes[0].admin(&["cluster", "remove", "dtn3"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    site.wait_at(&[0], "it is gone", |view| super::nodes(view).len() == 2);
    // By then the leader sends this node no entries any more.
    std::thread::sleep(Duration::from_secs(5));
    site.nodes[2].serve(&[]);
    let until = Instant::now() + super::DEADLINE;
    let refused = loop {
        match serves(&site) {
            Err(refusal) if refusal.code == code::OTHER_CLUSTER => break refusal,
            answer => assert!(Instant::now() < until, "{answer:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(refused.message.contains("not a node"), "{refused:?}");
}
