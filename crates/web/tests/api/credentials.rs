//! Tests the bounds of tokens and sessions: they give no more rights than their parents, and last no longer.
//! How a session begins and ends is tested in `session`.

use std::os::unix::fs::PermissionsExt as _;

use godwit_state::{LEVEL_INVITES, Op};
use godwit_testkit::needs_root;
use rustix::process::Uid;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::world::World;

const TOKENS: &str = "/api/v1/tokens";
const SESSION: &str = "/api/v1/session";
const JOBS: &str = "/api/v1/jobs";
const FROM_PAGE: (&str, &str) = ("x-godwit-page", "1");
const PASSWORD: &str = "correct horse";

/// A node with the admins ada and bob, and a client of the network.
pub(crate) fn world() -> (World, Client) {
    let world = World::new();
    for name in ["ada", "bob"] {
        put_user(
            &world,
            name,
            &json!({"role": "admin", "password": PASSWORD}),
        );
    }
    let stranger = world.network();
    (world, stranger)
}

pub(crate) fn put_user(world: &World, name: &str, user: &Value) {
    let path = format!("/api/v1/users/{name}");
    world.client().json("PUT", &path, user).expect(200);
}

/// Sends a request with a token.
pub(crate) fn by_token(
    client: &Client,
    secret: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Answer {
    let bearer = format!("Bearer {secret}");
    let headers = [
        ("authorization", &*bearer),
        ("content-type", "application/json"),
    ];
    client.send(method, path, &headers, body.to_string().into_bytes())
}

fn get(client: &Client, secret: &str) -> Answer {
    by_token(client, secret, "GET", JOBS, &Value::Null)
}

/// Sends a request as a page that is signed in.
pub(crate) fn by_page(
    client: &Client,
    cookie: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Answer {
    let headers = [
        ("cookie", cookie),
        FROM_PAGE,
        ("content-type", "application/json"),
    ];
    client.send(method, path, &headers, body.to_string().into_bytes())
}

/// The cookie of a new session.
pub(crate) fn sign_in(client: &Client, with: &Value) -> String {
    let answer = client.post(SESSION, with).expect(200);
    let cookie = answer.header("set-cookie").split(';').next();
    cookie.unwrap().to_owned()
}

pub(crate) fn by_password(name: &str) -> Value {
    json!({"user": name, "password": PASSWORD})
}

/// Secret and description of a new token.
pub(crate) fn made(answer: Answer) -> (String, Value) {
    let made = answer.expect(201).json();
    (
        made["secret"].as_str().unwrap().to_owned(),
        made["token"].clone(),
    )
}

fn log_in(client: &Client, name: &str) -> String {
    let answer = client.post("/api/v1/login", &by_password(name)).expect(200);
    answer.json()["secret"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_is_no_token_and_makes_no_session() {
    let (_world, client) = world();
    let cookie = sign_in(&client, &by_password("ada"));
    let (_, secret) = cookie.split_once('=').unwrap();
    let own = json!({"role": "admin"});
    get(&client, secret).expect_problem(401, "bad_token");
    by_token(&client, secret, "POST", TOKENS, &own).expect_problem(401, "bad_token");
    let again = json!({ "token": secret });
    client
        .post(SESSION, &again)
        .expect_problem(401, "bad_token");
    // None of this ends the session either.
    by_page(&client, &cookie, "GET", JOBS, &Value::Null).expect(200);
}

#[test]
fn tokens_made_by_a_session_end_with_the_session() {
    let (_world, client) = world();
    let cookie = sign_in(&client, &by_password("ada"));
    let session = by_page(&client, &cookie, "GET", SESSION, &Value::Null).json();
    let new = json!({"role": "admin"});
    let answer = by_page(&client, &cookie, "POST", TOKENS, &new);
    let (secret, token) = made(answer);
    assert_eq!(token["expires"], session["expires"]);
    assert!(token["parent"].is_string(), "{token}");
    get(&client, &secret).expect(200);
    // A session that begins with the token is one of its children.
    let second = sign_in(&client, &json!({ "token": secret }));
    by_page(&client, &second, "GET", JOBS, &Value::Null).expect(200);
    by_page(&client, &cookie, "DELETE", SESSION, &Value::Null).expect(204);
    get(&client, &secret).expect_problem(401, "token_revoked");
    by_page(&client, &second, "GET", JOBS, &Value::Null).expect_problem(401, "session_ended");
    client
        .post(SESSION, &json!({ "token": secret }))
        .expect_problem(401, "token_revoked");
}

#[test]
fn a_token_lasts_no_longer_than_its_parent_and_ends_with_it() {
    let (world, client) = world();
    let hour = 3_600_000;
    let end = godwit_jobs::now().0 + hour;
    let time = |millis: i64| serde_json::to_value(godwit_api::rest::Timestamp(millis)).unwrap();
    let admin = world.client();
    let new = |expires: Value| json!({"user": "ada", "role": "admin", "expires": expires});
    let (parent, description) = made(admin.post(TOKENS, &new(time(end))));
    assert_eq!(description["parent"], Value::Null);
    let child = |secret: &str, expires: Value| {
        let new = json!({"role": "operator", "expires": expires});
        made(by_token(&client, secret, "POST", TOKENS, &new))
    };
    let sooner = time(end - hour / 2);
    for (wanted, given) in [
        (Value::Null, time(end)),
        (time(end + hour), time(end)),
        (sooner.clone(), sooner),
    ] {
        let (_, token) = child(&parent, wanted);
        assert_eq!(token["expires"], given);
        assert_eq!(token["parent"], description["id"]);
    }
    // Children of children, up to the bound.
    let mut chain = vec![parent];
    for _ in 0..7 {
        let (secret, _) = child(chain.last().unwrap(), Value::Null);
        chain.push(secret);
    }
    let last = chain.last().unwrap();
    get(&client, last).expect(200);
    by_token(&client, last, "POST", TOKENS, &json!({"role": "viewer"}))
        .expect_problem(403, "too_derived");
    let usable = |list: &Value| {
        let tokens = list.as_array().unwrap().iter();
        tokens.filter(|token| token["usable"] == true).count()
    };
    assert_eq!(usable(&admin.get(TOKENS).json()), 11);
    let id = description["id"].as_str().unwrap();
    admin.delete(&format!("{TOKENS}/{id}")).expect(204);
    for secret in &chain {
        get(&client, secret).expect_problem(401, "token_revoked");
    }
    assert_eq!(usable(&admin.get(TOKENS).json()), 0);
}

#[test]
fn with_the_password_a_token_stands_alone() {
    let (_world, client) = world();
    let cookie = sign_in(&client, &by_password("ada"));
    let new = |password: &str| json!({"role": "operator", "password": password});
    by_page(&client, &cookie, "POST", TOKENS, &new("wrong horse"))
        .expect_problem(403, "wrong_password");
    let (secret, token) = made(by_page(&client, &cookie, "POST", TOKENS, &new(PASSWORD)));
    assert_eq!(
        (&token["parent"], &token["expires"]),
        (&Value::Null, &Value::Null)
    );
    by_page(&client, &cookie, "DELETE", SESSION, &Value::Null).expect(204);
    get(&client, &secret).expect(200);
}

#[test]
fn the_own_password_frees_no_token_of_another_user() {
    for level in [LEVEL_INVITES - 1, LEVEL_INVITES] {
        let (world, client) = world();
        world.propose(Op::Level(level));
        put_user(&world, "carl", &json!({"role": "operator"}));
        let cookie = sign_in(&client, &by_password("bob"));
        let new = json!({"user": "carl", "role": "operator", "password": PASSWORD});
        let (secret, _) = made(by_page(&client, &cookie, "POST", TOKENS, &new));
        get(&client, &secret).expect(200);
        if level == LEVEL_INVITES {
            // It lasts longer than the session, but no longer than its maker.
            by_page(&client, &cookie, "DELETE", SESSION, &Value::Null).expect(204);
            get(&client, &secret).expect(200);
            put_user(&world, "bob", &json!({"role": "operator"}));
            let refused = get(&client, &secret).expect_problem(401, "token_revoked");
            let said = refused["detail"].as_str().unwrap();
            assert!(
                said.contains("its maker bob is no longer an admin"),
                "{said}"
            );
            put_user(&world, "bob", &json!({"role": "admin"}));
            get(&client, &secret).expect(200);
        }
        put_user(&world, "bob", &json!({"role": "admin", "disabled": true}));
        get(&client, &secret).expect_problem(403, "user_disabled");
        world.client().delete("/api/v1/users/bob").expect(204);
        put_user(&world, "bob", &by_password_of_admin());
        assert_eq!(get(&client, &secret).status.as_u16(), 401);
    }
}

#[test]
fn tokens_made_by_an_admin_lose_their_role_with_the_admin() {
    let (world, client) = world();
    let bob = log_in(&client, "bob");
    let new = json!({"user": "ada", "role": "admin"});
    let (secret, _) = made(by_token(&client, &bob, "POST", TOKENS, &new));
    let cookie = sign_in(&client, &json!({ "token": secret }));
    let users = |status| {
        let path = "/api/v1/users";
        by_token(&client, &secret, "GET", path, &Value::Null).expect(status);
        by_page(&client, &cookie, "GET", path, &Value::Null)
    };
    users(200).expect(200);
    put_user(&world, "bob", &json!({"role": "viewer"}));
    users(403).expect_problem(403, "role_too_small");
    get(&client, &secret).expect(200);
    put_user(&world, "bob", &json!({"role": "admin", "disabled": true}));
    users(403).expect_problem(401, "session_ended");
    get(&client, &secret).expect_problem(403, "user_disabled");
    put_user(&world, "bob", &json!({"role": "admin"}));
    users(200).expect(200);
    // The next bob is another user.
    world.client().delete("/api/v1/users/bob").expect(204);
    put_user(&world, "bob", &by_password_of_admin());
    get(&client, &secret).expect_problem(401, "token_revoked");
    get(&client, &bob).expect_problem(401, "bad_token");
    users(401).expect_problem(401, "session_ended");
}

fn by_password_of_admin() -> Value {
    json!({"role": "admin", "password": PASSWORD})
}

#[test]
fn a_recreated_user_has_nothing_of_the_earlier_one() {
    let (world, client) = world();
    let cookie = sign_in(&client, &by_password("ada"));
    let login = log_in(&client, "ada");
    let (secret, _) = made(by_token(
        &client,
        &login,
        "POST",
        TOKENS,
        &json!({"role": "admin"}),
    ));
    world.client().delete("/api/v1/users/ada").expect(204);
    put_user(&world, "ada", &by_password_of_admin());
    for secret in [&login, &secret] {
        get(&client, secret).expect_problem(401, "bad_token");
    }
    by_page(&client, &cookie, "GET", JOBS, &Value::Null).expect_problem(401, "session_ended");
    sign_in(&client, &by_password("ada"));
}

#[test]
fn a_token_of_an_unknown_origin_is_refused() {
    use godwit_state::{Change, Op, Role, Secret, Timestamp, Token};
    let (world, client) = world();
    // SHA-256 of `gwt_expired`.
    let hash = "679f1412e41b1d054b3dcb6edd69b44a82abc9e8489aacb76691a01627ad4a71";
    world.propose(Op::Token(Change::Create(Token {
        id: "odd".to_owned(),
        user: "ada".to_owned(),
        hash: Secret::new(hash),
        scope: "delegation of something".to_owned(),
        role: Role::Admin,
        created: Timestamp(0),
        expires: None,
        revoked: None,
        last_digits: String::new(),
        comment: String::new(),
    })));
    get(&client, "gwt_expired").expect_problem(401, "bad_token");
}

/// A user of the machine, who is an admin only by the users of the node, sends a request on the socket without a token.
#[test]
fn a_token_for_another_user_is_refused_where_it_would_survive_its_maker() {
    if !needs_root() {
        return;
    }
    let world = World::new();
    world.propose(Op::Level(LEVEL_INVITES - 1));
    put_user(&world, "daemon", &json!({"role": "admin"}));
    put_user(&world, "carl", &json!({"role": "operator"}));
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(world.directory.path(), open).unwrap();
    let new = |user: &str| {
        let socket = world.web.socket();
        let new = json!({"user": user, "role": "operator"});
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || {
                let daemon = Uid::from_raw(1);
                rustix::thread::set_thread_res_uid(daemon, daemon, daemon).unwrap();
                Client::unix(socket).post(TOKENS, &new)
            });
            asked.join().unwrap()
        })
    };
    let refused = new("carl").expect_problem(422, "invalid");
    let said = refused["detail"].as_str().unwrap();
    assert!(said.contains("needs cluster level 6"), "{said}");
    new("daemon").expect(201);
    // The accounts that are always admins of a machine have no row to end with.
    let by_machine = json!({"user": "carl", "role": "operator"});
    world.client().post(TOKENS, &by_machine).expect(201);
    world.propose(Op::Level(LEVEL_INVITES));
    let (secret, _) = made(new("carl"));
    let client = world.network();
    get(&client, &secret).expect(200);
    world.client().delete("/api/v1/users/daemon").expect(204);
    assert_eq!(get(&client, &secret).status.as_u16(), 401);
}
