//! Tests attempts to leave the root of a file system storage: planted links, links that replace directories during a
//! call, unusual paths. Each attempt is made with and without `openat2`, with and without kept directory handles.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{TAG, Tree, meta, rel, temp_of};
use godwit_store::{
    Create, FsOptions, Kind, PathError, RelPath, Replace, ScanItem, Storage, StoreErrorKind,
};
use rustix::fs::{CWD, RenameFlags};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

fn trees() -> impl Iterator<Item = Tree> {
    [(true, 256), (false, 256), (true, 0), (false, 2)]
        .into_iter()
        .map(|(openat2, directories_max)| {
            let tree = Tree::with(|options: &mut FsOptions| {
                options.openat2 = openat2;
                options.directories_max = directories_max;
            });
            fs::create_dir(tree.directory.path().join("outside")).unwrap();
            fs::write(tree.directory.path().join("outside/secret"), "secret").unwrap();
            tree
        })
}

fn outside_is_untouched(tree: &Tree) {
    let outside = tree.directory.path().join("outside");
    let names: Vec<_> = fs::read_dir(&outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["secret"]);
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
}

#[test]
fn paths_that_climb_are_no_paths() {
    for (path, error) in [
        ("../outside/secret", PathError::Dots),
        ("a/../../outside", PathError::Dots),
        ("/etc/passwd", PathError::Absolute),
    ] {
        assert_eq!(RelPath::parse(path.as_bytes()), Err(error));
    }
}

#[test]
fn a_planted_link_is_never_followed() {
    for tree in trees() {
        fs::create_dir(tree.at("real")).unwrap();
        for (name, target) in [
            ("up", "../outside"),
            ("far", "/etc"),
            ("in", "real"),
            ("dot", "."),
            ("proc", "/proc/self/root"),
        ] {
            symlink(target, tree.at(name)).unwrap();
            let below = rel(name).join(b"secret").unwrap();
            let temp = temp_of(&below);
            let storage = &tree.storage;
            let errors = [
                storage.stat(&below).map(drop),
                storage.open(&below).map(drop),
                storage.read_whole(&below, &mut [0; 64]).map(drop),
                storage.read_link(&below).map(drop),
                storage.make_directory(&below, 0o755).map(drop),
                storage
                    .make_symlink(&below, b"x", &meta(0o777, 1, 0), &temp, Replace::Atomically)
                    .map(drop),
                storage.create(&below, &temp, Create::Fresh, None).map(drop),
                storage
                    .create(&below, &temp, Create::Resume, None)
                    .map(drop),
                storage
                    .write_whole(&below, &temp, &meta(0o644, 1, 0), b"x")
                    .map(drop),
                storage.extended(&below).map(drop),
                storage
                    .make_special(
                        &below,
                        Kind::Fifo,
                        0,
                        &meta(0o644, 1, 0),
                        &temp,
                        Replace::Never,
                    )
                    .map(drop),
                storage.sync_batch(&[(&below, temp)], 1),
                storage.commit(&below, &temp, Replace::Atomically),
                storage.sync_directories(&[rel(name)]),
                storage.open_temp(&below, &temp).map(drop),
                storage.discard(&below, &temp),
                storage
                    .set_directory_meta(&below, &meta(0o755, 1, 0))
                    .map(drop),
                storage.scan(&below).map(drop),
                storage.sweep(&below, TAG, &|_| false).map(drop),
                storage.make_link(
                    &rel("stolen"),
                    &below,
                    &temp_of(&rel("stolen")),
                    Replace::Never,
                ),
            ];
            for (number, result) in errors.into_iter().enumerate() {
                assert_eq!(
                    result.unwrap_err().kind,
                    StoreErrorKind::Escape,
                    "operation {number} below {name}"
                );
            }
            let link = rel(name);
            assert_eq!(
                storage.open(&link).map(drop).unwrap_err().kind,
                StoreErrorKind::Escape
            );
            assert!(
                storage
                    .set_directory_meta(&link, &meta(0o700, 1, 0))
                    .is_err()
            );
            assert_eq!(storage.sweep(&link, TAG, &|_| false).unwrap(), 0);
            assert_eq!(tree.scan(name).len(), 1);
        }
        symlink("../outside/secret", tree.at("file")).unwrap();
        assert_eq!(
            tree.storage
                .read_whole(&rel("file"), &mut [0; 64])
                .unwrap_err()
                .kind,
            StoreErrorKind::Escape
        );
        // The entry replaces the existing link, not the target of the link.
        let path = rel("file");
        tree.storage
            .write_whole(&path, &temp_of(&path), &meta(0o644, 1, 0), b"new")
            .unwrap();
        tree.storage
            .commit(&path, &temp_of(&path), Replace::Atomically)
            .unwrap();
        assert!(fs::symlink_metadata(tree.at("file")).unwrap().is_file());
        outside_is_untouched(&tree);
    }
}

