//! Calls that hang in a real distributed file system, and take effect after other nodes have finished and a user has worked on.
//! One mount of a volume stops right before a call of a storage. The next node and the user see the same files through other mounts.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use godwit_store::{
    Confine, FinalMeta, FsStorage, RelPath, Replace, Storage, StoreError, TempName, Timestamp,
};
use rustix::process::Signal;

use super::gluster::{Volume, until};
use super::mounts::stop;

const TAG: u64 = 7;

/// Longer than a mount caches names that another mount may have changed.
const HANGS_FOR: Duration = Duration::from_millis(1500);

/// A kind of call.
struct Call {
    name: &'static str,
    /// Which of the calls hangs, counted by the questions before them.
    number: u32,
    act: fn(&FsStorage) -> Result<(), StoreError>,
    /// The work of the node that takes over, besides removing temporary names.
    finish: fn(&FsStorage),
    /// The change that a user makes after the job.
    edit: fn(&Path),
}

fn rel(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).expect("a path")
}

fn meta(mode: u32) -> FinalMeta {
    let mtime = Timestamp {
        seconds: 1,
        nanoseconds: 0,
    };
    FinalMeta {
        mode,
        mtime,
        ..FinalMeta::default()
    }
}

fn temp(of: u8) -> TempName {
    TempName::of_member(TAG, &[of], b"own")
}

fn write(storage: &FsStorage, path: &str, of: u8) -> Result<(), StoreError> {
    let path = rel(path);
    storage.write_whole(&path, &temp(of), &meta(0o600), b"content")?;
    storage.commit(&path, &temp(of), Replace::Atomically)
}

const CALLS: [Call; 8] = [
    Call {
        name: "the rename of a file",
        number: 1,
        act: |storage| write(storage, "d/file", 1),
        finish: |storage| write(storage, "d/file", 2).expect("written"),
        edit: |root| fs::write(root.join("d/file"), "edited").expect("written"),
    },
    Call {
        name: "the attributes of a file",
        number: 2,
        act: |storage| storage.set_meta(&rel("d/file"), &meta(0o600)).map(drop),
        finish: |storage| write(storage, "d/file", 2).expect("written"),
        edit: |root| {
            fs::write(root.join("d/file"), "edited").expect("written");
            let mode = fs::Permissions::from_mode(0o640);
            fs::set_permissions(root.join("d/file"), mode).expect("set");
        },
    },
    Call {
        name: "the removal of a file",
        number: 2,
        act: |storage| storage.remove_entry(&rel("d/file"), false),
        finish: |storage| {
            storage
                .remove_entry(&rel("d/file"), false)
                .expect("removed")
        },
        edit: |root| fs::write(root.join("d/file"), "edited").expect("written"),
    },
    Call {
        name: "the removal of a directory",
        number: 2,
        act: |storage| storage.remove_entry(&rel("d/empty"), true),
        finish: |storage| {
            storage
                .remove_entry(&rel("d/empty"), true)
                .expect("removed")
        },
        edit: |root| fs::create_dir(root.join("d/empty")).expect("made"),
    },
    Call {
        name: "the making of a directory",
        number: 1,
        act: |storage| storage.make_directory(&rel("d/new"), 0o755).map(drop),
        finish: |storage| {
            storage.make_directory(&rel("d/new"), 0o755).expect("made");
        },
        edit: |root| fs::remove_dir(root.join("d/new")).expect("removed"),
    },
    Call {
        name: "a further name",
        number: 1,
        act: |storage| {
            let (path, first) = (rel("d/new"), rel("d/file"));
            storage.make_link(&path, &first, &temp(1), Replace::Never)
        },
        finish: |storage| {
            let (path, first) = (rel("d/new"), rel("d/file"));
            let made = storage.make_link(&path, &first, &temp(2), Replace::Never);
            made.expect("made");
        },
        edit: |root| fs::remove_file(root.join("d/new")).expect("removed"),
    },
    Call {
        name: "the name of a further name",
        number: 2,
        act: |storage| {
            let (path, first) = (rel("d/new"), rel("d/file"));
            storage.make_link(&path, &first, &temp(1), Replace::Never)
        },
        finish: |_| {},
        edit: |_| {},
    },
    Call {
        name: "a symbolic link that is there",
        number: 1,
        act: |storage| {
            let (path, how) = (rel("d/link"), Replace::Atomically);
            let made = storage.make_symlink(&path, b"target", &meta(0o777), &temp(1), how);
            made.map(drop)
        },
        finish: |storage| {
            let (path, how) = (rel("d/link"), Replace::Atomically);
            let made = storage.make_symlink(&path, b"target", &meta(0o777), &temp(2), how);
            made.expect("made");
        },
        edit: |root| {
            fs::remove_file(root.join("d/link")).expect("removed");
            symlink("target", root.join("d/link")).expect("made");
        },
    },
];

