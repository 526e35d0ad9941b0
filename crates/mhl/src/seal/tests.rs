//! Tests of seals, and of checks against sealed digests: generations, differences, nested histories, damage.
//! `python/tests/test_ascmhl.py` tests that another program and the command read the histories of each other.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use super::*;
use crate::{Chains, Checked, ROOM_MAX, Recorded};

/// A data set with a history below, and links.
fn data() -> TempDir {
    let directory = tempfile::tempdir().expect("made");
    let root = directory.path();
    fs::create_dir_all(root.join("reel/deep")).expect("made");
    for (name, text) in [
        ("clip & 1.mov", "one"),
        ("reel/a", "two"),
        ("reel/deep/b", ""),
    ] {
        fs::write(root.join(name), text).expect("written");
    }
    symlink("a", root.join("reel/link *")).expect("made");
    directory
}

fn with_watch<T>(work: impl FnOnce(&Watch<'_>) -> T) -> T {
    let stop = AtomicBool::new(false);
    work(&Watch {
        stop: &stop,
        read: &|_| {},
        room: ROOM_MAX,
    })
}

fn sealed(root: &Path, formats: &[Format]) -> Sealed {
    let tool = Tool {
        name: "godwit".to_owned(),
        version: "1 < 2".to_owned(),
        host: "here".to_owned(),
    };
    with_watch(|watch| seal(root, formats, (Process::InPlace, &tool), 2, watch)).expect("sealed")
}

fn checked(history: &Path, copy: &Path, extra: bool) -> Checked {
    with_watch(|watch| {
        let recorded = Recorded::read(history, watch).expect("read");
        recorded.check(copy, extra, 2, watch).expect("checked")
    })
}

#[test]
fn a_second_generation_verifies_the_first() {
    let data = data();
    let first = sealed(data.path(), &[Format::Xxh64, Format::C4]);
    assert_eq!((first.files, first.bytes, first.verified), (3, 6, 0));
    assert_eq!((first.others, first.differences.len()), (1, 0));
    let second = sealed(data.path(), &[Format::Md5]);
    assert_eq!((second.files, second.verified), (3, 3));
    assert_eq!(second.differences, []);
    let text = fs::read_to_string(&second.generation).expect("read");
    // C4 is the first kind of the first generation.
    assert!(text.contains("<c4 action=\"verified\""), "{text}");
    assert!(text.contains("<md5 action=\"verified\""), "{text}");
    assert!(
        text.contains("<pattern>/reel/link\\ \\*</pattern>"),
        "{text}"
    );
}

#[test]
fn differences_are_named_and_do_not_become_the_record() {
    let data = data();
    let root = data.path();
    sealed(root, &[Format::Xxh3]);
    fs::write(root.join("reel/a"), "owt").expect("written");
    fs::remove_file(root.join("clip & 1.mov")).expect("removed");
    for _ in 0..2 {
        let again = sealed(root, &[Format::Xxh3]);
        let kinds: Vec<_> = again.differences.iter().map(|(path, _)| path).collect();
        assert_eq!(kinds, ["clip & 1.mov", "reel/a"]);
        assert_eq!(again.verified, 1);
    }
    fs::write(root.join("reel/a"), "two").expect("written");
    assert_eq!(sealed(root, &[Format::Xxh3]).differences.len(), 1);
}

#[test]
fn a_history_below_gets_a_generation_and_a_reference() {
    let data = data();
    let below = data.path().join("reel");
    sealed(&below, &[Format::Sha1]);
    let top = sealed(data.path(), &[Format::Xxh64]);
    assert_eq!((top.files, top.verified), (3, 2));
    let text = fs::read_to_string(&top.generation).expect("read");
    assert!(text.contains("<path>reel/ascmhl/0002_reel_"), "{text}");
    assert!(!text.contains(">reel/a<"), "{text}");
    let checked = checked(&data.path().join(FOLDER), data.path(), true);
    assert_eq!((checked.bytes, checked.differences), (6, Vec::new()));
}

#[test]
fn a_check_names_each_difference() {
    let data = data();
    let root = data.path();
    let generation = sealed(root, &[Format::Xxh128]).generation;
    let copy = self::data();
    for history in [&root.join(FOLDER), &generation] {
        assert_eq!(checked(history, copy.path(), true).differences, []);
    }
    let at = |name: &str| copy.path().join(name);
    fs::write(at("clip & 1.mov"), "0ne").expect("written");
    fs::write(at("reel/a"), "longer").expect("written");
    fs::remove_file(at("reel/deep/b")).expect("removed");
    fs::create_dir(at("reel/deep/b")).expect("made");
    fs::write(at("new"), "").expect("written");
    for history in [&root.join(FOLDER), &generation] {
        let found = checked(history, copy.path(), true).differences;
        let found: Vec<_> = found.iter().map(|(path, one)| (&**path, one)).collect();
        assert!(
            matches!(
                found[..],
                [
                    ("clip & 1.mov", Difference::Content { .. }),
                    ("new", Difference::Extra),
                    (
                        "reel/a",
                        Difference::Size {
                            recorded: 3,
                            found: 6
                        }
                    ),
                    ("reel/deep/b", Difference::Type),
                ]
            ),
            "{found:?}"
        );
    }
}

#[test]
fn a_history_has_the_rights_of_its_directory_and_leaves_its_time() {
    use std::os::unix::fs::PermissionsExt as _;
    let data = data();
    fs::set_permissions(data.path(), fs::Permissions::from_mode(0o750)).expect("set");
    let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let opened = File::open(data.path()).expect("opened");
    opened.set_modified(then).expect("set");
    let generation = sealed(data.path(), &[Format::Xxh64]).generation;
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
    // The mask of the test may take rights away, and nothing adds any.
    assert_eq!(mode(&generation) & !0o640, 0);
    assert_eq!(mode(&data.path().join(FOLDER)) & !0o750, 0);
    let about = fs::metadata(data.path()).expect("there");
    assert_eq!(about.modified().expect("known"), then);
}

#[test]
fn a_fifo_or_a_link_in_place_of_a_chain_is_refused() {
    let data = data();
    fs::create_dir(data.path().join(FOLDER)).expect("made");
    let chain = data.path().join(FOLDER).join(chain::FILE);
    symlink("/etc/passwd", &chain).expect("made");
    let read = || with_watch(|watch| Recorded::read(&data.path().join(FOLDER), watch));
    assert!(matches!(read(), Err(Error::Io { .. })));
    fs::remove_file(&chain).expect("removed");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &chain,
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .expect("made");
    assert!(matches!(read(), Err(Error::Io { .. })));
}

#[test]
fn a_changed_generation_and_one_outside_the_chain_are_refused() {
    let data = data();
    let generation = sealed(data.path(), &[Format::Xxh64]).generation;
    let text = fs::read_to_string(&generation).expect("read");
    let fails = || {
        let read = with_watch(|watch| Recorded::read(&data.path().join(FOLDER), watch));
        read.expect_err("refused").to_string()
    };
    fs::write(&generation, format!("{text}\n")).expect("written");
    assert!(fails().contains("was changed after it was written"));
    fs::write(&generation, text).expect("written");
    fs::write(generation.with_file_name("0002_x_y.mhl"), "").expect("written");
    assert!(fails().contains("is not in the chain"));
}

#[test]
fn a_chain_that_a_copy_made_shorter_comes_back() {
    let data = data();
    sealed(data.path(), &[Format::Xxh64]);
    let chain = data.path().join(FOLDER).join(chain::FILE);
    let short = fs::read(&chain).expect("read");
    let second = sealed(data.path(), &[Format::Xxh64]).generation;
    let long = fs::read(&chain).expect("read");
    let kept = Chains::below(data.path());
    fs::write(&chain, &short).expect("written");
    kept.put_back().expect("put back");
    assert_eq!(fs::read(&chain).expect("read"), long);
    // A chain whose generation is missing stays as it was copied.
    let kept = Chains::below(data.path());
    fs::write(&chain, &short).expect("written");
    fs::remove_file(second).expect("removed");
    kept.put_back().expect("nothing to do");
    assert_eq!(fs::read(&chain).expect("read"), short);
}

#[test]
fn a_folder_that_became_a_link_leads_no_file_to_another_place() {
    let data = data();
    let root = fs::canonicalize(data.path()).expect("there");
    let other = tempfile::tempdir().expect("made");
    sealed(&root.join("reel/deep"), &[Format::Xxh64]);
    let links = with_watch(|watch| chain::load(&root.join("reel/deep").join(FOLDER), watch));
    let links = links.expect("read");
    // Another user may put links there while a history is read.
    symlink(other.path(), root.join(FOLDER)).expect("made");
    fs::create_dir(other.path().join(FOLDER)).expect("made");
    symlink(other.path(), root.join("way")).expect("made");
    for folder in [root.join(FOLDER), root.join("way").join(FOLDER)] {
        assert!(
            chain::store(&folder, &links).is_err(),
            "{}",
            folder.display()
        );
        assert!(!folder.join(chain::FILE).exists());
    }
    let left = fs::read_dir(other.path().join(FOLDER)).expect("read");
    assert_eq!(left.count(), 0);
}

#[test]
fn a_tree_with_too_many_levels_is_refused() {
    let data = data();
    fs::create_dir_all(data.path().join("d/".repeat(256))).expect("made");
    sealed(data.path(), &[Format::Xxh64]);
    fs::create_dir(data.path().join("d/".repeat(257))).expect("made");
    let tool = Tool {
        name: "godwit".to_owned(),
        version: "1".to_owned(),
        host: "here".to_owned(),
    };
    let by = (Process::InPlace, &tool);
    let refused = with_watch(|watch| seal(data.path(), &[Format::Xxh64], by, 2, watch));
    let refused = refused.expect_err("refused").to_string();
    assert!(refused.contains("levels"), "{refused}");
}

#[test]
fn a_long_file_in_a_history_does_not_keep_the_work_from_stopping() {
    let data = data();
    let generation = sealed(data.path(), &[Format::Xxh64]).generation;
    // It takes no room, and many minutes to read.
    let file = fs::OpenOptions::new().write(true).open(&generation);
    file.and_then(|file| file.set_len(1 << 40)).expect("longer");
    let stop = AtomicBool::new(true);
    let watch = Watch {
        stop: &stop,
        read: &|_| {},
        room: ROOM_MAX,
    };
    let tool = Tool {
        name: "godwit".to_owned(),
        version: "1".to_owned(),
        host: "here".to_owned(),
    };
    let by = (Process::InPlace, &tool);
    let sealing = seal(data.path(), &[Format::Xxh64], by, 2, &watch);
    assert!(matches!(sealing, Err(Error::Stopped)), "{sealing:?}");
    for stopped in [
        chain::digest_of(&generation, &watch).map(drop),
        History::of_generation(&generation, &watch).map(drop),
    ] {
        assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    }
}

#[test]
fn a_directory_that_became_a_link_is_not_sealed_in_its_place() {
    let data = data();
    let root = fs::canonicalize(data.path()).expect("there");
    let other = root.join("reel");
    sealed(&other, &[Format::Xxh64]);
    let chain = other.join(FOLDER).join(chain::FILE);
    let first = fs::read(&chain).expect("read");
    sealed(&other, &[Format::Xxh64]);
    fs::write(&chain, &first).expect("written");
    symlink("reel", root.join("run")).expect("made");
    symlink(".", root.join("way")).expect("made");
    let tool = Tool {
        name: "godwit".to_owned(),
        version: "1".to_owned(),
        host: "here".to_owned(),
    };
    for path in ["run", "way/reel", "way/reel/deep"] {
        let path = root.join(path);
        let by = (Process::Transfer, &tool);
        let added = with_watch(|watch| crate::rejoin(&path, watch));
        assert_eq!(added.expect("nothing is found"), 0, "{}", path.display());
        with_watch(|watch| seal_real(&path, &[Format::Xxh64], by, 1, watch))
            .expect_err("it is a link");
    }
    assert_eq!(fs::read(&chain).expect("read"), first);
    assert!(!other.join("deep").join(FOLDER).exists());
    let added = with_watch(|watch| crate::rejoin(&other, watch));
    assert_eq!(added.expect("rejoined"), 1);
}

#[test]
fn an_unfinished_file_of_a_transfer_is_missed_by_no_later_run() {
    let data = data();
    let unfinished = data
        .path()
        .join("reel/.godwit-5df8ada93fab455ad7a07379d0724cca");
    fs::write(&unfinished, "ha").expect("written");
    let first = sealed(data.path(), &[Format::Xxh64]);
    // The link counts among the others.
    assert_eq!((first.files, first.others), (3, 2));
    let text = fs::read_to_string(first.generation).expect("read");
    assert!(text.contains("<pattern>/reel/.godwit-5df8"), "{text}");
    fs::remove_file(&unfinished).expect("removed");
    assert_eq!(sealed(data.path(), &[Format::Xxh64]).differences, []);
    // A file of the user may have a name that is only alike.
    fs::write(data.path().join(".godwit-notes"), "").expect("written");
    assert_eq!(sealed(data.path(), &[Format::Xxh64]).files, 4);
}
