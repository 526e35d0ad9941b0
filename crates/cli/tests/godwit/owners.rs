//! Tests the owners of delivered entries: the daemon's user, unless the export grants that owners are applied.
//! Does not test mode bits (`bits`).

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, lchown, symlink};
use std::path::Path;

use godwit_testkit::needs_root;

use super::judge::{assert_identical, files_below};
use super::rig::{NOBODY, Rig, as_each_user, is_root};

const OTHER: (u32, u32) = (12_345, 54_321);

fn owner(path: &Path) -> (u32, u32) {
    let meta = fs::symlink_metadata(path).expect("there");
    (meta.uid(), meta.gid())
}

/// The user and group that run the binary.
fn ourselves(rig: &Rig) -> (u32, u32) {
    if is_root() && rig.unprivileged() {
        return (NOBODY, NOBODY);
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    (uid.as_raw(), gid.as_raw())
}

#[track_caller]
fn assert_owned(root: &Path, expected: (u32, u32)) {
    for name in ["", "d", "d/file", "link", "large"] {
        assert_eq!(owner(&root.join(name)), expected, "{name:?}");
    }
}

#[test]
fn owners_are_applied_only_where_granted() {
    as_each_user(|rig| {
        rig.make_dirs("owned");
        let owned = format!("owned={},owner", rig.path("owned").display());
        rig.start(&["--export", &owned]);
        rig.write("run42/d/file", "small");
        rig.write("run42/large", vec![7; 3 << 20]);
        symlink("nowhere", rig.path("run42/link")).expect("made");
        rig.own();
        let source = rig.path("run42");
        let there = |export: &str| format!("godwit://{}/{export}/to", rig.address());

        // Setting the owner to the running user takes no privilege.
        rig.cp(&["run42", &there("owned")]).complete();
        assert_owned(&rig.path("owned/to"), ourselves(rig));
        if !needs_root() {
            return;
        }
        for name in ["d/file", "d", "link", "large", ""] {
            let path = source.join(name);
            lchown(path, Some(OTHER.0), Some(OTHER.1)).expect("we are root");
        }
        rig.cp(&["run42", &there("data")]).complete();
        assert_owned(&rig.path("export/to"), ourselves(rig));
        let outcome = rig.cp(&["--force", "run42/.", &there("owned")]);
        if rig.unprivileged() {
            // Without the right to give files away, one note says so.
            outcome.complete().says("arrived without the owner");
            assert_owned(&rig.path("owned/to"), ourselves(rig));
        } else {
            outcome.complete();
            assert_owned(&rig.path("owned/to"), OTHER);
            assert_identical(&source, &rig.path("owned/to"));
        }

        // A pulled file belongs to the puller.
        for path in files_below(&rig.path("export/to")) {
            let path = rig.path("export/to").join(path);
            lchown(path, Some(OTHER.0), Some(OTHER.1)).expect("we are root");
        }
        chown(rig.path("export/to"), Some(OTHER.0), Some(OTHER.1)).expect("we are root");
        rig.cp(&[&there("data"), "back"]).complete();
        assert_owned(&rig.path("back"), ourselves(rig));
    });
}
