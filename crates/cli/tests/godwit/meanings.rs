//! Tests of commands that name the same source or the same destination in different words.
//! Does not test which names a destination cannot have (`places`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::Signal;

use super::process::{Process, wait_until};
use super::rig::Rig;

/// The entries of `directory`, two levels deep, in order.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("listed") {
        let path = entry.expect("listed").path();
        let below = fs::read_dir(&path).into_iter().flatten();
        let below = below.map(|entry| entry.expect("listed").path());
        found.extend(below.chain([path]).filter(|path| path.is_file()));
    }
    let name = |path: &std::path::PathBuf| {
        let below = path.strip_prefix(directory).expect("below");
        below.to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = found.iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn an_unfinished_transfer_does_not_decide_where_another_one_goes() {
    let mut rig = Rig::new();
    rig.write("run/good", "good");
    rig.write("run/stuck", "stuck");
    rig.write("list", "good\n");
    symlink("run", rig.path("alias")).expect("made");
    rig.start(&[]);
    for (destination, place, home) in [
        (
            rig.url("to/"),
            rig.export.join("to"),
            rig.daemon_home.clone(),
        ),
        ("to/".to_owned(), rig.path("to"), rig.client_home()),
    ] {
        let cp = |words: &[&str]| rig.cp(&[words, &[&destination]].concat());
        // A file cannot replace this directory, so the transfer stays unfinished.
        fs::create_dir_all(place.join("run/stuck/full")).expect("made");
        cp(&["run"]).expect(3, "partial");
        assert_eq!(files(&place), ["run/good"]);
        assert_eq!(Rig::journals(&home).len(), 1);

        cp(&["--files-from", "list", "run"]).complete();
        assert_eq!(files(&place), ["good", "run/good"]);
        cp(&["run/."]).complete();
        assert_eq!(files(&place), ["good", "run/good", "stuck"]);
        cp(&["alias/"]).complete();
        assert_eq!(
            files(&place),
            ["alias/good", "alias/stuck", "good", "run/good", "stuck"]
        );
        // The first command still finds its own journal.
        assert_eq!(Rig::journals(&home).len(), 1);
        fs::remove_dir_all(place.join("run/stuck")).expect("ours");
        cp(&["run"]).complete().says("\"resumed\":true");
        assert_eq!(Rig::journals(&home).len(), 0);
        assert!(place.join("run/stuck").is_file());
    }
}

/// A transfer that takes seconds, once some of it has arrived.
fn begun(rig: &Rig, source: &str, destination: &str) -> Process {
    rig.write(source, vec![7; BYTES]);
    let slowly = ["--limit", "8MB", "--block-size", "64KiB"];
    let line = [&slowly[..], &[source, destination]].concat();
    let mut client = rig.begin_cp(&rig.path(""), &line);
    client.wait_for_bytes(BYTES as u64 / 12);
    client
}

const BYTES: usize = 24 << 20;

#[test]
fn a_directory_and_a_link_to_it_are_one_destination() {
    let mut rig = Rig::new();
    rig.make_dirs("real");
    symlink("real", rig.path("link")).expect("made");
    symlink(&rig.export, rig.path("export-link")).expect("made");
    let alias = format!("alias={}", rig.path("export-link").display());
    rig.start(&["--export", &alias]);
    let by_alias = format!("godwit://{}/alias/", rig.address());
    for (itself, link, place) in [
        ("real/".to_owned(), "link/".to_owned(), rig.path("real")),
        (rig.url(""), by_alias, rig.export.clone()),
    ] {
        for (first, second) in [(&itself, &link), (&link, &itself)] {
            let mut client = begun(&rig, "big", first);
            rig.write("small", "small");
            rig.cp(&["small", second]).complete();
            let refused = rig.cp(&["big", second]);
            assert_eq!(refused.code, Some(1), "{}", refused.said());
            assert!(!client.has_ended(), "{}", client.said());
            client.signal(Signal::KILL);
            client.wait();
            let resumed = rig.cp(&["big", second]);
            resumed.complete().says("\"resumed\":true");
            assert_eq!(files(&place), ["big", "small"]);
            assert!(fs::read(place.join("big")).expect("there") == vec![7; BYTES]);
            fs::remove_file(place.join("big")).expect("ours");
            fs::remove_file(place.join("small")).expect("ours");
        }
    }
}

#[test]
fn a_link_below_an_export_is_never_gone_through() {
    let mut rig = Rig::new();
    rig.start(&[]);
    fs::create_dir(rig.export.join("real")).expect("made");
    let way = rig.export.join("way");
    symlink("real", &way).expect("made");
    rig.write("run/file", "file");
    for below in ["way/", "way/new", "way/new/"] {
        let refused = rig.cp(&["run", &rig.url(below)]);
        assert_eq!(refused.code, Some(1), "{}", refused.said());
        assert_eq!(Rig::journals(&rig.daemon_home).len(), 0, "{below}");
    }
    rig.cp(&["run", &rig.url("way")]).expect(1, "failed");
    // The daemon ends the transfer after the client.
    let gone = wait_until(|| Rig::journals(&rig.daemon_home).is_empty().then_some(()));
    assert!(gone.is_some());
    assert_eq!(files(&rig.export.join("real")), [""; 0]);
    // The same commands go into a directory in its place.
    fs::remove_file(&way).expect("ours");
    fs::create_dir(&way).expect("made");
    rig.cp(&["run", &rig.url("way")]).complete();
    assert_eq!(files(&way), ["run/file"]);
    // A link that takes the directory's place while a transfer is unfinished.
    let mut client = begun(&rig, "big", &rig.url("way/"));
    client.signal(Signal::KILL);
    client.wait();
    fs::rename(&way, rig.export.join("away")).expect("ours");
    symlink("real", &way).expect("made");
    for _ in 0..2 {
        let failed = rig.cp(&["big", &rig.url("way/")]);
        assert_ne!(failed.code, Some(0), "{}", failed.said());
        assert_eq!(files(&rig.export.join("real")), [""; 0]);
        assert_eq!(Rig::journals(&rig.daemon_home).len(), 1);
    }
    fs::remove_file(&way).expect("ours");
    fs::rename(rig.export.join("away"), &way).expect("ours");
    let resumed = rig.cp(&["big", &rig.url("way/")]);
    resumed.complete().says("\"resumed\":true");
    assert!(fs::read(way.join("big")).expect("there") == vec![7; BYTES]);
    assert_eq!(files(&way), ["big", "run/file"]);
    assert_eq!(Rig::journals(&rig.daemon_home).len(), 0);
}

#[test]
fn a_refused_client_learns_no_paths() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let other = |line: &[&str]| {
        let mut command = rig.client_command();
        command.env("GODWIT_HOME", rig.path("other-home"));
        Process::start(command.args(line)).wait()
    };
    let them = other(&["id"]).out;
    let known = rig.admin(&[
        "access",
        "allow",
        them.trim(),
        "--all-exports",
        "--read",
        "--write",
    ]);
    assert_eq!(known.code, Some(0), "{known:?}");
    other(&["trust", rig.address(), &rig.identity]);
    rig.write("own", "own");

    let mut client = begun(&rig, "private/big", &rig.url("kept"));
    for (refused, called) in [
        (other(&["cp", "own", &rig.url("kept")]), "data/kept"),
        (rig.client(&["cp", "own", &rig.url("kept")]), "data/kept"),
        (
            rig.client(&["cp", "private/big", &rig.url("kept")]),
            "data/kept",
        ),
    ] {
        assert_eq!(refused.code, Some(1), "{}", refused.said());
        refused.says(called);
        let said = refused.said();
        let place = rig.path("").to_string_lossy().into_owned();
        for secret in [place.as_str(), "private", "journals"] {
            assert!(!said.contains(secret), "{secret:?} in: {said}");
        }
    }
    assert!(!client.has_ended(), "{}", client.said());
}
