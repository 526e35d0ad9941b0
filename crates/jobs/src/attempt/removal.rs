//! Has the files of a job's source removed once all destinations have ended: proves the copy of each, waits for the others, and counts copies.
//! Removes nothing itself (`godwit_run::removal`), and decides neither who may have it nor who removes (`basis::removal`).
//!
//! A destination that ended complete or partial with a manifest has proven its copy: its site has read it once more and found each file of
//! the manifest. The digest of the manifest is in the summary of the job, so no other manifest counts.

mod copies;
mod figures;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::endpoint::Endpoint;
use godwit_api::event::{EventSink, Summary, Verdict};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::grant::lasting::{Lasting, Look};
use godwit_api::rest::{JobState, Place};
use godwit_run::local::Access;
use godwit_run::removal::{Permit, Removed, Within, directories, mark, remove};
use godwit_run::{Env, Fence, Runner};
use godwit_state::{
    Agreed, AuditEntry, AuditOutcome, FailureGroup, Families, Finish, Job, JobOp, Op, Outcome,
    ProposeError, Reason,
};

use super::events::EXAMPLES_MAX;
use super::relay::{Checks, First};
use crate::basis::clock::random_text;
use crate::basis::relay;
use crate::basis::removal::{Come, Turn, check_site, turn};
use crate::basis::spec;
use crate::basis::stored::Stored;
use crate::basis::words::clip;
use crate::rights::access;
use copies::{CopyAt, Counted};
use figures::words;

/// Between two looks at the other destinations of the job.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A job that has files of its source removed.
struct Wished {
    stored: Stored,
    /// Least number of copies.
    copies: u32,
}

/// The removal at the source of the job that these checks belong to.
pub(super) struct Removal<'a>(pub(super) &'a Checks<'a>);