#[test]
fn a_link_swapped_in_while_it_runs_is_never_followed() {
    const ROUNDS: usize = 300;
    for tree in trees() {
        fs::create_dir(tree.at("swap")).unwrap();
        fs::create_dir(tree.at("swap/in")).unwrap();
        fs::write(tree.at("swap/secret"), "public").unwrap();
        symlink("../outside", tree.at("trap")).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(
                        CWD,
                        tree.at("swap"),
                        CWD,
                        tree.at("trap"),
                        RenameFlags::EXCHANGE,
                    )
                    .unwrap();
                }
            });
            let results = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (0..ROUNDS).for_each(|round| use_while_swapped(&tree, round));
            }));
            done.store(true, Ordering::Relaxed);
            results.unwrap();
        });
        outside_is_untouched(&tree);
    }
}

/// Each operation either works on the directory or fails; none works on the target of the link.
fn use_while_swapped(tree: &Tree, round: usize) {
    let path = rel("swap/secret");
    let mut buffer = [0; 64];
    if let Ok((_, bytes)) = tree.storage.read_whole(&path, &mut buffer) {
        assert_eq!(&buffer[..bytes], b"public");
    }
    let made = rel(&format!("swap/made{round}"));
    if tree
        .storage
        .write_whole(&made, &temp_of(&made), &meta(0o644, 1, 0), b"x")
        .is_ok()
    {
        let _ = tree.storage.commit(&made, &temp_of(&made), Replace::Never);
    }
    let _ = tree
        .storage
        .make_directory(&rel(&format!("swap/in/{round}")), 0o755);
    let _ = tree
        .storage
        .set_directory_meta(&rel("swap"), &meta(0o755, 1, 0));
    let mut items = Vec::new();
    if let Ok(mut scan) = tree.storage.scan(&rel("swap")) {
        while scan.next_batch(&mut items) {}
    }
    for item in items {
        if let ScanItem::Entry(entry) = item
            && entry.path == path
        {
            assert_eq!(entry.meta.bytes, 6);
            assert_ne!(Some(entry.meta.inode), inode_of_secret(tree));
        }
    }
}

fn inode_of_secret(tree: &Tree) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(tree.directory.path().join("outside/secret"))
        .ok()
        .map(|there| there.ino())
}

#[test]
fn the_root_itself_may_be_reached_through_a_link() {
    let tree = Tree::new();
    tree.put("file", b"x", &meta(0o644, 1, 0));
    let link = tree.directory.path().join("link");
    symlink("root", &link).unwrap();
    let storage =
        godwit_store::FsStorage::open(&link, godwit_store::Confine::Local, tree.directory.path())
            .unwrap();
    assert!(storage.stat(&rel("file")).unwrap().is_some());
    let missing = godwit_store::FsStorage::open(
        &tree.at("none"),
        godwit_store::Confine::Local,
        tree.directory.path(),
    );
    assert_eq!(missing.unwrap_err().kind, StoreErrorKind::NotFound);
    let file = godwit_store::FsStorage::open(
        &tree.at("file"),
        godwit_store::Confine::Local,
        tree.directory.path(),
    );
    assert_eq!(file.unwrap_err().kind, StoreErrorKind::TypeConflict);
}
