//! The transfers that run at this daemon, and the thread that sees each to its end.
//! Does not begin them (`open`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_engine::session::Engine;
use godwit_engine::{End, limits};
use godwit_net::IdentityId;
use godwit_proto::limits::TOKENS_MAX;
use godwit_proto::{Token, TransferId};

use crate::allow::No;
use crate::places::Leave;

/// How often a transfer's keeper looks whether its client is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often a client that was asked whether it is there is looked at: about a round trip.
const ANSWER_LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a finished transfer is kept for a client that lost the last word.
const LINGER: Duration = Duration::from_secs(10);

/// How long a transfer is kept for a client that has reached us only beside its data, and is gone: its connections for data did not
/// come about, or it does better with a new one. What it said last may have been lost.
const KEPT_UNREACHED: Duration = Duration::from_secs(10);

/// Tokens in circulation for one transfer: as many as it may have streams.
pub(crate) const TOKENS: usize = limits::STREAMS_MAX as usize;
const _: () = assert!(TOKENS <= TOKENS_MAX);

/// One transfer's end at this daemon.
pub(crate) struct Session {
    pub(crate) transfer: TransferId,
    pub(crate) engine: Engine,
    pub(crate) owner: IdentityId,
    pub(crate) plain_payload: bool,
    /// What identifies the transfer's destination; `None` where there is none to be written by only one.
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) keep_for: Duration,
    /// A stream that carries blocks was there.
    pub(crate) reached: AtomicBool,
    pub(crate) label: String,
    /// No other transfer ran while this one did, so that the process's memory is its own.
    pub(crate) alone: Arc<AtomicBool>,
    pub(crate) resumed: bool,
    pub(crate) lost_bytes: u64,
    /// Where it goes, for people.
    pub(crate) mapped: Vec<u8>,
    /// What only it may write to, as absolute paths.
    pub(crate) writes_to: Vec<Vec<u8>>,
    pub(crate) tokens: Mutex<Vec<Token>>,
    /// What it goes on with as long as nobody takes it back.
    pub(crate) leave: Vec<Leave>,
    /// Streams that the client wants.
    pub(crate) streams_wanted: usize,
    /// Is there once another process was asked to take the same transfer up.
    pub(crate) wanted: Option<PathBuf>,
}

#[derive(Default)]
pub(crate) struct Table {
    sessions: Mutex<HashMap<[u8; 16], Arc<Session>>>,
    /// There was a transfer.
    used: AtomicBool,
    changed: Condvar,
}

impl Session {
    /// Fresh tokens for the client.
    pub(crate) fn issue(&self, count: usize) -> Result<Vec<Vec<u8>>, getrandom::Error> {
        let mut issued = Vec::with_capacity(count);
        let mut tokens = locked(&self.tokens);
        for _ in 0..count {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes)?;
            tokens.push(Token(bytes));
            issued.push(bytes.to_vec());
        }
        Ok(issued)
    }

    /// Whether the token was one of ours; it no longer is one afterwards.
    pub(crate) fn redeem(&self, token: &Token) -> bool {
        let mut tokens = locked(&self.tokens);
        match tokens.iter().position(|known| known == token) {
            Some(index) => {
                tokens.swap_remove(index);
                true
            }
            None => false,
        }
    }

    /// How long it is kept without any stream.
    fn kept_for(&self) -> Duration {
        match self.reached.load(Ordering::Relaxed) {
            true => self.keep_for,
            false => self.keep_for.min(KEPT_UNREACHED),
        }
    }

    fn is_orphan(&self) -> bool {
        self.engine.stream_count() == 0
    }
}

impl Table {
    pub(crate) fn insert(&self, session: &Arc<Session>) {
        let mut sessions = locked(&self.sessions);
        // One whose client is gone does nothing until that comes back, as a session of its own.
        for other in sessions.values().filter(|other| !other.is_orphan()) {
            session.alone.store(false, Ordering::Relaxed);
            other.alone.store(false, Ordering::Relaxed);
        }
        sessions.insert(session.transfer.0, Arc::clone(session));
        self.used.store(true, Ordering::SeqCst);
    }

    /// Streams that the transfers' clients want together; one more comes in any case to open a transfer.
    pub(crate) fn streams_wanted(&self) -> usize {
        let sessions = locked(&self.sessions);
        let wanted: usize = sessions
            .values()
            .map(|session| session.streams_wanted)
            .sum();
        wanted.max(1)
    }

    /// Whether no transfer runs; those whose client is gone do not.
    pub(crate) fn is_at_rest(&self) -> bool {
        locked(&self.sessions)
            .values()
            .all(|session| session.is_orphan())
    }

