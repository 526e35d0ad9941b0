//! Owns what each generated file and directory is: name, size, mode, time, from its number alone.
//! Remembers nothing, so that a data set may have any number of files.

use super::content::{Purpose, draw};
use super::spec::Item;
use crate::meta::Timestamp;

/// One item of a specification, with its place in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) seed: u64,
    pub(super) number: u64,
    pub(super) item: Item,
}

impl Layout {
    /// How many directories hold files.
    pub(super) fn directories(&self) -> u64 {
        self.item.count.div_ceil(self.item.per_directory)
    }

    /// The directory that has everything of this item.
    pub(super) fn top(&self) -> String {
        format!("{:02}", self.number)
    }

    /// The path of a directory below the data set's; parents have smaller numbers. In a tree directory 0 is the top
    /// itself, and the parents hold files too.
    pub(super) fn directory(&self, number: u64) -> String {
        let mut path = self.top();
        if !self.item.tree {
            path.push_str(&format!("/d{number:06}"));
            return path;
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

    /// The name of a file in its directory.
    pub(super) fn file_name(&self, file: u64) -> String {
        if !self.item.tree {
            return format!("f{file:08}");
        }
        let random = self.draw(file, Purpose::Name);
        let word = pick(&WORDS, random);
        let ending = pick(&ENDINGS, random >> 32);
        format!("{word}_{file}{ending}")
    }

    /// In a tree one file in 16 is executable.
    pub(super) fn mode(&self, file: u64) -> u32 {
        if self.item.tree && self.draw(file, Purpose::Name) >> 60 == 0 {
            0o755
        } else {
            0o644
        }
    }

    pub(super) fn bytes(&self, file: u64) -> u64 {
        let random = self.draw(file, Purpose::Size);
        spread(self.item.bytes_min, self.item.bytes_max, random)
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

fn pick<'a>(list: &[&'a str], random: u64) -> &'a str {
    let index = random % list.len() as u64;
    usize::try_from(index).map_or("", |index| list[index])
}

/// The time of the data set's own directory.
pub(super) fn root_time(seed: u64) -> Timestamp {
    time(draw(seed, u64::MAX, 0, Purpose::Time))
}

/// A moment from 2020 to 2024, to the nanosecond.
fn time(random: u64) -> Timestamp {
    const YEAR_2020: i64 = 1_577_836_800;
    const FIVE_YEARS: u64 = 1827 * 86_400;
    Timestamp {
        seconds: YEAR_2020 + (random % FIVE_YEARS).cast_signed(),
        nanoseconds: ((random >> 32) % 1_000_000_000) as u32,
    }
}

/// A size between the two, as likely in each octave. Integers only: floating point logarithms differ from one machine
/// to the next. Octaves are cut into equal steps instead, which is close enough.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a random part of a 64-bit number, and a fraction of 2^62 at most"
)]
fn spread(bytes_min: u64, bytes_max: u64, random: u64) -> u64 {
    let low = position(bytes_min + 1);
    let high = position(bytes_max + 1);
    let scaled = u128::from(random) * u128::from(high - low + 1);
    let at = low + (scaled >> 64) as u64;
    let octave = at >> FRACTION_BITS;
    let fraction = u128::from(at & ((1 << FRACTION_BITS) - 1));
    let size = (1_u64 << octave) + ((fraction << octave) >> FRACTION_BITS) as u64 - 1;
    size.clamp(bytes_min, bytes_max)
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

/// Directories in a directory of a tree; not more than the words, or names would repeat.
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
    use super::{Layout, spread};
    use crate::generator::parse;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn sizes_stay_within_their_limits(one in 0..=1_u64 << 62, other in 0..=1_u64 << 62, random: u64) {
            let (low, high) = (one.min(other), one.max(other));
            prop_assert!((low..=high).contains(&spread(low, high, random)));
            prop_assert_eq!(spread(low, low, random), low);
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
                let top = number == 0 && layout.item.tree;
                assert!(known.insert(path.clone()) || top, "{path} twice");
            }
            let names: HashSet<String> = (0..3000).map(|file| layout.file_name(file)).collect();
            assert_eq!(names.len(), 3000);
        }
    }
}
