//! Sets, renews and releases claims for askers that may write at their destination, and creates and searches their marks. Does not store
//! claims (`claims`), and does not end transfers.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Answer, ClaimPlace, LEASE_MS, MEMBERS_MAX, Mark, Question, Refusal, ReleaseClaim, RenewClaim,
    code,
};
use godwit_api::grant::Right;
use godwit_api::job::ClaimId;
use godwit_net::IdentityId;
use godwit_store::journal::JournalDirectory;
use godwit_store::{Create, Kind, RelPath, StoreError, TempName, Timestamp, claim_tag};

use super::here::{Found, Here, May};
use crate::claims::{By, ClaimedPlace, MayHold, Spot, TooLong, Wish, check, no_such};

/// Whether a transfer that is no member writes to an absolute path, or above or below it.
pub(crate) type IsWritten<'a> = dyn Fn(&Spot) -> bool + 'a;

/// The peer that sets a claim.
pub(crate) struct Holder<'a> {
    pub(crate) by: By,
    /// Checks the rights of the holders of other claims.
    pub(crate) may_hold: &'a MayHold<'a>,
}

impl Here {
    /// Answers a question of `holder` about a claim; `None` for any other question.
    pub(crate) fn claim(
        &self,
        question: &Question,
        holder: &Holder<'_>,
        may: &May<'_>,
        is_written: &IsWritten<'_>,
    ) -> Option<Result<Answer, Refusal>> {
        let now = Instant::now();
        Some(match question {
            Question::Claim(wish) => self.set_claim(wish, holder, may, is_written, now),
            Question::Renew(wish) => self.renew_claim(wish, holder, may, now),
            Question::Release(wish) => self.release_claim(wish, holder, may),
            _ => return None,
        })
    }

    fn set_claim(
        &self,
        wish: &ClaimPlace,
        holder: &Holder<'_>,
        may: &May<'_>,
        is_written: &IsWritten<'_>,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        if wish.epoch == 0 {
            let message = "the epoch of a claim is 1 or more";
            return Err(Refusal::new(code::INVALID, message));
        }
        if wish.members.len() > MEMBERS_MAX || wish.fence.len() > MEMBERS_MAX {
            let message = format!("a claim can have at most {MEMBERS_MAX} members");
            return Err(Refusal::new(code::INVALID, message));
        }
        let too_long = |error: TooLong| Refusal::new(code::INVALID, error.to_string());
        check(&wish.path.0).map_err(too_long)?;
        let lease = lease(wish.lease_ms)?;
        let (members, fence) = (identities(&wish.members)?, identities(&wish.fence)?);
        let found = self.find(&wish.path, Right::Write, may)?;
        // An asker that takes over a claim needs the right to write at its place, too.
        if self.claims().place_of(wish.claim).is_some() {
            self.may_change(wish.claim, &holder.by, may)?;
        }
        let absolute = found.absolute();
        // This happens before the table is locked: a mount that hangs must not delay other claims.
        let spot = Spot::look(&absolute).map_err(too_long)?;
        let entering = self.claims().enter_alone();
        // A peer does not learn the owner or the sources of the transfer.
        if is_written(&spot) {
            let message = format!(
                "{}: another transfer, which is not a member, writes there; wait for that transfer, or stop it",
                String::from_utf8_lossy(&wish.path.0)
            );
            return Err(Refusal::later(code::BUSY, message));
        }
        let place = ClaimedPlace {
            asked: wish.path.clone(),
            absolute,
        };
        let (path, asked) = (&wish.path, wish.mark);
        let wish = Wish {
            claim: wish.claim,
            epoch: wish.epoch,
            place,
            spot,
            members,
            fence,
            by: holder.by.clone(),
            copies: wish.copies,
            lease,
        };
        let (claim, epoch) = (wish.claim, wish.epoch);
        self.claims().set(wish, now, holder.may_hold)?;
        drop(entering);
        match mark(&found, claim_tag(&claim.0), asked) {
            Ok(since) => self.claims().marked(claim, path, asked, since),
            Err(refusal) => {
                // A refused claim reserves nothing.
                let _ = self.claims().release(claim, epoch, &holder.by);
                return Err(refusal);
            }
        }
        Ok(Answer::Done {})
    }

    fn renew_claim(
        &self,
        wish: &RenewClaim,
        holder: &Holder<'_>,
        may: &May<'_>,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        let lease = lease(wish.lease_ms)?;
        self.may_change(wish.claim, &holder.by, may)?;
        let claims = self.claims();
        let renewed = claims.renew(wish.claim, wish.epoch, lease, now, &holder.by);
        renewed.map(|()| Answer::Done {})
    }

    fn release_claim(
        &self,
        wish: &ReleaseClaim,
        holder: &Holder<'_>,
        may: &May<'_>,
    ) -> Result<Answer, Refusal> {
        let claims = self.claims();
        // A claim that the asker may not know is answered like one that does not exist.
        let known = claims.place_of(wish.claim).filter(|place| {
            claims.is_known_to(wish.claim, &holder.by)
                || self.allowed(&place.asked, Right::Write, may).is_ok()
        });
        let is_known = known.is_some();
        let Some(asked) = known.map(|place| place.asked).or_else(|| wish.path.clone()) else {
            return Ok(Answer::Done {});
        };
        // The claim may be set again as soon as it has ended. The claim then needs its mark.
        let _removal = claims.removal(wish.claim, &asked);
        if is_known {
            self.may_change(wish.claim, &holder.by, may)?;
            claims.release(wish.claim, wish.epoch, &holder.by)?;
        }
        self.allowed(&asked, Right::Write, may)?;
        // If the mark stays, a cleanup of the place removes it.
        if let Ok(found) = self.find(&asked, Right::Write, may)
            && mark(&found, claim_tag(&wish.claim.0), Mark::Remove).is_ok()
        {
            claims.marked(wish.claim, &asked, Mark::Remove, None);
        }
        // The journals of a claim that is not known here may belong to another holder.
        if !is_known {
            return Ok(Answer::Done {});
        }
        // The journals of the claim's members are no longer needed. A journal that cannot be removed does no harm.
        let forgotten = JournalDirectory::open(&self.journals())
            .map(|directory| directory.forget_claim(&wish.claim.0));
        drop(forgotten);
        Ok(Answer::Done {})
    }

    /// Removes the marks of claims that need them no longer. The marks are this node's own files, so no right is checked. A mark that cannot
    /// be removed stays for a cleanup of the place.
    pub(crate) fn remove_marks(&self) {
        self.claims().remove_remains(&|claim, asked| {
            if let Ok(found) = self.find(asked, Right::Write, &|_, _, _| Ok(())) {
                let _ = mark(&found, claim_tag(&claim.0), Mark::Remove);
            }
        });
    }

    /// Whether the asker may write at the place of a claim. The id of a claim can be known to others: an asker that neither holds the claim
    /// nor may write there does not learn the place, or that the claim exists. The name of the job of a claim gives no right, either.
    fn may_change(&self, claim: ClaimId, by: &By, may: &May<'_>) -> Result<(), Refusal> {
        let claims = self.claims();
        let place = claims.place_of(claim).ok_or_else(|| no_such(claim))?;
        match self.allowed(&place.asked, Right::Write, may) {
            Ok(_) => Ok(()),
            Err(refusal) if claims.is_known_to(claim, by) => Err(refusal),
            Err(_) => Err(no_such(claim)),
        }
    }
}

