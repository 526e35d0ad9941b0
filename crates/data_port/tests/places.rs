//! Tests questions about places of a node's exports, answered from real directories: abandoned work, untouched entries, and limits.
//! Contacts no other node; the tests of the binary do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use godwit_api::ask::{
    Answer, ClaimPlace, CleanPlace, ListPlace, MakeDirectory, Mark, Question, Refusal, RemovePlace,
    RenamePlace, SealPlace, code,
};
use godwit_api::grant::Right;
use godwit_api::job::{ClaimId, Text};
use godwit_data_port::Here;
use godwit_store::digest::DigestKind;
use godwit_store::journal::{JournalDirectory, JournalHeader, JournalKey};
use godwit_store::{RelPath, Syncs, TempName};
use godwit_worlds::export;

fn here(directory: &Path) -> Here {
    for name in ["data", "other", "home/journals"] {
        fs::create_dir_all(directory.join(name)).expect("made");
    }
    let exports = ["data", "other"].map(|name| export(name, &directory.join(name)));
    Here::new(exports.to_vec(), directory.join("home"), Syncs::default())
}

fn everything(_: &str, _: &RelPath, _: Right) -> Result<(), Refusal> {
    Ok(())
}

fn ask(here: &Here, question: &Question) -> Result<Answer, Refusal> {
    here.answer(question, &everything, &mut |_| true)
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).expect("there").count()
}

#[test]
fn a_directory_is_sealed_but_no_export_and_nothing_behind_a_link() {
    let directory = tempfile::tempdir().expect("made");
    let here = here(directory.path());
    let root = fs::canonicalize(directory.path()).expect("there");
    let copy = root.join("data/copy");
    fs::create_dir_all(copy.join("deep")).expect("made");
    fs::write(copy.join("file"), "one").expect("written");
    symlink("copy", root.join("data/link")).expect("made");
    let wish = |path: &str, check| {
        Question::Seal(SealPlace {
            path: Text::from(path),
            kinds: "xxh64,c4".to_owned(),
            check,
        })
    };
    let checked = ask(&here, &wish("data/new", true));
    assert_eq!(checked, Ok(Answer::Done {}));
    match ask(&here, &wish("data/copy", false)) {
        Ok(Answer::Sealed(sealed)) => {
            assert_eq!((sealed.files, sealed.differing), (1, 0));
            let file = String::from_utf8(sealed.file.0).expect("text");
            assert!(copy.join(file).exists());
        }
        other => panic!("{other:?}"),
    }
    for path in [
        "data",
        "data/link",
        "data/link/deep",
        "data/copy/file",
        "data/none",
    ] {
        let refusal = ask(&here, &wish(path, false)).expect_err(path);
        assert!(!refusal.message.contains(root.to_str().expect("text")));
    }
    assert_eq!(count(&copy.join("ascmhl")), 2);
    assert!(!root.join("data/ascmhl").exists());
    assert!(!copy.join("deep/ascmhl").exists());
    // A writer that may not list learns how many files differ, and not which.
    fs::write(copy.join("file"), "eno").expect("written");
    let writes = |_: &str, _: &RelPath, right: Right| match right {
        Right::Write => Ok(()),
        _ => Err(Refusal::new(code::NOT_GRANTED, "no")),
    };
    let question = wish("data/copy", false);
    match here.answer(&question, &writes, &mut |_| true) {
        Ok(Answer::Sealed(sealed)) => {
            assert_eq!((sealed.differing, sealed.differences.len()), (1, 0));
        }
        other => panic!("{other:?}"),
    }
    let reads = |_: &str, _: &RelPath, right: Right| match right {
        Right::Read | Right::List => Ok(()),
        _ => Err(Refusal::new(code::NOT_GRANTED, "no")),
    };
    let refused = here.answer(&question, &reads, &mut |_| true);
    assert_eq!(refused.expect_err("refused").code, code::NOT_GRANTED);
    let given_up = here.answer(&question, &everything, &mut |_| false);
    assert_eq!(given_up.expect_err("given up").code, code::GIVEN_UP);
}

