//! Checks both ends of a relay by the digests that the transfer from the source to the giving destination recorded. The giver's
//! copy is checked before the relay. The taker's copy is checked by its site after the relay.
//! Moves no data, and chooses no giver: `queue::relay` does.

mod kept;
mod room;
mod rounds;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use godwit_api::ask::{Answer, Question, Refusal, code};
use godwit_api::endpoint::Endpoint;
use godwit_api::event::{Event, EventSink, Status, Summary, Verdict};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::{JobState, NewJob, Place, Relay};
use godwit_run::local::{Access, ExportedFiles};
use godwit_run::{Control, Env, Runner};
use godwit_state::{Agreed, Families, Job, JobOp, Outcome};

use super::{AttemptEvents, MakeEnv};
use crate::asking::{Asking, reached};
use crate::basis::documents::exported_path;
use crate::basis::ends::place_at;
use crate::basis::error::JobsError;
use crate::basis::relay::{self, Pair, RETRY_FOR};
use crate::basis::spec::{self, Prepared};
use crate::basis::stored::Stored;
use crate::rights::{Rights, access};
use room::Room;
use rounds::Rounds;

/// How long the site of the taker may take to look for one entry.
const WITHIN: Duration = Duration::from_secs(10);

/// The parts for the checks of one attempt.
pub(super) struct Checks<'a> {
    pub(super) rights: &'a Rights,
    pub(super) asking: &'a Arc<Asking>,
    pub(super) exported: &'a dyn ExportedFiles,
    pub(super) make_env: &'a MakeEnv,
    pub(super) job: &'a Job,
    pub(super) control: &'a Control,
    pub(super) events: &'a Arc<AttemptEvents>,
}

/// A relay with its two ends.
struct Ends {
    /// The relay brings the files that are whole at the giver, whose copy is not complete.
    is_round: bool,
    giver: Job,
    taker: Job,
    stored: Stored,
    from: Place,
    to: Place,
}

