//! Tells whether two nodes see the same directory, by what each of them saw of it.
//! Looks at no directory: `run` does.
//!
//! A sight is the number of the directory and those of some of its entries, chosen by their names. Another file system has other
//! numbers, but for chance.

/// Entries of a directory that a sight has at most.
pub const SIGHT_ENTRIES_MAX: usize = 16;

/// The sight of a directory that cannot be looked at.
pub const UNSEEN: [u64; 1] = [0];

/// Whether two nodes see the same directory. Entries come and go meanwhile, so at least half of them have to be the same: an empty
/// directory is not the same as a full one. A sight that says nothing differs from none.
#[must_use]
pub fn is_same_sight(one: &[u64], other: &[u64]) -> bool {
    let (Some((first, entries)), Some((second, others))) = (one.split_first(), other.split_first())
    else {
        return true;
    };
    let shared = entries
        .iter()
        .filter(|entry| others.contains(entry))
        .count();
    first == second && shared * 2 >= entries.len().max(others.len())
}

/// Of several sights, those that differ from what most see; of equally many, from what has the most entries, for an empty directory is
/// what a missing mount leaves. What cannot be looked at is odd.
#[must_use]
pub fn odd_ones(sights: &[&[u64]]) -> Vec<usize> {
    let like = |one: &[u64]| {
        sights
            .iter()
            .filter(|other| is_same_sight(one, other))
            .count()
    };
    let mut most = (0, 0);
    let mut common: &[u64] = &[];
    for sight in sights {
        let rank = (like(sight), sight.len());
        if !sight.is_empty() && **sight != UNSEEN && rank > most {
            (most, common) = (rank, sight);
        }
    }
    let all = sights.iter().enumerate();
    all.filter(|(_, sight)| **sight == UNSEEN || !is_same_sight(common, sight))
        .map(|(at, _)| at)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_may_come_and_go_and_another_directory_is_told() {
        let one = [7, 1, 2, 3, 4];
        assert!(is_same_sight(&one, &one));
        assert!(is_same_sight(&one, &[7, 1, 2, 9, 8]));
        assert!(!is_same_sight(&one, &[7, 1, 9, 8, 6]));
        assert!(!is_same_sight(&one, &[8, 1, 2, 3, 4]));
        assert!(is_same_sight(&one, &[]) && !is_same_sight(&[7], &one));
        assert!(is_same_sight(&[7], &[7]));
    }

    #[test]
    fn the_odd_ones_are_the_few() {
        let (same, odd, other): (&[u64], &[u64], &[u64]) = (&[1, 5], &[2, 5], &[3, 5]);
        assert_eq!(odd_ones(&[odd, same, same]), [0]);
        assert_eq!(odd_ones(&[same, odd]), [1]);
        assert_eq!(odd_ones(&[same, odd, other, &[]]), [1, 2]);
        assert!(odd_ones(&[same, same]).is_empty() && odd_ones(&[]).is_empty());
        // The mount is missing at the first node, or at most of them.
        let empty: &[u64] = &[1];
        assert_eq!(odd_ones(&[empty, same]), [0]);
        assert_eq!(odd_ones(&[&UNSEEN, same, &UNSEEN]), [0, 2]);
    }
}
