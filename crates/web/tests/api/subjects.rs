//! Tests every operation of the API with every subject, with a valid request and an existing object: who is admitted and who is refused.
//! The operations are tested in other modules; the texts of refusals in `rights`.

mod table;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use godwit_state::{Agreed, FEATURE_LEVEL, Op};
use godwit_testkit::needs_root;
use rustix::process::Uid;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::rights::token;
use crate::world::{Settings, World};
use table::{FLOW, HOOK, JOB, RULE, Row, SCHEDULE, SITE, TABLE};

/// Senders of the request, in the order of the columns. Every object of a request belongs to the operator `otto`.
const SUBJECTS: [&str; 11] = [
    "stranger of the network",
    "wrong token",
    "expired token",
    "revoked token",
    "token of a disabled user",
    "other user of the machine",
    "page of another origin, in the browser of an admin",
    "viewer",
    "operator",
    "other operator",
    "admin",
];
const OTHER_UID: usize = 5;
const ELSEWHERE: usize = 6;
/// The subject without any right at any place.
const OTHER: usize = 9;
/// The places of jobs, schedules and flows of `otto`.
const OF_OTTO: [&str; 2] = ["/data/a", "/data/copy"];

#[test]
fn the_table_has_every_operation() {
    let document: Value = serde_json::from_str(&godwit_web::openapi()).unwrap();
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            described.insert((method.to_uppercase(), path.clone()));
        }
    }
    let without_query = |path: &str| path.split('?').next().unwrap().to_owned();
    let table: BTreeSet<(String, String)> = TABLE
        .iter()
        .map(|row| (row.method.to_owned(), without_query(row.path)))
        .collect();
    assert_eq!(table.len(), TABLE.len(), "a row twice");
    assert_eq!(described, table);
}

