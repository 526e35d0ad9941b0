//! Tests jobs with several destinations: a parent follows its children, and a change of the parent changes them.
//! See `commands` for ordinary jobs.

mod support;

use godwit_state::{
    Change, CommandError, DESTINATIONS_MAX, Effect, FEATURE_LEVEL, FailureCode, Families, Job,
    JobAmounts, JobChange, JobDetails, JobFilter, JobOp, JobQueue, JobState, NewFamily, NewJob, Op,
    Outcome, Prune, Reason, Role, Secret, User,
};
use support::state::State;
use support::{at, claim, finish, job_command, new_job, nightly, place};

const PARENT: &str = "f0";

/// A parent with three children.
fn family() -> NewFamily {
    let child = |number: u8| {
        let mut new = new_job(&format!("f{number}"));
        new.destination = place("siteB", &format!("/archive/{number}"));
        new
    };
    let mut parent = new_job(PARENT);
    parent.destination = place("siteB", "/archive/1");
    parent.idempotency_key = Some("night".to_owned());
    NewFamily {
        parent,
        children: (1..=3).map(child).collect(),
    }
}

fn submit(new: NewFamily) -> Op {
    Op::SubmitFamily(Box::new(new))
}

/// A state with that family.
fn state() -> State {
    let mut state = State::new();
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("alone");
    state.op(1, submit(family())).expect("submitted");
    state
}

fn job(state: &State, id: &str) -> Job {
    state.reader.job(id).expect("read").expect("there")
}

fn change(state: &mut State, id: &str, op: JobOp) -> Result<Effect, CommandError> {
    state.apply(&job_command(10, id, op))
}

/// The children of a job, and those of them that are complete.
fn counts(state: &State, id: &str) -> Option<(u64, u64)> {
    let mut details = JobDetails(&state.reader).of([id]).expect("read");
    details.remove(id).expect("asked for").children
}

fn states(state: &State) -> [JobState; 4] {
    ["f0", "f1", "f2", "f3"].map(|id| job(state, id).state)
}

/// Claims a child and ends it.
fn end(state: &mut State, id: &str, outcome: Outcome) {
    let epoch = job(state, id).epoch;
    change(state, id, claim(epoch)).expect("claimed");
    change(state, id, finish(epoch + 1, outcome)).expect("ended");
}

#[test]
fn children_are_due_and_a_parent_never_is() {
    let mut state = state();
    let ids = |state: &State, now| -> Vec<String> {
        let due = JobQueue(&state.reader).due(at(now), 10, 10);
        due.expect("read").into_iter().map(|job| job.id).collect()
    };
    assert_eq!(ids(&state, 1), ["f1", "f2", "f3"]);
    assert_eq!(ids(&state, 1 << 40), ["f1", "f2", "f3"]);
    let change_of_label = JobOp::Change(JobChange {
        label: Some("night".to_owned()),
        ..JobChange::default()
    });
    change(&mut state, PARENT, change_of_label).expect("changed");
    assert_eq!(job(&state, "f2").label, "night");
    assert_eq!(ids(&state, 1), ["f1", "f2", "f3"]);
    let epoch = job(&state, PARENT).epoch;
    for op in [claim(epoch), JobOp::Expire] {
        change(&mut state, PARENT, op).expect_err("no node runs it");
    }
    let parent = Families(&state.reader).parent("f1").expect("read");
    assert_eq!(parent.as_deref(), Some(PARENT));
    let filter = JobFilter {
        parent: Some(PARENT.to_owned()),
        ..JobFilter::default()
    };
    let page = state.reader.jobs(&filter, None, 10).expect("read");
    assert_eq!(page.jobs.len(), 3);
}

