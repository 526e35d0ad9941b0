//! Samples of frames for jobs of many nodes. Checks nothing.

use godwit_proto::*;

use super::{file, transfer};

pub(super) fn all() -> Vec<(&'static str, Frame)> {
    let open = Open {
        direction: Direction::PUSH.0,
        sources: vec![b"/run42".to_vec()],
        destination: b"data/".to_vec(),
        member: Some(Member {
            claim: vec![0x55; 16],
            epoch: 300,
            closer: true,
            lane: 7,
            deletes: true,
            ..Member::default()
        }),
        ..Open::default()
    };
    let placed = Opened {
        transfer: transfer().0.to_vec(),
        block_bytes: 524_288,
        mapping: Mapping::INTO.0,
        tag: 0x1122_3344_5566_7788,
        ..Opened::default()
    };
    let again = Open {
        direction: Direction::PUSH.0,
        sources: vec![b"/run42".to_vec()],
        destination: b"data/copy".to_vec(),
        earlier: Some(Earlier {
            mapping: Mapping::BECOMES.0,
            tags: vec![0x1122_3344_5566_7788, 9],
            age_ms: Some(90_000),
        }),
        ..Open::default()
    };
    let mandated = Open {
        direction: Direction::PULL.0,
        sources: vec![b"data/run42".to_vec()],
        mandate: Some(Mandate {
            asker: format!("gw1-{}", "a".repeat(52)),
            job: "01jd-7".to_owned(),
        }),
        ..Open::default()
    };
    vec![
        ("open_mandate", Frame::Open(mandated)),
        ("open_earlier", Frame::Open(again)),
        ("opened_placed", Frame::Opened(placed)),
        ("open_member", Frame::Open(open)),
        ("manifest_parts", Frame::Manifest(manifest())),
    ]
}

fn manifest() -> Manifest {
    let encoded = "a sample is within all limits";
    let mut extensions = Vec::new();
    let part = Part {
        offset: 256 << 20,
        bytes: 5,
    };
    part.push(&mut extensions).expect(encoded);
    let part = Record {
        extensions,
        ..file(1, b"f", (256 << 20) + 5)
    };
    let held = |offset, bytes, digest| HeldRange {
        offset,
        bytes,
        digest: Digest([digest; 32]),
    };
    let ranges = [held(0, 256 << 20, 0x66), held(256 << 20, 5, 0x77)];
    let mut extensions = Vec::new();
    parts::push_held_elsewhere(&ranges, &mut extensions).expect(encoded);
    let assemble = Record {
        extensions,
        ..file(2, b"f", (256 << 20) + 5)
    };
    Manifest {
        transfer: transfer(),
        seq: Seq(7),
        records: vec![part, assemble],
    }
}
