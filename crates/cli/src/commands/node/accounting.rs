//! `godwit accounting`: the transfers that the node of this machine has recorded.
//! Reads the files in the home; no node needs to run.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use clap::ArgMatches;
use godwit_api::record::TransferRecord;
use godwit_api::rest::Timestamp;
use godwit_api::units::{human_rate, human_size};

use super::when::Clock;
use super::{optional, table};
use crate::exit::{Exit, Failure};
use crate::home;
use crate::output::{complain, print, print_data, printable};
use godwit_node::accounting;

/// Runs the command.
pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let clock = Clock::now();
    let time = |option: &str| {
        let text = optional(matches, option)?;
        text.map(|text| clock.parse_past(&format!("--{option}"), &text))
            .transpose()
    };
    let (since, until) = (time("since")?, time("until")?);
    let home = home::find()?;
    let directory = accounting::directory(home.path());
    let files = match accounting::files(&directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        files => {
            files.map_err(|error| Failure::local(format!("{}: {error}", directory.display())))?
        }
    };
    let json = matches.get_flag("json");
    let (mut rows, mut unreadable) = (Vec::new(), 0_u64);
    for path in files {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let outside = since.is_some_and(|since| name < accounting::name_at(since))
            || until.is_some_and(|until| name > accounting::name_at(until));
        if outside {
            continue;
        }
        let failed = |error| Failure::local(format!("{}: {error}", path.display()));
        for line in BufReader::new(File::open(&path).map_err(failed)?).lines() {
            let line = line.map_err(failed)?;
            let Ok(record) = serde_json::from_str::<TransferRecord>(&line) else {
                unreadable += u64::from(!line.is_empty());
                continue;
            };
            if !is_between(record.ended, since, until) {
                continue;
            }
            match json {
                true => print_data(&line),
                false => rows.push(row(&record, &clock)),
            }
        }
    }
    if unreadable > 0 {
        complain(&format!(
            "{}: {unreadable} lines are damaged and were skipped; a crash may have cut them off",
            directory.display()
        ));
    }
    if !json && rows.is_empty() {
        print(&format!(
            "no transfers are recorded in {}",
            directory.display()
        ));
    } else if !json {
        let head = [
            "ENDED", "WHO", "WAY", "PLACES", "FILES", "BYTES", "SECONDS", "RATE", "CIPHER", "END",
        ];
        print(&table::plain(&head, &rows));
    }
    Ok(Exit::Complete)
}

fn is_between(time: Timestamp, since: Option<Timestamp>, until: Option<Timestamp>) -> bool {
    since.is_none_or(|since| time >= since) && until.is_none_or(|until| time < until)
}

fn row(record: &TransferRecord, clock: &Clock) -> Vec<String> {
    let start = &record.start;
    let who = start.owner.as_ref().or(start.identity.as_ref());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and no rate is negative"
    )]
    let rate = record.bytes_per_second as u64;
    // The library is in the record alone.
    let cipher = start
        .encryption
        .as_ref()
        .map(|reported| match reported.plain_contents {
            true => format!("{}, contents plain", reported.cipher),
            false => reported.cipher.clone(),
        });
    vec![
        clock.show(record.ended),
        printable(who.map_or("", String::as_str)),
        start.direction.name().to_owned(),
        printable(&start.places.join(" ")),
        record.files.to_string(),
        human_size(record.bytes),
        format!("{:.1}", record.seconds()),
        human_rate(rate),
        printable(&cipher.unwrap_or_default()),
        record.code.to_string(),
    ]
}
