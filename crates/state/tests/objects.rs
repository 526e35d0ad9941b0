//! Tests the named objects: the rules that connect them, schedules, webhooks, limits, secrets.
//! See `commands` for jobs.

mod support;

use godwit_state::{
    AccessRight, AccessRule, Actor, Change, Command, CommandError, Delivery, Effect, FEATURE_LEVEL,
    FailureCode, Limit, LimitScope, LimitWindow, NewPassword, Op, Outcome, Prune, Reason, Role,
    RuleSite, Schedule, Secret, Share, Site, Token, User, Webhook,
};
use support::state::State;
use support::{alice, at, claim, command, finish, new_job, nightly, submit};

fn user(name: &str, role: Role) -> User {
    User {
        name: name.to_owned(),
        role,
        password: None,
        disabled: false,
    }
}

fn token(id: &str, user: &str, role: Role) -> Token {
    Token {
        id: id.to_owned(),
        user: user.to_owned(),
        hash: Secret::new(format!("hash of {id}")),
        scope: String::new(),
        role,
        created: at(0),
        expires: None,
        revoked: None,
        last_digits: "1234".to_owned(),
        comment: String::new(),
    }
}

#[test]
fn a_tick_fires_once() {
    let mut state = State::new();
    let schedule = nightly();
    state
        .op(100, Op::Schedule(Change::Create(schedule.clone())))
        .expect("create");
    let fire = |tick: i64, id: &str| Op::Fired {
        schedule: "nightly".to_owned(),
        tick: at(tick),
        job: Some(Box::new(new_job(id))),
        children: Vec::new(),
        reason: None,
    };
    assert_eq!(
        state
            .op(101, fire(99, "early"))
            .expect_err("before")
            .code()
            .as_str(),
        "already_fired"
    );
    state.op(201, fire(200, "job")).expect("fire");
    assert_eq!(
        state
            .op(202, fire(200, "other"))
            .expect_err("twice")
            .code()
            .as_str(),
        "already_fired"
    );
    // A change of the schedule keeps the tick.
    state
        .op(203, Op::Schedule(Change::Put(schedule)))
        .expect("put");
    assert_eq!(
        state
            .op(204, fire(200, "other"))
            .expect_err("twice")
            .code()
            .as_str(),
        "already_fired"
    );
    // A tick without a job keeps its reason until a job is submitted again.
    let reason = |state: &State| {
        let schedule = state.reader.object::<Schedule>("nightly").expect("read");
        schedule.expect("there").reason
    };
    assert_eq!(reason(&state), None);
    let why = Reason::new(
        FailureCode::AccessDenied,
        "alice may not read here:/data/a.",
    );
    let skip = Op::Fired {
        schedule: "nightly".to_owned(),
        tick: at(300),
        job: None,
        children: Vec::new(),
        reason: Some(why.clone()),
    };
    state.op(301, skip).expect("skip");
    assert_eq!(reason(&state), Some(why));
    state.op(401, fire(400, "later")).expect("fire");
    assert_eq!(reason(&state), None);
    let job = state.reader.job("job").expect("read").expect("there");
    assert_eq!(job.schedule.as_deref(), Some("nightly"));
    assert!(state.reader.job("other").expect("read").is_none());
}

#[test]
fn tokens_go_with_their_user() {
    let mut state = State::new();
    let create = |token| Op::Token(Change::Create(token));
    let error = state
        .op(0, create(token("t", "bob", Role::Viewer)))
        .expect_err("nobody");
    assert_eq!(error.to_string(), "there is no user \"bob\"");
    state
        .op(1, Op::User(Change::Create(user("bob", Role::Operator))))
        .expect("create");
    let error = state
        .op(2, create(token("t", "bob", Role::Admin)))
        .expect_err("more");
    assert_eq!(error.to_string(), "role: user bob is operator only");
    state
        .op(3, create(token("t1", "bob", Role::Operator)))
        .expect("create");
    state
        .op(4, create(token("t2", "bob", Role::Viewer)))
        .expect("create");
    state
        .op(5, Op::Token(Change::Remove("t1".to_owned())))
        .expect("revoke");
    let found: Vec<Token> = state.reader.objects_by("hash of t1").expect("read");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].revoked, Some(at(5)));
    let tokens_before = Some(at(6));
    let prune = Prune {
        tokens_before,
        ..Prune::default()
    };
    state.op(7, Op::Prune(prune)).expect("prune");
    assert_eq!(state.reader.objects::<Token>().expect("read").len(), 1);
    state
        .op(8, Op::User(Change::Remove("bob".to_owned())))
        .expect("remove");
    assert!(state.reader.objects::<Token>().expect("read").is_empty());
}

