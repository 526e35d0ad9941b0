//! Owns the grammar of specifications. Makes nothing.
//! What an item's files are called and how large each is, `layout` says.

/// A data set: what to make, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The items; each gets a directory of its own.
    pub items: Vec<Item>,
}

impl Spec {
    /// How many files it has.
    pub fn files(&self) -> u64 {
        self.items.iter().map(|item| item.count).sum()
    }
}

/// A number of files of one sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// How many files, from 1 to 10¹⁰.
    pub count: u64,
    /// The smallest size.
    pub bytes_min: u64,
    /// The largest size, not less than the smallest.
    pub bytes_max: u64,
    /// How many files are in a directory, at least one.
    pub per_directory: u64,
    /// Whether the directories are nested as in a source tree.
    pub tree: bool,
    /// Whether the contents compress.
    pub compressible: bool,
}

/// What is wrong with a specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{item:?} is no data set: {problem}; examples: 4000x1MiB, 3000x1KiB..64KiB/100, tree:20000x100..30kB"
)]
pub struct SpecError {
    /// The item, as it was given.
    pub item: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// Reads a specification.
///
/// # Errors
/// When an item is not as the [module](super) says.
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
    let (mut tree, mut compressible) = (false, false);
    let mut rest = text;
    while let Some((kind, after)) = rest.split_once(':') {
        match kind {
            "tree" => tree = true,
            "compressible" => compressible = true,
            _ => return Err("the word before ':' must be tree or compressible"),
        }
        rest = after;
    }
    let (rest, per_directory) = match rest.split_once('/') {
        Some((rest, number)) => (rest, parse_number(number).ok_or("how many per directory?")?),
        None if tree => (rest, PER_DIRECTORY_IN_TREE),
        None => (rest, PER_DIRECTORY),
    };
    let (count, sizes) = rest
        .split_once('x')
        .ok_or("no 'x' between count and size")?;
    let count = parse_number(count).ok_or("the count is not a number")?;
    let (bytes_min, bytes_max) = sizes.split_once("..").unwrap_or((sizes, sizes));
    let bytes_min = parse_bytes(bytes_min)?;
    let bytes_max = parse_bytes(bytes_max)?;
    if count == 0 || count > COUNT_MAX {
        return Err("the count is not from 1 to 10,000,000,000");
    }
    if per_directory == 0 {
        return Err("a directory has at least one file");
    }
    if bytes_min > bytes_max {
        return Err("the first size is larger than the second");
    }
    Ok(Item {
        count,
        bytes_min,
        bytes_max,
        per_directory,
        tree,
        compressible,
    })
}

fn parse_number(text: &str) -> Option<u64> {
    // `parse` alone would take a sign.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
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
        .ok_or("the size is more than a file can have")
}

/// Most files of an item.
const COUNT_MAX: u64 = 10_000_000_000;

/// Names of items have two digits.
const ITEMS_MAX: usize = 100;
const PER_DIRECTORY: u64 = 1000;
const PER_DIRECTORY_IN_TREE: u64 = 12;
/// 4 EiB: far beyond any file, and the arithmetic of sizes cannot overflow.
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
mod tests {
    use super::{Item, parse};

    const PLAIN: Item = Item {
        count: 1,
        bytes_min: 0,
        bytes_max: 0,
        per_directory: 1000,
        tree: false,
        compressible: false,
    };

    #[test]
    fn items_are_read_as_documented() {
        let fixed = |count, bytes| Item {
            count,
            bytes_min: bytes,
            bytes_max: bytes,
            ..PLAIN
        };
        for (text, expected) in [
            ("4000x1MiB", fixed(4000, 1 << 20)),
            ("1x200GiB", fixed(1, 200 << 30)),
            ("7x0", fixed(7, 0)),
            ("7x300kB", fixed(7, 300_000)),
            (
                "100000x8KiB/100",
                Item {
                    per_directory: 100,
                    ..fixed(100_000, 8192)
                },
            ),
            (
                "tree:compressible:20x1..3kB",
                Item {
                    count: 20,
                    bytes_min: 1,
                    bytes_max: 3000,
                    per_directory: 12,
                    tree: true,
                    compressible: true,
                },
            ),
        ] {
            assert_eq!(parse(text).unwrap().items, [expected], "{text}");
        }
        let several = parse("1x1, 2x2").unwrap();
        assert_eq!(several.items, [fixed(1, 1), fixed(2, 2)]);
        assert_eq!(several.files(), 3);
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        for text in [
            "",
            "1x1,",
            "x",
            "1x",
            "x1",
            "1",
            "-1x1",
            "+1x1",
            "1x-1",
            "0x1",
            "1x1XB",
            "1x2..1",
            "1x1..",
            "1x1/0",
            "1x1/",
            "wood:1x1",
            "1x1é",
            "1x99999999999999999999",
            "1x9000000TiB",
            "99999999999x1",
        ] {
            let error = parse(text).expect_err(text);
            assert!(text.split(',').any(|item| item == error.item), "{error}");
        }
        assert!(parse(&["1x1"; 101].join(",")).is_err());
    }
}
