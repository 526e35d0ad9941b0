//! Tells whether two nodes see the same directory, by what each of them saw of it.
//! Looks at no directory: `run` does.
//!
//! A sight is the number of the directory and those of some of its entries, chosen by their names. Another file system has other
//! numbers, but for chance.

/// Entries of a directory that a sight has at most.
pub const SIGHT_ENTRIES_MAX: usize = 16;

/// Whether two nodes see the same directory. Entries come and go meanwhile, so most that are compared have to be the same. A sight
/// that says nothing differs from none.
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
    first == second && shared * 2 >= entries.len().min(others.len())
}

/// Of several sights, those that differ from what most see; of equally many, from what the first ones see.
#[must_use]
pub fn odd_ones(sights: &[&[u64]]) -> Vec<usize> {
    let like = |one: &[u64]| {
        sights
            .iter()
            .filter(|other| is_same_sight(one, other))
            .count()
    };
    let mut most = 0;
    let mut common: &[u64] = &[];
    for sight in sights {
        if !sight.is_empty() && like(sight) > most {
            (most, common) = (like(sight), sight);
        }
    }
    let all = sights.iter().enumerate();
    all.filter(|(_, sight)| !is_same_sight(common, sight))
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
        assert!(is_same_sight(&one, &[]) && is_same_sight(&[7], &one));
    }

    #[test]
    fn the_odd_ones_are_the_few() {
        let (same, odd, other): (&[u64], &[u64], &[u64]) = (&[1, 5], &[2, 5], &[3, 5]);
        assert_eq!(odd_ones(&[odd, same, same]), [0]);
        assert_eq!(odd_ones(&[same, odd]), [1]);
        assert_eq!(odd_ones(&[same, odd, other, &[]]), [1, 2]);
        assert!(odd_ones(&[same, same]).is_empty() && odd_ones(&[]).is_empty());
    }
}
