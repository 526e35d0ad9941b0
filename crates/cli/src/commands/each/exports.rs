//! Asks a node which of several paths of its exports are one directory, or lie in one another.
//! Refuses nothing: `places` does.

use godwit_api::ask::{Answer, Peer, PlaceOverlap, Question};
use godwit_api::job::Text;
use godwit_api::settings::CpSettings;
use godwit_data_port::Questions;
use godwit_net::{DialOptions, Expect, IdentityId, PeerAddress, dial};
use godwit_run::client_tls;

use crate::home::Home;

/// The pairs of these paths, export first, that overlap by the answer of the node. No pair if the node does not answer, or does not know
/// the question: the transfers report such faults.
pub(super) fn overlaps(
    address: &PeerAddress,
    identity: IdentityId,
    paths: Vec<Text>,
    settings: &CpSettings,
    home: &Home,
) -> Vec<PlaceOverlap> {
    let ask = || {
        let tls = client_tls(settings.cipher, &home.identity().ok()?).ok()?;
        let mut options = DialOptions::new(Expect::Identity(identity));
        options.deadline = settings.handshake_deadline;
        let (stream, _) = dial(address, &tls, &options).ok()?;
        let peer = Peer {
            name: address.to_string(),
            addresses: Vec::new(),
            identity: String::new(),
        };
        let mut questions = Questions::new(stream, peer).ok()?;
        questions.ask(&Question::Overlaps { paths }).ok()
    };
    match ask() {
        Some(Answer::Overlaps(found)) => found,
        _ => Vec::new(),
    }
}
