//! Invitations by the real binary: their list, their revocation, and the answers to those who join by an ended one.
//! See the tests of the state for the rights of their makers.

use std::time::Instant;

use serde_json::{Value, json};

use super::super::rest::Caller;
use super::super::rig::Rig;
use super::{DEADLINE, Site, join_by, refused, up, view};

/// The output of a node for `cluster` with these words.
fn printed(rig: &Rig, words: &[&str]) -> String {
    let outcome = rig.admin(&[&["cluster"], words].concat());
    assert_eq!(outcome.code, Some(0), "{words:?}: {outcome:?}");
    outcome.out
}

/// The id and the token of a new invitation.
fn invited(rig: &Rig) -> (String, String) {
    let made: Value = serde_json::from_str(&printed(rig, &["invite", "--json"])).expect("JSON");
    let text = |field: &str| made[field].as_str().expect("text").to_owned();
    (text("id"), text("token"))
}

/// The row of an invitation in the list for programs.
fn listed(rig: &Rig, id: &str) -> Value {
    let lines = printed(rig, &["invites", "--json"]);
    let rows = lines.lines().map(serde_json::from_str);
    let row = rows
        .map(|row: Result<Value, _>| row.expect("JSON"))
        .find(|row| row["id"] == *id);
    row.unwrap_or_else(|| panic!("no {id} in {lines}"))
}

fn guess(token: &str) -> String {
    token.replacen("gwi1-", "gwi1-aaaa", 1)
}

fn wait_for_level(rig: &Rig) {
    let until = Instant::now() + DEADLINE;
    while view(rig).is_none_or(|view| view["level"] != 6) {
        assert!(Instant::now() < until, "the level stays");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_revoked_invitation_admits_no_node() {
    let site = Site::of(2);
    let [first, second] = [&site.nodes[0], &site.nodes[1]];
    wait_for_level(first);
    let stranger = site.rig();
    let (id, token) = invited(first);
    let (kept, good) = invited(first);
    let unknown = refused(&stranger, first, &guess(&token), "dtn9");
    assert!(
        unknown.contains("does not know this invitation"),
        "{unknown}"
    );
    let row = listed(second, &id);
    assert_eq!(row["usable"], true, "{row}");
    assert_eq!(row["used_by"], Value::Null, "{row}");
    assert!(
        row["maker"].is_string() && row["created"].is_string(),
        "{row}"
    );
    let said = printed(second, &["revoke", &id]);
    assert_eq!(said, format!("invitation {id} revoked\n"));
    // A request with the right secret learns that the invitation ended; a guess learns nothing new.
    let said = refused(&stranger, first, &token, "dtn9");
    assert!(said.contains("the invitation ended at"), "{said}");
    assert!(said.contains("an admin makes a new invitation"), "{said}");
    assert_eq!(refused(&stranger, first, &guess(&token), "dtn9"), unknown);
    let row = listed(first, &id);
    assert_eq!(row["usable"], false, "{row}");
    assert!(row["ended"].is_string(), "{row}");
    let lines = Caller::admin(first).get("audit").expect(200);
    let lines = lines.as_array().expect("lines");
    let line = lines.iter().find(|line| line["action"] == "invite.remove");
    let line = line.expect("a line");
    assert_eq!(line["object"], format!("invite/{id}"), "{line}");
    assert_eq!(line["actor"], row["maker"], "{line}");
    // The other invitation is still good, and then it cannot be revoked.
    let mut joins = site.rig();
    join_by(&mut joins, first, &good, "dtn3", &[]);
    assert_eq!(listed(first, &kept)["used_by"], "dtn3");
    let late = first.admin(&["cluster", "revoke", &kept]);
    assert_ne!(late.code, Some(0), "{late:?}");
    late.says("godwit cluster remove dtn3");
    site.wait("three nodes", |view| up(view).len() == 3);
    let table = printed(second, &["invites"]);
    for part in ["MAKER", &id, "ended ", &kept, "used by dtn3"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    for secret in [&token, &good] {
        let secret = secret.split('-').nth(1).expect("a secret");
        assert!(!table.contains(secret), "{table}");
    }
    let missing = first.admin(&["cluster", "revoke", "nosuch"]);
    assert_ne!(missing.code, Some(0), "{missing:?}");
    missing.says("there is no invite \"nosuch\"");
}

#[test]
fn an_invitation_that_ended_with_its_maker_says_so() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    wait_for_level(&rig);
    let ada = Caller::user(&rig, "ada", "admin");
    let made = || ada.post("cluster/invites", &json!({})).expect(200);
    let [lowered, gone] = [made(), made()].map(|made| made["token"].clone());
    let text = |token: &Value| token.as_str().expect("text").to_owned();
    let stranger = Rig::new();
    let unknown = refused(&stranger, &rig, &guess(&text(&lowered)), "dtn9");
    let admin = Caller::admin(&rig);
    let operator = json!({"role": "operator"});
    admin.put("users/ada", &operator).expect(200);
    let said = refused(&stranger, &rig, &text(&lowered), "dtn9");
    assert!(said.contains("the invitation has ended"), "{said}");
    assert!(said.contains("ada is no longer an admin"), "{said}");
    admin.delete("users/ada").expect(204);
    let said = refused(&stranger, &rig, &text(&gone), "dtn9");
    assert!(said.contains("the invitation ended at"), "{said}");
    assert!(said.contains("an admin makes a new invitation"), "{said}");
    let guessed = refused(&stranger, &rig, &guess(&text(&gone)), "dtn9");
    assert_eq!(guessed, unknown, "a guess learns nothing of an invitation");
}
