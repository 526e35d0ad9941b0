//! Tests that each change of the transfer buffer is in the audit log before it is made, and reaches the other nodes of the cluster. Silent
//! nodes hold up no other request. Jobs show what of them is buffered only with the right to list the destination.
//! The buffer itself is tested with the real binary.

use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use godwit_api::ask::{BufferAnswer, BufferQuestion};
use godwit_api::rest::{BufferChanged, BufferFiles, BufferView, JobView};
use godwit_jobs::Seen;
use godwit_state::{Replica, Role};
use godwit_web::{BufferControl, BufferMates};
use serde_json::json;

use crate::rights::token;
use crate::world::{Settings, World};

const DEADLINE: Duration = Duration::from_secs(60);

/// Notes the last line of the audit log at each change.
#[derive(Default)]
struct Watched {
    replica: OnceLock<Arc<Replica>>,
    seen: Mutex<Vec<String>>,
}

impl Watched {
    fn note(&self) -> BufferChanged {
        let reader = self.replica.get().unwrap().reader();
        let lines = reader.audit(&Default::default(), 1).unwrap();
        let last = lines.first().map(|line| line.action.clone());
        self.seen.lock().unwrap().push(last.unwrap_or_default());
        BufferChanged {
            files: 1,
            ..BufferChanged::default()
        }
    }
}

impl BufferControl for Watched {
    fn view(&self) -> BufferView {
        BufferView::default()
    }

    fn files(&self, _: &str, _: &[u8], _: Option<&[u8]>, _: usize) -> BufferFiles {
        BufferFiles::default()
    }

    fn keep(&self, _: &str, _: &[u8], _: Option<Duration>) -> BufferChanged {
        self.note()
    }

    fn waiting(&self, _: &str, _: &[u8], _: Option<&[u8]>, _: usize) -> BufferFiles {
        BufferFiles::default()
    }

    fn retry(&self, _: &str, _: &[u8]) -> BufferChanged {
        self.note()
    }

    fn give_up(&self, _: &str, _: &[u8]) -> BufferChanged {
        self.note()
    }

    fn drop_files(&self, _: &str, _: &[u8]) -> BufferChanged {
        self.note()
    }
}

#[test]
fn a_change_of_the_buffer_is_in_the_audit_log_before_it_is_made() {
    let watched = Arc::new(Watched::default());
    let control: Arc<dyn BufferControl> = watched.clone();
    let world = World::with(Settings {
        buffer: Some(control),
        ..Settings::default()
    });
    assert!(watched.replica.set(world.replica.clone()).is_ok());
    let place = json!({"place": "here:/data/run42"});
    for path in ["keep", "drop", "retry"] {
        let path = format!("/api/v1/buffer/{path}");
        let changed = world.client().post(&path, &place).expect(200).json();
        assert_eq!(changed["files"], 1, "{changed}");
    }
    let given_up = json!({"place": "here:/data/run42", "waiting": true});
    world
        .client()
        .post("/api/v1/buffer/drop", &given_up)
        .expect(200);
    assert_eq!(
        *watched.seen.lock().unwrap(),
        [
            "buffer_keep",
            "buffer_drop",
            "buffer_retry",
            "buffer_give_up"
        ]
    );
}

#[test]
fn each_request_about_the_buffer_takes_its_own_right() {
    let watched = Arc::new(Watched::default());
    let control: Arc<dyn BufferControl> = watched.clone();
    let world = World::with(Settings {
        buffer: Some(control),
        ..Settings::default()
    });
    assert!(watched.replica.set(world.replica.clone()).is_ok());
    let place = json!({"place": "here:/data/run42"});
    let given_up = json!({"place": "here:/data/run42", "waiting": true});
    let changes = [
        ("keep", &place),
        ("drop", &place),
        ("drop", &given_up),
        ("retry", &place),
    ];
    for (right, listed, changed) in [
        ("list", 200, [403; 4]),
        ("read", 200, [200, 200, 403, 403]),
        ("write", 403, [403, 403, 200, 200]),
        ("delete", 403, [403; 4]),
    ] {
        let client = world.client().token(&token(&world, right, "operator").0);
        world.grant(right, &format!("data {right}"));
        for (path, expected) in [
            ("files?place=here:/data/run42", listed),
            ("files?place=here:/data/run42&waiting=true", listed),
            ("files?place=here:/archive", 403),
        ] {
            let answer = client.get(&format!("/api/v1/buffer/{path}"));
            assert_eq!(answer.status.as_u16(), expected, "{right}: {path}");
        }
        for ((path, body), expected) in changes.iter().zip(changed) {
            let answer = client.post(&format!("/api/v1/buffer/{path}"), body);
            assert_eq!(answer.status.as_u16(), expected, "{right}: {path} {body}");
        }
    }
    let made = watched.seen.lock().unwrap().len();
    assert_eq!(made, 4, "a refused change reaches no buffer");
}

/// Others write to the destination, too, and the owner of a job sees nothing of their files there.
#[test]
fn an_owner_who_may_not_list_the_destination_does_not_see_what_is_buffered() {
    let world = World::new();
    let owner = world.client().token(&token(&world, "otto", "operator").0);
    world.grant("otto", "data read");
    world.grant("otto", "archive write");
    let job = json!({
        "sources": ["here:/data/run42"], "destination": "here:/archive/copy/",
        "not_before": "2100-01-01T00:00:00Z",
    });
    let made = owner.post("/api/v1/jobs", &job).expect(201).json();
    let made: JobView = serde_json::from_value(made).unwrap();
    let job = JobView {
        buffered: Some(7),
        ..made
    };
    let seen = |user: &str, role| Seen::by(&world.jobs, user, role).unwrap().view(job.clone());
    let whole = seen("otto", Role::Operator);
    assert_eq!(whole.destination, job.destination, "it is no outline");
    assert_eq!(whole.buffered, None);
    assert_eq!(seen("vera", Role::Viewer).buffered, None);
    assert_eq!(seen("ada", Role::Admin).buffered, Some(7));
    world.grant("otto", "archive:/elsewhere list");
    assert_eq!(seen("otto", Role::Operator).buffered, None);
    world.grant("otto", "archive:/copy list");
    assert_eq!(seen("otto", Role::Operator).buffered, Some(7));
}

