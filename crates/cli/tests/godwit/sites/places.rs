//! Entries at places, by the real binary: listed, made, renamed, removed and cleaned, at the node that is asked and at another site.
//! Runs only one job, for its temporary files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use super::super::process::Outcome;
use super::super::rig::Rig;
use super::{allow, deny, moved, submit, two_sites, wait_for};

/// A temporary name that no transfer has.
const NOBODYS: &str = ".godwit-0123456789abcdef0123456789abcdef";

#[track_caller]
fn fine<S: AsRef<OsStr>>(rig: &Rig, line: &[S]) -> Outcome {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome
}

#[track_caller]
fn refused<S: AsRef<OsStr>>(rig: &Rig, line: &[S], why: &str) {
    let outcome = rig.admin(line);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.complaint.contains(why), "{why}: {outcome:?}");
}

/// The names of a listing.
fn names(rig: &Rig, place: &str) -> Vec<String> {
    let outcome = fine(rig, &["ls", "--json", place]);
    let lines = outcome.out.lines();
    lines
        .map(|line| serde_json::from_str::<Value>(line).expect("a document")["name"].to_string())
        .collect()
}

/// Does the same at both sites: `tree` is where the export is.
fn each_command(rig: &Rig, site: &str, tree: &Path) {
    let at = |below: &str| format!("{site}:/data/{below}");
    fine(rig, &["mkdir", &at("a")]);
    refused(rig, &["mkdir", &at("a")], "exists already");
    refused(rig, &["mkdir", &at("x/y")], "with -p");
    fine(rig, &["mkdir", "-p", &at("x/y"), &at("a")]);
    assert!(tree.join("x/y").is_dir());
    fs::write(tree.join("a/file"), b"12345").expect("written");
    fs::write(tree.join("a/.hidden"), b"").expect("written");
    fs::write(tree.join("a").join(OsStr::from_bytes(b"odd\xff\n")), b"").expect("written");
    symlink("/etc", tree.join("a/link")).expect("made");
    let listed = fine(rig, &["ls", &at("a")]);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert_eq!(lines.len(), 3, "{listed:?}");
    assert!(lines[0].starts_with("-rw") && lines[0].ends_with("  file"));
    assert!(lines[0].contains("  5  "), "{listed:?}");
    assert!(lines[1].starts_with("lrwx") && lines[1].ends_with("  link -> /etc"));
    assert!(lines[2].ends_with("  odd\\xff\\n"), "{listed:?}");
    assert_eq!(fine(rig, &["ls", "-a", &at("a")]).out.lines().count(), 4);
    assert!(fine(rig, &["ls", &at("a/file")]).out.ends_with("  file\n"));
    // No link is followed, neither within the path nor at its end.
    refused(rig, &["ls", &at("a/link/ssh")], "symbolic link");
    refused(rig, &["rm", "-r", &at("a/link/ssh")], "symbolic link");
    fine(rig, &["rm", "-r", &at("a/link")]);
    assert!(Path::new("/etc/passwd").exists());
    // Names that are no text are named by their bytes.
    let odd = [at("a/odd").as_bytes(), b"\xff\n"].concat();
    fine(
        rig,
        &[
            OsStr::from_bytes(b"mv"),
            OsStr::from_bytes(&odd),
            OsStr::new(&at("x/")),
        ],
    );
    assert!(
        tree.join("x")
            .join(OsStr::from_bytes(b"odd\xff\n"))
            .exists()
    );
    refused(
        rig,
        &["mv", &at("a/file"), &at("a/.hidden")],
        "exists already",
    );
    fine(rig, &["mv", "-f", &at("a/file"), &at("a/.hidden")]);
    assert_eq!(fs::read(tree.join("a/.hidden")).expect("there"), b"12345");
    refused(rig, &["mv", &at("x"), &at("x/y/z")], "into itself");
    refused(rig, &["rm", &at("a")], "use -r");
    refused(rig, &["rm", &at("none")], "does not exist");
    for line in [
        &["rm", "-r", &at("")][..],
        &["mv", &at(""), &at("b")],
        &["mv", &at("a"), &at(".")],
    ] {
        let outcome = rig.admin(line);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    }
    fine(rig, &["rm", "-r", &at("a"), &at("x")]);
    assert_eq!(fs::read_dir(tree).expect("there").count(), 0);
}

#[test]
fn entries_are_listed_made_renamed_and_removed_here_and_at_another_site() {
    let (here, there) = two_sites();
    each_command(&here, "here", &here.export);
    each_command(&here, "siteB", &there.export);
    for site in ["here:/", "siteB:/"] {
        let exports = fine(&here, &["ls", site]).out;
        assert!(exports.contains("data") && exports.contains("read, write"));
    }
}

