//! Tests owner, attributes, access lists and special files of a file system storage: they are read back as they were set, in any
//! order of rights. Other tests compare whole trees by rsync.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{Tree, entry_of, is_root, meta, rel, temp_of};
use godwit_store::{
    AclEntry, AclWho, Acls, Create, Extended, FinalMeta, FsOptions, Kind, Lost, Replace, Storage,
    StoreErrorKind, Xattr,
};
use rustix::fs::{FileType, Mode, XattrFlags};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

fn reads_all(options: &mut FsOptions) {
    options.read_xattrs = true;
    options.read_acls = true;
}

fn xattr(name: &str, value: &[u8]) -> Xattr {
    Xattr {
        name: name.into(),
        value: value.to_vec(),
    }
}

fn acl(who: AclWho, permissions: u8) -> AclEntry {
    AclEntry { who, permissions }
}

/// An access list for a mode of 0o640, with more permissions for user 77 and fewer for the group.
fn access_list() -> Vec<AclEntry> {
    vec![
        acl(AclWho::Owner, 6),
        acl(AclWho::User(77), 4),
        acl(AclWho::OwningGroup, 0),
        acl(AclWho::Mask, 4),
        acl(AclWho::Others, 0),
    ]
}

fn given(xattrs: Vec<Xattr>, acls: Acls) -> FinalMeta {
    FinalMeta {
        extended: Extended {
            xattrs: Some(xattrs),
            acls: Some(acls),
        },
        ..meta(0o640, 1000, 5)
    }
}

fn write(tree: &Tree, name: &str, meta: &FinalMeta) -> Lost {
    let path = rel(name);
    let temp = temp_of(&path);
    let lost = tree
        .storage
        .write_whole(&path, &temp, meta, b"content")
        .unwrap();
    tree.storage
        .commit(&path, &temp, Replace::Atomically)
        .unwrap();
    lost
}

/// The attributes that a scan reports, sorted.
fn reported(tree: &Tree, name: &str) -> Extended {
    let items = tree.scan(name);
    let mut extended = entry_of(&items[0]).extended.clone();
    assert!(entry_of(&items[0]).lost.is_nothing());
    assert_eq!(
        tree.storage.extended(&rel(name)).unwrap(),
        (extended.clone(), Lost::NOTHING)
    );
    extended.xattrs.iter_mut().for_each(|all| all.sort());
    extended
}

#[test]
fn stored_attributes_are_read_back() {
    let tree = Tree::with(reads_all);
    let acls = Acls {
        access: access_list(),
        default: Vec::new(),
    };
    let wanted = given(
        vec![
            xattr("user.empty", b""),
            xattr("user.large", &[7; 3000]),
            xattr("user.ä\n", b"\0\xff"),
        ],
        acls,
    );
    assert!(write(&tree, "file", &wanted).is_nothing());
    assert_eq!(reported(&tree, "file"), wanted.extended);
    let there = fs::metadata(tree.at("file")).unwrap();
    assert_eq!((there.mode() & 0o7777, there.mtime()), (0o640, 1000));

    // A large file that had other attributes before also has the new ones.
    let path = rel("sliced");
    let temp = temp_of(&path);
    let file = tree
        .storage
        .create(&path, &temp, Create::Fresh, None)
        .unwrap();
    let earlier = given(vec![xattr("user.earlier", b"x")], Acls::default());
    assert!(file.finish(0, &earlier).unwrap().is_nothing());
    drop(file);
    let file = tree
        .storage
        .create(&path, &temp, Create::Resume, None)
        .unwrap();
    assert!(file.finish(0, &wanted).unwrap().is_nothing());
    tree.storage.commit(&path, &temp, Replace::Never).unwrap();
    assert_eq!(reported(&tree, "sliced"), wanted.extended);
}

#[test]
fn nothing_is_read_or_touched_that_was_not_asked_for() {
    let tree = Tree::new();
    write(
        &tree,
        "file",
        &given(vec![xattr("user.a", b"1")], Acls::default()),
    );
    let items = tree.scan("file");
    assert_eq!(entry_of(&items[0]).extended, Extended::default());
    tree.storage.make_directory(&rel("d"), 0o700).unwrap();
    set(&tree, "d", "user.kept", b"1");
    let lost = tree
        .storage
        .set_directory_meta(&rel("d"), &meta(0o750, 1, 0));
    assert!(lost.unwrap().is_nothing());
    assert_eq!(get(&tree, "d", "user.kept").as_deref(), Some(&b"1"[..]));
}

