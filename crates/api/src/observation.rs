//! Decides whether two nodes see the same directory, from their observations of it.
//! Reads no directory: `run` does.
//!
//! An observation is the inode number of the directory, and for some of its entries the hash of the name and the inode number.

/// Most entries of an observation.
pub const OBSERVED_ENTRIES_MAX: usize = 16;

/// The observation of a directory that cannot be read.
pub const UNSEEN: [u64; 1] = [0];

/// Inode numbers up to this one may belong to the root of a file system, with the same number on others: 2 of ext4, 128 of XFS, 256 of
/// btrfs.
const ROOTS_MAX: u64 = 1_024;

/// Two directories with one inode number differ only if at least this many common entries differ.
const DIFFERENT_MIN: usize = 3;

/// Whether two nodes see the same directory. Both inode numbers must be equal. For a root, both must be empty, or at least half of the
/// common entries must match, at least one. With several common entries, some may differ,
/// because files can be replaced between the two looks; if all differ, the directories are
/// different. An empty observation matches every observation.
#[must_use]
pub fn is_same_directory(one: &[u64], other: &[u64]) -> bool {
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

/// Returns the observations that differ from the majority. If two observations are equally frequent, the one with more entries
/// counts, because a missing mount leaves an empty directory. A directory that cannot be read always differs.
#[must_use]
pub fn odd_ones(observations: &[&[u64]]) -> Vec<usize> {
    let like = |one: &[u64]| {
        observations
            .iter()
            .filter(|other| is_same_directory(one, other))
            .count()
    };
    let mut most = (0, 0);
    let mut common: &[u64] = &[];
    for observation in observations {
        let rank = (like(observation), observation.len());
        if !observation.is_empty() && **observation != UNSEEN && rank > most {
            (most, common) = (rank, observation);
        }
    }
    let all = observations.iter().enumerate();
    all.filter(|(_, observation)| {
        **observation == UNSEEN || !is_same_directory(common, observation)
    })
    .map(|(at, _)| at)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_recognised_by_their_entries_and_other_directories_by_their_number() {
        let one = [2, 10, 100, 20, 200];
        assert!(is_same_directory(&one, &one));
        // Entries came and went, or one of them was replaced.
        assert!(is_same_directory(&one, &[2, 10, 100, 30, 300, 40, 400]));
        assert!(is_same_directory(&one, &[2, 10, 100, 20, 201]));
        assert!(!is_same_directory(&one, &[2, 10, 101, 20, 201]));
        assert!(!is_same_directory(&one, &[2, 30, 300]));
        assert!(!is_same_directory(&one, &[3, 10, 100, 20, 200]));
        // The mount is missing, or is empty.
        assert!(!is_same_directory(&one, &[2]) && !is_same_directory(&[2], &one));
        assert!(is_same_directory(&[2], &[2]));
        assert!(is_same_directory(&one, &[]));
        assert!(!is_same_directory(&UNSEEN, &UNSEEN));
        // A directory that fills meanwhile.
        assert!(is_same_directory(&[5_000], &[5_000, 10, 100]));
        assert!(!is_same_directory(&[5_000], &[5_001]));
        // Two directories that have the same inode number by chance.
        let (one, other) = (
            [5_000, 10, 100, 20, 200, 30, 300],
            [5_000, 10, 101, 20, 201, 30, 301],
        );
        assert!(!is_same_directory(&one, &other));
        // Files that were replaced.
        assert!(is_same_directory(&one, &[5_000, 10, 100, 20, 201, 30, 301]));
        assert!(is_same_directory(&[5_000, 10, 100], &[5_000, 10, 101]));
        assert!(is_same_directory(&[5_000, 10, 100], &[5_000, 20, 200]));
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
