//! Tests the rights of every route: no request gets in without credentials, or with wrong, expired or too weak ones.
//! The routes themselves are tested in other modules.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use godwit_api::rest::{RoleName, Timestamp};
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::World;

const VIEWER: Option<RoleName> = Some(RoleName::Viewer);
const OPERATOR: Option<RoleName> = Some(RoleName::Operator);
const ADMIN: Option<RoleName> = Some(RoleName::Admin);

/// Each route, and the lowest role that it needs. `None` needs no role.
const ROUTES: &[(&str, &str, Option<RoleName>)] = &[
    ("GET", "/api/v1/node", VIEWER),
    ("GET", "/api/v1/exports", VIEWER),
    ("GET", "/api/v1/jobs", VIEWER),
    ("POST", "/api/v1/jobs", OPERATOR),
    ("GET", "/api/v1/jobs/{id}", VIEWER),
    ("PATCH", "/api/v1/jobs/{id}", OPERATOR),
    ("GET", "/api/v1/jobs/{id}/description", VIEWER),
    ("POST", "/api/v1/jobs/{id}/pause", OPERATOR),
    ("POST", "/api/v1/jobs/{id}/resume", OPERATOR),
    ("POST", "/api/v1/jobs/{id}/cancel", OPERATOR),
    ("POST", "/api/v1/jobs/{id}/retry", OPERATOR),
    ("GET", "/api/v1/jobs/{id}/attempts", VIEWER),
    ("GET", "/api/v1/jobs/{id}/failures", VIEWER),
    ("GET", "/api/v1/jobs/{id}/log", VIEWER),
    ("GET", "/api/v1/jobs/{id}/samples", VIEWER),
    ("GET", "/api/v1/jobs/{id}/work", VIEWER),
    ("GET", "/api/v1/cluster", VIEWER),
    ("GET", "/api/v1/cluster/invites", ADMIN),
    ("POST", "/api/v1/cluster/invites", ADMIN),
    ("DELETE", "/api/v1/cluster/invites/{id}", ADMIN),
    ("PATCH", "/api/v1/cluster/nodes/{name}", ADMIN),
    ("DELETE", "/api/v1/cluster/nodes/{name}", ADMIN),
    ("GET", "/api/v1/sites", VIEWER),
    ("GET", "/api/v1/sites/{name}", VIEWER),
    ("PUT", "/api/v1/sites/{name}", ADMIN),
    ("DELETE", "/api/v1/sites/{name}", ADMIN),
    ("GET", "/api/v1/users", ADMIN),
    ("GET", "/api/v1/users/{name}", ADMIN),
    ("PUT", "/api/v1/users/{name}", ADMIN),
    ("DELETE", "/api/v1/users/{name}", ADMIN),
    ("GET", "/api/v1/tokens", OPERATOR),
    ("POST", "/api/v1/tokens", OPERATOR),
    ("DELETE", "/api/v1/tokens/{id}", OPERATOR),
    // A signed-in user needs no role; see `account`.
    ("GET", "/api/v1/account", VIEWER),
    ("PUT", "/api/v1/account/password", OPERATOR),
    ("DELETE", "/api/v1/account/tokens", OPERATOR),
    ("POST", "/api/v1/login", None),
    ("GET", "/api/v1/session", None),
    ("POST", "/api/v1/session", None),
    ("DELETE", "/api/v1/session", None),
    ("GET", "/api/v1/rates", VIEWER),
    ("GET", "/api/v1/settings", VIEWER),
    ("GET", "/api/v1/jobs/{id}/report", VIEWER),
    ("GET", "/api/v1/jobs/{id}/report.html", VIEWER),
    ("GET", "/api/v1/jobs/{id}/manifest", VIEWER),
    ("GET", "/api/v1/access", ADMIN),
    ("GET", "/api/v1/access/{id}", ADMIN),
    ("PUT", "/api/v1/access/{id}", ADMIN),
    ("DELETE", "/api/v1/access/{id}", ADMIN),
    ("GET", "/api/v1/limits", VIEWER),
    ("PUT", "/api/v1/limits/{scope}/{name}", ADMIN),
    ("DELETE", "/api/v1/limits/{scope}/{name}", ADMIN),
    ("GET", "/api/v1/shares", VIEWER),
    ("PUT", "/api/v1/shares/{owner}", ADMIN),
    ("DELETE", "/api/v1/shares/{owner}", ADMIN),
    ("GET", "/api/v1/schedules", VIEWER),
    ("PUT", "/api/v1/schedules/{id}", OPERATOR),
    ("DELETE", "/api/v1/schedules/{id}", OPERATOR),
    ("GET", "/api/v1/flows", VIEWER),
    ("PUT", "/api/v1/flows/{id}", OPERATOR),
    ("DELETE", "/api/v1/flows/{id}", OPERATOR),
    ("GET", "/api/v1/webhooks", ADMIN),
    ("PUT", "/api/v1/webhooks/{id}", ADMIN),
    ("DELETE", "/api/v1/webhooks/{id}", ADMIN),
    ("GET", "/api/v1/webhooks/{id}/deliveries", ADMIN),
    ("GET", "/api/v1/events", VIEWER),
    ("GET", "/api/v1/audit", ADMIN),
    ("GET", "/api/v1/places", VIEWER),
    ("GET", "/api/v1/places/stat", VIEWER),
    ("GET", "/api/v1/places/space", VIEWER),
    ("POST", "/api/v1/places/mkdir", OPERATOR),
    ("POST", "/api/v1/places/remove", OPERATOR),
    ("POST", "/api/v1/places/rename", OPERATOR),
    ("POST", "/api/v1/places/clean", OPERATOR),
    ("GET", "/api/v1/buffer", VIEWER),
    ("GET", "/api/v1/buffer/files", VIEWER),
    ("POST", "/api/v1/buffer/keep", OPERATOR),
    ("POST", "/api/v1/buffer/drop", OPERATOR),
    ("POST", "/api/v1/buffer/retry", OPERATOR),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/metrics", VIEWER),
];

