//! Has the copies of a job sealed with ASC MHL histories once they are complete: the site of the destination reads them once more, and writes.
//! Decides neither the kinds of digest nor the directories (`basis::sealing`).

use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, Peer, Question, Refusal, SealPlace, Sealed};
use godwit_api::event::EventSink as _;
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::grant::Right;
use godwit_api::job::Text;
use godwit_api::rest::{JobState, Place};
use godwit_api::units::counted;
use godwit_state::Agreed;

use super::relay::Checks;
use crate::asking::{border, reached};
use crate::basis::relay::plain;
use crate::basis::stored::Stored;
use crate::basis::words::clip;
use crate::basis::{sealing, spec};
use crate::rights::access;

/// How long a site may be busy with other work, such as the copies of other jobs, before the attempt ends.
const BUSY_FOR: Duration = Duration::from_hours(6);

/// How long to wait before a busy site is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Replaces a reason that may name entries of the destination.
const UNNAMED: &str =
    "the history is damaged or cannot be written; the right to list is needed to see why";

/// Files that the log of a job names.
const NAMED_MAX: usize = 10;

/// A job whose copies get histories.
struct Wished {
    stored: Stored,
    kinds: String,
}

impl Checks<'_> {
    /// Asks another site, before data moves, whether it will seal the copies.
    pub(super) fn may_seal(&self) -> Result<(), Failure> {
        // A description that cannot be read is reported by the attempt itself.
        let Ok(Some(wished)) = self.wished() else {
            return Ok(());
        };
        let (_, destination) = spec::places(&wished.stored.new).map_err(Failure::usage)?;
        if destination.is_here() {
            return Ok(());
        }
        let first = self.copies(&wished)?.and_then(|all| all.into_iter().next());
        // Until an attempt has found the directory, the destination is used instead.
        let place = first.unwrap_or_else(|| plain(&destination));
        self.ask_to_seal(&wished, &place, true).map(drop)
    }

    /// Seals the copies, all of whose entries have arrived.
    pub(super) fn seal(&self) -> Result<(), Failure> {
        let Some(wished) = self.wished()? else {
            return Ok(());
        };
        if let Some(why) = access::denied(self.rights, self.job) {
            return Err(Failure::new(FailureCode::AccessDenied, why));
        }
        let Some(copies) = self.copies(&wished)? else {
            return Err(Failure::new(
                FailureCode::ReportUnusable,
                "all entries have arrived, but another site ran the transfer, so this node does not know which directory gets the ASC MHL history: end the destination with a slash, and submit the job again",
            ));
        };
        self.events.enter(JobState::Verifying);
        self.events.note("all entries have arrived; the site of the destination reads the copy once more for its ASC MHL history");
        let mut differing: u64 = 0;
        for place in &copies {
            let Answer::Sealed(sealed) = self.ask_to_seal(&wished, place, false)? else {
                let what = format!("{place}: the site answered another question");
                return Err(Failure::new(FailureCode::PeerFailed, what));
            };
            self.report_sealed(place, &sealed);
            differing = differing.saturating_add(sealed.differing);
        }
        match differing {
            0 => Ok(()),
            _ => Err(Failure::new(
                FailureCode::Different,
                format!(
                    "all entries have arrived and are sealed, but {} from the ASC MHL history that the data had before: see godwit job log {}",
                    match differing {
                        1 => "1 file differs".to_owned(),
                        many => format!("{many} files differ"),
                    },
                    self.job.id
                ),
            )),
        }
    }

    /// Notes that a copy with failed entries gets no history.
    pub(super) fn leave_unsealed(&self) {
        if let Ok(Some(_)) = self.wished() {
            self.events.note(
                "not all entries have arrived, so no ASC MHL history was written; retry the job",
            );
        }
    }

    /// The wish of the owner. None if the owner has none, and for a job of another node: that node has the copies sealed.
    fn wished(&self) -> Result<Option<Wished>, Failure> {
        let reader = self.asking.this.reader();
        let stored = Stored::of(&reader, &self.job.id).map_err(Failure::local)?;
        if stored.guest.is_some() {
            return Ok(None);
        }
        let kinds = sealing::kinds(&stored.new);
        Ok(kinds.map(|kinds| Wished { stored, kinds }))
    }

    fn copies(&self, wished: &Wished) -> Result<Option<Vec<Place>>, Failure> {
        let placed = Agreed(&self.asking.this.reader()).placed(&self.job.id);
        let into = placed.map_err(Failure::local)?.into;
        sealing::copies(&wished.stored.new, into).map_err(Failure::usage)
    }

    /// Asks the node that serves a copy to seal it, or whether it would.
    fn ask_to_seal(&self, wished: &Wished, place: &Place, check: bool) -> Result<Answer, Failure> {
        let question = Question::Seal(SealPlace {
            path: Text(place.below_exports()),
            kinds: wished.kinds.clone(),
            check,
        });
        let goes_on = || !self.control.is_cancelled() && !self.asking.this.is_stopping();
        let node = self.node_of(wished, place, &goes_on)?;
        let until = Instant::now() + BUSY_FOR;
        loop {
            let sites = &self.asking.sites;
            let answer = sites.ask(node.as_ref(), &question, &mut |_| goes_on());
            let answer = match &node {
                Some(node) => border::of_site(&node.name, answer),
                None => answer,
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(no) if no.code == FailureCode::Busy && goes_on() && Instant::now() < until => {
                    thread::sleep(AGAIN_AFTER);
                }
                Err(no) => return Err(failure(place, &self.disclosed(no), goes_on())),
            }
        }
    }

    /// A refusal as the owner of the job may read it.
    fn disclosed(&self, no: Refusal) -> Refusal {
        unnamed(no, || access::may_there(self.rights, self.job, Right::List))
    }

    /// The node of the site that serves a place; None for this node.
    fn node_of(
        &self,
        wished: &Wished,
        place: &Place,
        goes_on: &reached::GoesOn<'_>,
    ) -> Result<Option<Peer>, Failure> {
        if place.is_here() {
            return Ok(None);
        }
        let site = wished
            .stored
            .site(&self.asking.this.reader(), &place.site)
            .and_then(|site| site.ok_or_else(|| spec::unknown_site(&place.site)))
            .map_err(Failure::local)?;
        let living = reached::living(self.asking, site, &place.below_exports(), goes_on)
            .map_err(|no| failure(place, &no, goes_on()))?;
        Ok(Some(reached::peer(&living.site)))
    }

    /// Writes the new generation, and files that differ, to the log of the job.
    fn report_sealed(&self, place: &Place, sealed: &Sealed) {
        let note = |text: &str| self.events.note(&clip(text));
        let file = String::from_utf8_lossy(&sealed.file.0);
        let files = counted(sealed.files, "file");
        note(&format!(
            "sealed {place}: {file} has {files}, {}",
            sealed.identifier
        ));
        if sealed.others > 0 {
            note(&format!(
                "{place}: the history leaves out {} entries that are no files, such as symbolic links",
                sealed.others
            ));
        }
        if sealed.rejoined > 0 {
            note(&format!(
                "{place}: the copied chain was an earlier one; {} of this place are in it again",
                counted(sealed.rejoined, "generation")
            ));
        }
        if !access::may_there(self.rights, self.job, Right::List) {
            return;
        }
        for one in sealed.differences.iter().take(NAMED_MAX) {
            let path = String::from_utf8_lossy(&one.path.0);
            note(&format!("{place}/{path}: {}", one.message));
        }
    }
}

