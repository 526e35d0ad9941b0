//! Standard input as a source and standard output as a destination, by the real binary.
//! Files at both ends are tested elsewhere.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::data::{Seeded, first_seed, write_file};
use super::judge::assert_no_temporaries;
use super::process::wait_until;
use super::rig::Rig;

const MIB: u64 = 1 << 20;

/// `cp` with pipes at both ends of it.
fn cp(rig: &Rig, line: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_godwit"))
        .arg("cp")
        .args(line)
        .env("GODWIT_HOME", rig.client_home())
        .current_dir(rig.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs")
}

/// Interrupts it as a user does.
fn interrupt(child: &Child) {
    let id = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("told");
}

/// Code, standard output, standard error.
fn end(child: Child) -> (Option<i32>, Vec<u8>, String) {
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code(), output.stdout, said)
}

fn source(rig: &Rig, bytes: u64) -> Vec<u8> {
    let path = rig.path("source");
    write_file(&path, bytes, &mut Seeded(first_seed(31) + bytes));
    fs::read(path).expect("read")
}

#[test]
fn any_number_of_bytes_goes_in_and_out() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let there = rig.url("x");
    for bytes in [0, 1, 512 << 10, MIB, MIB + 1, 3 * MIB + 7] {
        let content = source(&rig, bytes);
        for (destination, path) in [("here", rig.path("here")), (&there, rig.export.join("x"))] {
            for digest in ["blake3", "crc64-nvme"] {
                let line = ["--digest", digest, "--manifest", "m", "-", destination];
                let mut child = cp(&rig, &line);
                let mut input = child.stdin.take().expect("piped");
                input.write_all(&content).expect("taken");
                drop(input);
                let (code, out, said) = end(child);
                assert_eq!(code, Some(0), "{bytes} {destination}: {said}");
                assert!(String::from_utf8_lossy(&out).contains("status      complete"));
                assert!(fs::read(&path).expect("there") == content, "{bytes}");
                let manifest = String::from_utf8(rig.read("m")).expect("text");
                assert!(manifest.contains(&format!("\nf\t{bytes}\t")), "{manifest}");
                if digest == "blake3" {
                    let hash = blake3::hash(&content).to_hex();
                    assert!(manifest.contains(hash.as_str()), "{manifest}");
                }
                fs::remove_file(&path).expect("removed");
            }
        }
        fs::write(rig.export.join("y"), &content).expect("written");
        for from in ["source", &rig.url("y")] {
            let (code, out, said) = end(cp(&rig, &["--json", from, "-"]));
            assert_eq!(code, Some(0), "{bytes} {from}: {said}");
            assert!(out == content, "{bytes} {from}");
            assert!(said.contains(r#""status":"complete""#), "{said}");
        }
    }
}

#[test]
fn holes_come_out_as_zeros() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let sparse = File::create(rig.export.join("sparse")).expect("made");
    sparse.set_len(9 * MIB + 5).expect("set");
    fs::copy(rig.export.join("sparse"), rig.path("sparse")).expect("copied");
    for from in ["sparse", &rig.url("sparse")] {
        let (code, out, said) = end(cp(&rig, &[from, "-"]));
        assert_eq!(code, Some(0), "{said}");
        let whole = usize::try_from(9 * MIB + 5).expect("small");
        assert!(out.len() == whole && out.iter().all(|byte| *byte == 0));
    }
}

/// Feeds `content` to the child, on a new thread. The pipe stays open until the result is dropped.
fn feed(child: &mut Child, content: Vec<u8>) -> std::thread::JoinHandle<std::process::ChildStdin> {
    let mut input = child.stdin.take().expect("piped");
    std::thread::spawn(move || {
        // A killed child takes no more.
        let _ = input.write_all(&content);
        input
    })
}

#[test]
fn an_input_that_is_killed_leaves_nothing_under_the_final_name() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let content = source(&rig, 300 * MIB);
    let there = rig.url("x");
    for (destination, path, home) in [
        ("here", rig.path("here"), rig.path("")),
        (&there, rig.export.join("x"), rig.export.clone()),
    ] {
        // All data was sent, but the end of the input was not.
        let mut child = cp(&rig, &["--retry-for", "0", "-", destination]);
        let feeder = feed(&mut child, content.clone());
        wait_until(|| feeder.is_finished().then_some(())).expect("all is taken");
        child.kill().expect("killed");
        child.wait().expect("ended");
        drop(feeder.join());
        assert!(!path.exists(), "{destination}");
        // Ended by the user in good order.
        let mut child = cp(&rig, &["-", destination]);
        let feeder = feed(&mut child, content[..1 << 20].to_vec());
        wait_until(|| feeder.is_finished().then_some(())).expect("all is taken");
        interrupt(&child);
        let (code, _, said) = end(child);
        drop(feeder.join());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("cannot be resumed"), "{said}");
        assert!(!path.exists(), "{destination}");
        // The same command with the whole input works, and no remains of the others are left.
        let mut child = cp(&rig, &["-", destination]);
        let feeder = feed(&mut child, content.clone());
        drop(feeder.join());
        let (code, _, said) = end(child);
        assert_eq!(code, Some(0), "{said}");
        assert!(fs::read(&path).expect("there") == content, "{destination}");
        assert_below(&home);
        fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn an_input_that_is_interrupted_leaves_nothing_at_all() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.make_dirs("to");
    let content = source(&rig, 32 * MIB);
    for (destination, place) in [
        ("to/x".to_owned(), rig.path("to")),
        (rig.url("x"), rig.export.clone()),
    ] {
        let is_empty = || fs::read_dir(&place).expect("ours").next().is_none();
        let mut child = cp(&rig, &["-", &destination]);
        let feeder = feed(&mut child, content.clone());
        wait_until(|| (!is_empty()).then_some(())).expect("some has arrived");
        interrupt(&child);
        let (code, _, said) = end(child);
        drop(feeder.join());
        assert_eq!(code, Some(1), "{said}");
        // The daemon notices the end, and cleans up at once.
        assert!(
            wait_until(|| is_empty().then_some(())).is_some(),
            "{destination}"
        );
    }
}

