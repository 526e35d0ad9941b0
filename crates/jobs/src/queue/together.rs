//! Owns the progress of a job with several destinations, which follows from its children.
//! Reads nothing, and keeps nothing.

use godwit_api::rest::{ForecastView, ProgressView};
use godwit_state::{JobState, Moved};

/// The facts about a child from which the progress of its parent follows.
pub(crate) struct Part {
    pub(crate) state: JobState,
    /// Amounts of its ended attempts.
    pub(crate) ended: Moved,
    /// Progress of its running attempt.
    pub(crate) progress: Option<ProgressView>,
}

/// Bytes and files of a child.
#[derive(Clone, Copy)]
struct Extent {
    bytes: u64,
    /// None while it is unknown.
    bytes_total: Option<u64>,
    files: u64,
    files_total: u64,
    files_settled: u64,
}

/// The progress of the parent; None while no child runs. Amounts and rates are sums. The end and the limit are those of the child that ends
/// last. All children have one source: one that does not run counts with the largest known total, and with what it moved so far.
pub(crate) fn progress(parts: &[Part]) -> Option<ProgressView> {
    let running: Vec<&ProgressView> = parts
        .iter()
        .filter_map(|part| part.progress.as_ref())
        .collect();
    let at = running.iter().map(|one| one.at).max()?;
    let sum = extent(parts);
    let rates = running.iter().filter_map(|one| one.bytes_per_second);
    let is_moving = rates.clone().next().is_some();
    let last = running
        .iter()
        .filter(|one| one.bottleneck.is_some())
        .max_by_key(|one| one.forecast.map(|forecast| forecast.likely));
    let moved = running.iter().map(|one| one.moved);
    Some(ProgressView {
        at,
        bytes: sum.bytes,
        bytes_total: sum.bytes_total,
        bytes_per_second: is_moving.then(|| rates.sum()),
        files: sum.files,
        files_total: sum.files_total,
        files_settled: sum.files_settled,
        forecast: forecast(parts),
        scanning: running.iter().any(|one| one.scanning),
        behind: running.iter().any(|one| one.behind),
        streams: running
            .iter()
            .fold(0, |all, one| all.saturating_add(one.streams)),
        bottleneck: last.and_then(|one| one.bottleneck),
        bottleneck_text: last.and_then(|one| one.bottleneck_text.clone()),
        failed: running
            .iter()
            .fold(0, |all, one| all.saturating_add(one.failed)),
        moved: moved.fold(Moved::default(), Moved::plus),
        // Stages, paths, hosts and nodes are those of each child.
        ..ProgressView::default()
    })
}

/// The end of the child that ends last; None while the end of any open child is unknown.
fn forecast(parts: &[Part]) -> Option<ForecastView> {
    let open = parts.iter().filter(|part| !part.state.ended());
    let ends: Option<Vec<ForecastView>> = open
        .map(|part| part.progress.as_ref().and_then(|one| one.forecast))
        .collect();
    ends?.into_iter().max_by_key(|forecast| forecast.likely)
}

/// The sum of all children.
fn extent(parts: &[Part]) -> Extent {
    let whole = |part: &Part| match (&part.progress, part.state) {
        (Some(running), _) => (running.bytes_total, running.files_total),
        (None, JobState::Complete) => (Some(part.ended.bytes), part.ended.files),
        (None, _) => (None, 0),
    };
    let known = parts.iter().filter_map(|part| whole(part).0).max();
    let known_files = parts.iter().map(|part| whole(part).1).max().unwrap_or(0);
    let each = parts.iter().map(|part| match &part.progress {
        Some(running) => Extent {
            bytes: running.bytes,
            bytes_total: running.bytes_total,
            files: running.files,
            files_total: running.files_total,
            files_settled: running.files_settled,
        },
        None => {
            let Moved { bytes, files, .. } = part.ended;
            let is_complete = part.state == JobState::Complete;
            Extent {
                bytes,
                bytes_total: match is_complete {
                    true => Some(bytes),
                    false => known.map(|known| known.max(bytes)),
                },
                files,
                files_total: if is_complete {
                    files
                } else {
                    known_files.max(files)
                },
                files_settled: files,
            }
        }
    });
    let none = Extent {
        bytes: 0,
        bytes_total: Some(0),
        files: 0,
        files_total: 0,
        files_settled: 0,
    };
    each.fold(none, |sum, one| Extent {
        bytes: sum.bytes.saturating_add(one.bytes),
        bytes_total: (sum.bytes_total.zip(one.bytes_total)).map(|(a, b)| a.saturating_add(b)),
        files: sum.files.saturating_add(one.files),
        files_total: sum.files_total.saturating_add(one.files_total),
        files_settled: sum.files_settled.saturating_add(one.files_settled),
    })
}

