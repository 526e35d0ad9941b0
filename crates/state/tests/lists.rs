//! Tests lists of 10,000 jobs: compares each filter with a simple scan of all jobs, page by page. Prints
//! how long pages take, but does not check it, so that a loaded machine fails no test.

mod support;

use std::time::Instant;

use godwit_state::{
    ById, Change, Cursor, Finish, Job, JobFilter, JobOp, JobQueue, JobState, Kept, Op, Outcome,
    Position, Reader, Role, Store, User,
};
use support::state::State;
use support::{at, claim, command, finish, job_command, new_job};

const HISTORY: i64 = 10_000;
const QUEUED: i64 = 1_000;
const RUNNING: i64 = 50;

/// A state with many jobs, a few of which have a rare owner or site.
fn many(store: &mut Store) {
    let mut commands = Vec::new();
    for number in 0..HISTORY + QUEUED + RUNNING {
        // Two jobs have the same time.
        let millis = number / 2;
        let id = format!("job{number:06}");
        let mut job = new_job(&id);
        job.owner = format!("owner{}", number % 7);
        if number % 1_000 == 999 {
            job.owner = "rare".to_owned();
            job.destination.site = "siteRare".to_owned();
        }
        if number % 1_000 == 500 {
            job.owner = "site:gw1-x".to_owned();
        }
        job.label = format!("night-{}", number % 400);
        job.priority = i32::try_from(number % 3).expect("small");
        if number >= HISTORY && number % 10 == 0 {
            job.not_before = Some(at(1_000_000 + number));
        }
        commands.push(command(millis, Op::Submit(Box::new(job))));
        if number < HISTORY {
            let outcome = match number % 50 {
                0 => Outcome::Failed,
                1 => Outcome::Partial,
                _ => Outcome::Complete,
            };
            commands.push(job_command(millis + 1, &id, claim(0)));
            commands.push(job_command(millis + 2, &id, finish(1, outcome)));
        } else if number >= HISTORY + QUEUED {
            commands.push(job_command(millis + 1, &id, claim(0)));
            let state = JobState::Running;
            let report = JobOp::Report {
                epoch: 1,
                state,
                reason: None,
            };
            commands.push(job_command(millis + 2, &id, report));
        }
    }
    let mut batch = store.batch().expect("batch");
    for (index, command) in (1_u64..).zip(&commands) {
        batch
            .apply(index, command)
            .expect("apply")
            .expect("accepted");
    }
    let index = commands.len() as u64;
    batch
        .mark(&Position {
            index,
            ..Position::default()
        })
        .expect("mark");
    batch.commit().expect("commit");
}

fn passes(job: &Job, filter: &JobFilter) -> bool {
    (filter.states.is_empty() || filter.states.contains(&job.state))
        && filter
            .id_prefix
            .as_ref()
            .is_none_or(|prefix| job.id.starts_with(prefix))
        && filter
            .owner
            .as_ref()
            .is_none_or(|owner| *owner == job.owner)
        && (!filter.of_users || !job.owner.starts_with("site:"))
        && filter
            .label
            .as_ref()
            .is_none_or(|part| job.label.contains(part))
        && filter.site.as_ref().is_none_or(|site| {
            job.destination.site == *site || job.sources.iter().any(|source| source.site == *site)
        })
        && filter.since.is_none_or(|since| job.created >= since)
        && filter.until.is_none_or(|until| job.created < until)
}

