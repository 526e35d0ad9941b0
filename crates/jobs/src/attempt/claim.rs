//! Owns the claim and the tag under which a job writes below its destination: both follow from the job.
//! Asks for no claim.

use godwit_api::job::ClaimId;
use godwit_state::Job;

/// The claim of a job: the same in all attempts, even after a crash. So an attempt takes over the claim of an earlier one, resumes its
/// parts, and removes its leftovers.
pub(crate) fn claim_of(job: &Job) -> ClaimId {
    // FNV-1a, 64 bits, once for each half.
    let hash = |half: u8| {
        let created = job.created.0.to_le_bytes();
        let texts = [job.id.as_bytes(), &created, job.owner.as_bytes()];
        let bytes = texts.into_iter().flat_map(|text| text.iter().chain(&[0]));
        let bytes = std::iter::once(&half).chain(bytes);
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    ClaimId((u128::from(hash(1)) << 64 | u128::from(hash(2))).to_be_bytes())
}

/// The tag of the temporary files of a divided attempt.
pub(crate) fn tag_of(claim: ClaimId) -> u64 {
    let tag = std::array::from_fn(|byte| claim.0[byte]);
    u64::from_le_bytes(tag)
}