#[test]
fn directories_get_exactly_what_is_given() {
    let tree = Tree::with(reads_all);
    tree.storage.make_directory(&rel("d"), 0o700).unwrap();
    set(&tree, "d", "user.old", b"1");
    let acls = Acls {
        access: access_list(),
        default: vec![
            acl(AclWho::Owner, 7),
            acl(AclWho::OwningGroup, 5),
            acl(AclWho::Group(55), 7),
            acl(AclWho::Mask, 7),
            acl(AclWho::Others, 0),
        ],
    };
    // The final mode of the directory denies even its owner changes.
    let wanted = FinalMeta {
        mode: 0o540,
        ..given(vec![xattr("user.new", b"2")], acls)
    };
    let mut expected = wanted.extended.clone();
    let lists = expected.acls.as_mut().unwrap();
    lists.access[0].permissions = 6;
    let set_meta = |meta: &FinalMeta| {
        let lost = tree.storage.set_directory_meta(&rel("d"), meta).unwrap();
        assert!(lost.is_nothing());
    };
    set_meta(&wanted);
    assert_eq!(reported(&tree, "d"), expected);

    // New entries do not inherit attributes from the directory.
    tree.storage.open_directory(&rel("d")).unwrap();
    let bare = given(Vec::new(), Acls::default());
    let tree = Tree {
        storage: godwit_store::FsStorage::open_with(
            &tree.directory.path().join("root"),
            tree.directory.path(),
            {
                let mut options = FsOptions::new(godwit_store::Confine::Export);
                reads_all(&mut options);
                options
            },
        )
        .unwrap(),
        directory: tree.directory,
    };
    assert!(write(&tree, "d/file", &bare).is_nothing());
    assert_eq!(reported(&tree, "d/file"), bare.extended);
    let mode = fs::metadata(tree.at("d/file")).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o640);

    let lost = tree.storage.set_directory_meta(&rel("d"), &bare).unwrap();
    assert!(lost.is_nothing());
    assert_eq!(reported(&tree, "d"), bare.extended);
}

#[test]
fn names_of_one_file_tell_once_what_goes_with_it() {
    let tree = Tree::with(reads_all);
    let wanted = given(vec![xattr("user.a", b"1")], Acls::default());
    write(&tree, "one", &wanted);
    fs::hard_link(tree.at("one"), tree.at("two")).unwrap();
    let items = tree.scan("");
    let with: Vec<_> = items
        .iter()
        .map(|item| entry_of(item).extended.xattrs.as_ref().map_or(0, Vec::len))
        .collect();
    assert_eq!(with, [0, 1, 0], "the root, the first name, the second one");
    assert_eq!(
        reported(&tree, "two"),
        wanted.extended,
        "as a start of its own"
    );
}

#[test]
fn privileged_attributes_need_a_grant() {
    let wanted = given(
        vec![xattr("trusted.a", b"1"), xattr("user.a", b"2")],
        Acls::default(),
    );
    let tree = Tree::with(reads_all);
    assert_eq!(write(&tree, "file", &wanted), Lost::PRIVILEGED_XATTRS);
    assert_eq!(
        reported(&tree, "file").xattrs.unwrap(),
        [xattr("user.a", b"2")]
    );

    let tree = Tree::with(|options| {
        reads_all(options);
        options.allow_privileged_xattrs = true;
    });
    let lost = write(&tree, "file", &wanted);
    let path = rel("link");
    let link = FinalMeta {
        extended: Extended {
            xattrs: Some(vec![xattr("trusted.b", b"3")]),
            acls: Some(Acls::default()),
        },
        ..meta(0o777, 1, 0)
    };
    let lost_link =
        tree.storage
            .make_symlink(&path, b"nowhere", &link, &temp_of(&path), Replace::Never);
    if is_root() {
        assert!(lost.is_nothing());
        assert_eq!(reported(&tree, "file"), wanted.extended);
        assert!(lost_link.unwrap().is_nothing());
        assert_eq!(reported(&tree, "link"), link.extended);
    } else {
        assert_eq!(lost, Lost::PRIVILEGED_XATTRS);
        assert_eq!(lost_link.unwrap(), Lost::PRIVILEGED_XATTRS);
    }
    // Access lists and system attributes cannot be set as ordinary attributes.
    let odd = given(
        vec![xattr("system.posix_acl_access", b"x")],
        Acls::default(),
    );
    assert_eq!(write(&tree, "odd", &odd), Lost::XATTRS);
}