#[test]
fn webhooks_hear_of_the_states_they_want() {
    let mut state = State::new();
    let webhook = Webhook {
        id: "hook".to_owned(),
        url: "https://example.org".to_owned(),
        events: vec!["complete".to_owned()],
        owner: Some("alice".to_owned()),
        secret: Secret::new("key"),
        disabled: false,
    };
    state
        .op(0, Op::Webhook(Change::Create(webhook)))
        .expect("create");
    state.apply(&submit(1, "job")).expect("submit");
    state.job(2, claim(0)).expect("claim");
    state.job(3, finish(1, Outcome::Complete)).expect("finish");
    let due = state.reader.deliveries().due(at(3), 10).expect("due");
    assert_eq!(due.len(), 1);
    assert!(
        due[0].body.starts_with("{\"type\":\"job.complete\""),
        "{}",
        due[0].body
    );
    let deliver = |next: Option<i64>| {
        Op::Delivery(Delivery {
            id: due[0].id,
            next_attempt: next.map(at),
            status: "503".to_owned(),
        })
    };
    state.op(4, deliver(Some(20))).expect("again");
    assert!(
        state
            .reader
            .deliveries()
            .due(at(19), 10)
            .expect("due")
            .is_empty()
    );
    assert_eq!(
        state.reader.deliveries().next().expect("next"),
        Some(at(20))
    );
    assert_eq!(
        state.reader.deliveries().due(at(20), 10).expect("due")[0].attempts,
        1
    );
    state.op(21, deliver(None)).expect("done");
    assert_eq!(
        state
            .op(22, deliver(None))
            .expect_err("over")
            .code()
            .as_str(),
        "not_found"
    );
}

#[test]
fn there_are_at_most_a_hundred_webhooks() {
    let mut state = State::new();
    let webhook = |number: u32| {
        Op::Webhook(Change::Put(Webhook {
            id: format!("hook{number}"),
            url: "https://example.org".to_owned(),
            events: Vec::new(),
            owner: None,
            secret: Secret::new("key"),
            disabled: false,
        }))
    };
    for number in 0..100 {
        state.op(0, webhook(number)).expect("put");
    }
    let error = state.op(1, webhook(100)).expect_err("too many");
    assert_eq!(
        error.to_string(),
        "there are 100 webhooks; remove some first"
    );
    state.op(2, webhook(99)).expect("replaces");
}

