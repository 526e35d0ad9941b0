//! Tests files created with their final mode in one call, in a process without a file mode creation mask. A separate
//! binary is needed, because the mask belongs to the whole process.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{Tree, meta, rel};
use godwit_store::Storage;
use rustix::fs::XattrFlags;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A default access list: the owner everything, the group read, a mask of read, others nothing. Version 2, then tag,
/// permissions and (no) id of each item.
const DEFAULT_ACL: &[u8] = &[
    2, 0, 0, 0, //
    0x01, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, //
    0x04, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, //
    0x10, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, //
    0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
];

#[test]
fn modes_are_exact_with_a_cleared_mask_even_under_a_default_access_list() {
    godwit_sys::umask::clear();
    assert_eq!(godwit_sys::umask::clear(), 0);
    let tree = Tree::with(|options| options.umask_cleared = true);
    tree.storage.make_directory(&rel("plain"), 0o777).unwrap();
    assert_eq!(
        fs::metadata(tree.at("plain")).unwrap().mode() & 0o7777,
        0o777
    );
    tree.storage.make_directory(&rel("listed"), 0o777).unwrap();
    // If access lists are not supported, there is nothing to undo, and the modes must still be exact.
    let _ = rustix::fs::setxattr(
        tree.at("listed"),
        "system.posix_acl_default",
        DEFAULT_ACL,
        XattrFlags::empty(),
    );
    for directory in ["plain", "listed"] {
        for mode in [0o777, 0o666, 0o640, 0o444, 0o000, 0o1755] {
            let name = format!("{directory}/{mode:o}");
            tree.put(&name, b"content", &meta(mode, 1, 2));
            let there = fs::metadata(tree.at(&name)).unwrap();
            assert_eq!(
                (there.mode() & 0o7777, there.mtime(), there.mtime_nsec()),
                (mode, 1, 2),
                "{name}"
            );
        }
    }
}
