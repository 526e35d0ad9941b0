//! Asks other nodes: dials a site's addresses in order, verifies the peer, sends a question and waits for the reply. Does not interpret
//! questions; questions about this node go to `here`.

use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use godwit_api::PORT_DEFAULT;
use godwit_api::ask::{Answer, AskSites, GoOn, Peer, Question, Refusal, code};
use godwit_api::grant::Mandate;
use godwit_api::host::HostPort;
use godwit_engine::session::{
    GreetError, HELLO_DEADLINE, our_hello, receive_frame, require_capability,
};
use godwit_net::{
    ClientTls, Connection, DialOptions, Expect, IdentityId, PeerAddress, Stream as _, dial,
};
use godwit_proto::hello::capability;
use godwit_proto::{Ask, ErrorCode, Frame, negotiate};

use super::SIGN_EVERY;
use super::here::Here;

/// Time for one address: to resolve it, to connect, and to do the handshake.
const DIAL_WITHIN: Duration = Duration::from_secs(5);

/// Limit for all addresses of a site: the caller gets no progress meanwhile.
const ALL_WITHIN: Duration = Duration::from_secs(20);

/// How long a site may be silent while it works; it sends a keep-alive each second.
const SILENT_MAX: Duration = Duration::from_secs(30);

/// How often the waiting caller is asked whether to continue.
const LOOK_EVERY: Duration = Duration::from_millis(200);

const _: () = assert!(SILENT_MAX.as_secs() > 10 * SIGN_EVERY.as_secs());
const _: () = assert!(SILENT_MAX.as_secs() > (ALL_WITHIN.as_secs() + DIAL_WITHIN.as_secs()));

/// Connections to one site that are kept for its next questions: usually as many as questions are asked at once.
const KEPT_MAX: usize = 4;

/// How long a connection is kept without a question; the site ends it after two minutes.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// Asks questions for a node.
pub struct Asker {
    here: Here,
    tls: ClientTls,
    /// Connections without a pending question, by their site.
    kept: Mutex<HashMap<Peer, Vec<Kept>>>,
}

/// How long a connection with an unanswered question may still be used: its path may be dead.
const OWES_FOR: Duration = Duration::from_secs(3);

/// Frames that are read of unanswered questions before the next one: more than the signs that come while a connection is kept.
const OWED_FRAMES_MAX: u64 = 2 * KEPT_FOR.as_secs() / SIGN_EVERY.as_secs();

/// A connection for one question after another, for a caller without a node.
pub struct Questions {
    connection: Kept,
    peer: Peer,
}

impl Questions {
    /// Greets the other side of a new connection.
    ///
    /// # Errors
    /// The other side answers no questions.
    pub fn new(mut stream: Connection, peer: Peer) -> Result<Self, Refusal> {
        let capabilities = greet(&mut stream, &peer)?;
        Ok(Self {
            connection: Kept::new(stream, capabilities),
            peer,
        })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The other side refused, or the connection broke.
    pub fn ask(&mut self, question: &Question) -> Result<Answer, Refusal> {
        let document = question.to_document_for(None);
        let reply = self.connection.ask(&self.peer, document, &mut |_| true)?;
        Answer::parse_to(question, &reply)
    }
}

/// A connection, after HELLO.
struct Kept {
    stream: Connection,
    /// Capabilities of the site.
    capabilities: u64,
    /// Number of the latest question.
    asked: u64,
    /// Number of the latest question that was answered, and when the next one was asked.
    answered: u64,
    owes_since: Option<Instant>,
    since: Instant,
}

impl Kept {
    fn new(stream: Connection, capabilities: u64) -> Self {
        Self {
            stream,
            capabilities,
            asked: 0,
            answered: 0,
            owes_since: None,
            since: Instant::now(),
        }
    }

    /// Asks one question; returns the document of the reply.
    fn ask(
        &mut self,
        site: &Peer,
        document: Vec<u8>,
        go_on: &mut GoOn<'_>,
    ) -> Result<Vec<u8>, Refusal> {
        self.asked += 1;
        let ask = Ask {
            number: self.asked,
            document,
        };
        let mut head = Vec::new();
        ask.encode(&mut head)
            .map_err(|error| Refusal::new(code::INVALID, format!("the question: {error}")))?;
        self.owes_since.get_or_insert_with(Instant::now);
        let sent = self.stream.send(&head, &[]);
        sent.map_err(|error| lost(site, &error.to_string()))?;
        let document = wait(&mut self.stream, site, ask.number, go_on)?;
        (self.answered, self.owes_since) = (ask.number, None);
        Ok(document)
    }

