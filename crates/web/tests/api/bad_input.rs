//! Requests that make no sense: each gets a problem that says why, and nothing changes.
//! Requests that may not be made are tested in `rights`.

use serde_json::json;

use crate::world::World;

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
