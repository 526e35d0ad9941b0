//! Tests the traces of a user: the audit log misses no line of a client that hangs up, and a new user of a name inherits nothing.
//! Jobs of earlier users are tested in `rights`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use godwit_state::{Change, FEATURE_LEVEL, Invite, Node, Op, Role, Schedule, Timestamp, User};
use godwit_testkit::needs_root;
use godwit_worlds::DEADLINE;
use rustix::process::Uid;
use serde_json::{Value, json};

use crate::client::Client;
use crate::rights::token;
use crate::world::{Settings, World};

fn files(world: &World) -> usize {
    let directories = fs::read_dir(world.path("data/big")).into_iter().flatten();
    let in_one =
        |directory: fs::DirEntry| fs::read_dir(directory.path()).map_or(0, Iterator::count);
    directories.flatten().map(in_one).sum()
}

fn make_files(world: &World, count: usize) {
    for n in 0..count {
        let directory = world.path("data").join(format!("big/d{}", n % 100));
        if n < 100 {
            fs::create_dir_all(&directory).unwrap();
        }
        fs::File::create(directory.join(format!("f{n}"))).unwrap();
    }
}

#[test]
fn a_removal_whose_client_hangs_up_is_in_the_audit_log() {
    const FILES: usize = 100_000;
    let world = World::new();
    make_files(&world, FILES);
    let body = json!({"place": "here:/data/big", "recursive": true}).to_string();
    let mut stream = UnixStream::connect(world.web.socket()).unwrap();
    write!(
        stream,
        "POST /api/v1/places/remove HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    while files(&world) == FILES {
        thread::yield_now();
    }
    drop(stream);
    let until = Instant::now() + DEADLINE;
    loop {
        let audit = world.client().get("/api/v1/audit").expect(200).json();
        let lines = audit["entries"].as_array().or(audit.as_array()).unwrap();
        if lines.iter().any(|line| line["action"] == "place_remove") {
            break;
        }
        assert!(
            Instant::now() < until,
            "{} files are gone, and the audit log says: {audit}",
            FILES - files(&world)
        );
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_removal_ends_with_the_token_that_asked_for_it() {
    const FILES: usize = 200_000;
    let world = World::new();
    make_files(&world, FILES);
    let (secret, id) = token(&world, "otto", "operator");
    world.grant("otto", "data read,write");
    let otto = world.client().token(&secret);
    let (left, answer) = thread::scope(|scope| {
        let removal = scope.spawn(move || {
            let body = json!({"place": "here:/data/big", "recursive": true});
            otto.post("/api/v1/places/remove", &body)
        });
        while files(&world) == FILES {
            thread::yield_now();
        }
        world
            .client()
            .delete(&format!("/api/v1/tokens/{id}"))
            .expect(204);
        world.file_grants.lock().unwrap().clear();
        (files(&world), removal.join().unwrap())
    });
    assert!(left > 0);
    assert!(
        files(&world) > 0,
        "{left} files were left when the token was revoked: {answer:?}"
    );
}

#[test]
fn changes_that_wait_for_their_turn_end_with_the_token_that_asked_for_them() {
    const REQUESTS: usize = 24;
    let world = World::new();
    let (secret, id) = token(&world, "bob", "admin");
    let done = AtomicUsize::new(0);
    let late = thread::scope(|scope| {
        let requests: Vec<_> = (0..REQUESTS)
            .map(|n| {
                let (bob, done) = (world.client().token(&secret), &done);
                scope.spawn(move || {
                    let user = json!({"role": "admin", "password": "correct horse battery"});
                    let answer = bob.json("PUT", &format!("/api/v1/users/mallory{n}"), &user);
                    done.fetch_add(1, Ordering::SeqCst);
                    (n, answer.status.as_u16())
                })
            })
            .collect();
        // Passwords take long, one after another: by now some are done, and most requests wait.
        while done.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        world
            .client()
            .delete(&format!("/api/v1/tokens/{id}"))
            .expect(204);
        let before = done.load(Ordering::SeqCst);
        let answers = requests.into_iter().map(|request| request.join().unwrap());
        let made = answers.filter(|(_, status)| *status == 200).count();
        made.saturating_sub(before)
    });
    // The one whose turn it was may end, and the next one may have been checked.
    assert!(
        late <= 2,
        "{late} of {REQUESTS} users were made after the token ended"
    );
}

#[test]
fn a_new_password_leaves_no_token_that_the_old_one_made() {
    const REQUESTS: usize = 24;
    let world = World::new();
    let user = |password: &str, revoke: bool| json!({"role": "operator", "password": password, "revoke_tokens": revoke});
    let put = |body: &Value| {
        world
            .client()
            .json("PUT", "/api/v1/users/otto", body)
            .expect(200)
    };
    put(&user("correct horse battery", false));
    let (secret, _) = token(&world, "otto", "operator");
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..REQUESTS {
            let (thief, done) = (world.client().token(&secret), &done);
            scope.spawn(move || {
                let new = json!({"role": "operator", "password": "correct horse battery"});
                thief.post("/api/v1/tokens", &new);
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        while done.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        put(&user("another battery staple", true));
    });
    let tokens = world.client().get("/api/v1/tokens").expect(200).json();
    let tokens = tokens.as_array().unwrap().iter();
    let good = tokens.filter(|token| token["user"] == "otto" && token["usable"] == true);
    assert_eq!(good.count(), 0);
}

#[test]
fn a_list_of_schedules_ends_with_the_token_that_asked_for_it() {
    let world = World::new();
    let (secret, id) = token(&world, "vera", "admin");
    let sources: Vec<String> = (0..60)
        .map(|n| format!("here:/data/{n}/{}", "x".repeat(4_000)))
        .collect();
    let job = json!({"sources": sources, "destination": "here:/archive/"}).to_string();
    for n in 0..60 {
        world.propose(Op::Schedule(Change::Put(Schedule {
            id: format!("s{n:02}"),
            cron: "0 2 1 1 *".to_owned(),
            time_zone: "UTC".to_owned(),
            owner: "vera".to_owned(),
            role: None,
            template: job.clone(),
            disabled: true,
            fired: None,
            reason: None,
            comment: String::new(),
        })));
    }
    let list = |revoke: bool| {
        let mut stream = UnixStream::connect(world.web.socket()).unwrap();
        let head = "GET /api/v1/schedules HTTP/1.1\r\nhost: x\r\nconnection: close";
        write!(stream, "{head}\r\nauthorization: Bearer {secret}\r\n\r\n").unwrap();
        let mut all = vec![0; 12];
        stream.read_exact(&mut all).unwrap();
        if revoke {
            let at = format!("/api/v1/tokens/{id}");
            world.client().delete(&at).expect(204);
        }
        stream.read_to_end(&mut all).unwrap();
        (
            String::from_utf8_lossy(&all[..12]).into_owned(),
            all.ends_with(b"]\r\n0\r\n\r\n"),
        )
    };
    let ok = "HTTP/1.1 200".to_owned();
    assert_eq!(list(false), (ok.clone(), true));
    assert_eq!(
        list(true),
        (ok, false),
        "the list goes on without the right to it"
    );
}

#[test]
fn a_later_user_of_a_name_does_not_see_the_schedules_of_an_earlier_one() {
    let world = World::new();
    let admin = world.client();
    let rule = json!({"subject": "user:otto", "export": "data", "rights": ["read", "write"]});
    let (first, _) = token(&world, "otto", "operator");
    admin.json("PUT", "/api/v1/access/r", &rule).expect(200);
    let schedule = json!({
        "cron": "0 2 1 1 *", "time_zone": "UTC",
        "job": {"sources": ["here:/data/secret-run"], "destination": "here:/data/secret-copy/",
                "selection": {"rules": [{"include": false, "pattern": "secret-pattern"}]}},
    });
    let otto = world.client().token(&first);
    otto.json("PUT", "/api/v1/schedules/nightly", &schedule)
        .expect(200);
    admin.delete("/api/v1/users/otto").expect(204);
    let put = admin.json("PUT", "/api/v1/users/otto", &json!({"role": "operator"}));
    if put.status != 200 {
        return;
    }
    let (second, _) = token(&world, "otto", "operator");
    let otto = world.client().token(&second);
    let seen: Value = otto.get("/api/v1/schedules").expect(200).json();
    let removed = otto.delete("/api/v1/schedules/nightly").status.as_u16();
    assert!(!seen.to_string().contains("secret"), "{seen}");
    assert_eq!(removed, 403);
}

/// The account `daemon` is an admin of another machine of the cluster, and another account on this one.
#[test]
fn an_account_of_another_machine_is_no_admin_on_this_one() {
    if !needs_root() {
        return;
    }
    let world = World::new();
    world.propose(Op::Level(3));
    world.propose(Op::Node(Change::Put(Node {
        name: "dtn2".to_owned(),
        number: 7,
        identity: format!("gw1-{}", "a".repeat(52)),
        addresses: vec!["192.0.2.1:7600".to_owned()],
        exports: Vec::new(),
        version: "1".to_owned(),
        level: 3,
        draining: false,
        voter: false,
        joined: Timestamp(0),
        admins: vec!["root".to_owned(), "daemon".to_owned()],
    })));
    // The user that `godwit token create` makes when the account first uses it.
    let user = User {
        name: "daemon".to_owned(),
        role: Role::Admin,
        password: None,
        disabled: false,
    };
    let by = godwit_state::Actor::node("daemon");
    let command =
        godwit_state::Command::new(godwit_jobs::now(), by, Op::User(Change::Create(user)));
    world.replica.propose_blocking(command).unwrap();
    let socket = world.web.socket();
    let answer = thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let daemon = Uid::from_raw(1);
            rustix::thread::set_thread_res_uid(daemon, daemon, daemon).unwrap();
            Client::unix(socket).get("/api/v1/users")
        });
        asked.join().unwrap()
    });
    assert_eq!(
        answer.status.as_u16(),
        403,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
}

