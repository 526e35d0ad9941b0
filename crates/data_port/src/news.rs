//! Makes the reports about transfers on the data port: the peer, its request, and the outcome. Does not decide; `open`, `verify` and
//! `keeper` decide when a report is due. `operator` bounds and delivers the reports.

use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::event::Encryption;
use godwit_api::failure::{FailureCode, Scope};
use godwit_api::record::{
    TransferDirection, TransferNews, TransferRecord, TransferStart, shown_places,
};
use godwit_api::rest::Timestamp;
use godwit_engine::session::{Engine, ExaminationEnd};
use godwit_engine::{End, StreamLoss};
use godwit_net::{IdentityId, Stream};
use godwit_proto::{Direction, Open, TransferId};

/// The current time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A transfer that a peer opened on this stream.
pub(crate) fn started(
    transfer: TransferId,
    peer: IdentityId,
    stream: &dyn Stream,
    request: &Open,
    counted_as: &[IdentityId],
) -> TransferStart {
    let encryption = stream.cipher().map(|(cipher, library)| Encryption {
        cipher: cipher.to_string(),
        library: library.to_string(),
        plain_contents: request.plain_payload,
    });
    TransferStart {
        id: transfer.to_string(),
        job: None,
        identity: Some(peer.to_string()),
        peer: Some(stream.peer()),
        owner: None,
        direction: direction(request),
        places: places(request),
        label: Some(request.label.clone()).filter(|label| !label.is_empty()),
        request: None,
        encryption,
        counted_as: counted_as.iter().map(ToString::to_string).collect(),
    }
}

/// Reports the end of a transfer that the engine ran.
pub(crate) fn ended(
    start: &TransferStart,
    since: Timestamp,
    engine: &Engine,
    end: &End,
) -> TransferNews {
    let counted = engine.counters().snapshot();
    let (code, message) = match end {
        End::Finished(finished) if finished.failed == 0 => (FailureCode::Complete, None),
        End::Finished(_) => (FailureCode::Partial, None),
        End::Cancelled(reason) => (FailureCode::Interrupted, Some(reason.clone())),
        End::Failed { code, message, .. } => {
            let code = FailureCode::of_number(Scope::Job, code.0);
            (code, Some(message.clone()))
        }
    };
    let (bytes, files, failed) = match end {
        End::Finished(finished) => (finished.bytes, finished.files, finished.failed),
        _ => (
            counted.bytes_durable,
            counted.files_done,
            counted.entries_failed,
        ),
    };
    let record = TransferRecord {
        start: start.clone(),
        started: since,
        ended: now(),
        bytes,
        files,
        failed,
        bytes_per_second: 0.0,
        streams: counted.streams_attached,
        bottleneck: engine.end_counters().bottleneck(),
        code: code.into(),
        message,
    };
    TransferNews::Ended(Box::new(record.with_rate()))
}

/// How a verification ended, and how many entries were announced and failed.
pub(crate) fn verified(
    start: TransferStart,
    since: Timestamp,
    (entries, failed): (u64, u64),
    end: Result<ExaminationEnd, StreamLoss>,
) -> TransferNews {
    let (code, message) = match end {
        Ok(ExaminationEnd::Finished) if failed == 0 => (FailureCode::Complete, None),
        Ok(ExaminationEnd::Finished) => (FailureCode::Different, None),
        Ok(ExaminationEnd::Cancelled(reason)) => (FailureCode::Interrupted, Some(reason)),
        Ok(ExaminationEnd::Refused(why)) => {
            let code = FailureCode::of_number(Scope::Job, why.code);
            (code, Some(why.message))
        }
        Err(loss) => (FailureCode::Interrupted, Some(loss.to_string())),
    };
    let record = TransferRecord {
        start,
        started: since,
        ended: now(),
        bytes: 0,
        files: entries,
        failed,
        bytes_per_second: 0.0,
        streams: 1,
        bottleneck: None,
        code: code.into(),
        message,
    };
    TransferNews::Ended(Box::new(record))
}

/// Most bytes of a message and of a place in a line of the log; the peer chooses both.
const MESSAGE_BYTES_MAX: usize = 1_024;
const PLACE_BYTES_MAX: usize = 512;

fn clip(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('…');
    }
    text
}

/// Shortens a place that a peer named.
pub(crate) fn clip_place(place: String) -> String {
    clip(place, PLACE_BYTES_MAX)
}

/// Converts a message to a peer into one about the peer, and adds how many such refusals have no line.
pub(crate) fn for_operator(message: &str, left_out: u64) -> String {
    let mut message = clip(message.to_owned(), MESSAGE_BYTES_MAX);
    for (to_peer, about_peer) in [
        (
            "this daemon does not know you",
            "this node does not know it",
        ),
        ("you may not", "it may not"),
        (
            "; its operator can grant you access with: ",
            "; to grant it access: ",
        ),
        ("; its operator can allow it with: ", "; to allow it: "),
        (
            "; its operator can allow unencrypted contents with: ",
            "; to allow it: ",
        ),
    ] {
        message = message.replace(to_peer, about_peer);
    }
    if left_out > 0 {
        message.push_str(&format!(
            " ({left_out} more lines about this identity were left out)"
        ));
    }
    message
}

