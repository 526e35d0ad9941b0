//! The table of kills: the asker of a job, its division, the killed site, and the user's action meanwhile. Each case ends once.
//! See `ends` for several kills of one job. `GODWIT_CASES` sets how many cases each kind of job draws, or
//! `all`, or a part of their names; `GODWIT_SEED` sets the choice.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::ends::{Sites, say, state_of};
use super::third::rules;
use super::{fill, job, submit, wait_for};

const FILES: u8 = 20;
const BYTES: usize = 100_000;

/// The action of the user around the kill.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Meanwhile {
    Nothing,
    /// Cancels, and has the job run again.
    Cancel,
    /// Pauses, and resumes.
    Pause,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    divide: &'static str,
    /// The killed node; the first one is asked.
    victim: usize,
    meanwhile: Meanwhile,
}

/// All cases of a kind of job with this number of sites.
fn all(sites: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for divide in ["never", "always"] {
        for victim in 0..sites {
            for meanwhile in [Meanwhile::Nothing, Meanwhile::Cancel, Meanwhile::Pause] {
                cases.push(Case {
                    divide,
                    victim,
                    meanwhile,
                });
            }
        }
    }
    cases
}

/// Runs some cases of a kind of job, or all of them.
fn each(make: fn() -> Sites) {
    let mut first = make();
    let mut cases = all(first.rigs.len());
    let wanted = std::env::var("GODWIT_CASES").unwrap_or_else(|_| "2".to_owned());
    match wanted.parse::<usize>() {
        Ok(count) => {
            while cases.len() > count {
                let without = first.draw(cases.len() as u64);
                cases.remove(usize::try_from(without).expect("small"));
            }
        }
        Err(_) if wanted == "all" => {}
        Err(_) => cases.retain(|case| format!("{case:?}").contains(&wanted)),
    }
    let seed = first.seed;
    let mut first = Some(first);
    for (number, case) in (0..).zip(cases) {
        let mut sites = first.take().unwrap_or_else(make);
        // Each case at other moments.
        sites.seed = seed.wrapping_add(number * 7_919);
        say(&format!("case {case:?}"));
        ends_once(sites, case);
    }
}

/// The course of one job.
fn ends_once(mut sites: Sites, case: Case) {
    fill(&sites.rigs[sites.source], FILES, BYTES);
    let line = ["--divide", case.divide, "--limit", "500KB/s"];
    let id = submit(&sites.rigs[0], sites.from, sites.to, &line);
    let change = |sites: &Sites, verb: &str| {
        let outcome = sites.rigs[0].admin(&["job", verb, &id]);
        say(&format!("{verb}: {:?}", outcome.code));
        outcome.code == Some(0)
    };
    sites.rest(2_000);
    let is_asked = case.victim == 0;
    match case.meanwhile {
        Meanwhile::Nothing => {
            kill(&mut sites, case.victim);
            sites.rest(400);
            sites.rigs[case.victim].serve(&[]);
        }
        Meanwhile::Cancel => {
            // The asked node dies after its answer, any other one before it.
            if is_asked {
                change(&sites, "cancel");
            }
            kill(&mut sites, case.victim);
            if !is_asked {
                change(&sites, "cancel");
            }
            sites.rest(400);
            sites.rigs[case.victim].serve(&[]);
            sites.assert_quiet(&id);
            let given_up = job(&sites.rigs[0], &id).expect("it is there");
            let state = given_up["state"].as_str().expect("a state");
            assert!(["cancelled", "complete"].contains(&state), "{given_up}");
            if state == "cancelled" {
                assert!(change(&sites, "retry"));
                sites.rest(800);
            }
        }
        Meanwhile::Pause => {
            let before = is_asked || sites.draw(2) == 0;
            let paused = before && change(&sites, "pause");
            kill(&mut sites, case.victim);
            let paused = if before {
                paused
            } else {
                change(&sites, "pause")
            };
            // The job may be resumed before the site is back, and has heard of nothing.
            let is_back = is_asked || sites.draw(2) == 0;
            if is_back {
                sites.rest(400);
                sites.rigs[case.victim].serve(&[]);
                if paused && sites.draw(2) == 0 {
                    assert_stands_still(&sites, &id);
                }
            }
            assert!(
                change(&sites, "resume") || !paused,
                "{:?}",
                job(&sites.rigs[0], &id)
            );
            if !is_back {
                sites.rest(400);
                sites.rigs[case.victim].serve(&[]);
            }
        }
    }
    // A job that is through takes no other limit.
    sites.rigs[0].admin(&["job", "limit", &id, "none"]);
    let ended = wait_for(&sites.rigs[0], &id, |job| !job["ended"].is_null());
    let log = sites.rigs[0].admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    assert_counted_once(&ended);
    sites.assert_arrived_once(&id);
}

fn kill(sites: &mut Sites, victim: usize) {
    say(&format!("kill {victim}"));
    sites.rigs[victim].end_daemon(Signal::KILL);
}

/// A paused job writes nothing once its sites have heard of the pause; it has no rights at a third site then.
#[track_caller]
fn assert_stands_still(sites: &Sites, id: &str) {
    let moves = |rig: &_| {
        let list = super::super::rig::Rig::admin(rig, &["job", "list", "--all", "--json"]).out;
        let jobs = list.lines().map(serde_json::from_str::<Value>);
        jobs.map(|job| job.expect("a document"))
            .any(|job| job["ended"].is_null() && job["state"] != "paused")
    };
    let until = std::time::Instant::now() + super::DEADLINE;
    while sites.rigs.iter().any(moves) || rules(&sites.rigs[sites.destination]) > 0 {
        let rights: Vec<usize> = sites.rigs.iter().map(rules).collect();
        assert!(
            std::time::Instant::now() < until,
            "a paused job goes on, with rights {rights:?}: {:?}",
            job(&sites.rigs[0], id)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let before = state_of(&sites.copy());
    std::thread::sleep(Duration::from_millis(700));
    assert!(before == state_of(&sites.copy()), "a paused job writes");
}

/// The figures of the job are no larger than the set, however often it began.
#[track_caller]
fn assert_counted_once(job: &Value) {
    let most = [
        ("files", u64::from(FILES)),
        ("bytes", u64::from(FILES) * BYTES as u64),
    ];
    for (name, most) in most {
        for of in ["progress", "summary"] {
            let counted = job[of][name].as_u64().unwrap_or(0);
            assert!(counted <= most, "{of}.{name} is {counted}: {job}");
        }
    }
}

#[test]
fn a_kill_of_any_site_of_a_job_between_two_others_ends_once() {
    each(Sites::third);
}

#[test]
fn a_kill_of_any_site_of_a_push_ends_once() {
    each(Sites::push);
}

#[test]
fn a_kill_of_any_site_of_a_pull_ends_once() {
    each(Sites::pull);
}