#[test]
fn the_table_has_every_route() {
    let document: Value = serde_json::from_str(&godwit_web::openapi()).unwrap();
    let mut described = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} twice");
            described.insert((method.to_uppercase(), path.clone()));
        }
    }
    let table: BTreeSet<(String, String)> = ROUTES
        .iter()
        .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    assert_eq!(described, table);
}

/// A user of that role, and a token of the user.
pub(crate) fn token(world: &World, user: &str, role: &str) -> (String, String) {
    let admin = world.client();
    let put = admin.json(
        "PUT",
        &format!("/api/v1/users/{user}"),
        &json!({"role": role}),
    );
    put.expect(200);
    let made = admin.post("/api/v1/tokens", &json!({"user": user, "role": role}));
    let made = made.expect(201).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&made["secret"]), text(&made["token"]["id"]))
}

fn send(client: &Client, method: &str, path: &str) -> crate::client::Answer {
    // An endless stream would not end.
    let path = match path {
        "/api/v1/events" => "/api/v1/events?job=x".to_owned(),
        path => path
            .replace("{id}", "x")
            .replace("{name}", "x")
            .replace("{owner}", "x")
            .replace("{scope}", "site"),
    };
    let body = match method {
        "GET" | "DELETE" => Vec::new(),
        _ => b"{".to_vec(),
    };
    client.send(method, &path, &[("content-type", "application/json")], body)
}