/// Start of the name below which `godwit doctor` asks for a place that cannot exist. The answer shows the rights there, and no data is
/// moved.
const DOCTOR: &str = "/.godwit-doctor-";

/// The place whose rights `godwit doctor` asks for, if this is such a request.
pub(crate) fn probe(request: &Open) -> Option<String> {
    let path = match (request.direction(), request.sources.as_slice()) {
        (Direction::PUSH, _) => &request.destination,
        // `godwit doctor` names no other source, so no real request can hide behind its name.
        (_, [source]) => source,
        _ => return None,
    };
    let text = String::from_utf8_lossy(path);
    let (place, process) = text.strip_suffix("/x")?.rsplit_once(DOCTOR)?;
    let is_number = !process.is_empty() && process.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| place.to_owned())
}

/// The refusal for `godwit doctor`. No user wanted that right, so the message has no advice, and does not name the place that cannot
/// exist.
pub(crate) fn of_doctor(message: &str) -> String {
    let why = message.split("; its operator can ").next();
    let why = why.unwrap_or_default().split(DOCTOR).next();
    format!(
        "only a question of godwit doctor: {}",
        why.unwrap_or_default()
    )
}

pub(crate) fn direction(request: &Open) -> TransferDirection {
    match request.direction() {
        Direction::PUSH => TransferDirection::Receive,
        Direction::VERIFY => TransferDirection::Verify,
        _ => TransferDirection::Send,
    }
}

pub(crate) fn places(request: &Open) -> Vec<String> {
    let text = |path: &Vec<u8>| clip_place(String::from_utf8_lossy(path).into_owned());
    match request.direction() {
        Direction::PUSH => vec![text(&request.destination)],
        _ => shown_places(request.sources.iter().map(text).collect()),
    }
}

#[cfg(test)]
mod tests {
    use godwit_proto::{Error as WireFailure, ErrorCode};

    use super::*;

    #[test]
    fn a_verification_without_a_good_end_is_not_recorded_as_complete() {
        let taken_back = WireFailure {
            code: ErrorCode::NOT_GRANTED.0,
            message: "this access was taken back".to_owned(),
            retryable: false,
        };
        let gave_up = ExaminationEnd::Cancelled("interrupted by the user".to_owned());
        for (end, failed, code, says) in [
            (Ok(ExaminationEnd::Finished), 0, FailureCode::Complete, None),
            (
                Ok(ExaminationEnd::Finished),
                2,
                FailureCode::Different,
                None,
            ),
            (
                Ok(gave_up),
                0,
                FailureCode::Interrupted,
                Some("interrupted by the user"),
            ),
            (
                Ok(ExaminationEnd::Refused(taken_back)),
                1,
                FailureCode::AccessDenied,
                Some("this access was taken back"),
            ),
        ] {
            let start = TransferStart {
                id: "0".to_owned(),
                job: None,
                identity: None,
                peer: None,
                owner: None,
                direction: TransferDirection::Verify,
                places: Vec::new(),
                label: None,
                request: None,
                encryption: None,
                counted_as: Vec::new(),
            };
            let TransferNews::Ended(record) = verified(start, now(), (7, failed), end) else {
                panic!("no end");
            };
            assert_eq!(record.code, code);
            assert_eq!((record.files, record.failed), (7, failed));
            assert_eq!(record.message.as_deref(), says);
        }
    }

    #[test]
    fn a_question_of_doctor_is_recognized_and_gets_no_advice() {
        let asked = |direction: Direction, path: &str| {
            probe(&Open {
                direction: direction.0,
                sources: vec![path.as_bytes().to_vec()],
                destination: path.as_bytes().to_vec(),
                ..Open::default()
            })
        };
        let place = Some("/data/d".to_owned());
        for direction in [Direction::PUSH, Direction::PULL] {
            assert_eq!(asked(direction, "/data/d/.godwit-doctor-17/x"), place);
            for other in [
                "/data/d/x",
                "/data/.godwit-doctor-/x",
                "/data/.godwit-doctor-1a/x",
                "/data/.godwit-doctor-17/y",
                "/data/.godwit-doctor-17/d/x",
            ] {
                assert_eq!(asked(direction, other), None, "{other}");
            }
        }
        let message = "you may not write to data/.godwit-doctor-17/x; its operator can allow it with: godwit access allow gw1-x --export data --write";
        assert_eq!(
            for_operator(&of_doctor(message), 0),
            "only a question of godwit doctor: it may not write to data"
        );
    }

    #[test]
    fn a_refusal_speaks_about_the_peer_and_keeps_the_command() {
        let to_peer = "you may not read from the export data; its operator can allow it with: godwit access allow gw1-x --export data --read";
        let long = for_operator(&"ä".repeat(5_000), 3);
        assert!(long.len() < 1_200, "{}", long.len());
        assert!(long.ends_with("(3 more lines about this identity were left out)"));
        assert_eq!(
            for_operator(to_peer, 0),
            "it may not read from the export data; to allow it: godwit access allow gw1-x --export data --read"
        );
    }
}
