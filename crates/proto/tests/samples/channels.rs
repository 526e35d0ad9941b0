//! Samples of frames of a transfer with several channels. Checks nothing.

use godwit_proto::*;

pub(super) fn all() -> Vec<(&'static str, Frame)> {
    let v6 = [0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    let announcing = Opened {
        transfer: vec![0x11; 16],
        tokens: vec![vec![0x22; 16], vec![0x33; 16]],
        resumed: true,
        lost_bytes: 1000,
        destination: b"/srv/data/run42".to_vec(),
        block_bytes: 524_288,
        streams_max: 64,
        addresses: vec![
            Announced {
                dialled: true,
                ..Announced::new([192, 0, 2, 7].into(), 24, 7272, 2)
            },
            Announced::new(v6.into(), 64, 7272, 3),
        ],
        digest: 0,
        buffer_bytes: 0,
        ..Opened::default()
    };
    let join = Join::new(TransferId([0x11; 16]), Token([0x22; 16]), 3);
    vec![
        ("opened_announcing", Frame::Opened(announcing)),
        ("join_channel", Frame::Join(join)),
    ]
}
