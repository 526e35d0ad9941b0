//! Owns the view of a caller on jobs: all of own jobs, and of jobs whose places the caller may list; of other jobs an outline. A job that was
//! submitted in a higher role than the caller's is no own job.
//! Reads no request, and decides nothing about changes of jobs.
//!
//! An outline has state, times and figures, and no name of an entry. A path that the caller may not list is `SITE:/EXPORT/…` in it.
//! Documents made of names (log, report, manifest) are refused. An admin sees everything.
//!
//! Another site may have run a job whose sources are there. That site writes its report of the end, with any code. An outline shows none
//! of that text: only codes that the program knows, and the figures of a summary.

mod moved;
mod owned;
mod summary;
mod worded;

use godwit_api::failure::{Code, FailureCode};
use godwit_api::grant::Right;
use godwit_api::rest::{
    AttemptOutcome, AttemptView, FailureGroup, JobList, JobReport, JobState, JobView, LogPage,
    NewJob, Place, Reason, SampleView, WorkView,
};
use godwit_api::settings::{Kind, Scope, Setting};
use godwit_state::{Cursor, JobFilter, Role};

use crate::asking::border;
use crate::asking::manifest::Manifest;
use crate::basis::documents::summary_of_program;
use crate::basis::error::JobsError;
use crate::basis::owners::is_of_site;
use crate::basis::words::is_plain_reason;
use crate::rights::access::Granted;
use crate::service::Jobs;
use crate::views::work::work_of;
use owned::{Meant, Owned};
use summary::figures;
use worded::is_elsewhere;

/// Replaces a path, or a part of it, that the caller may not list.
const HIDDEN: &str = "\u{2026}";

/// Replaces the text of a reason in an outline.
const HIDDEN_REASON: &str =
    "This reason may name entries; it is shown only to users who may list the places of the job.";

/// The jobs of a node, as one caller may see them by the grants of one moment.
pub struct Seen {
    jobs: Jobs,
    granted: Granted,
    meant: Meant,
}

impl Seen {
    /// The jobs as a user of this role sees them.
    ///
    /// # Errors
    /// The grants cannot be read.
    pub fn by(jobs: &Jobs, user: &str, role: Role) -> Result<Self, JobsError> {
        let granted = jobs.access().of(user, role)?;
        Ok(Self {
            jobs: jobs.clone(),
            granted,
            meant: Meant::default(),
        })
    }

    /// The job of that id.
    ///
    /// # Errors
    /// As [`Jobs::job`].
    pub fn job(&self, id: &str) -> Result<JobView, JobsError> {
        self.jobs.job(id).map(|job| self.view(job))
    }

