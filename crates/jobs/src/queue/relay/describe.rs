//! Owns the descriptions of relays and of their rounds, and the sentences of destinations that wait for them.
//! Submits none, and reads no state.

use std::collections::BTreeMap;

use godwit_api::failure::FailureCode;
use godwit_api::job::{JobKind, Selection, Text};
use godwit_api::rest::{Divide, Merge, NewJob, Place, Relay};
use godwit_state::{Job, JobState};

use crate::basis::relay::{self, CARRIED, RETRY_FOR};
use crate::basis::whole;
use crate::basis::words::clip;

/// The description of a relay: the contents of one directory go into the other one. Its first failure ends it, because the source is next.
pub(super) fn describe(taker: &Job, of: &NewJob, (from, to): (&Place, &Place)) -> NewJob {
    let carried = of.settings.iter();
    let carried = carried.filter(|(name, _)| CARRIED.contains(&name.as_str()));
    let mut settings: BTreeMap<String, Vec<Text>> = carried
        .map(|(name, values)| (name.clone(), values.clone()))
        .collect();
    // A file that has the size and time of the right one, and other contents, would look like wrong data from the giver.
    settings.insert("checksum".to_owned(), vec![Text::from("true")]);
    settings.insert("retry-for".to_owned(), vec![Text::from(RETRY_FOR)]);
    let from = Place {
        directory: true,
        contents: true,
        ..from.clone()
    };
    let to = Place {
        directory: true,
        ..to.clone()
    };
    NewJob {
        kind: JobKind::Copy,
        sources: vec![from.to_string()],
        destination: to.to_string(),
        more_destinations: Vec::new(),
        gather: false,
        merge: Merge::BySite,
        label: clip(format!("{} (relay to job {})", taker.label, taker.id).trim()),
        settings,
        selection: None,
        list: Vec::new(),
        manifest: false,
        divide: Divide::Never,
        relay: Relay::Never,
        remove_source_after: None,
        priority: taker.priority,
        limit: taker.limit,
        not_before: None,
        deadline: taker.deadline,
        retries_max: Some(0),
    }
}

/// The description of a round, by that of a relay. It brings the files that are whole, and compares none that are there: the relay of the
/// complete copy does so.
pub(super) fn of_round(relay: NewJob, taker: &Job, number: u32) -> NewJob {
    let mut settings = relay.settings;
    settings.remove("checksum");
    let selection = Selection {
        rules: vec![whole::without_unfinished()],
        ..Selection::default()
    };
    NewJob {
        label: clip(format!("{} (round {number} to job {})", taker.label, taker.id).trim()),
        settings,
        selection: Some(selection),
        ..relay
    }
}

/// Where the data of a waiting destination comes from, with the relay or the round that brings it.
pub(super) fn explanation_of(giver: &Job, relay: &Job, is_round: bool) -> String {
    let first = match is_round {
        false => format!(
            "The data comes from {}, by job {}",
            relay::words(giver),
            relay.id
        ),
        true => format!(
            "{} Files that are whole there come by job {}",
            waits_for(giver),
            relay.id
        ),
    };
    let why = relay.reason.as_ref();
    match why.filter(|why| why.code == FailureCode::NoSpace) {
        _ if relay.state == JobState::Paused => {
            let otherwise = match is_round {
                false => "use the source",
                true => "wait for the next one",
            };
            format!("{first}, which is paused: resume that job, or cancel it to {otherwise}.")
        }
        Some(why) if !relay.state.ended() => {
            format!("{first}, which waits for room. {}", why.text)
        }
        _ => format!("{first}."),
    }
}

/// The text of a destination that waits until another one has the data.
pub(super) fn waits_for(giver: &Job) -> String {
    format!(
        "The destination waits for its relay from {} (job {}).",
        giver.destination.site, giver.id
    )
}
