//! Ties each code of the failure catalogue to a test by the real binary that provokes it, or to the reason why no test can.
//! Causes small faults itself; the tests of other modules cause the larger ones, and name the code.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use godwit_api::failure::FailureCode::{self, *};
use godwit_api::failure::Scope;
use rustix::process::Signal;

use super::process::{Outcome, Process};
use super::rig::Rig;

/// The proof that a code is reported where it should be.
enum Proof {
    /// This run ends with the code, or names an entry with it.
    Run(fn(&mut Rig) -> Outcome),
    /// The test of this module and name asserts the code.
    Test(&'static str, &'static str),
    /// No test by the binary can provoke the code, for this reason.
    None(&'static str),
}

use Proof::{Run, Test};

/// Returns the run or test that provokes `code`, or the reason why there is none. A new code needs an entry here.
fn proof(code: FailureCode) -> Proof {
    const STORAGE: &str = "takes storage that lies: crates/engine/tests have one";
    const PEER: &str = "takes a peer that breaks the protocol: crates/engine/tests and the fuzz targets have such peers";
    match code {
        Usage => Run(|rig| rig.cp(&["--sign", "f", "g"])),
        NoSource => Run(|rig| rig.cp(&["missing", "g"])),
        DestinationUnusable => Run(|rig| rig.cp(&["f", "no/such/place"])),
        ExportAway => Test(
            "mounts",
            "an_export_that_has_to_be_a_mount_is_refused_while_it_is_none",
        ),
        IntoItself => {
            Run(|rig| rig.client(&["sync", "--json", "--delete", "outer/inner", "outer"]))
        }
        PathOutsideExport => Run(|rig| {
            symlink(rig.path("outer"), rig.path("export/way")).expect("planted");
            rig.cp(&[&rig.url("way/x"), "g"])
        }),
        NoSuchExport => Run(|rig| {
            let url = format!("godwit://{}/none/x", rig.address());
            rig.cp(&["f", &url])
        }),
        NotSupported => Run(|rig| rig.cp(&["--congestion", "nosuch", "f", &rig.url("g")])),
        Unauthorized => Run(|rig| {
            grant(rig, "deny", &[]);
            let outcome = rig.cp(&["f", &rig.url("g")]);
            grant(rig, "allow", &["--all-exports", "--read", "--write"]);
            outcome
        }),
        AccessDenied => Run(|rig| {
            grant(rig, "deny", &[]);
            grant(rig, "allow", &["--all-exports", "--read"]);
            let outcome = rig.cp(&["f", &rig.url("g")]);
            grant(rig, "allow", &["--all-exports", "--read", "--write"]);
            outcome
        }),
        UnknownPeer => Run(|rig| {
            let mut command = rig.client_command();
            command.env("GODWIT_HOME", rig.path("other-client"));
            Process::start(command.args(["cp", "--json", "f", &rig.url("g")])).wait()
        }),
        IdentityChanged => Run(|rig| {
            let us = rig.client(&["id"]).out;
            rig.trust(rig.address(), us.trim());
            let outcome = rig.cp(&["f", &rig.url("g")]);
            rig.trust(rig.address(), &rig.identity);
            outcome
        }),
        SshDenied => Run(|rig| by_ssh(rig, "echo 'Permission denied (publickey).' >&2; exit 255")),
        SshFailed => Run(|rig| by_ssh(rig, "echo 'Connection refused' >&2; exit 255")),
        RemoteCommandMissing => Run(|rig| by_ssh(rig, "echo 'godwit: not found' >&2; exit 127")),
        RemoteCommandUnusable => Run(|rig| by_ssh(rig, "yes | head -c 1000000")),
        AgentFailed => Run(|rig| {
            rig.write("no-home", "a file");
            let script = format!(
                "GODWIT_HOME={} exec {} agent --stdio",
                rig.path("no-home").display(),
                env!("CARGO_BIN_EXE_godwit")
            );
            by_ssh(rig, &script)
        }),
        VersionMismatch => Proof::None("takes a program of another version"),
        NotGodwit => Run(|rig| at_a_server(rig, b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        TlsFailed => Run(|rig| at_a_server(rig, b"\x15\x03\x03\x00\x02\x02\x28")),
        Unreachable => Run(|rig| {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
            let address = free.expect("an address").to_string();
            rig.trust(&address, &rig.identity);
            rig.cp(&["f", &Rig::url_by(&address, "g")])
        }),
        ChannelUnusable => Run(|rig| rig.cp(&["--channel", "nosuch0", "f", &rig.url("g")])),
        PeerSilent => Run(|rig| at_a_server(rig, b"")),
        PeerBusy => Test(
            "held",
            "transfers_of_absent_clients_cost_no_threads_and_are_limited",
        ),
        BusyDestination => Test("resume", "one_transfer_at_a_time_writes_to_a_destination"),
        UnknownTransfer | BadToken => Proof::None(
            "a client that hears it opens the transfer again by itself; crates/engine/tests judge that",
        ),
        Superseded => Proof::None(
            "a node refuses a second opening while the first client lives (busy_destination); only a client that is away is superseded, and hears of nothing",
        ),
        ConnectionLost => Test(
            "resume",
            "a_daemon_that_comes_back_is_found_again_and_one_that_does_not_is_given_up",
        ),
        PeerEnded => Run(|rig| {
            let url = rig.url("slow");
            let line = ["--limit", "64KiB", "--retry-for", "0s", "large", &url];
            let mut run = rig.begin_cp(&rig.path(""), &line);
            run.wait_for("\"started\"");
            rig.stop_daemon(Signal::TERM);
            let outcome = run.wait();
            rig.start(&[]);
            outcome
        }),
        Cancelled => Test(
            "resume",
            "control_c_stops_cleanly_and_the_same_command_resumes",
        ),
        CannotResume => Run(|rig| {
            let (input, _kept_open) = std::io::pipe().expect("a pipe");
            let mut command = rig.client_command();
            command.args(["cp", "--json", "-", &rig.url("piped")]);
            let mut run = Process::start_with(&mut command, input);
            run.wait_for("\"started\"");
            run.signal(Signal::INT);
            run.wait()
        }),
        SyncFailed | SpillUnusable | LeftoversStay | DataDamaged | JournalUnusable | Io
        | Digest => Proof::None(STORAGE),
        InputUnusable => Proof::None(
            "a command always has a standard input; only programs that run jobs leave it out",
        ),
        OutputUnusable => Proof::None(
            "there are no events where standard output is the destination: stdio::a_reader_that_goes_away_ends_it judges the words",
        ),
        ReportUnusable => Run(|rig| rig.cp(&["--manifest", "no/such/list", "f", "g"])),
        HomeUnusable => Run(|rig| {
            let journals = rig.client_home().join("journals");
            let aside = rig.client_home().join("aside");
            fs::rename(&journals, &aside).expect("the client has copied before");
            fs::write(&journals, "in the way").expect("written");
            let outcome = rig.cp(&["f", "g"]);
            fs::remove_file(&journals).expect("ours");
            fs::rename(&aside, &journals).expect("ours");
            outcome
        }),
        ManifestRefused => Run(|rig| rig.client(&["verify", "--json", "f", "outer"])),
        VerificationIncomplete | ProtocolViolation => Proof::None(PEER),
        NoSuchTransfer => Proof::None(
            "only commands without events tell it: jobs::a_refusal_is_shown_in_the_words_of_the_node judges their words",
        ),
        OutOfResources => {
            Proof::None("takes a machine without threads; a test would starve its neighbours")
        }
        LocalFailure => {
            Proof::None("stands for faults of this machine that have no code of their own")
        }
        Internal => Proof::None("a fault of the program; no test knows one"),
        PeerFailed | Other => Proof::None("takes a program of a later version"),
        Partial => Run(|rig| rig.cp(&["f", "missing", "there/"])),
        Different => Test("verify", "each_difference_is_named_here_and_there"),
        NoSpace => Test(
            "full",
            "a_full_destination_ends_the_transfer_with_one_message_and_it_finishes_once_there_is_room",
        ),
        Permission => Test(
            "entries",
            "unreadable_files_are_reported_if_permissions_apply",
        ),
        ReadOnly => Proof::None(
            "takes a file system that becomes read-only under a transfer: crates/engine/tests; one that is from the beginning is destination_unusable",
        ),
        NotFound => Run(|rig| rig.cp(&["f", "missing", "there/"])),
        Changed => Test("verify", "a_file_that_changes_while_it_is_read_is_named"),
        NotRegular => Test(
            "reports",
            "failures_are_listed_by_names_that_nothing_can_confuse",
        ),
        Collision => Test(
            "folding",
            "a_name_that_is_there_in_other_letters_is_replaced_only_where_it_was_named",
        ),
        Name => Test("spared", "names_like_temporary_ones_are_reported"),
        Type => Run(|rig| {
            rig.make_dirs("taken/f/d");
            rig.cp(&["f", "taken"])
        }),
        Escape => Test("entries", "links_in_the_destination_lead_nowhere"),
        Size | Metadata => Test("verify", "each_difference_is_named_here_and_there"),
        EmptySource => Test(
            "emptied",
            "an_empty_source_empties_no_destination_without_a_word",
        ),
        Limit => Test("delete", "more_than_max_delete_deletes_nothing"),
        Unsupported => Proof::None("takes a file system that lacks what was asked for"),
        code if matches!(code.scope(), Scope::Request | Scope::Reason) => Proof::None(
            "the types of the API and of the state give it: tests of the API and of jobs judge it",
        ),
        _ => Proof::None(""),
    }
}

fn grant(rig: &Rig, verb: &str, rights: &[&str]) {
    let us = rig.client(&["id"]).out;
    let outcome = rig.admin(&[&["access", verb, us.trim()], rights].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// A push by an ssh that is this script.
fn by_ssh(rig: &Rig, script: &str) -> Outcome {
    let path = rig.path("ssh");
    rig.write("ssh", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    let rsh = path.display().to_string();
    rig.cp(&["--rsh", &rsh, "--retry-for", "0s", "f", "far:g"])
}

/// A push to a server that answers with these bytes, or with nothing at all.
fn at_a_server(rig: &Rig, answer: &'static [u8]) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound").to_string();
    // Ends with the test's process: the number of the client's connections is unknown.
    std::thread::spawn(move || {
        let mut held = Vec::new();
        while let Ok((mut socket, _)) = listener.accept() {
            let mut hello = [0; 64];
            // The client may have left.
            let _ = socket
                .read(&mut hello)
                .and_then(|_| socket.write_all(answer));
            if answer.is_empty() {
                held.push(socket);
            }
        }
    });
    rig.trust(&address, &rig.identity);
    let limits = ["--retry-for", "0s", "--handshake-deadline", "1s"];
    let url = Rig::url_by(&address, "g");
    rig.cp(&[&limits[..], &["f", &url]].concat())
}

/// Whether the named test exists and asserts the code by its name.
fn asserts(module: &str, test: &str, code: FailureCode) -> bool {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/godwit");
    let text = fs::read_to_string(tests.join(module).with_extension("rs")).expect("a module");
    let name = format!("FailureCode::{code:?})");
    text.split_once(&format!("#[test]\nfn {test}() {{"))
        .and_then(|(_, rest)| rest.split_once("\n}\n"))
        .is_some_and(|(body, _)| body.contains(&name))
}

#[test]
fn each_code_is_provoked_or_has_a_reason_why_it_cannot_be() {
    let mut rig = Rig::new();
    rig.write("f", "content");
    rig.write("large", vec![7; 1 << 20]);
    rig.write("outer/inner/x", "x");
    rig.start(&[]);
    rig.cp(&["f", "before"]).complete();
    let mut wrong = Vec::new();
    for code in FailureCode::ALL {
        match proof(*code) {
            Run(run) => {
                let outcome = run(&mut rig);
                if !outcome.has(*code) {
                    wrong.push(format!("{code} is not told: {}", outcome.said()));
                }
            }
            Test(module, test) if asserts(module, test, *code) => {}
            Test(module, test) => wrong.push(format!(
                "{module}::{test} is gone, or does not assert FailureCode::{code:?}"
            )),
            Proof::None(reason) => assert!(!reason.is_empty(), "{code}"),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
