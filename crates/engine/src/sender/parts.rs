//! Takes the parts of a list that the receiving end streams, and says how many are taken.
//! Does not walk the list (`ListWork` of `tree`).

use godwit_net::Stream;
use godwit_proto::{ErrorCode, NameList};

use super::Sender;
use crate::StreamLoss;

impl Sender {
    pub(super) fn take_part(&self, list: NameList, peer: &str) -> Result<(), StreamLoss> {
        let put = match self.scan.names() {
            Some(names) => names.put(list),
            None => Err("a part of a list that nobody asked for"),
        };
        put.map_err(|what| StreamLoss::Peer {
            peer: peer.to_owned(),
            what: what.to_owned(),
        })
    }

    /// Tells the other end how much of its list is taken, if it does not know.
    pub(super) fn say_taken(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let Some(taken) = self.scan.names().and_then(|names| names.due()) else {
            return Ok(());
        };
        let mut head = Vec::new();
        if let Err(error) = NameList::taken(self.shared.config.transfer, taken).encode(&mut head) {
            let message = format!("the word on a list cannot be encoded: {error}");
            self.shared.fail(ErrorCode::INTERNAL.0, &message);
            return Ok(());
        }
        Ok(stream.send(&head, &[])?)
    }
}
