//! Tests which exports a user may name: by the file of grants and by the rules of the state, and by nothing else.
//! The rights of roles are tested in `rights`.

use godwit_jobs::rule_of;
use godwit_state::{Change, Op};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::rights::token;
use crate::world::{EXPORTS, World};

/// A grant of the user `otto` for an export, and whether this grant alone allows a job from `run4` to `copy` of that export.
const CASES: &[(&str, bool)] = &[
    ("user:otto EXPORT read,write", true),
    ("user:otto * read,write", true),
    (
        "user:otto EXPORT read,write until=2100-01-01T00:00:00Z",
        true,
    ),
    // No user, another user, and other kinds of subjects with that name.
    ("", false),
    ("user:otto2 EXPORT read,write", false),
    ("user:ott EXPORT read,write", false),
    ("user:Otto EXPORT read,write", false),
    // Grants for other exports.
    ("user:otto OTHER read,write", false),
    ("user:otto EXPORT:/run4 read,write", false),
    ("user:otto EXPORT:/copy read,write", false),
    ("user:otto EXPORT:/run read,write", false),
    // Grants that have expired, and grants of too few rights.
    (
        "user:otto EXPORT read,write until=2020-01-01T00:00:00Z",
        false,
    ),
    ("user:otto * read,write until=2020-01-01T00:00:00Z", false),
    ("user:otto EXPORT read", false),
    ("user:otto EXPORT write", false),
    ("user:otto EXPORT list,delete", false),
    ("user:otto EXPORT none", false),
];

fn submit(client: &Client, export: &str) -> Answer {
    let job = json!({
        "sources": [format!("here:/{export}/run4")],
        "destination": format!("here:/{export}/copy/"),
        "not_before": "2100-01-01T00:00:00Z",
    });
    client.post("/api/v1/jobs", &job)
}

/// Puts a schedule whose job names the export.
fn schedule(client: &Client, export: &str) -> Answer {
    let schedule = json!({
        "cron": "0 22 * * *",
        "job": {"sources": [format!("here:/{export}/run4")], "destination": format!("here:/{export}/copy/")},
    });
    client.json("PUT", &format!("/api/v1/schedules/{export}"), &schedule)
}

#[test]
fn no_export_is_reached_without_the_right_from_either_source() {
    let world = World::new();
    let (otto, _) = token(&world, "otto", "operator");
    let (small, _) = token(&world, "ada", "admin");
    let (otto, admin) = (world.client().token(&otto), world.client().token(&small));
    for export in EXPORTS {
        submit(&admin, export).expect(201);
        for (line, allowed) in CASES {
            let other = EXPORTS.into_iter().find(|other| *other != export).unwrap();
            let line = line.replace("EXPORT", export).replace("OTHER", other);
            let words: Vec<&str> = line.split_whitespace().collect();
            let grants: Vec<_> = match words.is_empty() {
                true => Vec::new(),
                false => vec![godwit_api::grant::Grant::of_words(&words).unwrap()],
            };
            for by_file in [true, false] {
                println!("{export}: {line:?}, by file: {by_file}");
                match by_file {
                    true => world.file_grants.lock().unwrap().clone_from(&grants),
                    // The state takes no rule that allows nothing.
                    false if grants.iter().any(|grant| grant.rights.is_empty()) => continue,
                    false => {
                        for grant in &grants {
                            world.propose(Op::Access(Change::Put(
                                rule_of("case", grant, None).unwrap(),
                            )));
                        }
                    }
                }
                for answer in [submit(&otto, export), schedule(&otto, export)] {
                    if *allowed {
                        assert!(answer.status.is_success(), "{answer:?}");
                        continue;
                    }
                    let problem = answer.expect_problem(403, "not_granted");
                    let detail = problem["detail"].as_str().unwrap();
                    assert!(detail.contains(&format!("here:/{export}/")), "{detail}");
                    let hint = format!("godwit access allow user:otto --export {export}:/");
                    assert!(detail.contains(&hint), "{detail}");
                }
                world.file_grants.lock().unwrap().clear();
                if !by_file && !grants.is_empty() {
                    world.propose(Op::Access(Change::Remove("case".to_owned())));
                }
            }
        }
    }
}

