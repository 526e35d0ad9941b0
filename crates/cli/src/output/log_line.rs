//! Events of a job on another machine, as lines of a log.
//! Prints nothing.

use godwit_api::event::{Event, Summary};
use godwit_api::units::{counted, human_size};

use super::connection;
use super::plain::PlainLines;
use super::summary::dry_run;
use godwit_api::shown::printable;

/// The event as one line for people; None for events that are only for programs.
pub(crate) fn line_of(event: &Event) -> Option<String> {
    let line = match event {
        Event::Started(started) => PlainLines.started(started),
        Event::Progress(progress) => PlainLines.progress(progress),
        Event::Tuning(tuning) => bare(&PlainLines.tuning(tuning)),
        Event::ConnectionLost(lost) => bare(&connection::lost(lost)),
        Event::ConnectionRegained(regained) => bare(&connection::regained(regained)),
        Event::Failed(failed) => bare(&PlainLines.failed(&failed.path, &failed.message)),
        Event::Item(item) => PlainLines.item(item),
        Event::Paused {} => "paused".to_owned(),
        Event::Note { message } => printable(message),
        Event::Error(error) => format!("error: {}", printable(&error.message)),
        Event::Different(different) => PlainLines.different(different),
        Event::Extra { path } => PlainLines.extra(path),
        Event::Summary(Summary::Transfer(summary)) if summary.dry_run => {
            format!("ended {}", dry_run(summary))
        }
        Event::Summary(Summary::Transfer(summary)) => {
            let bytes = summary
                .bytes
                .map_or_else(String::new, |bytes| format!(" and {}", human_size(bytes)));
            format!(
                "ended {}: {}{bytes}, {} failed",
                summary.status.name(),
                counted(summary.files, "file"),
                summary.failed
            )
        }
        Event::Summary(Summary::Verify(summary)) => format!(
            "ended {}: {}, {} different",
            summary.status.name(),
            counted(summary.entries, "entry"),
            summary.different
        ),
        Event::Channels(_)
        | Event::Fault(_)
        | Event::Entry { .. }
        | Event::Ended {}
        | Event::Stats(_)
        | Event::WorkDone(_)
        | Event::WorkFailed(_)
        | Event::Unknown => return None,
    };
    Some(line)
}

/// A line without the name of the program, which belongs to messages of this program.
fn bare(line: &str) -> String {
    line.strip_prefix("godwit: ").unwrap_or(line).to_owned()
}
