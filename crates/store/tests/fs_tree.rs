//! Tests scans of a file system storage: each entry with any name is found once, in order, in bounded
//! memory. Other tests check how the results are used.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{Tree, drain, entry_of, is_root, meta, rel, temp_of};
use godwit_store::{Kind, RelPath, SCAN_BATCH_ITEMS, ScanItem, Storage, StoreErrorKind, TempName};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

fn is_reserved(item: &mut ScanItem) -> bool {
    matches!(item, ScanItem::Fault(error) if error.kind == StoreErrorKind::Reserved)
}

#[test]
fn every_kind_of_entry_is_found_with_its_state() {
    let tree = Tree::new();
    tree.storage.make_directory(&rel("a/empty"), 0o755).unwrap();
    tree.put("a/file", b"12345", &meta(0o640, -9, 7));
    symlink("no\nwhere", tree.at("a/link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.at("fifo"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.at("socket")).unwrap();
    let left = rel("a/left");
    tree.storage
        .write_whole(&left, &temp_of(&left), &meta(0o600, 1, 0), b"left out")
        .unwrap();
    let mut items = tree.scan("");
    // The scan reports them, because they may be a user's data.
    let reported: Vec<_> = items.extract_if(.., is_reserved).collect();
    assert_eq!(reported.len(), 1, "{reported:?}");
    let found: BTreeMap<_, _> = items
        .iter()
        .map(|item| (entry_of(item).path.to_string(), entry_of(item).clone()))
        .collect();
    let kinds: Vec<_> = found
        .iter()
        .map(|(path, entry)| (path.as_str(), entry.meta.kind))
        .collect();
    let expected = [
        (".", Kind::Directory),
        ("a", Kind::Directory),
        ("a/empty", Kind::Directory),
        ("a/file", Kind::File),
        ("a/link", Kind::Symlink),
        ("fifo", Kind::Fifo),
        ("socket", Kind::Socket),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(found["a/link"].target, b"no\nwhere");
    let file = &found["a/file"];
    assert_eq!(
        (
            file.meta.bytes,
            file.meta.mode,
            file.meta.mtime.seconds,
            file.meta.mtime.nanoseconds
        ),
        (5, 0o640, -9, 7)
    );
    assert_eq!(tree.storage.stat(&file.path).unwrap(), Some(file.meta));
}

#[test]
fn a_scan_begins_at_the_given_name() {
    let tree = Tree::new();
    tree.storage.make_directory(&rel("a/b"), 0o755).unwrap();
    tree.put("a/b/file", b"x", &meta(0o600, 1, 0));
    tree.put("beside", b"x", &meta(0o600, 1, 0));
    symlink("a", tree.at("link")).unwrap();
    fs::hard_link(tree.at("beside"), tree.at("beside2")).unwrap();
    assert_eq!(tree.scan_paths("a/b"), ["a/b", "a/b/file"]);
    assert_eq!(tree.scan_paths("a/b/file"), ["a/b/file"]);
    assert_eq!(tree.scan_paths("link"), ["link"]);
    assert_eq!(tree.scan_paths("beside"), ["beside"]);
    assert_eq!(
        tree.storage.scan(&rel("none")).map(drop).unwrap_err().kind,
        StoreErrorKind::NotFound
    );
}

#[test]
fn ten_thousand_links_and_wide_directories_fit_a_tiny_memory() {
    let tree = Tree::with(|options| options.spill_bytes = 4096);
    tree.storage.make_directory(&rel("names"), 0o755).unwrap();
    for file in 0..10 {
        let first = tree.at(&format!("names/f{file}-0000"));
        fs::write(&first, vec![0; file]).unwrap();
        for link in 1..1000 {
            fs::hard_link(&first, tree.at(&format!("names/f{file}-{link:04}"))).unwrap();
        }
    }
    for directory in 0..1000 {
        fs::create_dir_all(tree.at(&format!("wide/directory-with-some-name-{directory}/in")))
            .unwrap();
    }
    fs::write(tree.at("single"), "").unwrap();
    let items = tree.scan("");
    assert_eq!(items.len(), 1 + 2 + 10_000 + 2000 + 1);
    check_order(&items);
    let tail = &items[items.len() - 10_000..];
    for group in tail.chunks(1000) {
        let ScanItem::Entry(first) = &group[0] else {
            panic!("{:?}", group[0])
        };
        assert!(first.path.to_string().ends_with("-0000"));
        assert_eq!(first.meta, tree.storage.stat(&first.path).unwrap().unwrap());
        for (number, item) in group.iter().enumerate().skip(1) {
            let ScanItem::Link {
                entry,
                first: known,
            } = item
            else {
                panic!("{item:?}")
            };
            assert_eq!(known, &first.path);
            assert!(entry.path.to_string().ends_with(&format!("-{number:04}")));
        }
    }
}

#[test]
fn batches_are_bounded_and_complete() {
    let tree = Tree::new();
    for number in 0..3000 {
        fs::write(tree.at(&format!("{number}")), "").unwrap();
    }
    let mut scan = tree.storage.scan(&RelPath::root()).unwrap();
    let mut names = BTreeSet::new();
    loop {
        let mut batch = Vec::new();
        let more = scan.next_batch(&mut batch);
        assert!(batch.len() <= SCAN_BATCH_ITEMS);
        names.extend(batch.iter().map(|item| entry_of(item).path.clone()));
        if !more {
            break;
        }
    }
    assert_eq!(names.len(), 3001);
    let mut none = Vec::new();
    assert!(
        !scan.next_batch(&mut none) && none.is_empty(),
        "an ended scan stays ended"
    );
}

#[test]
fn paths_deeper_than_the_kernel_takes_at_once_are_walked_and_written() {
    for openat2 in [true, false] {
        let tree = Tree::with(|options| options.openat2 = openat2);
        let component = "d".repeat(200);
        let path = rel(&vec![component.as_str(); 60].join("/"));
        assert!(path.as_bytes().len() > 3 * 4096 - 255);
        assert!(tree.storage.make_directory(&path, 0o755).unwrap());
        let file = path.join(b"file").unwrap();
        tree.storage
            .write_whole(&file, &temp_of(&file), &meta(0o644, 1, 2), b"deep")
            .unwrap();
        tree.storage
            .commit(&file, &temp_of(&file), godwit_store::Replace::Never)
            .unwrap();
        let mut buffer = [0; 8];
        assert_eq!(tree.storage.read_whole(&file, &mut buffer).unwrap().1, 4);
        let items = tree.scan("");
        assert_eq!(items.len(), 62);
        assert_eq!(entry_of(&items[61]).path, file);
        assert_eq!(drain(tree.storage.scan(&path).unwrap()).len(), 2);
        tree.storage.sync_directories(&[path]).unwrap();
    }
}

/// Some 500 names at a path of 15 KB, which a peer may have made: 7 MB, but fewer items than a batch may have.
#[test]
fn the_paths_of_a_batch_take_bounded_memory() {
    const MOST: usize = 4 << 20;
    let tree = Tree::new();
    let component = "d".repeat(250);
    let deep = rel(&vec![component.as_str(); 60].join("/"));
    let names = SCAN_BATCH_ITEMS / 2;
    for number in 0..names {
        let name = deep.join(number.to_string().as_bytes()).unwrap();
        assert!(tree.storage.make_directory(&name, 0o755).unwrap());
    }
    let mut scan = tree.storage.scan(&deep).unwrap();
    let (mut batch, mut total, mut more) = (Vec::new(), 0, true);
    while more {
        more = scan.next_batch(&mut batch);
        let paths = batch
            .iter()
            .map(|item| entry_of(item).path.as_bytes().len());
        let bytes: usize = paths.sum();
        assert!(bytes <= MOST, "{bytes}");
        total += batch.drain(..).count();
    }
    assert_eq!(total, names + 1);
}

#[test]
fn an_unlistable_directory_is_reported_and_the_rest_is_listed() {
    let tree = Tree::new();
    tree.storage
        .make_directory(&rel("closed/in"), 0o755)
        .unwrap();
    tree.storage.make_directory(&rel("open/in"), 0o755).unwrap();
    fs::set_permissions(tree.at("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let items = tree.scan("");
    fs::set_permissions(tree.at("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let faults = items.iter().filter_map(|item| match item {
        ScanItem::Fault(error) => Some((error.path.to_string(), error.kind)),
        _ => None,
    });
    let faults: Vec<_> = faults.collect();
    let entries = items.len() - faults.len();
    if is_root() {
        assert_eq!((faults.len(), entries), (0, 5));
    } else {
        assert_eq!(faults, [("closed".to_owned(), StoreErrorKind::Permission)]);
        assert_eq!(entries, 4);
    }
}

#[test]
fn a_directory_that_vanishes_under_the_scan_is_reported() {
    let tree = Tree::new();
    for number in 0..SCAN_BATCH_ITEMS {
        fs::create_dir(tree.at(&number.to_string())).unwrap();
    }
    let mut scan = tree.storage.scan(&RelPath::root()).unwrap();
    let mut items = Vec::new();
    assert!(scan.next_batch(&mut items));
    for number in 0..SCAN_BATCH_ITEMS {
        fs::remove_dir(tree.at(&number.to_string())).unwrap();
    }
    items.clear();
    while scan.next_batch(&mut items) {}
    let not_found = |item: &ScanItem| matches!(item, ScanItem::Fault(error) if error.kind == StoreErrorKind::NotFound);
    assert!(!items.is_empty() && items.iter().all(not_found));
}

#[test]
fn a_spill_directory_that_is_missing_is_reported_and_nothing_is_dropped_silently() {
    let tree = Tree::new();
    fs::create_dir(tree.at("names")).unwrap();
    fs::write(tree.at("names/first"), "x").unwrap();
    for number in 0..200 {
        fs::hard_link(tree.at("names/first"), tree.at(&format!("names/{number}"))).unwrap();
    }
    let options = godwit_store::FsOptions {
        spill_bytes: 2000,
        ..godwit_store::FsOptions::new(godwit_store::Confine::Local)
    };
    let storage =
        godwit_store::FsStorage::open_with(&tree.at(""), &tree.at("not/there"), options).unwrap();
    let items = drain(storage.scan(&RelPath::root()).unwrap());
    let (faults, found): (Vec<_>, Vec<_>) = items
        .iter()
        .partition(|item| matches!(item, ScanItem::Fault(_)));
    assert!(
        !faults.is_empty() && faults.len() + found.len() == 203,
        "{} + {}",
        faults.len(),
        found.len()
    );
}

/// A directory precedes its contents, a file's first name precedes its other names, and no entry is found
/// twice.
fn check_order(items: &[ScanItem]) {
    let mut seen = BTreeSet::new();
    for item in items {
        let path = &entry_of(item).path;
        if let Some(parent) = path.parent() {
            assert!(seen.contains(&parent), "{path} before its directory");
        }
        if let ScanItem::Link { first, .. } = item {
            assert!(seen.contains(first), "{path} before {first}");
        }
        assert!(seen.insert(path.clone()), "{path} twice");
    }
}

#[derive(Debug, Clone)]
enum Made {
    Directory,
    File(u16),
    Symlink(String),
    /// Another name of the file that was made last.
    Link,
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        3 => Just(Made::Directory),
        3 => any::<u16>().prop_map(Made::File),
        1 => "[a-z./]{1,20}".prop_map(Made::Symlink),
        2 => Just(Made::Link),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_is_found_as_it_is(
        makes in proptest::collection::vec((made(), any::<proptest::sample::Index>(), "[^/\0.]{1,12}"), 0..60),
        spill_bytes in 1..2000_usize,
    ) {
        let tree = Tree::with(|options| options.spill_bytes = spill_bytes);
        let mut directories = vec![RelPath::root()];
        let mut expected = BTreeSet::from([RelPath::root()]);
        let mut last_file = None;
        for (made, within, name) in makes {
            let Ok(path) = within.get(&directories).join(name.as_bytes()) else { continue };
            let raw = tree.at(std::str::from_utf8(path.as_bytes()).unwrap());
            let result = match made {
                Made::Directory => fs::create_dir(&raw).inspect(|()| directories.push(path.clone())),
                Made::File(bytes) if !raw.exists() => fs::write(&raw, vec![1; bytes.into()]).inspect(|()| last_file = Some(raw)),
                Made::File(_) => continue,
                Made::Symlink(target) => symlink(target, &raw),
                Made::Link => match &last_file {
                    Some(file) => fs::hard_link(file, &raw),
                    None => continue,
                },
            };
            if result.is_ok() && !TempName::is_temp(path.file_name().unwrap()) {
                expected.insert(path);
            }
        }
        let mut items = tree.scan("");
        items.retain_mut(|item| !is_reserved(item));
        check_order(&items);
        let found: BTreeSet<_> = items.iter().map(|item| entry_of(item).path.clone()).collect();
        prop_assert_eq!(found, expected);
        let mut firsts = BTreeMap::new();
        for item in &items {
            let entry = entry_of(item);
            let raw = fs::symlink_metadata(tree.at(std::str::from_utf8(entry.path.as_bytes()).unwrap())).unwrap();
            prop_assert_eq!((raw.ino(), raw.nlink(), raw.len()), (entry.meta.inode, entry.meta.links, entry.meta.bytes));
            if entry.meta.kind == Kind::File {
                let first = firsts.entry(entry.meta.inode).or_insert_with(|| entry.path.clone());
                match item {
                    ScanItem::Link { first: known, .. } => prop_assert_eq!(known, first),
                    _ => prop_assert_eq!(&entry.path, first),
                }
            }
        }
    }
}