    /// Whether the connection can be used: it is open, and at most one answer is missing, and only for a short time.
    fn is_usable(&mut self) -> bool {
        let mut left = OWED_FRAMES_MAX;
        while self.asked > self.answered {
            // The other end could send signs faster than they are read.
            let Some(fewer) = left.checked_sub(1) else {
                return false;
            };
            left = fewer;
            match receive_frame(&mut self.stream, Duration::ZERO) {
                Ok(Frame::Reply(reply)) if reply.number <= self.asked => {
                    if !reply.document.is_empty() {
                        self.answered = self.answered.max(reply.number);
                    }
                }
                Err(GreetError::Deadline { .. }) => {
                    let since = self.owes_since;
                    return self.asked == self.answered + 1
                        && since.is_some_and(|since| since.elapsed() < OWES_FOR);
                }
                _ => return false,
            }
        }
        self.owes_since = None;
        // Bytes that arrived meanwhile announce the end of the connection.
        matches!(self.stream.try_recv(), Ok(None))
    }
}

impl Drop for Kept {
    /// Closes the connection properly, so that the other end does not report a failure.
    fn drop(&mut self) {
        self.stream.shutdown();
    }
}

impl Asker {
    /// Asks with this key; questions about this node are answered by `here`, without any restriction.
    #[must_use]
    pub fn new(here: Here, tls: ClientTls) -> Self {
        Self {
            here,
            tls,
            kept: Mutex::default(),
        }
    }

    /// A kept connection to the site. Connections without a missing answer come first, then the most recently used ones. Connections that
    /// were idle for too long are closed.
    fn take(&self, site: &Peer) -> Option<Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, connections| {
            connections.retain(|one| one.since.elapsed() < KEPT_FOR);
            !connections.is_empty()
        });
        let of_site = kept.get_mut(site)?;
        let owes_none = of_site.iter().rposition(|one| one.asked == one.answered);
        let at = owes_none.unwrap_or(of_site.len().checked_sub(1)?);
        Some(of_site.remove(at))
    }

    /// Keeps a connection for the next question.
    fn keep(&self, site: &Peer, mut connection: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = kept.entry(site.clone()).or_default();
        if connections.len() < KEPT_MAX {
            connection.since = Instant::now();
            connections.push(connection);
        }
    }

    /// Asks over a connection; returns the connection and the document of the reply. The connection of an abandoned question is kept if its
    /// answer comes soon. A new dial costs both ends more, and a busy end would have still more to do. If the question cannot be abandoned,
    /// the connection is closed instead.
    fn ask_by(
        &self,
        mut connection: Kept,
        mandate: Option<&Mandate>,
        site: &Peer,
        question: &Question,
        go_on: &mut GoOn<'_>,
    ) -> Result<(Kept, Vec<u8>), Refusal> {
        // A site that does not know mandates would answer by this node's own rights, or connect to the third site by its own ones.
        let needs_mandate = mandate.is_some() || goes_on_to_another_site(question);
        if needs_mandate && connection.capabilities & capability::MANDATE == 0 {
            let message = format!(
                "the site {} has an older version, which lacks jobs of other sites as used here: update that site",
                site.name
            );
            return Err(Refusal::new(code::UNSUPPORTED, message));
        }
        if hides(question) && connection.capabilities & capability::OWNER_SIGHT == 0 {
            let message = format!(
                "the site {} has an older version, which would show the owner of the job entries that the owner may not list or read at the destination: update that site, or give the owner these rights",
                site.name
            );
            return Err(Refusal::new(code::UNSUPPORTED, message));
        }
        match connection.ask(site, question.to_document_for(mandate), go_on) {
            Ok(document) => Ok((connection, document)),
            Err(refusal) => {
                if refusal.code == code::GIVEN_UP && question.is_short() {
                    self.keep(site, connection);
                }
                Err(refusal)
            }
        }
    }

    /// A connection to the site, after HELLO, and the capabilities of the site. No further address is tried once the caller has given up.
    fn connect(&self, site: &Peer, go_on: &mut GoOn<'_>) -> Result<(Connection, u64), Refusal> {
        let mut options = DialOptions::new(Expect::Identity(identity(site)?));
        let until = Instant::now() + ALL_WITHIN;
        let mut tried = Vec::new();
        for text in &site.addresses {
            if !go_on(0) {
                return Err(super::here::given_up());
            }
            options.deadline = DIAL_WITHIN.min(until.saturating_duration_since(Instant::now()));
            if options.deadline.is_zero() {
                tried.push("there was no time to try its other addresses".to_owned());
                break;
            }
            match dial_text(text, &self.tls, &options) {
                Ok(mut stream) => return greet(&mut stream, site).map(|can| (stream, can)),
                Err(what) => tried.push(what),
            }
        }
        Err(unreachable(site, tried))
    }
}