/// A refusal without names of the destination, unless the owner may list it: the site looks at the rights of this node, which may be wider.
/// Lasting reasons that concern the files there have one code.
fn unnamed(no: Refusal, lists: impl FnOnce() -> bool) -> Refusal {
    match no.code == FailureCode::Io && !no.retryable && !lists() {
        true => Refusal::new(FailureCode::Io, UNNAMED),
        false => no,
    }
}

/// The failure of an attempt whose copy is not sealed.
fn failure(place: &Place, no: &Refusal, goes_on: bool) -> Failure {
    if !goes_on {
        return Failure::new(FailureCode::Cancelled, "interrupted by the user");
    }
    let message = format!("{place}: no ASC MHL history: {}", no.message);
    let code = match no.code.known() {
        Some(FailureCode::Unsupported) => {
            return Failure::new(
                FailureCode::ReportUnusable,
                format!(
                    "{place}: the site has an older version, which writes no ASC MHL histories: update it, or leave the setting manifest out"
                ),
            );
        }
        Some(FailureCode::NotGranted) => FailureCode::AccessDenied,
        Some(FailureCode::Unreachable | FailureCode::Broken | FailureCode::GivenUp) => {
            FailureCode::Unreachable
        }
        _ if no.retryable => FailureCode::PeerBusy,
        _ => FailureCode::ReportUnusable,
    };
    Failure::new(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_may_not_list_reads_no_names_of_the_destination() {
        let damaged = Refusal::new(FailureCode::Io, "/in/run/secret.mov: damaged");
        assert_eq!(unnamed(damaged.clone(), || true), damaged);
        let named = unnamed(damaged, || false);
        assert_eq!(
            (named.code, &*named.message),
            (FailureCode::Io.into(), UNNAMED)
        );
        // Reasons of other kinds name the place of the job alone.
        for other in [
            Refusal::new(FailureCode::NotGranted, "you may not write to in/run"),
            Refusal::later(FailureCode::Io, "the export in is away"),
        ] {
            assert_eq!(unnamed(other.clone(), || false), other);
        }
    }

    #[test]
    fn a_site_that_may_answer_later_is_asked_by_another_attempt() {
        let place: Place = "b:/in/run".parse().expect("a place");
        let of = |refusal: Refusal| failure(&place, &refusal, true).code;
        let new = |code| Refusal::new(code, "no");
        assert_eq!(of(new(FailureCode::Broken)), FailureCode::Unreachable);
        let busy = Refusal::later(FailureCode::Busy, "later");
        assert_eq!(of(busy), FailureCode::PeerBusy);
        assert_eq!(of(new(FailureCode::NotGranted)), FailureCode::AccessDenied);
        for lasting in [FailureCode::Io, FailureCode::Unsupported] {
            assert_eq!(of(new(lasting)), FailureCode::ReportUnusable);
        }
        let stopped = failure(&place, &new(FailureCode::GivenUp), false);
        assert_eq!(stopped.code, FailureCode::Cancelled);
    }
}
