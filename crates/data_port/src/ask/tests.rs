//! Tests a node that cannot read the list of its cluster's nodes: members and claims stay valid. The cluster is
//! simulated.

use std::sync::Mutex;

use godwit_api::ask::{AnswerCluster, ClusterAnswer, Peer, RenewClaim};
use godwit_api::grant::lasting::Look;
use godwit_api::job::ClaimId;
use godwit_net::{Identity, StreamOptions, local_pair};

use super::*;
use crate::begin::tests::daemon_in;
use crate::gate::Slot;
use crate::session::locked;

/// Gives the same answer about every identity; `None` while the state cannot be read.
struct Members(Mutex<Option<bool>>);

impl Members {
    fn set(&self, answer: Option<bool>) {
        *locked(&self.0) = answer;
    }
}

fn unread() -> Refusal {
    Refusal::later(code::IO, "the state cannot be read")
}

impl AnswerCluster for Members {
    fn answer(&self, _: &str, _: ClusterQuestion) -> Result<ClusterAnswer, Refusal> {
        Err(unread())
    }

    fn nodes(&self, _: &str) -> Result<Vec<Peer>, Refusal> {
        Err(unread())
    }

    fn is_member(&self, _: &str) -> Result<bool, Refusal> {
        (*locked(&self.0)).ok_or_else(unread)
    }
}

#[test]
fn a_member_is_not_gone_while_the_state_cannot_be_read() {
    let home = tempfile::tempdir().expect("a directory");
    let identity = Identity::load_or_create(home.path()).expect("a key");
    let other = tempfile::tempdir().expect("a directory");
    let peer = *Identity::load_or_create(other.path()).expect("a key").id();
    let members = Arc::new(Members(Mutex::new(Some(true))));
    let cluster = Arc::clone(&members) as Arc<dyn AnswerCluster>;
    let mut daemon = daemon_in(home.path(), &identity, Some(cluster));
    let shared = &daemon.shared;
    let holds = || {
        let rights = HolderRights::new(shared);
        rights.may_write(&By::Member(peer), &Text::from("data/set"))
    };
    assert!(let_in(shared, peer).is_ok());
    assert_eq!(holds(), Look::Holds);
    members.set(Some(false));
    let no = let_in(shared, peer).expect_err("a stranger");
    assert_eq!((no.code, no.retryable), (ErrorCode::AUTH, false));
    assert_eq!(holds(), Look::Gone(()));
    members.set(None);
    let no = let_in(shared, peer).expect_err("it cannot be read");
    assert_eq!((no.code, no.retryable), (ErrorCode::INTERNAL, true));
    assert!(no.is_of_stranger());
    assert_eq!(holds(), Look::Unread(()));
    assert!(is_member(shared, peer).is_err());
    daemon.stop();
}

/// Four identities can occupy all slots for long questions.
#[test]
fn a_claim_is_renewed_while_no_place_for_a_long_question_is_free() {
    let home = tempfile::tempdir().expect("a directory");
    let identity = Identity::load_or_create(home.path()).expect("a key");
    let members = Arc::new(Members(Mutex::new(Some(true))));
    let mut daemon = daemon_in(home.path(), &identity, Some(members));
    let shared = &daemon.shared;
    let mut taken: Vec<Slot<IdentityId>> = Vec::new();
    let other = tempfile::tempdir().expect("a directory");
    for number in 0.. {
        let home = other.path().join(number.to_string());
        std::fs::create_dir(&home).expect("made");
        let peer = *Identity::load_or_create(&home).expect("a key").id();
        let before = taken.len();
        while let Ok(place) = shared.gate.question(&[peer]) {
            taken.push(place);
        }
        if taken.len() == before {
            break;
        }
    }
    let (mut near, _far) = local_pair(&StreamOptions::default()).expect("a pair");
    let who = Who::itself(*identity.id());
    let mut asked = |question| {
        let (who, place) = (who.clone(), None);
        let asked = AdmittedQuestion {
            who,
            question,
            place,
        };
        answer(shared, &mut near, 1, asked).err()
    };
    let refused = asked(Question::Stat {
        path: Text::from("data"),
    });
    assert_eq!(refused.expect("no place").code, code::BUSY);
    let refused = asked(Question::Renew(RenewClaim {
        claim: ClaimId([7; 16]),
        epoch: 1,
        lease_ms: 8_000,
    }));
    assert_eq!(refused.expect("never set").code, code::NO_SUCH_CLAIM);
    drop(taken);
    daemon.stop();
}
