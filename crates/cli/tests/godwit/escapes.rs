//! Tests of clients that speak the wire by hand and ask for paths outside the export, which our client would never send. Tests also
//! of links that replace a part of the path during a read.
//! Links at the destination are in `entries`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use godwit_engine::session::GreetError;
use godwit_proto::{Direction, ErrorCode, Frame, Open};

use super::asking;
use super::rig::{Rig, as_each_user};

/// A request in bytes. `wanted` replaces `placed` of the same length, because a forbidden path cannot be encoded.
fn frame(open: &Open, placed: &[u8], wanted: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    open.encode(&mut head).expect("it may be asked");
    assert_eq!(placed.len(), wanted.len());
    let at: Vec<usize> = (0..head.len())
        .filter(|at| head[*at..].starts_with(placed))
        .collect();
    assert_eq!(at.len(), 1, "{placed:?} stands in one place");
    head[at[0]..at[0] + wanted.len()].copy_from_slice(wanted);
    head
}

/// The answer of the daemon to a request of a client that may do everything in the export.
fn ask(rig: &Rig, request: &[u8]) -> Result<Frame, GreetError> {
    asking::ask(rig, &rig.client_home(), request)
}

fn push(destination: &[u8], name: &[u8]) -> Open {
    Open {
        direction: Direction::PUSH.0,
        sources: vec![b"source".to_vec()],
        names: vec![name.to_vec()],
        destination: destination.to_vec(),
        digest: 1,
        ..Open::default()
    }
}

fn pull(sources: &[&[u8]]) -> Open {
    Open {
        direction: Direction::PULL.0,
        sources: sources.iter().map(|source| source.to_vec()).collect(),
        destination: b"here".to_vec(),
        digest: 1,
        ..Open::default()
    }
}

