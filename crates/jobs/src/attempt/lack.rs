//! The message for a job whose destination is full: the room that it needs, and the free room there.
//! Decides nothing, and watches no room (`space`).

use std::time::Duration;

use godwit_api::ask::{Answer, Question};
use godwit_api::failure::FailureCode;
use godwit_api::units::{counted, human_size};
use godwit_state::{Job, Reason};

use super::Shortage;
use super::events::Observed;
use crate::asking::{Asking, reached};
use crate::basis::documents;
use crate::basis::owners::asker_of;
use crate::basis::stored::Stored;
use crate::basis::words::clip;

/// How long another site may take to report its free room.
const WITHIN: Duration = Duration::from_secs(4);

/// The reason of a job that cannot fit.
pub(super) fn reason(
    asking: &Asking,
    job: &Job,
    observed: &Observed,
    shortage: Option<&Shortage>,
) -> Reason {
    let place = documents::place(&job.destination);
    let free = |bytes: u64| format!("{} are free there", human_size(bytes));
    let what = match (shortage, observed.lacking()) {
        (Some(short), _) => {
            let needed = human_size(short.needed);
            format!(
                "the job needs up to {needed} more, and {}",
                free(short.free)
            )
        }
        (None, lacking) => {
            let found = counted(observed.failed_with(FailureCode::NoSpace), "entry");
            let full = || format!("{found} reported full storage or an exceeded quota");
            let needs = lacking.unwrap_or_else(full);
            match free_there(asking, job) {
                Some(bytes) => format!("{needs}, and {}", free(bytes)),
                None => needs,
            }
        }
    };
    let text =
        format!("{place} has no room: {what}. The job resumes by itself once space is free.");
    Reason::new(FailureCode::NoSpace, clip(&text))
}

/// Free bytes in the export of a destination at another site, by that site's answer.
pub(super) fn free_there(asking: &Asking, job: &Job) -> Option<u64> {
    // A job for another node uses the rights of that node, which cover only the transfer.
    if asker_of(job).is_some() {
        return None;
    }
    let reader = asking.this.reader();
    let stored = Stored::of(&reader, &job.id).ok()?;
    let site = stored.site(&reader, &job.destination.site).ok()??;
    let path = job.destination.path.trim_start_matches('/');
    let export = path.split('/').next().unwrap_or(path);
    let peer = reached::peer(&site);
    match reached::ask(asking, &peer, &Question::Exports {}, WITHIN, &|| true) {
        Ok(Answer::Exports(rooms)) => {
            let mut rooms = rooms.into_iter();
            rooms.find(|room| room.name == export)?.bytes_free
        }
        _ => None,
    }
}
