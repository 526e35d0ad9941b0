//! Tests of transfers with many sources, and of the remains of a failed start.
//! Does not test the contents of the sources.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::rig::{Rig, as_each_user};

/// Makes `count` small files; returns their names below the rig.
fn make(rig: &Rig, directory: &str, count: usize) -> Vec<String> {
    rig.make_dirs(directory);
    (0..count)
        .map(|number| {
            let name = format!("{directory}/{number}");
            fs::write(rig.path(&name), number.to_string()).expect("written");
            name
        })
        .collect()
}

#[track_caller]
fn arrived(directory: &Path, count: usize) {
    let files = fs::read_dir(directory).expect("listed").count();
    assert_eq!(files, count, "{}", directory.display());
    for number in [0, count / 2, count - 1] {
        let content = fs::read_to_string(directory.join(number.to_string())).expect("there");
        assert_eq!(content, number.to_string());
    }
}

fn with<'a>(sources: &'a [String], destination: &'a str) -> Vec<&'a str> {
    let words = sources.iter().map(String::as_str);
    words.chain([destination]).collect()
}

#[test]
fn dozens_of_sources_with_long_names_arrive_each_way() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let deep = format!(
        "{0}/{0}",
        "a-name-as-long-as-those-of-many-a-data-set".repeat(3)
    );
    let sources = make(&rig, &deep, 77);
    let there = make(&rig, &format!("export/{deep}"), 77);
    fs::create_dir(rig.path("local")).expect("made");
    rig.cp(&with(&sources, "local")).complete();
    arrived(&rig.path("local"), 77);
    rig.cp(&with(&sources, &rig.url("pushed/"))).complete();
    arrived(&rig.export.join("pushed"), 77);
    let urls: Vec<String> = there
        .iter()
        .map(|path| rig.url(path.strip_prefix("export/").expect("below")))
        .collect();
    rig.cp(&with(&urls, "pulled/")).complete();
    arrived(&rig.path("pulled"), 77);
}

#[test]
fn as_many_sources_as_the_protocol_has_arrive() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let directory = "in-a-directory/of-usual-depth";
    let sources = make(&rig, directory, 65_536);
    // Named from where they are: the system takes no command line as long as their paths.
    let directory = rig.path(directory);
    let mut names: Vec<String> = (0..sources.len())
        .map(|number| number.to_string())
        .collect();
    let copy = |names: &[String], destination: &str| {
        rig.begin_cp(&directory, &with(names, destination)).wait()
    };
    // One source more than the protocol allows is refused before anything is made.
    let refused = copy(&names, &rig.url("more/"));
    assert_eq!(refused.code, Some(2), "{}", refused.said());
    assert!(!rig.export.join("more").exists());
    names.pop();
    copy(&names, &rig.url("pushed/")).complete();
    arrived(&rig.export.join("pushed"), 65_535);
    let local = rig.path("local/");
    copy(&names, &local.to_string_lossy()).complete();
    arrived(&local, 65_535);
    let urls: Vec<String> = names[..20_000]
        .iter()
        .map(|name| rig.url(&format!("pushed/{name}")))
        .collect();
    let pulled = rig.path("pulled/");
    copy(&urls, &pulled.to_string_lossy()).complete();
    arrived(&pulled, 20_000);
}

#[test]
fn a_start_that_fails_leaves_no_directory() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let sources = [make(&rig, "one", 1), make(&rig, "other", 1)].concat();
    for (destination, place) in [
        (rig.url("pushed/"), rig.export.join("pushed")),
        ("local/".to_owned(), rig.path("local")),
    ] {
        let refused = rig.cp(&with(&sources, &destination));
        assert_eq!(refused.code, Some(1), "{}", refused.said());
        assert!(refused.says("two sources would both become").code.is_some());
        assert!(!place.exists(), "{}", place.display());
    }
}

#[test]
fn a_start_that_is_refused_late_leaves_neither_directory_nor_journal() {
    as_each_user(|rig| {
        rig.write("run/one", "1");
        rig.start(&[]);
        let inside = rig.export.join("run");
        fs::create_dir(&inside).expect("made");
        let closed = [rig.path("closed"), rig.export.join("closed")];
        for directory in &closed {
            fs::create_dir(directory).expect("made");
            rig.own();
            let readable = fs::Permissions::from_mode(0o555);
            fs::set_permissions(directory, readable).expect("ours");
        }
        let into_itself = inside.to_string_lossy().into_owned();
        let mut lines = vec![
            // The other end has no such source.
            (rig.url("missing"), "new/".to_owned(), rig.path("new")),
            // A source would be copied into itself.
            ("run".to_owned(), "run/new/".to_owned(), rig.path("run/new")),
            (into_itself, rig.url("run/new/"), inside.join("new")),
        ];
        if rig.unprivileged() {
            // The directory cannot be made.
            lines.push((
                "run".to_owned(),
                "closed/new/".to_owned(),
                closed[0].join("new"),
            ));
            lines.push((
                "run".to_owned(),
                rig.url("closed/new/"),
                closed[1].join("new"),
            ));
        }
        for (source, destination, place) in lines {
            let refused = rig.cp(&[&source, &destination]);
            assert_eq!(refused.code, Some(1), "{}", refused.said());
            assert!(!place.exists(), "{}: {}", place.display(), refused.said());
            for home in [&rig.client_home(), &rig.daemon_home] {
                assert_eq!(Rig::journals(home).len(), 0, "{}", refused.said());
            }
        }
    });
}
