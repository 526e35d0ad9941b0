//! Checks before a round that the site of the taker lets this node read there, because the relay of the complete copy is checked there. Both places
//! must be new. After that relay it notes which rounds had brought wrong data.
//! Reads no file: no digests exist before that relay.

use std::collections::BTreeSet;

use godwit_api::ask::{Question, ReachSite, Refusal, code};
use godwit_api::event::EventSink as _;
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::Text;
use godwit_api::rest::Relay;
use godwit_api::units::human_size;
use godwit_state::{Agreed, JobAmounts, JobState, Site};

use super::{Checks, Ends, WITHIN, kept};
use crate::asking::reached;
use crate::basis::error::JobsError;
use crate::basis::relay::{self, Pair};
use crate::basis::spec;
use crate::basis::stored::Stored;

/// The checks of a round, or of a destination that passes files on.
pub(super) struct Rounds<'a>(pub(super) &'a Checks<'a>);

impl Rounds<'_> {
    /// Notes a destination whose place does not exist yet. Others may take files there before the copy is complete, because all of them will be
    /// the source's.
    pub(super) fn note_new(&self) {
        let reader = self.0.asking.this.reader();
        let passes_on = Pair::of(self.0.job).is_none()
            && relay::wish(&reader, self.0.job).is_ok_and(|wish| wish == Relay::First);
        // A look that fails shows nothing.
        if passes_on && self.is_new().is_ok_and(|is_new| is_new) {
            self.0.events.reports.live.found_new(&self.0.job.id);
        }
    }

    /// Whether nothing has the name of the place that the job will fill.
    fn is_new(&self) -> Result<bool, Failure> {
        let read = || -> Result<_, JobsError> {
            let reader = self.0.asking.this.reader();
            let placed = Agreed(&reader).placed(&self.0.job.id)?;
            Ok((Stored::of(&reader, &self.0.job.id)?, placed.into))
        };
        let (stored, into) = read().map_err(Failure::local)?;
        let Some(root) = relay::root(&stored.new, into, false) else {
            return Ok(false);
        };
        if !self.0.exists(&stored, &root.place)? {
            return Ok(true);
        }
        // The source goes into a directory that exists.
        match relay::root(&stored.new, Some(true), false).filter(|_| !root.is_known) {
            Some(inner) => Ok(!self.0.exists(&stored, &inner.place)?),
            None => Ok(false),
        }
    }

    /// Refuses a taker with entries from before: a round could replace them by entries of the giver.
    pub(super) fn check_new(&self, ends: &Ends) -> Result<(), Failure> {
        let reader = self.0.asking.this.reader();
        let began = relay::rounds_began(&reader, &ends.taker).map_err(Failure::local)?;
        let is_ours = began || self.0.events.reports.live.was_new(&ends.taker.id);
        match is_ours || !self.0.exists(&ends.stored, &ends.to)? {
            true => Ok(()),
            false => Err(Failure::new(
                FailureCode::RelayChanged,
                format!(
                    "{} exists already, so its data comes from a complete copy only",
                    ends.to
                ),
            )),
        }
    }

    /// Refuses a taker whose site does not let this node read the copy later.
    pub(super) fn check_readable(&self, ends: &Ends) -> Result<(), Failure> {
        if ends.to.is_here() {
            return Ok(());
        }
        let taker = self.site_of(ends, &ends.to.site)?;
        let giver = match ends.from.is_here() {
            true => reached::peer(&taker),
            false => reached::peer(&self.site_of(ends, &ends.from.site)?),
        };
        let goes_on = || !self.0.control.is_cancelled();
        let refused = |no: Refusal| {
            let code = match no.code.known() {
                Some(code::NOT_GRANTED | code::PERMISSION) => FailureCode::AccessDenied,
                Some(code) => code,
                None => FailureCode::PeerFailed,
            };
            Failure::new(code, format!("{}: {}", ends.to, no.message))
        };
        let path = ends.to.below_exports();
        let living = reached::living(self.0.asking, taker, &path, &goes_on).map_err(refused)?;
        let node = reached::peer(&living.site);
        // The site checks the right before it connects.
        let question = Question::Reach(ReachSite {
            peer: giver,
            paths: vec![Text(path)],
            write: false,
        });
        match reached::ask(self.0.asking, &node, &question, WITHIN, &goes_on) {
            // The giver may connect to the taker instead.
            Err(no) if no.code != code::UNREACHABLE => Err(refused(no)),
            _ => Ok(()),
        }
    }

    /// Notes the givers of rounds whose data had to come once more. The relay has found by its contents that it was not that of the source.
    pub(super) fn note_replaced(&self, ends: &Ends) {
        let replaced = self.replaced(ends).ok().flatten();
        if let Some((bytes, givers)) = replaced {
            let givers: Vec<String> = givers.into_iter().collect();
            self.0.events.note(&format!(
                "{} from earlier rounds were not what the source has, and were replaced; these rounds took files from {}",
                human_size(bytes),
                givers.join(", ")
            ));
        }
    }

    /// Bytes that came more than once, and the givers of the rounds; None if all came once. A round that failed may have brought a part of a
    /// file, so only complete ones count.
    fn replaced(&self, ends: &Ends) -> Result<Option<(u64, BTreeSet<String>)>, JobsError> {
        let this = &self.0.asking.this;
        let reader = this.reader();
        let (mut bytes, mut givers) = (self.0.events.moved().bytes, BTreeSet::new());
        for (pair, round) in relay::rounds(&reader, &ends.taker)? {
            if round.state != JobState::Complete {
                continue;
            }
            bytes = bytes.saturating_add(JobAmounts(&reader).of(&round.id)?.bytes);
            if let Some(giver) = reader.job(&pair.giver)? {
                givers.insert(relay::words(&giver));
            }
        }
        let total = kept::total(&this.directory, &ends.giver.id);
        let again = total.map_or(0, |total| bytes.saturating_sub(total));
        Ok((again > 0 && !givers.is_empty()).then_some((again, givers)))
    }

    fn site_of(&self, ends: &Ends, name: &str) -> Result<Site, Failure> {
        let reader = self.0.asking.this.reader();
        let site = ends.stored.site(&reader, name);
        site.and_then(|site| site.ok_or_else(|| spec::unknown_site(name)))
            .map_err(Failure::local)
    }
}
