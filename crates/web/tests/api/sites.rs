//! Tests rights at sites: each request for a place of a site is refused without a rule for it, before the site is asked.
//! The site's view of the node is tested in `cli`.

use godwit_jobs::Seen;
use godwit_state::{FEATURE_LEVEL, Op, Role};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::rights::token;
use crate::world::World;

const ADA: &str = "gw1-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const BOB: &str = "gw1-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// A node that knows the site `far`, where no node answers, and a user of the node.
fn world() -> (World, Client) {
    let world = World::new();
    world.propose(Op::Level(FEATURE_LEVEL));
    site(&world, "far", ADA);
    let (secret, _) = token(&world, "olga", "operator");
    let olga = world.client().token(&secret);
    (world, olga)
}

fn site(world: &World, name: &str, identity: &str) {
    let site = json!({"addresses": ["127.0.0.1:1"], "identity": identity});
    world
        .client()
        .json("PUT", &format!("/api/v1/sites/{name}"), &site)
        .expect(200);
}

fn rule(world: &World, id: &str, site: &str, rights: &[&str]) -> Answer {
    let rule = json!({
        "subject": "user:olga", "site": site, "export": "data", "path": "run", "rights": rights,
    });
    world
        .client()
        .json("PUT", &format!("/api/v1/access/{id}"), &rule)
}

#[test]
fn only_a_node_that_the_operator_named_is_asked_for_its_exports() {
    let (world, _olga) = world();
    let ask = |identity: &str| {
        let path = format!("/api/v1/places/space?place=far:/&identity={identity}");
        world.client().get(&path)
    };
    ask(BOB).expect_problem(404, "not_found");
    // The first node is asked, and does not answer.
    assert_ne!(ask(ADA).status.as_u16(), 404);
}

/// A rule for a name covers the identity that the name has now, and no job to the one before.
#[test]
fn a_job_to_a_site_that_changed_its_identity_is_an_outline() {
    let (world, _olga) = world();
    let (secret, _) = token(&world, "vera", "viewer");
    let vera = world.client().token(&secret);
    let made = world
        .client()
        .post(
            "/api/v1/jobs",
            &job("copy", "here:/data/pub", "far:/proj/merger"),
        )
        .expect(201)
        .json();
    let path = format!("/api/v1/jobs/{}", made["id"].as_str().unwrap());
    world.grant("vera", "data list");
    let list = json!({"subject": "user:vera", "site": "far", "export": "proj", "rights": ["list"]});
    let allow = |id: &str| {
        let path = format!("/api/v1/access/{id}");
        world.client().json("PUT", &path, &list).expect(200);
    };
    allow("one");
    let seen = vera.get(&path).expect(200).json();
    assert_eq!(seen["destination"], "far:/proj/merger");
    site(&world, "far", BOB);
    allow("two");
    let seen = vera.get(&path).expect(200).json();
    assert_eq!(seen["destination"], "far:/proj/\u{2026}");
    vera.get(&format!("{path}/log"))
        .expect_problem(403, "not_granted");
}

/// A job may have a thousand places at one site, and each look at its description takes a millisecond.
#[test]
fn the_description_of_a_job_is_read_once_for_all_of_its_places_at_a_site() {
    let (world, _olga) = world();
    token(&world, "vera", "viewer");
    let job = job("copy", "far:/proj/merger", "here:/data/pub");
    let made = world.client().post("/api/v1/jobs", &job).expect(201).json();
    let id = made["id"].as_str().unwrap();
    world.grant("vera", "data list");
    let list = json!({"subject": "user:vera", "site": "far", "export": "proj", "rights": ["list"]});
    let put = world.client().json("PUT", "/api/v1/access/one", &list);
    put.expect(200);
    let looks = || Seen::by(&world.jobs, "vera", Role::Viewer).unwrap();
    let sources = |seen: &Seen| seen.job(id).unwrap().sources;
    let seen = looks();
    assert_eq!(sources(&seen), ["far:/proj/merger"]);
    // Only the description says that the job means another site now.
    site(&world, "far", BOB);
    assert_eq!(sources(&seen), ["far:/proj/merger"]);
    assert_eq!(sources(&looks()), ["far:/proj/\u{2026}"]);
}

fn job(kind: &str, source: &str, destination: &str) -> Value {
    json!({
        "kind": kind, "sources": [source], "destination": destination, "not_before": "2100-01-01T00:00:00Z",
    })
}

