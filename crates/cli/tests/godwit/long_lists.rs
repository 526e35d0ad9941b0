//! Long lists of sources from one peer: they are accepted, and delay no other peer.
//! Counts nothing: the tests of the data port do.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use godwit_net::Identity;
use godwit_proto::{Cancel, Direction, ErrorCode, Frame, Open};

use super::asking;
use super::rig::Rig;

#[test]
fn long_lists_of_one_peer_do_not_keep_the_rights_of_another_alive() {
    let mut rig = Rig::new();
    rig.write("export/many/f0", "alpha");
    rig.write("run42/large", vec![7; 16 << 20]);
    rig.start(&[]);
    let other = rig.path("other");
    fs::create_dir_all(&other).expect("made");
    let identity = Identity::load_or_create(&other).expect("a key");
    let id = identity.id().to_string();
    let allowed = rig.admin(&["access", "allow", &id, "--export", "data:/many", "--read"]);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    let sources = (0..65_000).map(|number| format!("data/many/f{number}"));
    let open = Open {
        direction: Direction::PULL.0,
        sources: sources.map(String::into_bytes).collect(),
        destination: b"here".to_vec(),
        digest: 1,
        retry_for_ms: 60_000,
        ..Open::default()
    };
    let mut request = Vec::new();
    open.encode(&mut request).expect("it may be asked");

    let url = rig.url("copy");
    let mut push = rig.begin_cp(&rig.path(""), &["--limit", "64KiB", "run42", &url]);
    push.wait_for("\"started\"");
    for _ in 0..3 {
        let answer = asking::ask(&rig, &other, &request);
        assert!(matches!(answer, Ok(Frame::Opened(_))), "{answer:?}");
    }
    let us = rig.client(&["id"]).out.trim().to_owned();
    let denied = rig.admin(&["access", "deny", &us]);
    assert_eq!(denied.code, Some(0), "{denied:?}");
    let outcome = push.wait();
    outcome
        .expect(4, "failed")
        .says("was revoked or has expired");
}

#[test]
fn a_list_larger_than_the_share_of_its_identity_is_refused_and_delays_no_other() {
    let mut rig = Rig::new();
    rig.write("export/f", "alpha");
    rig.start(&[]);
    let numbers = || (0..40_000).map(|number| format!("{number:x}").into_bytes());
    let open = Open {
        direction: Direction::PUSH.0,
        sources: numbers().collect(),
        names: numbers().collect(),
        destination: format!("data{}/", format!("/{}", "d".repeat(250)).repeat(239)).into_bytes(),
        destination_is_directory: true,
        digest: 1,
        retry_for_ms: 60_000,
        ..Open::default()
    };
    let mut request = Vec::new();
    open.encode(&mut request).expect("it may be asked");
    for _ in 0..3 {
        match asking::ask(&rig, &rig.client_home(), &request) {
            Ok(Frame::Error(error)) => {
                assert_eq!((error.code(), error.retryable), (ErrorCode::LIMIT, false));
                assert!(error.message.contains("send fewer sources"), "{error:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    rig.cp(&[&rig.url("f"), "copy"]).complete();
}

#[test]
fn a_transfer_that_brings_nothing_leaves_no_journal() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let journals = || {
        let entries = fs::read_dir(rig.daemon_home.join("journals")).expect("listed");
        let names = entries.map(|entry| entry.expect("read").file_name());
        names
            .filter(|name| name.as_bytes().ends_with(b".journal"))
            .count()
    };
    for number in 0..20 {
        let name = format!("{number}").into_bytes();
        let open = Open {
            direction: Direction::PUSH.0,
            sources: vec![name.clone()],
            names: vec![name],
            destination: b"data/".to_vec(),
            destination_is_directory: true,
            digest: 1,
            retry_for_ms: 60_000,
            ..Open::default()
        };
        let mut request = Vec::new();
        open.encode(&mut request).expect("it may be asked");
        let cancel = Cancel {
            reason: "enough".to_owned(),
        };
        cancel.encode(&mut request);
        let answer = asking::ask(&rig, &rig.client_home(), &request);
        assert!(matches!(answer, Ok(Frame::Opened(_))), "{answer:?}");
    }
    let until = Instant::now() + Duration::from_secs(60);
    while journals() > 0 {
        assert!(Instant::now() < until, "{} journals are left", journals());
        std::thread::sleep(Duration::from_millis(50));
    }
}
