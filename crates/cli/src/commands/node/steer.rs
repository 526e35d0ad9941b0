//! The commands that change jobs: pause, resume, cancel, retry, limit, priority, label.
//! The node decides whether a change is allowed.

use clap::ArgMatches;
use godwit_api::rest::{CancelJob, ChangeJob, JobView};
use godwit_client::{Client, ClientError, Steer};

use super::when::Clock;
use super::{optional, print_json, submit, text, texts, words};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print, printable};

/// Runs one of the commands.
pub(super) fn run(verb: &str, matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let change = match verb {
        "limit" => Some(ChangeJob {
            limit: Some(submit::limit(&text(matches, "rate")?)?),
            ..ChangeJob::default()
        }),
        "priority" => Some(ChangeJob {
            priority: submit::number(matches, "priority")?,
            ..ChangeJob::default()
        }),
        "label" => Some(ChangeJob {
            label: Some(text(matches, "label")?),
            ..ChangeJob::default()
        }),
        _ => None,
    };
    let why = match verb {
        "cancel" => CancelJob {
            comment: optional(matches, "comment")?,
        },
        _ => CancelJob::default(),
    };
    let jobs = client.jobs();
    let apply = |id: &str| -> Result<JobView, ClientError> {
        let id = jobs.find(id)?.id;
        match (verb, &change) {
            ("pause", _) => jobs.steer(&id, Steer::Pause),
            ("resume", _) => jobs.steer(&id, Steer::Resume),
            ("retry", _) => jobs.steer(&id, Steer::Retry),
            ("cancel", _) => jobs.cancel(&id, &why),
            (_, Some(change)) => jobs.change(&id, change),
            (other, None) => Err(ClientError::Setup(format!("{other} is not a command"))),
        }
    };
    let ids = texts(matches, "id")?;
    // The failure of one job does not stop the others.
    let mut exit = Exit::Complete;
    let mut last = None;
    for id in &ids {
        match apply(id) {
            Ok(job) if matches.get_flag("json") => print_json(&job),
            Ok(job) => print(&confirmation(verb, &job)),
            Err(error) => {
                let failure = Failure::from(error);
                if let Some(earlier) = last.replace(failure) {
                    complain_of(&earlier);
                }
                exit = Exit::Failed;
            }
        }
    }
    match last {
        Some(failure) => Err(failure),
        None => Ok(exit),
    }
}

fn complain_of(failure: &Failure) {
    complain(&failure.message);
}

/// The message about a changed job.
fn confirmation(verb: &str, job: &JobView) -> String {
    let state = words::state(job.state);
    let id = printable(&job.id);
    match verb {
        "limit" => match job.limit {
            Some(limit) => format!(
                "{id} {state}, limit {}",
                godwit_api::units::human_rate(limit)
            ),
            None => format!("{id} {state}, no limit"),
        },
        "priority" => format!("{id} {state}, priority {}", job.priority),
        "label" => format!("{id} {state}, label {}", printable(&job.label)),
        _ => match words::why(job, &Clock::now()) {
            Some(why) => format!("{id} {state}: {why}"),
            None => format!("{id} {state}"),
        },
    }
}