#[test]
fn objects_are_created_once_replaced_and_removed() {
    let mut state = State::new();
    let site = Site {
        name: "siteB".to_owned(),
        addresses: vec!["dtn1.siteb.example.org".to_owned()],
        identity: "gw1-b".to_owned(),
        comment: String::new(),
        nodes: Vec::new(),
    };
    state
        .op(0, Op::Site(Change::Create(site.clone())))
        .expect("create");
    assert_eq!(
        state
            .op(1, Op::Site(Change::Create(site.clone())))
            .expect_err("twice")
            .code()
            .as_str(),
        "conflict"
    );
    let found: Vec<Site> = state.reader.objects_by("gw1-b").expect("read");
    assert_eq!(found, [site]);
    let remove = || Op::Site(Change::Remove("siteB".to_owned()));
    state.op(2, remove()).expect("remove");
    assert_eq!(
        state.op(3, remove()).expect_err("gone").code().as_str(),
        "not_found"
    );
    let rule = AccessRule {
        id: "rule".to_owned(),
        subject: "gw1-b".to_owned(),
        site: None,
        export: "data".to_owned(),
        path: "run42".to_owned(),
        rights: vec![AccessRight::Read, AccessRight::List],
        expires: None,
        comment: String::new(),
        job: None,
    };
    let nothing = AccessRule {
        rights: Vec::new(),
        ..rule.clone()
    };
    state
        .op(4, Op::Access(Change::Put(nothing)))
        .expect_err("allows nothing");
    state.op(5, Op::Access(Change::Put(rule))).expect("put");
    let share = Share {
        owner: "alice".to_owned(),
        weight: 0,
    };
    state
        .op(6, Op::Share(Change::Put(share)))
        .expect_err("no weight");
    let unnamed = user("", Role::Viewer);
    let error = state
        .op(7, Op::User(Change::Put(unnamed)))
        .expect_err("no name");
    assert_eq!(error.to_string(), "name: must not be empty");
    let nobody = Command::new(
        at(8),
        Actor {
            name: String::new(),
            ..alice()
        },
        Op::Site(Change::Remove("x".to_owned())),
    );
    assert_eq!(
        state.apply(&nobody).expect_err("no actor").code().as_str(),
        "invalid"
    );
    let mut newer = submit(9, "job");
    newer.version = 2;
    assert_eq!(
        state.apply(&newer).expect_err("newer").code().as_str(),
        "invalid"
    );
}

#[test]
fn limits_hold_at_their_times() {
    let window = |days: &[u8], from: u16, to: u16, rate| LimitWindow {
        days: days.to_vec(),
        from,
        to,
        rate,
    };
    let limit = Limit {
        scope: LimitScope::Site,
        name: "siteB".to_owned(),
        rate: Some(100),
        jobs_max: None,
        // Work hours from Monday to Friday, and Saturday night without a limit.
        windows: vec![
            window(&[0, 1, 2, 3, 4], 480, 1_080, Some(10)),
            window(&[5], 1_320, 360, None),
        ],
        time_zone: "Europe/Berlin".to_owned(),
    };
    let rates = [
        (0, 479, Some(100)),
        (0, 480, Some(10)),
        (4, 1_079, Some(10)),
        (4, 1_080, Some(100)),
        (5, 600, Some(100)),
        (5, 1_320, None),
        (6, 359, None),
        (6, 360, Some(100)),
        (6, 1_320, Some(100)),
    ];
    for (day, minute, rate) in rates {
        assert_eq!(
            limit.rate_at(day, minute),
            rate,
            "day {day}, minute {minute}"
        );
    }
}

#[test]
fn no_secret_is_shown_and_commands_survive_the_log() {
    let secret = User {
        password: Some(Secret::new("$argon2id$secret")),
        ..user("bob", Role::Admin)
    };
    let put = command(0, Op::User(Change::Put(secret)));
    assert!(!format!("{put:?} {put}").contains("argon2id"));
    let json = serde_json::to_string(&put).expect("write");
    assert_eq!(serde_json::from_str::<Command>(&json).expect("read"), put);
    let odd = json.replacen("\"at\":", "\"when\":1,\"at\":", 1);
    let error = serde_json::from_str::<Command>(&odd).expect_err("unknown field");
    assert!(error.to_string().contains("when"), "{error}");
}

