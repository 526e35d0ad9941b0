//! Reports the progress of a divided job, by the counts of the state and the reports of nodes, and warns of late writes after its end.
//! Asks no node.

use std::time::{Duration, Instant};

use godwit_api::rest::{Amount, ProgressView};
use godwit_controller::summed;
use godwit_state::{HeldItems, Looked, Moved, Reader, Work, WorkKind, Works};

use crate::basis::clock::now;

/// Amounts of all attempts of the job, as the state has counted them.
pub(super) fn moved(work: &Work) -> Moved {
    let (sum, _) = summed(work);
    sum.moved()
}

/// Bytes and files that are done with, as the state has counted them.
pub(super) fn done(work: &Work) -> Amount {
    let (counts, looked) = (&work.counts, &work.counts.looked);
    Amount {
        files: counts.files.max(looked.done_files),
        bytes: counts.bytes.max(looked.done_bytes),
    }
}

/// Whether unread directories remain: asked at most once a second.
#[derive(Default)]
pub(super) struct Scans(Option<(Instant, bool)>);

impl Scans {
    pub(super) fn are_open(&mut self, reader: &Reader, job: &str, now: Instant) -> bool {
        if let Some((at, are_open)) = self.0
            && now.saturating_duration_since(at) < Duration::from_secs(1)
        {
            return are_open;
        }
        let items = Works(reader).open_items(job);
        let is_scan = |item: &HeldItems| item.kind == WorkKind::Scan;
        let are_open = items.is_ok_and(|items| items.iter().any(is_scan));
        self.0 = Some((now, are_open));
        are_open
    }
}

/// Warning of late writes after the end of a job, because these nodes of the destination do not answer.
pub(super) fn late(nodes: &[String]) -> String {
    let (has, it) = match nodes {
        [_] => ("has", "it"),
        _ => ("have", "they"),
    };
    format!(
        "{} {has} not confirmed that all file system calls of this job there have ended; perhaps a mount hangs. Such a call may still run until {it} answers again, or the mount is renewed. It can set attributes of a directory or of a file with several names, restore an additional name of a file, or make an empty directory; nothing else can change",
        nodes.join(", ")
    )
}

/// Entries that failed for good: the closes have tried them again. Until then none of them counts as failed.
fn failed(work: &Work) -> u64 {
    summed(work).0.failed
}

/// The progress of the job. `found` is the whole amount of work, once that is known.
pub(super) fn shown_as(
    work: &Work,
    Amount { files, bytes }: Amount,
    found: Option<Looked>,
    flights: ProgressView,
) -> ProgressView {
    // Nodes of an earlier level do not report their finds.
    let found = found.filter(|found| found.found_files > 0);
    let so_far = found.unwrap_or(work.counts.looked).found_files;
    let total = found.map(|found| found.found_bytes);
    ProgressView {
        at: now(),
        bytes: total.map_or(bytes, |total| bytes.min(total)),
        bytes_total: total,
        files: found.map_or(files, |found| files.min(found.found_files)),
        files_total: so_far.max(files),
        files_settled: files,
        scanning: found.is_none(),
        failed: failed(work),
        ..flights
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::event::{Status, Summary, TransferSummary};
    use godwit_state::{Closed, WorkCounts, WorkTargets};

    use super::*;

    #[test]
    fn entries_that_a_close_gave_up_are_shown_while_the_job_runs() {
        let close = |failed| Closed {
            root: 0,
            files: 0,
            bytes: 0,
            summary: serde_json::to_string(&Summary::Transfer(Box::new(TransferSummary {
                status: Status::Partial,
                failed,
                ..TransferSummary::default()
            })))
            .expect("text"),
            failures: Vec::new(),
        };
        let work = |closed| Work {
            job: "j".to_owned(),
            epoch: 1,
            claim: String::new(),
            roots: Vec::new(),
            pairs: Vec::new(),
            targets: WorkTargets::default(),
            trouble: None,
            closed,
            open: 0,
            closes: 0,
            counts: WorkCounts::default(),
        };
        let shown =
            |work: &Work| shown_as(work, Amount::default(), None, ProgressView::default()).failed;
        assert_eq!(shown(&work(Vec::new())), 0);
        assert_eq!(shown(&work(vec![close(2), close(3)])), 5);
    }
}
