//! Tests what a user sees of a flow: the reasons of runs that were made in a larger role, and that its owner has too many jobs.
//! Also tests whether the owner of a removal still has the right to it. Runs no job.

use std::sync::atomic::AtomicBool;

use godwit_api::grant::Grant;
use godwit_api::grant::lasting::Look;
use godwit_state::{AccessRight, AccessRule, RuleSite};

use super::*;
use crate::rights::access;
use crate::service::Jobs;
use crate::views::seen::Seen as SeenBy;

/// A rule for otto at a site.
fn rule(site: &str, right: AccessRight) -> Op {
    Op::Access(Change::Put(AccessRule {
        id: format!("{site}-rule"),
        subject: "user:otto".to_owned(),
        site: Some(RuleSite {
            name: site.to_owned(),
            identity: format!("gw1-{site}"),
        }),
        export: "*".to_owned(),
        path: String::new(),
        rights: vec![right],
        expires: None,
        comment: String::new(),
        job: None,
    }))
}

#[test]
fn the_reason_of_a_run_needs_the_role_of_that_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let (parts, queue) = parts(directory.path(), Arc::new(|_: &str| {}));
    propose(&queue, Op::Level(FEATURE_LEVEL));
    otto_and_site(&queue, Role::Admin, "siteS");
    otto_and_site(&queue, Role::Admin, "siteD");
    let template = r#"{"sources":["siteS:/raw/."],"destination":"siteD:/in/"}"#;
    propose(&queue, flow_of("night", &[template]));
    run_first(&queue, "night", "j", Outcome::Failed);
    // A token of a smaller role has taken the flow over.
    let Op::Flow(Change::Put(flow)) = flow_of("night", &[template]) else {
        panic!("a flow");
    };
    let role = Some(Role::Operator);
    let flow = Flow { role, ..flow };
    propose(&queue, Op::Flow(Change::Put(flow)));
    let flow = queue.this.reader().object::<Flow>("night");
    let flow = flow.expect("read").expect("there");
    let jobs = Jobs {
        parts: Arc::new(parts),
        scheduler: Arc::default(),
    };
    let shown = |role: Role| {
        let seen = SeenBy::by(&jobs, "otto", role).expect("read");
        let hop = parts_of(&jobs.parts).hops(&flow).expect("read").remove(0);
        let hop = seen.hop(("otto", flow.role), template, hop);
        hop.reason.map(|reason| reason.text)
    };
    // The next run of the operator would be refused, and that user may know why.
    let refused = shown(Role::Operator).expect("a reason");
    assert!(refused.contains("may not read"), "{refused}");
    propose(&queue, rule("siteS", AccessRight::Read));
    propose(&queue, rule("siteD", AccessRight::Write));
    assert_eq!(shown(Role::Admin).as_deref(), Some("A test."));
    let hidden = shown(Role::Operator).expect("a reason");
    assert!(!hidden.contains("A test."), "{hidden}");
}

#[test]
fn a_flow_whose_owner_has_too_many_jobs_says_so_at_each_hop() {
    let directory = tempfile::tempdir().expect("a directory");
    let (parts, queue) = parts(directory.path(), Arc::new(|_: &str| {}));
    propose(&queue, Op::Level(FEATURE_LEVEL));
    otto_and_site(&queue, Role::Admin, "siteS");
    otto_and_site(&queue, Role::Admin, "siteD");
    let template = r#"{"sources":["siteS:/raw/."],"destination":"siteD:/in/"}"#;
    propose(&queue, flow_of("night", &[template, template]));
    let reader = queue.this.reader();
    let flow: Flow = reader.object("night").expect("read").expect("there");
    let codes = || -> Vec<Option<String>> {
        let hops = parts_of(&parts).hops(&flow).expect("read").into_iter();
        hops.map(|hop| hop.reason.map(|reason| reason.code.as_str().to_owned()))
            .collect()
    };
    assert_eq!(codes(), [None, None]);
    for number in 0..10 {
        let job = new_job(&format!("j{number}"));
        propose(&queue, Op::Submit(Box::new(job)));
    }
    let full = Some("too_many".to_owned());
    assert_eq!(codes(), [full.clone(), full]);
    flow::run(&queue, &reader, NOW).expect("a pass");
    let jobs = reader.jobs(&JobFilter::default(), None, 100).expect("read");
    assert_eq!(jobs.jobs.len(), 10, "no run starts");
}

/// A file of grants with a line that cannot be read lets running transfers continue. A removal at the source must not begin then.
#[test]
fn a_removal_does_not_count_on_rights_that_cannot_be_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let grants = move || -> Result<Vec<Grant>, String> {
        match broken.load(Ordering::SeqCst) {
            true => Err("line 1: unknown".to_owned()),
            false => Ok(Vec::new()),
        }
    };
    let log = Arc::new(|_: &str| {});
    let (_parts, queue) = parts_by(directory.path(), log, Arc::new(grants));
    propose(&queue, Op::Level(FEATURE_LEVEL));
    otto_and_site(&queue, Role::Operator, "siteS");
    let spec =
        r#"{"sources":["here:/data/x"],"destination":"here:/data/y","remove_source_after":1}"#;
    let new = NewJob {
        spec: spec.to_owned(),
        ..new_job("j")
    };
    propose(&queue, Op::Submit(Box::new(new)));
    let job = queue.this.reader().job("j").expect("read").expect("there");
    let look = || access::look(&queue.rights, &job);
    let allow = |path: &str, right: AccessRight| {
        let Op::Access(Change::Put(rule)) = rule("data", AccessRight::Read) else {
            panic!("a rule");
        };
        let rule = AccessRule {
            id: format!("data-{path}"),
            site: None,
            export: "data".to_owned(),
            path: path.to_owned(),
            rights: vec![AccessRight::Read, right],
            ..rule
        };
        propose(&queue, Op::Access(Change::Put(rule)));
    };
    assert!(matches!(look(), Look::Gone(_)), "no rule");
    allow("y", AccessRight::Write);
    allow("x", AccessRight::List);
    let found = look();
    assert!(
        matches!(&found, Look::Gone(why) if why.contains("delete")),
        "{found:?}"
    );
    allow("x", AccessRight::Delete);
    assert_eq!(look(), Look::Holds);
    is_broken.store(true, Ordering::SeqCst);
    assert_eq!(access::denied(&queue.rights, &job), None);
    let found = look();
    // A line of the file is for admins.
    assert!(
        matches!(&found, Look::Unread(why) if !why.contains("line 1")),
        "{found:?}"
    );
}