#[test]
fn no_route_lets_anybody_in_without_the_right() {
    let world = World::new();
    let (viewer, _) = token(&world, "vera", "viewer");
    let (operator, _) = token(&world, "otto", "operator");
    let (admin, _) = token(&world, "ada", "admin");
    let (revoked, revoked_id) = token(&world, "rita", "admin");
    world
        .client()
        .delete(&format!("/api/v1/tokens/{revoked_id}"))
        .expect(204);
    let (disabled, _) = token(&world, "dora", "admin");
    let disable = json!({"role": "admin", "disabled": true});
    world
        .client()
        .json("PUT", "/api/v1/users/dora", &disable)
        .expect(200);
    let expired = world.expired_token("ada");
    let with = |secret: &str| world.client().token(secret);
    for (method, path, least) in ROUTES {
        let Some(least) = least else {
            continue;
        };
        let answer = |client: Client| send(&client, method, path);
        println!("{method} {path}");
        answer(world.network()).expect_problem(401, "no_credentials");
        answer(with("gwt_wrong")).expect_problem(401, "bad_token");
        answer(world.client().with("authorization", "Basic eDp5")).expect_problem(401, "bad_token");
        answer(world.client().with("authorization", "Bearer")).expect_problem(401, "bad_token");
        answer(with(&expired)).expect_problem(401, "token_expired");
        answer(with(&revoked)).expect_problem(401, "token_revoked");
        answer(with(&disabled)).expect_problem(403, "user_disabled");
        for (role, secret) in [
            (RoleName::Viewer, &viewer),
            (RoleName::Operator, &operator),
            (RoleName::Admin, &admin),
        ] {
            let answer = answer(with(secret));
            if role < *least {
                answer.expect_problem(403, "role_too_small");
            } else {
                let status = answer.status.as_u16();
                assert!(
                    !matches!(status, 401 | 403 | 405) && status < 500,
                    "{answer:?}"
                );
            }
        }
    }
}

#[test]
fn a_token_allows_no_more_than_its_user_and_itself() {
    let world = World::new();
    let admin = world.client();
    let (operator, _) = token(&world, "otto", "operator");
    let otto = world.client().token(&operator);
    // Not more than the role of the user.
    let more = admin.post("/api/v1/tokens", &json!({"user": "otto", "role": "admin"}));
    more.expect_problem(422, "invalid");
    let more = otto.post("/api/v1/tokens", &json!({"role": "admin"}));
    more.expect_problem(403, "role_too_small");
    let others = otto.post("/api/v1/tokens", &json!({"user": "ada", "role": "viewer"}));
    others.expect_problem(403, "not_your_token");
    let past = otto.post(
        "/api/v1/tokens",
        &json!({"role": "viewer", "expires": Timestamp(0)}),
    );
    past.expect_problem(422, "invalid");
    // A weaker token for the same user.
    let small = otto.post(
        "/api/v1/tokens",
        &json!({"role": "viewer", "comment": "page"}),
    );
    let small = small.expect(201).json();
    let secret = small["secret"].as_str().unwrap();
    let viewer = world.client().token(secret);
    assert_eq!(
        viewer.get("/api/v1/node").expect(200).json()["role"],
        "viewer"
    );
    viewer
        .get("/api/v1/tokens")
        .expect_problem(403, "role_too_small");
    // The state keeps no secret, and lists show none.
    let listed = otto.get("/api/v1/tokens").expect(200);
    let text = String::from_utf8(listed.body.clone()).unwrap();
    assert!(!text.contains(secret) && text.contains(&secret[secret.len() - 4..]));
    assert_eq!(listed.json().as_array().unwrap().len(), 2);
    for file in ["state.db", "state.db-wal", "raft.db", "raft.db-wal"] {
        if let Ok(content) = std::fs::read(world.path("state").join(file)) {
            let found = content
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{file}");
        }
    }
    // When the user's role shrinks, so do the tokens.
    let less = admin.json("PUT", "/api/v1/users/otto", &json!({"role": "viewer"}));
    less.expect(200);
    assert_eq!(
        otto.get("/api/v1/node").expect(200).json()["role"],
        "viewer"
    );
    // Users neither see nor revoke the tokens of others.
    let (other, _) = token(&world, "olga", "operator");
    let olga = world.client().token(&other);
    assert_eq!(
        olga.get("/api/v1/tokens").json().as_array().unwrap().len(),
        1
    );
    let id = small["token"]["id"].as_str().unwrap();
    olga.delete(&format!("/api/v1/tokens/{id}"))
        .expect_problem(404, "not_found");
    admin.delete(&format!("/api/v1/tokens/{id}")).expect(204);
    viewer
        .get("/api/v1/node")
        .expect_problem(401, "token_revoked");
    // Removing a user removes the tokens, too.
    admin.delete("/api/v1/users/olga").expect(204);
    olga.get("/api/v1/node").expect_problem(401, "bad_token");
}

