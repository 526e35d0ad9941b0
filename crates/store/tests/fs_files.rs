//! Tests files of a file system storage: written data is read back exactly, whether or not a file
//! existed before. Other tests check names, directories, confinement and scans.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{TAG, Tree, is_root, meta, rel, temp_of};
use godwit_store::{Create, Kind, Known, Lost, RelPath, Replace, Storage, StoreErrorKind};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

#[test]
fn small_files_arrive_with_content_mode_and_time() {
    let tree = Tree::new();
    for (index, (mode, seconds, nanoseconds)) in [
        (0o644, 1_700_000_000, 123_456_789),
        (0o777, -1, 999_999_999),
        (0o600, -1_000_000_000, 1),
        (0o444, 0, 0),
        (0, 5, 5),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("file{index}");
        tree.put(&name, name.as_bytes(), &meta(mode, seconds, nanoseconds));
        let there = tree.storage.stat(&rel(&name)).unwrap().unwrap();
        assert_eq!((there.kind, there.mode, there.bytes), (Kind::File, mode, 5));
        assert_eq!(
            (there.mtime.seconds, there.mtime.nanoseconds),
            (seconds, nanoseconds)
        );
        let raw = fs::symlink_metadata(tree.at(&name)).unwrap();
        assert_eq!(
            (raw.mtime(), raw.mtime_nsec(), raw.mode() & 0o7777),
            (seconds, i64::from(nanoseconds), mode)
        );
        if is_root() || mode & 0o400 != 0 {
            assert_eq!(fs::read(tree.at(&name)).unwrap(), name.as_bytes());
        }
    }
    assert_eq!(
        tree.storage
            .sweep(&RelPath::root(), TAG, &|_| false)
            .unwrap(),
        0
    );
}

#[test]
fn odd_names_are_names_like_any_other() {
    let tree = Tree::new();
    let longest = [b'l'; 255];
    for name in [
        &longest[..],
        b"new\nline",
        b"\xff\xfe\x80",
        b"-rf",
        b" ",
        b"...",
        b"a\\b",
        b".godwit-notes",
    ] {
        let path = RelPath::parse(name).unwrap();
        let temp = temp_of(&path);
        tree.storage
            .write_whole(&path, &temp, &meta(0o644, 1, 2), name)
            .unwrap();
        tree.storage.commit(&path, &temp, Replace::Never).unwrap();
        let raw = tree.at("").join(std::ffi::OsStr::from_bytes(name));
        assert_eq!(fs::read(raw).unwrap(), name);
        let mut buffer = [0; 300];
        let (_, bytes) = tree.storage.read_whole(&path, &mut buffer).unwrap();
        assert_eq!(&buffer[..bytes], name);
    }
}

#[test]
fn an_old_temporary_file_of_any_kind_is_replaced_by_the_new_content() {
    let tree = Tree::new();
    fs::write(tree.directory.path().join("outside"), "untouched").unwrap();
    let path = rel("file");
    let temp = temp_of(&path);
    let raw = tree.at(&temp.to_string());
    type Plant<'a> = &'a dyn Fn();
    let plants: [Plant<'_>; 4] = [
        &|| fs::write(&raw, "much longer than what comes").unwrap(),
        &|| symlink("../outside", &raw).unwrap(),
        &|| fs::hard_link(tree.directory.path().join("outside"), &raw).unwrap(),
        &|| {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &raw,
                rustix::fs::FileType::Fifo,
                0o600.into(),
                0,
            )
            .unwrap()
        },
    ];
    for plant in plants {
        plant();
        tree.storage
            .write_whole(&path, &temp, &meta(0o644, 1, 0), b"whole")
            .unwrap();
        tree.storage
            .commit(&path, &temp, Replace::Atomically)
            .unwrap();
        assert_eq!(fs::read(tree.at("file")).unwrap(), b"whole");
        plant();
        let file = tree
            .storage
            .create(&path, &temp, Create::Fresh, None)
            .unwrap();
        file.write_at(0, b"slice").unwrap();
        file.finish(5, &meta(0o644, 1, 0)).unwrap();
        tree.storage
            .commit(&path, &temp, Replace::Atomically)
            .unwrap();
        assert_eq!(fs::read(tree.at("file")).unwrap(), b"slice");
    }
    for plant in &plants[1..] {
        plant();
        let error = tree
            .storage
            .create(&path, &temp, Create::Resume, None)
            .map(drop)
            .unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::NotFound);
        plant();
        let error = tree.storage.open_temp(&path, &temp).map(drop).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::NotFound);
        assert!(
            fs::symlink_metadata(&raw).is_err(),
            "what was planted is gone"
        );
    }
    assert_eq!(
        fs::read(tree.directory.path().join("outside")).unwrap(),
        b"untouched"
    );
}

