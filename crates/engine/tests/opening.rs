//! Tests how often a client tries to open a transfer, and which requests it does not send to an older daemon.
//! No data is transferred here.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use godwit_engine::session::{Client, Connector, Refusal, receive_frame, run};
use godwit_engine::tuner::Bounds;
use godwit_net::{Connection, Stream as _, StreamOptions, local_pair};
use godwit_proto::hello::capability;
use godwit_proto::{DigestKind, Direction, ErrorCode, Frame, Hello, Open};

/// Refuses for a while like an unavailable peer, and then permanently.
struct Away {
    attempts: AtomicU32,
}

const AWAY_FOR: u32 = 2;

impl Connector for Away {
    fn open(&self, _first: &[u8]) -> Result<Connection, Refusal> {
        match self.attempts.fetch_add(1, Ordering::Relaxed) {
            0..AWAY_FOR => Err(Refusal::Gone("nobody is there".to_owned())),
            _ => Err(Refusal::own(ErrorCode::INTERNAL, "enough")),
        }
    }

    fn join(&self, _channel: u32) -> Result<Connection, Refusal> {
        Err(Refusal::own(ErrorCode::INTERNAL, "nothing was opened"))
    }

    fn peer(&self) -> String {
        "h".to_owned()
    }
}

/// A daemon without some capabilities, which answers HELLO and nothing else. Keeps its end of the connection.
struct Older {
    lacks: u64,
    end: Mutex<Option<Connection>>,
}

impl Connector for Older {
    fn open(&self, first: &[u8]) -> Result<Connection, Refusal> {
        let (mut near, mut far) = local_pair(&StreamOptions::default()).expect("a pair");
        near.send_all(first).expect("sent");
        let mut head = Vec::new();
        Hello::ours("godwit 0.0", capability::ALL & !self.lacks).encode(&mut head);
        far.send_all(&head).expect("sent");
        *self.end.lock().expect("no panic") = Some(far);
        Ok(near)
    }

    fn join(&self, _channel: u32) -> Result<Connection, Refusal> {
        Err(Refusal::own(ErrorCode::INTERNAL, "nothing was opened"))
    }

    fn peer(&self) -> String {
        "h".to_owned()
    }
}

/// An older daemon would ignore the field, and report names that the owner of the job may not see.
#[test]
fn a_push_that_hides_what_its_owner_may_not_see_is_not_opened_at_a_daemon_that_hides_nothing() {
    let connector = Arc::new(Older {
        lacks: capability::OWNER_SIGHT,
        end: Mutex::default(),
    });
    let client = Client {
        connector: Arc::clone(&connector) as Arc<dyn Connector>,
        streams: Bounds::fixed(1),
        retry_for: Duration::ZERO,
        once: None,
        retries_first: false,
    };
    let mut begin = |_: &_, _| Err(Refusal::own(ErrorCode::INTERNAL, "nothing begins"));
    let open = Open {
        may_not_list: true,
        ..push()
    };
    let report = run(&client, &open, &mut begin, &mut |_| true);
    let why = report.end.expect_err("refused").to_string();
    for word in ["too old", "may not list", "nothing was started"] {
        assert!(why.contains(word), "{why}");
    }
    let end = connector.end.lock().expect("no panic").take();
    let mut end = end.expect("a connection");
    let mut receive = || receive_frame(&mut end, Duration::from_secs(10));
    assert!(matches!(receive(), Ok(Frame::Hello(_))));
    assert!(receive().is_err(), "only HELLO came");
}

fn push() -> Open {
    Open {
        direction: Direction::PUSH.0,
        sources: vec![b"/a".to_vec()],
        names: vec![b"a".to_vec()],
        destination: b"data".to_vec(),
        digest: DigestKind::CRC64_NVME.0.into(),
        ..Open::default()
    }
}

fn attempts(retries_first: bool, retry_for: Duration) -> u32 {
    let connector = Arc::new(Away {
        attempts: AtomicU32::new(0),
    });
    let client = Client {
        connector: Arc::clone(&connector) as Arc<dyn Connector>,
        streams: Bounds::fixed(1),
        retry_for,
        once: None,
        retries_first,
    };
    let mut begin = |_: &_, _| Err(Refusal::own(ErrorCode::INTERNAL, "nothing begins"));
    let report = run(&client, &push(), &mut begin, &mut |_| true);
    assert!(report.engine.is_none());
    let end = report.end.err().map(|refusal| refusal.to_string());
    assert!(end.is_none_or(|why| !why.contains("cannot be made")));
    connector.attempts.load(Ordering::Relaxed)
}

#[test]
fn the_connection_that_opens_a_transfer_is_retried_for_who_asks_for_it() {
    let long = Duration::from_secs(3600);
    assert_eq!(attempts(false, long), 1);
    assert_eq!(attempts(true, long), AWAY_FOR + 1);
    assert_eq!(attempts(true, Duration::ZERO), 1);
}
