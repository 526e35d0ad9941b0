//! Owns the tests of `godwit gen`: the guide's statements on seeds, `--scale` and `--compressible`.
//! The specifications themselves are tested with the generator, in the store.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

use godwit_testkit::needs_root;

use super::rig::Rig;

/// Mode, modification time and contents of each entry of a data set, with its root.
type Known = BTreeMap<String, (u32, i64, i64, Vec<u8>)>;

/// Makes a data set; returns the output and the files.
fn generate(rig: &Rig, name: &str, line: &[&str]) -> (String, Known) {
    let outcome = rig.client(&[&["gen"], line, &[name]].concat());
    assert_eq!(outcome.code, Some(0), "{line:?}: {}", outcome.said());
    let mut known = Known::new();
    look(&rig.path(name), "", &mut known);
    (outcome.out.trim().to_owned(), known)
}

fn look(root: &Path, below: &str, known: &mut Known) {
    let path = root.join(below.trim_start_matches('/'));
    let meta = fs::symlink_metadata(&path).expect("it is there");
    let content = if meta.is_dir() {
        for entry in fs::read_dir(&path).expect("listed") {
            let name = entry.expect("listed").file_name();
            look(root, &format!("{below}/{}", name.to_string_lossy()), known);
        }
        Vec::new()
    } else {
        fs::read(&path).expect("read")
    };
    let facts = (meta.mode(), meta.mtime(), meta.mtime_nsec(), content);
    known.insert(below.to_owned(), facts);
}

fn files(known: &Known) -> Vec<&Vec<u8>> {
    let files = known
        .values()
        .filter(|(mode, ..)| mode & 0o17_0000 == 0o10_0000);
    files.map(|(.., content)| content).collect()
}

fn bytes(known: &Known) -> usize {
    files(known).iter().map(|content| content.len()).sum()
}

/// The size of the file as another program compresses it.
fn compressed(path: &Path) -> usize {
    let output = Command::new("gzip").arg("-c").arg(path).output();
    output.expect("gzip runs").stdout.len()
}

#[test]
fn the_same_seed_makes_the_same_bytes() {
    let rig = Rig::new();
    let spec = "tree:150x100..9kB,2x300KiB,compressible:1x200KiB";
    let line = |seed| [spec, "--seed", seed, "--scale", "0.5"];
    let (said, first) = generate(&rig, "first", &line("7"));
    let (_, again) = generate(&rig, "again", &line("7"));
    assert!(first == again, "the same seed makes something else");
    let (_, other) = generate(&rig, "other", &line("8"));
    assert!(first != other, "another seed makes the same");
    assert_eq!(files(&first).len(), files(&other).len());
    // The reported counts match the files below the named directory.
    let count = files(&first).len();
    let directories = first.len() - count - 1;
    let bytes = bytes(&first);
    let there = format!("{count} files in {directories} directories, {bytes} bytes");
    assert_eq!(said, there);
}

#[test]
fn scale_makes_fewer_files_and_below_forty_smaller_ones() {
    let rig = Rig::new();
    let of = |name: &str, scale: &str| generate(&rig, name, &["2000x1KiB", "--scale", scale]).1;
    let sizes = |known: &Known| -> (usize, usize) { (files(known).len(), bytes(known)) };
    assert_eq!(sizes(&of("tenth", "0.1")), (200, 200 << 10));
    assert_eq!(sizes(&of("twice", "2")), (4000, 4000 << 10));
    let (count, all) = sizes(&of("tiny", "0.01"));
    // A hundredth of the bytes, in no fewer than forty files.
    assert_eq!(count, 40);
    assert!(all.abs_diff(20 << 10) <= 40, "{all} bytes");
    for bad in ["0", "-1", "nan", "1e99"] {
        let scale = format!("--scale={bad}");
        let outcome = rig.client(&["gen", "2x1KiB", "bad", &scale]);
        assert_eq!(outcome.code, Some(2), "{bad}: {}", outcome.said());
        assert!(!rig.path("bad").exists(), "{bad} made something");
    }
}

