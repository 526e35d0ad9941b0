//! Owns the checks of untrusted JSON documents: those inside ASK and REPLY, and the bodies of REST requests.
//! Reads no file; the fuzz targets and the replay of their corpora share it.

use std::mem::discriminant;

use godwit_api::PORT_DEFAULT;
use godwit_api::ask::{Answer, Peer, Question};
use godwit_api::endpoint::Endpoint;
use godwit_api::grant::Subject;
use godwit_api::host::HostPort;
use godwit_api::job::{Imposed, JOB_VERSION, JobKind, JobSpec, Text};
use godwit_api::rest::{
    CancelJob, ChangeJob, ChangeNode, CleanEntries, DropFromBuffer, KeepInBuffer, Login, NewAccess,
    NewDirectory, NewFlow, NewInvite, NewJob, NewLimit, NewPassword, NewSchedule, NewSession,
    NewShare, NewSite, NewToken, NewUser, NewWebhook, Place, RemoveEntry, RenameEntry, RetryDrain,
    check_site_name, is_request_id, whole_site,
};
use godwit_api::shown::printable;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Any bytes are a question or a refusal, and a question round-trips.
pub fn check_question(data: &[u8]) {
    let question = match Question::parse(data) {
        Ok(question) => question,
        Err(refusal) => {
            let _ = printable(&refusal.message);
            return;
        }
    };
    let (_, _, _) = (
        question.is_about_jobs(),
        question.is_short(),
        question.may_be_repeated(),
    );
    let again = Question::parse(&question.to_document()).expect("what was written is read");
    // A message of the consensus may hold numbers that lose digits.
    if !matches!(question, Question::Cluster(_)) {
        assert_eq!(again, question);
    }
    assert_eq!(discriminant(&again), discriminant(&question));
    match &question {
        Question::Run(wish) => {
            check_job(&wish.new);
            let _ = wish.request.as_deref().is_some_and(is_request_id);
            wish.other.iter().for_each(check_peer);
        }
        Question::Reach(wish) => check_peer(&wish.peer),
        Question::Grant(wish) => {
            let _ = wish.identity.parse::<Subject>();
        }
        _ => {}
    }
}

/// Any bytes are an answer or a refusal, and an answer round-trips if it parses.
pub fn check_answer(data: &[u8]) {
    match Answer::parse(data) {
        Ok(answer) => {
            let again = Answer::parse(&answer.to_document()).expect("what was written is read");
            assert_eq!(discriminant(&again), discriminant(&answer));
        }
        Err(refusal) => {
            let document = Answer::Refused(refusal.clone()).to_document();
            assert_eq!(Answer::parse(&document), Err(refusal));
        }
    }
}

/// Checks bytes as one document. Returns whether they parse.
type Check = fn(&[u8]) -> bool;

/// Requests of the REST API by the names of their documents.
pub const REQUESTS: &[(&str, Check)] = &[
    ("CancelJob", read::<CancelJob>),
    ("ChangeJob", read::<ChangeJob>),
    ("ChangeNode", read::<ChangeNode>),
    ("CleanEntries", |data| {
        with(data, |wish: &CleanEntries| check_place(&wish.place))
    }),
    ("DropFromBuffer", |data| {
        with(data, |wish: &DropFromBuffer| check_place(&wish.place))
    }),
    ("KeepInBuffer", |data| {
        with(data, |wish: &KeepInBuffer| check_place(&wish.place))
    }),
    ("Login", read::<Login>),
    ("NewAccess", |data| {
        with(data, |new: &NewAccess| drop(new.grant()))
    }),
    ("NewDirectory", |data| {
        with(data, |new: &NewDirectory| check_place(&new.place))
    }),
    ("NewFlow", |data| {
        with(data, |new: &NewFlow| new.hops.iter().for_each(check_job))
    }),
    ("NewInvite", read::<NewInvite>),
    ("NewJob", |data| with(data, check_job)),
    ("NewLimit", read::<NewLimit>),
    ("NewPassword", read::<NewPassword>),
    ("NewSchedule", |data| {
        with(data, |new: &NewSchedule| check_job(&new.job))
    }),
    ("NewSession", read::<NewSession>),
    ("NewShare", read::<NewShare>),
    ("NewSite", |data| with(data, check_site)),
    ("NewToken", read::<NewToken>),
    ("NewUser", read::<NewUser>),
    ("NewWebhook", read::<NewWebhook>),
    ("RemoveEntry", |data| {
        with(data, |wish: &RemoveEntry| check_place(&wish.place))
    }),
    ("RetryDrain", |data| {
        with(data, |wish: &RetryDrain| check_place(&wish.place))
    }),
    ("RenameEntry", |data| {
        with(data, |wish: &RenameEntry| {
            check_place(&wish.from);
            check_place(&wish.to);
        })
    }),
];

/// Any bytes are a request of each kind or none. A parsed request passes the checks that need no node, and round-trips. Returns whether any
/// kind parsed.
pub fn check_request(data: &[u8]) -> bool {
    let mut any = false;
    for (_, check) in REQUESTS {
        any |= check(data);
    }
    any
}

fn read<T: DeserializeOwned + Serialize>(data: &[u8]) -> bool {
    with(data, |_: &T| {})
}

fn with<T: DeserializeOwned + Serialize>(data: &[u8], check: impl FnOnce(&T)) -> bool {
    let Ok(request) = serde_json::from_slice::<T>(data) else {
        return false;
    };
    check(&request);
    let written = serde_json::to_vec(&request).expect("a request is JSON");
    let again: T = serde_json::from_slice(&written).expect("what was written is read");
    let twice = serde_json::to_vec(&again).expect("a request is JSON");
    assert_eq!(twice, written, "{}", String::from_utf8_lossy(&written));
    true
}

fn check_job(new: &NewJob) {
    for text in new.sources.iter().chain([&new.destination]) {
        if let Ok(place) = text.parse::<Place>() {
            check_place(&Text(place.to_string().into_bytes()));
        }
    }
    let spec = JobSpec {
        version: JOB_VERSION,
        kind: new.kind,
        sources: vec![Endpoint::Local("/x".into()); new.sources.len()],
        destination: Endpoint::Local("/y".into()),
        settings: new.settings.clone(),
        selection: new.selection.clone(),
        member: None,
        items: Vec::new(),
        imposed: Imposed::default(),
    };
    let allowed = new.kind.check_settings(new.settings.keys());
    let resolved = match new.kind {
        JobKind::Verify => spec.verify_settings().map(drop),
        JobKind::Copy | JobKind::Sync => spec.copy_settings().map(drop),
    };
    for error in [allowed.err(), resolved.err()].into_iter().flatten() {
        let _ = printable(&error.to_string());
    }
    assert_eq!(JobSpec::from_json(spec.to_json().as_bytes()), Ok(spec));
}

/// A place that is text is the same place after printing.
fn check_place(text: &Text) {
    let _ = whole_site(&text.0);
    if let Ok(place) = Place::from_bytes(&text.0) {
        let _ = place.below_exports();
        if std::str::from_utf8(&text.0).is_err() {
            return;
        }
        let again: Place = place.to_string().parse().expect("a place in its own words");
        assert_eq!(again, place);
    }
}

fn check_site(new: &NewSite) {
    let _ = check_site_name(&new.comment);
    for address in &new.addresses {
        let _ = HostPort::parse(address, PORT_DEFAULT);
    }
}

fn check_peer(peer: &Peer) {
    let _ = check_site_name(&peer.name);
    for address in &peer.addresses {
        let _ = HostPort::parse(address, PORT_DEFAULT);
    }
}
