//! Owns the properties of each generated file and directory: name, size, mode and time follow from its number alone. Stores nothing, so a
//! data set may have any number of files.

use super::content::{Purpose, draw};
use super::spec::{Item, Shape, Sizes};
use godwit_store::Timestamp;

/// One item of a specification, with its position in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) seed: u64,
    pub(super) number: u64,
    pub(super) item: Item,
}

impl Layout {
    /// Number of directories that have files.
    pub(super) fn directories(&self) -> u64 {
        self.item.count.div_ceil(self.item.per_directory)
    }

    /// The directory that contains all of this item.
    pub(super) fn top(&self) -> String {
        format!("{:02}", self.number)
    }

    /// The path of a directory, relative to the directory of the data set; parents have smaller numbers. In a tree, directory 0 is the top
    /// directory, and parents have files too.
    pub(super) fn directory(&self, number: u64) -> String {
        let mut path = self.top();
        match self.item.shape {
            Shape::Flat => {
                path.push_str(&format!("/d{number:06}"));
                return path;
            }
            Shape::Square => {
                path = self.row(number / LETTERS);
                path.push('/');
                path.push(letter(number % LETTERS));
                return path;
            }
            Shape::Tree => {}
        }
        let mut digits = Vec::new();
        let mut rest = number;
        while rest > 0 {
            rest -= 1;
            digits.push(rest % FAN_OUT);
            rest /= FAN_OUT;
        }
        for (depth, digit) in digits.iter().rev().enumerate() {
            path.push('/');
            path.push_str(pick(&WORDS, depth as u64 * 7 + digit));
        }
        path
    }

    /// Number of directories that have only directories, besides the top directory.
    pub(super) fn rows(&self) -> u64 {
        match self.item.shape {
            Shape::Square => self.directories().div_ceil(LETTERS),
            Shape::Flat | Shape::Tree => 0,
        }
    }

    /// The parent of the directory with the number `directory`, if that directory is the first in it.
    pub(super) fn row_begun_by(&self, directory: u64) -> Option<u64> {
        let square = self.item.shape == Shape::Square;
        (square && directory.is_multiple_of(LETTERS)).then_some(directory / LETTERS)
    }

    /// The path of a directory of directories.
    pub(super) fn row(&self, number: u64) -> String {
        format!("{}/{}", self.top(), letter(number))
    }

    /// Whether directory 0 is the top directory.
    pub(super) fn is_nested(&self) -> bool {
        self.item.shape == Shape::Tree
    }

    /// The name of a file in its directory.
    pub(super) fn file_name(&self, file: u64) -> String {
        if !self.is_nested() {
            return format!("f{file:08}");
        }
        let random = self.draw(file, Purpose::Name);
        let word = pick(&WORDS, random);
        let ending = pick(&ENDINGS, random >> 32);
        format!("{word}_{file}{ending}")
    }

    /// The mode of a file; in a tree one file in 16 is executable.
    pub(super) fn mode(&self, file: u64) -> u32 {
        if self.is_nested() && self.draw(file, Purpose::Name) >> 60 == 0 {
            0o755
        } else {
            0o644
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "less than three")]
    pub(super) fn bytes(&self, file: u64) -> u64 {
        let random = self.draw(file, Purpose::Size);
        match self.item.sizes {
            Sizes::Between(min, max) => spread(min, max, random),
            Sizes::Around { median, factor } => log_normal(
                median,
                position(factor),
                [random, self.draw(file, Purpose::Shape)],
            ),
            Sizes::Uniform(min, max) => uniform(min, max, random),
            Sizes::LogNormal { median, sigma } => log_normal(
                median,
                sigma * SIGMA_UNIT,
                [random, self.draw(file, Purpose::Shape)],
            ),
            Sizes::Table(table) => table.at(random),
            Sizes::Turns(turns) => turns[(file % turns.len() as u64) as usize],
        }
    }

    pub(super) fn file_time(&self, file: u64) -> Timestamp {
        time(self.draw(file, Purpose::Time))
    }

    pub(super) fn directory_time(&self, number: u64) -> Timestamp {
        time(self.draw(!number, Purpose::Time))
    }

    fn draw(&self, file: u64, purpose: Purpose) -> u64 {
        draw(self.seed, self.number, file, purpose)
    }
}

fn letter(number: u64) -> char {
    char::from(b'a' + u8::try_from(number % LETTERS).unwrap_or(0))
}

fn pick<'a>(list: &[&'a str], random: u64) -> &'a str {
    let index = random % list.len() as u64;
    usize::try_from(index).map_or("", |index| list[index])
}

