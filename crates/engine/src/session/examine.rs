//! The daemon's side of a verification over one connection: passes manifests to the reading threads and sends answers.
//! Does not know where the copy is, or who may read it.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use godwit_net::{Stream, Waker};
use godwit_proto::{
    Answer, Error as WireFailure, ErrorCode, Finish, Finished, Frame, Opened, Pong, Record, Seq,
    TransferId, Verdict,
};

use super::verify::{FRAMES_A_TURN, LOOK_EVERY, Pulse, announce, broke};
use crate::{PANICKED, StreamLoss, limits, lock};

/// Checks announced entries on separate threads.
pub trait Examiner {
    /// Whether [`submit`](Self::submit) would return without waiting.
    fn has_room(&self) -> bool;

    /// Queues the entries of one manifest; the verdicts arrive in [`Findings`] under the same number.
    fn submit(&self, number: u64, records: Vec<Record>);

    /// Whether a checking thread has panicked, so that some verdicts never arrive.
    fn has_failed(&self) -> bool;
}

/// How a served verification ended.
#[derive(Debug)]
pub enum ExaminationEnd {
    /// All announced entries were answered.
    Finished,
    /// The client gave it up, for this reason.
    Cancelled(String),
    /// The client got this error.
    Refused(WireFailure),
}

/// Callbacks that the daemon's side of a verification needs from its caller.
pub trait Examination {
    /// Called for announced entries, in the order of the numbers.
    ///
    /// # Errors
    /// The text with which the verification ends.
    fn announced(&mut self, records: &[Record]) -> Result<(), String>;

    /// Called with the verdicts of some entries, once they were sent.
    fn answered(&mut self, verdicts: &[Verdict]);

    /// Called when all entries were checked. If extra entries are requested, calls `each` with their names until it
    /// returns false.
    ///
    /// # Errors
    /// Ends the verification; the client gets this error.
    fn extra(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), WireFailure>;

    /// Called several times a second.
    ///
    /// # Errors
    /// Ends the verification; the client gets this error.
    fn goes_on(&mut self) -> Result<(), WireFailure>;
}

/// Number of a manifest, and its verdicts.
type Answered = (u64, Vec<Verdict>);

/// Findings on their way from the reading threads to the stream.
#[derive(Clone)]
pub struct Findings {
    ready: Arc<Mutex<VecDeque<Answered>>>,
    waker: Waker,
}

impl Findings {
    /// An empty queue for the stream with this waker.
    pub fn new(waker: Waker) -> Self {
        Self {
            ready: Arc::default(),
            waker,
        }
    }

    /// Queues the verdicts for the manifest of this number, and wakes the stream.
    pub fn add(&self, number: u64, verdicts: Vec<Verdict>) {
        lock(&self.ready).push_back((number, verdicts));
        self.waker.wake();
    }

    fn is_empty(&self) -> bool {
        lock(&self.ready).is_empty()
    }
}