#[test]
fn the_details_of_many_jobs_are_those_of_each() {
    let mut state = state();
    state
        .op(2, Op::Submit(Box::new(new_job("lone"))))
        .expect("submitted");
    end(&mut state, "f2", Outcome::Complete);
    let ids = [PARENT, "f1", "f2", "f3", "lone", "missing", "it's \"odd\""];
    let all = JobDetails(&state.reader).of(ids).expect("read");
    assert_eq!(all.len(), ids.len());
    for id in ids {
        let one = JobDetails(&state.reader).of([id]).expect("read");
        assert_eq!(one[id], all[id], "{id}");
        let parent = Families(&state.reader).parent(id).expect("read");
        assert_eq!(all[id].parent, parent, "{id}");
        let moved = JobAmounts(&state.reader).of(id).expect("read");
        assert_eq!(all[id].moved, moved, "{id}");
        let children = (id == PARENT).then_some((3, 1));
        assert_eq!(all[id].children, children, "{id}");
    }
    assert!(all["f2"].moved.files > 0 && all["f2"].moved == all["f2"].moved_before);
    let none = JobDetails(&state.reader).of([]).expect("read");
    assert!(none.is_empty());
}

#[test]
fn a_parent_is_complete_when_all_are() {
    let mut state = state();
    assert_eq!(job(&state, PARENT).state, JobState::Queued);
    change(&mut state, "f1", claim(0)).expect("claimed");
    let parent = job(&state, PARENT);
    assert_eq!((parent.state, parent.reason), (JobState::Scanning, None));
    assert_eq!(parent.started, Some(at(10)));
    change(&mut state, "f1", finish(1, Outcome::Complete)).expect("ended");
    assert_eq!(job(&state, PARENT).state, JobState::Queued);
    end(&mut state, "f2", Outcome::Complete);
    end(&mut state, "f3", Outcome::Complete);
    let parent = job(&state, PARENT);
    assert_eq!(
        (parent.state, parent.ended),
        (JobState::Complete, Some(at(10)))
    );
    assert_eq!(counts(&state, PARENT), Some((3, 3)));
    change(&mut state, PARENT, JobOp::Retry).expect_err("nothing is left");
}

#[test]
fn a_partial_parent_says_which_are_not_complete_and_retries_only_those() {
    use JobState::{Complete, Queued};
    let mut state = state();
    end(&mut state, "f1", Outcome::Complete);
    end(&mut state, "f2", Outcome::Failed);
    change(&mut state, "f3", JobOp::Cancel { comment: None }).expect("cancelled");
    let parent = job(&state, PARENT);
    assert_eq!(parent.state, JobState::Partial);
    let text = parent.reason.expect("a reason").text;
    assert!(
        text.starts_with("1 of 3 destinations are complete."),
        "{text}"
    );
    assert!(text.contains("job f2"), "{text}");
    // A viewer of the reason may not know the places.
    assert!(!text.contains("archive"), "{text}");
    let groups = state.reader.failures(PARENT).expect("read");
    let places: Vec<&String> = groups.iter().flat_map(|group| &group.examples).collect();
    assert_eq!(places, ["siteB:/archive/2", "siteB:/archive/3"]);
    change(&mut state, PARENT, JobOp::Retry).expect("again");
    assert_eq!(states(&state), [Queued, Complete, Queued, Queued]);
    assert!(state.reader.failures(PARENT).expect("read").is_empty());
    end(&mut state, "f2", Outcome::Complete);
    end(&mut state, "f3", Outcome::Complete);
    assert_eq!(job(&state, PARENT).state, Complete);
}