fn fill(root: &Path) {
    fs::create_dir_all(root.join("d/empty")).expect("made");
    fs::write(root.join("d/file"), "old").expect("written");
    symlink("target", root.join("d/link")).expect("made");
}

/// Removes all temporary names, as the closer does in each directory before it looks at it.
fn take_over(storage: &FsStorage) {
    for directory in ["", "d"] {
        let mut names = Vec::new();
        let listed = storage.names_in(&rel(directory), &mut |name| names.push(name.to_vec()));
        listed.expect("listed");
        names.retain(|name| TempName::is_ours(name, TAG));
        for name in names {
            let path = rel(directory).join(&name).expect("a path");
            storage.remove_entry(&path, false).expect("removed");
        }
    }
}

/// The entries below a directory as a user sees them: paths, inodes, modes, times of files and links, and contents. If names of a file
/// come and go, its time of the last change of attributes is left out.
fn seen(root: &Path, names_change: bool) -> Vec<String> {
    let mut seen = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("listed") {
            let path = entry.expect("an entry").path();
            let there = path.symlink_metadata().expect("there");
            let mut line = format!("{} {} {:o}", path.display(), there.ino(), there.mode());
            if there.is_dir() {
                directories.push(path.clone());
            } else {
                let changed = (there.ctime(), there.ctime_nsec());
                let times = (there.mtime(), (!names_change).then_some(changed));
                line += &format!(" {times:?} {:?}", fs::read(&path).ok());
            }
            seen.push(line);
        }
    }
    seen.sort();
    seen
}

#[test]
fn no_call_that_hangs_takes_back_what_a_user_has_done_since() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let Some(volume) = Volume::make(&directory.path().join("v")) else {
        return;
    };
    let places = ["m1", "m2"].map(|name| directory.path().join(name));
    // Without caches, so that each mount sees changes of the other at once.
    let options = ["--attribute-timeout=0", "--entry-timeout=0"];
    let mounts = places.each_ref().map(|place| volume.mount(place, &options));
    let open = |place: &Path| {
        let root = place.join("r");
        FsStorage::open(&root, Confine::Local, directory.path()).expect("opened")
    };
    let (mut missed, mut changed) = (Vec::new(), Vec::new());
    for call in &CALLS {
        let user = places[1].join("r");
        let names_change = call.name.contains("further name");
        fs::create_dir(&user).expect("made");
        fill(&user);
        let (hung, other) = (open(&places[0]), open(&places[1]));
        let (asked, is_shut) = (AtomicU32::new(0), Arc::new(AtomicBool::new(false)));
        let (pid, shut) = (mounts[0].pid(), Arc::clone(&is_shut));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&is_stopped);
        let may = move || {
            if asked.fetch_add(1, Ordering::SeqCst) + 1 == call.number {
                stop(pid);
                own.store(true, Ordering::SeqCst);
            }
            !shut.load(Ordering::SeqCst)
        };
        hung.hold_to(Arc::new(may), TAG, &rel(""));
        other.hold_to(Arc::new(|| true), TAG, &rel(""));
        let before = thread::scope(|scope| {
            let hangs = scope.spawn(|| (call.act)(&hung));
            let is_there = || is_stopped.load(Ordering::SeqCst) || hangs.is_finished();
            until(call.name, is_there);
            // The call is the next thing that the thread does.
            thread::sleep(HANGS_FOR);
            if hangs.is_finished() {
                missed.push(call.name);
            }
            take_over(&other);
            (call.finish)(&other);
            take_over(&other);
            (call.edit)(&user);
            let before = seen(&user, names_change);
            is_shut.store(true, Ordering::SeqCst);
            mounts[0].signal(Signal::CONT);
            if hangs.join().expect("no panic").is_ok() {
                changed.push(call.name);
            }
            before
        });
        if seen(&user, names_change) != before {
            changed.push(call.name);
        }
        drop((hung, other));
        fs::remove_dir_all(&user).expect("removed");
    }
    drop(mounts);
    assert!(changed.is_empty(), "what comes late changed: {changed:?}");
    assert!(missed.is_empty(), "no such call hung: {missed:?}");
}
