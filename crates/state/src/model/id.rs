//! Owns ids that people can read out and that sort by time.
//! Draws no random number: the caller does.

use super::Timestamp;

/// Digits and letters that are hard to confuse, in order.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 2024-01-01. From here, six characters count the seconds of 34 years.
const EPOCH_SECONDS: i64 = 1_704_067_200;

/// An id of eleven characters: six of the time in seconds, five of the lowest 25 bits of `random`.
///
/// Two ids of one second collide once in 33 million pairs. The second command is then refused as a conflict, and the caller tries
/// another id.
#[must_use]
pub fn sortable_id(at: Timestamp, random: u32) -> String {
    let seconds = at.0.div_euclid(1_000) - EPOCH_SECONDS;
    let seconds = seconds.clamp(0, (1 << 30) - 1).unsigned_abs();
    let bits = seconds << 25 | u64::from(random & ((1 << 25) - 1));
    (0..11)
        .rev()
        .map(|place| {
            let sign = (bits >> (place * 5)) & 31;
            char::from(ALPHABET[usize::try_from(sign).unwrap_or_default()])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_are_short() {
        let start = EPOCH_SECONDS * 1_000;
        let times = [
            i64::MIN,
            start,
            start + 999,
            start + 1_000,
            start + (1 << 40),
            i64::MAX,
        ];
        let ids = times.map(|at| sortable_id(Timestamp(at), 0));
        assert!(ids.is_sorted(), "{ids:?}");
        assert_eq!(ids[1], "00000000000");
        assert_eq!(
            sortable_id(Timestamp(start + 1_000), u32::MAX),
            "000001zzzzz"
        );
        assert!(sortable_id(Timestamp(start), u32::MAX) < ids[3]);
        assert_eq!(ids[5], "zzzzzz00000");
    }
}