impl Checks<'_> {
    /// Checks the giver before data moves; does nothing for any other job than a relay.
    pub(super) fn before(&self) -> Result<(), Failure> {
        let Some(ends) = self.ends()? else {
            return Ok(());
        };
        self.check_rights(&ends)?;
        self.check_root(&ends)?;
        if ends.is_round {
            // No digests exist yet. The relay of the complete copy compares what the rounds have brought.
            Rounds(self).check_readable(&ends)?;
            Rounds(self).check_new(&ends)?;
            return Room(self).reserve(&ends);
        }
        Room(self).reserve(&ends)?;
        self.check_answer(&ends)?;
        let giver = relay::words(&ends.giver);
        self.events.note(&format!(
            "before {giver} gives its data, its files are compared with the digests of the source"
        ));
        match self.difference(&ends, &ends.from, true)? {
            None => Ok(()),
            Some(first) => Err(Failure::new(
                FailureCode::RelayChanged,
                format!("{giver} does not have exactly what the source sent it: {first}"),
            )),
        }
    }

    /// Notes before the first data that a destination is new, if others take files there.
    pub(super) fn note_new(&self) {
        Rounds(self).note_new();
    }

    /// Checks the taker after the transfer here, if everything has arrived. Has the copies of any job sealed if the job asks
    /// for it.
    pub(super) fn after(&self, summary: &Summary) -> Result<(), Failure> {
        match summary {
            Summary::Transfer(summary) if summary.status == Status::Complete => {
                self.arrived().and_then(|()| self.seal())
            }
            _ => {
                self.leave_unsealed();
                Ok(())
            }
        }
    }

    /// Checks the copy, too, but for a transfer of another site: `op` is the end that this site reported.
    pub(super) fn after_site(&self, op: Option<&JobOp>) -> Result<(), Failure> {
        match op {
            Some(JobOp::Finish(finish)) if finish.outcome == Outcome::Complete => {
                self.arrived().and_then(|()| self.seal())
            }
            _ => Ok(()),
        }
    }

    /// The site of the taker reads its copy itself, so the giver cannot answer for it.
    fn arrived(&self) -> Result<(), Failure> {
        let Some(ends) = self.ends()?.filter(|ends| !ends.is_round) else {
            return Ok(());
        };
        self.check_rights(&ends)?;
        self.events.enter(JobState::Verifying);
        match self.difference(&ends, &ends.to, false)? {
            None => {
                self.events
                    .note("all files that arrived have the digests of the source");
                Rounds(self).note_replaced(&ends);
                self.keep_digests(&ends);
                Ok(())
            }
            Some(first) => Err(Failure::new(
                FailureCode::RelayWrong,
                format!(
                    "{} gave other data than the source had sent it, and gives none to this job's destinations any more: {first}",
                    relay::words(&ends.giver)
                ),
            )),
        }
    }

    /// Lets the taker give its data to others, if destinations pass the data on: its copy was just found to be that of the giver.
    fn keep_digests(&self, ends: &Ends) {
        let this = &self.asking.this;
        let passes_on =
            relay::wish(&this.reader(), &ends.taker).is_ok_and(|wish| wish == Relay::First);
        if passes_on
            && let Err(error) = kept::hand_on(&this.directory, &ends.giver.id, &ends.taker.id)
        {
            // Others take the data from elsewhere.
            self.events.note(&format!(
                "the digests of the data could not be kept, so this destination gives it to no other one: {error}"
            ));
        }
    }

    /// The ends of a relay; None for any other job.
    fn ends(&self) -> Result<Option<Ends>, Failure> {
        let Some(pair) = Pair::of(self.job) else {
            return Ok(None);
        };
        let read = || -> Result<Option<Ends>, JobsError> {
            let reader = self.asking.this.reader();
            let ends = (reader.job(&pair.taker)?, reader.job(&pair.giver)?);
            let (Some(taker), Some(giver)) = ends else {
                return Ok(None);
            };
            let parent = Families(&reader).parent(&taker.id)?;
            let are_kin = parent.is_some() && parent == Families(&reader).parent(&giver.id)?;
            let owners = [&taker.owner, &giver.owner];
            if !are_kin || owners.iter().any(|owner| **owner != self.job.owner) {
                return Ok(None);
            }
            let stored = Stored::of(&reader, &self.job.id)?;
            let (sources, to) = spec::places(&stored.new)?;
            let from = sources.first().map(relay::plain);
            Ok(from.map(|from| Ends {
                is_round: pair.round.is_some(),
                giver,
                taker,
                from,
                to: relay::plain(&to),
                stored,
            }))
        };
        match read().map_err(Failure::local)? {
            Some(ends) => Ok(Some(ends)),
            None => Err(Failure::new(
                FailureCode::RelayChanged,
                "the destinations that this job connects are no longer those of one job",
            )),
        }
    }

    /// Both places are read by the owner's rights, as they are now.
    fn check_rights(&self, ends: &Ends) -> Result<(), Failure> {
        let there = access::There::of(&ends.stored.new);
        let read = [ends.from.clone(), ends.to.clone()];
        let owner = (self.job.owner.as_str(), ends.stored.role);
        match access::check_owner(self.rights, owner, there, &read, &ends.to) {
            Ok(()) => Ok(()),
            Err(JobsError::Forbidden { detail, .. }) => {
                Err(Failure::new(FailureCode::AccessDenied, detail))
            }
            Err(error) => Err(Failure::local(error)),
        }
    }

    /// Refuses a place of the taker that a later attempt from the source would understand otherwise.
    fn check_root(&self, ends: &Ends) -> Result<(), Failure> {
        let reader = self.asking.this.reader();
        let read = || -> Result<_, JobsError> {
            let new = Stored::of(&reader, &ends.taker.id)?.new;
            let placed = Agreed(&reader).placed(&ends.taker.id)?;
            let (_, destination) = spec::places(&new)?;
            let destination = relay::plain(&destination);
            // The relay was submitted with the guess.
            let guess = ends.to != destination;
            let root = relay::root(&new, placed.into, guess);
            // An earlier relay looked, and may have made the directory since.
            let left = relay::left(&reader, &ends.taker)?;
            let has_looked = relay::has_begun(&reader, self.job)?
                || left.is_some_and(|left| left.has_begun && left.into == Some(guess));
            Ok((root, destination, guess, has_looked))
        };
        let (root, destination, guess, has_looked) = read().map_err(Failure::local)?;
        let is_right = match root {
            None => false,
            Some(root) if root.place != ends.to => false,
            Some(root) if root.is_known || has_looked => true,
            Some(_) => self.exists(&ends.stored, &destination)? == guess,
        };
        match is_right {
            true => Ok(()),
            false => Err(Failure::new(
                FailureCode::RelayChanged,
                "another place would be written than from the source",
            )),
        }
    }

    /// Whether an entry has the name of a place.
    pub(super) fn exists(&self, stored: &Stored, place: &Place) -> Result<bool, Failure> {
        let failed = |what: &dyn std::fmt::Display| {
            Failure::new(FailureCode::DestinationUnusable, format!("{place}: {what}"))
        };
        if place.is_here() {
            let path = exported_path(place);
            let found = self.exported.destination(&path, Access::default());
            let found = found.map_err(|error| failed(&error))?;
            let meta = found.storage.stat(&found.base);
            return Ok(meta.map_err(|error| failed(&error))?.is_some());
        }
        let reader = self.asking.this.reader();
        let site = stored
            .site(&reader, &place.site)
            .and_then(|site| site.ok_or_else(|| spec::unknown_site(&place.site)))
            .map_err(Failure::local)?;
        let path = place.below_exports();
        let goes_on = || !self.control.is_cancelled();
        let refused = |no: Refusal| {
            let code = no.code.known().unwrap_or(FailureCode::PeerFailed);
            Failure::new(code, format!("{place}: {}", no.message))
        };
        let living = reached::living(self.asking, site, &path, &goes_on).map_err(refused)?;
        let node = reached::peer(&living.site);
        let question = Question::Stat { path: Text(path) };
        match reached::ask(self.asking, &node, &question, WITHIN, &goes_on) {
            Ok(Answer::Entry(_)) => Ok(true),
            Ok(_) => Err(failed(&"the site answered another question")),
            Err(no) if no.code == code::NOT_FOUND => Ok(false),
            Err(no) => Err(refused(no)),
        }
    }

    /// Refuses a taker whose site does not let this node check the copy later. The first answer is enough.
    fn check_answer(&self, ends: &Ends) -> Result<(), Failure> {
        let answered = Arc::new(Answered::of(self.control));
        let events: Arc<dyn EventSink> = Arc::clone(&answered) as Arc<dyn EventSink>;
        match self.compare(ends, (&ends.to, false), &events, &answered.ends) {
            // The site has looked at the right before it found nothing.
            Err(failure) if failure.code == FailureCode::NoSource => Ok(()),
            Err(failure) if !answered.ends.is_cancelled() => Err(failure),
            _ => Ok(()),
        }
    }

    /// The first entry of a copy that is not as the source's transfer to the giver recorded it. With `extra`, the copy may have no others.
    fn difference(
        &self,
        ends: &Ends,
        copy: &Place,
        extra: bool,
    ) -> Result<Option<String>, Failure> {
        let first = Arc::new(First::default());
        let events: Arc<dyn EventSink> = Arc::clone(&first) as Arc<dyn EventSink>;
        match self.compare(ends, (copy, extra), &events, self.control)? {
            Summary::Verify(summary) if summary.status == Verdict::Same => Ok(None),
            _ => Ok(Some(first.words())),
        }
    }

    /// Compares a copy with the digests of the source.
    fn compare(
        &self,
        ends: &Ends,
        (copy, extra): (&Place, bool),
        events: &Arc<dyn EventSink>,
        control: &Control,
    ) -> Result<Summary, Failure> {
        let directory = &self.asking.this.directory;
        let kept = godwit_history::open_manifest(directory, &ends.giver.id);
        if kept.map_err(Failure::local)?.is_none() {
            return Err(Failure::new(
                FailureCode::RelayChanged,
                format!(
                    "this node has no digests of what {} has",
                    relay::words(&ends.giver)
                ),
            ));
        }
        let mut prepared = self.prepare(&ends.stored, copy, extra)?;
        let manifest = godwit_history::manifest_path(directory, &ends.giver.id);
        prepared.spec.sources = vec![Endpoint::Local(manifest.clone())];
        prepared.spec.imposed.manifest = Some(manifest);
        let env = Env {
            label: Some(format!("job {}", self.job.id)),
            ..(self.make_env)(&prepared.sites)
        };
        Runner::check(&prepared.spec, &env, events, control)
    }

    /// The description of a check of one of the two copies, with the node of its site that answers now.
    pub(super) fn prepare(
        &self,
        stored: &Stored,
        copy: &Place,
        extra: bool,
    ) -> Result<Prepared, Failure> {
        let mut given = vec![("content-only", "true"), ("retry-for", RETRY_FOR)];
        given.extend(extra.then_some(("extra", "true")));
        let given = given.into_iter();
        let settings = given.map(|(name, value)| (name.to_owned(), vec![Text::from(value)]));
        let new = NewJob {
            kind: JobKind::Verify,
            // Stands for the manifest, which is in no export.
            sources: vec![copy.to_string()],
            destination: copy.to_string(),
            settings: settings.collect(),
            // The manifest has chosen.
            selection: None,
            list: Vec::new(),
            ..stored.new.clone()
        };
        let reader = self.asking.this.reader();
        let goes_on = || !self.control.is_cancelled();
        let away = RefCell::new(None);
        let find = |name: &str| {
            let Some(site) = stored.site(&reader, name)? else {
                return Ok(None);
            };
            let path = place_at(self.job, name);
            match reached::living(self.asking, site.clone(), &path, &goes_on) {
                Ok(living) => Ok(Some(living.site)),
                Err(no) => {
                    away.replace(Some(no.message));
                    Ok(Some(site))
                }
            }
        };
        let prepared = spec::prepare(&new, &find).map_err(Failure::usage)?;
        match away.take() {
            Some(why) => Err(Failure::new(FailureCode::Unreachable, why)),
            None => Ok(prepared),
        }
    }
}