/// The time of the data set's directory.
pub(super) fn root_time(seed: u64) -> Timestamp {
    time(draw(seed, u64::MAX, 0, Purpose::Time))
}

/// A time from 2020 to 2024, to the nanosecond.
fn time(random: u64) -> Timestamp {
    const YEAR_2020: i64 = 1_577_836_800;
    const FIVE_YEARS: u64 = 1827 * 86_400;
    Timestamp {
        seconds: YEAR_2020 + (random % FIVE_YEARS).cast_signed(),
        nanoseconds: ((random >> 32) % 1_000_000_000) as u32,
    }
}

/// A size between the two bounds, with the same probability for each octave. Uses only integers: floating-point logarithms differ between
/// machines. Octaves are divided into equal steps instead, which is accurate enough.
fn spread(bytes_min: u64, bytes_max: u64, random: u64) -> u64 {
    let low = position(bytes_min + 1);
    let high = position(bytes_max + 1);
    let scaled = u128::from(random) * u128::from(high - low + 1);
    let size = value_at(low + (scaled >> 64) as u64) - 1;
    size.clamp(bytes_min, bytes_max)
}

/// A size between the two bounds, each with the same probability.
fn uniform(bytes_min: u64, bytes_max: u64, random: u64) -> u64 {
    let sizes = u128::from(bytes_max - bytes_min) + 1;
    bytes_min + ((u128::from(random) * sizes) >> 64) as u64
}

/// A log-normal size around the median, with this deviation in the unit of [`position`]. The sum of eight random numbers is close enough to
/// a normal one, and it is the same on every machine.
fn log_normal(median: u64, deviation: u64, random: [u64; 2]) -> u64 {
    let parts = random.iter().flat_map(|word| {
        let bytes = word.to_le_bytes();
        let (pairs, _) = bytes.as_chunks::<2>();
        pairs
            .iter()
            .map(|pair| i128::from(u16::from_le_bytes(*pair)))
            .collect::<Vec<_>>()
    });
    // Eight numbers below 2^16 have the mean 4 × 2^16 and the variance 8/12 of 2^32: 0.8165 × 2^16 is a deviation.
    const DEVIATION: i128 = 53_510;
    let off = parts.sum::<i128>() - (4 << 16);
    let step = i128::from(deviation) * off / DEVIATION;
    let at = i128::from(position(median + 1)) + step;
    let at = at.clamp(0, i128::from(position(1 << 62)));
    value_at(u64::try_from(at).unwrap_or(0)) - 1
}

/// The number whose logarithm is `at`, in the unit of [`position`].
#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction of 2^62 at most"
)]
fn value_at(at: u64) -> u64 {
    let octave = at >> FRACTION_BITS;
    let fraction = u128::from(at & ((1 << FRACTION_BITS) - 1));
    (1_u64 << octave) + ((fraction << octave) >> FRACTION_BITS) as u64
}

/// The logarithm of `value`, at least 1, to the base 2 in fixed point, linear within an octave.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction of FRACTION_BITS bits"
)]
fn position(value: u64) -> u64 {
    let octave = u64::from(value.ilog2());
    let fraction = (u128::from(value - (1 << octave)) << FRACTION_BITS) >> octave;
    (octave << FRACTION_BITS) + fraction as u64
}

const FRACTION_BITS: u32 = 56;

/// A thousandth of a natural logarithm, in the unit of [`position`].
const SIGMA_UNIT: u64 = 103_957_133_576_909;

/// The letters from `a` to `y`.
const LETTERS: u64 = 25;

/// Directories in one directory of a tree; at most the number of words, because names would repeat.
const FAN_OUT: u64 = 5;

const WORDS: [&str; 32] = [
    "core", "net", "fs", "lib", "util", "test", "docs", "drivers", "include", "kernel", "arch",
    "block", "crypto", "tools", "scripts", "sound", "virt", "init", "mm", "ipc", "security",
    "samples", "firmware", "boot", "common", "config", "data", "api", "server", "client", "proto",
    "bench",
];

const ENDINGS: [&str; 8] = [".rs", ".c", ".h", ".py", ".md", ".txt", ".json", ""];

