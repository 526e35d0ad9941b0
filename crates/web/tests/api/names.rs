//! Tests reserved user names: they cannot be created, and a user of an older state with such a name cannot act.
//! The list of these names is tested in the state.

use godwit_state::{Change, Op, Role, Secret, Timestamp, Token, User};
use serde_json::json;

use crate::world::World;

#[test]
fn a_user_of_an_older_state_with_the_name_of_somebody_else_does_not_act() {
    let world = World::new();
    let admin = world.client();
    let user = json!({"role": "viewer", "password": "correct horse"});
    admin.json("PUT", "/api/v1/users/paula", &user).expect(200);
    let reader = world.replica.reader();
    let paula: User = reader.object("paula").unwrap().unwrap();
    let login = |user: &str| {
        let body = json!({"user": user, "password": "correct horse"});
        world.network().post("/api/v1/login", &body)
    };
    login("paula").expect(200);
    for name in ["root", "node1", "site:gw1-abc"] {
        // Below the level that knows reserved names, the state accepts them, as an older program did.
        world.propose(Op::User(Change::Create(User {
            name: name.to_owned(),
            ..paula.clone()
        })));
        login(name).expect_problem(401, "wrong_password");
    }
    world.propose(Op::Token(Change::Create(Token {
        id: "t".to_owned(),
        user: "root".to_owned(),
        hash: Secret::new("679f1412e41b1d054b3dcb6edd69b44a82abc9e8489aacb76691a01627ad4a71"),
        scope: String::new(),
        role: Role::Viewer,
        created: Timestamp(0),
        expires: None,
        revoked: None,
        last_digits: String::new(),
        comment: String::new(),
    })));
    let root = world.network().token("gwt_expired");
    root.get("/api/v1/jobs").expect_problem(403, "name_taken");
    for name in ["root", "node1", "site:gw1-abc"] {
        let put = |body| admin.json("PUT", &format!("/api/v1/users/{name}"), &body);
        put(json!({"role": "admin"})).expect_problem(422, "invalid");
        put(json!({"role": "viewer", "disabled": true})).expect(200);
    }
    for name in ["webhooks", "anonymous", "api"] {
        let put = admin.json(
            "PUT",
            &format!("/api/v1/users/{name}"),
            &json!({"role": "viewer"}),
        );
        put.expect_problem(422, "invalid");
    }
}
