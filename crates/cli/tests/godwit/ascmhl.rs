//! ASC MHL histories by the real binary: sealed copies and data at rest, and copies checked by a history.
//! The test of another program's judgement is `python/tests/test_ascmhl.py`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use godwit_api::failure::FailureCode;
use serde_json::Value;

use super::family::{ends, submit, with_sites};
use super::process::Outcome;
use super::rig::Rig;
use super::sites::fill;
use super::sites::third::Three;

/// A rig with a data set `card`.
fn rig_with_card() -> Rig {
    let rig = Rig::new();
    rig.make_dirs("card/reel/deep");
    rig.write("card/clip & 1.mov", "one");
    rig.write("card/reel/a", "two");
    rig.write("card/reel/deep/empty", "");
    symlink("a", rig.path("card/reel/link")).expect("made");
    rig
}

fn seal(rig: &Rig, more: &[&str], directory: &str) -> Outcome {
    let line = [&["manifest"], more, &[directory, "ascmhl"]].concat();
    rig.client(&line)
}

/// The generations of a history, in their order.
fn generations(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory.join("ascmhl")) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("listed").path());
    let is_generation = |path: &PathBuf| path.extension().is_some_and(|end| end == "mhl");
    let mut found: Vec<_> = paths.filter(is_generation).collect();
    found.sort();
    found
}

/// The differences that a run names, as kind and path.
fn differences(outcome: &Outcome) -> Vec<(String, String)> {
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or("?").to_owned();
    let mut found: Vec<_> = outcome
        .events()
        .iter()
        .filter_map(|event| match event["event"].as_str() {
            Some("different") => Some((text(event, "kind"), text(event, "path"))),
            Some("extra") => Some(("extra".to_owned(), text(event, "path"))),
            _ => None,
        })
        .collect();
    found.sort();
    found
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = expected.iter();
    pairs
        .map(|(kind, path)| ((*kind).to_owned(), (*path).to_owned()))
        .collect()
}

fn assert_refused(outcome: &Outcome, words: &str) {
    assert_eq!(outcome.code, Some(2), "{}", outcome.said());
    outcome.says(words);
}

#[test]
fn a_sealed_copy_is_the_same_until_it_changes() {
    let rig = rig_with_card();
    let outcome = rig.cp(&["--manifest", "ascmhl", "card", "copy"]);
    outcome.complete();
    let [generation] = &generations(&rig.path("copy"))[..] else {
        panic!("{}", outcome.said());
    };
    let reported = &outcome.summary()["manifest"];
    assert_eq!(reported["path"], generation.to_str().expect("text"));
    assert_eq!(reported["entries"], 3);
    let text = fs::read_to_string(generation).expect("read");
    assert!(text.contains("<process>transfer</process>"), "{text}");
    assert!(text.contains("<xxh64 action=\"original\""), "{text}");
    assert!(generations(&rig.path("card")).is_empty());
    for (history, copy) in [
        ("copy/ascmhl", "copy"),
        ("copy/ascmhl", "card"),
        (generation.to_str().expect("text"), "card"),
    ] {
        let outcome = rig.client(&["verify", "--json", "--extra", history, copy]);
        outcome.expect(0, "same");
        assert_eq!((outcome.number("entries"), outcome.number("bytes")), (3, 6));
    }
    rig.write("copy/clip & 1.mov", "0ne");
    rig.write("copy/new", "");
    fs::remove_file(rig.path("copy/reel/a")).expect("removed");
    let outcome = rig.client(&["verify", "--json", "--extra", "copy/ascmhl", "copy"]);
    outcome
        .expect(3, "different")
        .expect_code(FailureCode::Different);
    let expected = [
        ("content", "clip & 1.mov"),
        ("extra", "new"),
        ("missing", "reel/a"),
    ];
    assert_eq!(differences(&outcome), pairs(&expected));
}

#[test]
fn a_copy_continues_the_history_of_its_source() {
    let rig = rig_with_card();
    let outcome = seal(&rig, &["--ascmhl-digest", "md5,c4"], "card");
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    outcome.says("manifest    ");
    rig.make_dirs("there");
    rig.cp(&["--manifest", "ascmhl", "card", "there"])
        .complete();
    let copy = rig.path("there/card");
    let second = generations(&copy).pop().expect("a generation");
    assert_eq!(generations(&copy).len(), 2);
    let text = fs::read_to_string(second).expect("read");
    assert!(text.contains("<c4 action=\"verified\""), "{text}");
    assert!(text.contains("<xxh64 action=\"verified\""), "{text}");
    // The same command again keeps the generations of the destination.
    rig.cp(&["--manifest", "ascmhl", "card", "there"])
        .complete();
    assert_eq!(generations(&copy).len(), 3);
    let line = ["verify", "--json", "there/card/ascmhl", "card"];
    rig.client(&line).expect(0, "same");
}

