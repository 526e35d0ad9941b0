//! Explains why a job waits, by the nodes, the exports and the time of this moment, and reports its progress. The API shows both.
//! Changes no job: `scheduler` notes the reasons of jobs that are due.
//!
//! The state keeps the reason as of the last change of the job. Since then a time may have come, or an export may be gone.

use std::collections::BTreeSet;

use godwit_api::failure::FailureCode;
use godwit_api::job::JobKind;
use godwit_api::rest::{DestinationCount, JobProgress, JobView, ProgressView};
use godwit_state::{Details, Families, Job, JobDetails, Moved, Reason, Timestamp, reason};

use crate::asking::elsewhere::RemoteProgress;
use crate::attempt::live::Live;
use crate::basis::buffered::buffered;
use crate::basis::documents;
use crate::basis::error::JobsError;
use crate::basis::relay::Pair;
use crate::basis::this_node::ThisNode;
use crate::queue::away;
use crate::queue::nodes::{NO_NODE, NODES_DRAINED, Nodes};
use crate::queue::together::{self, Part};

/// The situation at this moment.
pub(crate) struct Now<'a> {
    this: &'a ThisNode,
    live: &'a Live,
    remote: &'a RemoteProgress,
    nodes: Nodes,
    at: Timestamp,
}

impl<'a> Now<'a> {
    pub(crate) fn read(
        this: &'a ThisNode,
        live: &'a Live,
        remote: &'a RemoteProgress,
    ) -> Result<Self, JobsError> {
        Ok(Self {
            nodes: Nodes::rows(&this.reader(), &this.name, &this.exports)?,
            at: this.now(),
            this,
            live,
            remote,
        })
    }

    /// The job for the API.
    pub(crate) fn view(&self, job: Job) -> Result<JobView, JobsError> {
        let mut details = JobDetails(&self.this.reader()).of([job.id.as_str()])?;
        let details = details.remove(&job.id).unwrap_or_default();
        self.view_of(job, details)
    }

    /// The jobs for the API, in their order. Their details are read for all together.
    pub(crate) fn views(&self, jobs: Vec<Job>) -> Result<Vec<JobView>, JobsError> {
        let ids = jobs.iter().map(|job| job.id.as_str());
        let mut details = JobDetails(&self.this.reader()).of(ids)?;
        let view = |job: Job| {
            let details = details.remove(&job.id).unwrap_or_default();
            self.view_of(job, details)
        };
        jobs.into_iter().map(view).collect()
    }

    fn view_of(&self, mut job: Job, details: Details) -> Result<JobView, JobsError> {
        let kind = details.kind.as_deref().and_then(JobKind::from_name);
        let kind = kind.unwrap_or(JobKind::Copy);
        let destinations = match details.children {
            Some((total, complete)) => Some(DestinationCount {
                total,
                complete,
                gather: Families(&self.this.reader()).gathers(&job.id)?,
            }),
            None => None,
        };
        let (progress, ended) = match destinations {
            Some(_) => self.of_children(&job.id)?,
            None => self.with_relays(&job, &details)?,
        };
        if destinations.is_none()
            && let Some(reason) = why(&job, &self.nodes, self.at)
        {
            job.reason = Some(reason);
        }
        let buffered = buffered(self.this, &job);
        Ok(JobView {
            destinations,
            parent: details.parent,
            buffered,
            ..documents::job(job, kind, progress, ended)
        })
    }

    /// The progress of the parents of these jobs.
    pub(crate) fn parents(&self, running: &[JobProgress]) -> Result<Vec<JobProgress>, JobsError> {
        let reader = self.this.reader();
        let mut parents = BTreeSet::new();
        for one in running {
            parents.extend(Families(&reader).parent(&one.id)?);
        }
        let mut all = Vec::with_capacity(parents.len());
        for id in parents {
            let (progress, _) = self.of_children(&id)?;
            all.extend(progress.map(|progress| JobProgress { id, progress }));
        }
        Ok(all)
    }

    /// The progress of all children of a job together, and the amounts of their ended attempts.
    fn of_children(&self, parent: &str) -> Result<(Option<ProgressView>, Moved), JobsError> {
        let reader = self.this.reader();
        let children = Families(&reader).children(parent)?;
        let ids = children.iter().map(|child| child.id.as_str());
        let mut details = JobDetails(&reader).of(ids)?;
        let mut parts = Vec::with_capacity(children.len());
        for child in children {
            let details = details.remove(&child.id).unwrap_or_default();
            let (progress, ended) = self.with_relays(&child, &details)?;
            parts.push(Part {
                state: child.state,
                ended,
                progress,
            });
        }
        let ended = parts.iter().map(|part| part.ended);
        let ended = ended.fold(Moved::default(), Moved::plus);
        Ok((together::progress(&parts), ended))
    }

