//! Tells of the attempts of jobs as transfers: their beginning and their end.
//! Writes nothing down.

use godwit_api::event::{Status, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::record::{
    NewsSink, TransferDirection, TransferNews, TransferRecord, TransferStart, shown_places,
};
use godwit_api::rest::{HERE, ProgressView, Timestamp};
use godwit_state::{Attempt, Job, Moved, StoredPlace};

use crate::basis::clock::now;

/// An attempt whose beginning was reported.
pub(crate) struct Recording {
    start: TransferStart,
    since: Timestamp,
}

/// Amounts and progress of an attempt.
pub(crate) struct AttemptTotals {
    pub(crate) moved: Moved,
    pub(crate) failed: u64,
    /// The latest progress.
    pub(crate) progress: Option<ProgressView>,
}

impl Recording {
    /// Tells that an attempt begins.
    pub(crate) fn begin(tells: &NewsSink, job: &Job) -> Self {
        let start = start_of(job, job.attempts.saturating_add(1));
        tells(&TransferNews::Started(start.clone()));
        Self {
            start,
            since: now(),
        }
    }

    /// Reports the amounts of an attempt that ended with the node, without a report of its end.
    pub(crate) fn report_lost(tells: &NewsSink, job: &Job, attempt: &Attempt, moved: Moved) {
        let record = TransferRecord {
            start: start_of(job, attempt.number),
            started: attempt.started,
            ended: attempt.ended.unwrap_or_else(now),
            bytes: moved.bytes,
            files: moved.files,
            failed: 0,
            bytes_per_second: 0.0,
            streams: 0,
            bottleneck: None,
            code: FailureCode::Interrupted.into(),
            message: attempt.reason.as_ref().map(|reason| reason.text.clone()),
        };
        tells(&TransferNews::Ended(Box::new(record.with_rate())));
    }

    /// Tells how it ended.
    pub(crate) fn end(
        self,
        tells: &NewsSink,
        ended: &Result<Summary, Failure>,
        did: AttemptTotals,
    ) {
        let (code, message) = match ended {
            Ok(Summary::Transfer(summary)) if summary.status != Status::Complete => {
                (FailureCode::Partial, None)
            }
            Ok(_) => (FailureCode::Complete, None),
            Err(failure) => (failure.code, Some(failure.message.clone())),
        };
        let encryption = match ended {
            Ok(Summary::Transfer(summary)) => summary.encryption.clone(),
            _ => None,
        };
        let record = TransferRecord {
            start: TransferStart {
                encryption,
                ..self.start
            },
            started: self.since,
            ended: now(),
            bytes: did.moved.bytes,
            files: did.moved.files,
            failed: did.failed,
            bytes_per_second: 0.0,
            streams: did
                .progress
                .as_ref()
                .map_or(0, |view| u64::from(view.streams)),
            bottleneck: did.progress.and_then(|view| view.bottleneck),
            code: code.into(),
            message,
        };
        tells(&TransferNews::Ended(Box::new(record.with_rate())));
    }
}

/// An attempt of a job as a transfer.
fn start_of(job: &Job, attempt: u32) -> TransferStart {
    let text = |place: &StoredPlace| match place.site.as_str() {
        HERE => place.path.trim_start_matches('/').to_owned(),
        site => format!("{site}:{}", place.path),
    };
    let source = job.sources.first();
    let from_here = source.is_none_or(|place| place.site == HERE);
    let to_here = job.destination.site == HERE;
    let direction = match (from_here, to_here) {
        (true, true) => TransferDirection::Local,
        (true, false) => TransferDirection::Send,
        (false, true) => TransferDirection::Receive,
        (false, false) => TransferDirection::ThirdParty,
    };
    let mut sites: Vec<&str> = source
        .into_iter()
        .chain([&job.destination])
        .map(|place| place.site.as_str())
        .filter(|site| *site != HERE)
        .collect();
    sites.dedup();
    let mut places = shown_places(job.sources.iter().map(text).collect());
    places.push(text(&job.destination));
    TransferStart {
        id: format!("{}-{attempt}", job.id),
        job: Some(job.id.clone()),
        identity: None,
        peer: (!sites.is_empty()).then(|| sites.join(", ")),
        owner: Some(job.owner.clone()),
        direction,
        places,
        label: None,
        request: job.request.clone(),
        encryption: None,
        counted_as: Vec::new(),
    }
}