#[test]
fn a_source_that_differs_from_its_history_is_named() {
    let rig = rig_with_card();
    assert_eq!(seal(&rig, &[], "card").code, Some(0));
    rig.write("card/reel/a", "owt");
    fs::remove_file(rig.path("card/clip & 1.mov")).expect("removed");
    let outcome = rig.cp(&["--manifest", "ascmhl", "card", "copy"]);
    outcome
        .expect(3, "partial")
        .expect_code(FailureCode::Different);
    let expected = [("content", "reel/a"), ("missing", "clip & 1.mov")];
    assert_eq!(differences(&outcome), pairs(&expected));
    let last = generations(&rig.path("copy")).pop().expect("a generation");
    let text = fs::read_to_string(last).expect("read");
    assert!(text.contains("action=\"failed\""), "{text}");
    assert_eq!(seal(&rig, &[], "card").code, Some(3));
}

#[test]
fn a_history_below_is_continued_and_referred_to() {
    let rig = rig_with_card();
    assert_eq!(seal(&rig, &[], "card/reel").code, Some(0));
    rig.cp(&["--manifest", "ascmhl", "card", "copy"]).complete();
    assert_eq!(generations(&rig.path("copy/reel")).len(), 2);
    let [top] = &generations(&rig.path("copy"))[..] else {
        panic!("one generation");
    };
    let text = fs::read_to_string(top).expect("read");
    assert!(text.contains("<path>reel/ascmhl/0002_reel_"), "{text}");
    rig.write("copy/reel/a", "owt");
    let outcome = rig.client(&["verify", "--json", "copy/ascmhl", "copy"]);
    outcome.expect(3, "different");
    assert_eq!(differences(&outcome), pairs(&[("content", "reel/a")]));
}