/// Two other nodes, of which one does not answer.
#[derive(Default)]
struct Others(Mutex<Vec<BufferQuestion>>);

impl BufferMates for Others {
    fn ask(&self, question: &BufferQuestion) -> Vec<(String, Result<BufferAnswer, String>)> {
        self.0.lock().unwrap().push(question.clone());
        let answer = match question {
            BufferQuestion::View {} => BufferAnswer::View(Box::default()),
            BufferQuestion::Files { .. } | BufferQuestion::Waiting { .. } => {
                BufferAnswer::Files(BufferFiles::default())
            }
            _ => BufferAnswer::Changed {
                files: 2,
                refused: 0,
            },
        };
        vec![
            ("node2".to_owned(), Ok(answer)),
            ("node3".to_owned(), Err("it does not answer".to_owned())),
        ]
    }
}

#[test]
fn the_buffers_of_all_nodes_are_shown_and_changed_and_a_silent_node_is_named() {
    let others = Arc::new(Others::default());
    let mates: Arc<dyn BufferMates> = others.clone();
    let world = World::with(Settings {
        mates: Some(mates),
        ..Settings::default()
    });
    let client = world.client();
    let view = client.get("/api/v1/buffer").expect(200).json();
    let states = view["nodes"].as_array().unwrap();
    let states: Vec<&str> = states
        .iter()
        .map(|row| row["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["none", "none", "silent"]);
    let page = client.get("/api/v1/buffer/files?place=here:/data");
    assert_eq!(page.expect(200).json()["silent"], json!(["node3"]));
    let page = client.get("/api/v1/buffer/files?place=here:/data&waiting=true");
    assert_eq!(page.expect(200).json()["silent"], json!(["node3"]));
    let place = json!({"place": "here:/data", "waiting": true});
    client.post("/api/v1/buffer/drop", &place).expect(200);
    let place = json!({"place": "here:/data"});
    client.post("/api/v1/buffer/retry", &place).expect(200);
    let asked = others.0.lock().unwrap().clone();
    let is = |kind: fn(&BufferQuestion) -> bool| asked.iter().filter(|one| kind(one)).count();
    assert_eq!(is(|one| matches!(one, BufferQuestion::Waiting { .. })), 1);
    assert_eq!(is(|one| matches!(one, BufferQuestion::GiveUp { .. })), 1);
    assert_eq!(is(|one| matches!(one, BufferQuestion::Retry { .. })), 1);
    let wish = json!({"place": "here:/data/run42", "seconds": 5});
    let changed = client.post("/api/v1/buffer/keep", &wish).expect(200).json();
    assert_eq!(changed["files"], 2, "{changed}");
    assert_eq!(changed["nodes"][2]["problem"], "it does not answer");
    // A place of another site is refused here, and the other nodes hear nothing of it.
    let asked = others.0.lock().unwrap().len();
    let elsewhere = json!({"place": "siteB:/data"});
    client.post("/api/v1/buffer/drop", &elsewhere).expect(422);
    assert_eq!(others.0.lock().unwrap().len(), asked);
}

/// Other nodes that do not answer until they may.
#[derive(Default)]
struct Silent {
    calls: Mutex<Calls>,
    changed: Condvar,
}

#[derive(Default)]
struct Calls {
    now: usize,
    most: usize,
    may_end: bool,
}

impl Silent {
    /// Waits until the calls are so.
    fn wait(&self, mut are_so: impl FnMut(&Calls) -> bool) -> bool {
        let calls = self.calls.lock().unwrap();
        let changed = &self.changed;
        let waited = changed.wait_timeout_while(calls, DEADLINE, |calls| !are_so(calls));
        !waited.unwrap().1.timed_out()
    }

    fn change(&self, change: impl FnOnce(&mut Calls)) {
        change(&mut self.calls.lock().unwrap());
        self.changed.notify_all();
    }
}

impl BufferMates for Silent {
    fn ask(&self, _: &BufferQuestion) -> Vec<(String, Result<BufferAnswer, String>)> {
        self.change(|calls| {
            calls.now += 1;
            calls.most = calls.most.max(calls.now);
        });
        self.wait(|calls| calls.may_end);
        self.change(|calls| calls.now -= 1);
        Vec::new()
    }
}

#[test]
fn silent_buffers_of_other_nodes_take_no_turns_of_short_calls() {
    let others = Arc::new(Silent::default());
    let mates: Arc<dyn BufferMates> = others.clone();
    let world = World::with(Settings {
        mates: Some(mates),
        ..Settings::default()
    });
    let secret = token(&world, "vera", "viewer").0;
    let get = |path: &str| world.client().token(&secret).get(path).status.as_u16();
    std::thread::scope(|scope| {
        // As many as a user has turns of short calls.
        for _ in 0..8 {
            scope.spawn(|| get("/api/v1/buffer"));
        }
        assert!(others.wait(|calls| calls.now == 4));
        let short: Vec<u16> = (0..4).map(|_| get("/api/v1/jobs")).collect();
        others.change(|calls| calls.may_end = true);
        assert_eq!(short, [200; 4]);
    });
    assert_eq!(others.calls.lock().unwrap().most, 4);
}
