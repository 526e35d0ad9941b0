//! Owns the grammar of specifications. Makes nothing.
//! `layout` decides the names and sizes of an item's files.

mod named;
mod table;

pub use table::Table;

use super::content::Texture;

/// A data set: its items, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The items; each has a separate directory.
    pub items: Vec<Item>,
}

impl Spec {
    /// Number of files.
    pub fn files(&self) -> u64 {
        self.items.iter().map(|item| item.count).sum()
    }

    /// The same data set, smaller or larger: `scale`, above 0 and at most [`SCALE_MAX`], multiplies the bytes. The number of files
    /// changes. With only a few files, or in a tree whose files are counted, the sizes change instead.
    pub fn scaled(&self, scale: f64) -> Self {
        let items = self.items.iter().map(|item| item.scaled(scale));
        Self {
            items: items.collect(),
        }
    }

    /// The same data set, with this percentage of zero bytes, unless an item has its own setting.
    pub fn with_zeros(mut self, hundredths: u8) -> Self {
        for item in &mut self.items {
            if item.texture == Texture::Random {
                item.texture = Texture::Zeros(hundredths.min(100));
            }
        }
        self
    }
}

/// A number of files of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Number of files, from 1 to 10¹⁰.
    pub count: u64,
    /// Sizes of the files.
    pub sizes: Sizes,
    /// Number of files in a directory, at least one.
    pub per_directory: u64,
    /// Arrangement of the directories.
    pub shape: Shape,
    /// The degree to which the contents can be compressed.
    pub texture: Texture,
}

impl Item {
    fn scaled(mut self, scale: f64) -> Self {
        let fixed = self.shape == Shape::Square;
        let few = self.count.min(FEW_FILES);
        let count = if fixed {
            self.count
        } else {
            multiplied(self.count, scale).clamp(few, COUNT_MAX)
        };
        #[expect(clippy::cast_precision_loss, reason = "only their ratio counts")]
        let left = scale * self.count as f64 / count as f64;
        // A rounded count must not change sizes that the user specified.
        if fixed || count == few {
            let size = |bytes| multiplied(bytes, left).min(BYTES_MAX);
            self.sizes = match self.sizes {
                Sizes::Between(min, max) => Sizes::Between(size(min), size(max)),
                Sizes::Around { median, factor } => Sizes::Around {
                    median: size(median).min(MEDIAN_MAX),
                    factor,
                },
                Sizes::Uniform(min, max) => Sizes::Uniform(size(min), size(max)),
                Sizes::LogNormal { median, sigma } => Sizes::LogNormal {
                    median: size(median).min(MEDIAN_MAX),
                    sigma,
                },
                Sizes::Table(table) => Sizes::Table(table.map(size)),
                Sizes::Turns(turns) => Sizes::Turns(turns.map(size)),
            };
        }
        self.count = count;
        self
    }
}

/// Arithmetic on doubles is the same on every machine, and so is the result.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "scales are positive, and what is too large becomes the largest"
)]
fn multiplied(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).round() as u64
}

/// Sizes of the files of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// From the first size to the second, as many files in each octave.
    Between(u64, u64),
    /// Log-normal sizes: half are above the median, one in six above median × factor, one in six
    /// below median ÷ factor.
    Around {
        /// The median size.
        median: u64,
        /// The geometric standard deviation.
        factor: u64,
    },
    /// From the first size to the second, each with the same probability.
    Uniform(u64, u64),
    /// Log-normal sizes by the standard deviation of the natural logarithm.
    LogNormal {
        /// The median size.
        median: u64,
        /// The deviation, in thousandths.
        sigma: u64,
    },
    /// Several sizes, each with its part of the files.
    Table(Table),
    /// These sizes in turn.
    Turns([u64; 3]),
}

/// Arrangement of the directories of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All directories in the top directory.
    Flat,
    /// Nested as in a source tree.
    Tree,
    /// A square of letters: directories `a` to `y`, each with directories `a` to `y`.
    Square,
}