#[test]
fn a_file_ends_where_it_is_said_to_wherever_writing_ended() {
    let tree = Tree::new();
    for (name, how, written) in [
        ("new", Create::Fresh, 4),
        ("kept", Create::Resume, 4),
        ("longer", Create::Resume, 2),
        ("shared", Create::Shared, 2),
    ] {
        let path = rel(name);
        let temp = temp_of(&path);
        if how != Create::Fresh {
            let file = tree
                .storage
                .create(&path, &temp, Create::Fresh, None)
                .unwrap();
            file.write_at(0, b"123456789").unwrap();
        }
        let file = tree.storage.create(&path, &temp, how, None).unwrap();
        file.write_at(0, &b"abcdefg"[..written]).unwrap();
        for bytes in [4, 2, 6, written as u64] {
            file.finish(bytes, &meta(0o644, 1, 0)).unwrap();
            let there = fs::metadata(tree.at(&temp.to_string())).unwrap();
            assert_eq!(there.len(), bytes, "{name}");
        }
    }
}

#[test]
fn holes_stay_holes_and_are_found_again() {
    let tree = Tree::new();
    let path = rel("sparse");
    let temp = temp_of(&path);
    let file = tree
        .storage
        .create(&path, &temp, Create::Fresh, None)
        .unwrap();
    let mib = 1 << 20;
    file.preallocate(64 * mib..65 * mib).unwrap();
    file.write_at(64 * mib, &vec![7; 1 << 20]).unwrap();
    file.finish(1 << 40, &meta(0o644, 1, 0)).unwrap();
    tree.storage.commit(&path, &temp, Replace::Never).unwrap();
    let raw = fs::metadata(tree.at("sparse")).unwrap();
    assert_eq!(raw.len(), 1 << 40);
    assert!(raw.blocks() * 512 < 4 * mib, "{} blocks", raw.blocks());
    let reader = tree.storage.open(&path).unwrap();
    let data = reader.next_data(0).unwrap().unwrap();
    assert!(
        data.start <= 64 * mib && data.start > 0 && data.end >= 65 * mib,
        "{data:?}"
    );
    assert_eq!(reader.next_data(65 * mib + 4096).unwrap(), None);
    assert_eq!(reader.next_data(1 << 40).unwrap(), None);
    let mut buffer = [1; 8];
    assert_eq!(reader.read_at((1 << 40) - 4, &mut buffer).unwrap(), 4);
    assert_eq!(buffer, [0, 0, 0, 0, 1, 1, 1, 1]);
    reader.drop_cache();
}

#[test]
fn set_id_bits_are_applied_only_where_granted() {
    for (granted, cleared, expected) in [(false, false, 0o755), (true, false, 0o6755)] {
        let tree = Tree::with(|options| {
            options.allow_set_id = granted;
            options.umask_cleared = cleared;
        });
        tree.put("whole", b"x", &meta(0o6755, 1, 0));
        let path = rel("slices");
        let file = tree
            .storage
            .create(&path, &temp_of(&path), Create::Fresh, None)
            .unwrap();
        file.write_at(0, b"x").unwrap();
        file.finish(1, &meta(0o6755, 1, 0)).unwrap();
        tree.storage
            .commit(&path, &temp_of(&path), Replace::Never)
            .unwrap();
        for name in ["whole", "slices"] {
            assert_eq!(
                fs::metadata(tree.at(name)).unwrap().mode() & 0o7777,
                expected
            );
        }
        // A directory's inherited set-id bits always stay.
        tree.storage.make_directory(&rel("team"), 0o700).unwrap();
        fs::set_permissions(tree.at("team"), fs::Permissions::from_mode(0o2770)).unwrap();
        tree.storage
            .set_directory_meta(&rel("team"), &meta(0o4750, 1, 0))
            .unwrap();
        let mode = fs::metadata(tree.at("team")).unwrap().mode() & 0o7777;
        assert_eq!(mode, if granted { 0o4750 } else { 0o2750 });
    }
}

