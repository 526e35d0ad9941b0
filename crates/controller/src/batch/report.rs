//! Adds up the reports of the closes of a job, and makes the report of one.
//! Runs nothing.

use std::collections::BTreeMap;

use godwit_api::event::{Status, Summary, TransferSummary};
use godwit_api::failure::{Code, Failure};
use godwit_run::walk::Unread;
use godwit_state::{Closed, FailureGroup, Work};

use super::{BatchOutcome, EXAMPLES_MAX, MANIFEST};

/// The summary and the failed entries of a whole job: those of its closes, and the earlier deliveries.
#[must_use]
pub fn summed(work: &Work) -> (TransferSummary, Vec<FailureGroup>) {
    let mut sum = TransferSummary {
        status: Status::Complete,
        bytes: Some(work.counts.bytes),
        files: work.counts.files,
        resent_bytes: work.counts.looked.again,
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
            known.count += group.count;
            let room = EXAMPLES_MAX.saturating_sub(known.examples.len());
            known
                .examples
                .extend(group.examples.iter().take(room).cloned());
        }
    }
    // The closes skip the files that the job delivered before.
    sum.skipped = sum.skipped.saturating_sub(work.counts.files);
    (sum, groups.into_values().collect())
}

fn add(sum: &mut TransferSummary, one: &TransferSummary) {
    if one.status != Status::Complete {
        sum.status = Status::Partial;
    }
    sum.bytes = Some(sum.bytes.unwrap_or(0) + one.bytes.unwrap_or(0));
    sum.files += one.files;
    sum.skipped += one.skipped;
    sum.excluded += one.excluded;
    sum.adjusted += one.adjusted;
    sum.deleted += one.deleted;
    sum.failed += one.failed;
    sum.resent_bytes += one.resent_bytes;
    sum.manifest = one.manifest.clone();
    sum.encryption = sum.encryption.take().or_else(|| one.encryption.clone());
    sum.blame = one.blame.clone();
    sum.not_kept.owner += one.not_kept.owner;
    sum.not_kept.group += one.not_kept.group;
    sum.not_kept.set_id += one.not_kept.set_id;
    sum.not_kept.xattrs += one.not_kept.xattrs;
    sum.not_kept.security_xattrs += one.not_kept.security_xattrs;
    sum.not_kept.acls += one.not_kept.acls;
    sum.not_kept.hard_link += one.not_kept.hard_link;
    sum.not_kept.time += one.not_kept.time;
    sum.not_kept.mode += one.not_kept.mode;
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
pub(crate) fn closed(root: u32, summary: &Summary, heard: BatchOutcome) -> Closed {
    let (files, bytes) = match summary {
        Summary::Transfer(summary) => (summary.files, summary.bytes.unwrap_or(0)),
        Summary::Verify(_) => (0, 0),
    };
    Closed {
        root,
        files,
        bytes,
        summary: serde_json::to_string(summary).unwrap_or_else(|_| "{}".to_owned()),
        failures: heard.groups(),
    }
}

/// Adds entries of the source that could not be looked at, so that their contents may be missing.
pub(crate) fn with_unread(mut closed: Closed, unread: &[Unread]) -> Result<Closed, Failure> {
    if unread.is_empty() {
        return Ok(closed);
    }
    let summary = serde_json::from_str(&closed.summary).map_err(Failure::local)?;
    if let Summary::Transfer(mut summary) = summary {
        summary.status = Status::Partial;
        summary.failed += unread.len() as u64;
        closed.summary =
            serde_json::to_string(&Summary::Transfer(summary)).map_err(Failure::local)?;
    }
    let groups = std::mem::take(&mut closed.failures).into_iter();
    let groups = groups.map(|group| (group.reason.code.clone(), group));
    let mut heard = BatchOutcome {
        groups: groups.collect(),
        ..BatchOutcome::default()
    };
    for one in unread {
        heard.failed(&one.code, &one.message, &one.path);
    }
    closed.failures = heard.groups();
    Ok(closed)
}

#[cfg(test)]
mod tests {
    use godwit_api::event::NotKept;
    use godwit_api::failure::FailureCode;
    use godwit_state::WorkCounts;

    use super::*;

    #[test]
    fn entries_that_were_not_looked_at_make_a_close_partial() {
        let close = TransferSummary {
            status: Status::Complete,
            failed: 1,
            ..TransferSummary::default()
        };
        let mut heard = BatchOutcome::default();
        heard.failed(&FailureCode::Permission.into(), "no", b"a");
        let closed = closed(0, &Summary::Transfer(Box::new(close)), heard);
        let unread = |path: &str, code: FailureCode| Unread {
            path: path.into(),
            code: code.into(),
            message: "stale".to_owned(),
        };
        let unread = [
            unread("b", FailureCode::Io),
            unread("c", FailureCode::Permission),
        ];
        let closed = with_unread(closed, &unread).expect("made");
        let Ok(Summary::Transfer(summary)) = serde_json::from_str(&closed.summary) else {
            panic!("{closed:?}");
        };
        assert_eq!((summary.status, summary.failed), (Status::Partial, 3));
        let counts: Vec<_> = closed.failures.iter().map(|one| one.count).collect();
        assert_eq!(counts.iter().sum::<u64>(), 3, "{closed:?}");
        assert_eq!(counts.len(), 2, "{closed:?}");
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
            job: "job".to_owned(),
            epoch: 1,
            claim: String::new(),
            roots: Vec::new(),
            pairs: Vec::new(),
            targets: godwit_state::WorkTargets::default(),
            trouble: None,
            closed: vec![closed(
                0,
                &Summary::Transfer(Box::new(close)),
                BatchOutcome::default(),
            )],
            open: 0,
            closes: 0,
            counts: WorkCounts {
                files: 7,
                bytes: 100,
                ..WorkCounts::default()
            },
        };
        let (sum, failures) = summed(&work);
        assert_eq!(
            (sum.status, sum.files, sum.bytes),
            (Status::Complete, 8, Some(105))
        );
        assert_eq!((sum.skipped, failures.len()), (3, 0));
        assert_eq!((sum.not_kept.time, sum.not_kept.mode), (2, 3));
    }
}
