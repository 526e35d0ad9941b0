//! The client's side of a verification over one connection: sends entries in manifests, and receives results as verdicts. Does not read
//! users' manifests, and does not format the results.
//!
//! A verification has no transfer and no journal, and needs no resume.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use godwit_net::Stream;
use godwit_proto::{
    Cancel, ErrorCode, Fault, Finish, Frame, Manifest, Open, Ping, Pong, Record, Seq, TransferId,
    Verdict,
};

use super::client::open_watched;
use super::{Client, Refusal};
use crate::{StreamLoss, limits};

/// Manifests announced and not yet answered.
const WINDOW: usize = 32;

/// Most frames that either end processes in one turn. The limit ensures that an other end which never pauses does not block the rest of the
/// loop.
pub(super) const FRAMES_A_TURN: usize = 64;

/// Longest wait before the user's interrupt, or the daemon's end, is checked.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Callbacks that the client's side of a verification needs from its caller.
pub trait Expectations {
    /// The next entries, at most [`limits::MANIFEST_RECORDS`], together less than [`limits::RECORD_SECTION_BYTES`];
    /// `None` when there are no more.
    ///
    /// # Errors
    /// Ends the verification.
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Refusal>;

    /// Reports a checked entry; `fault` is `None` if the entry is correct.
    fn checked(&mut self, record: &Record, fault: Option<&Fault>);

    /// Reports an existing entry that was not announced.
    fn extra(&mut self, path: &[u8]);

    /// Called several times a second; returns whether to continue.
    fn goes_on(&mut self) -> bool;
}

/// How a verification ended.
#[derive(Debug)]
pub enum VerifyEnd {
    /// Every entry was checked and reported.
    Finished,
    /// The caller stopped the verification.
    Interrupted,
}

/// Lets a daemon check entries. A lost connection is replaced within the retry time of `client`. This is impossible if names of extra
/// entries are requested, because the daemon must see all entries on one connection.
///
/// # Errors
/// Why the verification failed; some entries may have been reported before.
pub fn run_verification(
    client: &Client,
    open: &Open,
    expectations: &mut dyn Expectations,
) -> Result<VerifyEnd, Refusal> {
    let end = verify(client, open, expectations);
    client.connector.end(matches!(end, Ok(VerifyEnd::Finished)));
    end
}

fn verify(
    client: &Client,
    open: &Open,
    expectations: &mut dyn Expectations,
) -> Result<VerifyEnd, Refusal> {
    let extra = open
        .verification
        .as_ref()
        .is_some_and(|verification| verification.extra);
    let durable = open
        .verification
        .as_ref()
        .is_some_and(|verification| verification.durable);
    let mut asking = Asking {
        unanswered: BTreeMap::new(),
        next_seq: 1,
        over: false,
    };
    let mut alive = Instant::now();
    let mut backoff = Duration::from_millis(100);
    let mut opened_once = client.retries_first;
    loop {
        let lost = match open_watched(client, open, &mut || expectations.goes_on()) {
            Ok((_, opened, _, _)) if durable && !opened.durable => {
                return Err(Refusal::own(
                    ErrorCode::NOT_SUPPORTED,
                    "the program there cannot say whether the copy is durable; update it",
                ));
            }
            Ok((mut stream, _, transfer, _)) => {
                opened_once = true;
                let answered = asking.next_seq - asking.unanswered.len() as u64;
                let stream: &mut dyn Stream = &mut stream;
                match asking.run(stream, transfer, expectations) {
                    Ok(end) => return Ok(end),
                    Err(Trouble::Final(refusal)) => return Err(refusal),
                    Err(Trouble::Lost(loss)) => {
                        if asking.next_seq - asking.unanswered.len() as u64 > answered {
                            alive = Instant::now();
                            backoff = Duration::from_millis(100);
                        }
                        Refusal::own(ErrorCode::NO_RESUME, loss)
                    }
                }
            }
            Err(_) if !expectations.goes_on() => return Ok(VerifyEnd::Interrupted),
            Err(refusal) if refusal.is_retryable() && opened_once => refusal,
            Err(refusal) => return Err(refusal),
        };
        if extra || alive.elapsed() >= client.retry_for {
            return Err(lost);
        }
        let until = Instant::now() + backoff;
        while Instant::now() < until {
            if !expectations.goes_on() {
                return Ok(VerifyEnd::Interrupted);
            }
            std::thread::park_timeout(
                until
                    .saturating_duration_since(Instant::now())
                    .min(LOOK_EVERY),
            );
        }
        backoff = (backoff * 2).min(Duration::from_secs(5));
    }
}

/// A client's state that is kept across connections.
struct Asking {
    unanswered: BTreeMap<u64, Vec<Record>>,
    next_seq: u64,
    /// Whether no more entries come.
    over: bool,
}

enum Trouble {
    /// The connection was lost; a new one may work.
    Lost(String),
    Final(Refusal),
}

impl<E: Into<StreamLoss>> From<E> for Trouble {
    fn from(error: E) -> Self {
        let loss: StreamLoss = error.into();
        if loss.is_retryable() {
            Self::Lost(loss.to_string())
        } else {
            Self::Final(Refusal::own(loss.code(), loss))
        }
    }
}

