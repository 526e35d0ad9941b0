//! A client's side of the connections: opens the transfer, keeps its streams up, retries, opens anew when the daemon forgot.
//! Knows nothing of what is transferred; the caller makes the engine.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_net::{
    ClientTls, Connection, DialError, DialOptions, Expect, IdentityId, PeerAddress, Stream,
    StreamOptions, dial,
};
use godwit_proto::{
    Agreed, ErrorCode, Frame, Join, Open, Opened, Token, TransferId, VersionMismatch, negotiate,
};

use godwit_proto::hello::capability;

use super::{Engine, GreetError, HELLO_DEADLINE, our_hello, receive_frame};
use crate::{End, limits, lock};

/// Waiting time before the first new attempt; doubles up to [`BACKOFF_MAX`].
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// How often progress is shown and the user's interrupt is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// How long a daemon may take to open: it examines its journal and the destination.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);

/// Where the daemon is and how to speak with it.
#[derive(Clone)]
pub struct Client {
    /// Its address.
    pub address: PeerAddress,
    /// Our key, our ciphers.
    pub tls: ClientTls,
    /// Who it must be.
    pub identity: IdentityId,
    /// Streams to keep up.
    pub streams: u32,
    /// How long to go on without any stream.
    pub retry_for: Duration,
    /// How long the daemon may take until a connection is ready for use.
    pub handshake_deadline: Duration,
    /// A stream may be held up this long by the other end's storage before it is given up.
    pub stall_limit: Duration,
}

/// Why a transfer did not come about.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The first frames.
    #[error(transparent)]
    Greet(#[from] GreetError),
    /// The daemon said no.
    #[error("{address}: {message}")]
    Daemon {
        /// The daemon.
        address: PeerAddress,
        /// Its code.
        code: ErrorCode,
        /// Its words.
        message: String,
        /// Whether the same may succeed later.
        retryable: bool,
    },
    /// This side.
    #[error("{0}")]
    Own(String),
}

impl Refusal {
    /// Whether a later attempt may do better, with nothing changed by anyone.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Dial(error) => error.is_retryable(),
            Self::Greet(GreetError::Stream(error)) => error.is_retryable(),
            Self::Greet(GreetError::Deadline { .. }) => true,
            Self::Greet(_) | Self::Own(_) => false,
            Self::Daemon { retryable, .. } => *retryable,
        }
    }

    /// Whether the cause is who the peers are, or what they may do.
    pub fn is_authentication(&self) -> bool {
        match self {
            Self::Dial(error) => error.is_authentication(),
            Self::Daemon { code, .. } => matches!(*code, ErrorCode::AUTH | ErrorCode::NOT_GRANTED),
            Self::Greet(_) | Self::Own(_) => false,
        }
    }
}

/// How it went.
pub struct ClientReport {
    /// The end; `Err` if there was never a transfer, or no longer one that could be taken up.
    pub end: Result<End, Refusal>,
    /// The engine that ran last.
    pub engine: Option<Engine>,
    /// What the daemon said when it opened the transfer.
    pub opened: Option<Opened>,
}

/// Shared by the threads that keep streams up.
struct Link {
    client: Client,
    transfer: TransferId,
    plain_payload: bool,
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
}

