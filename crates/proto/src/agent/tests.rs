//! Tests of the exchange with an agent: messages, and their detection among other bytes. Uses no
//! ssh and no process.

use proptest::prelude::*;

use super::*;

fn start() -> Start {
    Start {
        version_min: 1,
        version_max: 1,
        software: "godwit 0.1.0".to_owned(),
        identity: "gw1-a".to_owned(),
        sender: "gw1-b".to_owned(),
        addresses: vec!["192.0.2.1:50000".to_owned()],
        retry_for_ms: 300_000,
        ..Start::default()
    }
}

/// Reads `bytes` in pieces of the sizes in `pieces`, then all the rest.
fn read(bytes: &[u8], pieces: &[usize]) -> (MessageReader, usize) {
    let mut reader = MessageReader::default();
    let mut at: usize = 0;
    for piece in pieces.iter().copied().chain([usize::MAX]) {
        let end = at.saturating_add(piece).min(bytes.len());
        at += reader.take(&bytes[at..end]).expect("a message");
    }
    (reader, at)
}

#[test]
fn the_start_has_the_bytes_of_the_document() {
    let message = Start {
        version_min: 1,
        version_max: 2,
        software: "g".to_owned(),
        port_first: 7,
        port_last: 9,
        via_ssh: true,
        early_bytes: 5,
        ..Start::default()
    };
    let expected = [
        &b"\x00\xffgodwit agent\r\n"[..],
        b"\x0f\x00\x00\x00",
        b"\x08\x01\x10\x02\x1a\x01g\x30\x07\x38\x09\x48\x01\x68\x05",
    ]
    .concat();
    assert_eq!(message.to_bytes(), Ok(expected));
}

#[test]
fn a_message_is_found_behind_a_banner() {
    let bytes = [
        b"Welcome!\n\0\xffgodwit agent?\n\0",
        start().to_bytes().expect("valid").as_slice(),
        b"frames",
    ]
    .concat();
    let (reader, at) = read(&bytes, &[]);
    assert_eq!(reader.noise(), b"Welcome!\n\0\xffgodwit agent?\n\0");
    assert_eq!(&bytes[at..], b"frames");
    assert_eq!(Start::from_body(reader.body().expect("whole")), Ok(start()));
}

#[test]
fn too_much_noise_and_too_long_a_message_are_refused_before_memory_is_taken() {
    let mut reader = MessageReader::default();
    let noise = vec![b'x'; NOISE_BYTES_MAX + 1];
    assert_eq!(reader.take(&noise), Err(ReadError::Noise));
    let mut reader = MessageReader::default();
    let long = [&MARKER[..], &u32::MAX.to_le_bytes()].concat();
    assert_eq!(reader.take(&long), Err(ReadError::TooLong));
}

#[test]
fn agent_messages_out_of_bounds_are_refused() {
    let refused = |change: fn(&mut Start)| {
        let mut message = start();
        change(&mut message);
        assert!(message.to_bytes().is_err(), "{message:?}");
        assert!(Start::from_body(&message.encode_to_vec()).is_err());
    };
    refused(|message| message.version_min = 0);
    refused(|message| message.version_min = 2);
    refused(|message| message.port_last = 70_000);
    refused(|message| message.port_last = 7);
    refused(|message| message.sender = "x".repeat(WORD_BYTES_MAX + 1));
    refused(|message| message.addresses = vec![String::new(); ADDRESSES_MAX + 1]);
    let errand = Errand {
        peer: "p".repeat(1000),
        ..Errand::default()
    };
    assert!(errand.to_bytes().is_err());
    assert!(Errand::from_body(&errand.encode_to_vec()).is_err());
    assert!(Started::from_body(b"\xff").is_err());
}

#[test]
fn an_errand_carries_the_description_of_a_job() {
    let errand = Errand {
        peer: "h".to_owned(),
        job: r#"{"version":1}"#.to_owned(),
        entries_wanted: true,
        ..Errand::default()
    };
    let body = errand.encode_to_vec();
    assert_eq!(Errand::from_body(&body), Ok(errand.clone()));
    assert_eq!(body, b"\x22\x01h\x58\x01\x72\x0d{\"version\":1}");
    let long = Errand {
        job: " ".repeat(AGENT_MESSAGE_BYTES_MAX),
        ..errand
    };
    assert!(long.to_bytes().is_err());
}

#[test]
fn versions_meet_where_ranges_overlap() {
    assert!(versions_meet((1, 3), (3, 4)));
    assert!(versions_meet((2, 2), (1, 9)));
    assert!(!versions_meet((2, 3), (1, 1)));
    assert!(!versions_meet((1, 1), (2, 3)));
}

proptest! {
    #[test]
    fn a_message_is_found_however_it_is_cut(
        noise in prop::collection::vec(prop_oneof![Just(0_u8), Just(0xff), Just(b'g'), any::<u8>()], 0..64),
        body in prop::collection::vec(any::<u8>(), 0..100),
        behind in prop::collection::vec(any::<u8>(), 0..20),
        pieces in prop::collection::vec(0_usize..9, 0..40),
    ) {
        prop_assume!(!noise.windows(MARKER.len()).any(|window| window == MARKER));
        let length = u32::try_from(body.len()).expect("short").to_le_bytes();
        let bytes = [&noise, &MARKER[..], &length, &body, &behind].concat();
        let (reader, at) = read(&bytes, &pieces);
        prop_assert_eq!(reader.noise(), noise.as_slice());
        prop_assert_eq!(reader.body(), Some(body.as_slice()));
        prop_assert_eq!(&bytes[at..], behind.as_slice());
    }

    #[test]
    fn reading_what_it_wants_takes_nothing_from_behind(
        noise in "[a-z\0]{0,60}",
        behind in "[a-z]{0,30}",
    ) {
        let bytes = [noise.as_bytes(), &start().to_bytes().expect("valid"), behind.as_bytes()].concat();
        let mut reader = MessageReader::default();
        let mut at: usize = 0;
        while reader.wants() > 0 {
            let end = at + reader.wants();
            prop_assert_eq!(reader.take(&bytes[at..end]), Ok(end - at));
            at = end;
        }
        prop_assert_eq!(&bytes[at..], behind.as_bytes());
        prop_assert_eq!(Start::from_body(reader.body().expect("whole")), Ok(start()));
    }
}
