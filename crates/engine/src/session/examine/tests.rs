//! Tests of the daemon's side of a verification with a client that does not behave.
//! Reads no copy.

use std::time::Duration;

use godwit_net::{Connection, StreamOptions, local_pair};
use godwit_proto::{Cancel, Manifest, Ping};

use super::*;
use crate::session::receive_frame;

const TRANSFER: TransferId = TransferId([7; 16]);

/// Has room for any number of manifests, and checks none.
struct Idle;

impl Examiner for Idle {
    fn has_room(&self) -> bool {
        true
    }

    fn submit(&self, _number: u64, _records: Vec<Record>) {}

    fn has_failed(&self) -> bool {
        false
    }
}

/// The permission to read ended before the first check.
struct Ended;

impl Examination for Ended {
    fn announced(&mut self, _records: &[Record]) -> Result<(), String> {
        Ok(())
    }

    fn answered(&mut self, _verdicts: &[Verdict]) {}

    fn extra(&mut self, _each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), WireFailure> {
        Ok(())
    }

    fn goes_on(&mut self) -> Result<(), WireFailure> {
        Err(WireFailure {
            code: ErrorCode::NOT_GRANTED.0,
            message: "it has expired".to_owned(),
            retryable: false,
        })
    }
}

/// Serves a client that has sent these frames already; the client's end of the connection is
/// returned.
fn served(frames: &[u8]) -> (Result<ExaminationEnd, StreamLoss>, Connection) {
    let (mut near, mut far) = local_pair(&StreamOptions::default()).expect("a pair");
    near.send_all(frames).expect("sent");
    let opened = Opened {
        transfer: TRANSFER.0.to_vec(),
        block_bytes: limits::BLOCK_BYTES,
        streams_max: 1,
        ..Opened::default()
    };
    let findings = Findings::new(far.waker());
    let end = serve_verification(&mut far, &opened, TRANSFER, &Idle, &findings, &mut Ended);
    (end, near)
}

fn receive(near: &mut Connection) -> Frame {
    receive_frame(near, Duration::from_secs(10)).expect("a frame")
}

#[test]
fn a_client_that_never_pauses_does_not_put_off_the_look_at_its_right() {
    let mut frames = Vec::new();
    for nonce in 0..3 * FRAMES_A_TURN as u64 {
        Ping { nonce }.encode(&mut frames);
    }
    let (end, mut near) = served(&frames);
    let Ok(ExaminationEnd::Refused(why)) = end else {
        panic!("it ended by {end:?}");
    };
    assert_eq!(why.message, "it has expired");
    assert!(matches!(receive(&mut near), Frame::Opened(_)));
    for _ in 0..FRAMES_A_TURN {
        assert!(matches!(receive(&mut near), Frame::Pong(_)));
    }
    let Frame::Error(error) = receive(&mut near) else {
        panic!("more frames were taken in one turn");
    };
    assert_eq!(error.code, ErrorCode::NOT_GRANTED.0);
    assert_eq!(error.message, "it has expired");
    assert!(!error.retryable);
}

#[test]
fn a_client_that_gives_up_is_no_finished_verification() {
    let mut frame = Vec::new();
    let reason = "interrupted by the user".to_owned();
    Cancel { reason }.encode(&mut frame);
    let (end, _near) = served(&frame);
    assert!(
        matches!(&end, Ok(ExaminationEnd::Cancelled(why)) if why == "interrupted by the user"),
        "{end:?}"
    );
}

#[test]
fn a_manifest_without_entries_is_refused() {
    let empty = Manifest {
        transfer: TRANSFER,
        seq: Seq(1),
        records: Vec::new(),
    };
    let mut frame = Vec::new();
    empty.encode(&mut frame).expect("encoded");
    let (end, _near) = served(&frame);
    assert!(matches!(end, Err(StreamLoss::Peer { .. })), "{end:?}");
}
