//! A client's side of a transfer: opens it, watches it, retries, and opens it again if the other end no longer knows
//! it. Does not know the transferred data; the caller makes the engine, and a connector makes the connections.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use godwit_net::{Connection, Stream};
use godwit_proto::{ErrorCode, Frame, Hello, Open, Opened, Token, TransferId};

use super::connect::{Connector, Refusal};
use super::greet::{receive_frame_while, require_capability};
use super::link::{BACKOFF_FIRST, BACKOFF_MAX, Link, expect_hello, unexpected};
use super::tuning::Tuning;
use super::{Engine, GreetError, our_hello};
use crate::End;
use crate::tuner::Bounds;

/// How often progress is shown and the user's interrupt is checked.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// Time within which a daemon must open a transfer: it examines its journal and the destination.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);

/// The reason of an engine's end after the last attempt to get a stream.
const NO_CONNECTION: &str = "no connection";

/// How to reach the other end, and how long to keep trying.
#[derive(Clone)]
pub struct Client {
    /// Makes the connections.
    pub connector: Arc<dyn Connector>,
    /// Streams that carry blocks: a fixed number, or bounds between which the tuner chooses.
    pub streams: Bounds,
    /// How long to keep trying without any stream.
    pub retry_for: Duration,
    /// Set if an unknown transfer cannot be opened again, because its data can be read or written only once; the text
    /// gives the reason.
    pub once: Option<&'static str>,
    /// The connection that opens the transfer is retried like any other. Otherwise it has one attempt.
    pub retries_first: bool,
}

/// State that a client's watcher sees, several times a second.
pub struct Watch<'a> {
    /// The engine; `None` while the transfer is being opened.
    pub engine: Option<&'a Engine>,
    /// Set from the first loss on, while no stream reaches the other end.
    pub outage: Option<&'a Outage>,
}

/// A period in which no stream reaches the other end and the client keeps trying.
#[derive(Debug, Clone)]
pub struct Outage {
    /// When the last stream was lost.
    pub since: Instant,
    /// How long the client keeps trying, counted from `since`.
    pub patience: Duration,
    /// Why the last stream broke, or why the last attempt failed.
    pub why: String,
}

/// Calls the user's watcher, and remembers the time since which no connection exists.
struct Watcher<'a> {
    watch: &'a mut dyn FnMut(Watch<'_>) -> bool,
    patience: Duration,
    outage: Option<Outage>,
}

impl Watcher<'_> {
    /// Whether to continue.
    fn goes_on(&mut self, engine: Option<&Engine>) -> bool {
        let outage = self.outage.as_ref();
        (self.watch)(Watch { engine, outage })
    }

    /// Records that no stream exists; the outage began with the first such call.
    fn note_loss(&mut self, why: String, now: Instant) {
        match &mut self.outage {
            Some(outage) if !why.is_empty() => outage.why = why,
            Some(_) => {}
            None => {
                self.outage = Some(Outage {
                    since: now,
                    patience: self.patience,
                    why,
                });
            }
        }
    }

    fn note_connection(&mut self) {
        self.outage = None;
    }
}

/// Outcome of a client's transfer.
pub struct ClientReport {
    /// The end; `Err` if the transfer never began or could no longer be resumed.
    pub end: Result<End, Refusal>,
    /// The engine that ran last.
    pub engine: Option<Engine>,
    /// The daemon's answer when it opened the transfer.
    pub opened: Option<Opened>,
}

