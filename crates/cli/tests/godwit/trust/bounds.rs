//! Bounds of one asker that no number or order of questions may exceed; and a right that ends during a question.
//! See `cluster::subjects` for the allowed questions of each subject.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites as _, MakeDirectory, Peer, RunJob};
use godwit_api::ask::{
    ClaimPlace, GrantJob, Mark, Question, ReachSite, Refusal, ReleaseClaim, RemovePlace, code,
};
use godwit_api::failure::FailureCode;
use godwit_api::grant::Mandate;
use godwit_api::job::{ClaimId, Text};
use godwit_api::rest::Timestamp;
use godwit_api::settings::Cipher;
use godwit_data_port::{Asker, Here};
use godwit_run::{Home, client_tls};

use super::super::cluster::guests::rules;
use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::{Trust, allow, ask, peer};

fn asker(rig: &Rig) -> Asker {
    let home = Home::at(rig.daemon_home.clone());
    let identity = home.identity().expect("a key");
    let tls = client_tls(Cipher::Aes256Gcm, &identity).expect("usable");
    let here = Here::new(
        Vec::new(),
        home.path().to_owned(),
        godwit_store::Syncs::default(),
    );
    Asker::new(here, tls)
}

fn claim_id(n: u32) -> ClaimId {
    let mut id = [7; 16];
    id[..4].copy_from_slice(&n.to_le_bytes());
    ClaimId(id)
}

fn claim(n: u32, epoch: u64) -> Question {
    Question::Claim(ClaimPlace {
        claim: claim_id(n),
        epoch,
        path: Text::from(format!("data/in/c{n}").as_str()),
        members: Vec::new(),
        lease_ms: 3_600_000,
        fence: Vec::new(),
        mark: Mark::Untouched,
        copies: false,
    })
}

/// Ended claims are remembered, and a claim that is set again counts as any other.
#[test]
fn an_identity_holds_no_more_claims_by_setting_ended_ones_again() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    allow(&trust.b, &trust.a.identity, "data", &["--write"]);
    let c = asker(&trust.c);
    let b = peer(&trust.b, "siteB");
    let asks = |question: &Question| -> Result<Answer, Refusal> {
        c.ask_for(None, Some(&b), question, &mut |_| true)
    };
    for round in 0..4 {
        let own = round * 256..(round + 1) * 256;
        for n in own.clone() {
            asks(&claim(n, 1)).expect("claimed");
        }
        for n in own {
            let release = ReleaseClaim {
                claim: claim_id(n),
                epoch: 1,
                path: None,
            };
            asks(&Question::Release(release)).expect("released");
        }
    }
    let held = (0..1_024).filter(|n| asks(&claim(*n, 2)).is_ok()).count();
    let other = ask(&trust.a, &trust.b, None, &claim(5_000, 1));
    assert!(
        held <= 256,
        "{held} claims of one identity; another one hears {other:?}"
    );
    other.expect("there is room for others");
}

