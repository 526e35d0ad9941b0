//! Owns the view of a caller on the progress of running jobs.
//! See `seen` for everything else of a job.

use godwit_api::rest::{ChannelView, JobProgress, NodeProgress, ProgressView};

use super::Seen;
use crate::basis::documents;
use crate::basis::ends::may_run_elsewhere;
use crate::basis::error::JobsError;

impl Seen {
    /// The progress of a job, as the caller may see it; None if there is no such job.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn progress(&self, mut reported: JobProgress) -> Result<Option<JobProgress>, JobsError> {
        if self.granted.is_admin() {
            return Ok(Some(reported));
        }
        let Some(job) = self.jobs.parts.this.reader().job(&reported.id)? else {
            return Ok(None);
        };
        let of = self.of_job(&job.owner, &job.id);
        let stored = job.sources.iter().chain([&job.destination]);
        let is_whole = of.is_own
            || (of.is_seen(self, stored.map(|place| documents::parts(place).ok()))
                && self.lists_all(&job.id));
        if !is_whole {
            reported.progress = outline(reported.progress, may_run_elsewhere(&job));
        }
        Ok(Some(reported))
    }
}

/// The outline of a job's progress: without texts that another site may have chosen, and without addresses. Another site may have run a
/// job that is elsewhere.
pub(super) fn outline(mut all: ProgressView, is_elsewhere: bool) -> ProgressView {
    unnamed(&mut all.nodes);
    all.channels.iter_mut().for_each(ChannelView::unnamed);
    let shown = ProgressView {
        at: all.at,
        bytes: all.bytes,
        bytes_total: all.bytes_total,
        bytes_per_second: all.bytes_per_second,
        files: all.files,
        files_total: all.files_total,
        files_settled: all.files_settled,
        forecast: all.forecast,
        scanning: all.scanning,
        behind: all.behind,
        streams: all.streams,
        bottleneck: all.bottleneck,
        failed: all.failed,
        channels: all.channels,
        moved: all.moved,
        ..ProgressView::default()
    };
    match is_elsewhere {
        true => shown,
        false => ProgressView {
            stages: all.stages,
            host: all.host,
            nodes: all.nodes,
            ..shown
        },
    }
}

/// Hides texts that another site may have chosen.
pub(super) fn unnamed(nodes: &mut [NodeProgress]) {
    for node in nodes {
        node.to.clear();
        node.bottleneck_text = None;
        node.other_host.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_outline_has_no_word_that_the_other_end_chose() {
        let figures = || BTreeMap::from([("secret".to_owned(), 1.0)]);
        let node = NodeProgress {
            to: "secret".to_owned(),
            bottleneck_text: Some("network at secret".to_owned()),
            other_host: figures(),
            ..NodeProgress::default()
        };
        let reported = ProgressView {
            bottleneck_text: Some("network at secret".to_owned()),
            other_host: figures(),
            nodes: vec![node],
            ..ProgressView::default()
        };
        let reported = outline(reported, false);
        assert!(!format!("{reported:?}").contains("secret"), "{reported:?}");
        assert_eq!(reported.nodes.len(), 1);
    }
}
