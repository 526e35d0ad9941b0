//! `godwit buffer`: made on files, directories and loop devices, checked, shown, and refused where data would be lost.
//! The tests of the buffer itself cut power and flip bits below it.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use godwit_buffer::device::{Access, Device};
use godwit_buffer::extent::{
    Content, FileKey, Generation, Keep, Record, SlotIndex, SourceId, VolumeIndex,
};
use godwit_buffer::ledger::Commit;
use godwit_buffer::volume::Volume;
use godwit_store::digest::DigestKind;
use godwit_sys::page_buffer::PageBuffer;
use godwit_testkit::needs_root;
use serde_json::Value;

use super::process::{Outcome, wait_until};
use super::rig::Rig;

const BYTES: u64 = 48 << 20;
const EXTENT: u32 = 1 << 20;

fn file(rig: &Rig, name: &str) -> String {
    let path = rig.path(name);
    let file = File::create(&path).expect("made");
    file.set_len(BYTES).expect("room");
    path.to_str().expect("text").to_owned()
}

fn run(rig: &Rig, line: &[&str]) -> Outcome {
    rig.admin(&[&["buffer"], line].concat())
}

#[track_caller]
fn done(rig: &Rig, line: &[&str]) -> String {
    let outcome = run(rig, line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.out
}

#[track_caller]
fn refused(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    assert!(outcome.complaint.contains(words), "{outcome:?}");
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn identity(rig: &Rig) -> String {
    rig.admin(&["id"]).out.trim().to_owned()
}

/// Puts some extents into a buffer: all dirty, or all clean.
fn fill(rig: &Rig, place: &str, extents: u32, is_dirty: bool) -> u64 {
    let device = Device::open(Path::new(place), Access::Own).expect("opened");
    let (volume, _) = Volume::open(device, &identity(rig)).expect("ours");
    let mut buffer = PageBuffer::new(EXTENT as usize).expect("memory");
    let mut records = Vec::new();
    for slot in 0..extents {
        let file = Arc::new(FileKey {
            source: SourceId([1; 16]),
            path: format!("run42/{slot}").into_bytes(),
            generation: Generation {
                bytes: u64::from(EXTENT),
                stamp: 1,
            },
        });
        buffer.fill(7);
        let content = Content::of(&file, 0, &buffer, DigestKind::Crc64Nvme);
        volume
            .put(SlotIndex(slot), &content, &mut buffer)
            .expect("written");
        records.push(Record::Holds {
            slot: SlotIndex(slot),
            content,
            is_dirty,
            since: Duration::from_secs(1_700_000_000),
            keep: Keep::No,
        });
    }
    let commit = Commit {
        volume: VolumeIndex(0),
        number: 1,
        slots: (0..extents).map(SlotIndex).collect(),
        records,
        freed: Vec::new(),
    };
    volume.commit(&commit).expect("durable");
    volume.layout().data_at
}

#[test]
fn a_file_becomes_a_buffer_that_is_checked_and_shown() {
    let rig = Rig::new();
    let place = file(&rig, "buffer");
    let said = done(&rig, &["format", &place, "--extent", "1MiB"]);
    assert!(
        said.contains("extents of 1MiB") && said.contains(&identity(&rig)),
        "{said}"
    );
    done(&rig, &["check", &place]);
    let data_at = fill(&rig, &place, 5, true);
    let shown = document(&done(&rig, &["status", "--json", &place]));
    assert_eq!(shown["kind"], "file");
    assert_eq!(shown["node"], identity(&rig));
    assert_eq!(
        (&shown["dirty"]["extents"], &shown["clean"]["extents"]),
        (&5.into(), &0.into())
    );
    assert_eq!(shown["dirty"]["bytes"], 5 << 20);
    assert_eq!(shown["oldest_dirty"], "2023-11-14T22:13:20.000Z");
    let text = done(&rig, &["status", &place]);
    assert!(
        text.contains("dirty         5.24 MB (5 extents)") && text.contains("oldest dirty"),
        "{text}"
    );
    assert!(done(&rig, &["check", &place]).contains("sound, 5 extents read"));

    let image = fs::OpenOptions::new()
        .write(true)
        .open(&place)
        .expect("ours");
    image
        .write_all_at(b"x", data_at + u64::from(EXTENT) * 3 + 77)
        .expect("written");
    let outcome = run(&rig, &["check", &place]);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(
        outcome
            .out
            .contains("run42/3 at byte 0, 1048576 bytes in slot 3, the only copy"),
        "{outcome:?}"
    );
    let outcome = run(&rig, &["check", "--json", &place]);
    let found = document(&outcome.out);
    assert_eq!(
        (&found["sound"], &found["bad_extents"][0]["path"]),
        (&false.into(), &"run42/3".into())
    );

    // The first frame of the log is torn, so its extents were never acknowledged; without superblocks there is no buffer.
    image
        .write_all_at(&[0xff; 64], (1 << 20) + 100)
        .expect("written");
    assert_eq!(
        document(&done(&rig, &["status", "--json", &place]))["torn_end"],
        true
    );
    for at in [0, 64 << 10] {
        image.write_all_at(&[0xff; 64], at).expect("written");
    }
    refused(
        &run(&rig, &["status", &place]),
        1,
        "both of its superblocks are damaged",
    );
}

#[test]
fn data_is_lost_only_if_its_place_is_named() {
    let rig = Rig::new();
    let place = file(&rig, "buffer");
    done(&rig, &["format", &place]);
    refused(
        &run(&rig, &["format", &place]),
        1,
        "holds a transfer buffer of gw1-",
    );
    done(
        &rig,
        &[
            "format",
            &place,
            "--extent",
            "1MiB",
            "--force-format",
            &place,
        ],
    );
    fill(&rig, &place, 3, true);
    refused(
        &run(&rig, &["format", &place]),
        1,
        "with 3 extents that slow storage does not have",
    );
    // Another node has no right either.
    let other = rig.client(&["buffer", "format", &place]);
    refused(&other, 1, "holds a transfer buffer of gw1-");
    refused(
        &run(&rig, &["format", &place, "--force-format", "S4EWNX0R"]),
        2,
        "the serial of this place is",
    );
    assert!(
        done(&rig, &["check", &place]).contains("3 extents read"),
        "nothing was lost"
    );

    let letter = rig.path("letter");
    fs::write(&letter, vec![b'a'; 9000]).expect("written");
    let letter = letter.to_str().expect("text");
    refused(
        &run(&rig, &["format", letter, "--bytes", "48MiB"]),
        1,
        "data of an unknown kind",
    );
    assert_eq!(fs::read(letter).expect("there"), vec![b'a'; 9000]);
    refused(
        &run(&rig, &["format", "/dev/null"]),
        1,
        "neither a block device nor a file",
    );
    let small = rig.path("small");
    File::create(&small).expect("made");
    let small = small.to_str().expect("text");
    refused(&run(&rig, &["format", small]), 1, "too small");
    refused(
        &run(&rig, &["format", small, "--extent", "3MiB"]),
        2,
        "1MiB, 2MiB or 4MiB",
    );
    done(&rig, &["format", small, "--bytes", "48MiB"]);
}

#[test]
fn file_systems_are_recognised_by_what_their_own_tools_write() {
    let rig = Rig::for_user(false);
    for (tool, flags, name, bytes) in [
        ("mkfs.ext4", &["-q", "-F"][..], "ext2, ext3 or ext4", BYTES),
        ("mkfs.xfs", &["-q"], "xfs", 400 << 20),
        ("mkswap", &["-q"], "swap", BYTES),
    ] {
        let place = file(&rig, tool);
        let image = fs::OpenOptions::new()
            .write(true)
            .open(&place)
            .expect("ours");
        image.set_len(bytes).expect("room");
        let made = Command::new(tool).args(flags).arg(&place).output();
        assert!(made.is_ok_and(|made| made.status.success()), "{tool}");
        let before = fs::read(&place).expect("read");
        refused(&run(&rig, &["format", &place]), 1, name);
        assert!(
            fs::read(&place).expect("read") == before,
            "{tool}: nothing was written"
        );
        done(&rig, &["format", &place, "--force-format", &place]);
        let known = Command::new("wipefs")
            .args(["--noheadings", &place])
            .output()
            .expect("wipefs");
        assert!(known.stdout.is_empty(), "{tool}: {known:?}");
    }
}

#[test]
fn a_directory_is_a_buffer_with_a_bound() {
    let rig = Rig::new();
    let place = rig.path("flash").to_str().expect("text").to_owned();
    refused(&run(&rig, &["format", &place]), 2, "add --bytes");
    refused(
        &run(&rig, &["format", &place, "--bytes", "900PB"]),
        1,
        "has room for",
    );
    done(
        &rig,
        &["format", &place, "--bytes", "48MiB", "--extent", "2MiB"],
    );
    let shown = document(&done(&rig, &["status", "--json", &place]));
    assert_eq!(
        (&shown["kind"], &shown["extent_bytes"]),
        (&"directory".into(), &(2 << 20).into())
    );
    done(&rig, &["check", &place]);
    refused(
        &run(&rig, &["format", &place, "--bytes", "48MiB"]),
        1,
        "holds a transfer buffer",
    );
    done(
        &rig,
        &[
            "format",
            &place,
            "--bytes",
            "48MiB",
            "--force-format",
            &place,
        ],
    );
    rig.write("flash/letter", "mine");
    let again = run(
        &rig,
        &[
            "format",
            &place,
            "--bytes",
            "48MiB",
            "--force-format",
            &place,
        ],
    );
    refused(&again, 1, "the directory is not empty: it has letter");
}

#[test]
fn a_buffer_that_root_makes_belongs_to_the_owner_of_the_home_and_links_lead_root_nowhere() {
    const OTHER: u32 = 12_345;
    if !needs_root() {
        return;
    }
    let rig = Rig::new();
    fs::set_permissions(rig.path("."), fs::Permissions::from_mode(0o711)).expect("ours");
    let (theirs, trap) = (rig.path("theirs"), rig.path("theirs/trap"));
    for directory in [&rig.daemon_home, &theirs, &trap] {
        fs::create_dir_all(directory).expect("made");
        chown(directory, Some(OTHER), Some(OTHER)).expect("root");
    }
    let format = |place: &Path| {
        let place = place.to_str().expect("text");
        run(
            &rig,
            &["format", place, "--bytes", "48MiB", "--extent", "2MiB"],
        )
    };
    let place = theirs.join("flash");
    let made = format(&place);
    assert_eq!(made.code, Some(0), "{made:?}");
    for name in ["", "log", "extents", "extents/0000"] {
        let meta = fs::metadata(place.join(name)).expect("made");
        assert_eq!(meta.uid(), OTHER, "{name}");
    }
    symlink(rig.path("secret"), trap.join("log")).expect("linked");
    let outcome = format(&trap);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(!rig.path("secret").exists());
    // A file of root behind a link of the owner of the directory.
    let image = file(&rig, "image");
    let link = theirs.join("image");
    symlink(&image, &link).expect("linked");
    std::os::unix::fs::lchown(&link, Some(OTHER), Some(OTHER)).expect("root");
    refused(&format(&link), 1, "belongs to another user");
    let content = fs::read(&image).expect("read");
    assert!(content.iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_of_a_few_words_is_data_and_becomes_no_buffer_unasked() {
    let rig = Rig::new();
    rig.write("key", "a few words");
    let place = rig.path("key").to_str().expect("text").to_owned();
    let line = ["format", &place, "--bytes", "48MiB", "--extent", "2MiB"];
    refused(&run(&rig, &line), 1, "holds data of an unknown kind");
    assert_eq!(fs::read(&place).expect("read"), b"a few words");
    done(&rig, &[&line[..], &["--force-format", &place]].concat());
}

#[test]
fn a_file_that_becomes_a_buffer_is_closed_to_others() {
    let rig = Rig::new();
    let image = file(&rig, "image");
    fs::set_permissions(&image, fs::Permissions::from_mode(0o644)).expect("ours");
    done(&rig, &["format", &image, "--extent", "2MiB"]);
    let mode = fs::metadata(&image).expect("there").mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_link_leads_root_to_no_place_of_a_third_user() {
    const OWNER: u32 = 12_345;
    const OTHER: u32 = 54_321;
    if !needs_root() {
        return;
    }
    let rig = Rig::new();
    fs::set_permissions(rig.path("."), fs::Permissions::from_mode(0o711)).expect("ours");
    let (theirs, trap) = (rig.path("theirs"), rig.path("trap"));
    for (directory, user) in [(&theirs, OWNER), (&trap, OTHER)] {
        fs::create_dir(directory).expect("made");
        chown(directory, Some(user), Some(user)).expect("root");
    }
    let image = file(&rig, "theirs/image");
    chown(&image, Some(OWNER), Some(OWNER)).expect("root");
    for (name, to) in [("image", Path::new(&image)), ("into", theirs.as_path())] {
        let link = trap.join(name);
        symlink(to, &link).expect("linked");
        std::os::unix::fs::lchown(&link, Some(OTHER), Some(OTHER)).expect("root");
    }
    for name in ["trap/image", "trap/into/image"] {
        let place = rig.path(name);
        let outcome = run(&rig, &["format", place.to_str().expect("text")]);
        refused(&outcome, 1, "belongs to another user (uid 54321)");
    }
    let content = fs::read(&image).expect("read");
    assert!(content.iter().all(|byte| *byte == 0));
    // The owner's own name of the place is no link of another user.
    let made = run(&rig, &["format", &image, "--extent", "2MiB"]);
    assert_eq!(made.code, Some(0), "{made:?}");
}

/// A loop device. Goes away when dropped.
struct Loop(PathBuf);

impl Loop {
    fn on(image: &str) -> Self {
        let output = Command::new("losetup")
            .args(["--find", "--show", image])
            .output()
            .expect("losetup");
        assert!(output.status.success(), "{output:?}");
        Self(
            String::from_utf8(output.stdout)
                .expect("text")
                .trim()
                .into(),
        )
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .status();
    }
}

#[test]
fn a_device_in_use_is_refused_and_a_free_one_becomes_a_buffer() {
    if !needs_root() {
        return;
    }
    let rig = Rig::for_user(false);
    let image = file(&rig, "image");
    let device = Loop::on(&image);
    let place = device.name();
    let force = ["format", place, "--force-format", place];
    refused(&run(&rig, &["format", &image]), 1, "lies on it");

    let made = Command::new("mkfs.ext4")
        .args(["-q", place])
        .status()
        .expect("mkfs");
    assert!(made.success());
    refused(&run(&rig, &["format", place]), 1, "ext2, ext3 or ext4");
    let at = rig.path("mounted");
    fs::create_dir(&at).expect("made");
    let mounted = Command::new("mount")
        .arg(place)
        .arg(&at)
        .status()
        .expect("mount");
    // Shared, so that `umount` reaches the copies in namespaces that other tests make meanwhile.
    let shared = Command::new("mount")
        .arg("--make-shared")
        .arg(&at)
        .status()
        .expect("mount");
    assert!(mounted.success() && shared.success());
    let outcome = run(&rig, &force);
    let unmounted = Command::new("umount").arg(&at).status().expect("umount");
    assert!(unmounted.success());
    refused(
        &outcome,
        1,
        &format!("in use: it is mounted at {}", at.display()),
    );

    // A namespace that another test made between the two mounts has the file system until it ends.
    let formatted = wait_until(|| (run(&rig, &force).code == Some(0)).then_some(()));
    assert!(formatted.is_some(), "{:?}", run(&rig, &force));
    let shown = document(&done(&rig, &["status", "--json", place]));
    assert_eq!(
        (&shown["kind"], &shown["serial"]),
        (&"device".into(), &place.into())
    );
    let owner = Device::open(&device.0, Access::Own).expect("free");
    refused(&run(&rig, &["check", place]), 1, "in use");
    refused(&run(&rig, &force), 1, "in use");
    done(&rig, &["status", place]);
    drop(owner);
    done(&rig, &["check", place]);
}
