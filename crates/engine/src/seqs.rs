//! A set of sequence numbers stored as ranges: small as long as the numbers are dense. Does not
//! know the meaning of the numbers.

use std::collections::BTreeMap;

/// Set of `u64`, stored as disjoint, non-adjacent inclusive ranges `first → last`.
#[derive(Debug, Default, Clone)]
pub(crate) struct SeqSet {
    ranges: BTreeMap<u64, u64>,
}

impl SeqSet {
    pub(crate) fn contains(&self, value: u64) -> bool {
        self.ranges
            .range(..=value)
            .next_back()
            .is_some_and(|(_, last)| *last >= value)
    }

    pub(crate) fn insert(&mut self, value: u64) {
        if self.contains(value) {
            return;
        }
        let mut first = value;
        let mut last = value;
        if let Some((&before, &before_last)) = self.ranges.range(..value).next_back()
            && before_last.checked_add(1) == Some(value)
        {
            first = before;
        }
        if let Some(next) = value.checked_add(1)
            && let Some(next_last) = self.ranges.remove(&next)
        {
            last = next_last;
        }
        self.ranges.insert(first, last);
    }

    pub(crate) fn remove(&mut self, value: u64) {
        let Some((&first, &last)) = self.ranges.range(..=value).next_back() else {
            return;
        };
        if last < value {
            return;
        }
        self.ranges.remove(&first);
        if first < value {
            self.ranges.insert(first, value - 1);
        }
        if value < last {
            self.ranges.insert(value + 1, last);
        }
    }

    /// Number of ranges, which determines the memory.
    pub(crate) fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Whether every number from 1 to `last` is in this set or in `other`.
    pub(crate) fn reaches(&self, last: u64, other: &Self) -> bool {
        let end_of_range = |set: &Self, value: u64| {
            let (_, end) = set.ranges.range(..=value).next_back()?;
            (*end >= value).then_some(*end)
        };
        let mut reached = 0;
        while reached < last {
            let next = reached + 1;
            match end_of_range(self, next).or_else(|| end_of_range(other, next)) {
                Some(end) => reached = end,
                None => return false,
            }
        }
        true
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_set(operations in proptest::collection::vec((any::<bool>(), 0u64..64), 0..300)) {
            let mut set = SeqSet::default();
            let mut model = BTreeSet::new();
            for (insert, value) in operations {
                if insert {
                    set.insert(value);
                    model.insert(value);
                } else {
                    set.remove(value);
                    model.remove(&value);
                }
                for probe in 0..64 {
                    prop_assert_eq!(set.contains(probe), model.contains(&probe));
                }
                let flat: Vec<u64> = set.ranges().flat_map(|(first, last)| first..=last).collect();
                prop_assert_eq!(&flat, &model.iter().copied().collect::<Vec<_>>());
                let ranges: Vec<_> = set.ranges().collect();
                for last in 0..64 {
                    let odd = SeqSet { ranges: (1..64).step_by(2).map(|value| (value, value)).collect() };
                    let reaches = (1..=last).all(|value| value % 2 == 1 || model.contains(&value));
                    prop_assert_eq!(set.reaches(last, &odd), reaches);
                }
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "ranges are merged");
            }
        }
    }
}
