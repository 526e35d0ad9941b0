//! Tests a file system storage when the process may open no more handles. There is only one test,
//! because the limit belongs to the whole process.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use godwit_store::{Confine, Create, FsOptions, FsStorage, RelPath, Storage, TempName};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeSet;
use std::fs;

/// Lowers the limit so that the process can open one more handle.
fn leave_one_handle() {
    let used: BTreeSet<u64> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap())
        // Leaves out the handle of this listing.
        .filter(|entry| !fs::read_link(entry.path()).is_ok_and(|to| to.starts_with("/proc")))
        .map(|entry| entry.file_name().to_str().unwrap().parse().unwrap())
        .collect();
    let second_free = (0..).filter(|number| !used.contains(number)).nth(1);
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: second_free,
        maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn kept_directories_make_way_for_the_handle_past_the_page_cache() {
    // In the target directory: on older kernels files in memory have no direct I/O.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = FsOptions {
        direct: true,
        ..FsOptions::new(Confine::Local)
    };
    let before = getrlimit(Resource::Nofile);
    for writes in [false, true] {
        let storage = FsStorage::open_with(place.path(), place.path(), options.clone()).unwrap();
        for number in 0..8 {
            let directory = place.path().join(format!("d{number}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("file"), [7; 8192]).unwrap();
            let path = RelPath::parse(format!("d{number}/file").as_bytes()).unwrap();
            assert!(storage.stat(&path).unwrap().is_some());
        }
        let path = RelPath::parse(b"d0/file").unwrap();
        leave_one_handle();
        let opened = if writes {
            let temp = TempName::new(1, &path);
            storage.create(&path, &temp, Create::Fresh, None).map(drop)
        } else {
            storage.open(&path).map(drop)
        };
        setrlimit(Resource::Nofile, before).unwrap();
        opened.unwrap();
    }
}
