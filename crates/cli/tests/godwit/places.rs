//! Owns the tests of places that make no sense together, and of the names of places in messages and events.
//! Names at the destination are tested in `contract`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use data_encoding::BASE64;
use serde_json::Value;

use super::judge::assert_identical;
use super::process::Process;
use super::rig::Rig;
use super::sync::state;

#[test]
fn nothing_is_copied_into_itself() {
    let world = Rig::new();
    world.write("here/file", "content");
    world.write("here/d/sub/deep", "deep");
    let place = world.path("here");
    let before = state(&place);
    for (source, destination) in [
        ("file", "file"),
        ("file", "."),
        ("./file", "d/../file"),
        ("d", "d"),
        ("d", "d/inside"),
        ("d", "d/sub/"),
        ("d/", "."),
        (".", "d"),
    ] {
        let outcome = world.begin_cp(&place, &[source, destination]).wait();
        assert_eq!(outcome.code, Some(1), "{source} {destination}: {outcome:?}");
        outcome.says("into itself");
    }
    assert_eq!(state(&place), before);
}

#[test]
fn a_destination_is_called_as_it_can_be_named() {
    let mut world = Rig::new();
    world.write("a", "a");
    world.write("b", "b");
    world.make_dirs("dir");
    world.start(&[]);
    let url = world.url("");
    let below = |path: &str| format!("{url}{path}");
    for (line, called) in [
        (vec!["a", "dir"], "dir/a".to_owned()),
        (vec!["a", "b", "dir"], "dir/".to_owned()),
        (vec!["a", "b", "dir/new/"], "dir/new/".to_owned()),
        (vec!["a", &url], below("a")),
        (vec!["a", "b", &url], url.clone()),
    ] {
        let outcome = world.cp(&line);
        outcome.complete();
        let events = outcome.events();
        let started = events
            .iter()
            .find(|event| event["event"] == "started")
            .unwrap_or_else(|| panic!("{outcome:?}"));
        assert_eq!(started["destination"], called, "{line:?}");
    }
}

