//! Tests that users see names in jobs of others only with the right to list the places of the job.
//! The rights to call a route at all are tested in `rights`.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::rights::token;
use crate::world::World;
use godwit_api::failure::FailureCode;

/// A part of each name that only the owner may see.
const SECRET: &str = "secret";

/// Routes that show names, below the path of the job, if the caller may list the places.
const NAMES: [&str; 8] = [
    "",
    "/description",
    "/attempts",
    "/failures",
    "/log",
    "/report",
    "/report.html",
    "/manifest",
];

/// Limit for a job to end on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

fn text(client: &Client, path: &str) -> String {
    String::from_utf8_lossy(&client.get(path).body).into_owned()
}

/// Makes entries with secret names, and a job of the owner that touches them. One entry fails.
fn ended(world: &World, owner: &Client) -> String {
    let source = world.path("data/secret-run/secret-dir");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("secret-fine"), b"fine").unwrap();
    fs::write(source.join("secret-file"), b"fails").unwrap();
    let there = world.path("archive/secret-copy/secret-dir/secret-file/secret-inside");
    fs::create_dir_all(there).unwrap();
    let job = json!({
        "sources": ["here:/data/secret-run/."], "destination": "here:/archive/secret-copy/", "label": "nightly",
        "manifest": true, "selection": {"rules": [{"include": false, "pattern": "secret-pattern"}]},
    });
    let made = owner.post("/api/v1/jobs", &job).expect(201).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let until = Instant::now() + DEADLINE;
    loop {
        let job = owner.get(&format!("/api/v1/jobs/{id}")).expect(200).json();
        if !job["ended"].is_null() {
            assert_eq!(job["state"], "partial", "{job}");
            return id;
        }
        assert!(Instant::now() < until, "it does not end: {job}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Each GET of the API, with the id of the job. Event streams end after the first event.
fn routes(id: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(&godwit_web::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let reads = paths.iter().filter(|(_, item)| item.get("get").is_some());
    let mut routes: Vec<String> = reads.map(|(path, _)| path.replace("{id}", id)).collect();
    routes.retain(|path| path != "/api/v1/events");
    routes.push(format!("/api/v1/events?job={id}&limit=1"));
    for place in ["here:/data", "here:/data/secret-run", "here:/archive"] {
        routes.push(format!("/api/v1/places?place={place}"));
        routes.push(format!("/api/v1/places/stat?place={place}"));
    }
    routes
}

#[test]
fn a_viewer_reads_no_name_of_another_users_job_in_any_answer() {
    let world = World::new();
    let user = |name: &str, role: &str| world.client().token(&token(&world, name, role).0);
    let (owner, viewer) = (user("otto", "operator"), user("vera", "viewer"));
    world.grant("otto", "* read,write");
    let id = ended(&world, &owner);
    let job = format!("/api/v1/jobs/{id}");
    let schedule = json!({
        "cron": "0 22 * * *",
        "job": {"sources": ["here:/data/secret-run"], "destination": "here:/archive/secret-copy/", "settings": {"dry-run": ["true"]},
            "selection": {"rules": [{"include": false, "pattern": "secret-pattern"}]}, "list": ["secret-name"]},
    });
    owner
        .json("PUT", "/api/v1/schedules/nightly", &schedule)
        .expect(200);

    // The names are there: the owner and the admin see them.
    for caller in [&owner, &world.client()] {
        for part in NAMES.iter().filter(|part| **part != "/attempts") {
            let path = format!("{job}{part}");
            assert!(text(caller, &path).contains(SECRET), "{path}");
        }
        assert!(text(caller, "/api/v1/schedules").contains(SECRET));
    }

    // An operator who owns no part of it, and viewers whose rights are elsewhere or too weak.
    let other = user("olga", "operator");
    world.grant("vera", "data write");
    world.grant("vera", "data:/secret-run2 read");
    world.grant("olga", "archive:/secret-copy/secret-dir read,write,list");
    for caller in [&viewer, &other] {
        for path in routes(&id) {
            let answer = caller.get(&path);
            let reported = String::from_utf8_lossy(&answer.body);
            // A refusal repeats the names that the caller asked for.
            let reported = reported
                .replace("secret-run; an admin", "")
                .replace("/secret-run --read", "");
            let reported = reported.replace("here:/data/secret-run", "");
            assert!(!reported.contains(SECRET), "{path}: {reported}");
            if path.starts_with(&job) {
                let refused = ["/log", "/report", "/report.html", "/manifest"];
                let is_refused = refused.iter().any(|part| path == format!("{job}{part}"));
                assert_eq!(answer.status == 403, is_refused, "{path}: {reported}");
            }
        }
    }

    // The viewer sees state and figures.
    let seen = viewer.get(&job).expect(200).json();
    assert_eq!(seen["state"], "partial", "{seen}");
    assert_eq!(seen["label"], "nightly");
    assert_eq!(seen["sources"], json!(["here:/data/\u{2026}"]));
    assert_eq!(seen["destination"], "here:/archive/\u{2026}");
    assert_eq!(seen["summary"]["files"], 1, "{seen}");
    assert_eq!(seen["summary"]["failed"], 1, "{seen}");
    let failures = viewer.get(&format!("{job}/failures")).expect(200).json();
    assert_eq!(failures[0]["count"], 1, "{failures}");
    let shown = viewer.get("/api/v1/schedules").expect(200).json();
    assert_eq!(shown[0]["job"]["settings"], json!({"dry-run": ["true"]}));
    let refused = viewer.get(&format!("{job}/log"));
    let refused = refused.expect_problem(403, "not_granted");
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.contains("godwit access allow user:vera --list"),
        "{detail}"
    );
}

#[test]
fn a_viewer_who_may_list_all_places_of_a_job_sees_all_of_it() {
    let world = World::new();
    let user = |name: &str, role: &str| world.client().token(&token(&world, name, role).0);
    let (owner, viewer) = (user("otto", "operator"), user("vera", "viewer"));
    world.grant("otto", "* read,write");
    let id = ended(&world, &owner);
    let job = format!("/api/v1/jobs/{id}");
    // The caller may list one of the two places. Only the path of this place is shown.
    world.grant("vera", "data:/secret-run list");
    let seen = viewer.get(&job).expect(200).json();
    assert_eq!(seen["sources"], json!(["here:/data/secret-run/."]));
    assert_eq!(seen["destination"], "here:/archive/\u{2026}");
    viewer
        .get(&format!("{job}/log"))
        .expect_problem(403, "not_granted");
    assert!(!text(&viewer, &format!("{job}/failures")).contains(SECRET));
    world.grant("vera", "archive list");
    for part in NAMES.iter().filter(|part| **part != "/attempts") {
        let path = format!("{job}{part}");
        let reported = text(&viewer, &path);
        assert!(reported.contains(SECRET), "{path}: {reported}");
        assert_eq!(
            viewer.get(&path).body.len(),
            owner.get(&path).body.len(),
            "{path}"
        );
    }
    // Revoked rights are gone at once, also in an open stream.
    world.file_grants.lock().unwrap().clear();
    let stream = text(&viewer, &format!("/api/v1/events?job={id}&limit=1"));
    assert!(stream.contains(&id) && !stream.contains(SECRET), "{stream}");
}

/// A change of the rights while a stream is open counts for the next event.
#[test]
fn a_stream_tells_a_job_as_its_reader_may_see_it_then() {
    let world = World::new();
    let (secret, _) = token(&world, "ada", "admin");
    let reader = world.client().token(&secret);
    let admin = world.client();
    let job = json!({
        "sources": ["here:/data/secret-run"], "destination": "here:/archive/copy/",
        "not_before": "2100-01-01T00:00:00Z",
    });
    let made = admin.post("/api/v1/jobs", &job).expect(201).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/events?job={id}&limit=2");
    let stream = std::thread::scope(|scope| {
        let stream = scope.spawn(|| text(&reader, &path));
        while world.web.event_streams() == 0 && !stream.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let demoted = json!({"role": "viewer"});
        admin.json("PUT", "/api/v1/users/ada", &demoted).expect(200);
        // Until one of the changes comes after the beginning of the stream.
        for number in 0.. {
            let label = json!({"label": format!("changed {number}")});
            admin
                .json("PATCH", &format!("/api/v1/jobs/{id}"), &label)
                .expect(200);
            if stream.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        stream.join().unwrap()
    });
    let (first, second) = stream.rsplit_once("event: job").unwrap_or_default();
    assert!(first.contains(SECRET), "{stream}");
    assert!(
        second.contains("changed") && !second.contains(SECRET),
        "{stream}"
    );
}

/// The site that asked for a job chose its label and the name of the other end.
#[test]
fn an_outline_has_no_word_of_a_site_that_asked_for_the_job() {
    let world = World::new();
    let (viewer, _) = token(&world, "vera", "viewer");
    drop(viewer);
    let seen = |role| godwit_jobs::Seen::by(&world.jobs, "vera", role).unwrap();
    let job = json!({
        "sources": ["here:/data/run4"], "destination": "here:/archive/copy/", "label": "word",
        "not_before": "2100-01-01T00:00:00Z",
    });
    let made = world.client().post("/api/v1/jobs", &job).expect(201).json();
    let own: godwit_api::rest::JobView = serde_json::from_value(made).unwrap();
    let guest = godwit_api::rest::JobView {
        owner: format!("site:gw1-{}", "a".repeat(52)),
        destination: "word:/word/copy".to_owned(),
        ..own.clone()
    };
    let shown = seen(godwit_state::Role::Viewer).view(guest.clone());
    let text = serde_json::to_string(&shown).unwrap();
    assert!(!text.contains("word"), "{text}");
    let shown = seen(godwit_state::Role::Admin).view(guest);
    assert_eq!(
        (shown.label.as_str(), shown.destination.as_str()),
        ("word", "word:/word/copy")
    );
    assert_eq!(seen(godwit_state::Role::Viewer).view(own).label, "word");
}

/// A deletion touches entries that the owner of the job never named.
#[test]
fn an_owner_who_may_only_write_sees_no_names_of_deleted_entries() {
    let world = World::new();
    let (secret, _) = token(&world, "otto", "operator");
    let otto = world.client().token(&secret);
    world.grant("otto", "data read");
    fs::create_dir_all(world.path("data/new")).unwrap();
    fs::write(world.path("data/new/own-name"), b"new").unwrap();
    let deleted = |rights: &str| {
        world.grant("otto", rights);
        fs::create_dir_all(world.path("archive/theirs-directory")).unwrap();
        fs::write(world.path("archive/theirs-name"), b"theirs").unwrap();
        fs::write(
            world.path("archive/theirs-directory/theirs-inside"),
            b"theirs",
        )
        .unwrap();
        let job = json!({
            "kind": "sync", "sources": ["here:/data/new/"], "destination": "here:/archive/",
            "settings": {"delete": ["true"], "verbose": ["true"]},
        });
        let made = otto.post("/api/v1/jobs", &job).expect(201).json();
        let id = made["id"].as_str().unwrap().to_owned();
        let ended = |job: &Value| !job["ended"].is_null();
        let until = Instant::now() + DEADLINE;
        while !ended(&otto.get(&format!("/api/v1/jobs/{id}")).json()) {
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!world.path("archive/theirs-name").exists());
        routes(&id)
            .iter()
            .map(|path| String::from_utf8_lossy(&otto.get(path).body).into_owned())
            .collect::<String>()
    };
    let reported = deleted("archive write");
    assert!(reported.contains("own-name"), "{reported}");
    assert!(!reported.contains("theirs-"), "{reported}");
    let reported = deleted("archive list");
    assert!(reported.contains("theirs-inside"), "{reported}");
}

/// Two jobs cannot write to one place at once. The waiting job learns that another one writes, and no more.
#[test]
fn a_job_that_waits_for_its_destination_does_not_reveal_the_other_job() {
    let world = World::new();
    let user = |name: &str| {
        let (secret, _) = token(&world, name, "operator");
        world.grant(name, "archive write");
        world.client().token(&secret)
    };
    let (olga, otto) = (user("olga"), user("otto"));
    world.grant("olga", "data:/theirs-run read");
    world.grant("otto", "data:/own read");
    fs::create_dir_all(world.path("data/theirs-run")).unwrap();
    fs::create_dir_all(world.path("data/own")).unwrap();
    fs::write(world.path("data/theirs-run/big"), vec![7; 8 << 20]).unwrap();
    fs::write(world.path("data/own/big"), b"own").unwrap();
    let submit = |client: &Client, source: &str, limit: u64| {
        let job = json!({"sources": [source], "destination": "here:/archive/x", "limit": limit});
        let made = client.post("/api/v1/jobs", &job).expect(201).json();
        made["id"].as_str().unwrap().to_owned()
    };
    let wait_for = |client: &Client, id: &str, is_it: &dyn Fn(&Value) -> bool| {
        let until = Instant::now() + DEADLINE;
        loop {
            let job = client.get(&format!("/api/v1/jobs/{id}")).expect(200).json();
            if is_it(&job) {
                return;
            }
            assert!(Instant::now() < until, "{job}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let theirs = submit(&olga, "here:/data/theirs-run/big", 1_000);
    wait_for(&olga, &theirs, &|job| {
        job["progress"]["bytes"].as_u64() > Some(0)
    });
    let own = submit(&otto, "here:/data/own/big", 1_000_000);
    wait_for(&otto, &own, &|job| {
        job["reason"]["code"] == "busy_destination"
    });
    let machine = world.directory.path().to_string_lossy().into_owned();
    for path in routes(&own) {
        let reported = text(&otto, &path);
        assert!(
            !reported.contains("theirs-run") && !reported.contains(&machine),
            "{path}: {reported}"
        );
    }
    let reason = otto.get(&format!("/api/v1/jobs/{own}")).json()["reason"].to_string();
    assert!(reason.contains("another transfer writes"), "{reason}");
    olga.post(&format!("/api/v1/jobs/{theirs}/cancel"), &json!({}))
        .expect(200);
}

#[test]
fn only_admins_read_paths_of_the_machine() {
    let world = World::new();
    let (otto, _) = token(&world, "otto", "operator");
    let otto = world.client().token(&otto);
    world.grant("otto", "data read,write");
    fs::create_dir_all(world.path("data/run/inside")).unwrap();
    let machine = world.directory.path().to_string_lossy().into_owned();
    for (source, destination) in [("run", "run/inside/"), ("run/inside", "run/inside")] {
        let job = json!({
            "sources": [format!("here:/data/{source}")], "destination": format!("here:/data/{destination}"),
        });
        let made = otto.post("/api/v1/jobs", &job).expect(201).json();
        let at = format!("/api/v1/jobs/{}", made["id"].as_str().unwrap());
        let until = Instant::now() + DEADLINE;
        let ended = loop {
            let job = otto.get(&at).json();
            if !job["ended"].is_null() {
                break job;
            }
            assert!(Instant::now() < until, "{job}");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(ended["reason"]["code"], "into_itself", "{ended}");
        for path in ["", "/log", "/report"] {
            let reported = text(&otto, &format!("{at}{path}"));
            assert!(!reported.contains(&machine), "{reported}");
        }
    }
    let schedule = json!({"cron": "* * * * * *", "job": {
        "sources": ["here:/data/run"], "destination": "here:/data/copy", "not_before": "2100-01-01T00:00:00Z",
    }});
    otto.json("PUT", "/api/v1/schedules/each-second", &schedule)
        .expect(200);
    *world.grants_fault.lock().unwrap() =
        Some(format!("{machine}/grants:3: \"whom\" is no identity"));
    for path in [
        "/api/v1/jobs",
        "/api/v1/schedules",
        "/api/v1/places?place=here:/data",
    ] {
        let reported = otto.get(path).expect_problem(500, "grants_unreadable");
        assert!(!reported.to_string().contains(&machine), "{reported}");
    }
    let reported = world.client().get("/api/v1/access");
    let reported = reported.expect_problem(500, "grants_unreadable");
    assert!(reported.to_string().contains("grants:3"), "{reported}");
    let until = Instant::now() + DEADLINE;
    let reason = loop {
        let reader = world.replica.reader();
        let schedule = reader.object::<godwit_state::Schedule>("each-second");
        if let Some(reason) = schedule.unwrap().unwrap().reason {
            break reason;
        }
        assert!(Instant::now() < until, "it says nothing");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(reason.code, FailureCode::LocalFailure);
    assert!(!reason.text.contains(&machine), "{}", reason.text);
}

/// Progress comes as an event and with the job: both must agree.
#[test]
fn no_outline_of_progress_has_addresses_or_words_of_another_site() {
    let world = World::new();
    drop(token(&world, "vera", "viewer"));
    let job = json!({
        "sources": ["here:/data/run4"], "destination": "there:/archive/copy/", "not_before": "2100-01-01T00:00:00Z",
    });
    let site = json!({"addresses": ["192.0.2.1"], "identity": format!("gw1-{}", "a".repeat(52))});
    world
        .client()
        .json("PUT", "/api/v1/sites/there", &site)
        .expect(200);
    let made = world.client().post("/api/v1/jobs", &job).expect(201).json();
    let progress = json!({
        "at": made["since"], "bytes": 1, "bytes_total": null, "bytes_per_second": 1.0, "files": 0, "streams": 1,
        "bottleneck": "network", "bottleneck_text": "word", "failed": 0, "stages": {"network": 0.5},
        "channels": [{"number": 3, "name": "word (192.0.2.1) to 192.0.2.2", "streams": 1, "round_trip_seconds": 0.1, "cuts": 0,
            "bytes_per_second": 1.0}],
        "nodes": [{"node": "node1", "to": "word", "bytes_per_second": 1.0, "streams": 1, "bottleneck": "network",
            "bottleneck_text": "word", "stages": {}, "host": {}}],
    });
    let progress: godwit_api::rest::ProgressView = serde_json::from_value(progress).unwrap();
    let mut own: godwit_api::rest::JobView = serde_json::from_value(made).unwrap();
    own.progress = Some(progress.clone());
    let running = godwit_api::rest::JobProgress {
        id: own.id.clone(),
        progress,
    };
    let seen = |role| godwit_jobs::Seen::by(&world.jobs, "vera", role).unwrap();
    let viewer = seen(godwit_state::Role::Viewer);
    let shown = viewer.view(own).progress.unwrap();
    let text = serde_json::to_string(&shown).unwrap();
    assert!(
        !text.contains("word") && !text.contains("192.0.2"),
        "{text}"
    );
    assert_eq!(shown.channels[0].name, "path 3");
    assert_eq!(shown.nodes[0].node, "node1");
    let reported = viewer.progress(running.clone()).unwrap().unwrap();
    assert_eq!(reported.progress, shown);
    let reported = seen(godwit_state::Role::Admin).progress(running.clone());
    assert_eq!(reported.unwrap().as_ref(), Some(&running));
    let unknown = godwit_api::rest::JobProgress {
        id: "nosuchjob".to_owned(),
        ..running
    };
    assert_eq!(viewer.progress(unknown).unwrap(), None);
}

#[test]
fn a_stream_tells_the_progress_of_others_as_an_outline() {
    let world = World::new();
    let user = |name: &str, role: &str| world.client().token(&token(&world, name, role).0);
    let (owner, viewer) = (user("otto", "operator"), user("vera", "viewer"));
    world.grant("otto", "* read,write");
    fs::create_dir(world.path("data/run")).unwrap();
    fs::write(world.path("data/run/big"), vec![7; 8 << 20]).unwrap();
    let job = json!({"sources": ["here:/data/run"], "destination": "here:/archive/copy/", "limit": 100_000});
    let made = owner.post("/api/v1/jobs", &job).expect(201).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let progress = |client: &Client| -> Value {
        let until = Instant::now() + DEADLINE;
        loop {
            let stream = text(client, &format!("/api/v1/events?job={id}&limit=3"));
            let reported = stream
                .split("\n\n")
                .filter(|event| event.contains("event: progress"));
            let data = reported.filter_map(|event| event.split_once("data: "));
            let mut data = data.map(|(_, data)| serde_json::from_str::<Value>(data).unwrap());
            let of_bottleneck = |reported: &Value| reported["progress"]["bottleneck"].is_string();
            if let Some(found) = data.find(of_bottleneck) {
                assert_eq!(found["id"], *id);
                return found["progress"].clone();
            }
            assert!(Instant::now() < until, "no progress is told: {stream}");
        }
    };
    let (whole, outline) = (progress(&owner), progress(&viewer));
    assert!(whole["bottleneck_text"].is_string(), "{whole}");
    assert!(outline["bottleneck_text"].is_null(), "{outline}");
    for channel in outline["channels"].as_array().unwrap() {
        assert_eq!(channel["name"], format!("path {}", channel["number"]));
    }
    owner
        .post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}))
        .expect(200);
}
