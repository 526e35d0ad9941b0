//! How often a client tries to open a transfer.
//! Nothing is transferred here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use godwit_engine::session::{Client, Connector, Refusal, run};
use godwit_engine::tuner::Bounds;
use godwit_net::Connection;
use godwit_proto::{DigestKind, Direction, ErrorCode, Open};

/// Refuses for a while like a peer that is away, and then for good.
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
    let open = Open {
        direction: Direction::PUSH.0,
        sources: vec![b"/a".to_vec()],
        names: vec![b"a".to_vec()],
        destination: b"data".to_vec(),
        digest: DigestKind::CRC64_NVME.0.into(),
        ..Open::default()
    };
    let report = run(&client, &open, &mut begin, &mut |_| true);
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