#[test]
fn a_user_changes_the_own_password_and_nothing_else() {
    let mut state = State::new();
    let hash = |text: &str| Secret::new(text);
    let ada = User {
        password: Some(hash("first")),
        ..user("ada", Role::Viewer)
    };
    state
        .op(0, Op::User(Change::Create(ada.clone())))
        .expect("made");
    for (id, scope) in [
        ("made", ""),
        ("of-made", "token made"),
        ("log-in", "login"),
        ("session", "session"),
        ("current", "session made"),
    ] {
        let token = Token {
            scope: scope.to_owned(),
            ..token(id, "ada", Role::Viewer)
        };
        state.op(1, Op::Token(Change::Create(token))).expect("made");
    }
    let change = |earlier: &str, password: &str| {
        Op::Password(Box::new(NewPassword {
            user: "ada".to_owned(),
            earlier: hash(earlier),
            password: hash(password),
            keep: vec!["current".to_owned(), "made".to_owned()],
        }))
    };
    let refused = |result: Result<Effect, CommandError>, part: &str| {
        let error = result.expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(state.op(2, change("first", "second")), "level 3");
    state.op(3, Op::Level(3)).expect("alone");
    refused(state.op(4, change("other", "second")), "another request");
    state
        .op(5, change("first", "second"))
        .expect("the own password");
    let now = state.reader.object::<User>("ada").expect("read");
    let second = User {
        password: Some(hash("second")),
        ..ada
    };
    assert_eq!(now.as_ref(), Some(&second));
    let good: Vec<String> = state
        .reader
        .objects::<Token>()
        .expect("read")
        .into_iter()
        .filter(|token| token.revoked.is_none())
        .map(|token| token.id)
        .collect();
    assert_eq!(good, ["current", "made", "of-made"]);
    // A password change does not unlock a user whom an admin has disabled meanwhile.
    let disabled = User {
        disabled: true,
        ..second
    };
    state
        .op(6, Op::User(Change::Put(disabled)))
        .expect("disabled");
    refused(state.op(7, change("second", "third")), "disabled");
}

/// An access rule at a site applies to the site's identity, and is removed with the site.
#[test]
fn a_rule_at_a_site_goes_with_the_site_and_with_its_identity() {
    let mut state = State::new();
    let site = |name: &str, identity: &str| Site {
        name: name.to_owned(),
        addresses: vec!["b:4433".to_owned()],
        identity: identity.to_owned(),
        comment: String::new(),
        nodes: Vec::new(),
    };
    let rule = |id: &str, subject: &str, site: Option<(&str, &str)>| {
        Op::Access(Change::Put(AccessRule {
            id: id.to_owned(),
            subject: subject.to_owned(),
            site: site.map(|(name, identity)| RuleSite {
                name: name.to_owned(),
                identity: identity.to_owned(),
            }),
            export: "data".to_owned(),
            path: String::new(),
            rights: vec![AccessRight::Read],
            expires: None,
            comment: String::new(),
            job: None,
        }))
    };
    let put = |site: Site| Op::Site(Change::Put(site));
    let at_b = Some(("siteB", "gw1-b"));
    state.op(0, put(site("siteB", "gw1-b"))).expect("put");
    state.op(0, put(site("siteC", "gw1-c"))).expect("put");
    let error = state.op(1, rule("b", "user:alice", at_b)).expect_err("old");
    assert!(error.to_string().contains("level 3"), "{error}");
    state.op(2, Op::Level(FEATURE_LEVEL)).expect("alone");
    for (id, subject, wrong) in [
        ("x", "user:alice", ("siteX", "gw1-b")),
        ("x", "user:alice", ("siteB", "gw1-c")),
        ("x", "gw1-b", ("siteB", "gw1-b")),
    ] {
        state
            .op(3, rule(id, subject, Some(wrong)))
            .expect_err("no such site, or not for it");
    }
    let rules = |state: &State| -> Vec<String> {
        let rules = state.reader.objects::<AccessRule>().expect("read");
        rules.into_iter().map(|rule| rule.id).collect()
    };
    for (id, site) in [("a", None), ("b", at_b), ("c", Some(("siteC", "gw1-c")))] {
        state.op(4, rule(id, "user:alice", site)).expect("put");
    }
    // Changes of the name, addresses and nodes of a site have no effect on it.
    state.op(5, put(site("siteB", "gw1-b"))).expect("put");
    assert_eq!(rules(&state), ["a", "b", "c"]);
    state.op(6, put(site("siteB", "gw1-x"))).expect("put");
    assert_eq!(rules(&state), ["a", "c"]);
    let remove = Op::Site(Change::Remove("siteC".to_owned()));
    state.op(7, remove).expect("removed");
    assert_eq!(rules(&state), ["a"]);
}
