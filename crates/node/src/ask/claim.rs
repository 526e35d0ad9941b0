//! Sets, renews and releases claims for who may write at their destination.
//! Keeps them not (`claims`); ends no transfer.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Answer, ClaimPlace, LEASE_MS, MEMBERS_MAX, Question, Refusal, ReleaseClaim, RenewClaim, code,
};
use godwit_api::grant::Right;
use godwit_api::job::ClaimId;
use godwit_net::IdentityId;
use godwit_store::journal::JournalDirectory;

use super::here::{Here, May};
use crate::claims::{ClaimedPlace, Wish};

/// Says which transfer that is no member writes to an absolute path, above or below it, if one does.
pub(crate) type Writer<'a> = dyn Fn(&[u8]) -> Option<String> + 'a;

impl Here {
    /// Answers a question about a claim, of `holder`; `None` for any other question.
    pub(crate) fn claim(
        &self,
        question: &Question,
        holder: &str,
        may: &May<'_>,
        writer: &Writer<'_>,
    ) -> Option<Result<Answer, Refusal>> {
        let now = Instant::now();
        Some(match question {
            Question::Claim(wish) => self.set_claim(wish, holder, may, writer, now),
            Question::Renew(wish) => self.renew_claim(wish, may, now),
            Question::Release(wish) => self.release_claim(wish, may),
            _ => return None,
        })
    }

    fn set_claim(
        &self,
        wish: &ClaimPlace,
        holder: &str,
        may: &May<'_>,
        writer: &Writer<'_>,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        if wish.epoch == 0 {
            let message = "the epoch of a claim is 1 or more";
            return Err(Refusal::new(code::INVALID, message));
        }
        if wish.members.len() > MEMBERS_MAX {
            let message = format!("a claim has at most {MEMBERS_MAX} members");
            return Err(Refusal::new(code::INVALID, message));
        }
        let lease = lease(wish.lease_ms)?;
        let members: Result<HashSet<IdentityId>, Refusal> = wish
            .members
            .iter()
            .map(|text| {
                text.parse().map_err(|error| {
                    Refusal::new(code::INVALID, format!("a member of the claim: {error}"))
                })
            })
            .collect();
        let members = members?;
        let absolute = self.absolute(&wish.path, may)?;
        if let Some(label) = writer(&absolute) {
            let message = format!(
                "{}: a transfer that is no member writes there ({label}); wait for it, or stop it",
                String::from_utf8_lossy(&wish.path.0)
            );
            return Err(Refusal::later(code::BUSY, message));
        }
        let place = ClaimedPlace {
            asked: wish.path.clone(),
            absolute,
        };
        let wish = Wish {
            claim: wish.claim,
            epoch: wish.epoch,
            place,
            members,
            holder: holder.to_owned(),
            lease,
        };
        self.claims().set(wish, now).map(|()| Answer::Done {})
    }

    fn renew_claim(
        &self,
        wish: &RenewClaim,
        may: &May<'_>,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        let lease = lease(wish.lease_ms)?;
        self.may_change(wish.claim, may)?;
        let renewed = self.claims().renew(wish.claim, wish.epoch, lease, now);
        renewed.map(|()| Answer::Done {})
    }

    fn release_claim(&self, wish: &ReleaseClaim, may: &May<'_>) -> Result<Answer, Refusal> {
        if self.claims().place_of(wish.claim).is_none() {
            return Ok(Answer::Done {});
        }
        self.may_change(wish.claim, may)?;
        self.claims().release(wish.claim, wish.epoch)?;
        // Nothing resumes what its members have begun. What cannot be removed does no harm.
        let forgotten = JournalDirectory::open(&self.journals())
            .map(|directory| directory.forget_claim(&wish.claim.0));
        drop(forgotten);
        Ok(Answer::Done {})
    }

    fn may_change(&self, claim: ClaimId, may: &May<'_>) -> Result<(), Refusal> {
        let place = self.claims().place_of(claim).ok_or_else(|| {
            let message = format!(
                "the claim {claim} was never set at this node, or is forgotten; set it again"
            );
            Refusal::new(code::NO_SUCH_CLAIM, message)
        })?;
        self.absolute(&place.asked, may).map(drop)
    }

    /// The absolute path of a place, for who may write there.
    fn absolute(&self, path: &godwit_api::job::Text, may: &May<'_>) -> Result<Vec<u8>, Refusal> {
        let found = self.find(path, Right::Write, may)?;
        let mut absolute = found.real.clone();
        if !found.path.is_root() {
            if !absolute.ends_with(b"/") {
                absolute.push(b'/');
            }
            absolute.extend_from_slice(found.path.as_bytes());
        }
        Ok(absolute)
    }
}

fn lease(milliseconds: u64) -> Result<Duration, Refusal> {
    if LEASE_MS.contains(&milliseconds) {
        return Ok(Duration::from_millis(milliseconds));
    }
    let (least, most) = LEASE_MS.into_inner();
    let message = format!("a claim lasts from {least} to {most} ms");
    Err(Refusal::new(code::INVALID, message))
}