/// Requests of a user for the site, and the rights that each needs there. The user has all rights here.
fn requests() -> Vec<(&'static str, String, Option<Value>, &'static [&'static str])> {
    let place = "far:/data/run/a";
    let get = |path: &str| ("GET", format!("/api/v1/{path}{place}"), None);
    let post = |path: &str, body: Value| ("POST", format!("/api/v1/places/{path}"), Some(body));
    let submit = |job: Value| ("POST", "/api/v1/jobs".to_owned(), Some(job));
    let here = "here:/data/x";
    let with = |(method, path, body), rights: &'static [&'static str]| (method, path, body, rights);
    let schedule = json!({"cron": "0 22 * * *", "job": job("copy", place, here)});
    vec![
        with(get("places?place="), &["list"]),
        with(get("places/stat?place="), &["list"]),
        with(get("places/space?place="), &["list"]),
        with(post("mkdir", json!({"place": place})), &["write"]),
        with(post("remove", json!({"place": place})), &["delete"]),
        with(
            post("clean", json!({"place": place, "older_than_seconds": 0})),
            &["delete"],
        ),
        with(
            post("rename", json!({"from": place, "to": "far:/data/run/b"})),
            &["delete", "write", "read"],
        ),
        with(submit(job("copy", place, here)), &["read"]),
        with(submit(job("copy", here, place)), &["write"]),
        with(submit(job("sync", here, place)), &["write"]),
        with(submit(job("verify", here, place)), &["read"]),
        with(
            submit(job("copy", place, "far:/data/run/b")),
            &["read", "write"],
        ),
        with(
            ("PUT", "/api/v1/schedules/s".to_owned(), Some(schedule)),
            &["read"],
        ),
    ]
}

fn send(client: &Client, method: &str, path: &str, body: Option<&Value>) -> Answer {
    match body {
        Some(body) => client.json(method, path, body),
        None => client.get(path),
    }
}

#[test]
fn each_request_about_a_site_takes_a_rule_for_it() {
    let (world, olga) = world();
    world.grant("olga", "* read,write");
    for (method, path, body, needed) in requests() {
        let ask = || send(&olga, method, &path, body.as_ref());
        let shown = format!("{method} {path} {body:?}");
        let refused = |what: &str| {
            let problem = ask().expect_problem(403, "not_granted");
            let detail = problem["detail"].as_str().unwrap();
            let hint = "godwit access allow user:olga --site far:/";
            assert!(detail.contains(hint), "{shown}: {what}: {detail}");
        };
        refused("no rule");
        for less in ["read", "write", "list", "delete"] {
            // Reading includes listing, and writing includes deleting.
            let gives = |right: &&str| {
                *right == less
                    || (*right == "list" && less == "read")
                    || (*right == "delete" && less == "write")
            };
            rule(&world, "r", "far", &[less]).expect(200);
            let answer = ask();
            match needed.iter().all(gives) || path.contains("/space") {
                true => assert_ne!(answer.status, 403, "{shown}: {less}: {answer:?}"),
                false => refused(less),
            }
        }
        rule(&world, "r", "far", needed).expect(200);
        let answer = ask();
        // No node answers there: the site was asked, or the job waits for its start.
        let came_through = answer.status.is_success() || answer.status == 502;
        assert!(came_through, "{shown}: {answer:?}");
        world.client().delete("/api/v1/access/r").expect(204);
        refused("taken back");
    }
}

#[test]
fn a_rule_is_for_its_site_and_for_nothing_else() {
    let (world, olga) = world();
    site(&world, "other", BOB);
    rule(&world, "r", "far", &["read", "write"]).expect(200);
    let list = |place: &str| olga.get(&format!("/api/v1/places?place={place}"));
    list("far:/data/run/a").expect_problem(502, "unreachable");
    for place in [
        "far:/data/run2",
        "far:/data",
        "far:/other/run",
        "other:/data/run",
        // The export of that name here, and the reverse.
        "here:/data/run",
    ] {
        list(place).expect_problem(403, "not_granted");
    }
    world.grant("olga", "* read,write");
    list("other:/data/run").expect_problem(403, "not_granted");
    list("nowhere:/data/run").expect_problem(404, "unknown_site");

    // Another identity under the name, and another site under the name.
    let rules = || world.client().get("/api/v1/access").expect(200).json();
    let of_state = |rules: &Value| {
        let rules = rules.as_array().unwrap().iter();
        rules.filter(|rule| rule["site"] == "far").count()
    };
    assert_eq!(of_state(&rules()), 1);
    site(&world, "far", ADA);
    list("far:/data/run/a").expect_problem(502, "unreachable");
    site(&world, "far", BOB);
    list("far:/data/run/a").expect_problem(403, "not_granted");
    assert_eq!(of_state(&rules()), 0);
    rule(&world, "r", "far", &["read"]).expect(200);
    world.client().delete("/api/v1/sites/far").expect(204);
    site(&world, "far", BOB);
    list("far:/data/run/a").expect_problem(403, "not_granted");
}

#[test]
fn rules_that_no_site_can_have_are_refused() {
    let (world, _olga) = world();
    rule(&world, "r", "nowhere", &["read"]).expect_problem(422, "unknown_site");
    rule(&world, "r", "here", &["read"]).expect_problem(422, "invalid");
    let put = |body: &Value| world.client().json("PUT", "/api/v1/access/r", body);
    let mut body = json!({"subject": BOB, "site": "far", "export": "data", "rights": ["read"]});
    put(&body).expect_problem(422, "invalid");
    // A client without support for sites does not turn a rule for a site into one for this node, nor the reverse.
    rule(&world, "r", "far", &["read"]).expect(200);
    body["subject"] = json!("user:olga");
    body.as_object_mut().unwrap().remove("site");
    put(&body).expect_problem(409, "rule_of_another_site");
    world.client().delete("/api/v1/access/r").expect(204);
    put(&body).expect(200);
    rule(&world, "r", "far", &["read"]).expect_problem(409, "rule_of_another_site");
}
