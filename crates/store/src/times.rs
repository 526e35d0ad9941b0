//! Compares a given time with the time that a file system stored: equal, truncated, or clamped. Reads and
//! sets no times, and knows no file system by name.

use crate::meta::Timestamp;

/// How a file system stored a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The file system keeps the exact time.
    Exactly,
    /// The file system keeps the time with fewer digits.
    Cut,
    /// The time lies beyond the range of the file system. The file system stores times before and after this
    /// limit as the same value.
    Clamped,
    /// The stored time differs in another way.
    Otherwise,
}

/// Units of time below a second that file systems keep: 10 ms (exFAT), 1 ms, 1 us, 100 ns (NTFS, SMB).
const UNITS_NS: [u32; 4] = [10_000_000, 1_000_000, 1_000, 100];

/// Last seconds that file systems can store.
const LAST: [i64; 5] = [
    // 2038: ext4 with inodes of 128 bytes, XFS without `bigtime`.
    i32::MAX as i64,
    // 2106: NFSv3.
    u32::MAX as i64,
    // 2107: FAT and exFAT.
    4_354_819_199,
    // 2446: ext4.
    (1 << 34) + i32::MIN as i64 - 1,
    // 2486: XFS with `bigtime`.
    (1 << 34) - 1 - 880_608_759,
];

/// First seconds that file systems can store: 1901, 1970, 1980 (FAT and exFAT).
const FIRST: [i64; 3] = [i32::MIN as i64, 0, 315_532_800];

/// How a file system that stored `there` treated `given`, as far as the two values show.
pub fn kept(there: Timestamp, given: Timestamp) -> Kept {
    if there == given {
        return Kept::Exactly;
    }
    let is_cut = |unit: u32| there.nanoseconds == given.nanoseconds - given.nanoseconds % unit;
    if there.seconds == given.seconds
        && (there.nanoseconds == 0 || UNITS_NS.into_iter().any(is_cut))
    {
        return Kept::Cut;
    }
    let is_limit = there.nanoseconds == 0
        && if given > there {
            LAST.contains(&there.seconds)
        } else {
            FIRST.contains(&there.seconds)
        };
    if is_limit {
        Kept::Clamped
    } else {
        Kept::Otherwise
    }
}

/// Whether every file system can store the seconds of this time.
pub(crate) fn is_common(time: Timestamp) -> bool {
    (FIRST[2]..=LAST[0]).contains(&time.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_kernel() {
        assert_eq!(LAST[3], 15_032_385_535);
        assert_eq!(LAST[4], 16_299_260_424);
    }

    #[test]
    fn a_time_is_kept_cut_clamped_or_another() {
        let at = |seconds, nanoseconds| Timestamp {
            seconds,
            nanoseconds,
        };
        let later = at(i64::from(i32::MAX) + 9, 5);
        for (there, given, expected) in [
            (at(7, 123_456_789), at(7, 123_456_789), Kept::Exactly),
            (at(7, 0), at(7, 123_456_789), Kept::Cut),
            (at(7, 123_456_700), at(7, 123_456_789), Kept::Cut),
            (at(7, 120_000_000), at(7, 123_456_789), Kept::Cut),
            (at(7, 123_456_788), at(7, 123_456_789), Kept::Otherwise),
            (at(7, 123_456_789), at(7, 123_456_700), Kept::Otherwise),
            (at(6, 0), at(7, 0), Kept::Otherwise),
            (at(i64::from(i32::MAX), 0), later, Kept::Clamped),
            (at(i64::from(i32::MAX), 1), later, Kept::Otherwise),
            (later, at(i64::from(i32::MAX), 0), Kept::Otherwise),
            (at(0, 0), at(-1, 999_999_999), Kept::Clamped),
            (at(0, 0), at(5, 0), Kept::Otherwise),
        ] {
            assert_eq!(kept(there, given), expected, "{there:?} of {given:?}");
        }
    }
}