impl Removal<'_> {
    /// Has the site of the destination read its copy once more, and compares it with the manifest of the transfer that has just ended.
    pub(super) fn prove(&self, summary: &Summary) -> Result<(), Failure> {
        let Some(wished) = self.wishes_removal()? else {
            return Ok(());
        };
        let Summary::Transfer(done) = summary else {
            return Ok(());
        };
        if done.manifest.is_none() {
            return Err(Failure::new(
                FailureCode::ReportUnusable,
                "the transfer wrote no manifest, so nothing is removed at the source",
            ));
        }
        let place = self.copy_of(&self.0.job.id, &wished.stored);
        let place = place.map_err(|why| Failure::new(FailureCode::ReportUnusable, why))?;
        self.0.events.enter(JobState::Verifying);
        self.0.events.note(
            "the site of the destination reads the copy once more, before files may be removed at the source",
        );
        let manifest = godwit_history::manifest_path(&self.0.asking.this.directory, &self.0.job.id);
        match self.first_difference(&wished.stored, &place, &manifest)? {
            None => Ok(()),
            Some(first) => Err(Failure::new(
                FailureCode::Different,
                format!(
                    "the copy is not what the source has, so nothing is removed at the source; the setting checksum copies files again that only look equal: {first}"
                ),
            )),
        }
    }

    /// The place that has the copy of a job, as its attempts found out.
    fn copy_of(&self, job: &str, stored: &Stored) -> Result<Place, String> {
        let reader = self.0.asking.this.reader();
        let placed = Agreed(&reader).placed(job);
        let into = placed.map_err(|error| error.to_string())?.into;
        let root = relay::root(&stored.new, into, false).filter(|root| root.is_known);
        let place = root.map(|root| root.place).ok_or_else(|| {
            "this node does not know which directory has the copy, so nothing is removed at the source: end the destination with a slash, and submit the job again".to_owned()
        })?;
        // A node may have joined the site since the submission.
        let site = stored.site(&reader, &place.site);
        let site = site.map_err(|error| error.to_string())?;
        site.as_ref().map_or(Ok(()), check_site)?;
        Ok(place)
    }

    /// The first entry of a copy that is not as the manifest of this job has it.
    fn first_difference(
        &self,
        stored: &Stored,
        copy: &Place,
        manifest: &Path,
    ) -> Result<Option<String>, Failure> {
        let mut prepared = self.0.prepare(stored, copy, false)?;
        prepared.spec.sources = vec![Endpoint::Local(manifest.to_owned())];
        prepared.spec.imposed.manifest = Some(manifest.to_owned());
        // A copy may be older than this job, and written without a sync.
        prepared.spec.imposed.durable = true;
        let env = Env {
            label: Some(format!("job {}", self.0.job.id)),
            ..(self.0.make_env)(&prepared.sites)
        };
        let first = Arc::new(First::default());
        let events: Arc<dyn EventSink> = Arc::clone(&first) as Arc<dyn EventSink>;
        match Runner::check(&prepared.spec, &env, &events, self.0.control)? {
            Summary::Verify(summary) if summary.status == Verdict::Same => Ok(None),
            _ => Ok(Some(first.words())),
        }
    }

    /// Removes files of the source if this destination is the last one of its job to end. `finish` is the end that it will report.
    pub(super) fn remove(&self, fence: &dyn Fence, finish: &mut Finish) {
        let wished = match self.wishes_removal() {
            Ok(None) => return,
            Ok(Some(wished)) => wished,
            Err(failure) => return self.stays(finish, &failure.message),
        };
        match self.is_last(finish.epoch) {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => return self.stays(finish, &why),
        }
        match self.remove_proven(&wished, fence, finish) {
            Ok(Some(removed)) => self.tell_removed(&removed, wished.copies, finish),
            Ok(None) => {}
            Err(why) => self.stays(finish, &why),
        }
    }

    /// The wish of the owner; None for a job without, and for a job of another node.
    fn wishes_removal(&self) -> Result<Option<Wished>, Failure> {
        let reader = self.0.asking.this.reader();
        let stored = Stored::of(&reader, &self.0.job.id).map_err(Failure::local)?;
        if stored.guest.is_some() {
            return Ok(None);
        }
        let copies = stored.new.remove_source_after;
        Ok(copies.map(|copies| Wished { stored, copies }))
    }

    fn goes_on(&self) -> bool {
        !self.0.control.is_cancelled() && !self.0.asking.this.is_stopping()
    }

    /// Whether all other destinations of the job have ended, or end before this one. Waits for them only if none is left behind.
    fn is_last(&self, epoch: u64) -> Result<bool, String> {
        let this = &self.0.asking.this;
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let parent = Families(&this.reader()).parent(&self.0.job.id);
        let Some(parent) = parent.map_err(|error| text(&error))? else {
            return Ok(self.goes_on());
        };
        let mut wanted = Come::Ends;
        while self.goes_on() {
            let children = Families(&this.reader()).children(&parent);
            let children = children.map_err(|error| text(&error))?;
            let Some(own) = children.iter().find(|child| child.id == self.0.job.id) else {
                return Ok(false);
            };
            if !own.state.moves() {
                return Ok(false);
            }
            // All reports before this one are in what this node reads once it reads this one.
            if Come::of(own) != wanted {
                let report = JobOp::Report {
                    epoch,
                    state: own.state,
                    reason: Some(Reason::new(wanted.code(), says(wanted))),
                };
                if let Err(ProposeError::Refused(_)) = this.propose_for(&own.id, report) {
                    return Ok(false);
                }
                thread::sleep(LOOK_EVERY / 10);
                continue;
            }
            let others = children.iter().filter(|child| child.id != own.id);
            let others: Vec<_> = others
                .map(|child| (child.id.as_str(), Come::of(child)))
                .collect();
            match turn(&own.id, &others, wanted == Come::Waits) {
                Turn::End => return Ok(false),
                Turn::Remove => return Ok(true),
                Turn::Wait if wanted == Come::Waits => thread::sleep(LOOK_EVERY),
                Turn::Wait => wanted = Come::Waits,
            }
        }
        Ok(false)
    }

    /// Removes the files that have enough proven copies; None if too few copies were proven at all.
    fn remove_proven(
        &self,
        wished: &Wished,
        fence: &dyn Fence,
        finish: &Finish,
    ) -> Result<Option<Removed>, String> {
        let Counted {
            mut proofs,
            places,
            trouble,
        } = self.proofs(finish)?;
        if u64::from(wished.copies) > proofs.len() as u64 {
            if let Some(trouble) = trouble {
                return Err(trouble);
            }
            self.0.events.note(&format!(
                "nothing is removed at the source: {} of the {} copies that were asked for are proven; retry the job",
                proofs.len(),
                wished.copies
            ));
            return Ok(None);
        }
        let (sources, _) = spec::places(&wished.stored.new).map_err(|error| error.to_string())?;
        let [place] = sources.as_slice() else {
            return Err("the job has several sources".to_owned());
        };
        let path = place.below_site();
        let source = self.0.exported.source(Path::new(&path), Access::default());
        let source = source.map_err(|error| error.to_string())?;
        let directories = directories(&mut proofs, wished.copies)?;
        let marks = mark(&source, &directories, &random_text())?;
        self.find_no_mark(&places, &directories, &marks.name())?;
        marks.check()?;
        // A right that held at the submission, or at the start, may have been revoked. The own copy need not be one that counts.
        let jobs = places.iter().map(|copy| &copy.job).chain([self.0.job]);
        self.check_owner(jobs)?;
        self.audit(place)?;
        self.0.events.note(
            "all destinations have ended; files with enough copies are removed at the source",
        );
        let lasting = RefCell::new(Lasting::new(Instant::now()));
        let look = || access::look(self.0.rights, self.0.job);
        let is_allowed = || {
            let mut right = lasting.borrow_mut();
            right.holds(Instant::now(), &look, &thread::sleep)
        };
        let permit = Permit {
            holds: &|| self.goes_on() && is_allowed() && fence.holds(),
            goes_on: &|| self.goes_on(),
        };
        let proofs = (proofs.as_mut_slice(), wished.copies);
        let removed = remove(&source, proofs, &marks, &permit);
        let end = lasting.borrow_mut().take_end();
        if let Some(Look::Gone(why) | Look::Unread(why)) = end {
            self.0
                .events
                .note(&clip(&format!("no more files are removed: {why}")));
        }
        removed.map(Some)
    }

    /// Whether the owner may still run these jobs, and so use their source and copies. Nothing goes while the rights cannot be read.
    fn check_owner<'j>(&self, jobs: impl IntoIterator<Item = &'j Job>) -> Result<(), String> {
        jobs.into_iter()
            .try_for_each(|job| match access::look(self.0.rights, job) {
                Look::Holds => Ok(()),
                Look::Gone(why) | Look::Unread(why) => Err(why),
            })
    }

    /// Refuses copies that may be the source itself: one shows a mark of a directory that loses files.
    fn find_no_mark(
        &self,
        copies: &[CopyAt],
        directories: &BTreeSet<Within>,
        name: &str,
    ) -> Result<(), String> {
        for copy in copies {
            self.check_owner([&copy.job])?;
            for within in directories {
                if !self.goes_on() {
                    return Err("interrupted".to_owned());
                }
                let place = beside(&copy.place, within.as_deref(), name);
                match self.0.exists(&copy.stored, &place) {
                    Ok(false) => {}
                    Ok(true) => {
                        return Err(format!(
                            "{place} is a mark in the source, so this copy is the source itself by another mount; name another destination"
                        ));
                    }
                    Err(failure) => return Err(failure.message),
                }
            }
        }
        Ok(())
    }

    /// Writes the line of the audit log. Nothing is removed without it.
    fn audit(&self, source: &Place) -> Result<(), String> {
        let entry = AuditEntry {
            action: "job.remove_source".to_owned(),
            object: audited(&self.0.job.id, &self.0.job.owner, source),
            outcome: AuditOutcome::Done,
        };
        let done = self.0.asking.this.propose(Op::Audit(entry));
        done.map(drop).map_err(|error| error.to_string())
    }

    /// Writes what was removed into the log of the job and into its end.
    fn tell_removed(&self, removed: &Removed, copies: u32, finish: &mut Finish) {
        let text = words(removed, copies);
        self.0.events.note(&clip(&text));
        if removed.left() == 0 && !removed.stopped {
            if finish.outcome == Outcome::Complete && finish.reason.is_none() {
                let text = format!("The whole job is done. {text}");
                finish.reason = Some(Reason::new(FailureCode::Complete, clip(&text)));
            }
            return;
        }
        let all = [&removed.changed, &removed.few, &removed.failed];
        let examples = all.iter().flat_map(|named| &named.names);
        let examples = examples.take(EXAMPLES_MAX).map(|name| clip(name));
        leave(finish, &text, removed.left(), examples.collect());
    }

    /// Nothing more is removed, for this reason.
    fn stays(&self, finish: &mut Finish, why: &str) {
        let text = format!("Files at the source were not removed: {why}");
        self.0.events.note(&clip(&text));
        leave(finish, &text, 0, Vec::new());
    }
}