/// Whether a question requests a job whose other end is at a third site.
const fn goes_on_to_another_site(question: &Question) -> bool {
    match question {
        Question::Run(wish) => wish.other.is_some(),
        _ => false,
    }
}

/// Whether a question requests a job whose owner may not see its whole destination.
const fn hides(question: &Question) -> bool {
    match question {
        Question::Run(wish) => !matches!((wish.may_list, wish.may_read), (Some(true), Some(true))),
        _ => false,
    }
}

impl AskSites for Asker {
    fn ask_for(
        &self,
        mandate: Option<&Mandate>,
        site: Option<&Peer>,
        question: &Question,
        go_on: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        let Some(site) = site else {
            return self.here.answer(question, &|_, _, _| Ok(()), go_on);
        };
        let mut reply = None;
        while reply.is_none()
            && question.is_about_jobs()
            && let Some(mut kept) = self.take(site)
        {
            if !kept.is_usable() {
                continue;
            }
            match self.ask_by(kept, mandate, site, question, go_on) {
                Ok(replied) => reply = Some(replied),
                // A question that may be repeated is asked again if a kept connection breaks.
                Err(refusal) if refusal.code == code::BROKEN && question.may_be_repeated() => {}
                Err(refusal) => return Err(refusal),
            }
        }
        let (connection, document) = match reply {
            Some(reply) => reply,
            None => {
                let (stream, capabilities) = self.connect(site, go_on)?;
                let connection = Kept::new(stream, capabilities);
                self.ask_by(connection, mandate, site, question, go_on)?
            }
        };
        if question.is_about_jobs() {
            self.keep(site, connection);
        }
        Answer::parse_to(question, &document).map_err(|refusal| Refusal {
            message: format!("{}: {}", site.name, refusal.message),
            ..refusal
        })
    }

    fn reach(&self, site: &Peer, within: Duration) -> Result<(), Refusal> {
        let identity = identity(site)?;
        let until = Instant::now() + within;
        // All addresses are tried at once, so a dead address delays none of the others.
        let (reported, outcomes) = sync_channel(site.addresses.len());
        for text in &site.addresses {
            let (reported, text, site) = (reported.clone(), text.clone(), site.clone());
            let mut options = DialOptions::new(Expect::Identity(identity));
            options.deadline = DIAL_WITHIN.min(within);
            let tls = self.tls.clone();
            let dials = Builder::new().name("gw-reach".to_owned()).spawn(move || {
                let connected = dial_text(&text, &tls, &options).and_then(|mut stream| {
                    let greeted = greet(&mut stream, &site);
                    stream.shutdown();
                    greeted.map(|_| ()).map_err(|refusal| refusal.message)
                });
                // The receiver is gone once another address was reached.
                let _ = reported.send(connected);
            });
            dials.map_err(|error| Refusal::later(code::IO, format!("a thread: {error}")))?;
        }
        drop(reported);
        let mut tried = Vec::new();
        loop {
            match outcomes.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(what)) => tried.push(what),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    tried.push("the other addresses did not answer in time".to_owned());
                    break;
                }
            }
        }
        Err(unreachable(site, tried))
    }
}

fn identity(site: &Peer) -> Result<IdentityId, Refusal> {
    site.identity.parse().map_err(|error| {
        Refusal::new(
            code::INVALID,
            format!("the identity of the site {} is invalid: {error}", site.name),
        )
    })
}