/// The lease of a claim may last for an hour.
#[test]
fn a_claim_ends_with_the_right_of_its_holder_for_the_jobs_of_the_node_itself_too() {
    let trust = Trust::new();
    trust.b.write("export/own", b"of B");
    trust.b.make_dirs("export/in");
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    let claimed = ask(&trust.c, &trust.b, None, &claim(1, 1));
    claimed.expect("claimed");
    let tried = || {
        let id = submit(&trust.b, "here:/data/own", "here:/data/in/c1", &[]);
        wait_for(&trust.b, &id, |job| {
            let reason = &job["reason"]["code"];
            job["state"] == "complete" || !(reason.is_null() || reason == "waiting")
        })
    };
    let held_up = tried();
    assert_eq!(held_up["reason"]["code"], "busy_destination", "{held_up}");
    let denied = trust.b.admin(&["access", "deny", &trust.c.identity]);
    assert_eq!(denied.code, Some(0), "{denied:?}");
    let until = Instant::now() + super::DEADLINE;
    loop {
        let job = tried();
        if job["state"] == "complete" {
            break;
        }
        assert!(Instant::now() < until, "it is still held up: {job}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Access for a job at this number of paths, for an hour.
fn let_in(job: &str, who: &Rig, paths: usize) -> Question {
    let path = |n| Text::from(format!("data/in/{n}").as_str());
    Question::Grant(GrantJob {
        job: job.to_owned(),
        identity: who.identity.clone(),
        paths: (0..paths).map(path).collect(),
        write: true,
        until: Timestamp(godwit_jobs::now().0 + 3_600_000),
        lasts_ms: Some(3_600_000),
    })
}

/// The job of an asker that the tests let nodes in for.
fn job_of(asker: &Rig) -> Mandate {
    Mandate {
        asker: asker.identity.clone(),
        job: "j".to_owned(),
    }
}

#[test]
fn questions_at_once_give_no_more_access_for_jobs_than_one_after_the_other() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    std::thread::scope(|scope| {
        for job in 0..6 {
            let trust = &trust;
            scope.spawn(move || {
                let give = let_in(&format!("j{job}"), &trust.a, 600);
                let given = trust.c_asks(&trust.b, &give);
                println!("{job}: {given:?}");
            });
        }
    });
    let rules = rules(&trust.b);
    assert!(rules <= 2_000, "{rules} rules of one asker");
}

#[test]
fn a_removal_ends_when_the_right_to_it_is_taken_back() {
    const FILES: usize = 300_000;
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data:/big", &["--write"]);
    for n in 0..FILES {
        let directory = trust.b.export.join(format!("big/d{}", n % 300));
        if n < 300 {
            fs::create_dir_all(&directory).expect("made");
        }
        fs::File::create(directory.join(format!("f{n}"))).expect("made");
    }
    let count = || {
        let directories = fs::read_dir(trust.b.export.join("big"))
            .into_iter()
            .flatten();
        let in_one =
            |directory: fs::DirEntry| fs::read_dir(directory.path()).map_or(0, Iterator::count);
        directories.flatten().map(in_one).sum::<usize>()
    };
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| {
            let wish = Question::Remove(RemovePlace {
                path: Text::from("data/big"),
                recursive: true,
            });
            trust.c_asks(&trust.b, &wish)
        });
        while count() == FILES {
            std::thread::yield_now();
        }
        let denied = trust.b.admin(&["access", "deny", &trust.c.identity]);
        assert_eq!(denied.code, Some(0), "{denied:?}");
        let left = count();
        let answer = removal.join().expect("asked");
        assert!(left > 0, "the machine removes too fast for this test");
        assert!(
            count() > 0,
            "{left} files were left when the right ended, and now {} are: {answer:?}",
            count()
        );
    });
}

#[test]
fn a_client_that_may_only_write_learns_nothing_by_a_stat() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    let look = |path: &str| {
        let path = Text::from(path);
        trust
            .c_asks(&trust.b, &Question::Stat { path })
            .expect_err("no right")
            .code
    };
    let none = look("data/data/no-such-file");
    assert_eq!(none, FailureCode::NotFound, "as jobs need it");
    assert_eq!(look("data/data/secret"), none);
    assert_eq!(look("data/data/secret/below"), none);
    let path = Text::from("data/data");
    let directory = trust.c_asks(&trust.b, &Question::Stat { path });
    directory.expect("of directories it learns");
}

