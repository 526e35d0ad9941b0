//! Tests requests whose sources take several frames: which are read, and how many at once.

use godwit_api::grant::Grant;
use godwit_net::{Connection, Identity, local_pair};
use godwit_proto::{DigestKind, Direction, Mandate, Verification};

use super::*;
use crate::begin::tests::daemon;
use crate::{Daemon, Grants};

const WAIT: Duration = Duration::from_secs(60);

/// The first frame of a pull with this source; another one follows.
fn first(source: &str) -> Open {
    Open {
        direction: Direction::PULL.0,
        digest: DigestKind::CRC64_NVME.0.into(),
        sources: vec![source.as_bytes().to_vec()],
        destination: b"/copy".to_vec(),
        more: true,
        ..Open::default()
    }
}

/// Sends the first frame of a request to a daemon.
fn begun(daemon: &Daemon, request: Open) -> (Connection, std::thread::JoinHandle<()>) {
    let (near, mut far) = local_pair(&StreamOptions::default()).expect("a connection");
    let shared = Arc::clone(&daemon.shared);
    let peer = daemon.shared.own;
    let body = move || dispatch(&shared, &mut far, peer, Frame::Open(request));
    (near, std::thread::spawn(body))
}

fn refused(stream: &mut Connection) -> ErrorCode {
    match receive_frame(stream, WAIT) {
        Ok(Frame::Error(error)) => error.code(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_long_list_is_heard_from_those_alone_who_may_have_what_it_begins_with() {
    let home = tempfile::tempdir().expect("a directory");
    let identity = Identity::load_or_create(home.path()).expect("a key");
    let grant = [&identity.id().to_string(), "data:/mine", "read"].map(ToString::to_string);
    let words: Vec<&str> = grant.iter().map(String::as_str).collect();
    let grant = Grant::of_words(&words).expect("a grant");
    Grants::new(home.path()).add(&grant).expect("granted");
    let mut daemon = daemon(home.path(), &identity);
    // The rest never arrives, because the right is checked first.
    let (mut near, serving) = begun(&daemon, first("data/theirs"));
    assert_eq!(refused(&mut near), ErrorCode::NOT_GRANTED);
    serving.join().expect("served");
    // The sources of a job are counted before the right to any of them is looked up.
    let many = Open {
        sources: vec![b"data/theirs".to_vec(); 1_025],
        mandate: Some(Mandate {
            asker: identity.id().to_string(),
            job: "j".to_owned(),
        }),
        ..first("data/theirs")
    };
    let (mut near, serving) = begun(&daemon, many);
    assert_eq!(refused(&mut near), ErrorCode::NOT_SUPPORTED);
    serving.join().expect("served");
    // Only a few permitted requests are handled at the same time.
    let mut waiting = Vec::new();
    let code = loop {
        let (mut near, serving) = begun(&daemon, first("data/mine/a"));
        // A request without an answer was admitted; a refusal would arrive soon.
        let answer = receive_frame(&mut near, Duration::from_millis(50));
        waiting.push((near, serving));
        if let Ok(Frame::Error(error)) = answer {
            break error.code();
        }
        assert!(waiting.len() < 100, "{} are handled", waiting.len());
    };
    assert_eq!(code, ErrorCode::LIMIT);
    // If too many requests are handled, no right is looked up.
    let (mut near, serving) = begun(&daemon, first("data/theirs"));
    assert_eq!(refused(&mut near), ErrorCode::LIMIT);
    serving.join().expect("served");
    for (near, serving) in waiting {
        drop(near);
        serving.join().expect("served");
    }
    daemon.stop();
}

/// A sync holds up all others that use the file system.
#[test]
fn a_peer_that_may_only_read_has_no_copy_made_durable() {
    let home = tempfile::tempdir().expect("a directory");
    let identity = Identity::load_or_create(home.path()).expect("a key");
    for (place, rights) in [("data:/mine", "read"), ("data:/both", "read,write")] {
        let subject = identity.id().to_string();
        let grant = Grant::of_words(&[&subject, place, rights]).expect("a grant");
        Grants::new(home.path()).add(&grant).expect("granted");
    }
    let mut daemon = daemon(home.path(), &identity);
    for name in ["mine", "both"] {
        std::fs::create_dir_all(home.path().join("export").join(name)).expect("made");
    }
    let answer = |place: &str, durable: bool| {
        let request = Open {
            direction: Direction::VERIFY.0,
            destination: Vec::new(),
            more: false,
            verification: Some(Verification {
                durable,
                ..Verification::default()
            }),
            ..first(place)
        };
        let (mut near, serving) = begun(&daemon, request);
        let answer = receive_frame(&mut near, WAIT);
        drop(near);
        serving.join().expect("served");
        match answer {
            Ok(Frame::Opened(opened)) => Ok(opened.durable),
            Ok(Frame::Error(error)) => Err(error.code()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(answer("data/mine", false), Ok(false));
    assert_eq!(answer("data/mine", true), Err(ErrorCode::NOT_GRANTED));
    assert_eq!(answer("data/both", true), Ok(true));
    daemon.stop();
}
