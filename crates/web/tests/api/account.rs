//! Tests the caller's own account: its password, sessions and tokens, for every role.
//! Changes that admins make to other accounts are tested in `rights` and `session`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use godwit_state::{FEATURE_LEVEL, Op};
use godwit_worlds::DEADLINE;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::credentials::{by_page, by_password, by_token, made, put_user, sign_in};
use crate::world::World;

const ACCOUNT: &str = "/api/v1/account";
const PASSWORD: &str = "/api/v1/account/password";
const OTHERS: &str = "/api/v1/account/tokens";
const TOKENS: &str = "/api/v1/tokens";

/// A node with the viewer vera and the operator otto, and a client of the network.
fn world() -> (World, Client) {
    let world = World::new();
    world.propose(Op::Level(FEATURE_LEVEL));
    for (name, role) in [("vera", "viewer"), ("otto", "operator")] {
        put_user(
            &world,
            name,
            &json!({"role": role, "password": "correct horse"}),
        );
    }
    let client = world.network();
    (world, client)
}

fn show(client: &Client, cookie: &str) -> Answer {
    by_page(client, cookie, "GET", ACCOUNT, &Value::Null)
}

#[test]
fn a_viewer_changes_the_own_password_and_stays_signed_in_here_alone() {
    let (world, client) = world();
    let made_by_admin = json!({"user": "vera", "role": "viewer"});
    let (token, _) = made(world.client().post(TOKENS, &made_by_admin));
    let here = sign_in(&client, &by_password("vera"));
    let there = sign_in(&client, &by_password("vera"));
    let login = client
        .post("/api/v1/login", &by_password("vera"))
        .expect(200);
    let login = login.json()["secret"].as_str().unwrap().to_owned();
    let change = |current: &str, new: &str| {
        let body = json!({"current": current, "new": new});
        by_page(&client, &here, "PUT", PASSWORD, &body)
    };
    change("wrong horse", "battery staple").expect_problem(403, "wrong_password");
    change("correct horse", "short").expect_problem(422, "invalid");
    show(&client, &there).expect(200);
    change("correct horse", "battery staple").expect(204);
    show(&client, &here).expect(200);
    show(&client, &there).expect_problem(401, "session_ended");
    let get = |secret: &str| by_token(&client, secret, "GET", "/api/v1/jobs", &Value::Null);
    get(&login).expect_problem(401, "token_revoked");
    get(&token).expect(200);
    client
        .post("/api/v1/session", &by_password("vera"))
        .expect_problem(401, "wrong_password");
    let new = json!({"user": "vera", "password": "battery staple"});
    sign_in(&client, &new);
    // A page of another site changes no password.
    let body = json!({"current": "battery staple", "new": "correct horse"});
    let headers = [("cookie", &*here), ("content-type", "application/json")];
    client
        .send("PUT", PASSWORD, &headers, body.to_string().into_bytes())
        .expect_problem(403, "not_from_page");
    let audit = world.client().get("/api/v1/audit").expect(200).json();
    let lines = audit.as_array().unwrap();
    let changed = |line: &&Value| line["action"] == "user.password" && line["outcome"] == "ok";
    assert_eq!(lines.iter().filter(changed).count(), 1, "{audit}");
    assert!(!audit.to_string().contains("argon2"), "{audit}");
}

#[test]
fn guesses_of_the_own_password_are_bounded() {
    let (_world, client) = world();
    let cookie = sign_in(&client, &by_password("vera"));
    let guess = json!({"current": "wrong horse", "new": "battery staple"});
    let guesses = (0..30).map(|_| by_page(&client, &cookie, "PUT", PASSWORD, &guess));
    let status = |answer: Answer| answer.status.as_u16();
    assert!(guesses.map(status).any(|status| status == 429));
}

#[test]
fn an_account_without_a_password_is_shown_as_such() {
    let (world, _client) = world();
    let body = json!({"current": "correct horse", "new": "battery staple"});
    let local = world.client();
    local
        .json("PUT", PASSWORD, &body)
        .expect_problem(409, "no_password");
    let account = local.get(ACCOUNT).expect(200).json();
    assert_eq!(account["has_password"], false);
    assert_eq!(account["current"], Value::Null);
}