fn identities(texts: &[String]) -> Result<HashSet<IdentityId>, Refusal> {
    let invalid = |error| Refusal::new(code::INVALID, format!("a member of the claim: {error}"));
    texts
        .iter()
        .map(|text| text.parse().map_err(invalid))
        .collect()
}

/// Applies the requested action to the mark of a claim. Returns when an existing mark was made, by the clock of its file system.
fn mark(found: &Found, tag: u64, wish: Mark) -> Result<Option<Timestamp>, Refusal> {
    if wish == Mark::Untouched {
        return Ok(None);
    }
    let refuse = |error: StoreError| found.refuse(&error);
    let name = TempName::of_mark(tag, &found.path);
    // The mark is in the directory of a place, beside the claimed entry or above it. A mark never has the name of a file's temporary file,
    // because that name is derived for another purpose.
    let above = std::iter::successors(Some(found.path.clone()), RelPath::parent);
    // An attempt after a pause finds the mark of the first one, which shows when the job began here.
    if wish == Mark::Make
        && let Ok(Some(made)) = mark(found, tag, Mark::Expect)
    {
        return Ok(Some(made));
    }
    for directory in above {
        let is_there = found.storage.stat(&directory).map_err(refuse)?;
        if !is_there.is_some_and(|meta| meta.kind == Kind::Directory) {
            continue;
        }
        let Ok(within) = directory.join(b"mark") else {
            continue;
        };
        let made_at = || {
            let there = found.storage.stat(&directory.join(name.as_bytes()).ok()?);
            there.ok()?.map(|there| there.ctime)
        };
        match wish {
            Mark::Untouched => return Ok(None),
            Mark::Make => {
                // The right to create the place includes a name in this directory, so the right at the place covers the mark.
                let made = found.storage.create(&within, &name, Create::Fresh, Some(0));
                return made.map(|_| made_at()).map_err(refuse);
            }
            Mark::Expect => {
                if found.storage.open_temp(&within, &name).is_ok() {
                    return Ok(made_at());
                }
            }
            Mark::Remove => found.storage.discard(&within, &name).map_err(refuse)?,
        }
    }
    match wish {
        Mark::Expect => Err(Refusal::new(
            code::OTHER_PLACE,
            format!(
                "{}: this node does not see the mark that another node of the site made there: the export {} is a different file system here, or is not mounted",
                found.shown(),
                found.export
            ),
        )),
        _ => Ok(None),
    }
}

fn lease(milliseconds: u64) -> Result<Duration, Refusal> {
    if LEASE_MS.contains(&milliseconds) {
        return Ok(Duration::from_millis(milliseconds));
    }
    let (least, most) = LEASE_MS.into_inner();
    let message = format!("a claim must last from {least} to {most} ms");
    Err(Refusal::new(code::INVALID, message))
}

#[cfg(test)]
mod tests;
