//! Jobs that remove the files of their source once enough destinations have proven copies, by the real binary.
//! See `removal` in `run` for single files, and `basis::removal` in `jobs` for the destination that removes.

use super::family::{ends, states, submit, with_sites};
use super::rest::Caller;
use super::rig::Rig;
use super::sites::fill;

const NAMES: [&str; 2] = ["siteB", "siteC"];

/// Regular files at and below a directory.
fn files(rig: &Rig, below: &str) -> usize {
    let mut open = vec![rig.export.join(below)];
    let mut count = 0;
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("listed") {
            let entry = entry.expect("an entry");
            match entry.file_type().expect("a type").is_dir() {
                true => open.push(entry.path()),
                false => count += 1,
            }
        }
    }
    count
}

#[test]
fn files_go_once_both_destinations_have_them_and_a_changed_one_stays() {
    let (here, mut sites) = with_sites(NAMES, &["--read", "--write"]);
    fill(&here, 9, 1_000);
    sites[1].kill_daemon();
    let to = ["--to", "siteB:/data/copy", "--to", "siteC:/data/copy"];
    let line = [&["here:/data/run42"], &to[..]].concat();
    let wish = ["--remove-source-after", "2", "--retries", "0"];
    let id = submit(&here, &[&line[..], &wish].concat());
    let ended = ends(&here, &id);
    assert_eq!(states(&here, &id), ["complete", "failed"], "{ended}");
    assert_eq!(files(&here, "run42"), 9, "one copy is not enough");
    // The first destination has another state of this file.
    here.write("export/run42/d1/f4", vec![7; 1_001]);
    sites[1].serve(&[]);
    let outcome = here.admin(&["job", "retry", &id]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let ended = ends(&here, &id);
    assert_eq!(ended["state"], "partial", "{ended}");
    let why = ended["reason"]["text"].as_str().expect("a reason");
    assert!(why.contains("Removed 8 of 9 files"), "{why}");
    assert!(why.contains("d1/f4"), "{why}");
    assert_eq!(files(&here, "run42"), 1);
    assert!(here.export.join("run42/d1/f4").exists());
    assert!(here.export.join("run42/d0").is_dir(), "directories stay");
    for site in &sites {
        assert_eq!(files(site, "copy"), 9);
    }
    // More copies than destinations.
    let wish = ["--remove-source-after", "3"];
    let refused = here.admin(&[&["job", "submit"], &line[..], &wish].concat());
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.complaint.contains("3 copies"), "{refused:?}");
}

#[test]
fn a_job_with_one_destination_is_complete_once_its_source_is_empty() {
    let mut here = Rig::new();
    here.serve(&[]);
    fill(&here, 3, 1_000);
    let wish = ["--remove-source-after", "1"];
    let line = [&["here:/data/run42", "here:/data/copy/"], &wish[..]].concat();
    let id = submit(&here, &line);
    let ended = ends(&here, &id);
    let log = here.admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    assert_eq!((files(&here, "run42"), files(&here, "copy/run42")), (0, 3));
    assert!(log.contains("Removed 3 of 3 files"), "{log}");
    let audit = Caller::admin(&here).get("audit").expect(200).to_string();
    assert!(audit.contains("job.remove_source"), "{audit}");
    let owner = ended["owner"].as_str().expect("an owner");
    let line = format!("{id} of {owner}: here:/data/run42");
    assert!(audit.contains(&line), "{line} in {audit}");
}