    /// [`Self::amounts`] of a job with the relays for which it waits: their progress is its own.
    fn with_relays(
        &self,
        job: &Job,
        details: &Details,
    ) -> Result<(Option<ProgressView>, Moved), JobsError> {
        let (progress, mut ended) = self.amounts(job, details);
        let why = job.reason.as_ref().map(|why| &why.code);
        if !job.state.waits() || why.is_none_or(|code| *code != FailureCode::Relaying) {
            return Ok((progress, ended));
        }
        let reader = self.this.reader();
        let relays = Families(&reader).relays(job)?;
        let ids = relays.iter().map(|relay| relay.id.as_str());
        let mut details = JobDetails(&reader).of(ids)?;
        let mut running = None;
        for relay in &relays {
            let details = details.remove(&relay.id).unwrap_or_default();
            let (progress, moved) = self.amounts(relay, &details);
            ended = ended.plus(moved);
            if let Some(progress) = progress {
                running = Some((relay, progress));
            }
        }
        let Some((relay, progress)) = running else {
            return Ok((None, ended));
        };
        // The relay of a complete copy counts all files, also those that are there.
        if Pair::of(relay).is_none_or(|pair| pair.round.is_none()) {
            return Ok((Some(progress), ended));
        }
        let whole = self.whole_set(job)?;
        Ok((Some(of_round(progress, ended, whole)), ended))
    }

    /// Bytes and files of the data set, as far as the running siblings of a job know.
    fn whole_set(&self, job: &Job) -> Result<(Option<u64>, u64), JobsError> {
        let reader = self.this.reader();
        let siblings = match Families(&reader).parent(&job.id)? {
            Some(parent) => Families(&reader).children(&parent)?,
            None => Vec::new(),
        };
        let running: Vec<ProgressView> = siblings
            .iter()
            .filter_map(|one| self.progress(one))
            .collect();
        let bytes = running.iter().filter_map(|one| one.bytes_total).max();
        let files = running.iter().map(|one| one.files_total).max();
        Ok((bytes, files.unwrap_or(0)))
    }

    /// [`Self::amounts`] of one job whose details are not read yet.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub(crate) fn amounts_of(&self, job: &Job) -> Result<(Option<ProgressView>, Moved), JobsError> {
        let mut details = JobDetails(&self.this.reader()).of([job.id.as_str()])?;
        let details = details.remove(&job.id).unwrap_or_default();
        Ok(self.amounts(job, &details))
    }

    /// The progress of an ordinary job, and the amounts of its attempts that this does not include.
    fn amounts(&self, job: &Job, details: &Details) -> (Option<ProgressView>, Moved) {
        let progress = self.progress(job);
        let ended = match progress.is_some() {
            true => details.moved_before,
            false => details.moved,
        };
        (progress, ended)
    }

    /// The progress of a job that runs here or at another node of the cluster.
    fn progress(&self, job: &Job) -> Option<ProgressView> {
        let runner = job.runner.as_ref()?;
        match runner.node == self.this.name {
            true => self.live.progress(&job.id),
            false => self.remote.progress(&job.id),
        }
    }
}

/// The progress of a destination in a round, after earlier ones, towards the whole data set.
fn of_round(round: ProgressView, before: Moved, whole: (Option<u64>, u64)) -> ProgressView {
    let done = before.plus(round.moved);
    let (bytes_total, files_total) = whole;
    ProgressView {
        bytes: done.bytes,
        bytes_total: bytes_total.map(|total| total.max(done.bytes)),
        files: done.files,
        files_total: files_total.max(done.files),
        files_settled: done.files,
        forecast: None,
        scanning: bytes_total.is_none(),
        ..round
    }
}

/// Why the job waits now, if the reason differs from the stored one.
fn why(job: &Job, nodes: &Nodes, at: Timestamp) -> Option<Reason> {
    if !job.state.waits() || job.not_before.is_some_and(|time| time > at) {
        return None;
    }
    if let Some(nobody) = nodes.nobody(job) {
        // A mount that hangs is why no node reaches the export.
        let is_reported = nobody.code == NO_NODE && away::is_reported(job);
        return (!is_reported).then_some(nobody);
    }
    let code = job.reason.as_ref()?.code.known()?;
    let is_over = matches!(code, reason::NOT_BEFORE | NO_NODE | NODES_DRAINED);
    is_over.then(|| Reason::new(reason::WAITING, "The job waits for a node."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::nodes::tests::{job, lone};

    #[test]
    fn a_round_counts_towards_the_whole_data_set() {
        let moved = |bytes: u64, files: u64| Moved {
            bytes,
            files,
            bytes_again: 0,
        };
        let round = ProgressView {
            bytes: 40,
            bytes_total: Some(40),
            files: 4,
            files_total: 4,
            moved: moved(40, 4),
            ..ProgressView::default()
        };
        let shown = of_round(round, moved(60, 6), (Some(500), 50));
        assert_eq!((shown.bytes, shown.bytes_total), (100, Some(500)));
        assert_eq!((shown.files, shown.files_total), (10, 50));
        assert!(!shown.scanning);
    }

    #[test]
    fn a_reason_that_is_over_is_not_shown() {
        let at = Timestamp(1_000);
        let code = |job: &Job, exports: &[&str]| {
            why(job, &lone(exports), at).and_then(|reason| reason.code.known())
        };
        let mut waits = job("1", "/data/x");
        waits.not_before = Some(Timestamp(900));
        for (before, shown) in [
            (reason::NOT_BEFORE, Some(reason::WAITING)),
            (NO_NODE, Some(reason::WAITING)),
            (FailureCode::Unreachable, None),
        ] {
            waits.reason = Some(Reason::new(before, "Before."));
            assert_eq!(code(&waits, &["data"]), shown, "{before}");
            assert_eq!(code(&waits, &[]), Some(NO_NODE), "{before}");
        }
        waits.not_before = Some(Timestamp(1_001));
        assert_eq!(code(&waits, &[]), None, "the time has not come");
    }
}
