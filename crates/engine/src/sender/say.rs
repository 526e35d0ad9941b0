//! What a sender says beside its items: how far it is, that it lives, and how it ended.
//! Does not say when; the loop of a stream does.

use std::time::{Duration, Instant};

use godwit_net::Stream;
use godwit_proto::{Ping, Status};

use super::Sender;
use crate::{End, StreamLoss, entry, limits, streams};

impl Sender {
    /// `last_item` foretells the end.
    pub(super) fn say_status(
        &self,
        stream: &mut dyn Stream,
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
            (state.scan_done, state.wants_stream)
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
            ..entry::status_from_snapshot(&own)
        };
        let mut head = Vec::new();
        status.encode(&mut head);
        Ok(stream.send(&head, &[])?)
    }

    /// What the kernel knows of this stream, for the other end to choose its streams by.
    pub(super) fn say_sending(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        if let Some(sending) = streams::sending(&stream.meter().read())
            && stream.carries_blocks()
        {
            let mut head = Vec::new();
            sending.encode(&mut head);
            stream.send(&head, &[])?;
        }
        Ok(())
    }

    pub(super) fn status_is_due(&self, now: Instant) -> bool {
        let Ok(mut due) = self.status_due.try_lock() else {
            return false;
        };
        let is_due = *due <= now;
        if is_due {
            *due = now + limits::STATUS_EVERY;
        }
        is_due
    }

    pub(super) fn ping(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let mut head = Vec::new();
        Ping {
            nonce: self.shared.counters.bytes_sent.get(),
        }
        .encode(&mut head);
        Ok(stream.send(&head, &[])?)
    }

    /// Tells the other end how it ended, so that it does not wait for us; best effort, the connection closes either way.
    pub(super) fn say_goodbye(&self, stream: &mut dyn Stream, end: &End) {
        stream.set_stall_limit(Duration::from_secs(1));
        let frame = end.last_word();
        if !frame.is_empty() {
            let _ = stream.send(&frame, &[]);
        }
        stream.shutdown();
    }
}