#[test]
fn an_operator_changes_only_its_jobs() {
    let world = World::new();
    let (one, _) = token(&world, "otto", "operator");
    let (other, _) = token(&world, "olga", "operator");
    let (otto, olga) = (world.client().token(&one), world.client().token(&other));
    world.grant("otto", "data read,write");
    let job = otto
        .post("/api/v1/jobs", &crate::jobs::later("a"))
        .expect(201)
        .json();
    assert_eq!(job["owner"], "otto");
    let at = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    olga.get(&at).expect(200);
    for what in ["pause", "resume", "cancel", "retry"] {
        let no = olga.send("POST", &format!("{at}/{what}"), &[], Vec::new());
        no.expect_problem(403, "not_your_job");
    }
    let no = olga.json("PATCH", &at, &json!({"priority": 1}));
    no.expect_problem(403, "not_your_job");
    assert_eq!(otto.get(&at).json(), job);
    otto.json("PATCH", &at, &json!({"priority": 1})).expect(200);
    let admin = world.client();
    admin
        .send("POST", &format!("{at}/cancel"), &[], Vec::new())
        .expect(200);
}

#[test]
fn a_proxy_is_not_who_sends_it_a_request() {
    let world = World::new();
    world.client().get("/metrics").expect(200);
    for header in [
        "x-forwarded-for",
        "forwarded",
        "via",
        "x-real-ip",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-client-ip",
        "sec-fetch-site",
        "origin",
        "accept-language",
    ] {
        let behind = || world.client().with(header, "127.0.0.1");
        for path in ["/metrics", "/api/v1/users"] {
            let reported = behind().get(path).expect_problem(401, "no_credentials");
            assert!(
                reported["detail"]
                    .to_string()
                    .contains("a proxy or a browser")
            );
        }
        let (secret, _) = token(&world, "vera", "viewer");
        behind().token(&secret).get("/metrics").expect(200);
    }
    // Requests that a proxy may pass on without adding a header.
    for (version, host, status) in [
        ("1.1", "node", "200"),
        ("1.1", "node.example.org", "401"),
        ("1.1", "node:7272", "401"),
        ("1.0", "node", "401"),
        ("1.1", "node\r\nhost: node.example.org", "401"),
    ] {
        let mut raw = UnixStream::connect(world.web.socket()).unwrap();
        let request =
            format!("GET /metrics HTTP/{version}\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        raw.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        raw.read_to_string(&mut answer).unwrap();
        let reported = answer.split(' ').nth(1).unwrap();
        assert_eq!(reported, status, "HTTP/{version} {host}: {answer}");
    }
}

#[test]
fn refusals_of_users_are_written_into_both_logs_and_those_of_strangers_into_one() {
    let world = World::new();
    let (viewer, _) = token(&world, "vera", "viewer");
    let send = |secret: &str, request: &str| {
        let client = world.client().token(secret).with("x-request-id", request);
        client.get("/api/v1/users")
    };
    send(&viewer, "find-me").expect(403);
    send("gwt_wrong", "stranger").expect(401);
    let login = json!({"token": "gwt_wrong"});
    world.network().post("/api/v1/session", &login).expect(401);
    let lines = world
        .replica
        .reader()
        .audit(&Default::default(), 10)
        .unwrap();
    let line = lines
        .iter()
        .find(|line| line.outcome.as_str() == "role_too_small")
        .unwrap();
    assert_eq!(line.request.as_deref(), Some("find-me"));
    assert_eq!(line.object, "GET /api/v1/users");
    assert!(
        lines
            .iter()
            .all(|line| line.outcome.as_str() != "bad_token"),
        "a stranger has changed the state: {lines:?}"
    );
    let log = world.log.lock().unwrap();
    for code in ["role_too_small", "bad_token"] {
        assert!(log.iter().any(|line| line.contains(code)), "{log:?}");
    }
}

#[test]
fn a_name_without_an_account_is_written_nowhere() {
    let world = World::new();
    let user = json!({"role": "operator", "password": "correct horse"});
    world
        .client()
        .json("PUT", "/api/v1/users/paula", &user)
        .expect(200);
    for user in ["my secret password", "paula"] {
        let login = json!({"user": user, "password": "wrong horse"});
        let answer = world.network().post("/api/v1/login", &login);
        answer.expect_problem(401, "wrong_password");
    }
    let log = world.log.lock().unwrap().join("\n");
    assert!(!log.contains("my secret password"), "{log}");
    assert!(log.contains("login an unknown user"), "{log}");
    assert!(log.contains("login paula"), "{log}");
}

#[test]
fn only_admins_see_settings_that_name_paths() {
    let world = World::new();
    let shown = |role: &str| {
        let (secret, _) = token(&world, role, role);
        let all = world.client().token(&secret).get("/api/v1/settings");
        let all = all.expect(200).json();
        let value = |name: &str| {
            let found = all.as_array().unwrap().iter();
            let found = found.clone().find(|one| one["name"] == name).unwrap();
            (found["value"].clone(), found["origin"].clone())
        };
        (value("keep-for"), value("export"))
    };
    let nothing = Value::Null;
    for role in ["viewer", "operator"] {
        let (plain, path) = shown(role);
        assert_eq!(plain, (json!("7min"), json!("--keep-for")));
        assert_eq!(path, (nothing.clone(), nothing.clone()));
    }
    let (plain, path) = shown("admin");
    assert_eq!(plain, (json!("7min"), json!("--keep-for")));
    let file = json!("/secret/config.toml:3");
    assert_eq!(path, (json!("data=/secret/data"), file));
}

#[test]
fn passwords_make_tokens_and_guesses_are_slowed_down() {
    let world = World::new();
    let admin = world.client();
    let user = json!({"role": "operator", "password": "correct horse"});
    let made = admin.json("PUT", "/api/v1/users/paula", &user).expect(200);
    assert_eq!(
        made.json(),
        json!({"name": "paula", "role": "operator", "has_password": true, "disabled": false})
    );
    let short = json!({"role": "operator", "password": "short"});
    admin
        .json("PUT", "/api/v1/users/x", &short)
        .expect_problem(422, "invalid");
    let network = world.network();
    let login = |user: &str, password: &str| {
        network.post(
            "/api/v1/login",
            &json!({"user": user, "password": password}),
        )
    };
    let token = login("paula", "correct horse").expect(200).json();
    let paula = world.network().token(token["secret"].as_str().unwrap());
    let node = paula.get("/api/v1/node").expect(200).json();
    assert_eq!(
        (&node["user"], &node["role"]),
        (&json!("paula"), &json!("operator"))
    );
    assert!(token["token"]["expires"].is_string());
    // The same words for a wrong user as for a wrong password.
    let wrong = login("paula", "wrong horse").expect_problem(401, "wrong_password");
    let nobody = login("nobody", "wrong horse").expect_problem(401, "wrong_password");
    assert_eq!(wrong["detail"], nobody["detail"]);
    let mut refused = None;
    for _ in 0..5_000 {
        let answer = login("paula", "wrong horse");
        if answer.status.as_u16() == 429 {
            // The next attempt is far enough away.
            if answer.header("retry-after").parse::<u64>().unwrap() > 5 {
                refused = Some(answer);
                break;
            }
            continue;
        }
        answer.expect_problem(401, "wrong_password");
    }
    let refused = refused.expect("guesses are slowed down");
    refused.expect_problem(429, "too_many_logins");
    // Even the right password is refused then; otherwise a guesser would find it all the same.
    login("paula", "correct horse").expect_problem(429, "too_many_logins");
    // A changed role keeps the password; a disabled user has none.
    admin
        .json("PUT", "/api/v1/users/paula", &json!({"role": "viewer"}))
        .expect(200);
    let shown = admin.get("/api/v1/users/paula").expect(200).json();
    assert_eq!(
        (&shown["role"], &shown["has_password"]),
        (&json!("viewer"), &json!(true))
    );
}