#[test]
fn each_destination_is_sealed_and_a_dry_run_seals_nothing() {
    let rig = rig_with_card();
    rig.make_dirs("a");
    rig.make_dirs("b");
    let dry = rig.cp(&["--dry-run", "--manifest", "ascmhl", "card", "a/"]);
    assert_eq!(dry.code, Some(0), "{}", dry.said());
    assert!(!rig.path("a/card").exists());
    let outcome = rig.cp(&["--each", "--manifest", "ascmhl", "card", "a/", "b/"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    for name in ["a/card", "b/card"] {
        assert_eq!(generations(&rig.path(name)).len(), 1, "{name}");
    }
}

#[test]
fn several_sources_and_a_list_are_sealed_where_they_arrive() {
    let rig = rig_with_card();
    rig.make_dirs("other");
    rig.write("other/x", "x");
    rig.cp(&["--manifest", "ascmhl", "card", "other", "both/"])
        .complete();
    for name in ["both/card", "both/other"] {
        assert_eq!(generations(&rig.path(name)).len(), 1, "{name}");
    }
    rig.write("list", "reel/a\n");
    let line = [
        "--manifest",
        "ascmhl",
        "--files-from",
        "list",
        "card",
        "listed",
    ];
    rig.cp(&line).complete();
    let [generation] = &generations(&rig.path("listed"))[..] else {
        panic!("one generation");
    };
    let text = fs::read_to_string(generation).expect("read");
    assert!(text.contains(">reel/a</path>"), "{text}");
}

#[test]
fn places_without_a_history_are_refused_before_anything_is_copied() {
    let mut rig = rig_with_card();
    rig.start(&[]);
    let there = rig.url("");
    let advice = "godwit manifest DIR ascmhl";
    let ascmhl = ["--manifest", "ascmhl"];
    let refused = |more: &[&str]| rig.cp(&[&ascmhl[..], more].concat());
    assert_refused(&refused(&["card", &there]), advice);
    assert!(!rig.path("export/card").exists());
    assert_refused(&refused(&["card/reel/a", "copy"]), advice);
    assert_refused(&refused(&["card", "null:"]), "only directories");
    assert_refused(&refused(&["--size-only", "card", "copy"]), "--size-only");
    assert_refused(&refused(&["--sign", "card", "copy"]), "no signature");
    let unknown = refused(&["--ascmhl-digest", "sha256", "card", "copy"]);
    assert_refused(&unknown, "the kinds are c4, md5, sha1");
    assert!(!rig.path("copy").exists());
    assert_refused(&seal(&rig, &[], "card/reel/a"), "belongs to a directory");
    assert_eq!(seal(&rig, &[], "card").code, Some(0));
    let line = ["verify", "card/ascmhl", &rig.url("card")];
    assert_refused(&rig.client(&line), "on the machine of the copy");
}

#[test]
fn a_pull_is_sealed_here() {
    let mut rig = rig_with_card();
    rig.start(&[]);
    rig.cp(&["card", &rig.url("")]).complete();
    let from = rig.url("card");
    rig.cp(&["--manifest", "ascmhl", &from, "back"]).complete();
    assert_eq!(generations(&rig.path("back")).len(), 1);
    let line = ["verify", "--json", "back/ascmhl", "card"];
    rig.client(&line).expect(0, "same");
}

#[test]
fn a_pulled_link_leads_no_history_to_another_place() {
    let mut rig = rig_with_card();
    rig.start(&[]);
    rig.make_dirs("elsewhere");
    symlink(rig.path("elsewhere"), rig.path("export/way")).expect("made");
    let outcome = rig.cp(&["--manifest", "ascmhl", &rig.url("way"), "back"]);
    assert_ne!(outcome.code, Some(0), "{}", outcome.said());
    assert!(!rig.path("elsewhere/ascmhl").exists());
}

#[test]
fn a_file_of_the_name_ascmhl_is_a_manifest() {
    let rig = rig_with_card();
    rig.cp(&["--manifest", "./ascmhl", "card", "copy"])
        .complete();
    assert!(rig.read("ascmhl").starts_with(b"#godwit-manifest"));
    assert!(!rig.path("copy/ascmhl").exists());
}

#[test]
fn a_damaged_history_is_refused() {
    let rig = rig_with_card();
    assert_eq!(seal(&rig, &[], "card").code, Some(0));
    let generation = generations(&rig.path("card")).pop().expect("one");
    let text = fs::read_to_string(&generation).expect("read");
    fs::write(&generation, text.replace("size=\"3\"", "size=\"4\"")).expect("written");
    for line in [
        &["verify", "card/ascmhl", "card"][..],
        &["manifest", "card", "ascmhl"],
    ] {
        let outcome = rig.client(line);
        assert_eq!(outcome.code, Some(1), "{}", outcome.said());
        outcome.says("was changed after it was written");
    }
}

#[test]
fn the_copies_of_a_job_are_sealed_at_each_destination() {
    let (here, [site]) = with_sites(["siteB"], &["--write"]);
    here.make_dirs("export/card/reel");
    here.make_dirs("export/copies");
    here.write("export/card/clip & 1.mov", "one");
    here.write("export/card/reel/a", "two");
    // The chain of the source replaces that of the copy in each round.
    assert_eq!(seal(&here, &[], "export/card").code, Some(0));
    let to = ["--to", "siteB:/data", "--to", "here:/data/copies/"];
    let kinds = [
        "--setting",
        "manifest=ascmhl",
        "--setting",
        "ascmhl-digest=md5,c4",
    ];
    let line = [&["here:/data/card"], &to[..], &kinds].concat();
    let copies = [(&site, "export/card"), (&here, "export/copies/card")];
    for round in [2, 3] {
        let ended = ends(&here, &submit(&here, &line));
        assert_eq!(ended["state"], "complete", "{ended}");
        for (rig, copy) in copies {
            let all = generations(&rig.path(copy));
            assert_eq!(all.len(), round, "{copy}");
            let text = fs::read_to_string(&all[round - 1]).expect("read");
            assert!(text.contains("<process>transfer</process>"), "{text}");
            assert!(text.contains("<md5 action=") && text.contains("<c4 action="));
            let history = format!("{copy}/ascmhl");
            let line = ["verify", "--json", "--extra", &history, copy];
            rig.client(&line).expect(0, "same");
        }
    }
    // The copy has a file that differs from the history of the source.
    here.write("export/card/reel/a", "owt");
    let id = submit(&here, &line);
    let ended = ends(&here, &id);
    assert_eq!(ended["state"], "failed", "{ended}");
    for (rig, copy) in copies {
        assert_eq!(rig.read(&format!("{copy}/reel/a")), b"owt");
    }
    for (more, words) in [
        (&["--setting", "manifest=/tmp/x"][..], "names a file"),
        (
            &["--setting", "manifest=ascmhl", "--relay", "auto"],
            "manifest",
        ),
        (
            &["--setting", "manifest=ascmhl", "--setting", "size-only"],
            "--size-only",
        ),
    ] {
        let line = [&["job", "submit", "here:/data/card"], &to[..], more].concat();
        let refused = here.admin(&line);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        refused.says(words);
    }
}

#[test]
fn a_copy_between_two_other_sites_is_sealed_at_its_destination() {
    let three = Three::new();
    fill(&three.source, 2, 1_000);
    let sealed = ["--setting", "manifest=ascmhl"];
    let line = [
        &["job", "submit", "siteS:/data/run42", "siteD:/data/copy"],
        &sealed[..],
    ]
    .concat();
    let refused = three.asked.admin(&line);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    refused.says("end the destination with a slash");
    let line = [&["siteS:/data/run42", "siteD:/data/"], &sealed[..]].concat();
    let ended = ends(&three.asked, &submit(&three.asked, &line));
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_eq!(
        generations(&three.destination.path("export/run42")).len(),
        1
    );
    assert!(generations(&three.source.path("export/run42")).is_empty());
    let line = ["verify", "--json", "export/run42/ascmhl", "export/run42"];
    three.destination.client(&line).expect(0, "same");
}