#[test]
fn refused_changes_fill_no_audit_log() {
    let world = World::new();
    let (secret, _) = token(&world, "otto", "operator");
    world.grant("otto", "data:/own read,write,delete");
    let otto = world.client().token(&secret);
    for n in 0..150 {
        let body = json!({"place": format!("here:/data/others/{n}"), "parents": false});
        otto.post("/api/v1/places/mkdir", &body).expect(403);
        let body = json!({"place": format!("here:/data/own/{n}"), "recursive": false});
        otto.post("/api/v1/places/remove", &body).expect(404);
    }
    let body = json!({"place": "here:/data/own/new", "parents": true});
    otto.post("/api/v1/places/mkdir", &body).expect(200);
    let audit = world.client().get("/api/v1/audit?limit=1000").expect(200);
    let audit = audit.json();
    let lines = audit.as_array().unwrap();
    let lines: Vec<&Value> = lines
        .iter()
        .filter(|line| line["actor"] == "otto")
        .collect();
    let done = lines.iter().filter(|line| line["outcome"] == "ok").count();
    assert_eq!(done, 1, "a change stands in it whatever was refused before");
    // On a slow machine, further attempts become due meanwhile.
    let refused = lines.len() - done;
    assert!((100..150).contains(&refused), "{refused} lines");
}

