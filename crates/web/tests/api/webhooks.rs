//! Tests webhooks: a real receiver gets a signed report of a job, again after a failure, and never at a private address.
//! Signatures are held to the specification's example in the module that makes them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::{Settings, World};

/// Longer than any step here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A delivery at the receiver.
struct Got {
    head: Vec<String>,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        let value = self.head.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        });
        value.unwrap_or_else(|| panic!("no {name} in {:?}", self.head))
    }
}

/// A receiver on loopback that answers with these statuses. The last one repeats.
fn receiver(answers: &'static [&'static str]) -> (String, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?x=1", listener.local_addr().unwrap());
    let (sender, got) = sync_channel(16);
    std::thread::spawn(move || {
        for (number, socket) in listener.incoming().enumerate() {
            let mut socket = socket.unwrap();
            let mut reader = BufReader::new(socket.try_clone().unwrap());
            let head: Vec<String> = (&mut reader)
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let mut received = Got {
                head,
                body: String::new(),
            };
            let length: u64 = received.header("content-length").parse().unwrap();
            reader
                .take(length)
                .read_to_string(&mut received.body)
                .unwrap();
            let answer = answers[number.min(answers.len() - 1)];
            write!(socket, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n").unwrap();
            if sender.send(received).is_err() {
                return;
            }
        }
    });
    (url, got)
}

fn world(networks: &[&str]) -> World {
    World::with(Settings {
        webhook_networks: networks
            .iter()
            .map(|network| network.parse().unwrap())
            .collect(),
        ..Settings::default()
    })
}

/// Adds a webhook for complete jobs, and returns its key.
fn add(client: &Client, url: &str) -> Vec<u8> {
    let body = json!({"url": url, "events": ["complete"]});
    let put = client.json("PUT", "/api/v1/webhooks/chat", &body);
    let put = put.expect(200).json();
    let key = put["secret"].as_str().unwrap();
    BASE64
        .decode(key.strip_prefix("whsec_").unwrap().as_bytes())
        .unwrap()
}

fn run_job(world: &World, client: &Client, label: &str) -> String {
    std::fs::write(world.path("data").join("run42"), b"data").unwrap();
    let job = json!({
        "sources": ["here:/data/run42"], "destination": format!("here:/data/{label}"), "label": label,
    });
    let job = client.post("/api/v1/jobs", &job).expect(201).json();
    job["id"].as_str().unwrap().to_owned()
}

/// The delivery that `holds`, once there is one.
fn delivery(client: &Client, holds: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let list = client.get("/api/v1/webhooks/chat/deliveries").expect(200);
        let list = list.json();
        if let Some(found) = list.as_array().unwrap().iter().find(|one| holds(one)) {
            return found.clone();
        }
        assert!(began.elapsed() < PATIENCE, "{list}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_receiver_hears_of_a_job_signed_and_again_after_a_failure() {
    let world = world(&["127.0.0.0/8"]);
    let client = world.client();
    let (url, got) = receiver(&["503 Busy", "204 Fine"]);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &add(&client, &url));
    let id = run_job(&world, &client, "night-42");
    let first = got.recv_timeout(PATIENCE).unwrap();
    let failed = delivery(&client, |one| one["status"] == "503");
    assert!(failed["next_attempt"].is_string(), "{failed}");
    let second = got.recv_timeout(PATIENCE).unwrap();
    for got in [&first, &second] {
        assert_eq!(got.head[0], "POST /hook?x=1 HTTP/1.1");
        let body: Value = serde_json::from_str(&got.body).unwrap();
        assert_eq!(body["type"], "job.complete");
        assert_eq!(body["data"]["id"], json!(id));
        assert_eq!(body["data"]["label"], "night-42");
        assert!(body["timestamp"].as_str().unwrap().ends_with('Z'), "{body}");
        let (id, at) = (got.header("webhook-id"), got.header("webhook-timestamp"));
        let signed = format!("{id}.{at}.{}", got.body);
        let signature = got.header("webhook-signature").strip_prefix("v1,").unwrap();
        let signature = BASE64.decode(signature.as_bytes()).unwrap();
        hmac::verify(&key, signed.as_bytes(), &signature).unwrap();
    }
    // The receiver recognizes the repetition by the id.
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!(first.body, second.body);
    let done = delivery(&client, |one| one["status"] == "204");
    assert_eq!(
        (&done["attempts"], &done["next_attempt"], &done["job"]),
        (&json!(2), &json!(null), &json!(id))
    );
}

#[test]
fn a_receiver_that_is_gone_gets_no_more_reports() {
    let world = world(&["127.0.0.1"]);
    let client = world.client();
    let (url, got) = receiver(&["410 Gone"]);
    add(&client, &url);
    run_job(&world, &client, "one");
    got.recv_timeout(PATIENCE).unwrap();
    let ended = delivery(&client, |one| one["attempts"] == 1);
    assert_eq!(ended["next_attempt"], json!(null));
    let began = Instant::now();
    while client.get("/api/v1/webhooks").json()[0]["disabled"] != true {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn private_addresses_are_not_reached_unless_they_are_allowed() {
    let world = world(&["10.0.0.0/8"]);
    let client = world.client();
    let (url, got) = receiver(&["204 Fine"]);
    // A name that resolves to such an address is refused, too.
    for url in [url.clone(), url.replace("127.0.0.1", "localhost")] {
        client.delete("/api/v1/webhooks/chat");
        add(&client, &url);
        let id = run_job(&world, &client, "one");
        let refused = delivery(&client, |one| {
            one["job"] == json!(id) && one["attempts"] == 1
        });
        let status = refused["status"].as_str().unwrap();
        assert!(status.contains("no address of the Internet"), "{status}");
        assert!(status.contains("--webhook-network"), "{status}");
    }
    assert!(got.try_recv().is_err());
}
