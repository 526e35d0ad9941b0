//! Tests the meaning of specifications, also at another scale.

use super::named::{PAPERS, SETS};
use super::{Item, SCALE_MAX, Shape, Sizes, Table, parse};
use crate::Texture;
use proptest::prelude::*;

const PLAIN: Item = Item {
    count: 1,
    sizes: Sizes::Between(0, 0),
    per_directory: 1000,
    shape: Shape::Flat,
    texture: Texture::Random,
};

fn fixed(count: u64, bytes: u64) -> Item {
    Item {
        count,
        sizes: Sizes::Between(bytes, bytes),
        ..PLAIN
    }
}

fn item(text: &str) -> Item {
    let [item] = parse(text).expect(text).items[..] else {
        panic!("{text} is not one item");
    };
    item
}

#[test]
fn items_are_read_as_documented() {
    let around = |median, factor| Sizes::Around { median, factor };
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
                sizes: Sizes::Between(1, 3000),
                per_directory: 12,
                shape: Shape::Tree,
                texture: Texture::Repeating,
            },
        ),
        (
            "50x~8MiB/10",
            Item {
                count: 50,
                sizes: around(8 << 20, 4),
                per_directory: 10,
                ..PLAIN
            },
        ),
        (
            "tree:50x~1kB*9",
            Item {
                count: 50,
                sizes: around(1000, 9),
                per_directory: 12,
                shape: Shape::Tree,
                ..PLAIN
            },
        ),
        (
            "uniform:20x1..3kB",
            Item {
                count: 20,
                sizes: Sizes::Uniform(1, 3000),
                ..PLAIN
            },
        ),
        (
            "50x~8MiB~1.25/10",
            Item {
                count: 50,
                sizes: Sizes::LogNormal {
                    median: 8 << 20,
                    sigma: 1250,
                },
                per_directory: 10,
                ..PLAIN
            },
        ),
        (
            "90x1kB=2+1MB=1",
            Item {
                count: 90,
                sizes: Sizes::Table(Table::parse("1kB=2+1MB=1").unwrap()),
                ..PLAIN
            },
        ),
        ("memznet-100MB", fixed(200, 100_000_000)),
        (
            "source:20000",
            Item {
                count: 20_000,
                sizes: around(4096, 4),
                per_directory: 12,
                shape: Shape::Tree,
                ..PLAIN
            },
        ),
        (
            "compressible:climate:2000",
            Item {
                count: 2000,
                sizes: around(16 << 20, 6),
                per_directory: 100,
                texture: Texture::Repeating,
                ..PLAIN
            },
        ),
        (
            "esnet-medium",
            Item {
                count: 1875,
                sizes: Sizes::Turns([10_000_000, 20_000_000, 50_000_000]),
                per_directory: 3,
                shape: Shape::Square,
                ..PLAIN
            },
        ),
    ] {
        assert_eq!(item(text), expected, "{text}");
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
        "1x~",
        "1x~1*0",
        "1x~1*101",
        "1x~2TiB",
        "1x~1~",
        "1x~1~4.601",
        "1x~1~1.0001",
        "1x~1~-1",
        "1x~1~.5",
        "1x~2TiB~1",
        "1x1=",
        "1x1=0",
        "1x=1",
        "1x1=1+",
        "1x1=1+2",
        "1x1=1000000001",
        "uniform:1x~1",
        "uniform:1x1=1",
        "uniform:1x2..1",
        "uniform:esnet-tiny:1",
        "tree:zx-8KiB",
        "zx-8kib",
        "memznet-1GB:2",
        "source:",
        "source:0",
        "source:1x1",
        "climate",
        "esnet-huge",
        "tree:esnet-tiny:1",
    ] {
        let error = parse(text).expect_err(text);
        assert!(text.split(',').any(|item| item == error.item), "{error}");
    }
    assert!(parse(&["1x1"; 101].join(",")).is_err());
}

#[test]
fn each_set_of_a_paper_is_the_item_that_it_stands_for() {
    for (name, meant) in SETS {
        assert_eq!(item(name), item(meant), "{name}");
        let compressible = item(&format!("compressible:{name}"));
        assert_eq!(compressible.texture, Texture::Repeating, "{name}");
    }
    for (paper, problem) in PAPERS {
        let names: Vec<&str> = SETS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| name.starts_with(paper))
            .collect();
        assert!(
            problem.ends_with(&format!(" {}", names.join(", "))),
            "{problem}"
        );
        assert_eq!(parse(&format!("{paper}?")).unwrap_err().problem, problem);
    }
    let rows = ["1=1"; 13].join("+");
    assert!(parse(&format!("1x{rows}")).is_err());
}

#[test]
fn many_files_become_fewer_and_few_become_smaller() {
    for (text, scale, expected) in [
        ("100000x8KiB", 0.25, fixed(25_000, 8192)),
        ("1x200GiB", 0.01, fixed(1, 2 << 30)),
        ("40x100MiB", 0.25, fixed(40, 25 << 20)),
        ("400x100MiB", 0.01, fixed(40, 10 << 20)),
        ("10x1MiB", 3.0, fixed(30, 1 << 20)),
    ] {
        let scaled = parse(text).unwrap().scaled(scale);
        assert_eq!(scaled.items, [expected], "{text} × {scale}");
    }
    let table = parse("1x1kB=2+1MB=1").unwrap().scaled(0.5);
    assert_eq!(table, parse("1x500=2+500kB=1").unwrap());
    let uniform = parse("uniform:2x10..20").unwrap().scaled(0.5);
    assert_eq!(uniform, parse("uniform:2x5..10").unwrap());
    let around = parse("2x~10~0.5").unwrap().scaled(0.5);
    assert_eq!(around, parse("2x~5~0.5").unwrap());
    let tiny = parse("esnet-small").unwrap().scaled(0.001);
    assert_eq!(tiny, parse("esnet-tiny").unwrap());
}

proptest! {
    #[test]
    fn a_scale_multiplies_the_bytes(
        count in 1..1_000_000_u64, bytes in 1..1_u64 << 30, scale in 0.0001..SCALE_MAX,
    ) {
        let spec = parse(&format!("{count}x{bytes}")).unwrap();
        let [Item { count: fewer, sizes: Sizes::Between(smaller, _), .. }] = spec.scaled(scale).items[..] else {
            panic!("another item");
        };
        #[expect(clippy::cast_precision_loss, reason = "compared roughly")]
        let (is, ought) = ((fewer * smaller) as f64, (count * bytes) as f64 * scale);
        // The result is rounded once: to a whole file, or to a whole byte in each of a few files.
        #[expect(clippy::cast_precision_loss, reason = "compared roughly")]
        let unit = (bytes.max(40)) as f64;
        prop_assert!((is - ought).abs() <= unit + ought * 1e-9, "{} instead of {}", is, ought);
    }
}