#[test]
fn ownership_is_applied_only_where_granted() {
    let wanted = godwit_store::FinalMeta {
        uid: Some(12_345),
        gid: Some(54_321),
        ..meta(0o640, 1, 0)
    };
    let tree = Tree::new();
    tree.put("plain", b"x", &wanted);
    assert_eq!(
        fs::metadata(tree.at("plain")).unwrap().uid(),
        rustix::process::geteuid().as_raw()
    );
    let tree = Tree::with(|options| options.allow_owner = true);
    let path = rel("given");
    let result = tree
        .storage
        .write_whole(&path, &temp_of(&path), &wanted, b"x");
    let lost = result.unwrap();
    tree.storage
        .commit(&path, &temp_of(&path), Replace::Never)
        .unwrap();
    let there = fs::metadata(tree.at("given")).unwrap();
    assert_eq!(there.mode() & 0o7777, 0o640);
    if is_root() {
        assert_eq!((there.uid(), there.gid()), (12_345, 54_321));
        assert!(lost.is_nothing(), "{lost:?}");
    } else {
        assert_eq!(lost, Lost::OWNER | Lost::GROUP);
    }
}

#[test]
fn batches_of_all_sizes_are_synced() {
    let tree = Tree::new();
    let mut files = Vec::new();
    for number in 0..40 {
        let path = rel(&format!("d{}/f{number}", number % 20));
        tree.storage
            .make_directory(&path.parent().unwrap(), 0o700)
            .unwrap();
        // The final mode of some denies even the owner reading; this must not matter.
        tree.storage
            .write_whole(&path, &temp_of(&path), &meta(0o200, 1, 0), b"x")
            .unwrap();
        files.push((path.clone(), temp_of(&path)));
    }
    let files: Vec<_> = files.iter().map(|(path, temp)| (path, *temp)).collect();
    tree.storage.sync_batch(&files, 40).unwrap();
    tree.storage.sync_batch(&files[..3], 3).unwrap();
    tree.storage.sync_batch(&[], 0).unwrap();
    let directories: Vec<_> = (0..20).map(|number| rel(&format!("d{number}"))).collect();
    tree.storage.sync_directories(&directories).unwrap();
    tree.storage.sync_directories(&directories[..2]).unwrap();
    tree.storage.sync_directories(&[RelPath::root()]).unwrap();
    let missing = rel("d1/none");
    let error = tree
        .storage
        .sync_batch(&[(&missing, temp_of(&missing))], 1)
        .unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::NotFound);
}

#[test]
fn reading_whole_files_notices_what_does_not_fit() {
    let tree = Tree::new();
    fs::write(tree.at("file"), [5; 100]).unwrap();
    fs::write(tree.at("empty"), "").unwrap();
    for room in [100, 101, 4096] {
        let mut buffer = vec![0; room];
        assert_eq!(
            tree.storage
                .read_whole(&rel("file"), &mut buffer)
                .unwrap()
                .1,
            100
        );
        assert_eq!(buffer[..100], [5; 100]);
    }
    assert_eq!(
        tree.storage
            .read_whole(&rel("file"), &mut [0; 99])
            .unwrap_err()
            .kind,
        StoreErrorKind::Changed
    );
    assert_eq!(
        tree.storage.read_whole(&rel("empty"), &mut []).unwrap().1,
        0
    );
    assert_eq!(
        tree.storage
            .read_whole(&rel("none"), &mut [])
            .unwrap_err()
            .kind,
        StoreErrorKind::NotFound
    );
    assert_eq!(
        tree.storage
            .read_whole(&rel("file/below"), &mut [])
            .unwrap_err()
            .kind,
        StoreErrorKind::TypeConflict
    );
}