    /// A page of jobs, the newest first.
    ///
    /// # Errors
    /// As [`Jobs::list`].
    pub fn list(
        &self,
        filter: &JobFilter,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<JobList, JobsError> {
        // A filter by label or site reveals the label and the sites of the jobs that it finds. An outline of another site's job shows
        // neither.
        let is_by_words = filter.label.is_some() || filter.site.is_some();
        let filter = JobFilter {
            of_users: filter.of_users || (is_by_words && !self.granted.is_admin()),
            ..filter.clone()
        };
        let page = self.jobs.list(&filter, cursor, limit)?;
        Ok(JobList {
            jobs: page.jobs.into_iter().map(|job| self.view(job)).collect(),
            next: page.next,
        })
    }

    /// The description that the job was submitted with.
    ///
    /// # Errors
    /// As [`JobRecords::description`](crate::JobRecords::description).
    pub fn description(&self, id: &str) -> Result<NewJob, JobsError> {
        let owner = self.jobs.job(id)?.owner;
        let of = self.of_job(&owner, id);
        Ok(self.template(of, self.jobs.records().description(id)?))
    }

    /// The attempts of a job, oldest first.
    ///
    /// # Errors
    /// As [`JobRecords::attempts`](crate::JobRecords::attempts).
    pub fn attempts(&self, id: &str) -> Result<Vec<AttemptView>, JobsError> {
        let job = self.jobs.job(id)?;
        let mut attempts = self.jobs.records().attempts(id)?;
        if !self.is_whole(&job) {
            let outline = |attempt| attempt_of(attempt, is_elsewhere(&job.sources));
            attempts = attempts.into_iter().map(outline).collect();
        }
        Ok(attempts)
    }

    /// The failed entries of a job, grouped by reason; an outline has their numbers.
    ///
    /// # Errors
    /// As [`JobRecords::failures`](crate::JobRecords::failures).
    pub fn failures(&self, id: &str) -> Result<Vec<FailureGroup>, JobsError> {
        let job = self.jobs.job(id)?;
        let mut failures = self.jobs.records().failures(id)?;
        if !self.is_whole(&job) {
            for group in &mut failures {
                HIDDEN_REASON.clone_into(&mut group.reason.text);
                if is_elsewhere(&job.sources) {
                    known_code(&mut group.reason.code);
                }
                group.examples.clear();
            }
        }
        Ok(failures)
    }

    /// A page of the job's log after number `after`, at most `limit` lines.
    ///
    /// # Errors
    /// As [`JobRecords::log`](crate::JobRecords::log); `Forbidden` where the caller sees an outline of the job.
    pub fn log(&self, id: &str, after: u64, limit: usize) -> Result<LogPage, JobsError> {
        self.check(id, "log")?;
        self.jobs.records().log(id, after, limit)
    }

    /// Samples of the job, the oldest first.
    ///
    /// # Errors
    /// As [`JobRecords::samples`](crate::JobRecords::samples).
    pub fn samples(&self, id: &str) -> Result<Vec<SampleView>, JobsError> {
        let mut samples = self.jobs.records().samples(id)?;
        let is_chosen = |sample: &SampleView| {
            let is_named = !sample.nodes.is_empty() || !sample.other_host.is_empty();
            is_named || sample.site.is_some()
        };
        if samples.iter().any(is_chosen) && !self.is_whole(&self.jobs.job(id)?) {
            // Another site chooses the names of its nodes, and of the figures of their hosts.
            for sample in &mut samples {
                moved::unnamed(&mut sample.nodes);
                sample.other_host.clear();
            }
            for sample in samples.iter_mut().filter(|sample| sample.site.is_some()) {
                sample.stages.clear();
                sample.nodes.clear();
                sample.host.clear();
            }
        }
        Ok(samples)
    }

    /// Everything that is known of the job, in one document.
    ///
    /// # Errors
    /// As [`JobRecords::report`](crate::JobRecords::report); `Forbidden` where the caller sees an outline of the job.
    pub fn report(&self, id: &str) -> Result<JobReport, JobsError> {
        self.check(id, "report")?;
        let report = self.jobs.records().report(id)?;
        let job = self.view(report.job);
        Ok(JobReport { job, ..report })
    }

    /// The same as one HTML file that fetches nothing.
    ///
    /// # Errors
    /// As [`Self::report`].
    pub fn report_html(&self, id: &str) -> Result<String, JobsError> {
        Ok(godwit_history::render(&self.report(id)?))
    }

    /// The manifest that the last whole attempt of a job wrote.
    ///
    /// # Errors
    /// As [`JobRecords::manifest`](crate::JobRecords::manifest); `Forbidden` where the caller sees an outline of the job.
    pub fn manifest(&self, id: &str) -> Result<Manifest, JobsError> {
        self.check(id, "manifest")?;
        self.jobs.records().manifest(id)
    }

    /// Whether the caller may still read the manifest of a job.
    ///
    /// # Errors
    /// There is no such job; `Forbidden` where the caller sees an outline of the job.
    pub fn check_manifest(&self, id: &str) -> Result<(), JobsError> {
        self.check(id, "manifest")
    }

    /// The work of a divided job that has not ended.
    ///
    /// # Errors
    /// As [`work_of`].
    pub fn work(&self, id: &str) -> Result<WorkView, JobsError> {
        let is_whole = self.is_whole(&self.jobs.job(id)?);
        let mut work = work_of(&self.jobs, id)?;
        if !is_whole {
            work.roots.clear();
            work.claim.clear();
            // The other site chose these names.
            work.targets.clear();
            work.pairs.iter_mut().for_each(|pair| pair.to.clear());
            work.trouble = work.trouble.take().map(outlined);
        }
        Ok(work)
    }

    /// The job as the caller sees it.
    #[must_use]
    pub fn view(&self, mut job: JobView) -> JobView {
        if self.is_whole(&job) {
            // The owner may have the right to write alone, and others write there, too.
            let place = Place::from_bytes(job.destination.as_bytes()).ok();
            let may_list = place.is_some_and(|place| self.granted.allows(&place, Right::List));
            job.buffered = job.buffered.filter(|_| may_list);
            return job;
        }
        let of = self.of_job(&job.owner, &job.id);
        let sources = of.places(self, &job.sources);
        let destination = of.place(self, &job.destination);
        let is_elsewhere = is_elsewhere(&sources);
        let by = if is_elsewhere && worded::may_be_foreign(&job) {
            foreign
        } else {
            outlined
        };
        // The name of a third site is not the viewer's to read.
        let names_site = |reason: &Reason| {
            is_of_site(&job.owner) && reason.code.is_one_of(&[FailureCode::JobsOfSite])
        };
        let reason = job.reason.map(|reason| match names_site(&reason) {
            true => foreign(reason),
            false => by(reason),
        });
        // The state wrote that of a parent.
        let summary = match is_elsewhere && job.destinations.is_none() {
            true => job.summary.as_ref().and_then(summary_of_program),
            false => job.summary,
        };
        // A list of the fields, so that a new field stays hidden until it is added here.
        JobView {
            label: label_of(&job.owner, job.label),
            id: job.id,
            owner: job.owner,
            kind: job.kind,
            sources,
            destination,
            destinations: job.destinations,
            parent: job.parent,
            state: job.state,
            reason,
            since: job.since,
            next_attempt: job.next_attempt,
            priority: job.priority,
            limit: job.limit,
            not_before: job.not_before,
            deadline: job.deadline,
            attempts: job.attempts,
            node: job.node,
            // A text that the submitter chose.
            request: None,
            created: job.created,
            started: job.started,
            ended: job.ended,
            progress: job
                .progress
                .map(|progress| moved::outline(progress, is_elsewhere)),
            moved: job.moved,
            summary: summary.as_ref().and_then(figures),
            buffered: None,
        }
    }

    /// The description of a job as the caller sees it.
    fn template(&self, of: Owned<'_>, new: NewJob) -> NewJob {
        if of.is_seen(self, places(&new)) {
            return new;
        }
        let settings = new.settings.into_iter().filter(|(name, _)| is_plain(name));
        NewJob {
            kind: new.kind,
            sources: of.places(self, &new.sources),
            destination: of.place(self, &new.destination),
            more_destinations: of.places(self, &new.more_destinations),
            gather: new.gather,
            merge: new.merge,
            label: label_of(of.owner, new.label),
            // Settings that are texts, and rules of a selection, may be names.
            settings: settings.collect(),
            selection: None,
            list: Vec::new(),
            manifest: new.manifest,
            divide: new.divide,
            relay: new.relay,
            remove_source_after: new.remove_source_after,
            priority: new.priority,
            limit: new.limit,
            not_before: new.not_before,
            deadline: new.deadline,
            retries_max: new.retries_max,
        }
    }

    /// Refuses a document made of names if the caller sees only an outline of the job.
    fn check(&self, id: &str, what: &str) -> Result<(), JobsError> {
        let job = self.jobs.job(id)?;
        if self.is_whole(&job) {
            return Ok(());
        }
        let user = self.granted.name();
        Err(JobsError::Forbidden {
            code: FailureCode::NotGranted,
            detail: format!(
                "the {what} of job {id} names entries: only the job's owner {} in the role that submitted it, admins, and users who may list all places of the job can see it. \
                 An admin of the node can grant this to {user} with: godwit access allow user:{user} --list --export NAME:/PATH \
                 (at a site: --site SITE:/EXPORT/PATH)",
                job.owner
            ),
        })
    }

    fn is_whole(&self, job: &JobView) -> bool {
        if self.granted.is_admin() {
            return true;
        }
        let mut places = job.sources.iter().chain([&job.destination]);
        let of = Owned {
            owner: &job.owner,
            is_own: false,
            job: Some(&job.id),
        };
        // The role of the submitter is in the description, which is read only if all else leaves it open.
        let lists = |text: &String| text.parse().is_ok_and(|place| self.may_list(of, &place));
        (places.all(lists) && self.lists_children(job)) || self.of_job(&job.owner, &job.id).is_own
    }

    fn may_list(&self, of: Owned<'_>, place: &Place) -> bool {
        // A site that asked for a job names the other end in its own terms; this node's site of that name may be another one.
        let is_known = place.is_here() || !is_of_site(of.owner);
        let reader = self.jobs.parts.this.reader();
        let is_meant = || {
            let job = of.job.filter(|_| !place.is_here());
            job.is_none_or(|job| self.meant.is(&reader, job, &place.site))
        };
        is_known && self.granted.allows(place, Right::List) && is_meant()
    }
}

impl Owned<'_> {
    /// Whether the caller sees all of a job. This alone decides between the whole and an outline.
    fn is_seen(self, seen: &Seen, mut places: impl Iterator<Item = Option<Place>>) -> bool {
        self.is_own || places.all(|place| place.is_some_and(|place| seen.may_list(self, &place)))
    }

