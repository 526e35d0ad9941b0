//! Tests requests that make no sense: each gets a problem with the reason, and nothing changes.
//! Requests that may not be made are tested in `rights`.

use serde_json::json;

use crate::client::Client;
use crate::world::{Settings, World};

#[test]
fn bad_requests_get_a_problem_with_a_code() {
    let world = World::new();
    let client = world.client();
    let json_type = [("content-type", "application/json")];
    client
        .get("/api/v1/nothing")
        .expect_problem(404, "no_such_route");
    client.get("/nothing").expect_problem(404, "no_such_route");
    let wrong = client.delete("/api/v1/jobs").expect(405);
    let allow = wrong.header("allow").to_owned();
    assert!(allow.contains("POST") && allow.contains("GET"), "{allow}");
    wrong.expect_problem(405, "no_such_method");

    let send = |body: &str| client.send("POST", "/api/v1/jobs", &json_type, body.into());
    send("{").expect_problem(400, "bad_json");
    send("").expect_problem(400, "bad_json");
    send(r#"{"sources": 5}"#).expect_problem(422, "invalid");
    let unknown = send(r#"{"sources": [], "destination": "", "colour": 1}"#);
    let unknown = unknown.expect_problem(422, "invalid");
    assert!(
        unknown["detail"].as_str().unwrap().contains("colour"),
        "{unknown}"
    );
    let untyped = client.send("POST", "/api/v1/jobs", &[], "{}".into());
    untyped.expect_problem(415, "not_json");
    let long = vec![b' '; (1 << 20) + 1];
    let long = client.send("POST", "/api/v1/jobs", &json_type, long);
    long.expect_problem(413, "too_large");
    // Ten times as long in memory as on the network.
    let many = format!(
        r#"{{"sources": ["{}"], "destination": ""}}"#,
        r#"",""#.repeat(60_000)
    );
    let many = send(&many).expect_problem(422, "invalid");
    assert!(
        many["detail"].to_string().contains("too many values"),
        "{many}"
    );

    for query in [
        "state=moving",
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=-1",
        "cursor=x",
        "colour=blue",
        "since=tomorrow",
    ] {
        let problem = client.get(&format!("/api/v1/jobs?{query}"));
        let problem = problem.expect_problem(400, "bad_query");
        let name = query.split('=').next().unwrap();
        assert!(
            problem["detail"].as_str().unwrap().contains(name),
            "{problem}"
        );
    }

    let job = |sources: &str, destination: &str| {
        let body = json!({"sources": [sources], "destination": destination});
        client.post("/api/v1/jobs", &body)
    };
    job("nonsense", "here:/data/x").expect_problem(422, "invalid");
    job("here:/data/x", "siteB:/data/x").expect_problem(422, "unknown_site");
    job("here:/secret/x", "here:/data/x").expect_problem(422, "no_such_export");
    let jobs = client.get("/api/v1/jobs").expect(200).json();
    assert_eq!(jobs["jobs"], json!([]));
}

#[test]
fn every_refusal_is_a_problem() {
    let world = World::new();
    let network = world.network();
    let client = world.client();
    let json_type = [("content-type", "application/json")];
    for path in [
        "/api/v1/jobs/%ff",
        "/api/v1/jobs/%ff/log",
        "/api/v1/users/%ff",
        "/api/v1/webhooks/%c3%28/deliveries",
    ] {
        client.get(path).expect_problem(400, "bad_path");
    }
    client
        .delete("/api/v1/limits/site/%ff")
        .expect_problem(400, "bad_path");
    for path in ["/%ff", "/assets/%ff", "/api/v1/%ff", "/docs/%ff"] {
        client.get(path).expect_problem(404, "no_such_route");
    }
    for query in ["limit=%ff", "%ff=1", "state=%ff"] {
        let jobs = format!("/api/v1/jobs?{query}");
        client.get(&jobs).expect_problem(400, "bad_query");
    }
    for path in [
        "/api/v1/jobs",
        "/openapi.json",
        "/docs",
        "/metrics",
        "/healthz",
        "/",
    ] {
        for method in ["BREW", "TRACE", "PUT"] {
            let answer = client.send(method, path, &[], Vec::new());
            assert!(!answer.header("allow").is_empty());
            answer.expect_problem(405, "no_such_method");
        }
    }
    let bad = client.send("PUT", "/api/v1/users/x", &json_type, b"\xff".to_vec());
    bad.expect_problem(400, "bad_json");
    for client in [&client, &network] {
        let long = format!("/api/v1/jobs?label={}", "x".repeat(20 << 10));
        client.get(&long).expect_problem(414, "uri_too_long");
        let long = "x".repeat(20 << 10);
        let headers = [("x-long", &*long)];
        client
            .send("GET", "/healthz", &headers, Vec::new())
            .expect_problem(431, "headers_too_large");
    }
}

#[test]
fn answers_are_neither_kept_nor_guessed_at() {
    let world = World::new();
    let network = world.network();
    for path in [
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/api/v1/jobs",
        "/api/v1/session",
        "/api/v1/nothing",
    ] {
        let answer = network.get(path);
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        // A host with only the node's own certificate may have other services.
        let insists = answer.headers.contains_key("strict-transport-security");
        assert!(!insists, "{path}");
    }
    // Browsers know the operator's certificate.
    let web = world.path("web");
    let operators = World::with(Settings {
        certificate: Some([web.join("certificate.pem"), web.join("key.pem")]),
        ..Settings::default()
    });
    let client = Client::tls(operators.web.taker(), &web.join("certificate.pem"));
    for path in ["/healthz", "/", "/api/v1/jobs"] {
        let answer = client.get(path);
        let insists = answer.header("strict-transport-security");
        assert!(insists.starts_with("max-age="), "{insists}");
    }
    let local = operators.client().get("/healthz");
    assert!(!local.headers.contains_key("strict-transport-security"));
}

#[test]
fn each_answer_has_the_id_of_its_request() {
    let world = World::new();
    let client = world.client();
    let [one, other] = [(), ()].map(|()| client.get("/api/v1/node").expect(200));
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
    let named = world.client().with("x-request-id", "my-id_1.2");
    let answer = named.get("/api/v1/nothing");
    assert_eq!(answer.header("x-request-id"), "my-id_1.2");
    assert_eq!(answer.json()["request"], "my-id_1.2");
    let strange = world.client().with("x-request-id", "a b;c");
    assert_ne!(strange.get("/").header("x-request-id"), "a b;c");
}