#[test]
fn a_known_file_is_read_only_in_the_state_that_is_known() {
    let tree = Tree::new();
    let known = |name: &str| {
        let meta = tree.storage.stat(&rel(name)).unwrap().unwrap();
        Known {
            bytes: meta.bytes,
            generation: meta.generation(),
        }
    };
    fs::write(tree.at("file"), [5; 100]).unwrap();
    fs::write(tree.at("empty"), "").unwrap();
    let (file, empty) = (known("file"), known("empty"));
    for room in [100, 101, 4096] {
        let mut buffer = vec![0; room];
        let read = tree.storage.read_known(&rel("file"), file, &mut buffer);
        assert_eq!(read.unwrap(), 100);
        assert_eq!(buffer[..100], [5; 100]);
    }
    let read = tree.storage.read_known(&rel("empty"), empty, &mut []);
    assert_eq!(read.unwrap(), 0);
    let refused = |name: &str, known: Known, room: usize| {
        let mut buffer = vec![0; room];
        let read = tree.storage.read_known(&rel(name), known, &mut buffer);
        read.unwrap_err().kind
    };
    assert_eq!(refused("file", file, 99), StoreErrorKind::Changed);
    assert_eq!(refused("empty", file, 200), StoreErrorKind::Changed);
    assert_eq!(refused("none", file, 200), StoreErrorKind::NotFound);
    // The file becomes longer, shorter, or gets other contents of the same length.
    for (content, seconds) in [(&[5; 101][..], 1), (&[5; 99], 2), (&[6; 100], 3)] {
        let before = known("file");
        fs::write(tree.at("file"), content).unwrap();
        // Clocks of file systems may not advance for some milliseconds.
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let open = fs::File::options().write(true).open(tree.at("file"));
        open.unwrap().set_modified(time).unwrap();
        assert_eq!(refused("file", file, 200), StoreErrorKind::Changed);
        assert_eq!(refused("file", before, 200), StoreErrorKind::Changed);
    }
}

#[test]
fn nothing_is_taken_from_a_pipe_in_the_place_of_a_known_file() {
    let tree = Tree::new();
    fs::write(tree.at("name"), "four").unwrap();
    let meta = tree.storage.stat(&rel("name")).unwrap().unwrap();
    let known = Known {
        bytes: meta.bytes,
        generation: meta.generation(),
    };
    fs::remove_file(tree.at("name")).unwrap();
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, tree.at("name"), kind, 0o600.into(), 0).unwrap();
    let mut pipe = fs::File::options()
        .read(true)
        .write(true)
        .open(tree.at("name"))
        .unwrap();
    pipe.write_all(b"four").unwrap();
    let error = tree
        .storage
        .read_known(&rel("name"), known, &mut [0; 64])
        .unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::NotRegular);
    let mut there = [0; 4];
    pipe.read_exact(&mut there).unwrap();
    assert_eq!(&there, b"four");
    fs::remove_file(tree.at("name")).unwrap();
    fs::create_dir(tree.at("name")).unwrap();
    let error = tree
        .storage
        .read_known(&rel("name"), known, &mut [0; 64])
        .unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::NotRegular);
}

#[test]
fn a_file_that_says_it_is_empty_but_is_not_has_changed() {
    // Files of /proc have size 0, so reading their contents looks like growth.
    let storage = godwit_store::FsStorage::open(
        "/proc/self".as_ref(),
        godwit_store::Confine::Local,
        "/tmp".as_ref(),
    )
    .unwrap();
    let error = storage
        .read_whole(&rel("status"), &mut [0; 1 << 16])
        .unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Changed);
}

#[test]
fn only_regular_files_are_opened_and_nothing_blocks() {
    let tree = Tree::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.at("fifo"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.at("socket")).unwrap();
    fs::create_dir(tree.at("directory")).unwrap();
    for name in ["fifo", "socket", "directory"] {
        assert_eq!(
            tree.storage.open(&rel(name)).map(drop).unwrap_err().kind,
            StoreErrorKind::NotRegular,
            "{name}"
        );
        assert_eq!(
            tree.storage
                .read_whole(&rel(name), &mut [])
                .unwrap_err()
                .kind,
            StoreErrorKind::NotRegular,
            "{name}"
        );
    }
    let devices = godwit_store::FsStorage::open(
        "/dev".as_ref(),
        godwit_store::Confine::Local,
        "/tmp".as_ref(),
    )
    .unwrap();
    assert_eq!(
        devices.open(&rel("zero")).map(drop).unwrap_err().kind,
        StoreErrorKind::NotRegular
    );
}