#[test]
fn a_refused_request_is_in_the_audit_log_once_and_truncated() {
    let world = World::new();
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    let admin = json!({"user": "otto", "role": "admin"});
    otto.post("/api/v1/tokens", &admin).expect(403);
    let others = json!({"user": "root", "role": "viewer"});
    otto.post("/api/v1/tokens", &others).expect(403);
    let long = "x".repeat(1_000);
    for what in ["places?", "places/stat?", "places/space?"] {
        let site = if what == "places/space?" {
            "siteB"
        } else {
            "here"
        };
        let place = format!("/api/v1/{what}place={site}:/data/{long}");
        let refused = otto.get(&place).status.as_u16();
        assert!([403, 404].contains(&refused), "{what} {refused}");
    }
    let job = json!({"sources": ["here:/data/a"], "destination": "here:/data/b"});
    let put = json!({"cron": "0 2 1 1 *", "time_zone": "UTC", "job": job});
    otto.json("PUT", "/api/v1/schedules/x", &put).expect(403);
    otto.post("/api/v1/jobs", &job).expect(403);
    let audit = world.client().get("/api/v1/audit?limit=1000&actor=otto");
    let audit = audit.expect(200).json();
    let count = |begins: &str| {
        let lines = audit.as_array().unwrap().iter();
        let object = |line: &Value| line["object"].as_str().unwrap().to_owned();
        lines
            .filter(|line| object(line).starts_with(begins))
            .count()
    };
    assert_eq!(count("POST /api/v1/tokens"), 2, "{audit}");
    assert_eq!(count("GET /api/v1/places?"), 1, "{audit}");
    assert_eq!(count("GET /api/v1/places/stat?"), 1, "{audit}");
    assert_eq!(count("PUT /api/v1/schedules/x"), 1, "{audit}");
    assert_eq!(
        count("here:/data/b") + count("POST /api/v1/jobs"),
        1,
        "{audit}"
    );
    let lines = audit.as_array().unwrap().iter();
    let longest = lines
        .map(|line| line["object"].as_str().unwrap().len())
        .max();
    assert_eq!(longest, Some(256));
}

