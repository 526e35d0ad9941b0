//! Long lists of sources from one peer: they are accepted, and delay no other peer.
//! Counts nothing: the tests of the data port do.

use godwit_net::Identity;
use godwit_proto::{Direction, Frame, Open};

use super::asking;
use super::rig::Rig;

#[test]
fn long_lists_of_one_peer_do_not_keep_the_rights_of_another_alive() {
    let mut rig = Rig::new();
    rig.write("export/many/f0", "alpha");
    rig.write("run42/large", vec![7; 16 << 20]);
    rig.start(&[]);
    let other = rig.path("other");
    std::fs::create_dir_all(&other).expect("made");
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