#[test]
fn a_large_directory_comes_in_pages_whole_and_in_order() {
    let (here, there) = two_sites();
    fs::create_dir(there.export.join("many")).expect("made");
    let wanted: Vec<String> = (0..2_500).map(|n| format!("\"f{n:05}\"")).collect();
    for name in wanted.iter().rev() {
        let name = name.trim_matches('"');
        fs::write(there.export.join("many").join(name), b"").expect("written");
    }
    assert_eq!(names(&here, "siteB:/data/many"), wanted);
}

#[test]
fn places_that_are_not_there_and_rights_that_are_too_small_are_refused() {
    let (here, mut there) = two_sites();
    refused(&here, &["ls", "siteC:/data"], "knows no site \"siteC\"");
    refused(&here, &["ls", "siteB:/other"], "no export \"other\"");
    refused(&here, &["ls", "siteB:/data/../.."], "..");
    refused(&here, &["ls", "siteB:/data/none"], "does not exist");
    fs::write(there.export.join("file"), b"").expect("written");
    // Read access alone allows no change.
    deny(&there, &here.identity);
    allow(&there, &here.identity, &["--read"]);
    assert_eq!(names(&here, "siteB:/data"), ["\"file\""]);
    for line in [
        &["rm", "siteB:/data/file"][..],
        &["mkdir", "siteB:/data/new"],
        &["mv", "siteB:/data/file", "siteB:/data/new"],
        &["clean", "siteB:/data"],
    ] {
        refused(&here, line, "you may not");
    }
    deny(&there, &here.identity);
    refused(&here, &["ls", "siteB:/data"], "does not know you");
    assert!(there.export.join("file").exists());
    there.kill_daemon();
    refused(
        &here,
        &["ls", "siteB:/data"],
        "the site siteB cannot be reached",
    );
    refused(&here, &["ls", "siteB:/data"], there.address());
}

#[test]
fn a_grant_below_an_export_opens_that_path_alone_and_shows_the_export() {
    let (here, there) = two_sites();
    for name in ["run4", "run42"] {
        fs::create_dir(there.export.join(name)).expect("made");
        fs::write(there.export.join(name).join("file"), b"").expect("written");
    }
    deny(&there, &here.identity);
    let line = [
        "access",
        "allow",
        &here.identity,
        "--export",
        "data:/run4",
        "--read",
    ];
    fine(&there, &line);
    assert_eq!(names(&here, "siteB:/data/run4"), ["\"file\""]);
    refused(&here, &["ls", "siteB:/data/run42"], "you may not");
    refused(&here, &["ls", "siteB:/data"], "you may not");
    let exports = fine(&here, &["ls", "siteB:/"]).out;
    assert!(
        exports.contains("data") && !exports.contains("write"),
        "{exports}"
    );
}

#[test]
fn cleaning_leaves_files_with_which_a_transfer_can_resume() {
    let (here, there) = two_sites();
    here.write("export/run42/large", vec![7; 8_000_000]);
    let id = submit(
        &here,
        "here:/data/run42",
        "siteB:/data/copy",
        &["--limit", "1MB/s"],
    );
    wait_for(&here, &id, |job| moved(job) > 0);
    fine(&here, &["job", "pause", &id]);
    fs::create_dir(there.export.join("deep")).expect("made");
    let nobodys = there.export.join("deep").join(NOBODYS);
    fs::write(&nobodys, b"12345").expect("written");
    fs::write(there.export.join("deep/.godwit-notes"), b"").expect("written");
    let young = fine(&here, &["clean", "siteB:/data"]).out;
    assert!(young.contains("removed 0 temporary files"), "{young}");
    assert!(young.contains("the file was written recently"), "{young}");
    let line = ["clean", "siteB:/data", "--older-than", "0s"];
    let dry = fine(&here, &[&line[..], &["--dry-run"]].concat()).out;
    assert!(dry.contains("would remove 1 temporary file,"), "{dry}");
    assert!(nobodys.exists());
    let cleaned = fine(&here, &line).out;
    assert!(cleaned.contains("removed 1 temporary file, 5"), "{cleaned}");
    assert!(cleaned.contains(&format!("  deep/{NOBODYS}")), "{cleaned}");
    assert!(cleaned.contains("runs or can be resumed"), "{cleaned}");
    assert!(!nobodys.exists());
    assert!(there.export.join("deep/.godwit-notes").exists());
    fine(&here, &["job", "limit", &id, "none"]);
    fine(&here, &["job", "resume", &id]);
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_eq!(
        fs::read(there.export.join("copy/large")).expect("there"),
        vec![7; 8_000_000]
    );
    let cleaned = fine(&here, &line).out;
    assert_eq!(cleaned, "removed 0 temporary files, 0 B\n");
}
