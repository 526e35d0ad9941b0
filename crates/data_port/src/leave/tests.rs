//! Tests how many rights a transfer needs, and the cost of checking them.

use std::sync::atomic::{AtomicUsize, Ordering};

use godwit_api::grant::{Grant, Mandate, Subject};
use godwit_net::IdentityId;
use godwit_proto::Verification;

use super::*;
use crate::allow::StateRules;

fn identity(letter: &str) -> IdentityId {
    let text = format!("gw1-{}a", letter.repeat(51));
    text.parse().expect("an identity")
}

fn export(name: &str) -> Export {
    Export {
        name: name.to_owned(),
        ..crate::begin::tests::export("/nowhere".as_ref())
    }
}

fn grant(who: &str, path: &str) -> Grant {
    Grant {
        subject: Subject::Identity(identity(who).to_string()),
        site: None,
        area: Area::asked("data", path.as_bytes()),
        rights: "read".parse().expect("rights"),
        expires: None,
        comment: String::new(),
        mandate: None,
    }
}

fn pull(sources: impl Iterator<Item = String>) -> Open {
    Open {
        direction: Direction::PULL.0,
        sources: sources.map(String::into_bytes).collect(),
        ..Open::default()
    }
}

/// Rules that change, with a count of their readings.
#[derive(Default)]
struct Rules {
    now: Mutex<Arc<Vec<Grant>>>,
    reads: AtomicUsize,
}

impl StateRules for Rules {
    fn grants(&self) -> Result<Arc<Vec<Grant>>, String> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::clone(&locked(&self.now)))
    }

    fn own_job(&self, _: &str, _: &Mandate) -> Result<Option<bool>, String> {
        Ok(None)
    }
}

#[test]
fn many_sources_need_no_more_than_the_grants_that_cover_them() {
    let exports = [export("data"), export("other")];
    let rules = Rules::default();
    let grantor = Grantor {
        home: std::path::Path::new("/nowhere"),
        rules: &rules,
    };
    let asked = |request: &Open| {
        let who = Who::itself(identity("q"));
        Leave::asked(&exports, &grantor, who, request)
    };
    let name = |number: usize| format!("data/dir{}/deep/file{number}", number % 3);
    *locked(&rules.now) = Arc::new(vec![
        grant("q", "dir0"),
        grant("q", "dir1"),
        grant("q", "dir1/deep"),
        grant("q", "dir2"),
        grant("b", ""),
    ]);
    let many = asked(&pull((0..65_535).map(name))).unwrap_or_else(|no| panic!("{}", no.message));
    assert_eq!(locked(&many.held).needs.len(), 3);
    // Few paths are needed one by one, so it does not matter which grant covers each.
    let few = asked(&pull((0..30).map(name))).unwrap_or_else(|no| panic!("{}", no.message));
    assert_eq!(locked(&few.held).needs.len(), 30);
    // No area covers these.
    let apart = (0..=NEEDS_MAX).map(|number| format!("other/{number}"));
    let no = asked(&pull(apart)).expect_err("too many rights");
    assert_eq!(no.code, ErrorCode::LIMIT);
    assert!(no.message.contains("directories"), "{}", no.message);
}

#[test]
fn a_look_reads_the_grants_once_for_all_and_judges_those_alone_that_changed() {
    let exports = [export("data")];
    let rules = Rules::default();
    let grantor = Grantor {
        home: std::path::Path::new("/nowhere"),
        rules: &rules,
    };
    let leave = |who: &str| {
        let request = pull((0..100).map(|number| format!("data/{who}/{number}")));
        let leave = Leave::asked(&exports, &grantor, Who::itself(identity(who)), &request);
        leave.unwrap_or_else(|no| panic!("{}", no.message))
    };
    let set = |paths: &[(&str, &str)]| {
        let all = paths.iter().map(|(who, path)| grant(who, path));
        *locked(&rules.now) = Arc::new(all.collect());
    };
    set(&[("q", "q"), ("b", "b")]);
    let transfers = [leave("q"), leave("q"), leave("b")];
    let look = || {
        let before = rules.reads.load(Ordering::SeqCst);
        let round = Round::default();
        let gone = transfers
            .iter()
            .map(|leave| leave.taken_back(&exports, &grantor, &round).is_some())
            .collect::<Vec<bool>>();
        assert_eq!(rules.reads.load(Ordering::SeqCst), before + 1);
        gone
    };
    let held = |leave: &Leave| locked(&leave.held).by.clone();
    assert_eq!(look(), [false; 3]);
    let first = held(&transfers[2]).expect("they hold");
    set(&[("b", "b")]);
    assert_eq!(look(), [true, true, false]);
    assert!(held(&transfers[0]).is_none());
    // The grants are the same, so they were not judged again.
    let second = held(&transfers[2]).expect("they hold");
    assert!(Arc::ptr_eq(&first, &second));
    set(&[("q", ""), ("b", "")]);
    assert_eq!(look(), [false; 3]);
}

#[test]
fn narrower_grants_that_stay_keep_a_transfer_of_many_sources_when_a_wider_one_ends() {
    let exports = [export("data")];
    let rules = Rules::default();
    let grantor = Grantor {
        home: std::path::Path::new("/nowhere"),
        rules: &rules,
    };
    let set = |paths: &[&str]| {
        let all = paths.iter().map(|path| grant("q", path));
        *locked(&rules.now) = Arc::new(all.collect());
    };
    let ends = |leave: &Leave| leave.taken_back(&exports, &grantor, &Round::default());
    set(&["", "dir0", "dir1/deep"]);
    let name = |number: usize| format!("data/dir{}/deep/file{number}", number % 2);
    let request = pull((0..100).map(name));
    let leave = Leave::asked(&exports, &grantor, Who::itself(identity("q")), &request);
    let leave = leave.unwrap_or_else(|no| panic!("{}", no.message));
    assert_eq!(locked(&leave.held).needs.len(), 1);
    set(&["dir0", "dir1/deep"]);
    assert!(ends(&leave).is_none(), "all sources are covered");
    assert_eq!(locked(&leave.held).needs.len(), 2);
    set(&["dir0"]);
    let no = ends(&leave).expect("half of the sources are not covered");
    assert_eq!(no.code, ErrorCode::NOT_GRANTED);
    // A file of grants that is being written is empty for a moment.
    set(&["dir0", "dir1"]);
    assert!(ends(&leave).is_none(), "they are covered again");
}

#[test]
fn a_durable_verification_ends_with_the_right_to_write() {
    let exports = [export("data")];
    let rules = Rules::default();
    let grantor = Grantor {
        home: std::path::Path::new("/nowhere"),
        rules: &rules,
    };
    let set = |rights: &str| {
        let grant = Grant {
            rights: rights.parse().expect("rights"),
            ..grant("q", "")
        };
        *locked(&rules.now) = Arc::new(vec![grant]);
    };
    let leave = |durable: bool| {
        let request = Open {
            direction: Direction::VERIFY.0,
            verification: Some(Verification {
                durable,
                ..Verification::default()
            }),
            ..pull(std::iter::once("data/copy".to_owned()))
        };
        let leave = Leave::asked(&exports, &grantor, Who::itself(identity("q")), &request);
        leave.unwrap_or_else(|no| panic!("{}", no.message))
    };
    let gone = |leave: &Leave| {
        let no = leave.taken_back(&exports, &grantor, &Round::default());
        no.is_some()
    };
    set("read,write");
    let both = [leave(false), leave(true)];
    assert_eq!(both.each_ref().map(gone), [false, false]);
    set("read");
    assert_eq!(both.each_ref().map(gone), [false, true]);
}