fn assert_below(directory: &Path) {
    assert_no_temporaries(directory);
}

#[test]
fn a_daemon_that_dies_ends_an_input() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let content = source(&rig, 64 * MIB);
    let mut child = cp(&rig, &["--retry-for", "2s", "-", &rig.url("x")]);
    let feeder = feed(&mut child, content[..16 << 20].to_vec());
    let input = feeder.join().expect("fed");
    rig.kill_daemon();
    let (code, _, said) = {
        drop(input);
        end(child)
    };
    // The daemon does not return, and its knowledge of the transfer is lost.
    assert_eq!(code, Some(1), "{said}");
    assert!(!rig.export.join("x").exists());
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let mut rig = Rig::new();
    rig.start(&[]);
    write_file(&rig.export.join("y"), 64 * MIB, &mut Seeded(first_seed(32)));
    fs::copy(rig.export.join("y"), rig.path("y")).expect("copied");
    for from in ["y", &rig.url("y")] {
        let mut child = cp(&rig, &[from, "-"]);
        let mut out = child.stdout.take().expect("piped");
        let mut first = [0; 10];
        out.read_exact(&mut first).expect("some");
        drop(out);
        let (code, _, said) = end(child);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("has gone away"), "{said}");
        assert_eq!(first[..], fs::read(rig.path("y")).expect("read")[..10]);
    }
}

#[test]
fn messages_about_entries_stay_out_of_the_output() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("y", "content");
    fs::write(rig.export.join("y"), "content").expect("written");
    for from in ["y", &rig.url("y")] {
        for flags in [
            &["-v"][..],
            &["-v", "--json"],
            &["--stats"],
            &["--stats", "--json"],
        ] {
            let (code, out, said) = end(cp(&rig, &[flags, &[from, "-"]].concat()));
            assert_eq!(code, Some(0), "{said}");
            assert_eq!(out, b"content", "{flags:?}: {said}");
            assert!(!flags.contains(&"-v") || said.contains("send"), "{said}");
        }
    }
}

#[test]
fn a_dry_run_writes_nothing_and_is_no_failure() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("y", "content");
    fs::write(rig.export.join("y"), "content").expect("written");
    for from in ["y", &rig.url("y")] {
        let (code, out, said) = end(cp(&rig, &["--dry-run", "--json", from, "-"]));
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(out, b"", "{said}");
        assert!(said.contains(r#""bytes":7,"files":1,"#), "{said}");
        // A dry run reports the failure of a real run.
        let none = ["--dry-run", "--exclude", "*", from, "-"];
        let (code, out, said) = end(cp(&rig, &none));
        assert_eq!((code, out), (Some(1), Vec::new()), "{said}");
    }
}

#[test]
fn invalid_uses_of_the_standard_streams_are_refused() {
    let rig = Rig::new();
    rig.write("tree/x", "1");
    for (line, code, words) in [
        (&["-", "-"][..], 2, "takes one file"),
        (&["-", "tree", "to"], 2, "must be the only source"),
        (&["tree", "-"], 2, "takes one file"),
    ] {
        let (found, out, said) = end(cp(&rig, line));
        assert_eq!(found, Some(code), "{line:?}: {said}");
        assert!(said.contains(words), "{said}");
        assert_eq!(out, b"", "{line:?}");
    }
    rig.write("-", "a file of that name");
    let outcome = rig.cp(&["./-", "copy"]);
    outcome.complete();
    assert_eq!(rig.read("copy"), b"a file of that name");
}

/// Closed streams must not count as empty input or as accepting output.
#[test]
fn a_closed_standard_stream_is_refused() {
    let rig = Rig::new();
    rig.write("source", "content");
    for (line, closing, name) in [
        ("cp - out", "<&-", "standard input is closed"),
        ("cp source -", ">&-", "standard output is closed"),
        (
            "cp --files-from - . out",
            "<&-",
            "standard input: it is closed",
        ),
    ] {
        let child = Command::new("sh")
            .args(["-c", &format!("exec \"$0\" {line} {closing}")])
            .arg(env!("CARGO_BIN_EXE_godwit"))
            .env("GODWIT_HOME", rig.client_home())
            .current_dir(rig.path(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let (code, _, said) = end(child.expect("it runs"));
        assert_eq!(code, Some(2), "{line}: {said}");
        assert!(said.contains(name), "{line}: {said}");
        assert!(!rig.path("out").exists(), "{line}");
    }
    let mut child = cp(&rig, &["-", "empty"]);
    drop(child.stdin.take());
    assert_eq!(end(child).0, Some(0));
    assert_eq!(rig.read("empty"), b"");
}
