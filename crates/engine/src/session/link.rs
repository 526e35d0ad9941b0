//! Keeps the streams of a client's transfer up: a thread each, which joins again when its stream is lost.
//! Opens no transfer, and does not know how connections are made.
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

/// Waiting time before the first new attempt; doubles up to [`BACKOFF_MAX`].
pub(super) const BACKOFF_FIRST: Duration = Duration::from_millis(100);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Streams of the first channel to begin with where the tuner chooses: it adds what a long way needs once it has seen them.
const STREAMS_FIRST: u32 = 2;
/// A stream that was up for so long makes the next attempt wait for [`BACKOFF_FIRST`] only.
const LASTED: Duration = Duration::from_secs(1);
/// Most tokens that are kept.
const TOKENS_MAX: usize = 2 * limits::STREAMS_MAX as usize;

/// Shared by the threads that keep streams up.
pub(super) struct Link {
    connector: Arc<dyn Connector>,
    transfer: TransferId,
    plain_payload: bool,
    /// The first stream carries some blocks while there is no other, and that may be all there are.
    early: bool,
    tokens: Mutex<Vec<Token>>,
    state: Mutex<LinkState>,
    changed: Condvar,
}

#[derive(Default)]
struct LinkState {
    stopping: bool,
    /// The daemon no longer knows the transfer: it was restarted, or gave up on us.
    forgotten: bool,
    last_loss: Option<String>,
    /// Streams that carry blocks now.
    carriers: usize,
    /// There was one.
    carried: bool,
    /// Streams that the engine has, of any kind.
    running: usize,
    /// Why none that carries blocks came about, and none will.
    refused: Option<(ErrorCode, String)>,
    /// The channels, by their numbers.
    per_channel: Vec<ChannelStreams>,
    /// Threads that were ever started, for their names.
    started: u64,
    /// The other end lets streams leave in order.
    retires: bool,
}

/// A stream that the engine has, or will have at once.
pub(super) struct Running {
    connection: Connection,
    // After the connection: whoever waits for this finds it closed.
    link: Arc<Link>,
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.link.state).running -= 1;
        self.link.changed.notify_all();
    }
}

/// Body of a thread that keeps one stream up, over one channel, until the transfer ends.
fn keep_stream(link: &Arc<Link>, engine: &Engine, channel: u32, mut stream: Option<Running>) {
    let carries = |stream: &Running| stream.connection.carries_blocks();
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
                        // Nobody else is left to carry on with a peer that breaks the rules.
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
            // Not as soon as there is another: a daemon that takes each stream and drops it would be asked without a rest.
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
            // There is room again as soon as streams of other channels have left.
            Err(Refusal::Daemon {
                code: ErrorCode::LIMIT,
                ..
            }) if channel > 0 => {}
            Err(refusal) => {
                lock(&link.state).last_loss = Some(refusal.to_string());
                if channel > 0 {
                    // Whoever answers there may be another one for a while; the first channel decides about the transfer.
                    backoff = BACKOFF_MAX;
                } else if !refusal.is_retryable() {
                    if link.early {
                        link.note_refusal(&refusal);
                    } else if link.carriers() == 0 {
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

    /// The daemon no longer knows the transfer.
    pub(super) fn is_forgotten(&self) -> bool {
        lock(&self.state).forgotten
    }

    /// A stream carries blocks, or none has tried to yet.
    pub(super) fn is_alive(&self) -> bool {
        let state = lock(&self.state);
        state.carriers > 0 || !state.carried
    }

    /// What broke the last stream, or kept the last one from coming about.
    pub(super) fn last_loss(&self) -> String {
        lock(&self.state).last_loss.clone().unwrap_or_default()
    }

    /// Gives a stream to the engine; `None` if the transfer is over.
    pub(super) fn begin(self: &Arc<Self>, connection: Connection) -> Option<Running> {
        let mut state = lock(&self.state);
        if state.stopping {
            return None;
        }
        state.running += 1;
        drop(state);
        Some(Running {
            connection,
            link: Arc::clone(self),
        })
    }

    /// Has streams kept up over every channel that there is by now, each within its part of `bounds`; those that were there
    /// before give up what is the part of others now. The first channel has `first` already.
    ///
    /// # Errors
    /// Not even one thread can be started.
    pub(super) fn spread(
        self: &Arc<Self>,
        engine: &Engine,
        bounds: Bounds,
        mut first: Option<Running>,
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
            // One that carries no blocks comes on top of those that do.
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

    /// Starts a thread that keeps one stream up; it ends with its stream, or when it has none and the transfer is over.
    fn keep(
        self: &Arc<Self>,
        engine: &Engine,
        channel: u32,
        stream: Option<Running>,
    ) -> std::io::Result<()> {
        // One that carries no blocks is none of the channel's streams.
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
        // Counted before it can end.
        if counts && let Some(channel_streams) = state.streams_of(channel) {
            channel_streams.threads += 1;
        }
        // Not under the lock: a thread that cannot be started drops its stream, which takes it.
        drop(state);
        let spawned = std::thread::Builder::new().name(name).spawn(body);
        let mut state = lock(&self.state);
        match spawned {
            Ok(_) => state.started += 1,
            Err(error) => {
                if counts && let Some(channel_streams) = state.streams_of(channel) {
                    channel_streams.threads -= 1;
                }
                // Those that there are do.
                if threads == 0 {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Why the transfer cannot go on for want of streams, if that is so.
    pub(super) fn stuck(&self, engine: &Engine) -> Option<(ErrorCode, String)> {
        let state = lock(&self.state);
        if state.running > 0 && !engine.wants_stream() {
            return None;
        }
        state.refused.clone()
    }

    /// Sends the threads that keep streams up home, and waits until no stream is left. Those that are only being made are
    /// not waited for: they are dropped when they are there.
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

    /// What the other end can do.
    pub(super) fn note_hello(&self, theirs: &Hello) {
        lock(&self.state).retires = theirs.capabilities & capability::RETIRE != 0;
    }

    fn note_refusal(&self, refusal: &Refusal) {
        let mut state = lock(&self.state);
        if state.carriers == 0 {
            state.refused = Some((refusal.code(), refusal.to_string()));
        }
    }

    fn carriers(&self) -> usize {
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

    /// False when the transfer has ended meanwhile.
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
            // Lost with streams that broke while they were joining.
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
                // Refused before it was looked at: it is good for another attempt.
                Refusal::Daemon { .. } => lock(&self.tokens).push(token),
                // Nobody knows whether it arrived: it is tried again when there is no other.
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
                // As many as are ever of use, whatever a daemon says.
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
            code: ErrorCode::heard(error.code),
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
