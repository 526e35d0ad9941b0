//! Tests refusals of beacons with which a peer could probe for arbitrary entries. Each rule is
//! broken at the encoder and at the decoder.

use godwit_proto::*;

use super::encode;

#[test]
fn a_beacon_has_a_temporary_name_and_clean_paths() {
    let right = Beacon {
        name: format!(".godwit-{:032x}", 7).into_bytes(),
        above: b"top/a".to_vec(),
        rest: b"new".to_vec(),
        into: false,
    };
    let frames = |beacon: &Beacon| {
        let open = Open {
            direction: Direction::PULL.0,
            sources: vec![b"e/f".to_vec()],
            digest: DigestKind::CRC64_NVME.0.into(),
            beacon: Some(beacon.clone()),
            ..Open::default()
        };
        let opened = Opened {
            transfer: vec![1; 16],
            block_bytes: 4_096,
            beacon: Some(beacon.clone()),
            ..Opened::default()
        };
        [Frame::Open(open), Frame::Opened(opened)]
    };
    for frame in frames(&right) {
        encode(&frame).unwrap();
    }
    let named = |name: &[u8]| Beacon {
        name: name.to_vec(),
        ..right.clone()
    };
    for wrong in [
        named(b""),
        named(b"passwd"),
        named(&[&right.name[..], b"/.."].concat()),
        named(&right.name[1..]),
        named(&right.name.to_ascii_uppercase()),
        Beacon {
            above: b"a/../..".to_vec(),
            ..right.clone()
        },
        Beacon {
            rest: b"/etc".to_vec(),
            ..right.clone()
        },
    ] {
        for frame in frames(&wrong) {
            assert!(encode(&frame).is_err(), "{wrong:?}");
        }
    }
}

#[test]
fn the_number_of_described_directories_is_bounded() {
    for (alike, alike_around) in [(1, 0), (0, 1)] {
        let frame = |many: usize| {
            Frame::Open(Open {
                direction: Direction::PULL.0,
                sources: vec![b"e/f".to_vec()],
                digest: DigestKind::CRC64_NVME.0.into(),
                ground: Some(Ground {
                    alike: vec![1; alike * many],
                    alike_around: vec![1; alike_around * many],
                    ..Ground::default()
                }),
                ..Open::default()
            })
        };
        encode(&frame(limits::GROUND_IDS_MAX)).unwrap();
        assert!(encode(&frame(limits::GROUND_IDS_MAX + 1)).is_err());
    }
}