#[test]
fn a_small_token_of_an_admin_has_no_more_exports_than_its_role() {
    let world = World::new();
    let admin = world.client();
    admin
        .json("PUT", "/api/v1/users/ada", &json!({"role": "admin"}))
        .expect(200);
    let made = admin.post(
        "/api/v1/tokens",
        &json!({"user": "ada", "role": "operator"}),
    );
    let secret = made.expect(201).json()["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    let small = world.client().token(&secret);
    submit(&small, "data").expect_problem(403, "not_granted");
    world.grant("ada", "data read,write");
    submit(&small, "data").expect(201);
}

#[test]
fn rules_are_made_shown_and_removed() {
    let world = World::new();
    let admin = world.client();
    world.grant("olga", "data:/a read");
    let rule = json!({
        "subject": "user:otto", "export": "data", "path": "/run4/", "rights": ["write", "read"], "comment": "Ada asked",
    });
    let made = admin
        .json("PUT", "/api/v1/access/one", &rule)
        .expect(200)
        .json();
    let expected = json!({
        "id": "one", "origin": "state", "subject": "user:otto", "export": "data", "path": "run4",
        "rights": ["read", "write"], "expires": null, "expired": false, "comment": "Ada asked", "job": null, "asker": null,
    });
    assert_eq!(made, expected);
    assert_eq!(admin.get("/api/v1/access/one").expect(200).json(), expected);
    let listed = admin.get("/api/v1/access").expect(200).json();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(
        (&listed[0]["origin"], &listed[0]["id"], &listed[0]["path"]),
        (&json!("file"), &Value::Null, &json!("a"))
    );
    for (change, code) in [
        (json!({"subject": "otto"}), "invalid"),
        (json!({"export": "nothing"}), "no_such_export"),
        (json!({"export": "*", "path": "a"}), "invalid"),
        (json!({"path": "a/../b"}), "invalid"),
        (json!({"rights": []}), "invalid"),
        (json!({"expires": "2020-01-01T00:00:00Z"}), "invalid"),
    ] {
        let mut wrong = rule.clone();
        for (field, value) in change.as_object().unwrap() {
            wrong[field] = value.clone();
        }
        admin
            .json("PUT", "/api/v1/access/two", &wrong)
            .expect_problem(422, code);
    }
    admin.delete("/api/v1/access/one").expect(204);
    admin
        .get("/api/v1/access/one")
        .expect_problem(404, "not_found");
    admin
        .delete("/api/v1/access/one")
        .expect_problem(404, "not_found");
}

#[test]
fn a_later_user_of_a_name_has_none_of_the_rules() {
    let world = World::new();
    let (first, _) = token(&world, "otto", "operator");
    let admin = world.client();
    let rule = json!({"subject": "user:otto", "export": "*", "rights": ["read"]});
    admin.json("PUT", "/api/v1/access/one", &rule).expect(200);
    let look = |secret: &str| {
        let client = world.client().token(secret);
        client.get("/api/v1/places?place=here:/data/")
    };
    look(&first).expect(200);
    admin.delete("/api/v1/users/otto").expect(204);
    let (second, _) = token(&world, "otto", "operator");
    look(&second).expect_problem(403, "not_granted");
}

#[test]
fn a_new_user_does_not_get_the_name_of_a_user_with_jobs() {
    let world = World::new();
    let (first, _) = token(&world, "otto", "operator");
    let admin = world.client();
    let rule = json!({"subject": "user:otto", "export": "*", "rights": ["read", "write"]});
    admin.json("PUT", "/api/v1/access/one", &rule).expect(200);
    submit(&world.client().token(&first), "data").expect(201);
    let put = |name: &str| {
        let path = format!("/api/v1/users/{name}");
        admin.json("PUT", &path, &json!({"role": "operator"}))
    };
    put("otto").expect(200);
    admin.delete("/api/v1/users/otto").expect(204);
    put("otto").expect_problem(409, "name_taken");
    put("otto-2").expect(200);
}

/// A grant of the user `otto`, and whether it lets the user look at `run4` of an export, write there, and remove there.
const AT_PLACES: &[(&str, [bool; 3])] = &[
    ("user:otto EXPORT read,write", [true, true, true]),
    ("user:otto EXPORT:/run4 read,write", [true, true, true]),
    ("user:otto EXPORT read", [true, false, false]),
    ("user:otto EXPORT list", [true, false, false]),
    ("user:otto EXPORT:/run4 write", [false, true, true]),
    ("user:otto EXPORT delete", [false, false, true]),
    ("", [false; 3]),
    ("user:otto2 EXPORT read,write", [false; 3]),
    ("user:otto OTHER read,write", [false; 3]),
    ("user:otto EXPORT:/run read,write", [false; 3]),
    ("user:otto EXPORT:/run42 read,write", [false; 3]),
    (
        "user:otto EXPORT read,write until=2020-01-01T00:00:00Z",
        [false; 3],
    ),
];

#[test]
fn no_entry_is_seen_or_changed_without_the_right() {
    let world = World::new();
    let (otto, _) = token(&world, "otto", "operator");
    let otto = world.client().token(&otto);
    for export in EXPORTS {
        let other = EXPORTS.into_iter().find(|other| *other != export).unwrap();
        let place = |below: &str| format!("here:/{export}/run4{below}");
        for (line, [look, write, delete]) in AT_PLACES {
            println!("{export}: {line:?}");
            std::fs::create_dir_all(world.path(export).join("run4/old")).unwrap();
            let line = line.replace("EXPORT", export).replace("OTHER", other);
            let words: Vec<&str> = line.split_whitespace().collect();
            let grants = match words.is_empty() {
                true => Vec::new(),
                false => vec![godwit_api::grant::Grant::of_words(&words).unwrap()],
            };
            world.file_grants.lock().unwrap().clone_from(&grants);
            let get = |route: &str| otto.get(&format!("/api/v1/places{route}?place={}", place("")));
            let post =
                |route: &str, body: Value| otto.post(&format!("/api/v1/places/{route}"), &body);
            let asked = [
                (get(""), *look),
                (get("/stat"), *look),
                (post("mkdir", json!({"place": place("/new")})), *write),
                (
                    post(
                        "rename",
                        json!({"from": place("/old"), "to": place("/older")}),
                    ),
                    // A rename also needs the right to read the moved entry.
                    *write && *delete && *look && line.contains("read"),
                ),
                (post("clean", json!({"place": place("")})), *delete),
                (
                    post("remove", json!({"place": place(""), "recursive": true})),
                    *delete,
                ),
            ];
            for (answer, allowed) in asked {
                match allowed {
                    true => drop(answer.expect(200)),
                    false => drop(answer.expect_problem(403, "not_granted")),
                }
            }
            assert_eq!(world.path(export).join("run4").exists(), !delete);
        }
    }
}

#[test]
fn a_token_of_a_smaller_role_lets_no_job_run_with_the_rights_of_its_user() {
    let world = World::new();
    let (admin, _) = token(&world, "ada", "admin");
    let admin = world.client().token(&admin);
    let smaller = json!({"user": "ada", "role": "operator"});
    let smaller = admin.post("/api/v1/tokens", &smaller).expect(201).json();
    let smaller = world.client().token(smaller["secret"].as_str().unwrap());
    let job = json!({"sources": ["here:/data/a"], "destination": "here:/archive/b", "not_before": "2100-01-01T00:00:00Z"});
    smaller
        .post("/api/v1/jobs", &job)
        .expect_problem(403, "not_granted");
    let made = admin.post("/api/v1/jobs", &job).expect(201).json();
    let path = format!("/api/v1/jobs/{}", made["id"].as_str().unwrap());
    let steer = |client: &Client, what: &str| client.post(&format!("{path}/{what}"), &json!({}));
    let change = |client: &Client, change: Value| client.json("PATCH", &path, &change);
    // Requests that only hold a job up, or name it, need no place.
    steer(&smaller, "pause").expect(200);
    change(&smaller, json!({"label": "mine"})).expect(200);
    for what in [json!({"priority": 1}), json!({"limit": 1})] {
        change(&smaller, what).expect_problem(403, "not_granted");
    }
    steer(&smaller, "resume").expect_problem(403, "not_granted");
    steer(&admin, "resume").expect(200);
    steer(&smaller, "cancel").expect(200);
    steer(&smaller, "retry").expect_problem(403, "not_granted");
    steer(&admin, "retry").expect(200);
    // With its own rights it does.
    world.grant("ada", "data read");
    world.grant("ada", "archive write");
    change(&smaller, json!({"priority": 1})).expect(200);
    steer(&smaller, "cancel").expect(200);
    steer(&smaller, "retry").expect(200);
}

#[test]
fn a_dry_run_needs_the_right_to_list_its_destination() {
    let world = World::new();
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    world.grant("otto", "data:/run4 read");
    world.grant("otto", "archive write");
    let job = |dry: &str| {
        json!({
            "kind": "sync", "sources": ["here:/data/run4/"], "destination": "here:/archive/copy",
            "settings": {"delete": ["true"], "dry-run": [dry]}, "not_before": "2100-01-01T00:00:00Z",
        })
    };
    let schedule = |dry: &str| json!({"cron": "0 22 * * *", "job": job(dry)});
    let put = |dry: &str| otto.json("PUT", "/api/v1/schedules/dry", &schedule(dry));
    otto.post("/api/v1/jobs", &job("false")).expect(201);
    put("false").expect(200);
    let refused = otto.post("/api/v1/jobs", &job("true"));
    let refused = refused.expect_problem(403, "not_granted");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("may not list"), "{detail}");
    put("true").expect_problem(403, "not_granted");
    world.grant("otto", "archive list");
    otto.post("/api/v1/jobs", &job("true")).expect(201);
    put("true").expect(200);
}