/// Dials one address; an error is a message for users.
fn dial_text(text: &str, tls: &ClientTls, options: &DialOptions) -> Result<Connection, String> {
    let host = HostPort::parse(text, PORT_DEFAULT).map_err(|error| format!("{text}: {error}"))?;
    let dialled = dial(&PeerAddress::new(&host.host, host.port), tls, options);
    dialled
        .map(|(stream, _)| stream)
        .map_err(|error| error.to_string())
}

/// The refusal with the failure of each address.
fn unreachable(site: &Peer, mut tried: Vec<String>) -> Refusal {
    if tried.is_empty() {
        tried.push("the site has no address; add one with: godwit site add".to_owned());
    }
    Refusal::later(
        code::UNREACHABLE,
        format!(
            "the site {} cannot be reached: {}",
            site.name,
            tried.join("; ")
        ),
    )
}

/// Sends HELLO, and makes sure that the other side supports questions. Returns its capabilities.
fn greet(stream: &mut Connection, site: &Peer) -> Result<u64, Refusal> {
    let ours = our_hello();
    let mut head = Vec::new();
    ours.encode(&mut head);
    let sent = stream.send(&head, &[]);
    sent.map_err(|error| lost(site, &error.to_string()))?;
    match receive_frame(stream, HELLO_DEADLINE) {
        Ok(Frame::Hello(theirs)) => {
            let unsupported = |error: String| {
                let message = format!("{}: {error}", site.name);
                Refusal::new(code::UNSUPPORTED, message)
            };
            negotiate(&ours, &theirs).map_err(|error| unsupported(error.to_string()))?;
            require_capability(&theirs, capability::ASK, &stream.peer())
                .map_err(|error| unsupported(error.to_string()))?;
            Ok(theirs.capabilities)
        }
        Ok(other) => Err(said(site, other)),
        Err(error) => Err(lost(site, &error.to_string())),
    }
}

/// Waits for the reply to the question of this number; returns its document.
fn wait(
    stream: &mut Connection,
    site: &Peer,
    number: u64,
    go_on: &mut GoOn<'_>,
) -> Result<Vec<u8>, Refusal> {
    let mut received_at = Instant::now();
    let mut done = 0;
    loop {
        match receive_frame(stream, LOOK_EVERY) {
            Ok(Frame::Reply(reply)) if reply.number == number => {
                received_at = Instant::now();
                if !reply.document.is_empty() {
                    return Ok(reply.document);
                }
                done = reply.done;
            }
            // This is the reply to an earlier question, which the caller has abandoned.
            Ok(Frame::Reply(reply)) if reply.number < number => received_at = Instant::now(),
            Ok(other) => return Err(said(site, other)),
            Err(GreetError::Deadline { .. }) if received_at.elapsed() < SILENT_MAX => {}
            Err(GreetError::Deadline { .. }) => {
                let what = format!("no message came for {} s", SILENT_MAX.as_secs());
                return Err(lost(site, &what));
            }
            Err(error) => return Err(lost(site, &error.to_string())),
        }
        if !go_on(done) {
            return Err(super::here::given_up());
        }
    }
}

/// The refusal for a frame that is not a reply.
fn said(site: &Peer, frame: Frame) -> Refusal {
    match frame {
        Frame::Error(error) => {
            let code = match ErrorCode::received(error.code) {
                ErrorCode::AUTH => code::UNKNOWN_IDENTITY,
                ErrorCode::NOT_GRANTED => code::NOT_GRANTED,
                ErrorCode::LIMIT => code::BUSY,
                ErrorCode::NOT_SUPPORTED | ErrorCode::VERSION => code::UNSUPPORTED,
                _ => code::BROKEN,
            };
            Refusal {
                code: code.into(),
                message: format!("{}: {}", site.name, error.message),
                retryable: error.retryable,
            }
        }
        other => Refusal::new(
            code::BROKEN,
            format!(
                "{}: the other node sent {} instead of a reply",
                site.name,
                other.name()
            ),
        ),
    }
}

fn lost(site: &Peer, what: &str) -> Refusal {
    Refusal::later(
        code::BROKEN,
        format!(
            "the connection to the site {} was lost: {what}; ask again",
            site.name
        ),
    )
}
