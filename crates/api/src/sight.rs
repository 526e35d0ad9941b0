//! Tells whether two nodes see the same directory, by what each of them saw of it.
//! Looks at no directory: `run` does.
//!
//! A sight is the number of the directory's inode, and for some of its entries the hash of the name and the number of the inode.

/// Entries of a directory that a sight has at most.
pub const SIGHT_ENTRIES_MAX: usize = 16;

/// The sight of a directory that cannot be looked at.
pub const UNSEEN: [u64; 1] = [0];

/// Up to this number an inode may be the root of a file system, and the same on another one: 2 of ext4, 128 of XFS, 256 of btrfs.
const ROOTS_MAX: u64 = 1_024;

/// So many entries of one name have to be different before two directories of one number are.
const DIFFERENT_MIN: usize = 3;

/// Whether two nodes see the same directory: its number is the same. Of a root at least half of the entries that both have are the same,
/// and one is, or it is empty at both. Of another directory not all are different, if there are some: files are replaced meanwhile.
/// A sight that says nothing differs from none.
#[must_use]
pub fn is_same_sight(one: &[u64], other: &[u64]) -> bool {
    let (Some((first, ones)), Some((second, others))) = (one.split_first(), other.split_first())
    else {
        return true;
    };
    if first != second || one == UNSEEN {
        return false;
    }
    let (ones, others) = (ones.as_chunks::<2>().0, others.as_chunks::<2>().0);
    let of = |[hash, _]: &[u64; 2]| others.iter().find(|[other, _]| other == hash);
    let found: Vec<bool> = ones
        .iter()
        .filter_map(|one| of(one).map(|other| one == other))
        .collect();
    let same = found.iter().filter(|is_same| **is_same).count();
    let is_empty = ones.is_empty() && others.is_empty();
    match *first > ROOTS_MAX {
        true => same > 0 || found.len() < DIFFERENT_MIN,
        false => is_empty || (same > 0 && same * 2 >= found.len()),
    }
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
    fn roots_are_told_by_their_entries_and_other_directories_by_their_number() {
        let one = [2, 10, 100, 20, 200];
        assert!(is_same_sight(&one, &one));
        // Entries came and went, or one of them was replaced.
        assert!(is_same_sight(&one, &[2, 10, 100, 30, 300, 40, 400]));
        assert!(is_same_sight(&one, &[2, 10, 100, 20, 201]));
        assert!(!is_same_sight(&one, &[2, 10, 101, 20, 201]));
        assert!(!is_same_sight(&one, &[2, 30, 300]));
        assert!(!is_same_sight(&one, &[3, 10, 100, 20, 200]));
        // The mount is missing, or has nothing in it.
        assert!(!is_same_sight(&one, &[2]) && !is_same_sight(&[2], &one));
        assert!(is_same_sight(&[2], &[2]));
        assert!(is_same_sight(&one, &[]));
        assert!(!is_same_sight(&UNSEEN, &UNSEEN));
        // A directory that fills meanwhile.
        assert!(is_same_sight(&[5_000], &[5_000, 10, 100]));
        assert!(!is_same_sight(&[5_000], &[5_001]));
        // Two directories that have one number by chance.
        let (one, other) = (
            [5_000, 10, 100, 20, 200, 30, 300],
            [5_000, 10, 101, 20, 201, 30, 301],
        );
        assert!(!is_same_sight(&one, &other));
        // Files that were replaced.
        assert!(is_same_sight(&one, &[5_000, 10, 100, 20, 201, 30, 301]));
        assert!(is_same_sight(&[5_000, 10, 100], &[5_000, 10, 101]));
        assert!(is_same_sight(&[5_000, 10, 100], &[5_000, 20, 200]));
    }

    #[test]
    fn the_odd_ones_are_the_few() {
        let (same, odd, other): (&[u64], &[u64], &[u64]) = (&[2, 5, 6], &[3, 5, 6], &[4, 5, 6]);
        assert_eq!(odd_ones(&[odd, same, same]), [0]);
        assert_eq!(odd_ones(&[same, odd]), [1]);
        assert_eq!(odd_ones(&[same, odd, other, &[]]), [1, 2]);
        assert!(odd_ones(&[same, same]).is_empty() && odd_ones(&[]).is_empty());
        // The mount is missing at the first node, or at most of them.
        let empty: &[u64] = &[2];
        assert_eq!(odd_ones(&[empty, same]), [0]);
        assert_eq!(odd_ones(&[&UNSEEN, same, &UNSEEN]), [0, 2]);
    }
}