#[test]
fn a_strict_entry_comes_whole_or_not_at_all() {
    let tree = Tree::with(reads_all);
    let strict = FinalMeta {
        strict: true,
        ..given(vec![xattr("trusted.a", b"1")], Acls::default())
    };
    let path = rel("file");
    let error = tree
        .storage
        .write_whole(&path, &temp_of(&path), &strict, b"x")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot keep the security and trusted attributes of file: not supported there"
    );
    assert_eq!(fs::read_dir(tree.at("")).unwrap().count(), 0);
}

#[test]
fn set_id_bits_do_not_speak_for_somebody_else() {
    let tree = Tree::with(|options| options.allow_set_id = true);
    let wanted = FinalMeta {
        uid: Some(4242),
        ..meta(0o4755, 1, 0)
    };
    assert_eq!(write(&tree, "file", &wanted), Lost::OWNER | Lost::SET_ID);
    let mode = fs::metadata(tree.at("file")).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o755);
}

#[test]
fn fifos_and_sockets_are_made_and_devices_where_allowed() {
    let tree = Tree::with(reads_all);
    let make = |tree: &Tree, name: &str, kind, rdev| {
        let path = rel(name);
        let meta = given(Vec::new(), Acls::default());
        tree.storage
            .make_special(&path, kind, rdev, &meta, &temp_of(&path), Replace::Never)
    };
    for (name, kind) in [("fifo", Kind::Fifo), ("socket", Kind::Socket)] {
        assert!(make(&tree, name, kind, 0).unwrap().is_nothing());
        let there = fs::symlink_metadata(tree.at(name)).unwrap();
        assert_eq!((there.mode() & 0o7777, there.mtime()), (0o640, 1000));
        let items = tree.scan(name);
        assert_eq!(entry_of(&items[0]).meta.kind, kind);
        let again = make(&tree, name, kind, 0).unwrap_err();
        assert_eq!(again.kind, StoreErrorKind::Exists);
    }
    let null = rustix::fs::makedev(1, 3);
    let error = make(&tree, "null", Kind::CharDevice, null).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Permission);
    let tree = Tree::with(|options| options.allow_devices = true);
    let made = make(&tree, "null", Kind::CharDevice, null);
    if is_root() {
        assert!(made.unwrap().is_nothing());
        let there = fs::metadata(tree.at("null")).unwrap();
        assert!(there.file_type().is_char_device());
        assert_eq!(there.rdev(), null);
        let items = tree.scan("null");
        assert_eq!(entry_of(&items[0]).meta.rdev, null);
    } else {
        assert_eq!(made.unwrap_err().kind, StoreErrorKind::Permission);
    }
    assert_eq!(
        make(&tree, "file", Kind::File, 0).unwrap_err().kind,
        StoreErrorKind::Unsupported
    );
}

#[test]
fn reading_attributes_follows_no_link() {
    let tree = Tree::with(reads_all);
    write(
        &tree,
        "file",
        &given(vec![xattr("user.a", b"1")], Acls::default()),
    );
    symlink("file", tree.at("link")).unwrap();
    assert_eq!(reported(&tree, "link").xattrs, Some(Vec::new()));
    let fifo = tree.at("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert_eq!(reported(&tree, "fifo").xattrs, Some(Vec::new()));
}

#[test]
fn a_closed_directory_is_opened_for_its_owner_only() {
    let tree = Tree::new();
    tree.storage.make_directory(&rel("d"), 0o755).unwrap();
    fs::set_permissions(tree.at("d"), fs::Permissions::from_mode(0o2055)).unwrap();
    tree.storage.open_directory(&rel("d")).unwrap();
    let mode = fs::metadata(tree.at("d")).unwrap().mode() & 0o7777;
    // Modes do not restrict the superuser.
    assert_eq!(mode, if is_root() { 0o2055 } else { 0o2755 });
    fs::set_permissions(tree.at("d"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn set(tree: &Tree, path: &str, name: &str, value: &[u8]) {
    rustix::fs::setxattr(tree.at(path), name, value, XattrFlags::empty()).unwrap();
}

fn get(tree: &Tree, path: &str, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 100];
    let bytes = rustix::fs::getxattr(tree.at(path), name, &mut value[..]).ok()?;
    value.truncate(bytes);
    Some(value)
}
