//! Owns tables of sizes: each size with its part of the files. Draws no random numbers.

use super::parse_bytes;
use super::parse_number;

/// Largest number of rows of a table.
const ROWS_MAX: usize = 12;

/// The largest part of one row.
const PART_MAX: u64 = 1_000_000_000;

/// Sizes, each with its part of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Size and part; unused rows have the part 0.
    rows: [(u64, u64); ROWS_MAX],
}

impl Table {
    /// Reads `SIZE=PART+SIZE=PART`.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut rows = [(0, 0); ROWS_MAX];
        for (index, row) in text.split('+').enumerate() {
            let (size, part) = row.split_once('=').ok_or("a size of a table has no part")?;
            let part = parse_number(part).filter(|part| (1..=PART_MAX).contains(part));
            let part = part.ok_or("a part of a table must be from 1 to 1,000,000,000")?;
            let place = rows
                .get_mut(index)
                .ok_or("a table has more than 12 sizes")?;
            *place = (parse_bytes(size)?, part);
        }
        Ok(Self { rows })
    }

    /// The same table with other sizes.
    pub(super) fn map(mut self, size: impl Fn(u64) -> u64) -> Self {
        for (bytes, _) in &mut self.rows {
            *bytes = size(*bytes);
        }
        self
    }

    /// The size for a random number: each size is as frequent as its part.
    pub(crate) fn at(&self, random: u64) -> u64 {
        let all: u64 = self.rows.iter().map(|(_, part)| part).sum();
        let mut left = (u128::from(random) * u128::from(all)) >> 64;
        for (bytes, part) in self.rows {
            let part = u128::from(part);
            if left < part {
                return bytes;
            }
            left -= part;
        }
        // Not reached: the number is below the sum of all parts.
        self.rows[0].0
    }
}