#[test]
fn compressible_is_the_part_that_a_compressor_saves() {
    let rig = Rig::new();
    let size = 1 << 20;
    for (fraction, name) in [
        ("0", "none"),
        ("0.5", "half"),
        ("0.9", "most"),
        ("1", "all"),
    ] {
        let line = ["1x1MiB", "--compressible", fraction];
        let (_, known) = generate(&rig, name, &line);
        assert_eq!(bytes(&known), size);
        let (path, _) = known
            .iter()
            .find(|(_, facts)| facts.3.len() == size)
            .expect("a file");
        let is = compressed(&rig.path(name).join(path.trim_start_matches('/')));
        let fraction: f64 = fraction.parse().expect("a number");
        #[expect(clippy::cast_precision_loss, reason = "a size of a small file")]
        let saved = 1.0 - is as f64 / size as f64;
        assert!((saved - fraction).abs() < 0.03, "{fraction}: {saved} saved");
    }
    for bad in ["1.5", "-0.1", "nan"] {
        let fraction = format!("--compressible={bad}");
        let outcome = rig.client(&["gen", "1x1KiB", "bad", &fraction]);
        assert_eq!(outcome.code, Some(2), "{bad}: {}", outcome.said());
    }
    // An item with a compressibility keeps it.
    let [plain, asked] = [&[][..], &["--compressible", "0.9"]].map(|more| {
        let name = format!("own{}", more.len());
        generate(&rig, &name, &[&["compressible:1x100KiB"], more].concat()).1
    });
    assert!(plain == asked, "--compressible changed what says so itself");
}

#[test]
fn a_dry_run_prints_the_amounts_of_the_set_and_makes_nothing() {
    let rig = Rig::new();
    let spec = ["tree:150x100..9kB,source:70,esnet-tiny", "--seed", "7"];
    let arguments = [&["gen", "-n", "--scale", "0.5"], &spec[..]].concat();
    let before = rig.client(&arguments);
    assert_eq!(before.code, Some(0), "{}", before.said());
    let json = rig.client(&[&arguments[..], &["--json", "set"]].concat());
    assert!(!rig.path("set").exists());
    let (said, known) = generate(&rig, "set", &[&spec[..], &["--scale", "0.5"]].concat());
    assert_eq!(before.out.trim(), said);
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("one object");
    assert_eq!(json["bytes"], bytes(&known));
    assert_eq!(json["files"], files(&known).len());
}

#[test]
fn a_data_set_that_root_makes_belongs_to_the_owner_of_its_directory_and_a_link_leads_root_nowhere()
{
    const OTHER: u32 = 12_345;
    if !needs_root() {
        return;
    }
    let rig = Rig::new();
    fs::set_permissions(rig.path("."), fs::Permissions::from_mode(0o711)).expect("ours");
    let (theirs, private) = (rig.path("theirs"), rig.path("private"));
    for directory in [&theirs, &private] {
        fs::create_dir(directory).expect("made");
    }
    chown(&theirs, Some(OTHER), Some(OTHER)).expect("root");
    generate(&rig, "theirs/set", &["2x1KiB"]);
    let mut made = vec![rig.path("theirs/set")];
    let below = fs::read_dir(&made[0]).expect("listed");
    made.extend(below.map(|entry| entry.expect("listed").path()));
    for path in made {
        let meta = fs::symlink_metadata(&path).expect("there");
        assert_eq!(meta.uid(), OTHER, "{}", path.display());
    }
    // The directory of root is open to root alone.
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).expect("ours");
    symlink(&private, theirs.join("way")).expect("made");
    let outcome = rig.client(&["gen", "2x1KiB", "theirs/way/set"]);
    assert_ne!(outcome.code, Some(0), "{}", outcome.said());
    assert_eq!(fs::read_dir(&private).expect("listed").count(), 0);
    // Pages of the manual have names that others know, too.
    let secret = private.join("secret");
    fs::write(&secret, "root's").expect("written");
    symlink(&secret, theirs.join("godwit.1")).expect("made");
    let outcome = rig.client(&["man", "theirs"]);
    assert_ne!(outcome.code, Some(0), "{}", outcome.said());
    assert_eq!(fs::read(&secret).expect("ours"), b"root's");
}
