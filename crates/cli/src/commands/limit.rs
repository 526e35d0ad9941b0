//! `godwit limit`: lists the transfers of this user that run here, and changes their limits.
//! Starts nothing; the transfers themselves apply the limits.

use clap::ArgMatches;
use godwit_api::settings::{Scope, Setting, Value, parse_value};
use godwit_api::units::{human_rate, human_size};
use std::ffi::OsString;

use crate::exit::{Exit, Failure, FailureCode};
use crate::home::Home;
use crate::output::{print, print_data, printable};
use crate::running::{self, Found, TransferStatus};

/// Lists the transfers, or sets a limit.
pub(super) fn run(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let json = matches.get_flag("json");
    let words: Vec<String> = matches
        .get_many::<OsString>("words")
        .into_iter()
        .flatten()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let found = running::find(home)?;
    match words.as_slice() {
        [] => {
            if found.is_empty() && !json {
                print("no transfer runs");
            }
            for one in &found {
                show(&one.running, json);
            }
        }
        [rate] => {
            let limit = parse(rate)?;
            match found.as_slice() {
                [] => {
                    return Err(Failure::new(
                        FailureCode::NoSuchTransfer,
                        "no transfer of this user runs here",
                    ));
                }
                [one] => set(home, one, limit, json)?,
                _ => {
                    return Err(Failure::usage(
                        "several transfers run: name one with godwit limit TRANSFER RATE; godwit limit lists them",
                    ));
                }
            }
        }
        [name, rate] => {
            let limit = parse(rate)?;
            set(home, pick(&found, name)?, limit, json)?;
        }
        _ => return Err(Failure::usage("godwit limit [TRANSFER] RATE")),
    }
    Ok(Exit::Complete)
}

fn parse(rate: &str) -> Result<u64, Failure> {
    let setting = Setting::find(Scope::Cp, "limit")
        .ok_or_else(|| Failure::usage("there is no such setting"))?;
    match parse_value(setting, &[rate.into()]) {
        Ok(Value::Rate(limit)) => Ok(limit),
        Ok(_) => Err(Failure::usage(format!("{rate}: not a rate"))),
        Err(error) => Err(Failure::usage(format!("{rate}: {error}"))),
    }
}

/// Picks a transfer by `name`: the beginning of its id, the number of its process, or its destination.
fn pick<'a>(found: &'a [Found], name: &str) -> Result<&'a Found, Failure> {
    let mut fitting = found.iter().filter(|one| {
        let TransferStatus {
            transfer,
            pid,
            destination,
            ..
        } = &one.running;
        transfer.starts_with(name) || pid.to_string() == name || destination == name
    });
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Failure::new(
            FailureCode::NoSuchTransfer,
            format!(
                "{}: this user runs no transfer of this name here; godwit limit lists the transfers",
                printable(name)
            ),
        )),
        (Some(_), Some(_)) => Err(Failure::usage(format!(
            "{}: the names of several transfers begin like this; write more digits",
            printable(name)
        ))),
    }
}

fn set(home: &Home, found: &Found, limit: u64, json: bool) -> Result<(), Failure> {
    show(&running::set_limit(home, found, limit)?, json);
    Ok(())
}

fn show(running: &TransferStatus, json: bool) {
    if json {
        // Plain fields always become JSON.
        print_data(&serde_json::to_string(running).unwrap_or_default());
        return;
    }
    let limit = match running.limit {
        Some(0) => "no limit".to_owned(),
        Some(limit) => format!("at most {}", human_rate(limit)),
        None => "limit not known yet".to_owned(),
    };
    let lost = match running.lost_seconds {
        Some(seconds) if running.silent => format!("  no answer for {seconds:.0} s"),
        Some(seconds) => format!("  connection lost for {seconds:.0} s, retrying"),
        None => String::new(),
    };
    let short: String = running.transfer.chars().take(8).collect();
    print(&format!(
        "{short}  process {}  {limit}{lost}  {} of {} to {}",
        running.pid,
        human_size(running.bytes),
        printable(&running.sources.join(", ")),
        printable(&running.destination)
    ));
}
