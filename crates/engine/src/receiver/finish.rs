//! Closes the sink when the sender has nothing left, tells meanwhile what it does, and answers with the last word.
//! Decides nothing about entries.

use std::time::Instant;

use godwit_net::{Stream, StreamError};
use godwit_proto::{
    Error as WireFailure, Finish, Finished, Notice, NoticeKind, Notices, TransferId,
};

use super::Receiver;
use super::stream::StreamState;
use crate::acks::Nearness;
use crate::sink::{Ending, FinishReport, SinkFailure};
use crate::{Action, End, Item, StreamLoss, limits, lock};

/// Notices on their way out, while the sink closes.
struct Telling<'a> {
    stream: &'a mut dyn Stream,
    transfer: TransferId,
    /// Number of the next notice.
    next: u64,
    batch: Vec<Notice>,
    batch_bytes: usize,
    spoke: Instant,
    said: Vec<Vec<u8>>,
    said_bytes: usize,
    broke: Option<StreamError>,
}

/// What is left of a [`Telling`].
struct Told {
    said: Vec<Vec<u8>>,
    broke: Option<StreamError>,
}

impl Receiver {
    /// Does without being asked what a sender that foretold the end would ask for next.
    pub(super) fn mind_ending(
        &self,
        stream: &mut dyn Stream,
        own: &mut StreamState,
    ) -> Result<(), StreamLoss> {
        match self.acks.nearness() {
            Nearness::Far => Ok(()),
            Nearness::Written => {
                self.sink.hurry();
                Ok(())
            }
            Nearness::Durable(ending) => {
                // What became durable after the last flush must be known before the end is.
                self.flush(stream, own)?;
                let finish = Finish {
                    transfer: self.config.transfer.0.to_vec(),
                    seq: ending.last,
                    failed: ending.entries_failed,
                    scan_faults: ending.scan_faults,
                    ..Finish::default()
                };
                self.take_finish(stream, own, &finish)
            }
        }
    }

    pub(super) fn take_finish(
        &self,
        stream: &mut dyn Stream,
        own: &mut StreamState,
        finish: &Finish,
    ) -> Result<(), StreamLoss> {
        if let Some(status) = &finish.counters {
            self.take_peer(status, Some(finish.bytes));
            *lock(&self.peer_max_rss) = status.max_rss_bytes;
        }
        // Whoever asks again while the first is at it waits here for the same answer.
        let mut finishing = lock(&self.finishing);
        let finished = match finishing.as_ref() {
            Some(finished) => {
                // Whoever asks again may not have heard what was told.
                for frame in lock(&self.said).iter() {
                    stream.send_all(frame)?;
                }
                finished.clone()
            }
            // It failed for the one who asked first, and its reason is on its way.
            None if self.end().is_some() => return Ok(()),
            None => {
                let (report, telling) = self.close_sink(stream, finish);
                let broke = telling.broke;
                *lock(&self.said) = telling.said;
                let report = match report {
                    Ok(report) => report,
                    Err(failure) => {
                        drop(finishing);
                        let (code, message) = (failure.code().0, failure.to_string());
                        let failure = WireFailure {
                            code,
                            message: message.clone(),
                            retryable: false,
                        };
                        own.outgoing.clear();
                        failure.encode(&mut own.outgoing);
                        let sent = stream.send(&own.outgoing, &[]);
                        self.finish(End::Failed {
                            code,
                            message,
                            retryable: false,
                        });
                        return Ok(sent?);
                    }
                };
                own.meter.settle(&self.counters);
                let counted = self.counters.snapshot();
                let finished = Finished {
                    transfer: self.config.transfer.0.to_vec(),
                    seq: finish.seq,
                    files: counted.files_done,
                    bytes: counted.bytes_durable,
                    skipped: counted.files_skipped,
                    failed: counted.entries_failed,
                    synced: report.synced,
                    max_rss_bytes: (self.config.resources)(),
                    counters: Some(self.status(&counted)),
                    deleted: counted.entries_deleted,
                    adjusted: counted.entries_adjusted,
                    ..Finished::default()
                };
                *finishing = Some(finished.clone());
                if let Some(error) = broke {
                    // The sender asks again on another stream.
                    return Err(error.into());
                }
                finished
            }
        };
        drop(finishing);
        self.flush(stream, own)?;
        own.outgoing.clear();
        // What another stream says of failures may come after this one's last word, which ends the sender. Twice does no harm.
        for fault in self.acks.faults_said() {
            self.encoded(fault.encode(&mut own.outgoing));
        }
        if !own.outgoing.is_empty() {
            stream.send_all(&own.outgoing)?;
            own.outgoing.clear();
        }
        finished.encode(&mut own.outgoing);
        // Before it is sent: the other streams may see the sender hang up at once.
        self.finish(End::Finished(finished));
        Ok(stream.send(&own.outgoing, &[])?)
    }

    fn close_sink(
        &self,
        stream: &mut dyn Stream,
        finish: &Finish,
    ) -> (Result<FinishReport, SinkFailure>, Told) {
        let mut telling = Telling {
            stream,
            transfer: self.config.transfer,
            next: 1,
            batch: Vec::new(),
            batch_bytes: 0,
            spoke: Instant::now(),
            said: Vec::new(),
            said_bytes: 0,
            broke: None,
        };
        let mut say = |notice: Option<Notice>| match notice {
            Some(notice) => {
                self.tell_here(&notice);
                telling.add(notice);
            }
            None => telling.flush(),
        };
        let report = self.sink.finish(&mut Ending {
            failed: finish.failed,
            scan_faults: finish.scan_faults,
            say: &mut say,
        });
        if !telling.batch.is_empty() {
            telling.flush();
        }
        let told = Told {
            said: telling.said,
            broke: telling.broke,
        };
        (report, told)
    }

    /// To the user at this end, if there is one.
    fn tell_here(&self, notice: &Notice) {
        if notice.kind == NoticeKind::DELETED {
            self.config.observer.item(&Item {
                action: Action::Delete,
                kind: notice.entry,
                root: notice.root,
                path: &notice.text,
                bytes: 0,
            });
        } else {
            let text = String::from_utf8_lossy(&notice.text);
            self.config.observer.note(&text);
        }
    }
}

impl Telling<'_> {
    fn add(&mut self, notice: Notice) {
        self.batch_bytes += notice.text.len();
        self.batch.push(notice);
        if self.batch.len() >= limits::NOTICES_AT_ONCE
            || self.batch_bytes >= limits::NOTICE_FRAME_BYTES
            || self.spoke.elapsed() >= limits::STATUS_EVERY
        {
            self.flush();
        }
    }

    /// Sends what waits; a frame without notices is a sign of life.
    fn flush(&mut self) {
        let notices = Notices {
            transfer: self.transfer,
            first: self.next,
            notices: std::mem::take(&mut self.batch),
        };
        self.next += notices.notices.len() as u64;
        self.batch_bytes = 0;
        self.spoke = Instant::now();
        let mut frame = Vec::new();
        // Names and notes that this end puts together are valid; one that is not is not worth the transfer.
        if notices.encode(&mut frame).is_err() {
            return;
        }
        if self.broke.is_none() {
            self.broke = self.stream.send_all(&frame).err();
        }
        if !notices.notices.is_empty()
            && self.said_bytes + frame.len() <= limits::NOTICES_KEPT_BYTES
        {
            self.said_bytes += frame.len();
            self.said.push(frame);
        }
    }
}
