//! Tests that generated data sets follow the specification and are the same for the same seed, with
//! any number of threads.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use godwit_generator::{Content, Texture, Totals, foretell, generate, parse};
use proptest::prelude::*;

type Tree = BTreeMap<PathBuf, (u32, i64, i64, Option<Vec<u8>>)>;

fn make(spec: &str, seed: u64, threads: usize) -> (Tree, Totals) {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("a/set");
    let mut last = Totals::default();
    let totals = generate(&parse(spec).unwrap(), &root, seed, threads, &mut |now| {
        assert!(now.files >= last.files && now.bytes >= last.bytes);
        last = now;
    });
    let totals = totals.unwrap();
    assert_eq!(last, totals);
    assert_eq!(foretell(&parse(spec).unwrap(), seed), totals);
    let mut tree = Tree::new();
    read(&root, &root, &mut tree);
    let files = tree.values().filter_map(|entry| entry.3.as_ref());
    assert_eq!(totals.files, files.clone().count() as u64);
    assert_eq!(
        totals.bytes,
        files.map(|content| content.len() as u64).sum::<u64>()
    );
    assert_eq!(totals.files + totals.directories + 1, tree.len() as u64);
    (tree, totals)
}

fn read(root: &Path, path: &Path, tree: &mut Tree) {
    let meta = fs::symlink_metadata(path).unwrap();
    let content = meta.is_file().then(|| fs::read(path).unwrap());
    let name = path.strip_prefix(root).unwrap().to_owned();
    tree.insert(
        name,
        (
            meta.mode() & 0o7777,
            meta.mtime(),
            meta.mtime_nsec(),
            content,
        ),
    );
    if meta.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            read(root, &entry.unwrap().path(), tree);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_tree() {
    let spec = "150x0..5000/40,tree:200x1..900,compressible:2x700KiB";
    let (one, totals) = make(spec, 7, 1);
    assert_eq!(totals.files, 352);
    let (four, _) = make(spec, 7, 4);
    assert!(one == four, "another number of threads gave another tree");
    let (other, _) = make(spec, 8, 2);
    assert!(one != other);
    let depth = one.keys().map(|path| path.components().count()).max();
    assert!(depth >= Some(4), "the tree is nested");
    assert!(
        one.values()
            .any(|entry| entry.0 == 0o755 && entry.3.is_some())
    );
}

#[test]
fn a_plain_item_is_laid_out_as_specified() {
    let (tree, totals) = make("25x1000/10", 3, 2);
    assert_eq!(
        totals,
        Totals {
            files: 25,
            directories: 4,
            bytes: 25_000
        }
    );
    for directory in ["00", "00/d000000", "00/d000001", "00/d000002"] {
        assert_eq!(tree[Path::new(directory)].0, 0o755);
    }
    let (mode, seconds, _, content) = &tree[Path::new("00/d000002/f00000024")];
    assert_eq!(*mode, 0o644);
    assert!(
        (1_577_836_800..1_735_700_000).contains(seconds),
        "from 2020 to 2024"
    );
    let mut expected = vec![0; 1000];
    Content::new(3, 0, 24, Texture::Random).fill(0, &mut expected);
    assert_eq!(content.as_ref(), Some(&expected));
}

#[test]
fn contents_are_one_stream_across_buffers() {
    let (tree, _) = make("1x600001", 1, 1);
    let mut expected = vec![0; 600_001];
    Content::new(1, 0, 0, Texture::Random).fill(0, &mut expected);
    let content = tree[Path::new("00/d000000/f00000000")].3.as_ref();
    assert!(content == Some(&expected));
}

#[test]
fn the_generator_refuses_a_directory_with_entries() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("mine"), b"precious").unwrap();
    let spec = parse("1x1").unwrap();
    let error = generate(&spec, place.path(), 1, 1, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
    assert!(error.to_string().contains(place.path().to_str().unwrap()));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn a_refusal_of_the_system_names_the_path() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, b"").unwrap();
    let below = file.join("set");
    let error = generate(&parse("1x1").unwrap(), &below, 1, 1, &mut |_| {}).unwrap_err();
    assert!(
        error.to_string().contains(below.to_str().unwrap()),
        "{error}"
    );
}

#[test]
fn the_trees_of_esnet_have_its_shape() {
    let spec = parse("esnet-tiny").unwrap();
    assert_eq!(spec.files(), 1875);
    let (tree, totals) = make("esnet-tiny", 4, 2);
    let expected = Totals {
        files: 1875,
        directories: 651,
        bytes: 5_000_000,
    };
    assert_eq!(totals, expected);
    for path in ["00", "00/a", "00/y", "00/a/a", "00/a/y", "00/y/y"] {
        assert!(tree.contains_key(Path::new(path)), "{path}");
    }
    let of = |file: &str| tree[Path::new(file)].3.as_ref().map(Vec::len);
    assert_eq!(of("00/a/a/f00000001"), Some(2000));
    assert_eq!(of("00/y/y/f00001874"), Some(5000));
}

/// Any small item, and its number of files.
fn item() -> impl Strategy<Value = (String, u64)> {
    let kind = prop::sample::select(vec!["", "tree:", "compressible:", "tree:compressible:"]);
    let sizes = prop_oneof![
        (0..3000_u64).prop_map(|bytes| format!("{bytes}")),
        (0..1000_u64, 0..4000_u64).prop_map(|(min, more)| format!("{min}..{}", min + more)),
        (0..2000_u64, 1..5_u64).prop_map(|(median, factor)| format!("~{median}*{factor}")),
    ];
    let plain = (kind, 1..40_u64, sizes, 1..15_u64)
        .prop_map(|(kind, count, sizes, each)| (format!("{kind}{count}x{sizes}/{each}"), count));
    let source = (1..40_u64).prop_map(|count| (format!("source:{count}"), count));
    prop_oneof![4 => plain, 1 => source]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_specification_gives_what_it_says_and_the_same_again(
        items in prop::collection::vec(item(), 1..4), seed: u64, zeros in 0..=100_u8,
    ) {
        let text: Vec<&str> = items.iter().map(|(text, _)| text.as_str()).collect();
        let text = text.join(",");
        let spec = parse(&text).unwrap().with_zeros(zeros);
        let place = tempfile::tempdir().unwrap();
        let mut trees = Vec::new();
        for threads in [1, 3] {
            let root = place.path().join(threads.to_string());
            let totals = generate(&spec, &root, seed, threads, &mut |_| {}).unwrap();
            let mut tree = Tree::new();
            read(&root, &root, &mut tree);
            let files = tree.values().filter_map(|entry| entry.3.as_ref());
            let bytes: usize = files.clone().map(Vec::len).sum();
            prop_assert_eq!(files.count() as u64, items.iter().map(|(_, count)| count).sum::<u64>());
            prop_assert_eq!(totals.bytes, bytes as u64);
            prop_assert_eq!(totals.files + totals.directories + 1, tree.len() as u64);
            trees.push(tree);
        }
        prop_assert!(trees[0] == trees[1], "{} was made in two ways", text);
    }
}