#[test]
fn a_gather_says_which_sources_are_not_complete_and_retries_only_those() {
    use JobState::{Complete, Partial, Queued};
    let mut state = State::new();
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("alone");
    let mut new = family();
    for (number, child) in (1..).zip(&mut new.children) {
        child.sources = vec![place(&format!("site{number}"), "/raw/.")];
        child.destination = place("here", &format!("/archive/site{number}/"));
    }
    new.parent.sources = new
        .children
        .iter()
        .flat_map(|c| c.sources.clone())
        .collect();
    new.parent.destination = place("here", "/archive");
    state.op(1, submit(new)).expect("submitted");
    assert!(Families(&state.reader).gathers(PARENT).expect("read"));
    end(&mut state, "f1", Outcome::Complete);
    end(&mut state, "f2", Outcome::Failed);
    end(&mut state, "f3", Outcome::Complete);
    let parent = job(&state, PARENT);
    let text = parent.reason.expect("a reason").text;
    let begin = "2 of 3 sources are complete. Source 2, job f2";
    assert!(text.starts_with(begin), "{text}");
    let groups = state.reader.failures(PARENT).expect("read");
    let places: Vec<&String> = groups.iter().flat_map(|group| &group.examples).collect();
    assert_eq!(places, ["site2:/raw/."]);
    assert_eq!(parent.state, Partial);
    change(&mut state, PARENT, JobOp::Retry).expect("again");
    assert_eq!(states(&state), [Queued, Complete, Queued, Complete]);
    end(&mut state, "f2", Outcome::Complete);
    let text = job(&state, PARENT).reason.expect("a reason").text;
    assert_eq!(text, "All 3 sources are complete.");
}

/// A state with a family whose sources are merged into one directory.
fn merged() -> State {
    let mut state = State::new();
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("alone");
    let mut new = family();
    for (number, child) in (1..).zip(&mut new.children) {
        child.sources = vec![place(&format!("site{number}"), "/raw/.")];
        child.destination = place("here", "/archive/");
    }
    new.parent.destination = place("here", "/archive/");
    state.op(1, submit(new)).expect("submitted");
    state
}

#[test]
fn children_with_one_destination_run_one_after_another() {
    let mut state = merged();
    change(&mut state, "f2", claim(0)).expect("claimed");
    for id in ["f1", "f3"] {
        let refused = change(&mut state, id, claim(0)).expect_err("f2 runs");
        assert!(
            matches!(refused, CommandError::Forbidden { .. }),
            "{refused}"
        );
    }
    change(&mut state, "f2", JobOp::Pause).expect("paused");
    change(&mut state, "f1", claim(0)).expect("f2 rests");
    change(&mut state, "f2", JobOp::Resume).expect("resumed");
    let epoch = job(&state, "f2").epoch;
    change(&mut state, "f2", claim(epoch)).expect_err("f1 runs");
    change(&mut state, "f1", finish(1, Outcome::Complete)).expect("ended");
    change(&mut state, "f2", claim(epoch)).expect("alone again");
}

#[test]
fn a_gather_is_no_family_with_several_destinations() {
    let state = state();
    assert!(!Families(&state.reader).gathers(PARENT).expect("read"));
    assert!(!Families(&state.reader).gathers("f1").expect("read"));
}

#[test]
fn a_change_of_a_parent_changes_the_children_that_allow_it() {
    use JobState::{Cancelled, Complete, Paused, Queued};
    let mut state = state();
    end(&mut state, "f1", Outcome::Complete);
    change(&mut state, "f3", JobOp::Pause).expect("alone");
    assert_eq!(states(&state), [Queued, Complete, Queued, Paused]);
    change(&mut state, PARENT, JobOp::Pause).expect("the rest");
    assert_eq!(states(&state), [Paused, Complete, Paused, Paused]);
    change(&mut state, PARENT, JobOp::Pause).expect_err("all are");
    let faster = JobOp::Change(JobChange {
        limit: Some(1_000),
        priority: Some(7),
        label: None,
    });
    change(&mut state, PARENT, faster).expect("changed");
    let limits = ["f0", "f1", "f2", "f3"].map(|id| job(&state, id).limit);
    assert_eq!(limits, [Some(1_000), None, Some(1_000), Some(1_000)]);
    change(&mut state, PARENT, JobOp::Resume).expect("resumed");
    assert_eq!(states(&state), [Queued, Complete, Queued, Queued]);
    change(&mut state, PARENT, JobOp::Cancel { comment: None }).expect("cancelled");
    let ended = [JobState::Partial, Complete, Cancelled, Cancelled];
    assert_eq!(states(&state), ended);
}

