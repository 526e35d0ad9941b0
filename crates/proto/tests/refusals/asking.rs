//! Tests refusals of questions, answers and their documents. `control` tests other control
//! messages.

use godwit_proto::limits::{FILLER_BYTES_MAX, MESSAGE_BYTES_MAX};
use godwit_proto::*;

use super::encode;

#[test]
fn questions_and_answers_about_a_side_keep_their_bounds() {
    let refused = |frame: Frame| assert!(encode(&frame).is_err(), "{}", frame.name());
    for wrong in [
        Examine {
            filler: vec![0; FILLER_BYTES_MAX + 1],
            ..Examine::default()
        },
        Examine {
            filler_wanted: u32::try_from(FILLER_BYTES_MAX + 1).unwrap(),
            ..Examine::default()
        },
        Examine {
            place: b"a\0b".to_vec(),
            ..Examine::default()
        },
    ] {
        refused(Frame::Examine(wrong));
    }
    for wrong in [
        Examined {
            clock_nanoseconds: 1_000_000_000,
            ..Examined::default()
        },
        Examined {
            filler: vec![0; FILLER_BYTES_MAX + 1],
            ..Examined::default()
        },
        Examined {
            dialled: vec![Dialled::default(); DIALLED_MAX + 1],
            ..Examined::default()
        },
        Examined {
            storage: Some(StorageSeen {
                problem: "x".repeat(MESSAGE_BYTES_MAX + 1),
                ..StorageSeen::default()
            }),
            ..Examined::default()
        },
    ] {
        refused(Frame::Examined(wrong));
    }
    let most = Examine {
        filler: vec![0; FILLER_BYTES_MAX],
        ..Examine::default()
    };
    assert!(encode(&Frame::Examine(most)).is_ok());
}

#[test]
fn documents_of_questions_and_replies_keep_their_bound() {
    let document = |bytes| vec![b' '; bytes];
    let ask = |bytes| {
        Frame::Ask(Ask {
            number: u64::MAX,
            document: document(bytes),
        })
    };
    let reply = |bytes| {
        Frame::Reply(Reply {
            number: u64::MAX,
            document: document(bytes),
            done: u64::MAX,
        })
    };
    for frame in [ask(DOCUMENT_BYTES_MAX), reply(DOCUMENT_BYTES_MAX)] {
        assert!(encode(&frame).is_ok(), "{}", frame.name());
    }
    for frame in [ask(DOCUMENT_BYTES_MAX + 1), reply(DOCUMENT_BYTES_MAX + 1)] {
        assert!(encode(&frame).is_err(), "{}", frame.name());
    }
}
