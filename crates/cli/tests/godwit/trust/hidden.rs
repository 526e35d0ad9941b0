//! A peer with only the right to write: data and names hidden from it; and facts hidden from all other peers.
//! See `bounds` for looks at single places.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Instant;

use godwit_api::ask::{Answer, ClaimPlace, CleanPlace, Mark, Question, code};
use godwit_api::job::{ClaimId, Text};

use super::super::rig::Rig;
use super::{DEADLINE, JOB, Trust, allow, ask};

/// The result of a copy of two names of one file. The file has the size of the secret one that the destination has under one name.
fn guessed(rig: &Rig, grants: &str, secret: &str, public: &str) -> (String, Vec<u8>) {
    let place = format!("{secret}{public}");
    rig.write(&format!("export/{place}/{secret}"), "secret");
    rig.write(&format!("{place}/a"), "guess!");
    fs::hard_link(
        rig.path(format!("{place}/a")),
        rig.path(format!("{place}/b")),
    )
    .expect("linked");
    let us = rig.client(&["id"]).out.trim().to_owned();
    let grants = grants
        .replace("US", &us)
        .replace("PUBLIC", &format!("data:/{place}/{public}"));
    fs::write(rig.daemon_home.join("grants"), grants).expect("written");
    let outcome = rig.cp(&["--size-only", &place, &rig.url("")]);
    // The file has the time that the first run would have set.
    let again = rig.cp(&[&place, &rig.url("")]);
    let public = fs::read(rig.export.join(format!("{place}/{public}")));
    (format!("{outcome:?}{again:?}"), public.unwrap_or_default())
}

#[test]
fn a_client_that_may_only_write_reads_no_file_by_a_hard_link() {
    let mut rig = Rig::new();
    rig.start(&[]);
    // One of the two names comes first at the source.
    let both = |grants: &str| {
        let (one, other) = (
            guessed(&rig, grants, "a", "b"),
            guessed(&rig, grants, "b", "a"),
        );
        (format!("{}{}", one.0, other.0), [one.1, other.1])
    };
    let (reported, public) = both("US data write\nUS PUBLIC read\n");
    assert!(!public.contains(&b"secret".to_vec()), "{reported}");
    assert!(
        reported.contains("the sender may not read it"),
        "{reported}"
    );
    // A sender that may read it anyway gets the name.
    for place in ["ab", "ba"] {
        for from in [&rig.export, &rig.path("")] {
            fs::remove_dir_all(from.join(place)).expect("removed");
        }
    }
    let (reported, public) = both("US data read,write\n");
    assert!(public.contains(&b"secret".to_vec()), "{reported}");
    // A delivered file gets its further names, and keeps them when nothing differs.
    fs::write(rig.daemon_home.join("grants"), "").expect("written");
    let us = rig.client(&["id"]).out.trim().to_owned();
    allow(&rig, &us, "data", &["--write"]);
    for _ in 0..2 {
        rig.cp(&["ab", &rig.url("brought")]).complete();
        let inode = |name: &str| fs::metadata(rig.export.join("brought").join(name));
        let inodes = ["a", "b"].map(|name| inode(name).expect("there").ino());
        assert_eq!(inodes[0], inodes[1]);
    }
}

#[test]
fn a_client_that_may_only_write_sees_no_names_of_cleaned_files() {
    let trust = Trust::new();
    let temporary = format!("export/data/hidden/.godwit-{}", "0".repeat(32));
    trust.b.write(&temporary, "left");
    let clean = Question::Clean(CleanPlace {
        path: Text::from("data/data"),
        dry_run: true,
        older_than_seconds: 0,
        ..CleanPlace::default()
    });
    allow(&trust.b, &trust.c.identity, "data:/data", &["--write"]);
    let paths = || match trust.c_asks(&trust.b, &clean) {
        Ok(Answer::Cleaned(cleaned)) => {
            assert_eq!(cleaned.files, 1, "{cleaned:?}");
            cleaned.paths
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(paths(), []);
    allow(&trust.b, &trust.c.identity, "data:/data", &["--list"]);
    let named = paths();
    assert!(named[0].0.starts_with(b"hidden/"), "{named:?}");
}

#[test]
fn a_client_that_waits_for_a_claim_does_not_learn_its_holder() {
    let trust = Trust::new();
    for peer in [&trust.a, &trust.c] {
        allow(&trust.b, &peer.identity, "data", &["--write"]);
    }
    let claim = |number: u8| {
        Question::Claim(ClaimPlace {
            claim: ClaimId([number; 16]),
            epoch: 1,
            path: Text::from("data/data"),
            members: Vec::new(),
            fence: Vec::new(),
            lease_ms: 60_000,
            copies: false,
            mark: Mark::Untouched,
        })
    };
    trust.c_asks(&trust.b, &claim(1)).expect("set");
    let no = ask(&trust.a, &trust.b, None, &claim(2)).expect_err("it is held");
    assert_eq!(no.code, code::BUSY);
    assert!(!no.message.contains(&trust.c.identity), "{no:?}");
}

#[test]
fn a_site_that_is_written_to_hears_no_path_of_the_machine_that_sends() {
    let trust = Trust::new();
    trust.a.write("export/mine/large", vec![7; 16 << 20]);
    allow(&trust.a, &trust.c.identity, "data", &["--read"]);
    allow(&trust.b, &trust.c.identity, "data", &["--write"]);
    trust
        .give(JOB, &trust.a, "data/data/new", true)
        .expect("given");
    let wish = serde_json::json!({
        "sources": ["here:/data/mine/large"], "destination": "siteB:/data/data/new", "limit": 64 << 10,
    });
    trust.run(JOB, &wish).expect("it runs");
    let journals = trust.b.daemon_home.join("journals");
    let until = Instant::now() + DEADLINE;
    let journal = loop {
        let files = fs::read_dir(&journals).into_iter().flatten().flatten();
        let mut kept = files.filter_map(|file| fs::read(file.path()).ok());
        if let Some(journal) = kept.find(|bytes| bytes.len() > 200) {
            break String::from_utf8_lossy(&journal).into_owned();
        }
        assert!(Instant::now() < until, "no journal comes");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let place = trust.a.export.display().to_string();
    assert!(!journal.contains(&place), "{journal}");
    assert!(journal.contains("source-"), "{journal}");
}