#[test]
fn a_family_is_added_whole_or_not_at_all() {
    let mut state = State::new();
    let below = state.op(0, submit(family())).expect_err("an old level");
    assert!(below.to_string().contains("cluster level"), "{below}");
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("alone");
    let mut one = family();
    one.children.truncate(1);
    let mut many = family();
    many.children = (1..=65).map(|n| new_job(&format!("f{n:03}"))).collect();
    let mut foreign = family();
    foreign.children[2].owner = "eve".to_owned();
    let mut long = family();
    for child in &mut long.children {
        child.spec = format!("\"{}\"", "x".repeat(100 << 10));
    }
    let mut unsorted = family();
    unsorted.children.reverse();
    let mut bad = family();
    bad.children[2].limit = Some(0);
    for new in [one, many, foreign, long, unsorted, bad] {
        state.op(1, submit(new)).expect_err("refused");
    }
    let all = state.reader.jobs(&JobFilter::default(), None, 10);
    assert!(all.expect("read").jobs.is_empty());
    state.op(2, submit(family())).expect("submitted");
    // The same submission again, and the same key of an ordinary job.
    let again = state.op(3, submit(family())).expect_err("a key");
    assert!(
        matches!(&again, CommandError::Duplicate { job, same: true } if job == PARENT),
        "{again}"
    );
}

#[test]
fn a_deadline_ends_the_children_and_so_the_parent() {
    let mut state = State::new();
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("alone");
    let mut new = family();
    for job in new.children.iter_mut().chain([&mut new.parent]) {
        job.deadline = Some(at(50));
    }
    state.op(1, submit(new)).expect("submitted");
    let expired = JobQueue(&state.reader).expired(at(50)).expect("read");
    let ids: Vec<&str> = expired.iter().map(|job| &*job.id).collect();
    assert_eq!(ids, ["f1", "f2", "f3"]);
    for id in ids {
        state
            .apply(&job_command(50, id, JobOp::Expire))
            .expect("expired");
    }
    let parent = job(&state, PARENT);
    assert_eq!(parent.state, JobState::Failed);
    let code = parent.reason.expect("a reason").code;
    assert_eq!(code.known(), Some(FailureCode::DeadlinePassed));
}

#[test]
fn history_keeps_the_children_of_a_parent_that_continues() {
    let mut state = state();
    let prune = |millis: i64| {
        Op::Prune(Prune {
            jobs_before: Some(at(millis)),
            ..Prune::default()
        })
    };
    end(&mut state, "f1", Outcome::Complete);
    state.op(1_000, prune(500)).expect("pruned");
    assert_eq!(job(&state, "f1").state, JobState::Complete);
    change(&mut state, PARENT, JobOp::Cancel { comment: None }).expect("cancelled");
    for _ in 0..2 {
        state.op(1_000, prune(500)).expect("pruned");
    }
    let all = state.reader.jobs(&JobFilter::default(), None, 10);
    assert!(all.expect("read").jobs.is_empty());
    assert_eq!(Families(&state.reader).parent("f1").expect("read"), None);
}

/// The rule, written once more.
fn expected(children: &[JobState]) -> JobState {
    use JobState::{Cancelled, Complete, Failed, Partial, Paused, Queued, Running, Scanning};
    for open in [Running, Scanning, Queued, Paused] {
        if children.contains(&open) {
            return open;
        }
    }
    let complete = children.iter().filter(|state| **state == Complete).count();
    match complete {
        _ if complete == children.len() => Complete,
        1.. => Partial,
        0 if children.contains(&Partial) => Partial,
        0 if children.contains(&Failed) => Failed,
        0 => Cancelled,
    }
}