/// Ends a check at its first difference, such as a missing entry, and with its job.
struct Answered {
    ends: Control,
    job: Control,
}

impl Answered {
    fn of(job: &Control) -> Self {
        Self {
            ends: Control::default(),
            job: job.clone(),
        }
    }
}

impl EventSink for Answered {
    fn emit(&self, event: Event) {
        // A check reports its progress twice a second.
        if matches!(event, Event::Different(_)) || self.job.is_cancelled() {
            self.ends.cancel();
        }
    }
}

/// Keeps the first difference that a check reports.
#[derive(Default)]
pub(super) struct First(Mutex<Option<String>>);

impl First {
    pub(super) fn words(&self) -> String {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first
            .clone()
            .unwrap_or_else(|| "its entries differ".to_owned())
    }
}

impl EventSink for First {
    fn emit(&self, event: Event) {
        let text = match event {
            Event::Different(found) => format!(
                "{}: {}",
                String::from_utf8_lossy(&found.path),
                found.message
            ),
            Event::Extra { path } => format!(
                "{}: the source did not send this entry",
                String::from_utf8_lossy(&path)
            ),
            _ => return,
        };
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::event::Progress;

    use super::*;

    #[test]
    fn a_check_that_finds_no_difference_ends_with_its_job() {
        let job = Control::default();
        let answered = Answered::of(&job);
        answered.emit(Event::Progress(Progress::default()));
        assert!(!answered.ends.is_cancelled());
        job.cancel();
        answered.emit(Event::Progress(Progress::default()));
        assert!(answered.ends.is_cancelled());
    }
}