#[test]
fn each_filter_lists_what_a_plain_look_finds() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = Store::open(&directory.path().join("state.db")).expect("open");
    many(&mut store);
    let reader = Reader::new(store.file().to_owned());
    let mut all = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let page = reader
            .jobs(&JobFilter::default(), cursor.as_ref(), 1_000)
            .expect("a page");
        all.extend(page.jobs);
        // A cursor is converted to text and back, as in the API.
        let Some(next) = page.next else { break };
        cursor = Some(next.to_string().parse().expect("a cursor"));
    }
    assert_eq!(all.len() as i64, HISTORY + QUEUED + RUNNING);
    assert!(
        all.windows(2)
            .all(|pair| (pair[0].created, &pair[0].id) > (pair[1].created, &pair[1].id))
    );
    let states = |states: &[JobState]| JobFilter {
        states: states.to_vec(),
        ..JobFilter::default()
    };
    let text = |text: &str| Some(text.to_owned());
    let none = JobFilter::default;
    let filters = [
        ("all", none()),
        ("queued", states(&[JobState::Queued])),
        (
            "open",
            states(&[JobState::Queued, JobState::Running, JobState::Scheduled]),
        ),
        (
            "failed or partial",
            states(&[JobState::Failed, JobState::Partial]),
        ),
        ("paused: none", states(&[JobState::Paused])),
        (
            "owner",
            JobFilter {
                owner: text("owner3"),
                ..none()
            },
        ),
        (
            "id",
            JobFilter {
                id_prefix: text("job00012"),
                ..none()
            },
        ),
        (
            "id: none",
            JobFilter {
                id_prefix: text("job0001234"),
                ..none()
            },
        ),
        (
            "id, owner and state",
            JobFilter {
                id_prefix: text("job00"),
                owner: text("owner3"),
                ..states(&[JobState::Failed, JobState::Complete])
            },
        ),
        (
            "rare owner",
            JobFilter {
                owner: text("rare"),
                ..none()
            },
        ),
        (
            "rare owner, complete",
            JobFilter {
                owner: text("rare"),
                ..states(&[JobState::Complete])
            },
        ),
        (
            "site",
            JobFilter {
                site: text("siteA"),
                ..none()
            },
        ),
        (
            "rare site, failed or complete",
            JobFilter {
                site: text("siteRare"),
                ..states(&[JobState::Failed, JobState::Complete])
            },
        ),
        (
            "label",
            JobFilter {
                label: text("night-39"),
                ..none()
            },
        ),
        (
            "label: none",
            JobFilter {
                label: text("nowhere"),
                ..none()
            },
        ),
        (
            "time",
            JobFilter {
                since: Some(at(100)),
                until: Some(at(200)),
                ..none()
            },
        ),
        (
            "all together",
            JobFilter {
                owner: text("owner1"),
                site: text("siteB"),
                label: text("night"),
                since: Some(at(50)),
                until: Some(at(5_000)),
                ..states(&[JobState::Complete, JobState::Failed])
            },
        ),
        (
            "of users, by label",
            JobFilter {
                of_users: true,
                label: text("night-1"),
                ..none()
            },
        ),
        (
            "of users, in a state, in pages of few bytes",
            JobFilter {
                of_users: true,
                bytes_max: Some(200),
                ..states(&[JobState::Running])
            },
        ),
    ];
    for (name, filter) in filters {
        let expected: Vec<&Job> = all.iter().filter(|job| passes(job, &filter)).collect();
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let page = reader.jobs(&filter, cursor.as_ref(), 37).expect("a page");
            assert!(filter.bytes_max.is_none() || page.jobs.len() < 20, "{name}");
            found.extend(page.jobs);
            let Some(next) = page.next else { break };
            cursor = Some(next);
        }
        assert!(found.iter().eq(expected), "{name}");
        let mut times: Vec<_> = (0..51)
            .map(|_| {
                let began = Instant::now();
                reader.jobs(&filter, None, 50).expect("a page");
                began.elapsed()
            })
            .collect();
        times.sort();
        println!(
            "page of 50, {name}: median {:?}, longest {:?}",
            times[25], times[50]
        );
    }
    let timed = |name: &str, query: &dyn Fn()| {
        let began = Instant::now();
        (0..50).for_each(|_| query());
        println!("{name}: {:?}", began.elapsed() / 50);
    };
    timed("counts", &|| drop(reader.job_counts(None)));
    timed("waiting", &|| drop(Kept(&reader).waiting("owner1")));
    timed("due, 8 of each owner", &|| {
        drop(JobQueue(&reader).due(at(10), 8, 100))
    });
    timed("next due", &|| drop(JobQueue(&reader).next_due(at(10))));
    timed("running", &|| drop(JobQueue(&reader).running()));

    let counts = reader.job_counts(None).expect("counts");
    let scheduled = (JobState::Scheduled, 100);
    assert!(counts.contains(&scheduled) && counts.contains(&(JobState::Running, 50)));
    for owner in ["owner1", "rare", "unknown"] {
        let of_owner = all.iter().filter(|job| job.owner == owner);
        let waiting = of_owner.filter(|job| !job.state.ended() && !job.state.moves());
        let counted = Kept(&reader).waiting(owner).expect("a count");
        assert_eq!(counted, waiting.count() as u64, "{owner}");
    }
    let due = JobQueue(&reader).due(at(10), 8, 100).expect("due");
    assert_eq!(
        due.len(),
        7 * 8 + 1,
        "eight of each of seven owners, and one of the rare one"
    );
    assert!(due.iter().all(|job| job.state == JobState::Queued));
    assert!(due.windows(2).all(|pair| {
        (-pair[0].priority, pair[0].created, &pair[0].id)
            < (-pair[1].priority, pair[1].created, &pair[1].id)
    }));
    assert_eq!(
        JobQueue(&reader).next_due(at(10)).expect("next"),
        Some(at(1_000_000 + HISTORY))
    );
    assert_eq!(JobQueue(&reader).running().expect("running").len(), 50);
}