/// Serves a client that has opened a verification, to its end.
///
/// # Errors
/// The cause of the stream's loss.
pub fn serve_verification(
    stream: &mut dyn Stream,
    opened: &Opened,
    transfer: TransferId,
    examiner: &dyn Examiner,
    findings: &Findings,
    examination: &mut dyn Examination,
) -> Result<ExaminationEnd, StreamLoss> {
    let mut head = Vec::new();
    opened.encode(&mut head).map_err(|error| StreamLoss::Wire {
        peer: stream.peer(),
        error,
    })?;
    stream.send(&head, &[])?;
    let mut pulse = Pulse::new();
    let mut under_way = 0_u64;
    let mut finish: Option<Finish> = None;
    loop {
        let mut taken = 0;
        while taken < FRAMES_A_TURN && findings.is_empty() && examiner.has_room() {
            let Some((prelude, head)) = stream.try_recv()? else {
                break;
            };
            taken += 1;
            pulse.received_at = Instant::now();
            let frame =
                godwit_proto::decode(&prelude, &head).map_err(|error| StreamLoss::Wire {
                    peer: stream.peer(),
                    error,
                })?;
            match frame {
                Frame::Manifest(manifest) if manifest.records.is_empty() => {
                    return Err(broke(stream, "a manifest without entries"));
                }
                Frame::Manifest(manifest) => {
                    if let Err(message) = examination.announced(&manifest.records) {
                        return refuse(stream, internal(message));
                    }
                    under_way += 1;
                    examiner.submit(manifest.seq.0, manifest.records);
                }
                Frame::Finish(said) => finish = Some(said),
                Frame::Ping(ping) => {
                    let mut head = Vec::new();
                    Pong { nonce: ping.nonce }.encode(&mut head);
                    stream.send(&head, &[])?;
                }
                Frame::Cancel(cancel) => return Ok(ExaminationEnd::Cancelled(cancel.reason)),
                Frame::Pong(_) | Frame::Status(_) | Frame::Unknown { .. } => {}
                other => {
                    return Err(broke(
                        stream,
                        &format!("a {} frame in a verification", other.name()),
                    ));
                }
            }
        }
        if let Err(why) = examination.goes_on() {
            return refuse(stream, why);
        }
        loop {
            let next = lock(&findings.ready).pop_front();
            let Some((seq, verdicts)) = next else { break };
            under_way -= 1;
            let mut head = Vec::new();
            let answer = Answer {
                transfer,
                seq: Seq(seq),
                verdicts,
            };
            answer.encode(&mut head).map_err(|error| StreamLoss::Wire {
                peer: stream.peer(),
                error,
            })?;
            stream.send(&head, &[])?;
            examination.answered(&answer.verdicts);
        }
        if examiner.has_failed() {
            return refuse(stream, internal(PANICKED.to_owned()));
        }
        if let Some(finish) = finish.as_ref().filter(|_| under_way == 0) {
            return end(stream, transfer, finish, examination);
        }
        pulse.beat(stream)?;
        if examiner.has_room() {
            stream.wait(LOOK_EVERY)?;
        } else {
            stream.wait_woken(LOOK_EVERY)?;
            // Frames may have arrived meanwhile, but were not read.
            pulse.received_at = Instant::now();
        }
    }
}

fn end(
    stream: &mut dyn Stream,
    transfer: TransferId,
    finish: &Finish,
    examination: &mut dyn Examination,
) -> Result<ExaminationEnd, StreamLoss> {
    let mut batch: Vec<Record> = Vec::new();
    let mut section = 0;
    let mut seq = finish.seq;
    let mut failed: Option<StreamLoss> = None;
    let searched = examination.extra(&mut |path| {
        section += path.len() + 128;
        batch.push(crate::entry::unknown_record(
            godwit_proto::EntryId(0),
            0,
            path.to_vec(),
        ));
        if batch.len() >= limits::MANIFEST_RECORDS || section >= limits::RECORD_SECTION_BYTES / 2 {
            section = 0;
            seq += 1;
            if failed.is_none() {
                failed = announce(stream, transfer, seq, std::mem::take(&mut batch)).err();
            }
            batch.clear();
        }
        failed.is_none()
    });
    if let Some(loss) = failed {
        return Err(loss);
    }
    if let Err(why) = searched {
        return refuse(stream, why);
    }
    if !batch.is_empty() {
        announce(stream, transfer, seq + 1, batch)?;
    }
    let mut head = Vec::new();
    let finished = Finished {
        transfer: transfer.0.to_vec(),
        seq: finish.seq,
        ..Finished::default()
    };
    finished.encode(&mut head);
    stream.send(&head, &[])?;
    stream.shutdown();
    Ok(ExaminationEnd::Finished)
}

fn internal(message: String) -> WireFailure {
    WireFailure {
        code: ErrorCode::INTERNAL.0,
        message,
        retryable: false,
    }
}

fn refuse(stream: &mut dyn Stream, why: WireFailure) -> Result<ExaminationEnd, StreamLoss> {
    let mut head = Vec::new();
    why.encode(&mut head);
    stream.send(&head, &[])?;
    stream.shutdown();
    Ok(ExaminationEnd::Refused(why))
}
