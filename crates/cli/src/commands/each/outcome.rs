//! The end of a command with several destinations: which are complete, which are not and why, and the exit code.
//! The summaries of the single destinations come before.

use godwit_api::event::{Status, Summary};
use godwit_api::units::{counted, human_size};
use godwit_run::{PageFigures, ReadFigures};
use serde_json::json;

use crate::commands::exit_of;
use crate::exit::{Exit, Failure};
use crate::output::{print, print_data, printable};

/// The end of the transfer to one destination.
pub(super) struct Done {
    exit: Exit,
    status: Status,
    /// Bytes delivered by this run.
    bytes: u64,
    failed: u64,
    /// Why it has failed as a whole.
    why: Option<String>,
}

impl Done {
    /// The end of a run. `full` is the reason if the destination was full.
    pub(super) fn of(ended: Result<Summary, Failure>, full: Option<Failure>) -> Self {
        match ended {
            Ok(summary) => {
                let (status, bytes, failed) = match &summary {
                    Summary::Transfer(summary) => {
                        let bytes = summary.bytes.unwrap_or(0);
                        (summary.status, bytes, summary.failed)
                    }
                    Summary::Verify(_) => (Status::Failed, 0, 0),
                };
                Self {
                    exit: exit_of(&summary),
                    status,
                    bytes,
                    failed,
                    why: None,
                }
            }
            Err(failure) => {
                let failure = full.unwrap_or(failure);
                let status = match failure.code.is_interruption() {
                    true => Status::Interrupted,
                    false => Status::Failed,
                };
                Self {
                    exit: failure.code.into(),
                    status,
                    bytes: 0,
                    failed: 0,
                    why: Some(failure.message),
                }
            }
        }
    }

    /// The end of a run by a mistake in this program.
    pub(super) fn panicked() -> Self {
        Self {
            exit: Exit::Failed,
            status: Status::Failed,
            bytes: 0,
            failed: 0,
            why: Some("internal error: a thread panicked (see above)".to_owned()),
        }
    }

    /// The state of a destination that is not complete.
    fn words(&self, name: &str) -> String {
        let name = printable(name);
        match (&self.why, self.failed) {
            (Some(why), _) if self.status == Status::Failed => {
                format!("{name} failed: {}", printable(why))
            }
            (_, 0) => format!("{name} {}", self.status.name()),
            (_, failed) => format!(
                "{name} {}, {} missing",
                self.status.name(),
                counted(failed, "entry")
            ),
        }
    }
}

/// Exit codes by how little was done.
const fn gravity(exit: Exit) -> u8 {
    match exit {
        Exit::Complete => 0,
        Exit::Partial => 1,
        Exit::Interrupted => 2,
        Exit::Usage => 3,
        Exit::Authentication => 4,
        Exit::Failed => 5,
    }
}

/// Tells the end of all destinations; returns the worst exit code.
pub(super) fn report_all(
    all: &[(String, Done)],
    (figures, scanned): (&ReadFigures, &PageFigures),
    json: bool,
) -> Exit {
    let exits = all.iter().map(|(_, done)| done.exit);
    let worst = exits.max_by_key(|exit| gravity(*exit));
    let worst = worst.unwrap_or(Exit::Failed);
    if json {
        let destinations = all.iter().map(|(name, done)| {
            json!({
                "each": name,
                "status": done.status.name(),
                "failed": done.failed,
                "exit": done.exit as u8,
            })
        });
        let line = json!({
            "event": "all",
            "destinations": destinations.collect::<Vec<_>>(),
            "read_bytes": figures.read_bytes,
            "scan_pages": scanned.reads,
            "exit": worst as u8,
        });
        print_data(&line.to_string());
    } else {
        print(&sentence(all, figures));
    }
    worst
}

fn sentence(all: &[(String, Done)], figures: &ReadFigures) -> String {
    let is_complete = |done: &Done| done.status == Status::Complete;
    let complete = all.iter().filter(|(_, done)| is_complete(done)).count();
    let mut text = match complete == all.len() {
        true => format!("all {} destinations complete", all.len()),
        false => format!("{complete} of {} destinations complete", all.len()),
    };
    for (name, done) in all.iter().filter(|(_, done)| !is_complete(done)) {
        text.push_str("; ");
        text.push_str(&done.words(name));
    }
    if figures.read_bytes > 0 {
        let delivered = all.iter().map(|(_, done)| done.bytes).sum();
        text.push_str(&format!(
            "; {} read from the source for {} delivered",
            human_size(figures.read_bytes),
            human_size(delivered)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::FailureCode;

    fn done(status: Status, exit: Exit, failed: u64) -> Done {
        Done {
            exit,
            status,
            bytes: 2_000_000,
            failed,
            why: None,
        }
    }

    #[test]
    fn the_sentence_names_what_is_missing_where() {
        let figures = ReadFigures {
            read_bytes: 2_000_000,
            ..ReadFigures::default()
        };
        let mut all = vec![
            ("a".to_owned(), done(Status::Complete, Exit::Complete, 0)),
            ("b".to_owned(), done(Status::Complete, Exit::Complete, 0)),
        ];
        assert_eq!(
            sentence(&all, &figures),
            "all 2 destinations complete; 2.00 MB read from the source for 4.00 MB delivered"
        );
        all[1].1 = done(Status::Partial, Exit::Partial, 3);
        let refused = Failure::new(FailureCode::BusyDestination, "busy");
        all.push(("c".to_owned(), Done::of(Err(refused), None)));
        assert_eq!(
            sentence(&all, &ReadFigures::default()),
            "1 of 3 destinations complete; b partial, 3 entries missing; c failed: busy"
        );
    }
}
