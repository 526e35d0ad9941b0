//! Samples of frames in which one node asks another. Checks nothing.

use godwit_proto::*;

pub(super) fn all() -> Vec<(&'static str, Frame)> {
    let ask = Ask {
        number: 300,
        document: b"{}".to_vec(),
    };
    let reply = Reply {
        number: 300,
        document: b"{\"a\":1}".to_vec(),
        done: 5,
    };
    vec![("ask", Frame::Ask(ask)), ("reply", Frame::Reply(reply))]
}
