//! Tests of a node that cannot read which nodes its cluster has: neither a member nor a claim is gone for that.
//! The cluster is made up.

use std::sync::Mutex;

use godwit_api::ask::{AnswerCluster, ClusterAnswer, Peer};
use godwit_api::grant::lasting::Look;
use godwit_net::Identity;

use super::*;
use crate::begin::tests::daemon_in;
use crate::session::locked;

/// Gives one answer about every identity; None while the state cannot be read.
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
    assert_eq!(holds(), Look::Unread(()));
    assert!(is_member(shared, peer).is_err());
    daemon.stop();
}