    pub(crate) fn find(&self, transfer: &TransferId) -> Option<Arc<Session>> {
        locked(&self.sessions).get(&transfer.0).cloned()
    }

    /// Body of a transfer's keeper: waits for the end, for the client to stay away too long, or for `taken_back` to say why the
    /// client may not go on, and cleans up.
    pub(crate) fn keep(
        &self,
        session: &Session,
        taken_back: &dyn Fn(&Session) -> Option<No>,
    ) -> End {
        let mut alive = Instant::now();
        let mut linger = None;
        let mut was_taken_back = false;
        let end = loop {
            if let Some(end) = session.engine.wait(LOOK_EVERY) {
                if session.is_orphan() || !matches!(end, End::Finished(_)) {
                    break end;
                }
                if linger.get_or_insert_with(Instant::now).elapsed() > LINGER {
                    break end;
                }
                self.wait(LOOK_EVERY);
            }
            session.engine.tune();
            // Twice in a row: a file that somebody writes afresh is empty for a moment.
            match taken_back(session) {
                Some(no) if was_taken_back => session.engine.fail(no.code, &no.message),
                found => was_taken_back = found.is_some(),
            }
            if !session.is_orphan() {
                alive = Instant::now();
            } else if alive.elapsed() >= session.kept_for() {
                session.engine.cancel("the client did not come back");
            } else if session
                .wanted
                .as_ref()
                .is_some_and(|wanted| wanted.exists())
            {
                session.engine.cancel("the same transfer was started again");
            }
        };
        session.engine.join();
        locked(&self.sessions).remove(&session.transfer.0);
        self.changed.notify_all();
        end
    }

    /// A stream has ended.
    pub(crate) fn stream_ended(&self) {
        self.changed.notify_all();
    }

