//! The meaning of specifications, also at another scale.

use super::{Item, SCALE_MAX, Shape, Sizes, parse};
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
        // Rounded once: to a whole file, or to a whole byte in each of a few files.
        #[expect(clippy::cast_precision_loss, reason = "compared roughly")]
        let unit = (bytes.max(40)) as f64;
        prop_assert!((is - ought).abs() <= unit + ought * 1e-9, "{} instead of {}", is, ought);
    }
}