/// Each directory above a path is a path, too: all of them together have more bytes than any memory.
#[test]
fn a_path_of_too_many_names_is_not_made() {
    let directory = tempfile::tempdir().expect("made");
    let here = here(directory.path());
    let make = |names: usize| {
        let wish = MakeDirectory {
            path: Text::from(format!("data{}", "/a".repeat(names)).as_str()),
            parents: true,
        };
        ask(&here, &Question::MakeDirectory(wish))
    };
    make(200).expect("made");
    let refused = make(32_000).expect_err("too deep");
    assert!(refused.message.contains("256 names"), "{refused:?}");
    let names = count(&directory.path().join("data"));
    assert_eq!(names, 1);
}

#[test]
fn work_that_is_given_up_ends_early_and_says_so() {
    let directory = tempfile::tempdir().expect("made");
    let here = here(directory.path());
    let tree = directory.path().join("data/tree");
    fs::create_dir(&tree).expect("made");
    for n in 0..10_000 {
        fs::write(tree.join(format!("f{n}")), b"").expect("written");
    }
    let path = Text::from("data/tree");
    let questions = [
        Question::Remove(RemovePlace {
            path: path.clone(),
            recursive: true,
        }),
        Question::Clean(CleanPlace {
            path: path.clone(),
            ..CleanPlace::default()
        }),
        Question::List(ListPlace {
            path,
            cursor: None,
            limit: 10,
        }),
    ];
    for question in questions {
        let mut asked = 0;
        let given_up = here.answer(&question, &everything, &mut |_| {
            asked += 1;
            asked < 2
        });
        let refusal = given_up.expect_err("given up");
        assert_eq!(refusal.code, code::GIVEN_UP, "{question:?}");
    }
    // Exactly two steps were taken.
    assert_eq!(count(&tree), 9_998);
    let removed = ask(
        &here,
        &Question::Remove(RemovePlace {
            path: Text::from("data/tree"),
            recursive: true,
        }),
    );
    assert!(matches!(removed, Ok(Answer::Removed(removed)) if removed.files == 9_998));
    assert_eq!(count(&directory.path().join("data")), 0);
}

/// A killed node leaves a directory with the entries that it was removing.
#[test]
fn a_temporary_directory_is_cleaned_unless_it_has_what_is_not_temporary() {
    let directory = tempfile::tempdir().expect("made");
    let here = here(directory.path());
    let temp = |number: u8| TempName::of_member(7, &[number], b"aside").to_string();
    let data = directory.path().join("data");
    for number in [1, 2] {
        let aside = data.join(temp(number));
        fs::create_dir_all(aside.join(temp(3))).expect("made");
        fs::write(aside.join(temp(4)), b"removed").expect("written");
    }
    fs::write(data.join(temp(2)).join("kept"), b"kept").expect("written");
    let wish = CleanPlace {
        path: Text::from("data"),
        ..CleanPlace::default()
    };
    let cleaned = ask(&here, &Question::Clean(wish));
    assert!(
        matches!(&cleaned, Ok(Answer::Cleaned(cleaned)) if cleaned.files == 5),
        "{cleaned:?}"
    );
    assert!(!data.join(temp(1)).exists());
    assert_eq!(count(&data.join(temp(2))), 1);
    // An old directory is removed at once, although the removal of its contents changes its time; a recent one stays.
    let old = SystemTime::now() - Duration::from_secs(7200);
    for number in [5, 6] {
        let aside = data.join(temp(number));
        fs::create_dir_all(&aside).expect("made");
        let file = aside.join(temp(7));
        fs::write(&file, b"removed").expect("written");
        let is_old = number == 5;
        for path in [&file, &aside].into_iter().filter(|_| is_old) {
            let file = fs::File::open(path).expect("there");
            file.set_modified(old).expect("set");
        }
    }
    let wish = CleanPlace {
        path: Text::from("data"),
        older_than_seconds: 3600,
        ..CleanPlace::default()
    };
    let cleaned = ask(&here, &Question::Clean(wish));
    assert!(
        matches!(&cleaned, Ok(Answer::Cleaned(cleaned)) if cleaned.files == 2),
        "{cleaned:?}"
    );
    assert!(!data.join(temp(5)).exists());
    assert_eq!(count(&data.join(temp(6))), 1);
}