#[test]
fn every_operation_answers_every_subject_as_the_table_says() {
    let walk = Walk::new();
    let mut wrong = Vec::new();
    for row in TABLE {
        for (subject, name) in SUBJECTS.iter().enumerate() {
            let Some(answer) = walk.send(row, subject) else {
                continue;
            };
            let (status, expected) = (answer.status.as_u16(), row.statuses[subject]);
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            let Row { method, path, .. } = row;
            if status != expected {
                wrong.push(format!(
                    "{method} {path}, {name}: {status}, not {expected}: {body}"
                ));
            }
            // A refusal names the place that the subject requested.
            let reported = OF_OTTO.iter().find(|word| body.contains(**word));
            if let Some(word) = reported.filter(|_| subject == OTHER && status == 200) {
                wrong.push(format!("{method} {path}, {name}: {word} in {body}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A node of a cluster with an object of each kind, and the subjects.
struct Walk {
    world: World,
    admin: Client,
    owner: Client,
    /// Clients by column; None for the other user of the machine, which needs a thread.
    clients: Vec<Option<Client>>,
}

impl Walk {
    fn new() -> Self {
        let world = World::with(Settings {
            cluster: true,
            ..Settings::default()
        });
        let admin = world.client();
        let put_user = |name: &str, user: Value| {
            let path = format!("/api/v1/users/{name}");
            admin.json("PUT", &path, &user).expect(200);
        };
        let [viewer, operator, other, ada] = [
            ("vera", "viewer"),
            ("otto", "operator"),
            ("olga", "operator"),
            ("ada", "admin"),
        ]
        .map(|(user, role)| token(&world, user, role).0);
        let (revoked, id) = token(&world, "rita", "admin");
        admin.delete(&format!("/api/v1/tokens/{id}")).expect(204);
        let (disabled, _) = token(&world, "dora", "admin");
        put_user("dora", json!({"role": "admin", "disabled": true}));
        put_user(
            "paula",
            json!({"role": "viewer", "password": "correct horse"}),
        );
        let expired = world.expired_token("ada");
        world.grant("vera", "data list");
        world.grant("otto", "data list,read,write,delete");
        let session = json!({"token": ada.clone()});
        let session = world
            .network()
            .post("/api/v1/session", &session)
            .expect(200);
        let cookie = session.header("set-cookie").split(';').next().unwrap();
        let with = |secret: &str| Some(world.client().token(secret));
        let clients = vec![
            Some(world.network()),
            with("gwt_wrong"),
            with(&expired),
            with(&revoked),
            with(&disabled),
            None,
            Some(
                world
                    .network()
                    .with("cookie", cookie)
                    .with("sec-fetch-site", "same-site"),
            ),
            with(&viewer),
            with(&operator),
            with(&other),
            with(&ada),
        ];
        // Lets other users of the machine reach the socket.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(world.directory.path(), open).unwrap();
        let owner = world.client().token(&operator);
        Self {
            world,
            admin,
            owner,
            clients,
        }
    }

    /// Sends the request of the row for a subject; None where the test cannot be that subject.
    fn send(&self, row: &Row, subject: usize) -> Option<Answer> {
        let path = self.prepare(row.path);
        let headers: &[(&str, &str)] = match row.body {
            "" => &[],
            _ => &[("content-type", "application/json")],
        };
        let send = |client: &Client| client.send(row.method, &path, headers, row.body.into());
        if subject != OTHER_UID {
            return self.clients[subject].as_ref().map(send);
        }
        if !needs_root() {
            return None;
        }
        let socket = self.world.web.socket();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let nobody = Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                send(&Client::unix(socket))
            });
            Some(asked.join().unwrap())
        })
    }

    /// Makes a fresh object for the operation. Returns the path that names it.
    fn prepare(&self, path: &str) -> String {
        let put = |client: &Client, path: &str, body: &str| {
            let body = serde_json::from_str(body).unwrap();
            client.json("PUT", path, &body).expect(200);
        };
        let (kind, rest) = path
            .strip_prefix("/api/v1/")
            .and_then(|rest| rest.split_once(['/', '?']))
            .unwrap_or((path, ""));
        match kind {
            "places" => self.lay_out(),
            "cluster" if rest.starts_with("invites/") => {
                let made = self.admin.post("/api/v1/cluster/invites", &json!({}));
                let made = made.expect(200).json();
                return path.replace("{id}", made["id"].as_str().unwrap());
            }
            "cluster" => {
                self.world.add_node("dtn2");
                return path.replace("{name}", "dtn2");
            }
            "events" => {
                return self
                    .prepare("/api/v1/jobs/{id}")
                    .replace("/jobs/", "/events?job=")
                    + "&limit=1";
            }
            _ if !rest.starts_with('{') => {}
            "access" => put(&self.admin, "/api/v1/access/x", RULE),
            "limits" => put(&self.admin, "/api/v1/limits/site/x", r#"{"rate":5}"#),
            "flows" => {
                let level = Agreed(&self.world.replica.reader()).level().unwrap();
                if level < FEATURE_LEVEL {
                    self.world.propose(Op::Level(FEATURE_LEVEL));
                }
                self.admin.delete("/api/v1/flows/x");
                put(&self.owner, "/api/v1/flows/x", FLOW);
            }
            "schedules" => {
                self.admin.delete("/api/v1/schedules/x");
                put(&self.owner, "/api/v1/schedules/x", SCHEDULE);
            }
            "shares" => put(&self.admin, "/api/v1/shares/x", r#"{"weight":2}"#),
            "sites" => put(&self.admin, "/api/v1/sites/x", SITE),
            "users" => put(&self.admin, "/api/v1/users/x", r#"{"role":"viewer"}"#),
            "webhooks" => put(&self.admin, "/api/v1/webhooks/x", HOOK),
            "jobs" | "tokens" => {
                let body = match kind {
                    "jobs" => JOB,
                    _ => r#"{"role":"viewer"}"#,
                };
                let body = serde_json::from_str(body).unwrap();
                let made = self.owner.post(&format!("/api/v1/{kind}"), &body);
                let made = made.expect(201).json();
                let of_token = &made["token"]["id"];
                let id = made["id"].as_str().or_else(|| of_token.as_str());
                return path.replace("{id}", id.unwrap());
            }
            _ => {}
        }
        path.replace("{id}", "x")
            .replace("{name}", "x")
            .replace("{owner}", "x")
            .replace("{scope}", "site")
    }

    fn lay_out(&self) {
        let at = |name: &str| self.world.path("data").join(name);
        for name in ["new", "b"] {
            let _ = std::fs::remove_dir(at(name));
        }
        std::fs::create_dir_all(at("a")).unwrap();
    }
}

#[test]
fn the_columns_are_where_they_are_named() {
    assert!(SUBJECTS[OTHER_UID].contains("of the machine"));
    assert!(SUBJECTS[ELSEWHERE].contains("another origin"));
}
