//! Adds up the reports of the closes of a job, and makes the report of one.
//! Runs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use godwit_api::event::{Sides, Status, Summary, TransferSummary};
use godwit_api::failure::Code;
use godwit_api::rest::Amount;
use godwit_run::walk::Unread;
use godwit_state::{Closed, EndUsage, FailureGroup, Work};

use super::{BatchOutcome, EXAMPLES_MAX, MANIFEST};

/// The summary and the failed entries of a whole job: those of its closes, and the earlier deliveries.
///
/// Nodes report their deliveries with each lease. A report may be missing: a node was lost, or the job was paused. The closes find all
/// delivered files, so their count replaces that of the reports if it is higher.
#[must_use]
pub fn summed(work: &Work) -> (TransferSummary, Vec<FailureGroup>) {
    // Closes report these figures with their leases, as other items do.
    let usage = work.counts.looked.usage;
    let mut sum = TransferSummary {
        status: Status::Complete,
        bytes: Some(0),
        resent_bytes: work.counts.looked.again,
        cpu_seconds: Sides {
            source: cpu_seconds(usage.source),
            destination: cpu_seconds(usage.destination),
        },
        max_rss_bytes: Sides {
            source: max_rss(usage.source),
            destination: max_rss(usage.destination),
        },
        began: true,
        ..TransferSummary::default()
    };
    let mut groups: BTreeMap<Code, FailureGroup> = BTreeMap::new();
    for closed in &work.closed {
        if let Ok(Summary::Transfer(one)) = serde_json::from_str(&closed.summary) {
            add(&mut sum, &one);
        }
        for group in &closed.failures {
            let known = groups.entry(group.reason.code.clone());
            let known = known.or_insert_with(|| FailureGroup {
                count: 0,
                examples: Vec::new(),
                ..group.clone()
            });
            known.count = known.count.saturating_add(group.count);
            let room = EXAMPLES_MAX.saturating_sub(known.examples.len());
            known
                .examples
                .extend(group.examples.iter().take(room).cloned());
        }
    }
    let (reported, found) = (&work.counts, sum.delivered);
    let is_whole = work.is_done() && found.files >= reported.files && found.files > 0;
    let earlier = Amount {
        files: reported.files.max(found.files),
        // A part that was sent twice may have been reported twice.
        bytes: match is_whole {
            true => found.bytes,
            false => reported.bytes.max(found.bytes),
        },
    };
    sum.bytes = Some(sum.bytes.unwrap_or(0).saturating_add(earlier.bytes));
    sum.files = sum.files.saturating_add(earlier.files);
    // The closes skip the files that the job delivered before.
    sum.skipped = sum.skipped.saturating_sub(earlier.files);
    sum.delivered = Amount::default();
    (sum, groups.into_values().collect())
}

fn cpu_seconds(end: EndUsage) -> Option<f64> {
    (end.cpu_us > 0).then(|| Duration::from_micros(end.cpu_us).as_secs_f64())
}

fn max_rss(end: EndUsage) -> Option<u64> {
    (end.rss_bytes > 0).then_some(end.rss_bytes)
}

fn add(sum: &mut TransferSummary, one: &TransferSummary) {
    if one.status != Status::Complete {
        sum.status = Status::Partial;
    }
    let (kept, lost) = (&mut sum.not_kept, &one.not_kept);
    for (count, more) in [
        (sum.bytes.get_or_insert(0), one.bytes.unwrap_or(0)),
        (&mut sum.files, one.files),
        (&mut sum.skipped, one.skipped),
        (&mut sum.delivered.files, one.delivered.files),
        (&mut sum.delivered.bytes, one.delivered.bytes),
        (&mut sum.excluded, one.excluded),
        (&mut sum.adjusted, one.adjusted),
        (&mut sum.deleted, one.deleted),
        (&mut sum.failed, one.failed),
        (&mut sum.resent_bytes, one.resent_bytes),
        (&mut kept.owner, lost.owner),
        (&mut kept.group, lost.group),
        (&mut kept.set_id, lost.set_id),
        (&mut kept.xattrs, lost.xattrs),
        (&mut kept.security_xattrs, lost.security_xattrs),
        (&mut kept.acls, lost.acls),
        (&mut kept.hard_link, lost.hard_link),
        (&mut kept.time, lost.time),
        (&mut kept.mode, lost.mode),
    ] {
        *count = count.saturating_add(more);
    }
    sum.manifest = one.manifest.clone();
    sum.encryption = sum.encryption.take().or_else(|| one.encryption.clone());
    sum.blame = one.blame.clone();
}

/// Names the node that has written the manifest, in place of the file.
pub(crate) fn name_holder(ended: &mut Summary, node: &str) {
    if let Summary::Transfer(summary) = ended
        && let Some(manifest) = &mut summary.manifest
    {
        manifest.path = format!("{node}:{MANIFEST}").into_bytes();
    }
}

