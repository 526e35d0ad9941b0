//! Generated data sets: the same for the same seed, whatever the number of threads, and as specified.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use godwit_store::generator::{Content, Totals, generate, parse};

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
    Content::new(3, 0, 24, false).fill(0, &mut expected);
    assert_eq!(content.as_ref(), Some(&expected));
}

#[test]
fn contents_are_one_stream_across_buffers() {
    let (tree, _) = make("1x600001", 1, 1);
    let mut expected = vec![0; 600_001];
    Content::new(1, 0, 0, false).fill(0, &mut expected);
    let content = tree[Path::new("00/d000000/f00000000")].3.as_ref();
    assert!(content == Some(&expected));
}

#[test]
fn what_is_there_is_not_touched() {
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