    /// The places as the caller sees them. All hidden places of one export appear as one place.
    fn places(self, seen: &Seen, texts: &[String]) -> Vec<String> {
        let mut shown = Vec::with_capacity(texts.len());
        for text in texts {
            let place = self.place(seen, text);
            if !shown.contains(&place) {
                shown.push(place);
            }
        }
        shown
    }

    /// The place as the caller sees it.
    fn place(self, seen: &Seen, text: &str) -> String {
        let place = text.parse::<Place>();
        if self.is_own || place.as_ref().is_ok_and(|place| seen.may_list(self, place)) {
            return text.to_owned();
        }
        match place {
            // The site that asked for the job calls the other end so.
            Ok(place) if is_of_site(self.owner) && !place.is_here() => HIDDEN.to_owned(),
            Ok(place) if place.path.is_empty() => text.to_owned(),
            Ok(place) => format!("{}:/{}/{HIDDEN}", place.site, place.export),
            Err(_) => HIDDEN.to_owned(),
        }
    }
}

/// The label in an outline. The label of another site's job is left out, because that site wrote the label.
fn label_of(owner: &str, label: String) -> String {
    match is_of_site(owner) {
        true => String::new(),
        false => label,
    }
}

/// The outline of an attempt.
fn attempt_of(attempt: AttemptView, is_elsewhere: bool) -> AttemptView {
    // A runner elsewhere gives reasons for these ends alone.
    let ended = matches!(
        attempt.outcome,
        Some(AttemptOutcome::Backoff | AttemptOutcome::State(JobState::Partial | JobState::Failed))
    );
    let by = if ended && is_elsewhere {
        foreign
    } else {
        outlined
    };
    AttemptView {
        number: attempt.number,
        node: attempt.node,
        started: attempt.started,
        ended: attempt.ended,
        outcome: attempt.outcome,
        reason: attempt.reason.map(by),
        bytes: attempt.bytes,
        files: attempt.files,
        bytes_again: attempt.bytes_again,
    }
}

