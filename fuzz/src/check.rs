//! Owns the properties that hold for any bytes as the head of a frame. Shared by the fuzz targets and, for the
//! committed corpora, by the tests of `godwit-proto`. Does not choose the bytes.

use godwit_proto::agent::{
    AgentMessage, Errand, MARKER, MessageReader, NOISE_BYTES_MAX, Start, Started,
};
use godwit_proto::parts::{find_held_elsewhere, push_held_elsewhere};
use godwit_proto::{Frame, FrameKind, PRELUDE_BYTES, Part, Prelude, decode};

/// Where the header of a block states the length of its payload.
const PAYLOAD_BYTES_AT: usize = 60;

/// Reads `head` as a frame of this kind. If it is one, encoding it gives `head` again (fixed layouts). For protobuf, where unknown fields
/// get lost, the encoding reads and encodes to itself.
pub fn check(kind: FrameKind, head: &[u8]) {
    let Some(prelude) = prelude(kind, head) else {
        return;
    };
    let Ok(frame) = decode(&prelude, head) else {
        return;
    };
    if let Frame::Manifest(manifest) = &frame {
        let records = manifest.records.iter();
        records.for_each(|record| check_parts(&record.extensions));
    }
    let image = encode(&frame);
    if is_fixed(kind) {
        assert_eq!(
            &image[PRELUDE_BYTES..],
            head,
            "another encoding of {frame:?}"
        );
        return;
    }
    let (first, again) = image
        .split_first_chunk()
        .expect("an image begins with a prelude");
    let prelude = Prelude::decode(first).expect("an encoder's prelude is valid");
    let reread = decode(&prelude, again).expect("an encoder's head is valid");
    assert_eq!(encode(&reread), image, "no fixed point: {frame:?}");
}

/// Reads a part and the ranges held elsewhere from extensions. Each result has an encoding that reads the same.
fn check_parts(extensions: &[u8]) {
    let mut again = Vec::new();
    if let Ok(Some(part)) = Part::find(extensions) {
        part.push(&mut again).expect("what was read is valid");
        assert_eq!(Part::find(&again), Ok(Some(part)));
    }
    if let Ok(Some(ranges)) = find_held_elsewhere(extensions) {
        push_held_elsewhere(&ranges, &mut again).expect("what was read is valid");
        assert_eq!(find_held_elsewhere(&again), Ok(Some(ranges)));
    }
}

/// Reads a prelude. If it is one, encoding it gives the same bytes.
pub fn check_prelude(data: &[u8]) {
    let Some(bytes) = data.first_chunk() else {
        return;
    };
    if let Ok(prelude) = Prelude::decode(bytes) {
        assert_eq!(&prelude.encode(), bytes);
    }
}

/// Reads the first message of an agent or its client. Cuts do not change the result; a message encodes to itself.
pub fn check_agent(data: &[u8]) {
    let mut reader = MessageReader::default();
    let whole = reader.take(data);
    let mut bytewise = MessageReader::default();
    let mut taken = 0;
    let result = data.iter().try_for_each(|byte| {
        taken += bytewise.take(&[*byte])?;
        Ok(())
    });
    assert_eq!(whole, result.map(|()| taken), "another cut, another end");
    assert_eq!(reader.body(), bytewise.body());
    assert_eq!(reader.noise(), bytewise.noise());
    assert!(reader.noise().len() <= NOISE_BYTES_MAX + MARKER.len());
    if let Some(body) = reader.body() {
        check_message::<Start>(body);
        check_message::<Started>(body);
        check_message::<Errand>(body);
    }
}

fn check_message<M: AgentMessage + PartialEq + std::fmt::Debug>(body: &[u8]) {
    let Ok(message) = M::from_body(body) else {
        return;
    };
    let Ok(bytes) = message.to_bytes() else {
        return;
    };
    let again = M::from_body(&bytes[MARKER.len() + 4..]).expect("an encoder's message is valid");
    assert_eq!(again, message);
}

/// The prelude that a stream would have shown before this head; `None` if it would have been refused there.
fn prelude(kind: FrameKind, head: &[u8]) -> Option<Prelude> {
    let payload_bytes = match head.get(PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4) {
        Some(bytes) if kind == FrameKind::BLOCK => u32::from_le_bytes(bytes.try_into().ok()?),
        _ => 0,
    };
    let prelude = Prelude {
        kind,
        flags: 0,
        head_bytes: u32::try_from(head.len()).ok()?,
        payload_bytes,
    };
    Prelude::decode(&prelude.encode()).ok()
}

fn is_fixed(kind: FrameKind) -> bool {
    matches!(
        kind,
        FrameKind::MANIFEST
            | FrameKind::ANSWER
            | FrameKind::BLOCK
            | FrameKind::ACK
            | FrameKind::ENTRY_FAILED
            | FrameKind::SELECTION
            | FrameKind::NOTICE
    )
}

fn encode(frame: &Frame) -> Vec<u8> {
    let mut image = Vec::new();
    frame.encode(&mut image).expect("what was decoded is valid");
    image
}