/// Refused with a reason, and not merely by hanging up.
#[track_caller]
fn refused(answer: Result<Frame, GreetError>, what: &[u8]) {
    let what = String::from_utf8_lossy(what);
    match answer {
        Ok(Frame::Error(error)) => {
            let codes = [
                ErrorCode::PROTOCOL,
                ErrorCode::SOURCE,
                ErrorCode::DESTINATION,
                ErrorCode::NO_EXPORT,
                ErrorCode::OUTSIDE,
            ];
            assert!(codes.contains(&ErrorCode(error.code)), "{what}: {error:?}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// All that is below, by name and content.
fn everything(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("listed") {
            let path = entry.expect("read").path();
            let meta = fs::symlink_metadata(&path).expect("there");
            if meta.is_dir() {
                open.push(path.clone());
            }
            let content = if meta.is_file() {
                fs::read(&path).expect("ours")
            } else {
                Vec::new()
            };
            found.push((path, content));
        }
    }
    found.sort();
    found
}

/// Paths that begin in the export, or in none, and lead out of it.
const WAYS_OUT: [&str; 16] = [
    "data/../outside/secret",
    "data/..",
    "data/../",
    "data/./../outside/secret",
    "data/d/../../outside/secret",
    "data/d/../../../../../../../../etc/passwd",
    "data/way/secret",
    "data/way/new",
    "data/d/far/secret",
    "../outside/secret",
    "..",
    "/",
    "/etc/passwd",
    "//data/d",
    "./data/d",
    "",
];

#[test]
fn handmade_requests_do_not_leave_the_export() {
    as_each_user(|rig| {
        rig.write("outside/secret", "secret");
        rig.write("export/d/file", "file");
        symlink(rig.path("outside"), rig.path("export/way")).expect("planted");
        symlink("../../outside", rig.path("export/d/far")).expect("planted");
        rig.start(&[]);
        let outside = everything(&rig.path("outside"));
        let export = everything(&rig.export);

        // Paths of these kinds are accepted if they stay inside.
        for open in [pull(&[b"data/d/file"]), pull(&[b"data/way"])] {
            let request = frame(&open, b"data", b"data");
            let answer = ask(rig, &request);
            assert!(matches!(answer, Ok(Frame::Opened(_))), "{answer:?}");
        }
        for way in WAYS_OUT.map(str::as_bytes) {
            let placed = vec![b'@'; way.len()];
            // Alone, beside an allowed path, and beside a missing one.
            let mut requests = vec![push(&placed, b"name")];
            if !way.is_empty() {
                requests.push(pull(&[&placed]));
                requests.push(pull(&[b"data/d/file", &placed]));
                requests.push(pull(&[&placed, b"data/missing"]));
            }
            for open in requests {
                let request = if way.is_empty() {
                    let mut head = Vec::new();
                    open.encode(&mut head).expect("it may be asked");
                    head
                } else {
                    frame(&open, &placed, way)
                };
                refused(ask(rig, &request), way);
            }
        }
        for name in ["..", ".", "/etc", "a/b", "../n", "d/.."] {
            let placed = vec![b'@'; name.len()];
            let mut open = push(b"data/d", &placed);
            open.destination_is_directory = true;
            // These bytes are no valid request, so the daemon may hang up.
            let answer = ask(rig, &frame(&open, &placed, name.as_bytes()));
            assert!(
                matches!(answer, Ok(Frame::Error(_)) | Err(GreetError::Stream(_))),
                "{name}: {answer:?}"
            );
        }
        assert_eq!(everything(&rig.path("outside")), outside);
        assert_eq!(everything(&rig.export), export);
        for stray in ["source", "name", "new", "stolen"] {
            assert!(!rig.path(stray).exists(), "{stray}");
        }
        let said = rig.daemon().said();
        assert!(!said.contains("panicked"), "{said}");
    });
}

/// Files in the export and outside differ in their bytes alone, so sizes and names do not reveal which is which.
#[test]
fn links_swapped_in_at_the_source_lead_nowhere() {
    const FILES: u64 = 300;
    const BYTES: usize = 20_000;
    as_each_user(|rig| {
        rig.start(&[]);
        for root in ["export/src/d/deep", "outside/deep"] {
            let byte = if root.starts_with("export") {
                b'x'
            } else {
                b'!'
            };
            for number in 0..FILES {
                rig.write(&format!("{root}/{number}"), vec![byte; BYTES]);
            }
            // Large enough to be opened once and read in many slices.
            rig.write(&format!("{root}/../large"), vec![byte; 8 << 20]);
        }
        rig.own();
        let source = rig.path("export/src");
        let (there, aside) = (source.join("d"), source.join("aside"));
        let mut swaps = 0;
        for (number, flags) in [&[][..], &["--streams", "7"], &["--checksum"], &[]]
            .iter()
            .enumerate()
        {
            let (url, to) = (rig.url("src/."), format!("back{number}"));
            let line = [flags, &[url.as_str(), &to][..]].concat();
            let mut client = rig.begin_cp(&rig.path(""), &line);
            while !client.has_ended() {
                // Only this test renames here.
                fs::rename(&there, &aside).expect("ours");
                symlink(rig.path("outside"), &there).expect("ours");
                std::thread::yield_now();
                fs::remove_file(&there).expect("ours");
                fs::rename(&aside, &there).expect("ours");
                swaps += 1;
                std::thread::yield_now();
            }
            let outcome = client.wait();
            assert!(matches!(outcome.code, Some(0 | 3)), "{outcome:?}");
            for (path, content) in everything(&rig.path(&to)) {
                let stolen = content.iter().filter(|byte| **byte == b'!').count();
                assert_eq!(stolen, 0, "{} has bytes from outside", path.display());
            }
        }
        assert!(swaps >= 8, "it was not disturbed");
        // Without further changes, the whole tree arrives.
        rig.cp(&[&rig.url("src/."), "last"]).complete();
        assert_eq!(rig.read("last/d/large").len(), 8 << 20);
    });
}
