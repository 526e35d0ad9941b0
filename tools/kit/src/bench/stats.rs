//! Owns the statistics: medians with their extremes, and ratios of consecutive runs. Does not know the measured
//! quantity.

use serde::Serialize;

/// The median of some figures, and their extremes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) count: usize,
}

impl Spread {
    /// `None` if there are no figures.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self {
            median,
            min,
            max,
            count: sorted.len(),
        })
    }
}

/// The ratio of `reference` to `subject` for each pair: both have seconds by round, `None` if the round does not
/// count. A pair in which a figure is 0, too small to be measured, does not count either.
pub(crate) fn paired_ratio(subject: &[Option<f64>], reference: &[Option<f64>]) -> Option<Spread> {
    let pairs = subject.iter().zip(reference);
    let ratios = pairs.filter_map(|(subject, reference)| Some((*reference)? / (*subject)?));
    Spread::of(ratios.filter(|ratio| ratio.is_finite()))
}

/// Additional seconds of `subject` compared with `reference`, for each pair.
pub(crate) fn paired_difference(
    subject: &[Option<f64>],
    reference: &[Option<f64>],
) -> Option<Spread> {
    let pairs = subject.iter().zip(reference);
    Spread::of(pairs.filter_map(|(subject, reference)| Some((*subject)? - (*reference)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of([]), None);
        let odd = Spread {
            median: 2.0,
            min: 1.0,
            max: 9.0,
            count: 3,
        };
        assert_eq!(Spread::of([9.0, 1.0, 2.0]), Some(odd));
        let even = Spread {
            median: 2.5,
            min: 1.0,
            max: 4.0,
            count: 4,
        };
        assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]), Some(even));
    }

    #[test]
    fn only_whole_pairs_count() {
        let subject = [Some(1.0), None, Some(2.0), Some(4.0)];
        let reference = [Some(2.0), Some(1.0), None, Some(2.0)];
        let expected = Spread {
            median: 1.25,
            min: 0.5,
            max: 2.0,
            count: 2,
        };
        assert_eq!(paired_ratio(&subject, &reference), Some(expected));
        assert_eq!(paired_ratio(&[None], &reference), None);
        let nothing = [Some(0.0), None, None, Some(0.0)];
        assert_eq!(paired_ratio(&nothing, &reference), None);
        assert_eq!(paired_ratio(&nothing, &nothing), None);
        let expected = Spread {
            median: 0.5,
            min: -1.0,
            max: 2.0,
            count: 2,
        };
        assert_eq!(paired_difference(&subject, &reference), Some(expected));
    }
}