#[test]
fn every_role_sees_and_ends_the_own_sessions_and_no_others() {
    for (name, other) in [("vera", "otto"), ("otto", "vera")] {
        let (world, client) = world();
        let here = sign_in(&client, &by_password(name));
        let there = sign_in(&client, &by_password(name));
        let third = sign_in(&client, &by_password(name));
        let foreign = sign_in(&client, &by_password(other));
        let new = json!({"user": name, "role": "viewer"});
        let (token, of_token) = made(world.client().post(TOKENS, &new));
        let account = show(&client, &here).expect(200).json();
        assert_eq!(
            (&account["user"], &account["has_password"]),
            (&json!(name), &json!(true))
        );
        let tokens = account["tokens"].as_array().unwrap();
        let kinds = tokens.iter().map(|token| token["kind"].as_str().unwrap());
        let mut kinds: Vec<&str> = kinds.collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["session", "session", "session", "token"]);
        assert!(tokens.iter().all(|token| token["user"] == name));
        let id = |cookie: &str| {
            let account = show(&client, cookie).expect(200).json();
            account["current"].as_str().unwrap().to_owned()
        };
        assert_eq!(account["current"], id(&here));
        let end = |id: &str| {
            let path = format!("{TOKENS}/{id}");
            by_page(&client, &here, "DELETE", &path, &Value::Null)
        };
        end(&id(&third)).expect(204);
        show(&client, &third).expect_problem(401, "session_ended");
        end(&id(&foreign)).expect_problem(404, "not_found");
        let end_others = |query: &str| {
            let path = format!("{OTHERS}{query}");
            by_page(&client, &here, "DELETE", &path, &Value::Null).expect(204);
        };
        let get = || by_token(&client, &token, "GET", "/api/v1/jobs", &Value::Null);
        end_others("");
        show(&client, &there).expect_problem(401, "session_ended");
        get().expect(200);
        end_others("?made=true");
        get().expect_problem(401, "token_revoked");
        show(&client, &here).expect(200);
        show(&client, &foreign).expect(200);
        // An ended token is not listed, and the list contains only the caller's tokens.
        let account = show(&client, &here).expect(200).json();
        assert_eq!(account["tokens"].as_array().unwrap().len(), 1);
        let all = by_page(&client, &here, "GET", TOKENS, &Value::Null).expect(200);
        let all = all.json();
        assert!(
            all.as_array()
                .unwrap()
                .iter()
                .all(|token| token["user"] == name)
        );
        assert!(all.to_string().contains(of_token["id"].as_str().unwrap()));
    }
}

#[test]
fn a_token_that_only_looks_ends_nothing() {
    let (world, client) = world();
    let here = sign_in(&client, &by_password("vera"));
    let new = json!({"user": "vera", "role": "viewer"});
    let (token, description) = made(world.client().post(TOKENS, &new));
    let id = description["id"].as_str().unwrap();
    for (method, path) in [
        ("GET", TOKENS),
        ("DELETE", OTHERS),
        ("DELETE", &*format!("{TOKENS}/{id}")),
    ] {
        by_token(&client, &token, method, path, &Value::Null).expect_problem(403, "role_too_small");
    }
    let change = json!({"current": "correct horse", "new": "battery staple"});
    by_token(&client, &token, "PUT", PASSWORD, &change).expect_problem(403, "role_too_small");
    let account = by_token(&client, &token, "GET", ACCOUNT, &Value::Null);
    assert_eq!(account.expect(200).json()["may_change"], false);
    // A session of the token cannot do so either.
    let of_token = sign_in(&client, &json!({ "token": token }));
    by_page(&client, &of_token, "DELETE", OTHERS, &Value::Null)
        .expect_problem(403, "role_too_small");
    let account = show(&client, &here).expect(200).json();
    assert_eq!(account["may_change"], true);
}

#[test]
fn the_token_by_which_a_session_began_is_not_one_of_the_others() {
    let (world, client) = world();
    let new = json!({"user": "otto", "role": "operator"});
    let (token, _) = made(world.client().post(TOKENS, &new));
    let here = sign_in(&client, &json!({ "token": token }));
    let path = format!("{OTHERS}?made=true");
    by_page(&client, &here, "DELETE", &path, &Value::Null).expect(204);
    show(&client, &here).expect(200);
}

#[test]
fn a_log_in_under_way_does_not_survive_a_new_password() {
    let (world, _) = world();
    let clients: Vec<Client> = (0..4).map(|_| world.network()).collect();
    let done = AtomicUsize::new(0);
    let secrets = std::thread::scope(|scope| {
        let log_ins: Vec<_> = clients
            .iter()
            .map(|client| {
                let done = &done;
                scope.spawn(move || {
                    let mut secrets = Vec::new();
                    loop {
                        let answer = client.post("/api/v1/login", &by_password("vera"));
                        match answer.status.as_u16() {
                            200 => {
                                secrets.push(answer.json()["secret"].as_str().unwrap().to_owned());
                                done.fetch_add(1, Ordering::Relaxed);
                            }
                            401 => return secrets,
                            other => panic!("{other}: {answer:?}"),
                        }
                    }
                })
            })
            .collect();
        let until = Instant::now() + DEADLINE;
        while done.load(Ordering::Relaxed) <= clients.len() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let new = json!({"role": "viewer", "password": "battery staple"});
        put_user(&world, "vera", &new);
        let secrets = log_ins.into_iter().map(|thread| thread.join().unwrap());
        secrets.flatten().collect::<Vec<String>>()
    });
    assert!(secrets.len() > clients.len(), "{} log-ins", secrets.len());
    for secret in secrets {
        by_token(&clients[0], &secret, "GET", "/api/v1/jobs", &Value::Null)
            .expect_problem(401, "token_revoked");
    }
}