#[cfg(test)]
mod tests {
    use godwit_api::rest::{Bottleneck, Timestamp};

    use super::*;

    fn running(bytes: u64, total: Option<u64>, rate: f64, likely: Option<i64>) -> Part {
        let forecast = likely.map(|likely| ForecastView {
            earliest: Timestamp(likely - 1),
            likely: Timestamp(likely),
            latest: Timestamp(likely + 1),
        });
        let moved = Moved {
            bytes,
            ..Moved::default()
        };
        Part {
            state: JobState::Running,
            ended: Moved::default(),
            progress: Some(ProgressView {
                at: Timestamp(7),
                bytes,
                bytes_total: total,
                bytes_per_second: Some(rate),
                files: 1,
                files_total: 4,
                forecast,
                bottleneck: Some(match likely {
                    Some(9) => Bottleneck::Network,
                    _ => Bottleneck::SourceStorage,
                }),
                moved,
                ..ProgressView::default()
            }),
        }
    }

    fn idle(state: JobState, bytes: u64, files: u64) -> Part {
        let ended = Moved {
            bytes,
            files,
            bytes_again: 0,
        };
        Part {
            state,
            ended,
            progress: None,
        }
    }

    #[test]
    fn amounts_are_sums_and_the_end_is_that_of_the_slowest() {
        let parts = [
            running(10, Some(100), 5.0, Some(8)),
            running(30, Some(100), 2.0, Some(9)),
            idle(JobState::Complete, 100, 4),
        ];
        let sum = progress(&parts).expect("some run");
        assert_eq!((sum.bytes, sum.bytes_total), (140, Some(300)));
        assert_eq!((sum.files, sum.files_total), (6, 12));
        assert_eq!(sum.bytes_per_second, Some(7.0));
        assert_eq!(sum.forecast.map(|one| one.likely), Some(Timestamp(9)));
        assert_eq!(sum.bottleneck, Some(Bottleneck::Network));
        assert_eq!(sum.at, Timestamp(7));
        // The sum leaves out the amounts of ended attempts.
        assert_eq!(sum.moved.bytes, 40);
    }

    #[test]
    fn a_child_that_waits_counts_with_the_known_total_and_has_no_end() {
        let parts = [
            running(10, Some(100), 5.0, Some(8)),
            idle(JobState::Queued, 20, 1),
            idle(JobState::Failed, 0, 0),
        ];
        let sum = progress(&parts).expect("one runs");
        assert_eq!((sum.bytes, sum.bytes_total), (30, Some(300)));
        assert_eq!((sum.files, sum.files_total), (2, 12));
        assert_eq!(sum.forecast, None);
    }

    #[test]
    fn a_total_is_unknown_while_that_of_any_running_child_is() {
        let parts = [
            running(10, Some(100), 5.0, Some(8)),
            running(1, None, 1.0, None),
        ];
        let sum = progress(&parts).expect("both run");
        assert_eq!((sum.bytes, sum.bytes_total), (11, None));
        assert_eq!(sum.forecast, None);
        assert!(progress(&[idle(JobState::Paused, 5, 1)]).is_none());
    }
}