/// The end of a root's tree.
pub(crate) fn closed(root: u32, summary: &Summary, batch: BatchOutcome) -> Closed {
    let (files, bytes) = match summary {
        Summary::Transfer(summary) => (summary.files, summary.bytes.unwrap_or(0)),
        Summary::Verify(_) => (0, 0),
    };
    Closed {
        root,
        files,
        bytes,
        summary: with_notes(summary, &batch.notes),
        failures: batch.groups(),
    }
}

/// The key of the notes in the summary of a close: each note with the number of closes that had it.
const NOTES: &str = "notes";

/// The summary as JSON text, with the notes. The state adds up reports of one root by their keys.
fn with_notes(summary: &Summary, notes: &BTreeSet<String>) -> String {
    let mut value = serde_json::to_value(summary).unwrap_or_default();
    if let Some(fields) = value.as_object_mut().filter(|_| !notes.is_empty()) {
        let counted = notes.iter().map(|note| (note.clone(), 1.into()));
        fields.insert(
            NOTES.to_owned(),
            counted.collect::<serde_json::Map<_, _>>().into(),
        );
    }
    value.to_string()
}

/// The notes of all closes of a job, each once.
#[must_use]
pub fn notes(work: &Work) -> BTreeSet<String> {
    let of = |closed: &Closed| {
        let summary: serde_json::Value = serde_json::from_str(&closed.summary).unwrap_or_default();
        let notes = summary.get(NOTES).and_then(serde_json::Value::as_object);
        let notes = notes.map(|notes| notes.keys().cloned().collect::<Vec<_>>());
        notes.unwrap_or_default()
    };
    work.closed.iter().flat_map(of).collect()
}