/// The error in a specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{item:?} is not a data set: {problem}; examples: 4000x1MiB, 3000x1KiB..64KiB/100, uniform:200x1..9MB, 500x~8MiB, \
     500x~8MiB~1.2, 90x1kB=2+1MB=1, tree:20000x100..30kB, source:20000, climate:2000, esnet-small"
)]
pub struct SpecError {
    /// The item, as the user wrote it.
    pub item: String,
    /// Description of the error.
    pub problem: &'static str,
}

/// Reads a specification.
///
/// # Errors
/// When an item does not follow the grammar of the [module](super).
pub fn parse(text: &str) -> Result<Spec, SpecError> {
    let items = text.split(',').map(|item| {
        let item = item.trim();
        parse_item(item).map_err(|problem| SpecError {
            item: item.to_owned(),
            problem,
        })
    });
    let items = items.collect::<Result<Vec<_>, _>>()?;
    if items.len() > ITEMS_MAX {
        return Err(SpecError {
            item: text.chars().take(40).collect(),
            problem: "more than 100 items",
        });
    }
    Ok(Spec { items })
}

fn parse_item(text: &str) -> Result<Item, &'static str> {
    let (mut tree, mut uniform, mut texture) = (false, false, Texture::Random);
    let mut rest = text;
    while let Some((kind, after)) = rest.split_once(':') {
        match kind {
            "tree" => tree = true,
            "uniform" => uniform = true,
            "compressible" => texture = Texture::Repeating,
            _ if uniform => return Err("COUNTxSIZE..SIZE must follow uniform:"),
            name => {
                let count = parse_number(after).ok_or("a count must follow the name of a mix")?;
                return preset(name, count, texture);
            }
        }
        rest = after;
    }
    if let Some(item) = named::named(rest).filter(|_| !tree && !uniform) {
        return Ok(Item {
            texture,
            ..parse_item(item)?
        });
    }
    if let Some(names) = named::others(rest) {
        return Err(names);
    }
    if let Some(sizes) = esnet(rest).filter(|_| !uniform) {
        return Ok(Item {
            count: ESNET_FILES,
            sizes,
            per_directory: 3,
            shape: Shape::Square,
            texture,
        });
    }
    let (rest, per_directory) = match rest.split_once('/') {
        Some((rest, number)) => (
            rest,
            parse_number(number).ok_or("the number of files per directory is missing")?,
        ),
        None if tree => (rest, PER_DIRECTORY_IN_TREE),
        None => (rest, PER_DIRECTORY),
    };
    let (count, sizes) = rest
        .split_once('x')
        .ok_or("no 'x' between count and size")?;
    let count = parse_number(count).ok_or("the count is not a number")?;
    let sizes = match (uniform, parse_sizes(sizes)?) {
        (false, sizes) => sizes,
        (true, Sizes::Between(min, max)) => Sizes::Uniform(min, max),
        (true, _) => return Err("COUNTxSIZE..SIZE must follow uniform:"),
    };
    if count == 0 || count > COUNT_MAX {
        return Err("the count must be from 1 to 10,000,000,000");
    }
    if per_directory == 0 {
        return Err("a directory must have at least one file");
    }
    let shape = if tree { Shape::Tree } else { Shape::Flat };
    Ok(Item {
        count,
        sizes,
        per_directory,
        shape,
        texture,
    })
}

fn parse_sizes(text: &str) -> Result<Sizes, &'static str> {
    if let Some((median, sigma)) = text.strip_prefix('~').and_then(|rest| rest.split_once('~')) {
        let median = parse_bytes(median)?;
        let sigma = parse_thousandths(sigma).ok_or("a deviation such as 1.2 must follow '~'")?;
        if median > MEDIAN_MAX || sigma > SIGMA_MAX {
            return Err("the median must be at most 1 TiB, and the deviation at most 4.6");
        }
        return Ok(Sizes::LogNormal { median, sigma });
    }
    if text.contains('=') {
        return Ok(Sizes::Table(Table::parse(text)?));
    }
    if let Some(around) = text.strip_prefix('~') {
        let (median, factor) = around.split_once('*').unwrap_or((around, "4"));
        let (median, factor) = (
            parse_bytes(median)?,
            parse_number(factor).ok_or("a factor must follow '*'")?,
        );
        if median > MEDIAN_MAX || !(1..=FACTOR_MAX).contains(&factor) {
            return Err("the median must be at most 1 TiB, and the factor from 1 to 100");
        }
        return Ok(Sizes::Around { median, factor });
    }
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let (min, max) = (parse_bytes(min)?, parse_bytes(max)?);
    if min > max {
        return Err("the first size is larger than the second");
    }
    Ok(Sizes::Between(min, max))
}

