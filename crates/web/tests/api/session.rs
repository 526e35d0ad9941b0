//! Tests sessions of the page: how they begin and end, and the protection against other sites.
//! The page's view of sessions is tested in a browser.

use serde_json::json;

use crate::client::{Answer, Client};
use crate::world::World;

const SESSION: &str = "/api/v1/session";
const FROM_PAGE: (&str, &str) = ("x-godwit-page", "1");

/// Name and value of the cookie that the answer sets.
#[track_caller]
fn cookie(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie");
    for word in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert!(cookie.starts_with("__Host-godwit-"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

fn send(client: &Client, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    client.send(method, path, &all, body.into())
}

/// A node with the user ada, and a client of the network.
fn world() -> (World, Client) {
    let world = World::new();
    let ada = json!({"role": "admin", "password": "correct horse"});
    world
        .client()
        .json("PUT", "/api/v1/users/ada", &ada)
        .expect(200);
    let stranger = world.network();
    (world, stranger)
}

fn signed_in(client: &Client) -> String {
    let body = r#"{"user": "ada", "password": "correct horse"}"#;
    let answer = send(client, "POST", SESSION, &[], body).expect(200);
    assert_eq!(answer.json()["role"], "admin");
    cookie(&answer)
}

#[test]
fn a_session_begins_with_a_password_and_ends_with_the_sign_out() {
    let (world, client) = world();
    let nobody = client.get(SESSION).expect(200).json();
    assert_eq!(nobody["user"], json!(null));
    assert_eq!(nobody["users"], true);
    let wrong = r#"{"user": "ada", "password": "correct house"}"#;
    send(&client, "POST", SESSION, &[], wrong).expect_problem(401, "wrong_password");
    for body in [
        "{}",
        r#"{"user": "ada"}"#,
        r#"{"user": "a", "password": "b", "token": "c"}"#,
    ] {
        send(&client, "POST", SESSION, &[], body).expect_problem(422, "invalid");
    }

    let cookie = signed_in(&client);
    let with = [("cookie", &*cookie)];
    let ada = send(&client, "GET", SESSION, &with, "").expect(200).json();
    assert_eq!(ada["user"], "ada");
    assert!(ada["expires"].is_string());
    send(&client, "GET", "/api/v1/users", &with, "").expect(200);

    // A program's token makes sessions, and ends none that came from elsewhere.
    let admin = world.client();
    let new = json!({"user": "ada", "role": "viewer"});
    let made = admin.post("/api/v1/tokens", &new).expect(201).json();
    let by_token = json!({"token": made["secret"]}).to_string();
    let first = self::cookie(&send(&client, "POST", SESSION, &[], &by_token).expect(200));
    for _ in 0..20 {
        send(&client, "POST", SESSION, &[], &by_token).expect(200);
    }
    let displaced = [("cookie", &*first)];
    send(&client, "GET", "/api/v1/jobs", &displaced, "").expect_problem(401, "session_ended");
    send(&client, "GET", "/api/v1/users", &with, "").expect(200);

    let page = [with[0], FROM_PAGE];
    let out = send(&client, "DELETE", SESSION, &page, "").expect(204);
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    send(&client, "GET", "/api/v1/jobs", &with, "").expect_problem(401, "session_ended");
}

#[test]
fn another_origin_reads_and_changes_nothing_with_a_session() {
    let (_world, client) = world();
    let cookie = signed_in(&client);
    let with = ("cookie", &*cookie);
    let site =
        json!({"addresses": ["h:1"], "identity": format!("gw1-{}", "x".repeat(52))}).to_string();
    let put = |headers: &[(&str, &str)]| send(&client, "PUT", "/api/v1/sites/evil", headers, &site);
    put(&[with]).expect_problem(403, "not_from_page");
    let elsewhere = ("sec-fetch-site", "cross-site");
    put(&[with, FROM_PAGE, elsewhere]).expect_problem(403, "not_from_page");
    put(&[with, FROM_PAGE, ("sec-fetch-site", "same-site")]).expect_problem(403, "not_from_page");
    send(&client, "DELETE", SESSION, &[with], "").expect_problem(403, "not_from_page");
    send(&client, "GET", "/api/v1/sites/evil", &[with], "").expect(404);
    put(&[with, FROM_PAGE, ("sec-fetch-site", "same-origin")]).expect(200);
    for site in ["cross-site", "same-site"] {
        let headers = [with, FROM_PAGE, ("sec-fetch-site", site)];
        for path in ["/api/v1/jobs", "/api/v1/events", "/metrics"] {
            send(&client, "GET", path, &headers, "").expect_problem(403, "not_from_page");
        }
        let nobody = send(&client, "GET", SESSION, &headers, "").expect(200);
        assert!(nobody.json()["user"].is_null());
    }
    // The user typed the address.
    let typed = [with, ("sec-fetch-site", "none")];
    send(&client, "GET", "/api/v1/jobs", &typed, "").expect(200);
}

#[test]
fn a_session_of_a_token_ends_with_the_token_and_allows_no_more() {
    let (world, client) = world();
    let made = world
        .client()
        .post("/api/v1/tokens", &json!({"user": "ada", "role": "viewer"}))
        .expect(201)
        .json();
    let secret = made["secret"].as_str().unwrap();
    let body = json!({"token": secret}).to_string();
    let answer = send(&client, "POST", SESSION, &[], &body).expect(200);
    assert_eq!(answer.json()["role"], "viewer");
    let cookie = cookie(&answer);
    let with = ("cookie", &*cookie);
    send(&client, "GET", "/api/v1/jobs", &[with], "").expect(200);
    send(&client, "GET", "/api/v1/users", &[with], "").expect_problem(403, "role_too_small");
    // The secret of a token is no cookie.
    let name = cookie.split('=').next().unwrap();
    let forged = format!("{name}={secret}");
    send(&client, "GET", "/api/v1/jobs", &[("cookie", &forged)], "")
        .expect_problem(401, "session_ended");
    let id = made["token"]["id"].as_str().unwrap();
    world
        .client()
        .delete(&format!("/api/v1/tokens/{id}"))
        .expect(204);
    send(&client, "GET", "/api/v1/jobs", &[with], "").expect_problem(401, "session_ended");
    let unknown = json!({"token": "gwt_nothing"}).to_string();
    send(&client, "POST", SESSION, &[], &unknown).expect_problem(401, "bad_token");
}

#[test]
fn a_user_has_few_sessions_and_the_oldest_ends() {
    let (_world, client) = world();
    let first = signed_in(&client);
    for _ in 0..20 {
        signed_in(&client);
    }
    let jobs = |cookie: &str| send(&client, "GET", "/api/v1/jobs", &[("cookie", cookie)], "");
    jobs(&first).expect_problem(401, "session_ended");
    jobs(&signed_in(&client)).expect(200);
}

#[test]
fn a_new_password_ends_what_was_signed_in_and_the_tokens_on_request() {
    let (world, client) = world();
    let admin = world.client();
    let secret = |answer: Answer, status| {
        let secret = answer.expect(status).json()["secret"].clone();
        secret.as_str().unwrap().to_owned()
    };
    let put = |user: serde_json::Value| {
        admin.json("PUT", "/api/v1/users/ada", &user).expect(200);
    };
    let cookie = signed_in(&client);
    let login = r#"{"user": "ada", "password": "correct horse"}"#;
    let by_login = secret(send(&client, "POST", "/api/v1/login", &[], login), 200);
    let made = admin.post(
        "/api/v1/tokens",
        &json!({"user": "ada", "role": "operator"}),
    );
    let made = secret(made, 201);
    let by_cookie = || send(&client, "GET", "/api/v1/jobs", &[("cookie", &cookie)], "");
    let by_token = |secret: &str| {
        let bearer = format!("Bearer {secret}");
        send(
            &client,
            "GET",
            "/api/v1/jobs",
            &[("authorization", &bearer)],
            "",
        )
    };
    // A new role is no new password.
    put(json!({"role": "operator"}));
    by_cookie().expect(200);
    by_token(&by_login).expect(200);
    put(json!({"role": "operator", "password": "correct house"}));
    by_cookie().expect_problem(401, "session_ended");
    by_token(&by_login).expect_problem(401, "token_revoked");
    by_token(&made).expect(200);
    send(&client, "POST", SESSION, &[], login).expect_problem(401, "wrong_password");
    put(json!({"role": "operator", "revoke_tokens": true}));
    by_token(&made).expect_problem(401, "token_revoked");
}

#[test]
fn a_user_who_is_disabled_or_removed_is_refused_at_once() {
    let (world, client) = world();
    let admin = world.client();
    let cookie = signed_in(&client);
    let made = admin.post(
        "/api/v1/tokens",
        &json!({"user": "ada", "role": "operator"}),
    );
    let made = made.expect(201).json();
    let bearer = format!("Bearer {}", made["secret"].as_str().unwrap());
    let by_cookie = || send(&client, "GET", "/api/v1/jobs", &[("cookie", &cookie)], "");
    let by_token = || {
        send(
            &client,
            "GET",
            "/api/v1/jobs",
            &[("authorization", &bearer)],
            "",
        )
    };
    by_cookie().expect(200);
    by_token().expect(200);
    let disabled = json!({"role": "admin", "disabled": true});
    admin
        .json("PUT", "/api/v1/users/ada", &disabled)
        .expect(200);
    by_cookie().expect_problem(401, "session_ended");
    by_token().expect_problem(403, "user_disabled");
    admin
        .json("PUT", "/api/v1/users/ada", &json!({"role": "admin"}))
        .expect(200);
    by_token().expect(200);
    admin.delete("/api/v1/users/ada").expect(204);
    by_cookie().expect_problem(401, "session_ended");
    by_token().expect_problem(401, "bad_token");
}
