//! Keeps the streams of a client's transfer running: one thread each, which rejoins when its stream is lost. Opens no
//! transfer, and does not know how connections are made.
//!
//! The link grows by threads that join, and shrinks by streams that retire.

mod channel_streams;

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_net::{Connection, Stream};
use godwit_proto::hello::capability;
use godwit_proto::{
    CHANNELS_MAX, ErrorCode, Frame, Hello, Join, Token, TransferId, VersionMismatch, negotiate,
};

use self::channel_streams::{ChannelStreams, Thread};
use super::client::Client;
use super::connect::{Connector, Refusal};
use super::{Engine, GreetError, HELLO_DEADLINE, our_hello, receive_frame};
use crate::tuner::Bounds;
use crate::{limits, lock};

/// Backoff before the first retry; doubles up to [`BACKOFF_MAX`].
pub(super) const BACKOFF_FIRST: Duration = Duration::from_millis(100);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Initial streams of the first channel if the tuner chooses: after measuring, it adds the streams that a long path
/// needs.
const STREAMS_FIRST: u32 = 2;
/// After a stream that ran for this long, the next attempt waits only for [`BACKOFF_FIRST`].
const LASTED: Duration = Duration::from_secs(1);
/// Most tokens that are kept.
const TOKENS_MAX: usize = 2 * limits::STREAMS_MAX as usize;

/// State shared by the threads that keep streams running.
pub(super) struct Link {
    connector: Arc<dyn Connector>,
    transfer: TransferId,
    plain_payload: bool,
    /// The first stream carries some blocks while no other stream exists; they may suffice for the whole transfer.
    early: bool,
    tokens: Mutex<Vec<Token>>,
    state: Mutex<LinkState>,
    changed: Condvar,
}

#[derive(Default)]
struct LinkState {
    stopping: bool,
    /// The daemon no longer knows the transfer: it was restarted, or gave up the transfer.
    forgotten: bool,
    last_loss: Option<String>,
    /// Number of streams that carry blocks now.
    carriers: usize,
    /// Whether a stream ever carried blocks.
    carried: bool,
    /// Number of the engine's streams of all kinds.
    running: usize,
    /// The reason why no stream for blocks could be made, and none will be.
    refused: Option<(ErrorCode, String)>,
    /// The channels, by their numbers.
    per_channel: Vec<ChannelStreams>,
    /// Threads started so far, for their names.
    started: u64,
    /// Whether the other end lets streams leave in order.
    retires: bool,
}

/// A stream that is, or will be, attached to the engine.
pub(super) struct LinkedStream {
    connection: Connection,
    // Dropped after the connection, so that a thread that waits for this drop finds the connection closed.
    link: Arc<Link>,
}

impl Drop for LinkedStream {
    fn drop(&mut self) {
        lock(&self.link.state).running -= 1;
        self.link.changed.notify_all();
    }
}