/// Adds entries of the source that could not be looked at, so that their contents may be missing.
pub(crate) fn add_unread(summary: &mut Summary, batch: &mut BatchOutcome, unread: &[Unread]) {
    if let Summary::Transfer(summary) = summary
        && !unread.is_empty()
    {
        summary.status = Status::Partial;
        summary.failed += unread.len() as u64;
    }
    for one in unread {
        batch.failed(&one.code, &one.message, &one.path);
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::event::NotKept;
    use godwit_api::failure::FailureCode;
    use godwit_state::{Looked, Usage, WorkCounts};

    use super::*;

    #[test]
    fn entries_that_were_not_looked_at_make_a_close_partial() {
        let close = TransferSummary {
            status: Status::Complete,
            failed: 1,
            ..TransferSummary::default()
        };
        let mut batch = BatchOutcome::default();
        batch.failed(&FailureCode::Permission.into(), "no", b"a");
        let mut close = Summary::Transfer(Box::new(close));
        let unread = |path: &str, code: FailureCode| Unread {
            path: path.into(),
            code: code.into(),
            message: "stale".to_owned(),
        };
        let unread = [
            unread("b", FailureCode::Io),
            unread("c", FailureCode::Permission),
        ];
        add_unread(&mut close, &mut batch, &unread);
        let closed = closed(0, &close, batch);
        let Summary::Transfer(summary) = close else {
            panic!("{close:?}");
        };
        assert_eq!((summary.status, summary.failed), (Status::Partial, 3));
        let counts: Vec<_> = closed.failures.iter().map(|one| one.count).collect();
        assert_eq!(counts.iter().sum::<u64>(), 3, "{closed:?}");
        assert_eq!(counts.len(), 2, "{closed:?}");
    }

    #[test]
    fn each_note_of_the_closes_is_reported_once() {
        let closed = |root: u32, messages: &[&str]| {
            let mut batch = BatchOutcome::default();
            for message in messages {
                let message = (*message).to_owned();
                batch.take(&godwit_api::event::Event::Note { message });
            }
            let summary = TransferSummary {
                bytes: Some(5),
                ..TransferSummary::default()
            };
            closed(root, &Summary::Transfer(Box::new(summary)), batch)
        };
        let work = Work {
            closed: vec![
                closed(0, &["a mount", "late"]),
                closed(1, &["a mount"]),
                closed(2, &[]),
            ],
            ..work_of(0, 0)
        };
        assert!(notes(&work).into_iter().eq(["a mount", "late"]));
        assert_eq!(
            summed(&work).0.bytes,
            Some(15),
            "the rest is read all the same"
        );
        let many: Vec<String> = (0..100)
            .map(|number| format!("{number:03}").repeat(150))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(closed(0, &many).summary.len() < 8_000);
        // The state keeps the notes of all closes.
        let full = Work {
            closed: (0..8).map(|n| closed(n, &many[8 * n as usize..])).collect(),
            ..work_of(0, 0)
        };
        let mut batch = BatchOutcome::default();
        let message = "one more".to_owned();
        batch.take(&godwit_api::event::Event::Note { message });
        let more = batch.bounded(&full);
        let summary = Summary::Transfer(Box::default());
        assert!(
            !super::closed(9, &summary, more)
                .summary
                .contains("one more")
        );
    }

    #[test]
    fn the_sum_counts_what_was_delivered_once() {
        let close = TransferSummary {
            status: Status::Complete,
            bytes: Some(5),
            files: 1,
            skipped: 10,
            not_kept: NotKept {
                time: 2,
                mode: 3,
                ..NotKept::default()
            },
            ..TransferSummary::default()
        };
        let work = Work {
            closed: vec![closed(
                0,
                &Summary::Transfer(Box::new(close)),
                BatchOutcome::default(),
            )],
            ..work_of(7, 100)
        };
        let (sum, failures) = summed(&work);
        assert_eq!(
            (sum.status, sum.files, sum.bytes),
            (Status::Complete, 8, Some(105))
        );
        assert_eq!((sum.skipped, failures.len()), (3, 0));
        assert_eq!((sum.not_kept.time, sum.not_kept.mode), (2, 3));
    }

    #[test]
    fn the_sum_has_the_processor_time_and_memory_of_all_transfers() {
        let close = TransferSummary {
            cpu_seconds: Sides {
                source: Some(9.0),
                destination: None,
            },
            ..TransferSummary::default()
        };
        let close = Summary::Transfer(Box::new(close));
        let mut work = Work {
            closed: vec![closed(0, &close, BatchOutcome::default())],
            ..work_of(1, 1)
        };
        let (sum, _) = summed(&work);
        let none = Sides {
            source: None,
            destination: None,
        };
        assert_eq!(sum.cpu_seconds, none, "nothing was reported");
        work.counts.looked = Looked {
            usage: Usage {
                source: EndUsage {
                    cpu_us: 1_500_000,
                    rss_bytes: 0,
                },
                destination: EndUsage {
                    cpu_us: 250_000,
                    rss_bytes: 1 << 20,
                },
            },
            ..Looked::default()
        };
        let (sum, _) = summed(&work);
        let cpu = (sum.cpu_seconds.source, sum.cpu_seconds.destination);
        assert_eq!(cpu, (Some(1.5), Some(0.25)));
        let rss = (sum.max_rss_bytes.source, sum.max_rss_bytes.destination);
        assert_eq!(rss, (None, Some(1 << 20)));
    }

    #[test]
    fn counts_of_another_site_do_not_overflow() {
        let close = TransferSummary {
            bytes: Some(u64::MAX),
            failed: u64::MAX,
            not_kept: NotKept {
                mode: u64::MAX,
                ..NotKept::default()
            },
            ..TransferSummary::default()
        };
        let close = Summary::Transfer(Box::new(close));
        let closed = |root| closed(root, &close, BatchOutcome::default());
        let work = Work {
            closed: vec![closed(0), closed(1)],
            ..work_of(1, 1)
        };
        let (sum, _) = summed(&work);
        let counts = (sum.bytes, sum.failed, sum.not_kept.mode);
        assert_eq!(counts, (Some(u64::MAX), u64::MAX, u64::MAX));
    }

    #[test]
    fn files_that_a_lost_node_had_delivered_count_as_delivered() {
        let close = |found: u64| TransferSummary {
            skipped: 12,
            delivered: Amount {
                files: found,
                bytes: found * 10,
            },
            ..TransferSummary::default()
        };
        // The reports lack two files, or are complete, and one part was reported twice.
        for (found, open, files, bytes) in [
            (9, 0, 9, 90),
            (9, 1, 9, 100),
            (7, 0, 7, 70),
            (6, 0, 7, 100),
            (0, 0, 7, 100),
        ] {
            let work = Work {
                closed: vec![closed(
                    0,
                    &Summary::Transfer(Box::new(close(found))),
                    BatchOutcome::default(),
                )],
                open,
                ..work_of(7, 100)
            };
            let (sum, _) = summed(&work);
            assert_eq!((sum.files, sum.bytes), (files, Some(bytes)), "{found}");
            assert_eq!(sum.skipped, 12 - files, "{found}");
        }
    }

    /// Work with these reported deliveries.
    fn work_of(files: u64, bytes: u64) -> Work {
        Work {
            job: "job".to_owned(),
            epoch: 1,
            claim: String::new(),
            roots: Vec::new(),
            pairs: Vec::new(),
            targets: godwit_state::WorkTargets::default(),
            trouble: None,
            closed: Vec::new(),
            open: 0,
            closes: 0,
            counts: WorkCounts {
                files,
                bytes,
                ..WorkCounts::default()
            },
        }
    }
}
