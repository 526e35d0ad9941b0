//! Answers FINISH, from a sender that has nothing left, with the receiver's final frame.
//! Does not close the sink; `closing` does.

use godwit_proto::{Error as WireFailure, Finish, Finished};

use super::stream_loop::StreamLoop;
use crate::acks::Nearness;
use crate::{End, StreamLoss, lock};

impl StreamLoop<'_> {
    /// Handles an announced end without waiting for the sender's FINISH.
    pub(super) fn mind_ending(&mut self) -> Result<(), StreamLoss> {
        match self.shared.acks.nearness() {
            Nearness::Far => Ok(()),
            Nearness::Written => {
                self.shared.sink.hurry();
                Ok(())
            }
            Nearness::Durable(ending) => {
                // The sender must learn of items that became durable after the last flush before it learns of the end.
                self.flush()?;
                let finish = Finish {
                    transfer: self.shared.config.transfer.0.to_vec(),
                    seq: ending.last,
                    failed: ending.entries_failed,
                    scan_faults: ending.scan_faults,
                    ..Finish::default()
                };
                self.take_finish(&finish)
            }
        }
    }

    pub(super) fn take_finish(&mut self, finish: &Finish) -> Result<(), StreamLoss> {
        if let Some(status) = &finish.counters {
            self.streams.take_peer(status, Some(finish.bytes));
            self.streams.peer.set_max_rss(status.max_rss_bytes);
        }
        let closing = &self.streams.closing;
        // A repeated FINISH waits here for the first one, and gets the same answer.
        let mut finishing = lock(&closing.finished);
        let finished = match finishing.as_ref() {
            Some(finished) => {
                // The sender may have missed the notices that were already sent.
                for frame in lock(&closing.said).iter() {
                    self.stream.send_all(frame)?;
                }
                finished.clone()
            }
            // Closing failed for the first FINISH, and the stream of that FINISH carries the reason.
            None if self.shared.end().is_some() => return Ok(()),
            None => {
                let (report, notices) = closing.close_sink(&mut *self.stream, finish);
                let broke = notices.broke;
                *lock(&closing.said) = notices.said;
                let report = match report {
                    Ok(report) => report,
                    Err(failure) => {
                        drop(finishing);
                        let (code, message) = (failure.code(), failure.to_string());
                        let failure = WireFailure {
                            code: code.0,
                            message: message.clone(),
                            retryable: false,
                        };
                        self.outgoing.clear();
                        failure.encode(&mut self.outgoing);
                        let sent = self.stream.send(&self.outgoing, &[]);
                        self.shared.finish(End::Failed {
                            code,
                            message,
                            retryable: false,
                        });
                        return Ok(sent?);
                    }
                };
                self.meter.settle(&self.shared.counters);
                let counted = self.shared.counters.snapshot();
                let finished = Finished {
                    transfer: self.shared.config.transfer.0.to_vec(),
                    seq: finish.seq,
                    files: counted.files_done,
                    bytes: counted.bytes_durable,
                    skipped: counted.files_skipped,
                    failed: counted.entries_failed,
                    synced: report.synced,
                    max_rss_bytes: (self.shared.config.resources)(),
                    counters: Some(self.shared.status(&counted)),
                    deleted: counted.entries_deleted,
                    adjusted: counted.entries_adjusted,
                    delivered_files: report.delivered.0,
                    delivered_bytes: report.delivered.1,
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
        self.flush()?;
        self.outgoing.clear();
        // A failure reported on another stream may arrive after this stream's final frame, which ends the sender.
        // Therefore failures are repeated here; a repetition does no harm.
        for fault in self.shared.acks.faults_said() {
            self.shared.encoded(fault.encode(&mut self.outgoing));
        }
        if !self.outgoing.is_empty() {
            self.stream.send_all(&self.outgoing)?;
            self.outgoing.clear();
        }
        finished.encode(&mut self.outgoing);
        // Set before the frame is sent, because other streams may see the sender hang up immediately.
        self.shared.finish(End::Finished(finished));
        Ok(self.stream.send(&self.outgoing, &[])?)
    }
}
