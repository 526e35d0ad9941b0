//! Owns the view of a caller on the progress of running jobs.
//! See `seen` for everything else of a job.

use godwit_api::rest::{ChannelView, JobProgress, NodeProgress, ProgressView};

use super::{Seen, is_elsewhere};
use crate::basis::documents;
use crate::basis::error::JobsError;

impl Seen {
    /// The progress of a job, as the caller may see it; None if there is no such job.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn progress(&self, mut told: JobProgress) -> Result<Option<JobProgress>, JobsError> {
        if self.granted.is_admin() {
            return Ok(Some(told));
        }
        let Some(job) = self.jobs.parts.this.reader().job(&told.id)? else {
            return Ok(None);
        };
        let sources: Vec<String> = job.sources.iter().map(documents::place).collect();
        let of = self.of_job(&job.owner, &job.id);
        if !self.sees_all(of, &sources, &documents::place(&job.destination)) {
            outline(&mut told.progress, is_elsewhere(&sources));
        }
        Ok(Some(told))
    }
}

/// Removes each text that another site may have chosen, and each address. Another site may have run a job that is elsewhere.
pub(super) fn outline(progress: &mut ProgressView, is_elsewhere: bool) {
    progress.bottleneck_text = None;
    progress.other_host.clear();
    if is_elsewhere {
        progress.stages.clear();
        progress.host.clear();
        progress.nodes.clear();
    }
    unnamed(&mut progress.nodes);
    progress.channels.iter_mut().for_each(ChannelView::unnamed);
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
        let mut told = ProgressView {
            bottleneck_text: Some("network at secret".to_owned()),
            other_host: figures(),
            nodes: vec![node],
            ..ProgressView::default()
        };
        outline(&mut told, false);
        assert!(!format!("{told:?}").contains("secret"), "{told:?}");
        assert_eq!(told.nodes.len(), 1);
    }
}