/// The places of a description.
fn places(new: &NewJob) -> impl Iterator<Item = Option<Place>> {
    let texts = new.sources.iter().chain([&new.destination]);
    let texts = texts.chain(&new.more_destinations);
    texts.map(|text| text.parse().ok())
}

/// The reason without text that may name entries.
fn outlined(reason: Reason) -> Reason {
    if is_plain_reason(&reason.code) {
        return reason;
    }
    Reason {
        text: HIDDEN_REASON.to_owned(),
        ..reason
    }
}

/// The reason without any text that another site may have chosen.
fn foreign(mut reason: Reason) -> Reason {
    known_code(&mut reason.code);
    HIDDEN_REASON.clone_into(&mut reason.text);
    reason
}

/// Keeps a code that the program has. Any other code is a text that another site chose.
fn known_code(code: &mut Code) {
    if code.known().is_none() {
        *code = border::OTHER.into();
    }
}

/// Whether the values of a setting of jobs are figures or words of the program, and no text of the submitter.
fn is_plain(name: &str) -> bool {
    let scopes = [Scope::Cp, Scope::Sync, Scope::Verify];
    let mut found = scopes
        .into_iter()
        .filter_map(|scope| Setting::find(scope, name))
        .peekable();
    let is_text = |kind: &Kind| matches!(kind, Kind::Text { .. } | Kind::List { .. } | Kind::File);
    found.peek().is_some() && found.all(|setting| !is_text(&setting.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_texts_are_distinguished_from_others() {
        for plain in ["dry-run", "streams", "digest", "delete"] {
            assert!(is_plain(plain), "{plain}");
        }
        for text in ["exclude", "manifest", "no-such-setting"] {
            assert!(!is_plain(text), "{text}");
        }
    }
}
