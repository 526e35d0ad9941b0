//! Owns the tests of the directory of an export: of an export inside another one, and of a link in its path.
//! Links inside an export are tested in `escapes`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::process::Outcome;
use super::rest::Caller;
use super::rig::Rig;
use super::sites::{submit, wait_for};

const RULES: &str = "user:mallory * read,write,list,delete\n";

/// A node with the export `sub` inside the export `data`.
fn nested() -> Rig {
    let mut rig = Rig::new();
    rig.write("export/a/sub/f", "content");
    let sub = format!("sub={}", rig.path("export/a/sub").display());
    rig.start(&["--export", &sub]);
    rig
}

#[track_caller]
fn refused(outcome: &Outcome) {
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    outcome.says("another export begins there");
}

/// The state in which a job of the node ends, and its reason.
fn ended(rig: &Rig, source: &str, destination: &str) -> String {
    let id = submit(rig, source, destination, &[]);
    let job = wait_for(rig, &id, |job| !job["ended"].is_null());
    format!("{} {}", job["state"], job["reason"])
}

#[test]
fn a_request_to_the_export_around_another_one_does_not_move_it() {
    let rig = nested();
    let is_there = || {
        let meta = fs::symlink_metadata(rig.path("export/a/sub")).expect("there");
        assert!(meta.is_dir());
    };
    for (from, to) in [("a/sub", "b"), ("a", "b")] {
        let (from, to) = (format!("here:/data/{from}"), format!("here:/data/{to}"));
        refused(&rig.admin(&["mv", &from, &to]));
    }
    rig.make_dirs("export/empty");
    let wish = json!({"from": "here:/data/empty", "to": "here:/data/a/sub", "replace": true});
    let no = Caller::admin(&rig).post("places/rename", &wish).expect(422);
    assert!(no["detail"].to_string().contains("another export"), "{no}");
    for place in ["here:/data/a/sub", "here:/data/a"] {
        let outcome = rig.admin(&["rm", "-r", place]);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        is_there();
    }
    // A peer deletes what its source does not have.
    rig.write("export/a/sub/f", "content");
    rig.write("source/other", "other");
    let outcome = rig.client(&["sync", "--delete", "source/", &rig.url("")]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(rig.read("export/other"), b"other");
    is_there();
    // A link takes the place neither of the export nor of the directory above.
    let home = rig.daemon_home.clone();
    for (from, to, more) in [
        ("links/sub", "a/", &["cp"][..]),
        ("links/", "a", &["sync", "--delete"]),
        ("links/a", "", &["cp", "--force"]),
    ] {
        let _ = fs::remove_dir_all(rig.path("links"));
        rig.make_dirs("links");
        for name in ["sub", "a"] {
            symlink(&home, rig.path("links").join(name)).expect("made");
        }
        let from = rig.path(from).display().to_string();
        let to = rig.url(to);
        let line = [more, &[&from, &to]].concat();
        let outcome = rig.client(&line);
        assert_ne!(outcome.code, Some(0), "{line:?}: {outcome:?}");
        is_there();
    }
    // The node's own jobs are bound alike.
    symlink(&home, rig.path("export/sub")).expect("made");
    let said = ended(&rig, "here:/data/sub", "here:/data/a/");
    assert!(!said.contains("complete"), "{said}");
    is_there();
    rig.write("export/a/sub/g", "content");
    let to = rig.path("back");
    let from = format!("godwit://{}/sub/g", rig.address());
    rig.cp(&[from.as_ref(), to.as_os_str()]).complete();
}

/// Puts a link in the place of a directory; the directory is beside it.
fn lead(place: &Path, target: &Path) {
    fs::rename(place, place.with_extension("old")).expect("ours");
    symlink(target, place).expect("made");
}

#[test]
fn a_link_in_the_path_of_an_export_is_not_followed() {
    let mut rig = Rig::new();
    rig.write("others/pub/f", "content");
    let place = rig.path("others/pub");
    let public = format!("pub={}", place.display());
    rig.start(&["--export", &public]);
    let home = rig.daemon_home.clone();
    let to = rig.path("to");
    let url = |name: &str| format!("godwit://{}/pub/{name}", rig.address());
    let get = |name: &str| rig.cp(&[url(name).as_ref(), to.as_os_str()]);
    get("f").complete();
    rig.write("export/grants", RULES);
    let before = fs::read(home.join("grants")).expect("ours");
    let closed = || {
        for name in ["identity.pem", "home/identity.pem"] {
            let outcome = get(name);
            assert_ne!(outcome.code, Some(0), "{outcome:?}");
            outcome.says("symbolic link");
        }
        let said = ended(&rig, "here:/pub/identity.pem", "here:/data/stolen");
        assert!(said.contains("symbolic link"), "{said}");
        let said = ended(&rig, "here:/data/grants", "here:/pub/grants");
        assert!(said.contains("symbolic link"), "{said}");
        let outcome = rig.admin(&["ls", "here:/pub"]);
        outcome.says("symbolic link");
        assert!(!rig.path("export/stolen").exists());
        assert_eq!(fs::read(home.join("grants")).expect("ours"), before);
    };
    lead(&place, &home);
    closed();
    fs::remove_file(&place).expect("ours");
    // Another directory is what the path names.
    rig.write("others/pub/f", "another");
    get("f").complete();
    assert_eq!(fs::read(&to).expect("copied"), b"another");
    // A link further up.
    lead(&rig.path("others"), home.parent().expect("a directory"));
    symlink(&home, rig.path("pub")).expect("made");
    closed();
}
