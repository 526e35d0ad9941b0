//! Closes the sink, reports its progress meanwhile, and stores the final frame. Does not decide
//! about entries.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use godwit_net::{Stream, StreamError};
use godwit_proto::{Finish, Finished, Notice, NoticeKind, Notices, TransferId};

use super::shared::Shared;
use crate::sink::{Ending, FinishReport, SinkFailure};
use crate::{Action, Item, limits};

/// Sends notices while the sink closes.
struct NoticeSender<'a> {
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

/// The remains of a [`NoticeSender`] after the close.
pub(super) struct SentNotices {
    pub(super) said: Vec<Vec<u8>>,
    pub(super) broke: Option<StreamError>,
}

/// The end of the sink, and its report.
pub(super) struct Closing {
    shared: Arc<Shared>,
    /// The final frame, once the sink is closed.
    pub(super) finished: Mutex<Option<Finished>>,
    /// Frames of notices, kept for repetition.
    pub(super) said: Mutex<Vec<Vec<u8>>>,
}

impl Closing {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            finished: Mutex::default(),
            said: Mutex::default(),
        }
    }

    /// Closes the sink, and meanwhile sends its news on `stream`.
    pub(super) fn close_sink(
        &self,
        stream: &mut dyn Stream,
        finish: &Finish,
    ) -> (Result<FinishReport, SinkFailure>, SentNotices) {
        let mut notices = NoticeSender {
            stream,
            transfer: self.shared.config.transfer,
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
                self.report_here(&notice);
                notices.add(notice);
            }
            None => notices.flush(),
        };
        let report = self.shared.sink.finish(&mut Ending {
            failed: finish.failed,
            scan_faults: finish.scan_faults,
            say: &mut say,
            goes_on: &|| !self.shared.has_ended(),
        });
        if !notices.batch.is_empty() {
            notices.flush();
        }
        let sent = SentNotices {
            said: notices.said,
            broke: notices.broke,
        };
        (report, sent)
    }

    /// Reports a notice to the user at this end, if there is one.
    fn report_here(&self, notice: &Notice) {
        if notice.kind == NoticeKind::DELETED {
            self.shared.config.observer.item(&Item {
                action: Action::Delete,
                kind: notice.entry,
                root: notice.root,
                path: &notice.text,
                bytes: 0,
            });
        } else {
            let text = String::from_utf8_lossy(&notice.text);
            self.shared.config.observer.note(&text);
        }
    }
}

impl NoticeSender<'_> {
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

    /// Sends the waiting notices; an empty frame is a sign of life.
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
        // Names and notes from this end are valid; an invalid one must not fail the transfer.
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