impl Asking {
    fn run(
        &mut self,
        stream: &mut dyn Stream,
        transfer: TransferId,
        expectations: &mut dyn Expectations,
    ) -> Result<VerifyEnd, Trouble> {
        for (seq, records) in &self.unanswered {
            announce(stream, transfer, *seq, records.clone())?;
        }
        let mut pulse = Pulse::new();
        let mut finish_said = false;
        loop {
            for _ in 0..FRAMES_A_TURN {
                let Some((prelude, head)) = stream.try_recv()? else {
                    break;
                };
                pulse.received_at = Instant::now();
                let frame =
                    godwit_proto::decode(&prelude, &head).map_err(|error| StreamLoss::Wire {
                        peer: stream.peer(),
                        error,
                    })?;
                if let Some(end) = self.take(stream, frame, expectations)? {
                    stream.shutdown();
                    return Ok(end);
                }
            }
            if !expectations.goes_on() {
                let mut head = Vec::new();
                let reason = "interrupted by the user".to_owned();
                Cancel { reason }.encode(&mut head);
                // The daemon receives this, or finds the connection closed.
                let _ = stream.send(&head, &[]);
                stream.shutdown();
                return Ok(VerifyEnd::Interrupted);
            }
            if !self.over && self.unanswered.len() < WINDOW {
                match expectations.next_batch() {
                    Ok(Some(records)) => {
                        let seq = self.next_seq;
                        self.next_seq += 1;
                        // Stored before the frame is sent: the caller supplies these entries only once.
                        self.unanswered.insert(seq, records.clone());
                        announce(stream, transfer, seq, records)?;
                        continue;
                    }
                    Ok(None) => self.over = true,
                    Err(refusal) => return Err(Trouble::Final(refusal)),
                }
            }
            if self.over && self.unanswered.is_empty() && !finish_said {
                finish_said = true;
                let mut head = Vec::new();
                let finish = Finish {
                    transfer: transfer.0.to_vec(),
                    seq: self.next_seq,
                    ..Finish::default()
                };
                finish.encode(&mut head);
                stream.send(&head, &[])?;
            }
            pulse.beat(stream)?;
            stream.wait(LOOK_EVERY)?;
        }
    }

    fn take(
        &mut self,
        stream: &mut dyn Stream,
        frame: Frame,
        expectations: &mut dyn Expectations,
    ) -> Result<Option<VerifyEnd>, Trouble> {
        match frame {
            Frame::Answer(answer) => {
                let Some(records) = self.unanswered.remove(&answer.seq.0) else {
                    return Ok(None);
                };
                if records.len() != answer.verdicts.len() {
                    return Err(broke(stream, "an answer with another number of verdicts").into());
                }
                for (record, verdict) in records.iter().zip(&answer.verdicts) {
                    match verdict {
                        Verdict::Failed(fault) => expectations.checked(record, Some(fault)),
                        _ => expectations.checked(record, None),
                    }
                }
                Ok(None)
            }
            Frame::Manifest(manifest) => {
                for record in &manifest.records {
                    expectations.extra(&record.path);
                }
                Ok(None)
            }
            Frame::Finished(_) if self.over && self.unanswered.is_empty() => {
                Ok(Some(VerifyEnd::Finished))
            }
            Frame::Ping(ping) => {
                let mut head = Vec::new();
                Pong { nonce: ping.nonce }.encode(&mut head);
                stream.send(&head, &[])?;
                Ok(None)
            }
            Frame::Error(error) if error.retryable => Err(Trouble::Lost(error.message)),
            Frame::Error(error) => {
                let code = ErrorCode::received(error.code);
                Err(Trouble::Final(Refusal::own(code, error.message)))
            }
            Frame::Cancel(cancel) => Err(Trouble::Lost(cancel.reason)),
            Frame::Pong(_) | Frame::Status(_) | Frame::Unknown { .. } => Ok(None),
            other => Err(broke(
                stream,
                &format!("a {} frame in a verification", other.name()),
            )
            .into()),
        }
    }
}

pub(super) fn announce(
    stream: &mut dyn Stream,
    transfer: TransferId,
    seq: u64,
    records: Vec<Record>,
) -> Result<(), StreamLoss> {
    let mut head = Vec::new();
    let manifest = Manifest {
        transfer,
        seq: Seq(seq),
        records,
    };
    manifest
        .encode(&mut head)
        .map_err(|error| StreamLoss::Wire {
            peer: stream.peer(),
            error,
        })?;
    Ok(stream.send(&head, &[])?)
}

pub(super) fn broke(stream: &dyn Stream, what: &str) -> StreamLoss {
    StreamLoss::Peer {
        peer: stream.peer(),
        what: what.to_owned(),
    }
}

/// Sends keep-alives on a connection, and notices when the other end is silent.
pub(super) struct Pulse {
    pub(super) received_at: Instant,
    spoke: Instant,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            received_at: Instant::now(),
            spoke: Instant::now(),
        }
    }

    pub(super) fn beat(&mut self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        if self.received_at.elapsed() > limits::SILENCE_MAX {
            return Err(StreamLoss::Silent {
                peer: stream.peer(),
                seconds: self.received_at.elapsed().as_secs(),
            });
        }
        if self.spoke.elapsed() >= limits::PING_EVERY {
            let mut head = Vec::new();
            Ping { nonce: 0 }.encode(&mut head);
            stream.send(&head, &[])?;
            self.spoke = Instant::now();
        }
        Ok(())
    }
}
