//! Jobs and schedules whose owner loses the right to run them, at a real node.
//! See `access` for the effect of a right, and `sites` for jobs of other nodes.

use std::time::{Duration, Instant};

use godwit_api::rest::Timestamp;
use serde_json::{Value, json};

use super::rest::Caller;
use super::rig::Rig;

/// Time for automatic work of a node on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// Slow enough to last for a test.
const LIMIT: u64 = 64 << 10;

#[track_caller]
fn wait_for(admin: &Caller<'_>, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + DEADLINE;
    loop {
        let now = admin.get(path).expect(200);
        if is_it(&now) {
            return now;
        }
        assert!(Instant::now() < until, "it does not come: {now}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn job(destination: &str) -> Value {
    json!({"sources": ["here:/data/large"], "destination": destination, "limit": LIMIT})
}

/// Submits a job and waits until it moves; its path in the API.
#[track_caller]
fn running(admin: &Caller<'_>, owner: &Caller<'_>, name: &str) -> String {
    let made = owner.post("jobs", &job(&format!("here:/data/{name}")));
    let path = format!("jobs/{}", made.expect(201)["id"].as_str().expect("an id"));
    wait_for(admin, &path, |job| {
        job["progress"]["bytes"].as_u64() > Some(0)
    });
    path
}

fn let_in(admin: &Caller<'_>, name: &str, expires: Option<Timestamp>) {
    let rule = json!({
        "subject": format!("user:{name}"), "export": "data", "rights": ["read", "write"], "expires": expires,
    });
    admin.put(&format!("access/{name}"), &rule).expect(200);
}

#[test]
fn a_running_job_ends_when_its_owner_may_no_longer_run_it() {
    let mut rig = Rig::new();
    rig.write("export/large", vec![7; 32 << 20]);
    rig.serve(&[]);
    let admin = Caller::admin(&rig);
    let undisturbed = running(&admin, &admin, "undisturbed");
    let names = ["denied", "expired", "demoted", "disabled", "removed"];
    for name in names {
        let owner = Caller::user(&rig, name, "operator");
        let_in(&admin, name, None);
        let path = running(&admin, &owner, name);
        // A second job is paused. The job does not run, even if another user resumes it.
        let paused = running(&admin, &owner, &format!("{name}2"));
        admin
            .post(&format!("{paused}/pause"), &json!({}))
            .expect(200);
        let user = format!("users/{name}");
        let words = match name {
            "denied" => {
                admin.delete(&format!("access/{name}")).expect(204);
                "may not read here:/data/large"
            }
            "expired" => {
                let now = godwit_jobs::now().0;
                let_in(&admin, name, Some(Timestamp(now + 2_000)));
                "may not read here:/data/large"
            }
            "demoted" => {
                admin.put(&user, &json!({"role": "viewer"})).expect(200);
                "demoted is viewer on this node"
            }
            "disabled" => {
                let wish = json!({"role": "operator", "disabled": true});
                admin.put(&user, &wish).expect(200);
                "the user disabled is disabled"
            }
            _ => {
                admin.delete(&user).expect(204);
                "removed is no longer a user of this node"
            }
        };
        let ended = |job: &Value| !job["ended"].is_null();
        let first = wait_for(&admin, &path, ended);
        // The jobs of a removed user have ended with the user.
        let resumed = if name == "removed" { 409 } else { 200 };
        admin
            .post(&format!("{paused}/resume"), &json!({}))
            .expect(resumed);
        for job in [first, wait_for(&admin, &paused, ended)] {
            assert_eq!(job["state"], "failed", "{name}: {job}");
            assert_eq!(job["reason"]["code"], "access_denied", "{name}: {job}");
            let text = job["reason"]["text"].as_str().unwrap_or_default();
            assert!(text.contains(words), "{name}: {job}");
        }
        assert!(!rig.path(format!("export/{name}")).exists(), "{name}");
    }
    let job = admin.get(&undisturbed).expect(200);
    assert_eq!(job["state"], "running", "{job}");
    assert_eq!(job["attempts"], 1, "{job}");
}

#[test]
fn a_schedule_submits_nothing_for_an_owner_without_the_right_and_says_why() {
    let mut rig = Rig::new();
    rig.write("export/large", "small");
    rig.serve(&[]);
    let admin = Caller::admin(&rig);
    let owner = Caller::user(&rig, "alice", "operator");
    let_in(&admin, "alice", None);
    let schedule = json!({"cron": "* * * * * *", "job": job("here:/data/copy")});
    owner.put("schedules/often", &schedule).expect(200);
    let jobs = |least: usize| {
        wait_for(&admin, "jobs?owner=alice", |list| {
            list["jobs"].as_array().map_or(0, Vec::len) >= least
        })
    };
    let reason = |code: &str| {
        wait_for(&admin, "schedules", |list| {
            list[0]["reason"]["code"] == code
        })
    };
    let before = jobs(1)["jobs"].as_array().map_or(0, Vec::len);
    admin.delete("access/alice").expect(204);
    let listed = reason("not_granted");
    assert_eq!(listed[0]["disabled"], false, "{listed}");
    // With the right, the schedule submits again without a command.
    let_in(&admin, "alice", None);
    wait_for(&admin, "schedules", |list| list[0]["reason"].is_null());
    jobs(before + 1);
    admin
        .put("users/alice", &json!({"role": "viewer"}))
        .expect(200);
    reason("role_too_small");

    // The name of a removed user with jobs in the history stays reserved.
    admin.delete("users/alice").expect(204);
    let listed = reason("user_removed");
    assert_eq!(listed[0]["disabled"], true, "{listed}");
    assert_eq!(listed[0]["next"], Value::Null, "{listed}");
    let again = admin.put("users/alice", &json!({"role": "operator"}));
    assert_eq!(again.expect(409)["code"], "name_taken");
}

#[test]
fn a_name_is_free_again_once_the_schedules_of_its_removed_user_are_removed() {
    let mut rig = Rig::new();
    rig.write("export/large", "small");
    rig.serve(&[]);
    let admin = Caller::admin(&rig);
    // A schedule for one second in the year has submitted no job.
    let schedule = json!({"cron": "0 0 0 1 1 *", "job": job("here:/data/copy")});
    let first = Caller::user(&rig, "alice", "operator");
    let_in(&admin, "alice", None);
    first.put("schedules/often", &schedule).expect(200);
    admin.delete("users/alice").expect(204);
    let listed = admin.get("schedules").expect(200);
    assert_eq!(listed[0]["disabled"], true, "{listed}");
    assert_eq!(listed[0]["next"], Value::Null, "{listed}");
    assert_eq!(listed[0]["reason"]["code"], "user_removed", "{listed}");
    let again = admin.put("users/alice", &json!({"role": "operator"}));
    let refused = again.expect(409);
    assert_eq!(refused["code"], "name_taken");
    let detail = refused["detail"].as_str().unwrap_or_default();
    assert!(
        detail.contains("\"often\"") && detail.contains("remove the schedules"),
        "{detail}"
    );
    admin.delete("schedules/often").expect(204);
    let second = Caller::user(&rig, "alice", "operator");
    assert_eq!(second.get("schedules").expect(200), json!([]));
}

/// A job that began with the right to list or read its destination names existing entries, or skips contents that are there.
#[test]
fn a_running_job_ends_when_its_owner_may_see_less_of_its_destination() {
    let mut rig = Rig::new();
    rig.write("export/large", vec![7; 32 << 20]);
    rig.serve(&[]);
    let admin = Caller::admin(&rig);
    for right in ["list", "read"] {
        let owner = Caller::user(&rig, right, "operator");
        let let_in = |path: &str, rights: &[&str]| {
            let rule = json!({
                "subject": format!("user:{right}"), "export": "data", "path": path, "rights": rights,
            });
            let id = format!("access/{right}-{path}");
            admin.put(&id, &rule).expect(200);
        };
        let_in("large", &["read"]);
        let_in(right, &["write", right]);
        let path = running(&admin, &owner, right);
        let_in(right, &["write"]);
        let job = wait_for(&admin, &path, |job| !job["ended"].is_null());
        assert_eq!(job["reason"]["code"], "access_denied", "{job}");
        let text = job["reason"]["text"].as_str().unwrap_or_default();
        let words = "the destination was revoked while the job ran";
        assert!(text.contains(words), "{job}");
        // The job runs again, and sees less.
        admin.post(&format!("{path}/retry"), &json!({})).expect(200);
        wait_for(&admin, &path, |job| job["state"] == "running");
        let wish = json!({"comment": "enough"});
        admin.post(&format!("{path}/cancel"), &wish).expect(200);
    }
}
