//! `godwit schedule`: jobs that a node submits at times of the day.
//! Computes no time; the node does.

use clap::ArgMatches;
use godwit_api::rest::{NewSchedule, ScheduleView};
use godwit_client::{Client, Schedules};

use super::when::{Clock, time_zone};
use super::{choosing, optional, print_json, print_list, submit, text};
use crate::exit::{Exit, Failure};
use crate::output::{print, printable};

/// Runs one of the commands.
pub(super) fn run(sub: &str, matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let json = matches.get_flag("json");
    match sub {
        "list" => list(json, client)?,
        "remove" => {
            let id = text(matches, "id")?;
            Schedules::of(client).remove(&id)?;
            print(&format!("schedule {} removed", printable(&id)));
        }
        _ => {
            let schedule = match sub {
                "add" => add(matches, client)?,
                _ => switch(&text(matches, "id")?, sub == "disable", client)?,
            };
            match json {
                true => print_json(&schedule),
                false => print(&description(&schedule, &Clock::now())),
            }
        }
    }
    Ok(Exit::Complete)
}

fn add(matches: &ArgMatches, client: &Client) -> Result<ScheduleView, Failure> {
    let zone = optional(matches, "time-zone")?.or_else(time_zone);
    let schedule = NewSchedule {
        cron: text(matches, "cron")?,
        time_zone: zone.unwrap_or_default(),
        job: submit::describe(matches, choosing::read_lasting(matches)?)?,
        disabled: false,
        comment: optional(matches, "comment")?.unwrap_or_default(),
    };
    Ok(Schedules::of(client).put(&text(matches, "id")?, &schedule)?)
}

/// Disables or enables a schedule, and changes nothing else.
fn switch(id: &str, disabled: bool, client: &Client) -> Result<ScheduleView, Failure> {
    let found = Schedules::of(client).list()?;
    let found = found.into_iter().find(|schedule| schedule.id == id);
    let found = found.ok_or_else(|| {
        Failure::usage(format!(
            "there is no schedule {}; list the schedules with: godwit schedule list",
            printable(id)
        ))
    })?;
    let job = found.job.ok_or_else(|| {
        Failure::local(format!(
            "the job of the schedule {} cannot be read; add the schedule again",
            printable(id)
        ))
    })?;
    let schedule = NewSchedule {
        cron: found.cron,
        time_zone: found.time_zone,
        job,
        disabled,
        comment: found.comment,
    };
    Ok(Schedules::of(client).put(id, &schedule)?)
}

fn description(schedule: &ScheduleView, clock: &Clock) -> String {
    let name = printable(&schedule.id);
    match (schedule.disabled, schedule.next) {
        (true, _) => format!("the schedule {name} is disabled and submits no jobs"),
        (false, Some(next)) => format!(
            "the schedule {name} submits its next job at {}",
            clock.show(next)
        ),
        (false, None) => format!("the schedule {name} has no next time, so it submits no job"),
    }
}

fn list(json: bool, client: &Client) -> Result<(), Failure> {
    let schedules = Schedules::of(client).list()?;
    let clock = Clock::now();
    let none = "there are no schedules; godwit schedule add makes one";
    let head = ["NAME", "OWNER", "WHEN", "NEXT", "FROM -> TO", "LAST TIME"];
    print_list(json, &schedules, none, &head, |schedule| {
        let next = match (schedule.disabled, schedule.next) {
            (true, _) => "disabled".to_owned(),
            (false, next) => next.map_or_else(|| "never".to_owned(), |next| clock.show(next)),
        };
        let job = match &schedule.job {
            Some(job) => {
                let to = [&job.destination].into_iter().chain(&job.more_destinations);
                let to: Vec<&str> = to.map(String::as_str).collect();
                format!("{} -> {}", job.sources.join(" "), to.join(" "))
            }
            None => "cannot be read".to_owned(),
        };
        let reason = schedule.reason.as_ref();
        vec![
            printable(&schedule.id),
            printable(&schedule.owner),
            printable(&format!("{} {}", schedule.cron, schedule.time_zone)),
            next,
            printable(&job),
            reason.map_or_else(String::new, |reason| printable(&reason.text)),
        ]
    });
    Ok(())
}