#[cfg(test)]
mod tests {
    use super::{Layout, SIGMA_UNIT, log_normal, position, spread, uniform};
    use crate::parse;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn sizes_stay_within_their_limits(one in 0..=1_u64 << 62, other in 0..=1_u64 << 62, random: u64) {
            let (low, high) = (one.min(other), one.max(other));
            prop_assert!((low..=high).contains(&spread(low, high, random)));
            prop_assert_eq!(spread(low, low, random), low);
            prop_assert!((low..=high).contains(&uniform(low, high, random)));
            prop_assert_eq!(uniform(low, low, random), low);
        }

        #[test]
        fn a_log_normal_size_is_one_that_a_file_can_have(
            median in 0..=1_u64 << 40, sigma in 0..=4600_u64, first: u64, second: u64,
        ) {
            let size = log_normal(median, sigma * SIGMA_UNIT, [first, second]);
            prop_assert!(size <= 1 << 62);
            prop_assert_eq!(log_normal(median, 0, [first, second]), median);
        }
    }

    #[test]
    fn both_ends_are_reached_and_octaves_are_even() {
        assert_eq!(spread(3, 5000, 0), 3);
        assert_eq!(spread(3, 5000, u64::MAX), 5000);
        let quarter = 1_u64 << 62;
        assert_eq!(spread(0, (1 << 20) - 1, quarter), (1 << 5) - 1);
        assert_eq!(spread(0, (1 << 20) - 1, 2 * quarter), (1 << 10) - 1);
    }

    #[test]
    fn half_are_above_the_median_and_one_in_six_is_a_factor_above() {
        let word = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        let sizes: Vec<u64> = (1..=60_000_u64)
            .map(|index| log_normal(1000, position(4), [word(index), word(word(index))]))
            .collect();
        let above = |limit: u64| sizes.iter().filter(|size| **size > limit).count();
        assert!((29_000..31_000).contains(&above(1000)), "{}", above(1000));
        assert!((8_500..10_500).contains(&above(4000)), "{}", above(4000));
        assert!((8_500..10_500).contains(&(60_000 - above(250))));
        assert_eq!(
            log_normal(1000, position(1), [u64::MAX, 0]),
            1000,
            "no spread at all"
        );
        assert!(log_normal(1 << 40, position(100), [u64::MAX; 2]) < 1 << 62);
    }

    fn sizes(text: &str) -> Vec<u64> {
        let item = parse(text).unwrap().items[0];
        let layout = Layout {
            seed: 7,
            number: 0,
            item,
        };
        (0..item.count).map(|file| layout.bytes(file)).collect()
    }

    #[test]
    fn both_ends_of_a_uniform_range_are_reached_and_the_set_of_the_paper_has_its_size() {
        assert_eq!(uniform(3, 5000, 0), 3);
        assert_eq!(uniform(3, 5000, u64::MAX), 5000);
        assert_eq!(uniform(0, u64::MAX, u64::MAX), u64::MAX);
        let gib = sizes("zx-mixed").iter().sum::<u64>() >> 30;
        assert!((380..410).contains(&gib), "{gib}, and 392 in the paper");
    }

    #[test]
    fn a_third_is_beyond_one_deviation() {
        // e^1.5 is 4.48.
        let sizes = sizes("60000x~1000~1.5");
        let above = |limit: u64| sizes.iter().filter(|size| **size > limit).count();
        assert!((29_000..31_000).contains(&above(1000)), "{}", above(1000));
        assert!((8_500..10_500).contains(&above(4482)), "{}", above(4482));
        assert!((8_500..10_500).contains(&(60_000 - above(223))));
    }

    #[test]
    fn each_size_of_a_table_has_its_part() {
        let sizes = sizes("60000x1kB=3+1MB=2+7=1");
        for (size, part) in [(1000, 3), (1_000_000, 2), (7, 1)] {
            let files = sizes.iter().filter(|known| **known == size).count();
            assert!(
                (9_500 * part..10_500 * part).contains(&files),
                "{size}: {files}"
            );
        }
    }

    #[test]
    fn names_are_unique_and_parents_come_first() {
        for spec in ["3000x1/7", "tree:3000x1/3"] {
            let layout = Layout {
                seed: 7,
                number: 0,
                item: parse(spec).unwrap().items[0],
            };
            let mut known: HashSet<String> = HashSet::from([String::new(), layout.top()]);
            for number in 0..layout.directories() {
                let path = layout.directory(number);
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                assert!(known.contains(parent), "{path}");
                let top = number == 0 && layout.is_nested();
                assert!(known.insert(path.clone()) || top, "{path} twice");
            }
            let names: HashSet<String> = (0..3000).map(|file| layout.file_name(file)).collect();
            assert_eq!(names.len(), 3000);
        }
    }
}