/// Main function of a thread that keeps one stream running, over one channel, until the transfer ends.
fn keep_stream(link: &Arc<Link>, engine: &Engine, channel: u32, mut stream: Option<LinkedStream>) {
    let carries = |stream: &LinkedStream| stream.connection.carries_blocks();
    let mut thread = stream
        .as_ref()
        .is_none_or(carries)
        .then(|| Thread::new(link, channel));
    let mut backoff = BACKOFF_FIRST;
    loop {
        if let Some(mut running) = stream.take() {
            let connection = &mut running.connection;
            let carries = connection.carries_blocks();
            link.count(carries, true);
            let begun = Instant::now();
            let result = engine.run_stream(connection);
            if begun.elapsed() >= LASTED {
                backoff = BACKOFF_FIRST;
            }
            link.count(carries, false);
            drop(running);
            match result {
                Ok(()) => return,
                Err(loss) => {
                    lock(&link.state).last_loss = Some(loss.to_string());
                    if !loss.is_retryable() && engine.stream_count() == 0 {
                        // The peer broke the protocol, so no other thread can continue with it.
                        engine.fail(loss.code(), &loss.to_string());
                        return;
                    }
                }
            }
            if !carries {
                return;
            }
            if !link.rest(backoff, engine) {
                return;
            }
            // The backoff does not restart with a new stream, because a daemon that accepts and drops every stream
            // would be asked without pause.
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
        if thread.as_mut().is_some_and(Thread::leaves_surplus) {
            return;
        }
        match link.join(channel) {
            Ok(connection) => {
                let Some(running) = link.begin(connection) else {
                    return;
                };
                stream = Some(running);
                continue;
            }
            Err(Refusal::Daemon {
                code: ErrorCode::UNKNOWN_TRANSFER | ErrorCode::BAD_TOKEN,
                ..
            })
            | Err(Refusal::Gone(_)) => {
                if engine.end().is_none() && engine.stream_count() == 0 {
                    lock(&link.state).forgotten = true;
                    return;
                }
            }
            // There will be room as soon as streams of other channels have left.
            Err(Refusal::Daemon {
                code: ErrorCode::LIMIT,
                ..
            }) if channel > 0 => {}
            Err(refusal) => {
                lock(&link.state).last_loss = Some(refusal.to_string());
                if channel > 0 {
                    // Another machine may answer there for a while; the first channel decides about the transfer.
                    backoff = BACKOFF_MAX;
                } else if !refusal.is_retryable() {
                    if link.early {
                        link.note_refusal(&refusal);
                    } else if link.carrier_count() == 0 {
                        engine.fail(refusal.code(), &refusal.to_string());
                    }
                    return;
                }
            }
        }
        if !link.rest(backoff, engine) {
            return;
        }
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

impl Link {
    pub(super) fn new(
        client: &Client,
        transfer: TransferId,
        plain_payload: bool,
        early: bool,
        tokens: Vec<Token>,
    ) -> Self {
        Self {
            connector: Arc::clone(&client.connector),
            transfer,
            plain_payload,
            early,
            tokens: Mutex::new(tokens),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether the daemon no longer knows the transfer.
    pub(super) fn is_forgotten(&self) -> bool {
        lock(&self.state).forgotten
    }

    /// Whether a stream carries blocks. Also true until the first stream has tried.
    pub(super) fn is_alive(&self) -> bool {
        let state = lock(&self.state);
        state.carriers > 0 || !state.carried
    }

    /// Why the last stream broke, or could not be made.
    pub(super) fn last_loss(&self) -> String {
        lock(&self.state).last_loss.clone().unwrap_or_default()
    }

    /// Attaches a stream to the engine; `None` if the transfer has ended.
    pub(super) fn begin(self: &Arc<Self>, connection: Connection) -> Option<LinkedStream> {
        let mut state = lock(&self.state);
        if state.stopping {
            return None;
        }
        state.running += 1;
        drop(state);
        Some(LinkedStream {
            connection,
            link: Arc::clone(self),
        })
    }

    /// Keeps streams running over every known channel, each within its part of `bounds`; older channels release the
    /// share of new ones. The first channel already has `first`.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn spread(
        self: &Arc<Self>,
        engine: &Engine,
        bounds: Bounds,
        mut first: Option<LinkedStream>,
    ) -> std::io::Result<()> {
        let known = self.channels();
        let channels = self.connector.channels().min(CHANNELS_MAX);
        if known >= channels {
            return Ok(());
        }
        for channel in 0..known {
            let most = bounds.part(channel, channels).most;
            if self.wanted(channel) > most && self.may_change(engine) {
                self.set_streams(engine, channel, most);
            }
        }
        for channel in known..channels {
            let usual = if channel == 0 { STREAMS_FIRST } else { 1 };
            let wanted = bounds.part(channel, channels).hold(usual);
            // A stream that carries no blocks is added to those that do.
            let extra = first
                .as_ref()
                .is_some_and(|first| !first.connection.carries_blocks());
            lock(&self.state).per_channel.push(ChannelStreams {
                wanted,
                ..ChannelStreams::default()
            });
            for _ in 0..wanted + u32::from(extra) {
                self.keep(engine, channel, first.take())?;
            }
        }
        Ok(())
    }

    /// Starts a thread that keeps one stream running. The thread ends with its stream, or when it has no stream and the
    /// transfer is over.
    fn keep(
        self: &Arc<Self>,
        engine: &Engine,
        channel: u32,
        stream: Option<LinkedStream>,
    ) -> std::io::Result<()> {
        // A stream that carries no blocks does not count for the channel.
        let counts = stream
            .as_ref()
            .is_none_or(|stream| stream.connection.carries_blocks());
        let (link, own) = (Arc::clone(self), engine.clone());
        let body = move || keep_stream(&link, &own, channel, stream);
        let mut state = lock(&self.state);
        let staying: u32 = state.per_channel.iter().map(ChannelStreams::staying).sum();
        if staying >= limits::STREAMS_MAX {
            return Ok(());
        }
        let threads: u32 = state
            .per_channel
            .iter()
            .map(|channel_streams| channel_streams.threads)
            .sum();
        let name = format!("gw-stream-{}", state.started);
        // Counted before the thread can end.
        if counts && let Some(channel_streams) = state.streams_of(channel) {
            channel_streams.threads += 1;
        }
        // Released here, because a thread that cannot be started drops its stream, which takes this lock.
        drop(state);
        let spawned = std::thread::Builder::new().name(name).spawn(body);
        let mut state = lock(&self.state);
        match spawned {
            Ok(_) => state.started += 1,
            Err(error) => {
                if counts && let Some(channel_streams) = state.streams_of(channel) {
                    channel_streams.threads -= 1;
                }
                // The existing threads continue.
                if threads == 0 {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The reason why the transfer cannot continue for lack of streams, if so.
    pub(super) fn stuck(&self, engine: &Engine) -> Option<(ErrorCode, String)> {
        let state = lock(&self.state);
        if state.running > 0 && !engine.wants_stream() {
            return None;
        }
        state.refused.clone()
    }

    /// Stops the threads that keep streams running, and waits until no stream is left. Connections still being made are
    /// not waited for: they are dropped once made.
    pub(super) fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopping = true;
        self.changed.notify_all();
        while state.running > 0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stores the other end's capabilities.
    pub(super) fn note_hello(&self, theirs: &Hello) {
        lock(&self.state).retires = theirs.capabilities & capability::RETIRE != 0;
    }

    fn note_refusal(&self, refusal: &Refusal) {
        let mut state = lock(&self.state);
        if state.carriers == 0 {
            state.refused = Some((refusal.code(), refusal.to_string()));
        }
    }

    fn carrier_count(&self) -> usize {
        lock(&self.state).carriers
    }

    fn count(&self, carries: bool, comes: bool) {
        if carries {
            let mut state = lock(&self.state);
            state.carried = true;
            if comes {
                state.carriers += 1;
                state.refused = None;
            } else {
                state.carriers -= 1;
            }
        }
    }

    /// Pauses. Returns false if the transfer has ended meanwhile.
    fn rest(&self, time: Duration, engine: &Engine) -> bool {
        let until = Instant::now() + time;
        let mut state = lock(&self.state);
        loop {
            if state.stopping || state.forgotten || engine.end().is_some() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    fn join(&self, channel: u32) -> Result<Connection, Refusal> {
        let Some(token) = lock(&self.tokens).pop() else {
            // The tokens were lost with streams that broke while they were joining.
            return Err(Refusal::Daemon {
                peer: self.connector.peer(),
                code: ErrorCode::BAD_TOKEN,
                message: "no tokens left".to_owned(),
                retryable: false,
            });
        };
        let mut stream = self
            .connector
            .join(channel)
            .inspect_err(|_| lock(&self.tokens).push(token))?;
        let mut head = Vec::new();
        our_hello().encode(&mut head);
        Join::new(self.transfer, token, channel).encode(&mut head);
        let back = |refusal: Refusal| {
            match &refusal {
                Refusal::Daemon {
                    code: ErrorCode::BAD_TOKEN | ErrorCode::UNKNOWN_TRANSFER,
                    ..
                } => {}
                // The token was not examined, so it can be used for another attempt.
                Refusal::Daemon { .. } => lock(&self.tokens).push(token),
                // Whether the token arrived is unknown. It is used again when no other token is left.
                _ => lock(&self.tokens).insert(0, token),
            }
            refusal
        };
        let sent = stream.send_all(&head).map_err(GreetError::from);
        sent.map_err(|error| back(error.into()))?;
        self.note_hello(&expect_hello(&mut stream).map_err(back)?);
        let answer = receive_frame(&mut stream, HELLO_DEADLINE);
        match answer.map_err(|error| back(error.into()))? {
            Frame::Joined(joined) => {
                let mut tokens = lock(&self.tokens);
                // Keeps only as many as can be useful, even if a daemon sends more.
                let room = TOKENS_MAX.saturating_sub(tokens.len());
                tokens.extend(
                    joined
                        .tokens
                        .iter()
                        .filter_map(|token| Token::try_from(token.as_slice()).ok())
                        .take(room),
                );
                drop(tokens);
                stream.set_plain_payload(self.plain_payload);
                stream.set_channel(channel);
                Ok(stream)
            }
            other => Err(back(unexpected(&stream, other))),
        }
    }
}

pub(super) fn expect_hello(stream: &mut Connection) -> Result<Hello, Refusal> {
    match receive_frame(stream, HELLO_DEADLINE)? {
        Frame::Hello(theirs) => {
            let agreed: Result<_, VersionMismatch> = negotiate(&our_hello(), &theirs);
            agreed.map_err(|mismatch| GreetError::Version {
                peer: stream.peer(),
                mismatch,
            })?;
            Ok(theirs)
        }
        Frame::Error(error) => Err(unexpected(stream, Frame::Error(error))),
        other => Err(GreetError::Unexpected {
            peer: stream.peer(),
            what: format!("{} instead of hello", other.name()),
        }
        .into()),
    }
}

pub(super) fn unexpected(stream: &Connection, frame: Frame) -> Refusal {
    match frame {
        Frame::Error(error) => Refusal::Daemon {
            peer: stream.peer(),
            code: ErrorCode::received(error.code),
            message: error.message,
            retryable: error.retryable,
        },
        other => GreetError::Unexpected {
            peer: stream.peer(),
            what: format!("a {} frame instead of an answer", other.name()),
        }
        .into(),
    }
}