#[test]
fn a_job_at_another_site_is_noticed() {
    let mut state = State::new();
    let mut submit = |id: &str, from: &str, to: &str| {
        let mut job = new_job(id);
        job.sources.truncate(1);
        from.clone_into(&mut job.sources[0].site);
        to.clone_into(&mut job.destination.site);
        state.op(1, Op::Submit(Box::new(job))).expect("submitted");
        ["here", "siteA"].map(|site| JobQueue(&state.reader).any_beyond(site).expect("a look"))
    };
    assert_eq!(submit("a", "here", "here"), [false, true]);
    assert_eq!(submit("b", "here", "siteA"), [true, true]);
}

#[test]
fn a_page_ends_by_the_bytes_of_summaries() {
    let mut state = State::new();
    let summary = format!("{{\"words\":\"{}\"}}", "x".repeat(50 << 10));
    for id in ["a", "b", "c"] {
        let submit = Op::Submit(Box::new(new_job(id)));
        state.op(1, submit).expect("submitted");
        state.apply(&job_command(2, id, claim(0))).expect("claimed");
        let JobOp::Finish(end) = finish(1, Outcome::Complete) else {
            unreachable!("a job ends so");
        };
        let end = JobOp::Finish(Box::new(Finish {
            summary: summary.clone(),
            ..*end
        }));
        state.apply(&job_command(3, id, end)).expect("ended");
    }
    let filter = JobFilter {
        bytes_max: Some(120 << 10),
        ..JobFilter::default()
    };
    let page = |cursor: Option<&Cursor>| state.reader.jobs(&filter, cursor, 100).expect("a page");
    let first = page(None);
    assert_eq!(first.jobs.len(), 2);
    let second = page(first.next.as_ref());
    assert_eq!((second.jobs.len(), second.next), (1, None));
}

#[test]
fn a_page_ends_by_the_bytes_of_reasons() {
    let mut state = State::new();
    for number in 0..40 {
        let id = format!("job{number}");
        let submit = Op::Submit(Box::new(new_job(&id)));
        state.op(1, submit).expect("submitted");
        state
            .apply(&job_command(2, &id, claim(0)))
            .expect("claimed");
        let JobOp::Finish(mut end) = finish(1, Outcome::Failed) else {
            unreachable!("a job ends so");
        };
        if let Some(reason) = &mut end.reason {
            reason.text = "x".repeat(4_000);
        }
        let end = JobOp::Finish(end);
        state.apply(&job_command(3, &id, end)).expect("ended");
    }
    let filter = JobFilter {
        bytes_max: Some(100_000),
        ..JobFilter::default()
    };
    let page = |cursor: Option<&Cursor>| state.reader.jobs(&filter, cursor, 100).expect("a page");
    let first = page(None);
    assert!((20..25).contains(&first.jobs.len()), "{}", first.jobs.len());
    let second = page(first.next.as_ref());
    assert_eq!(
        (second.jobs.len() + first.jobs.len(), second.next),
        (40, None)
    );
}

#[test]
fn objects_are_found_by_how_their_ids_begin() {
    let mut state = State::new();
    for id in ["job:a:1:x", "job:a:1:y", "job:a:10:x", "job:b:1:x", "z"] {
        let user = User {
            name: id.replace(':', "-"),
            role: Role::Viewer,
            password: None,
            disabled: false,
        };
        state.op(1, Op::User(Change::Create(user))).expect("made");
    }
    let reader = ById(&state.reader);
    let below = |prefix: &str| -> Vec<String> {
        let found = reader.below::<User>(prefix).expect("read");
        assert_eq!(
            reader.count_below::<User>(prefix).expect("read"),
            found.len() as u64
        );
        found.into_iter().map(|user| user.name).collect()
    };
    assert_eq!(below("job-a-1-"), ["job-a-1-x", "job-a-1-y"]);
    assert_eq!(below("job-a-").len(), 3);
    assert!(below("job-c").is_empty());
    let after = reader.after::<User>("job-a-1-x", 1).expect("read");
    assert_eq!(after.len(), 1, "one in any case");
    assert_eq!(after[0].name, "job-a-1-y");
}