/// Runs a transfer from its opening to its end. `begin` makes this side's engine from the daemon's answer; it is called
/// again if the daemon forgets the transfer and it is opened anew. `watch` is called several times a second, with the
/// engine where there is one, and tells whether to go on.
pub fn run(
    client: &Client,
    open: &Open,
    begin: &mut dyn FnMut(&Opened, TransferId) -> Result<Engine, Refusal>,
    watch: &mut dyn FnMut(Option<&Engine>) -> bool,
) -> ClientReport {
    let mut report = ClientReport {
        end: Err(Refusal::Own("not begun".to_owned())),
        engine: None,
        opened: None,
    };
    let mut alive = Instant::now();
    let mut backoff = BACKOFF_FIRST;
    loop {
        match open_transfer(client, open) {
            Ok((stream, opened, transfer)) => {
                backoff = BACKOFF_FIRST;
                let engine = match begin(&opened, transfer) {
                    Ok(engine) => engine,
                    Err(refusal) => {
                        report.end = Err(refusal);
                        return report;
                    }
                };
                let tokens = opened
                    .tokens
                    .iter()
                    .filter_map(|token| Token::try_from(token.as_slice()).ok())
                    .collect();
                report.opened = Some(opened);
                let outcome = run_engine(client, open, &engine, stream, transfer, tokens, watch);
                engine.join();
                let moved = engine.counters().bytes_written.get() > 0;
                report.engine = Some(engine);
                // A daemon that was stopped, or that forgot the transfer, is asked again; for how long counts from
                // the last time that it did any good.
                if moved {
                    alive = Instant::now();
                }
                match outcome {
                    None => {}
                    Some(End::Failed {
                        retryable: true,
                        message,
                        ..
                    }) if alive.elapsed() >= client.retry_for => {
                        report.end = Ok(End::Cancelled(message));
                        return report;
                    }
                    Some(end) => {
                        report.end = Ok(end);
                        return report;
                    }
                }
            }
            Err(refusal) => {
                let known = report.opened.is_some();
                if !known || !refusal.is_retryable() {
                    report.end = Err(refusal);
                    return report;
                }
                if alive.elapsed() >= client.retry_for {
                    report.end = Ok(End::Cancelled(format!(
                        "given up after {} s without a connection: {refusal}",
                        client.retry_for.as_secs()
                    )));
                    return report;
                }
            }
        }
        if !pause(backoff, watch) {
            report.end = Ok(End::Cancelled("interrupted by the user".to_owned()));
            return report;
        }
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// Waits in steps, so that an interrupt is obeyed at once.
fn pause(time: Duration, watch: &mut dyn FnMut(Option<&Engine>) -> bool) -> bool {
    let until = Instant::now() + time;
    loop {
        if !watch(None) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::park_timeout(left.min(WATCH_EVERY));
    }
}

/// `None` if the transfer must be opened anew.
fn run_engine(
    client: &Client,
    open: &Open,
    engine: &Engine,
    first: Connection,
    transfer: TransferId,
    tokens: Vec<Token>,
    watch: &mut dyn FnMut(Option<&Engine>) -> bool,
) -> Option<End> {
    let link = Arc::new(Link {
        client: client.clone(),
        transfer,
        plain_payload: open.plain_payload,
        tokens: Mutex::new(tokens),
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let mut first = Some(first);
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for index in 0..client.streams.clamp(1, limits::STREAMS_MAX) {
        let (link, engine, stream) = (Arc::clone(&link), engine.clone(), first.take());
        let body = move || keep_stream(&link, &engine, stream);
        match std::thread::Builder::new()
            .name(format!("gw-stream-{index}"))
            .spawn(body)
        {
            Ok(thread) => threads.push(thread),
            Err(error) if threads.is_empty() => {
                return Some(End::Failed {
                    code: ErrorCode::INTERNAL.0,
                    message: format!("no thread for a stream: {error}"),
                    retryable: false,
                });
            }
            Err(_) => break,
        }
    }
    let outcome = supervise(client, engine, &link, watch);
    if outcome.is_none() {
        engine.cancel("the daemon was restarted");
    }
    lock(&link.state).stopping = true;
    link.changed.notify_all();
    for thread in threads {
        // A panic there has been printed; the outcome is known.
        let _ = thread.join();
    }
    outcome
}

fn supervise(
    client: &Client,
    engine: &Engine,
    link: &Link,
    watch: &mut dyn FnMut(Option<&Engine>) -> bool,
) -> Option<End> {
    let mut alive = Instant::now();
    loop {
        if let Some(end) = engine.wait(WATCH_EVERY) {
            return Some(end);
        }
        if !watch(Some(engine)) {
            let end = End::Cancelled("interrupted by the user".to_owned());
            engine.cancel("interrupted by the user");
            return Some(end);
        }
        let state = lock(&link.state);
        if state.forgotten {
            return None;
        }
        // The first stream is there from the beginning; its thread may not have come to say so yet.
        if engine.stream_count() > 0 || engine.counters().streams_attached.get() == 0 {
            alive = Instant::now();
        } else if alive.elapsed() >= client.retry_for {
            let why = state.last_loss.clone().unwrap_or_default();
            drop(state);
            engine.cancel("no connection");
            return Some(End::Cancelled(format!(
                "given up after {} s without a connection: {why}",
                client.retry_for.as_secs()
            )));
        }
    }
}

/// Body of a thread that keeps one stream up until the transfer ends.
fn keep_stream(link: &Link, engine: &Engine, mut stream: Option<Connection>) {
    let mut backoff = BACKOFF_FIRST;
    loop {
        if let Some(mut connection) = stream.take() {
            match engine.run_stream(&mut connection) {
                Ok(()) => return,
                Err(loss) => {
                    lock(&link.state).last_loss = Some(loss.to_string());
                    if !loss.is_retryable() && engine.stream_count() == 0 {
                        // Nobody else is left to carry on with a peer that breaks the rules.
                        fail(engine, &loss.to_string());
                        return;
                    }
                }
            }
            if !link.rest(backoff, engine) {
                return;
            }
        }
        match link.join() {
            Ok(connection) => {
                backoff = BACKOFF_FIRST;
                stream = Some(connection);
                continue;
            }
            Err(Refusal::Daemon {
                code: ErrorCode::UNKNOWN_TRANSFER | ErrorCode::BAD_TOKEN,
                ..
            }) => {
                if engine.end().is_none() && engine.stream_count() == 0 {
                    lock(&link.state).forgotten = true;
                    return;
                }
            }
            Err(refusal) => {
                lock(&link.state).last_loss = Some(refusal.to_string());
                if !refusal.is_retryable() {
                    if engine.stream_count() == 0 {
                        fail(engine, &refusal.to_string());
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

fn fail(engine: &Engine, message: &str) {
    match engine {
        Engine::Sender(sender) => sender.fail(ErrorCode::PROTOCOL.0, message),
        Engine::Receiver(receiver) => receiver.fail(ErrorCode::PROTOCOL.0, message),
    }
}

impl Link {
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

    fn join(&self) -> Result<Connection, Refusal> {
        let Some(token) = lock(&self.tokens).pop() else {
            // Lost with streams that broke while they were joining.
            return Err(Refusal::Daemon {
                address: self.client.address.clone(),
                code: ErrorCode::BAD_TOKEN,
                message: "no tokens left".to_owned(),
                retryable: false,
            });
        };
        let mut stream = connect(&self.client).inspect_err(|_| lock(&self.tokens).push(token))?;
        let mut head = Vec::new();
        our_hello().encode(&mut head);
        Join::new(self.transfer, token).encode(&mut head);
        stream.send_all(&head).map_err(GreetError::from)?;
        expect_hello(&mut stream)?;
        match receive_frame(&mut stream, HELLO_DEADLINE)? {
            Frame::Joined(joined) => {
                lock(&self.tokens).extend(
                    joined
                        .tokens
                        .iter()
                        .filter_map(|token| Token::try_from(token.as_slice()).ok()),
                );
                stream.set_plain_payload(self.plain_payload);
                Ok(stream)
            }
            other => Err(unexpected(&self.client, &stream, other)),
        }
    }
}

pub(super) fn open_transfer(
    client: &Client,
    open: &Open,
) -> Result<(Connection, Opened, TransferId), Refusal> {
    let mut stream = connect(client)?;
    let mut head = Vec::new();
    our_hello().encode(&mut head);
    open.encode(&mut head)
        .map_err(|error| Refusal::Own(format!("too many or too long source names: {error}")))?;
    stream.send_all(&head).map_err(GreetError::from)?;
    let agreed = expect_hello(&mut stream)?;
    let lacking = open.capabilities_needed() & !agreed.capabilities;
    if lacking != 0 {
        return Err(Refusal::Own(format!(
            "{}: the godwit there is too old for {}; update it",
            client.address,
            capability::name(lacking)
        )));
    }
    match receive_frame(&mut stream, OPEN_DEADLINE)? {
        Frame::Opened(opened) => {
            let transfer = TransferId::try_from(opened.transfer.as_slice()).map_err(|error| {
                GreetError::Wire {
                    peer: stream.peer(),
                    error,
                }
            })?;
            stream.set_plain_payload(open.plain_payload);
            Ok((stream, opened, transfer))
        }
        other => Err(unexpected(client, &stream, other)),
    }
}

fn connect(client: &Client) -> Result<Connection, Refusal> {
    let mut options = DialOptions::new(Expect::Identity(client.identity));
    options.deadline = client.handshake_deadline;
    options.stream = StreamOptions {
        stall_limit: client.stall_limit,
        ..StreamOptions::default()
    };
    Ok(dial(&client.address, &client.tls, &options)?.0)
}

fn expect_hello(stream: &mut Connection) -> Result<Agreed, Refusal> {
    match receive_frame(stream, HELLO_DEADLINE)? {
        Frame::Hello(theirs) => {
            let agreed: Result<_, VersionMismatch> = negotiate(&our_hello(), &theirs);
            Ok(agreed.map_err(|mismatch| GreetError::Version {
                peer: stream.peer(),
                mismatch,
            })?)
        }
        Frame::Error(error) => Err(Refusal::Own(format!(
            "{}: {}",
            stream.peer(),
            error.message
        ))),
        other => Err(GreetError::Unexpected {
            peer: stream.peer(),
            what: format!("{} instead of hello", other.name()),
        }
        .into()),
    }
}

fn unexpected(client: &Client, stream: &Connection, frame: Frame) -> Refusal {
    match frame {
        Frame::Error(error) => Refusal::Daemon {
            address: client.address.clone(),
            code: ErrorCode(error.code),
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