#[test]
fn a_file_is_named() {
    let mut world = Rig::new();
    world.write("f", "content");
    world.start(&[]);
    for destination in ["g", &world.url("g")] {
        let outcome = world.client(&["cp", "-n", "f", destination]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.says("send    f\n").says("would copy  f to ");
    }
}

#[test]
fn directories_recurse_whether_that_is_said_or_not() {
    let mut world = Rig::new();
    world.write("tree/d/x", "x");
    world.start(&[]);
    for (flag, name) in [("-r", "said"), ("--recursive=false", "not")] {
        world.cp(&[flag, "tree", &world.url(name)]).complete();
        assert_identical(&world.path("tree"), &world.path("export").join(name));
    }
}

#[test]
fn a_source_that_is_missing_is_named_once() {
    let world = Rig::new();
    world.write("a", "a");
    world.make_dirs("dir");
    let outcome = world.client(&["cp", "nothing", "a", "dir"]);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert_eq!(
        outcome.complaint.matches("nothing").count(),
        1,
        "{outcome:?}"
    );
    let outcome = world.client(&["cp", "not*ing", "dir"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.says("patterns in names are not expanded");
}

#[test]
fn several_sources_into_a_name_that_is_not_there_are_refused() {
    let mut world = Rig::new();
    world.write("a/x", "x");
    world.write("b", "b");
    world.start(&[]);
    for (place, at) in [("", ""), (&*world.url(""), "export/")] {
        let to = |name: &str| format!("{place}{name}");
        for flags in [&[][..], &["--dry-run"]] {
            let missing = to("missing");
            let line = [flags, &["a", "b", &missing]].concat();
            let outcome = world.cp(&line);
            assert_eq!(outcome.code, Some(1), "{line:?}: {}", outcome.said());
            outcome
                .says("several sources need a directory")
                .says("missing");
        }
        assert!(!world.path(at).join("missing").exists());
        for home in [world.client_home(), world.daemon_home.clone()] {
            assert_eq!(Rig::journals(&home).len(), 0);
        }
        // A single source becomes the named path, and a slash makes the meaning explicit.
        world.cp(&["b", &to("one")]).complete();
        world.cp(&["a", "b", &to("made/")]).complete();
        assert_eq!(world.read(&format!("{at}made/a/x")), b"x");
        assert_eq!(world.read(&format!("{at}made/b")), b"b");
    }
}

/// Not at a node: the target of a link in an export is not looked at.
#[test]
fn a_slash_at_the_end_of_a_source_follows_a_link_to_a_directory() {
    let mut world = Rig::new();
    world.write("export/d/x", "x");
    symlink("d", world.path("export/l")).expect("made");
    world.start(&[]);
    let (link, slash) = (world.url("l"), world.url("l/"));
    for (source, name, follows) in [
        ("export/l", "a", false),
        ("export/l/", "b", true),
        ("export/d", "c", true),
        ("export/d/", "d", true),
        (&link, "e", false),
        (&slash, "f", false),
    ] {
        world.cp(&[source, name]).complete();
        let copy = world.path(name);
        if follows {
            assert_identical(&world.path("export/d"), &copy);
        } else {
            assert_eq!(fs::read_link(copy).expect("a link"), Path::new("d"));
        }
    }
}

/// The names are the names of the first run, even if the directory has changed since.
#[test]
fn an_unfinished_run_of_several_sources_keeps_its_names() {
    let world = Rig::new();
    world.write("a", "a");
    world.write("b/x", "x");
    // Something fails, so that the transfer is unfinished.
    let name = format!("b/.godwit-{}", "0a".repeat(16));
    world.write(&name, "data");
    world.make_dirs("into");
    let line = ["a", "b", "into"];
    world.cp(&line).expect(3, "partial");
    fs::remove_file(world.path(&name)).expect("there");
    fs::remove_dir_all(world.path("into")).expect("there");
    world.cp(&line).complete();
    assert_eq!(world.read("into/a"), b"a");
    assert_eq!(world.read("into/b/x"), b"x");
}

#[test]
fn entries_of_a_directory_are_named_without_the_dot() {
    let mut world = Rig::new();
    let temporary = format!(".godwit-{}", "0a".repeat(16));
    for root in ["a", "export/a"] {
        world.write(&format!("{root}/d/x"), "x");
        world.write(&format!("{root}/{temporary}"), "data");
    }
    world.write("b", "b");
    world.write("export/b", "b");
    world.start(&[]);
    let far = world.url("");
    let far = far.trim_end_matches('/');
    for (line, root) in [
        (["a/.", "b", "to/"], "a".to_owned()),
        (["a/.//./", "b", &world.url("to/")], "a".to_owned()),
        (["./a/.", "./b", "to/"], "./a".to_owned()),
        (
            [&world.url("a/."), &world.url("b"), "to/"],
            format!("{far}/a"),
        ),
    ] {
        let outcome = world.cp(&[&["--dry-run"], &line[..]].concat());
        outcome.expect(3, "partial");
        let paths: Vec<String> = outcome
            .events()
            .iter()
            .filter(|event| event["event"] == "item" && event["kind"] == "file")
            .map(|event| event["path"].as_str().expect("text").to_owned())
            .collect();
        assert!(paths.contains(&format!("{root}/d/x")), "{line:?} {paths:?}");
        let failed = outcome.failed();
        assert!(failed[0].ends_with(&format!("/{temporary}")), "{failed:?}");
        assert!(!outcome.said().contains("/./"), "{}", outcome.said());
    }
}

#[test]
fn no_destination_has_a_temporary_name() {
    let mut world = Rig::new();
    let temporary = format!(".godwit-{}", "0a".repeat(16));
    world.write(&temporary, "data");
    world.write("b", "b");
    world.start(&[]);
    for (source, destination) in [
        (temporary.clone(), "to/".to_owned()),
        (temporary.clone(), world.url("to/")),
        ("b".to_owned(), world.url(&temporary)),
    ] {
        let outcome = world.cp(&[&source, &destination]);
        assert_eq!(outcome.code, Some(1), "{destination}: {}", outcome.said());
        outcome.says("the form of Godwit's temporary names");
        assert!(!world.path("to").exists() && !world.export.join("to").exists());
    }
    // The rest of a file can be copied under another name.
    world.cp(&[&temporary, "rescued"]).complete();
    assert_eq!(world.read("rescued"), b"data");
}

#[test]
fn a_name_that_is_no_text_is_shown_in_base64() {
    let mut world = Rig::new();
    let name = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    fs::create_dir(world.path(name(b"run\xff"))).expect("made");
    fs::write(world.path(name(b"run\xff/x")), "x").expect("written");
    world.start(&[]);
    let url = world.url("to%FF");
    let there = [world.url("to").as_bytes(), b"\xff"].concat();
    for (line, sources, destination) in [
        (
            [name(b"run\xff"), name(b"to\xff")],
            vec![b"run\xff".to_vec()],
            b"to\xff".to_vec(),
        ),
        (
            [name(b"run\xff"), OsStr::new(&url)],
            vec![b"run\xff".to_vec()],
            there,
        ),
    ] {
        let flags = [name(b"--manifest"), name(b"m\xff")];
        let outcome = world.cp(&[&flags[..], &line].concat());
        outcome.complete();
        let started = &outcome.events()[0];
        assert_eq!(started["event"], "started");
        let encoded: Vec<String> = sources.iter().map(|name| BASE64.encode(name)).collect();
        assert_eq!(started["sources_b64"], Value::from(encoded), "{outcome:?}");
        assert_eq!(started["destination_b64"], BASE64.encode(&destination));
        assert!(started["sources"].is_null() && started["destination"].is_null());
        let manifest = &outcome.summary()["manifest"];
        assert_eq!(manifest["path_b64"], BASE64.encode(b"m\xff"));
        assert!(manifest["path"].is_null());
    }
}

#[test]
fn a_node_is_listed_by_its_address() {
    let mut world = Rig::new();
    world.write("export/set/a", "content");
    world.write("export/set/.hidden", "");
    world.start(&[]);
    let ls = |flags: &[&str], place: &str| {
        let outcome = world.client(&[&["ls"], flags, &[place]].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.said());
        outcome
    };
    let listed = ls(&[], &world.url("set"));
    assert!(
        listed.out.starts_with("-rw-") && listed.out.ends_with("  a\n"),
        "{listed:?}"
    );
    ls(&["-a"], &world.url("set")).says(".hidden");
    ls(&["--json"], &world.url("set/a")).says(r#""size":7"#);
    ls(&[], &format!("godwit://{}/", world.address())).says("data");
    // A node that this user does not know is not asked, and one that does not know this user refuses.
    let mut stranger = world.client_command();
    stranger.env("GODWIT_HOME", world.path("other-client"));
    let outcome = Process::start(stranger.args(["ls", &world.url("set")])).wait();
    assert_eq!(outcome.code, Some(4), "{}", outcome.said());
    outcome.says("godwit trust");
    let missing = world.client(&["ls", &world.url("nowhere")]);
    assert_eq!(missing.code, Some(3), "{}", missing.said());
}
