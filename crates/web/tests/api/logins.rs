//! Tests log-ins under attack: guesses are slowed down wherever they come from, and others cannot lock a user out.
//! The counters have separate tests.

use godwit_state::{Change, Node, Op, Timestamp};
use serde_json::json;

use crate::client::{Answer, Client};
use crate::world::World;

/// A node with the user ada.
fn world() -> World {
    let world = World::new();
    let ada = json!({"role": "operator", "password": "correct horse"});
    world
        .client()
        .json("PUT", "/api/v1/users/ada", &ada)
        .expect(200);
    world
}

fn login(client: &Client, user: &str, password: &str) -> Answer {
    client.post(
        "/api/v1/login",
        &json!({"user": user, "password": password}),
    )
}

/// Tries a wrong password until none can be tried for some seconds.
fn exhaust(client: &Client, user: &str) {
    loop {
        let answer = login(client, user, "wrong horse");
        if answer.status.as_u16() == 429 {
            let seconds: u64 = answer.header("retry-after").parse().unwrap();
            if seconds > 5 {
                return;
            }
        }
    }
}

#[test]
fn failures_elsewhere_do_not_lock_the_right_password_out() {
    let world = world();
    let [home, elsewhere] = [2, 3].map(|last| world.network_from([127, 0, 0, last]));
    // An address that has used up its attempts against one user uses up no other address.
    exhaust(&elsewhere, "ada");
    login(&elsewhere, "ada", "correct horse").expect_problem(429, "too_many_logins");
    login(&home, "ada", "correct horse").expect(200);
    // Failures from many addresses do not use up an address from which ada signed in.
    for last in 10..16 {
        let client = world.network_from([127, 0, 1, last]);
        while login(&client, "ada", "wrong horse").status.as_u16() == 401 {}
    }
    let new = world.network_from([127, 0, 0, 4]);
    exhaust(&new, "ada");
    login(&new, "ada", "correct horse").expect_problem(429, "too_many_logins");
    login(&home, "ada", "correct horse").expect(200);
}

#[test]
fn a_browser_that_is_known_is_not_locked_out_from_its_own_address() {
    let world = world();
    let client = world.network();
    let body = br#"{"user": "ada", "password": "correct horse"}"#;
    let sign_in = |cookie: &str| {
        let headers = [("content-type", "application/json"), ("cookie", cookie)];
        client.send("POST", "/api/v1/session", &headers, body.to_vec())
    };
    let signed_in = sign_in("").expect(200);
    let cookies = signed_in.headers.get_all("set-cookie").iter();
    let known = cookies
        .filter_map(|cookie| cookie.to_str().ok())
        .find(|cookie| cookie.starts_with("__Host-known-to-godwit="))
        .expect("a cookie");
    assert!(
        known.contains("HttpOnly") && known.contains("SameSite=Strict"),
        "{known}"
    );
    let known = known.split(';').next().unwrap();
    exhaust(&client, "ada");
    sign_in("").expect_problem(429, "too_many_logins");
    sign_in(known).expect(200);
    // The cookie replaces no password.
    let headers = [("content-type", "application/json"), ("cookie", known)];
    let wrong = br#"{"user": "ada", "password": "wrong horse"}"#;
    client
        .send("POST", "/api/v1/session", &headers, wrong.to_vec())
        .expect_problem(401, "wrong_password");
    client
        .send("GET", "/api/v1/jobs", &headers, Vec::new())
        .expect_problem(401, "no_credentials");
}

#[test]
fn a_good_log_in_does_not_clear_its_address_for_spraying() {
    let world = world();
    let client = world.network();
    let mut tried = 0;
    for number in 0..200 {
        login(&client, "ada", "correct horse").expect(200);
        if login(&client, &format!("user{number}"), "password1")
            .status
            .as_u16()
            == 429
        {
            break;
        }
        tried += 1;
    }
    assert!((10..50).contains(&tried), "{tried}");
}

#[test]
fn a_long_name_or_body_is_refused_before_anything_is_kept() {
    let world = world();
    let client = world.network();
    login(&client, &"x".repeat(256), "password1").expect_problem(422, "invalid");
    login(&client, &"x".repeat(255), "password1").expect_problem(401, "wrong_password");
    login(&client, "ada", &"x".repeat(8 << 10)).expect_problem(413, "too_large");
    let session = json!({"token": "x".repeat(8 << 10)});
    client
        .post("/api/v1/session", &session)
        .expect_problem(413, "too_large");
}

/// Each node counts for itself, so a cluster of many gives each of them a part.
#[test]
fn a_node_of_a_cluster_lets_fewer_passwords_be_tried() {
    let tries = |nodes: u64| {
        let world = world();
        for number in 1..=nodes {
            world.propose(Op::Node(Change::Put(Node {
                name: format!("n{number}"),
                number,
                identity: format!("gw1-n{number}"),
                addresses: Vec::new(),
                exports: Vec::new(),
                version: "0.1.0".to_owned(),
                level: 1,
                joined: Timestamp(0),
                draining: false,
                voter: false,
                admins: Vec::new(),
            })));
        }
        let client = world.network();
        // The first one tells the throttle how many nodes there are.
        login(&client, "nobody", "wrong horse");
        let wrong = || login(&client, "ada", "wrong horse").status.as_u16() == 401;
        std::iter::from_fn(|| wrong().then_some(())).count()
    };
    let (alone, among_five) = (tries(0), tries(5));
    assert!(among_five > 0, "{among_five}");
    assert!(2 * among_five <= alone, "{among_five} of {alone}");
}