/// Runs a transfer from its opening to its end. `begin` makes this side's engine from the daemon's answer, and is
/// called again if the daemon no longer knows the transfer. `watch` is called several times a second, with the engine
/// if there is one, and returns whether to continue.
pub fn run(
    client: &Client,
    open: &Open,
    begin: &mut dyn FnMut(&Opened, TransferId) -> Result<Engine, Refusal>,
    watch: &mut dyn FnMut(Watch<'_>) -> bool,
) -> ClientReport {
    let mut watcher = Watcher {
        watch,
        patience: client.retry_for,
        outage: None,
    };
    let report = keep_open(client, open, begin, &mut watcher);
    let complete = matches!(report.end, Ok(End::Finished(_)));
    client.connector.end(complete);
    report
}

fn keep_open(
    client: &Client,
    open: &Open,
    begin: &mut dyn FnMut(&Opened, TransferId) -> Result<Engine, Refusal>,
    watch: &mut Watcher<'_>,
) -> ClientReport {
    let mut report = ClientReport {
        end: Err(Refusal::own(ErrorCode::INTERNAL, "not begun")),
        engine: None,
        opened: None,
    };
    let mut alive = Instant::now();
    let mut backoff = BACKOFF_FIRST;
    loop {
        let next = match open_watched(client, open, &mut || watch.goes_on(None)) {
            Ok(opened) => {
                backoff = BACKOFF_FIRST;
                transfer(client, open, begin, opened, &mut report, &mut alive, watch)
            }
            Err(refusal) => not_opened(client, refusal, report.opened.is_some(), alive, watch),
        };
        if let ControlFlow::Break(end) = next {
            report.end = end;
            return report;
        }
        if !pause(backoff, watch) {
            report.end = Ok(End::Cancelled("interrupted by the user".to_owned()));
            return report;
        }
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// Runs an opened transfer until its streams are lost; ends it, or has it opened again.
fn transfer(
    client: &Client,
    open: &Open,
    begin: &mut dyn FnMut(&Opened, TransferId) -> Result<Engine, Refusal>,
    (mut stream, opened, transfer, theirs): (Connection, Opened, TransferId, Hello),
    report: &mut ClientReport,
    alive: &mut Instant,
    watch: &mut Watcher<'_>,
) -> ControlFlow<Result<End, Refusal>> {
    let begun = client
        .connector
        .opened(&opened)
        .and_then(|()| begin(&opened, transfer));
    let engine = match begun {
        Ok(engine) => engine,
        Err(refusal) => {
            call_off(&mut stream);
            return ControlFlow::Break(Err(refusal));
        }
    };
    let tokens = opened
        .tokens
        .iter()
        .filter_map(|token| Token::try_from(token.as_slice()).ok())
        .collect();
    let (streams_max, buffer_bytes) = (opened.streams_max, opened.buffer_bytes);
    report.opened = Some(opened);
    let begun = OpenedTransfer {
        first: stream,
        transfer,
        tokens,
        theirs,
        streams_max,
        buffer_bytes,
    };
    let outcome = run_engine(client, open, &engine, begun, watch);
    engine.join();
    let counted = engine.counters();
    // Entries that needed no data are progress too.
    let moved = [
        &counted.bytes_written,
        &counted.files_done,
        &counted.files_skipped,
    ]
    .into_iter()
    .any(|counter| counter.get() > 0);
    report.engine = Some(engine);
    // A stopped daemon, or one that lost the transfer, is asked again; the time limit restarts each time
    // that the daemon made progress.
    if moved {
        *alive = Instant::now();
    }
    match outcome {
        None => watch.note_loss(
            "the other side no longer knows the transfer".to_owned(),
            Instant::now(),
        ),
        Some(End::Failed {
            retryable: true,
            message,
            code,
        }) if alive.elapsed() >= client.retry_for => {
            let code = match code {
                ErrorCode::CANCELLED => code,
                _ => ErrorCode::LOST,
            };
            return ControlFlow::Break(Ok(given_up(code, message)));
        }
        Some(End::Failed {
            retryable: true,
            message,
            ..
        }) => watch.note_loss(message, Instant::now()),
        Some(end) => return ControlFlow::Break(Ok(end)),
    }
    // A transfer that cannot be resumed needs no new process or request.
    match client.once {
        Some(why) => ControlFlow::Break(Err(Refusal::own(ErrorCode::NO_RESUME, why))),
        None => ControlFlow::Continue(()),
    }
}

/// Decides about a request that was refused, or did not arrive: ends the transfer, or has it opened again.
fn not_opened(
    client: &Client,
    refusal: Refusal,
    was_opened: bool,
    alive: Instant,
    watch: &mut Watcher<'_>,
) -> ControlFlow<Result<End, Refusal>> {
    if was_opened {
        watch.note_loss(refusal.to_string(), Instant::now());
    }
    if !watch.goes_on(None) {
        let end = End::Cancelled("interrupted by the user".to_owned());
        return ControlFlow::Break(Ok(end));
    }
    let known = client.retries_first || was_opened;
    let waits = refusal
        .load_patience()
        .is_some_and(|patience| alive.elapsed() < patience.min(client.retry_for));
    if !(waits || known && refusal.is_retryable()) {
        return ControlFlow::Break(Err(refusal));
    }
    if alive.elapsed() >= client.retry_for {
        let why = refusal.to_string();
        return ControlFlow::Break(Ok(without_connection(client, &why)));
    }
    ControlFlow::Continue(())
}

/// Opens a transfer, which may take a minute; `goes_on` is called meanwhile, and can end the attempt.
pub(super) fn open_watched(
    client: &Client,
    open: &Open,
    goes_on: &mut dyn FnMut() -> bool,
) -> Opening {
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (sender, reported) = mpsc::sync_channel(1);
        let stops = &stops;
        let builder = std::thread::Builder::new().name("gw-open".to_owned());
        let opens = builder.spawn_scoped(scope, move || {
            // The receiver waits until this thread has ended.
            let _ = sender.send(open_transfer(client, open, stops));
        });
        if opens.is_err() {
            // If no thread can be started, the display is not updated, and an interrupt has no effect until the answer
            // arrives.
            return open_transfer(client, open, stops);
        }
        loop {
            match reported.recv_timeout(WATCH_EVERY) {
                Ok(opening) => return opening,
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                Err(_) => stops.store(true, Ordering::Relaxed),
            }
        }
    })
}

/// The end when the time limit is over; the same command resumes the transfer.
fn given_up(code: ErrorCode, message: String) -> End {
    End::Failed {
        code,
        message,
        retryable: false,
    }
}

fn without_connection(client: &Client, why: &str) -> End {
    let seconds = client.retry_for.as_secs();
    given_up(
        ErrorCode::LOST,
        format!("stopped after {seconds} s without a connection: {why}"),
    )
}

/// Cancels a transfer that the other end has opened, or opens later, but that this side has abandoned. Otherwise the
/// other end would wait for its full retry time.
fn call_off(stream: &mut Connection) {
    stream.set_stall_limit(Duration::from_secs(1));
    // The connection closes either way.
    let _ = stream.send_all(
        &End::Cancelled("the client does not support this transfer".to_owned()).last_word(),
    );
    stream.shutdown();
}

/// Waits in short steps, so that an interrupt is obeyed at once.
fn pause(time: Duration, watch: &mut Watcher<'_>) -> bool {
    let until = Instant::now() + time;
    loop {
        if !watch.goes_on(None) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::park_timeout(left.min(WATCH_EVERY));
    }
}

/// Result of opening a transfer.
struct OpenedTransfer {
    first: Connection,
    transfer: TransferId,
    tokens: Vec<Token>,
    theirs: Hello,
    /// Most streams that the daemon accepts.
    streams_max: u32,
    /// The most that the daemon's kernel buffers for one stream; 0 if unknown.
    buffer_bytes: u64,
}

/// Runs an engine to its end. `None` if the transfer must be opened again.
fn run_engine(
    client: &Client,
    open: &Open,
    engine: &Engine,
    begun: OpenedTransfer,
    watch: &mut Watcher<'_>,
) -> Option<End> {
    if let Engine::Receiver(receiver) = engine {
        // A sender that waits for its limit may send nothing for a long time.
        receiver.asked().obeys(open.limit_bytes_per_second, 0);
    }
    let early = begun.first.early_bytes_left() > 0;
    let link = Link::new(
        client,
        begun.transfer,
        open.plain_payload,
        early,
        begun.tokens,
    );
    link.note_hello(&begun.theirs);
    let link = Arc::new(link);
    let bounds = client.streams.at_most(begun.streams_max);
    let allowed = bounds.at_most(engine.streams_max());
    let first = link.begin(begun.first);
    if let Err(error) = link.spread(engine, allowed, first) {
        return Some(End::Failed {
            code: ErrorCode::RESOURCES,
            message: format!("no thread for a stream: {error}"),
            retryable: false,
        });
    }
    let buffers = [engine.buffer_bytes(), begun.buffer_bytes];
    let mut tuning = Tuning::new(bounds, open.limit_bytes_per_second, buffers);
    let outcome = supervise(client, bounds, engine, &link, &mut tuning, watch);
    if outcome.is_none() {
        engine.cancel("the daemon was restarted");
    }
    client.connector.give_up();
    link.stop();
    outcome
}

fn supervise(
    client: &Client,
    bounds: Bounds,
    engine: &Engine,
    link: &Arc<Link>,
    tuning: &mut Tuning,
    watch: &mut Watcher<'_>,
) -> Option<End> {
    let mut alive = Instant::now();
    // Settings computed from the first connection are used at once.
    tuning.look(alive, engine, link);
    loop {
        if let Some(end) = engine.wait(WATCH_EVERY) {
            return Some(end);
        }
        if !watch.goes_on(Some(engine)) {
            let end = End::Cancelled("interrupted by the user".to_owned());
            engine.cancel("interrupted by the user");
            return Some(end);
        }
        if link.is_forgotten() {
            return None;
        }
        // If no more threads can be started, the existing ones continue.
        let _ = link.spread(engine, bounds.at_most(engine.streams_max()), None);
        engine.tune();
        tuning.look(Instant::now(), engine, link);
        if let Some((code, message)) = link.stuck(engine) {
            engine.fail(code, &message);
            continue;
        }
        if link.is_alive() {
            alive = Instant::now();
            watch.note_connection();
            continue;
        }
        watch.note_loss(link.last_loss(), alive);
        if alive.elapsed() >= client.retry_for {
            let why = link.last_loss();
            engine.cancel(NO_CONNECTION);
            // The transfer may have ended after the wait above, and its streams with it. The first end counts.
            return Some(match engine.end() {
                Some(End::Cancelled(reason)) if reason == NO_CONNECTION => {
                    without_connection(client, &why)
                }
                Some(end) => end,
                None => without_connection(client, &why),
            });
        }
    }
}

type Opening = Result<(Connection, Opened, TransferId, Hello), Refusal>;

/// Opens a transfer, unless `stops` is set before the other end answers.
fn open_transfer(client: &Client, open: &Open, stops: &AtomicBool) -> Opening {
    let (mut head, mut request) = (Vec::new(), Vec::new());
    our_hello().encode(&mut head);
    open.encode(&mut request).map_err(|error| {
        Refusal::own(
            ErrorCode::INTERNAL,
            format!("the request cannot be made: {error}"),
        )
    })?;
    let needed = open.capabilities_needed();
    if needed == 0 {
        head.append(&mut request);
    }
    let mut stream = client.connector.open(&head)?;
    let theirs = expect_hello(&mut stream)?;
    if needed != 0 {
        // An older daemon would ignore the request, and perhaps write where it must not.
        require_capability(&theirs, needed, &stream.peer())?;
        stream.send_all(&request).map_err(GreetError::from)?;
    }
    let goes_on = || !stops.load(Ordering::Relaxed);
    let answer = receive_frame_while(&mut stream, OPEN_DEADLINE, WATCH_EVERY, &goes_on);
    if answer.is_err() && !goes_on() {
        call_off(&mut stream);
        return Err(Refusal::own(ErrorCode::CANCELLED, "interrupted"));
    }
    match answer? {
        Frame::Opened(opened) => {
            let transfer = TransferId::try_from(opened.transfer.as_slice()).map_err(|error| {
                GreetError::Wire {
                    peer: stream.peer(),
                    error,
                }
            })?;
            stream.set_plain_payload(open.plain_payload);
            Ok((stream, opened, transfer, theirs))
        }
        other => Err(unexpected(&stream, other)),
    }
}