/// A crash between the two steps of a removal at the source leaves a file in a directory of the removal.
#[test]
fn a_clean_gives_a_file_of_an_interrupted_removal_its_name_back() {
    let directory = tempfile::tempdir().expect("made");
    let here = here(directory.path());
    let data = directory.path().join("data");
    let aside = |place: &str| {
        data.join(place)
            .join(TempName::of_removal(b"one").to_string())
    };
    for place in ["lost", "taken", "mark"] {
        fs::create_dir_all(aside(place)).expect("made");
    }
    for place in ["lost", "taken"] {
        fs::write(aside(place).join("file"), b"aside").expect("written");
    }
    fs::write(data.join("taken/file"), b"new").expect("written");
    let clean = |dry_run| {
        let wish = CleanPlace {
            path: Text::from("data"),
            dry_run,
            ..CleanPlace::default()
        };
        match ask(&here, &Question::Clean(wish)) {
            Ok(Answer::Cleaned(cleaned)) => cleaned,
            other => panic!("{other:?}"),
        }
    };
    clean(true);
    assert!(aside("lost").join("file").exists() && aside("mark").exists());
    let cleaned = clean(false);
    assert_eq!((cleaned.files, cleaned.failed), (2, 1), "{cleaned:?}");
    assert_eq!(fs::read(data.join("lost/file")).expect("back"), b"aside");
    assert!(!aside("lost").exists() && !aside("mark").exists());
    // Neither file is lost.
    assert_eq!(fs::read(data.join("taken/file")).expect("there"), b"new");
    let file = aside("taken").join("file");
    assert_eq!(fs::read(file).expect("there"), b"aside");
}

/// The asker of a clean chooses the tags, and tags are no secret: they are in the names of the files.
#[test]
fn a_clean_for_one_job_leaves_and_hides_the_files_of_other_transfers() {
    let directory = tempfile::tempdir().expect("made");
    let here = here(directory.path());
    let data = directory.path().join("data");
    let put = |tag: u64| {
        let file =
            data.join(TempName::new(tag, &RelPath::parse(b"file").expect("a path")).to_string());
        fs::write(&file, b"begun").expect("written");
        file
    };
    let begin = |name: &[u8]| {
        let key = JournalKey::of(&[name]);
        let header = JournalHeader {
            mapping: Vec::new(),
            digest: DigestKind::Crc64Nvme,
            destinations: vec![data.as_os_str().as_encoded_bytes().to_vec()],
            label: String::new(),
            claim: None,
            sender: None,
        };
        let journals = JournalDirectory::open(&directory.path().join("home/journals"));
        let begun = journals
            .expect("opened")
            .begin(key, || Ok::<_, Refusal>(header));
        let mut tag = [0; 8];
        tag.copy_from_slice(&key.0[..8]);
        (begun.expect("begun").0, u64::from_le_bytes(tag))
    };
    let (idle, resumable) = begin(b"resumable");
    drop(idle);
    let (_live, runs) = begin(b"runs");
    let [ended, other] = [7, 8];
    let files = [ended, other, runs, resumable].map(put);
    let there = || files.each_ref().map(|file| file.exists());
    let clean = |tags: &[u64]| {
        let wish = CleanPlace {
            path: Text::from("data"),
            tags: tags.to_vec(),
            ..CleanPlace::default()
        };
        match ask(&here, &Question::Clean(wish)) {
            Ok(Answer::Cleaned(cleaned)) => cleaned,
            other => panic!("{other:?}"),
        }
    };
    let cleaned = clean(&[ended]);
    assert_eq!(there(), [false, true, true, true]);
    assert_eq!((cleaned.files, cleaned.paths.len()), (1, 1), "{cleaned:?}");
    assert!(cleaned.kept.is_empty(), "{cleaned:?}");
    // The files of a running transfer stay, even if the asker gives its tag.
    let cleaned = clean(&[runs]);
    assert_eq!(there(), [false, true, true, true]);
    assert_eq!((cleaned.files, cleaned.kept.len()), (0, 1), "{cleaned:?}");
    // Without tags, files from which a transfer can be resumed stay.
    assert_eq!(clean(&[]).files, 1);
    assert_eq!(there(), [false, false, true, true]);
}

