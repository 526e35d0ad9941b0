//! Owns the tests of what a transfer leaves as it is: closed directories around a data set, devices and links that somebody named.
//! What is inside a data set is in `metadata` and `entries`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::rig::{Rig, is_root};

/// Permission bits.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

fn close(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o555)).expect("ours");
}

#[test]
fn a_closed_directory_around_the_data_set_stays_closed() {
    let mut world = Rig::for_user(is_root());
    world.write("f", "content");
    world.write("tree/d/x", "x");
    for name in ["here", "export/there"] {
        world.make_dirs(name);
        close(&world.path(name));
    }
    world.start(&[]);
    let url = world.url("there/");
    for (destination, name) in [("here/", "here"), (url.as_str(), "there")] {
        for source in ["f", "tree"] {
            let outcome = world.cp(&[source, destination]);
            assert_eq!(outcome.code, Some(3), "{source}: {}", outcome.said());
            outcome.says("permission denied").says(name);
        }
    }
    for name in ["here", "export/there"] {
        assert_eq!(mode(&world.path(name)), 0o555, "{name}");
        let mut inside = fs::read_dir(world.path(name)).expect("open to read");
        assert!(inside.next().is_none(), "{name}");
    }
    // The export itself is nobody's copy either.
    close(&world.export);
    for source in ["f", "tree", "tree/."] {
        let outcome = world.cp(&[source, &world.url("")]);
        assert_eq!(outcome.code, Some(3), "{source}: {}", outcome.said());
        outcome.says("permission denied");
    }
    assert_eq!(mode(&world.export), 0o555);
    // One of the data set is opened for what goes into it, and closed again.
    close(&world.path("tree/d"));
    for _ in 0..2 {
        world.cp(&["--force", "tree", "copy"]).complete();
        assert_eq!(mode(&world.path("copy/d")), 0o555);
    }
}
