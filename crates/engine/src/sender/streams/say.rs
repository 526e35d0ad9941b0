//! Sends a stream's messages other than items: progress, keep-alive, and the end. Does not decide when; the loop of a
//! stream does.

use std::time::Duration;

use godwit_proto::{ErrorCode, NameList, Ping, Status, priority};

use super::stream_loop::StreamLoop;
use crate::{End, StreamLoss, entry, streams};

impl StreamLoop<'_> {
    /// Sends a STATUS; `last_item` announces the end.
    pub(super) fn say_status(
        &mut self,
        drained: bool,
        last_item: Option<u64>,
    ) -> Result<(), StreamLoss> {
        self.shared
            .counters
            .limit_bytes_per_second
            .set(self.shared.live.rate().get());
        let own = self.shared.counters.snapshot();
        let (scan_done, wants_stream) = {
            let state = self.shared.lock_state();
            (state.scan_done, state.streams.wants_stream)
        };
        let status = Status {
            drained,
            last_item: last_item.unwrap_or_default(),
            entries_failed: own.entries_failed,
            scan_faults: own.scan_faults,
            max_rss_bytes: last_item.and_then(|_| (self.shared.config.resources)()),
            wants_stream,
            scan_done,
            entries_scanned: own.entries_scanned,
            bytes_scanned: own.bytes_scanned,
            tuned: self.shared.decided.latest(),
            priority: priority::of(self.shared.live.background()),
            ..entry::status_from_snapshot(&own)
        };
        let mut head = Vec::new();
        status.encode(&mut head);
        Ok(self.stream.send(&head, &[])?)
    }

    /// Whether the count of taken list parts must be reported.
    pub(super) fn taken_is_due(&self) -> bool {
        let names = self.streams.scan.names();
        names.is_some_and(|names| names.is_due())
    }

    /// Reports how many names of the other end were taken, unless the other end knows the number already.
    pub(super) fn say_taken(&mut self) -> Result<(), StreamLoss> {
        let Some(taken) = self.streams.scan.names().and_then(|names| names.due()) else {
            return Ok(());
        };
        let mut head = Vec::new();
        if let Err(error) = NameList::taken(self.shared.config.transfer, taken).encode(&mut head) {
            let message = format!("the message about a list cannot be encoded: {error}");
            self.shared.fail(ErrorCode::INTERNAL, &message);
            return Ok(());
        }
        Ok(self.stream.send(&head, &[])?)
    }

    /// Sends the kernel's measurements of this stream, which the other end needs to tune its streams.
    pub(super) fn say_sending(&mut self) -> Result<(), StreamLoss> {
        if let Some(sending) = streams::sending(&self.stream.meter().read())
            && self.stream.carries_blocks()
        {
            let mut head = Vec::new();
            sending.encode(&mut head);
            self.stream.send(&head, &[])?;
        }
        Ok(())
    }

    pub(super) fn ping(&mut self) -> Result<(), StreamLoss> {
        let mut head = Vec::new();
        Ping {
            nonce: self.shared.counters.bytes_sent.get(),
        }
        .encode(&mut head);
        Ok(self.stream.send(&head, &[])?)
    }

    /// Reports to the other end how the transfer ended, so that it does not wait for us; best effort, because the
    /// connection closes anyway.
    pub(super) fn say_goodbye(&mut self, end: &End) {
        self.stream.set_stall_limit(Duration::from_secs(1));
        let frame = end.last_word();
        if !frame.is_empty() {
            let _ = self.stream.send(&frame, &[]);
        }
        self.stream.shutdown();
    }
}