#[test]
fn a_deep_tree_goes_and_what_links_lead_to_stays() {
    let directory = tempfile::tempdir().expect("made");
    let here = here(directory.path());
    let mut at = directory.path().join("data/deep");
    for _ in 0..200 {
        fs::create_dir(&at).expect("made");
        fs::write(at.join("file"), b"x").expect("written");
        at.push("d");
    }
    let kept = directory.path().join("other/kept");
    fs::write(&kept, b"x").expect("written");
    symlink(
        directory.path().join("other"),
        directory.path().join("data/deep/link"),
    )
    .expect("made");
    let wish = RemovePlace {
        path: Text::from("data/deep"),
        recursive: true,
    };
    let removed = ask(&here, &Question::Remove(wish));
    let Ok(Answer::Removed(removed)) = removed else {
        panic!("{removed:?}");
    };
    assert_eq!(
        (removed.files, removed.directories, removed.failed),
        (201, 200, 0)
    );
    assert!(kept.exists());
}

#[test]
fn nothing_leaves_its_export_and_each_right_is_asked_for() {
    let directory = tempfile::tempdir().expect("made");
    let here = here(directory.path());
    fs::write(directory.path().join("data/a"), b"x").expect("written");
    let rename = |from: &str, to: &str| {
        Question::Rename(RenamePlace {
            from: Text::from(from),
            to: Text::from(to),
            replace: false,
        })
    };
    for (from, to) in [
        ("data/a", "other/a"),
        ("data/a", "data"),
        ("data", "data/b"),
        ("data/a", "data/../b"),
        ("data/a", "data/none/b"),
        ("data/none", "data/b"),
    ] {
        let refused = ask(&here, &rename(from, to));
        assert!(refused.is_err(), "{from} {to}: {refused:?}");
    }
    let may = |_: &str, path: &RelPath, right: Right| {
        let no = Refusal::new(code::NOT_GRANTED, "no");
        match (path.as_bytes(), right) {
            (b"a", Right::Delete | Right::Read) | (b"b", Right::Write) => Ok(()),
            _ => Err(no),
        }
    };
    // A peer that may only write to a drop box cannot move an entry from there to a place where it may read.
    let drop_box = |_: &str, path: &RelPath, right: Right| match right {
        Right::Read | Right::List if path.as_bytes() == b"a" => {
            Err(Refusal::new(code::NOT_GRANTED, "no"))
        }
        _ => Ok(()),
    };
    let moved = here.answer(&rename("data/a", "data/b"), &drop_box, &mut |_| true);
    assert_eq!(moved.map_err(|no| no.code), Err(code::NOT_GRANTED.into()));
    let moved = here.answer(&rename("data/a", "data/c"), &may, &mut |_| true);
    assert_eq!(moved.map_err(|no| no.code), Err(code::NOT_GRANTED.into()));
    let moved = here.answer(&rename("data/a", "data/b"), &may, &mut |_| true);
    assert!(moved.is_ok(), "{moved:?}");
    assert!(directory.path().join("data/b").exists());
}