#[test]
fn a_job_does_not_tell_its_asker_by_its_times_what_is_at_an_address() {
    let trust = Trust::new();
    allow(&trust.a, &trust.c.identity, "data", &["--read"]);
    let bind = || TcpListener::bind("127.0.0.1:0").expect("bound");
    let at = |listener: &TcpListener| listener.local_addr().expect("bound").to_string();
    let (silent, ssh) = (bind(), bind());
    let closed = at(&bind());
    let addresses = [
        ("closed", closed),
        ("silent", at(&silent)),
        ("ssh", at(&ssh)),
        ("node", trust.b.address().to_owned()),
    ];
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = ssh.accept() {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n");
            kept.push(stream);
        }
    });
    let mut begun = Vec::new();
    for (job, address) in &addresses {
        begun.push(Instant::now());
        let new =
            serde_json::json!({"sources": ["here:/data/mine/evil"], "destination": "x:/data/y"});
        let run = Question::Run(Box::new(RunJob {
            job: (*job).to_owned(),
            again: true,
            request: None,
            deadline_ms: None,
            new: serde_json::from_value(new).expect("a job"),
            other: Some(Peer {
                name: "x".to_owned(),
                addresses: vec![address.clone()],
                // This identity is at none of them.
                identity: trust.c.identity.clone(),
            }),
            may_list: Some(true),
            may_read: Some(true),
        }));
        trust.c_asks(&trust.a, &run).expect("taken");
    }
    let has_ended = |job: &str| {
        let job = job.to_owned();
        let Ok(Answer::Job(seen)) = trust.c_asks(&trust.a, &Question::Job { job }) else {
            panic!("no answer");
        };
        let reason = seen.view.reason.as_ref();
        reason.is_some_and(|reason| reason.code == FailureCode::Unreachable)
    };
    let until = Instant::now() + super::DEADLINE;
    let mut waiting: Vec<_> = addresses.iter().map(|(job, _)| *job).zip(begun).collect();
    while !waiting.is_empty() {
        assert!(Instant::now() < until, "no end: {waiting:?}");
        waiting.retain(|(job, begun)| {
            let has_ended = has_ended(job);
            // No dial takes longer than this wait, so the end of each job is the end of the wait.
            let after = begun.elapsed();
            assert!(
                !has_ended || after >= Duration::from_secs(6),
                "{job}: {after:?}"
            );
            !has_ended
        });
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_stranger_has_no_long_lines_written_into_the_log() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    rig.trust(rig.address(), &rig.identity);
    let long = vec!["x".repeat(200); 300].join("/");
    let sources: Vec<String> = (0..8).map(|n| rig.url(&format!("{long}/{n}"))).collect();
    fs::create_dir_all(rig.path("to")).expect("made");
    let to = rig.path("to/").display().to_string();
    let before = rig.daemon().said().len();
    for _ in 0..5 {
        let mut line: Vec<&str> = sources.iter().map(String::as_str).collect();
        line.push(&to);
        let outcome = rig.cp(&line);
        assert_ne!(outcome.code, Some(0));
        assert!(
            format!("{outcome:?}").contains("does not know you"),
            "{}",
            outcome.code.unwrap_or_default()
        );
    }
    let grown = rig.daemon().said().len() - before;
    assert!(
        grown < 5 * 4_096,
        "{grown} bytes of log for five refusals of a stranger"
    );
}

#[test]
fn a_peer_fills_no_log_with_refusals() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data:/in", &["--read"]);
    let c = asker(&trust.c);
    let b = peer(&trust.b, "siteB");
    let path = Text::from(format!("data/{}", vec!["x".repeat(200); 300].join("/")).as_str());
    let before = trust.b.daemon().said().len();
    for _ in 0..200 {
        let question = Question::MakeDirectory(MakeDirectory {
            path: path.clone(),
            parents: true,
        });
        let answer = c.ask_for(None, Some(&b), &question, &mut |_| true);
        assert_eq!(answer.expect_err("no right").code, FailureCode::NotGranted);
    }
    let grown = trust.b.daemon().said().len() - before;
    assert!(
        grown < 1 << 20,
        "{grown} bytes of log for 200 refusals of one peer"
    );
}

#[test]
fn an_asker_does_not_change_the_state_as_fast_as_it_can_ask() {
    let trust = Trust::new();
    for rig in [&trust.c, &trust.a] {
        allow(&trust.b, &rig.identity, "data", &["--write"]);
    }
    let give = |paths: usize| let_in("j", &trust.a, paths);
    // Each grant renews the existing rules, so there are never many.
    let refused = (0..8).find_map(|_| trust.c_asks(&trust.b, &give(600)).err());
    let refused = refused.expect("4,800 changes in a row are too many");
    assert_eq!((refused.code.as_str(), refused.retryable), ("busy", true));
    // Other askers have separate bounds, and a grant can be revoked at any time.
    ask(&trust.a, &trust.b, None, &give(1)).expect("of another identity");
    let revoke = Question::Revoke {
        job: "j".to_owned(),
        keep: Vec::new(),
    };
    trust.c_asks(&trust.b, &revoke).expect("taken back");
    assert_eq!(rules(&trust.b), 1, "that of the other identity");
}

