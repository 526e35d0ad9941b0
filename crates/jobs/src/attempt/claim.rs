//! Owns the claim and the tag under which a job writes below its destination. The first divided attempt draws them; later
//! attempts keep them.
//! Asks for no claim.

use godwit_api::fnv;
use godwit_api::job::ClaimId;
use godwit_state::{Agreed, Job, LEVEL_CLAIMS, LEVEL_FIRST, Reader};

use crate::basis::clock::random;

/// The random bits of a tag. The other bits show that a divided attempt of this job has drawn it.
const DRAWN_BITS: u32 = 48;

/// The claim of a job: the same in all attempts, even after a crash. So an attempt takes over the claim of an earlier one, resumes its
/// parts, and removes its leftovers. Other peers cannot guess the claim, and so cannot set it first.
pub(crate) fn claim_of(reader: &Reader, job: &Job) -> ClaimId {
    let earlier = Agreed(reader).placed(&job.id).unwrap_or_default().tags;
    let level = Agreed(reader).level().unwrap_or(LEVEL_FIRST);
    kept(job, &earlier).unwrap_or_else(|| first(job, level))
}

/// The claim of an earlier attempt with one of these tags; `None` if none of them was divided.
pub(crate) fn kept(job: &Job, tags: &[u64]) -> Option<ClaimId> {
    let mut tags = tags.iter();
    tags.find_map(|tag| claim_by(job, *tag))
}

/// The tag of a divided attempt, as the state keeps it. No name of a file shows it.
pub(crate) fn tag_of(claim: ClaimId) -> u64 {
    let tag = std::array::from_fn(|byte| claim.0[byte]);
    u64::from_le_bytes(tag)
}

/// The claim of a job without a divided attempt.
fn first(job: &Job, level: u32) -> ClaimId {
    if level < LEVEL_CLAIMS {
        return by_facts(job);
    }
    let drawn = u64::from(random()) << 32 | u64::from(random());
    drawn_claim(job, drawn)
}

/// The claim of the divided attempt of this job that has this tag; `None` for the tag of another attempt.
fn claim_by(job: &Job, tag: u64) -> Option<ClaimId> {
    let mut claims = [by_facts(job), drawn_claim(job, tag)].into_iter();
    claims.find(|claim| tag_of(*claim) == tag)
}

/// The claim in clusters of an earlier level: it follows from facts that every user sees.
fn by_facts(job: &Job) -> ClaimId {
    ClaimId((u128::from(hash(job, 1, 0)) << 64 | u128::from(hash(job, 2, 0))).to_be_bytes())
}

/// The claim with these random bits: its tag, and a half that follows from the tag.
fn drawn_claim(job: &Job, drawn: u64) -> ClaimId {
    let drawn = drawn & ((1 << DRAWN_BITS) - 1);
    let check = hash(job, 3, drawn) >> DRAWN_BITS;
    let tag = drawn | (check << DRAWN_BITS);
    let halves = u128::from(tag.swap_bytes()) << 64 | u128::from(hash(job, 4, drawn));
    ClaimId(halves.to_be_bytes())
}

/// The hash of a purpose, the job, and random bits if there are any.
fn hash(job: &Job, purpose: u8, drawn: u64) -> u64 {
    let created = job.created.0.to_le_bytes();
    let texts = [job.id.as_bytes(), &created, job.owner.as_bytes()];
    let bytes = texts.into_iter().flat_map(|text| text.iter().chain(&[0]));
    let drawn = drawn.to_le_bytes();
    let drawn = drawn.iter().filter(|_| purpose > 2);
    let bytes = std::iter::once(&purpose).chain(bytes).chain(drawn);
    fnv(bytes.copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::examples;

    fn job(id: &str) -> Job {
        examples::job(id, "alice", "siteB")
    }

    #[test]
    fn the_claim_of_a_job_cannot_be_guessed_and_stays() {
        let (job, foreign) = (job("a1"), job("a2"));
        let (one, other) = (first(&job, LEVEL_CLAIMS), first(&job, LEVEL_CLAIMS));
        assert_ne!(one, other, "facts that every user sees decide no claim");
        assert_eq!(kept(&job, &[7, tag_of(one), tag_of(other)]), Some(one));
        // Attempts that were not divided, and claims of other jobs.
        let foreign = tag_of(drawn_claim(&foreign, 1));
        assert_eq!(kept(&job, &[7, foreign]), None);
    }

    #[test]
    fn a_job_of_an_earlier_level_keeps_its_claim() {
        let job = job("a1");
        let earlier = first(&job, LEVEL_CLAIMS - 1);
        assert_eq!(earlier, first(&job, LEVEL_CLAIMS - 1));
        assert_eq!(kept(&job, &[tag_of(earlier)]), Some(earlier));
    }
}