/// A named mix with this number of files.
fn preset(name: &str, count: u64, texture: Texture) -> Result<Item, &'static str> {
    let (median, factor, per_directory, shape) = match name {
        "source" => (4 << 10, 4, PER_DIRECTORY_IN_TREE, Shape::Tree),
        "climate" => (16 << 20, 6, 100, Shape::Flat),
        _ => {
            return Err(
                "the word before ':' must be tree, uniform, compressible, source or climate",
            );
        }
    };
    if count == 0 || count > COUNT_MAX {
        return Err("the count must be from 1 to 10,000,000,000");
    }
    Ok(Item {
        count,
        sizes: Sizes::Around { median, factor },
        per_directory,
        shape,
        texture,
    })
}

/// The trees with which ESnet measures data transfer nodes.
fn esnet(name: &str) -> Option<Sizes> {
    let (_, unit) = ESNET_UNITS.iter().find(|(known, _)| *known == name)?;
    Some(Sizes::Turns([*unit, 2 * unit, 5 * unit]))
}

fn parse_number(text: &str) -> Option<u64> {
    // `parse` alone would accept a sign.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// A decimal number with at most three digits after the point.
fn parse_thousandths(text: &str) -> Option<u64> {
    let (whole, behind) = text.split_once('.').unwrap_or((text, "0"));
    let digits = parse_number(behind).filter(|_| behind.len() <= 3)?;
    let missing = u32::try_from(3 - behind.len()).ok()?;
    parse_number(whole)?
        .checked_mul(1000)?
        .checked_add(digits * 10_u64.pow(missing))
}

fn parse_bytes(text: &str) -> Result<u64, &'static str> {
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number = parse_number(number).ok_or("the size is not a number")?;
    let unit = UNITS
        .iter()
        .find(|(name, _)| *name == unit.trim_start())
        .ok_or("the unit of the size is none of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB")?
        .1;
    number
        .checked_mul(unit)
        .filter(|bytes| *bytes <= BYTES_MAX)
        .ok_or("the size is larger than a file can be")
}

/// Three files in each of 25 × 25 directories.
const ESNET_FILES: u64 = 3 * 625;
const ESNET_UNITS: [(&str, u64); 4] = [
    ("esnet-tiny", 1_000),
    ("esnet-small", 1_000_000),
    ("esnet-medium", 10_000_000),
    ("esnet-large", 100_000_000),
];

/// Even six deviations above the largest median, with the largest factor, a size is valid.
const MEDIAN_MAX: u64 = 1 << 40;
const FACTOR_MAX: u64 = 100;
/// In thousandths; the logarithm of the largest factor.
const SIGMA_MAX: u64 = 4_600;

/// Largest number of files of an item.
const COUNT_MAX: u64 = 10_000_000_000;

/// The largest scale.
pub const SCALE_MAX: f64 = 1000.0;
/// An item with at most this many files keeps its number of files.
const FEW_FILES: u64 = 40;

/// Names of items have only two digits.
const ITEMS_MAX: usize = 100;
const PER_DIRECTORY: u64 = 1000;
const PER_DIRECTORY_IN_TREE: u64 = 12;
/// 4 EiB: far larger than any file, and small enough that the arithmetic of sizes cannot overflow.
const BYTES_MAX: u64 = 1 << 62;
const UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

#[cfg(test)]
mod tests;