    /// Ends the transfer with this key if its client is gone, or goes within `patience`. Returns whether none is left:
    /// false at once if the client, asked now, shows that it is there.
    pub(crate) fn supersede(&self, key: &[u8; 32], owner: &IdentityId, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut sessions = locked(&self.sessions);
        let mut asked = None;
        loop {
            let Some(session) = sessions
                .values()
                .find(|session| session.key.as_ref() == Some(key))
            else {
                return true;
            };
            if session.owner != *owner {
                return false;
            }
            if session.is_orphan() {
                session.engine.cancel("the same transfer was started again");
            } else if let Engine::Receiver(receiver) = &session.engine {
                let question = *asked.get_or_insert_with(|| receiver.ask_sender());
                if receiver.sender_answered(question) {
                    return false;
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            sessions = self
                .changed
                .wait_timeout(sessions, left.min(ANSWER_LOOK_EVERY))
                .map_or_else(|poisoned| poisoned.into_inner().0, |(sessions, _)| sessions);
        }
    }

    /// Ends this owner's transfer that writes to `destination`, an absolute path, if its client is gone. Returns whether there
    /// was one, and is none any more, within `patience`.
    pub(crate) fn end_orphan(
        &self,
        destination: &[u8],
        owner: &IdentityId,
        patience: Duration,
    ) -> bool {
        let until = Instant::now() + patience;
        let mut sessions = locked(&self.sessions);
        let mut any = false;
        loop {
            let mut left = false;
            for session in sessions.values() {
                if session.owner == *owner
                    && session.is_orphan()
                    && session.writes_to.iter().any(|path| path == destination)
                {
                    session
                        .engine
                        .cancel("another transfer to its destination was started");
                    (any, left) = (true, true);
                }
            }
            let time = until.saturating_duration_since(Instant::now());
            if !left || time.is_zero() {
                return any && !left;
            }
            sessions = self
                .changed
                .wait_timeout(sessions, time.min(ANSWER_LOOK_EVERY))
                .map_or_else(|poisoned| poisoned.into_inner().0, |(sessions, _)| sessions);
        }
    }

    pub(crate) fn stop_all(&self, reason: &str) {
        for session in locked(&self.sessions).values() {
            session.engine.cancel(reason);
        }
    }

    pub(crate) fn wait_until_empty(&self) {
        let mut sessions = locked(&self.sessions);
        while !sessions.is_empty() {
            sessions = self
                .changed
                .wait(sessions)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until there was a transfer, and is none.
    pub(crate) fn wait_until_over(&self) {
        let mut sessions = locked(&self.sessions);
        while !sessions.is_empty() || !self.used.load(Ordering::SeqCst) {
            sessions = self
                .changed
                .wait(sessions)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A transfer that never came to run.
    pub(crate) fn remove(&self, transfer: &TransferId) {
        locked(&self.sessions).remove(&transfer.0);
        self.changed.notify_all();
    }

    fn wait(&self, time: Duration) {
        let sessions = locked(&self.sessions);
        // Whatever ended the wait, the caller looks.
        drop(self.changed.wait_timeout(sessions, time));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use godwit_engine::synthetic::NullSink;
    use godwit_engine::tuner::Bounds;
    use godwit_engine::{Counters, Live, Observer, Receiver, ReceiverConfig, Sink};
    use godwit_net::{Connection, Stream, StreamOptions, local_pair};
    use godwit_proto::{DigestKind, Frame, Pong, decode};

    use super::*;

    struct Deaf;

    impl Observer for Deaf {
        fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
    }

    const KEY: [u8; 32] = [1; 32];
    /// Nobody waits so long: a test that did would never end.
    const ENDLESS: Duration = Duration::from_secs(24 * 3600);

    /// A transfer in a table, with one stream, whose client is the test.
    fn running(table: &Table) -> (Arc<Session>, Connection, std::thread::JoinHandle<()>) {
        let counters = Arc::new(Counters::default());
        let for_sink = Arc::clone(&counters);
        let config = ReceiverConfig {
            transfer: TransferId([7; 16]),
            digest: DigestKind::CRC64_NVME,
            block_bytes: 4096,
            observer: Arc::new(Deaf),
            resources: Arc::new(|| None),
            comparison: None,
            itemise: false,
        };
        let make = Box::new(move |acks| -> std::io::Result<Arc<dyn Sink>> {
            Ok(Arc::new(NullSink::new(acks, for_sink)))
        });
        let live = Arc::new(Live::receiving(Bounds::fixed(0)));
        let receiver = Receiver::start(config, make, live, counters).unwrap();
        let (mut near, mut far) = local_pair(&StreamOptions::default()).unwrap();
        let serving = Arc::clone(&receiver);
        let thread = std::thread::spawn(move || drop(serving.run_stream(&mut far)));
        let session = Arc::new(Session {
            transfer: TransferId([7; 16]),
            engine: Engine::Receiver(receiver),
            owner: owner(),
            plain_payload: false,
            key: Some(KEY),
            keep_for: ENDLESS,
            reached: AtomicBool::new(true),
            label: String::new(),
            alone: Arc::default(),
            resumed: false,
            lost_bytes: 0,
            mapped: Vec::new(),
            writes_to: vec![b"/data/run42".to_vec()],
            tokens: Mutex::default(),
            leave: Vec::new(),
            streams_wanted: 1,
            wanted: None,
        });
        table.insert(&session);
        // It says how things stand as soon as it is served.
        while near.try_recv().unwrap().is_none() {
            near.wait(ENDLESS).unwrap();
        }
        (session, near, thread)
    }

    fn owner() -> IdentityId {
        format!("gw1-{}", "a".repeat(52)).parse().unwrap()
    }

    #[test]
    fn a_client_that_answers_keeps_its_transfer_and_the_second_one_hears_so_at_once() {
        let table = Table::default();
        let (session, mut near, thread) = running(&table);
        let client = std::thread::spawn(move || {
            while let Ok(frame) = near.try_recv() {
                let Some((prelude, head)) = frame else {
                    near.wait(ENDLESS).unwrap();
                    continue;
                };
                if let Frame::Ping(ping) = decode(&prelude, &head).unwrap() {
                    let mut head = Vec::new();
                    Pong { nonce: ping.nonce }.encode(&mut head);
                    near.send(&head, &[]).unwrap();
                }
            }
        });
        assert!(!table.supersede(&KEY, &owner(), ENDLESS));
        assert!(session.engine.end().is_none());
        session.engine.cancel("over");
        thread.join().unwrap();
        client.join().unwrap();
        session.engine.join();
    }

    #[test]
    fn a_client_that_was_reached_only_beside_its_data_is_not_waited_for_as_long() {
        let table = Table::default();
        let (session, near, thread) = running(&table);
        assert_eq!(session.kept_for(), ENDLESS);
        session.reached.store(false, Ordering::Relaxed);
        drop(near);
        thread.join().unwrap();
        // It would never end otherwise.
        let end = table.keep(&session, &|_| None);
        assert!(matches!(end, End::Cancelled(reason) if reason.contains("did not come back")));
    }

    #[test]
    fn a_client_that_is_silent_and_then_gone_makes_way() {
        let table = Table::default();
        let (session, near, thread) = running(&table);
        assert!(!table.supersede(&KEY, &owner(), Duration::from_millis(1)));
        drop(near);
        thread.join().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| table.keep(&session, &|_| None));
            assert!(table.supersede(&KEY, &owner(), ENDLESS));
        });
        assert!(matches!(session.engine.end(), Some(End::Cancelled(_))));
    }
}