#[test]
fn a_user_without_the_list_right_sees_no_names_of_cleaned_files() {
    let world = World::new();
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    for directory in ["data/own/hidden", "home/journals"] {
        fs::create_dir_all(world.path(directory)).unwrap();
    }
    let temporary = format!("data/own/hidden/.godwit-{}", "0".repeat(32));
    fs::write(world.path(&temporary), "left").unwrap();
    let clean = json!({"place": "here:/data/own", "dry_run": true, "older_than_seconds": 0});
    let paths = || {
        let cleaned = otto.post("/api/v1/places/clean", &clean).expect(200).json();
        assert_eq!(cleaned["files"], 1, "{cleaned}");
        cleaned["paths"].as_array().unwrap().len()
    };
    world.grant("otto", "data:/own write,delete");
    assert_eq!(paths(), 0);
    world.grant("otto", "data:/own list");
    assert_eq!(paths(), 1);
}

#[test]
fn an_invitation_names_its_maker_and_ends_with_the_token() {
    let world = World::with(Settings {
        cluster: true,
        ..Settings::default()
    });
    world.propose(Op::Level(FEATURE_LEVEL));
    let invites = || world.replica.reader().objects::<Invite>().unwrap();
    let new = |client: &Client| {
        let made = client.post("/api/v1/cluster/invites", &json!({}));
        made.expect(200);
    };
    let (secret, id) = token(&world, "ada", "admin");
    new(&world.client().token(&secret));
    let made = invites().pop().unwrap();
    assert_eq!(made.by.as_deref(), Some("ada"));
    assert_eq!(made.tokens.last(), Some(&id));
    new(&world.client());
    let at = format!("/api/v1/tokens/{id}");
    world.client().delete(&at).expect(204);
    assert_eq!(invites().len(), 2);
    for invite in invites() {
        let is_of_token = !invite.tokens.is_empty();
        assert_eq!(invite.ended.is_some(), is_of_token, "{invite:?}");
    }
}

#[test]
fn invitations_are_listed_without_secrets_and_revoked() {
    const INVITES: &str = "/api/v1/cluster/invites";
    let world = World::with(Settings {
        cluster: true,
        ..Settings::default()
    });
    world.propose(Op::Level(FEATURE_LEVEL));
    let (secret, id) = token(&world, "ada", "admin");
    let ada = world.client().token(&secret);
    let made: Vec<Value> = (0..3)
        .map(|_| ada.post(INVITES, &json!({})).expect(200).json())
        .collect();
    let listed = |field: &str| -> Vec<Value> {
        let answer = ada.get(INVITES).expect(200);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let stored = world.replica.reader().objects::<Invite>().unwrap();
        for invite in stored {
            assert!(!text.contains(invite.hash.expose()), "{text}");
        }
        for token in &made {
            let secret = token["token"].as_str().unwrap().split('-').nth(1);
            assert!(!text.contains(secret.unwrap()), "{text}");
        }
        let of = |id: &Value| {
            let all = answer.json();
            let all = all.as_array().unwrap();
            let row = all.iter().find(|row| row["id"] == *id);
            row.unwrap()[field].clone()
        };
        made.iter().map(|made| of(&made["id"])).collect()
    };
    assert_eq!(listed("usable"), [true; 3]);
    assert_eq!(listed("maker"), ["ada"; 3]);
    assert_eq!(listed("expires")[0], made[0]["expires"]);
    assert!(listed("created").iter().all(Value::is_string));
    let at = |made: &Value| format!("{INVITES}/{}", made["id"].as_str().unwrap());
    ada.delete(&at(&made[0])).expect(204);
    assert_eq!(listed("usable"), [false, true, true]);
    let ended: Vec<bool> = listed("ended").iter().map(Value::is_string).collect();
    assert_eq!(ended, [true, false, false]);
    let unknown = ada.delete(&format!("{INVITES}/nosuch"));
    unknown.expect_problem(404, "not_found");
    let (other, _) = token(&world, "eve", "admin");
    let eve = world.client().token(&other);
    eve.delete(&at(&made[1])).expect(204);
    let lines = eve.get("/api/v1/audit").expect(200).json();
    let lines = lines.as_array().unwrap();
    let line = lines.iter().find(|line| line["action"] == "invite.remove");
    let line = line.unwrap();
    let object = format!("invite/{}", made[1]["id"].as_str().unwrap());
    assert_eq!(
        (&line["actor"], &line["object"]),
        (&json!("eve"), &json!(object))
    );
    // The last one ends with the token that made it.
    world
        .client()
        .delete(&format!("/api/v1/tokens/{id}"))
        .expect(204);
    let last = eve.get(INVITES).expect(200).json();
    let usable = last
        .as_array()
        .unwrap()
        .iter()
        .any(|row| row["usable"] == true);
    assert!(!usable, "{last}");
    // A node alone has no invitations.
    let alone = World::new();
    alone.client().get(INVITES).expect_problem(404, "not_found");
}