/// A node that runs a job admits other nodes of its site. Their rules count with those of the asker.
#[test]
fn a_node_that_runs_a_job_does_not_use_up_the_access_of_its_asker() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    trust.give("j", &trust.a, "data/in", true).expect("given");
    let mandate = job_of(&trust.c);
    let pass_on = |paths: usize| {
        let question = let_in("j", &trust.b, paths);
        ask(&trust.a, &trust.b, Some(&mandate), &question)
    };
    pass_on(100).expect("for some nodes");
    let refusal = pass_on(1_000).expect_err("too many for one job");
    assert!(refusal.message.contains("the job j has"), "{refusal:?}");
    assert_eq!(rules(&trust.b), 101);
    trust.give("k", &trust.a, "data/in", true).expect("left");
}

#[test]
fn identities_that_an_asker_lets_in_change_no_more_than_the_asker_may() {
    let trust = Trust::new();
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    trust.give("j", &trust.a, "data/in", true).expect("given");
    let mandate = job_of(&trust.c);
    let pass_on = let_in("j", &trust.b, 200);
    let ask = || ask(&trust.a, &trust.b, Some(&mandate), &pass_on);
    let refused = (0..40).find_map(|_| ask().err()).expect("too many");
    assert_eq!(refused.code, FailureCode::Busy, "{refused:?}");
    // All these changes counted for the asker. Alone, the asker could make more than this number of changes.
    let more = (0..2_000).find_map(|_| trust.give("j", &trust.a, "data/in", true).err());
    assert!(more.is_some(), "the asker has changes of its own left");
}

/// The addresses may be the choice of a site that names its nodes.
#[test]
fn no_address_is_dialled_for_a_question_that_is_not_waited_for() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let listeners: Vec<_> = (0..3)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("bound"))
        .collect();
    let addresses = listeners.iter().map(|one| one.local_addr().expect("bound"));
    let silent = Peer {
        name: "silent".to_owned(),
        addresses: addresses.map(|address| address.to_string()).collect(),
        identity: rig.identity.clone(),
    };
    let mut looks = 0;
    let mut go_on = |_| {
        looks += 1;
        looks < 2
    };
    let asked = asker(&rig).ask_for(None, Some(&silent), &Question::Running {}, &mut go_on);
    let refusal = asked.expect_err("nobody answers");
    assert_eq!(refusal.code, FailureCode::GivenUp, "{refusal:?}");
    for listener in &listeners[1..] {
        listener.set_nonblocking(true).expect("set");
        assert!(listener.accept().is_err(), "it was dialled");
    }
}

/// The right to each path is looked up only once there are not too many.
#[test]
fn a_question_about_too_many_paths_is_refused_before_any_right_is_looked_up() {
    let trust = Trust::new();
    allow(&trust.a, &trust.c.identity, "data:/empty", &["--read"]);
    let paths = |count: usize| (0..count).map(|n| Text::from(format!("data/no/{n}").as_str()));
    let reach = |count: usize| {
        Question::Reach(ReachSite {
            peer: peer(&trust.b, "siteB"),
            paths: paths(count).collect(),
            write: false,
        })
    };
    let no = |question: &Question| trust.c_asks(&trust.a, question).expect_err("no").code;
    assert_eq!(no(&reach(1_024)), code::NOT_GRANTED);
    assert_eq!(no(&reach(1_025)), code::INVALID);
    let run = |count: usize| {
        let sources: Vec<String> = (0..count).map(|n| format!("here:/data/no/{n}")).collect();
        let new = serde_json::json!({"sources": sources, "destination": "siteB:/data/in/"});
        trust.run("j", &new).expect_err("no").code
    };
    assert_eq!(run(1_024), code::NOT_GRANTED);
    assert_eq!(run(1_025), code::INVALID);
}
