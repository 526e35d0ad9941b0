//! Which entries a job means, by the real binary: the same as `godwit cp` with the same flags means.
//! See `filters` and `lists` for the meaning of patterns and lists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::rig::Rig;
use super::sites::third::Three;
use super::sites::{submit, wait_for};

/// All entries below a directory, by their paths from it.
fn names(top: &Path) -> BTreeSet<PathBuf> {
    let (mut names, mut open) = (BTreeSet::new(), vec![top.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let entry = entry.expect("an entry");
            let path = entry.path();
            if entry.file_type().expect("a type").is_dir() {
                open.push(path.clone());
            }
            names.insert(path.strip_prefix(top).expect("below").to_owned());
        }
    }
    names
}

fn fill(rig: &Rig) {
    for (name, bytes) in [
        ("a.h5", 10),
        ("a.tmp", 10),
        ("d/b.h5", 2_000),
        ("d/b.tmp", 10),
        ("d/e/c.h5", 30_000),
        ("odd name", 10),
    ] {
        rig.write(&format!("export/run42/{name}"), vec![b'x'; bytes]);
    }
}

#[test]
fn a_job_brings_what_a_copy_with_the_same_flags_brings() {
    let three = Three::new();
    let asked = &three.asked;
    fill(&three.source);
    asked.write("rules", "*.tmp\n");
    asked.write("lines", "d\nodd name\n\n");
    asked.write("zeros", "d/e\0a.h5\0");
    let file = |name: &str| asked.path(name).display().to_string();
    let (rules, lines, zeros) = (file("rules"), file("lines"), file("zeros"));
    for (number, flags) in [
        &["--include", "d/b.tmp", "--exclude", "*.tmp"][..],
        &["--exclude-from", &rules, "--max-size", "1kB"],
        &["--min-size", "1kB", "--newer", "2d", "--one-file-system"],
        &["--older", "2020-01-01"],
        &["--files-from", &lines],
        &["--files-from", &lines, "--recursive", "--exclude", "*.tmp"],
        &["--files-from", &zeros, "--from0", "--recursive"],
    ]
    .into_iter()
    .enumerate()
    {
        let to = format!("copied-{number}");
        let source = three.source.export.join("run42").display().to_string();
        let line = [flags, &[&source, &to]].concat();
        asked.cp(&line).complete();
        let wanted = names(&asked.path(&to));
        for (source, destination, top) in [
            // Copies that the node fetches, and copies from another site to a third site.
            ("siteS:/data/run42", "here:/data", &asked.export),
            (
                "siteS:/data/run42",
                "siteD:/data",
                &three.destination.export,
            ),
        ] {
            let id = submit(asked, source, &format!("{destination}/{to}"), flags);
            let job = wait_for(asked, &id, |job| !job["ended"].is_null());
            assert_eq!(job["state"], "complete", "{flags:?}: {job}");
            assert_eq!(names(&top.join(&to)), wanted, "{flags:?} to {destination}");
        }
    }
}

#[test]
fn invalid_choices_of_a_job_are_refused_at_once() {
    let mut rig = Rig::new();
    fill(&rig);
    rig.serve(&[]);
    rig.write("empty", "\n\n");
    rig.write("long", "x\n".repeat(200_000));
    rig.write("list", "a.h5\n");
    let file = |name: &str| rig.path(name).display().to_string();
    let (empty, long, list) = (file("empty"), file("long"), file("list"));
    let one = "here:/data/run42";
    for (sources, flags, words) in [
        (
            &[one][..],
            &["--files-from", &empty][..],
            "the list is empty",
        ),
        (&[one], &["--files-from", &long], "the list is too long"),
        (
            &[one],
            &["--files-from", "/none"],
            "--files-from /none: No such file",
        ),
        (
            &[one, "here:/data/run42/d"],
            &["--files-from", &list],
            "list: needs exactly one source",
        ),
        (
            &[one],
            &["--files-from", &list, "--sync", "--setting", "delete"],
            "contradict each other",
        ),
        (&[one], &["--max-size", "big"], "--max-size: `big`"),
        (
            &[one],
            &["--setting", "exclude=*.tmp"],
            "belongs in the selection of a job",
        ),
        (
            &[one],
            &["--verify", "--files-from", &list],
            "leave the selection and the list out",
        ),
    ] {
        let line = [&["job", "submit"], flags, sources, &["here:/data/copy/"]].concat();
        let outcome = rig.admin(&line);
        assert_ne!(outcome.code, Some(0), "{flags:?}: {outcome:?}");
        outcome.says(words);
    }
    let jobs = rig.admin(&["job", "list", "--all", "--json"]);
    assert_eq!(jobs.out, "", "nothing was submitted");
}

#[test]
fn a_dry_run_says_what_would_be_done() {
    let mut rig = Rig::new();
    fill(&rig);
    rig.write("export/copy/extra", "x");
    rig.serve(&[]);
    let flags = ["--sync", "--setting", "delete", "--setting", "dry-run"];
    let id = submit(&rig, "here:/data/run42", "here:/data/copy", &flags);
    let job = wait_for(&rig, &id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    let shown = rig.admin(&["job", "show", &id]);
    shown
        .says("a dry run: nothing is changed")
        .says("would copy  32.0 kB in 6 files")
        .says("to delete   1 entry");
    // No list and no report says that the entries arrived.
    let list = rig.admin(&["job", "list", "--all"]);
    list.says("complete (dry run)");
    let report = rig.admin(&["job", "report", &id, "--html", "-"]);
    report.says("A dry run: nothing is changed.");
    assert_eq!(names(&rig.export.join("copy")).len(), 1);
    // The summary comes first, and all entries by name last.
    let log = rig.admin(&["job", "log", &id]).out;
    let first = log.lines().next().expect("a summary");
    for words in [
        "nothing was changed: would copy 32.0 kB in 6 files",
        "1 to delete",
    ] {
        assert!(first.contains(words), "{log}");
    }
    let entries: Vec<&str> = log
        .lines()
        .skip_while(|line| line.contains(" #1 "))
        .filter_map(|line| Some(line.split_once("  ")?.1.trim_start()))
        .collect();
    assert!(entries.len() >= 7, "{log}");
    assert!(entries.is_sorted(), "{log}");
    assert!(log.contains("\ndelete  extra\n"), "{log}");
}