#[test]
fn the_mark_of_a_claim_is_seen_where_the_place_is_the_same() {
    let one = tempfile::tempdir().expect("made");
    let other = tempfile::tempdir().expect("made");
    let (first, same, odd) = (here(one.path()), here(one.path()), here(other.path()));
    let claim = |mark: Mark| {
        Question::Claim(ClaimPlace {
            copies: false,
            claim: ClaimId([7; 16]),
            epoch: 1,
            path: "data/set/deep".into(),
            members: Vec::new(),
            lease_ms: 60_000,
            fence: Vec::new(),
            mark,
        })
    };
    let code = |here: &Here, mark| {
        let refused = ask(here, &claim(mark)).err();
        refused.and_then(|no| no.code.known())
    };
    assert_eq!(code(&same, Mark::Expect), Some(code::OTHER_PLACE));
    assert_eq!(code(&first, Mark::Make), None);
    assert_eq!(count(&one.path().join("data")), 1);
    assert_eq!(code(&same, Mark::Expect), None);
    assert_eq!(code(&odd, Mark::Expect), Some(code::OTHER_PLACE));
    // The right at the place suffices, although the mark is above the existing entries.
    let may = |_: &str, path: &RelPath, _: Right| match path.as_bytes() {
        b"set/deep" => Ok(()),
        _ => Err(Refusal::new(code::NOT_GRANTED, "no")),
    };
    let asked = |mark| first.answer(&claim(mark), &may, &mut |_| true).map(drop);
    assert_eq!(code(&same, Mark::Remove), None);
    assert_eq!(asked(Mark::Make), Ok(()));
    assert_eq!(count(&one.path().join("data")), 1);
    // Any node that sees the place can remove the mark; removing it twice does no harm.
    assert_eq!(code(&same, Mark::Remove), None);
    assert_eq!(code(&same, Mark::Remove), None);
    assert_eq!(count(&one.path().join("data")), 0);
}

fn overlaps(here: &Here, paths: &[&str]) -> Result<Vec<(usize, usize, bool)>, Refusal> {
    let paths = paths.iter().map(|path| Text::from(*path)).collect();
    match ask(here, &Question::Overlaps { paths })? {
        Answer::Overlaps(found) => Ok(found
            .iter()
            .map(|found| (found.one, found.other, found.same))
            .collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn places_are_compared_by_their_directories_whatever_export_leads_there() {
    let directory = tempfile::tempdir().expect("made");
    for name in ["data/deep/a", "home/journals"] {
        fs::create_dir_all(directory.path().join(name)).expect("made");
    }
    let exports = [("data", "data"), ("inner", "data/deep")]
        .map(|(name, place)| export(name, &directory.path().join(place)));
    let home = directory.path().join("home");
    let here = Here::new(exports.to_vec(), home, Syncs::default());
    let found = overlaps(&here, &["data/deep/a", "inner/b", "inner/a", "data/deep"]);
    let expected = vec![(0, 2, true), (0, 3, false), (1, 3, false), (2, 3, false)];
    assert_eq!(found, Ok(expected));
    let new = overlaps(&here, &["data/deep/new/x", "inner/new/x", "inner/newer"]);
    assert_eq!(new, Ok(vec![(0, 1, true)]));
    // Another node may serve such an export.
    assert_eq!(
        overlaps(&here, &["none/a", "inner", "data/deep"]),
        Ok(vec![(1, 2, true)])
    );
}

#[test]
fn a_comparison_of_places_is_bounded_and_follows_no_link_out_of_an_export() {
    let directory = tempfile::tempdir().expect("made");
    let here = here(directory.path());
    fs::create_dir_all(directory.path().join("secret/x")).expect("made");
    for name in ["data/link", "other/link"] {
        symlink("../secret", directory.path().join(name)).expect("made");
    }
    let found = overlaps(&here, &["data/link/x", "other/link/x"]);
    assert_eq!(found, Ok(Vec::new()));
    let many = ["data/a"; 65];
    let refused = overlaps(&here, &many).expect_err("too many");
    assert_eq!(refused.code, code::INVALID);
    let deep = format!("data{}", "/a".repeat(300));
    let refused = overlaps(&here, &[&deep]).expect_err("too deep");
    assert_eq!(refused.code, code::INVALID);
    let reads = |_: &str, _: &RelPath, right: Right| match right {
        Right::Write => Err(Refusal::new(code::NOT_GRANTED, "no")),
        _ => Ok(()),
    };
    let question = Question::Overlaps {
        paths: vec![Text::from("data"), Text::from("other")],
    };
    let refused = here.answer(&question, &reads, &mut |_| true);
    assert_eq!(refused.expect_err("no right").code, code::NOT_GRANTED);
}