/// The end of an attempt whose removal ended by a fault of this program.
pub(super) fn broke(finish: &mut Finish) {
    let text = "The removal at the source ended by a fault of this program; see the node's log.";
    leave(finish, text, 0, Vec::new());
}

/// Has a job end partially because files of its source stay. A worse end keeps its reason.
fn leave(finish: &mut Finish, text: &str, count: u64, examples: Vec<String>) {
    let reason = Reason::new(FailureCode::NotDeleted, clip(text));
    if count > 0 {
        finish.failures.push(FailureGroup {
            reason: reason.clone(),
            count,
            examples,
        });
    }
    match (finish.outcome, &mut finish.reason) {
        (Outcome::Complete, own) => {
            finish.outcome = Outcome::Partial;
            *own = Some(reason);
        }
        (Outcome::Partial, Some(own)) => own.text = clip(&format!("{} {text}", own.text)),
        _ => {}
    }
}

/// The place of a name in a directory of a copy; None is the directory that contains the copy of a single file.
fn beside(copy: &Place, within: Option<&[u8]>, name: &str) -> Place {
    let whole = copy.path.as_slice();
    let above = || {
        let slash = whole.iter().rposition(|byte| *byte == b'/');
        slash.and_then(|at| whole.get(..at)).unwrap_or_default()
    };
    let mut path = match within {
        Some(_) => whole.to_vec(),
        None => above().to_vec(),
    };
    for part in [within.unwrap_or_default(), name.as_bytes()] {
        if !path.is_empty() && !part.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(part);
    }
    Place {
        path,
        ..copy.clone()
    }
}

/// The object of the audit line. The node acts, so the line names the owner here.
fn audited(job: &str, owner: &str, source: &Place) -> String {
    clip(&format!("{job} of {owner}: {source}"))
}

/// The words of a destination that reports how far it has come.
const fn says(come: Come) -> &'static str {
    match come {
        Come::Waits => {
            "The copy is done. Files at the source are removed when all destinations have ended."
        }
        _ => "The attempt ends. Files at the source stay for now.",
    }
}

#[cfg(test)]
mod tests;