#[test]
fn a_parent_follows_any_sequence_of_changes() {
    let mut random: u64 = 0x1234_5678_9abc_def1;
    let mut draw = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut state = state();
    let mut done = 0;
    for step in 0..600 {
        let id = format!("f{}", draw(4));
        let epoch = job(&state, &id).epoch;
        let op = match draw(9) {
            0 | 1 => claim(epoch),
            2 => JobOp::Report {
                epoch,
                state: JobState::Running,
                reason: None,
            },
            3 => finish(epoch, Outcome::Complete),
            4 => finish(
                epoch,
                [Outcome::Partial, Outcome::Failed][usize::from(draw(2) == 0)],
            ),
            5 => JobOp::Pause,
            6 => JobOp::Resume,
            7 => JobOp::Cancel { comment: None },
            _ => JobOp::Retry,
        };
        // A complete child stays complete; a new family continues.
        if states(&state)[1..]
            .iter()
            .all(|state| *state == JobState::Complete)
        {
            state = self::state();
        }
        let applied = state.apply(&job_command(step, &id, op));
        done += usize::from(applied.is_ok());
        let now = states(&state);
        assert_eq!(now[0], expected(&now[1..]), "step {step}: {now:?}");
        let parent = job(&state, PARENT);
        assert_eq!(parent.ended.is_some(), parent.state.ended());
        assert!(parent.runner.is_none());
    }
    assert!(done > 50, "{done} changes were made");
}

#[test]
fn an_owner_who_is_removed_leaves_no_parent_that_continues() {
    let mut state = state();
    let why = Reason::new(FailureCode::AccessDenied, "The owner is gone.");
    for id in ["f1", "f2", "f3"] {
        let deny = JobOp::Deny {
            seen: 0,
            reason: why.clone(),
        };
        change(&mut state, id, deny).expect("denied");
    }
    assert_eq!(job(&state, PARENT).state, JobState::Failed);
}

/// Deriving a parent reads all its children, so a command that ends many of them does it once. Each change of a parent has an epoch.
#[test]
fn each_parent_is_derived_once_when_its_owner_is_removed() {
    let mut state = State::new();
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("alone");
    let bob = User {
        name: "bob".to_owned(),
        role: Role::Operator,
        password: Some(Secret::new("hash")),
        disabled: false,
    };
    state.op(0, Op::User(Change::Put(bob))).expect("made");
    for family in 0..3 {
        let of_bob = |number: usize| NewJob {
            owner: "bob".to_owned(),
            ..new_job(&format!("p{family}{number:02}"))
        };
        let new = NewFamily {
            parent: of_bob(0),
            children: (1..=DESTINATIONS_MAX).map(of_bob).collect(),
        };
        state.op(1, submit(new)).expect("submitted");
    }
    let parents = ["p000", "p100", "p200"];
    let before = parents.map(|id| job(&state, id).epoch);
    let remove = Op::User(Change::Remove("bob".to_owned()));
    state.op(2, remove).expect("removed");
    for (id, before) in parents.into_iter().zip(before) {
        let parent = job(&state, id);
        assert_eq!(parent.state, JobState::Failed, "{id}");
        assert_eq!(parent.epoch, before + 1, "{id}");
    }
}

#[test]
fn a_tick_of_a_schedule_submits_a_family() {
    let mut state = State::new();
    state
        .op(0, Op::Schedule(Change::Create(nightly())))
        .expect("created");
    let NewFamily { parent, children } = family();
    let fired = Op::Fired {
        schedule: "nightly".to_owned(),
        tick: at(200),
        job: Some(Box::new(parent)),
        children,
        reason: None,
    };
    let below = state.op(1, fired.clone()).expect_err("an old level");
    assert!(below.to_string().contains("cluster level"), "{below}");
    state.op(2, Op::Level(FEATURE_LEVEL)).expect("alone");
    state.op(201, fired).expect("fired");
    assert_eq!(counts(&state, PARENT), Some((3, 0)));
    for id in [PARENT, "f1", "f3"] {
        assert_eq!(job(&state, id).schedule.as_deref(), Some("nightly"), "{id}");
    }
}
