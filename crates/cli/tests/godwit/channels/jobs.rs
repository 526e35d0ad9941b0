//! Owns the tests of a running job whose interfaces go down and come up, encrypted and in clear.
//! Makes no paths; `paths` does.

use serde_json::Value;

use super::super::judge::assert_identical;
use super::super::netns::with_network;
use super::super::rig::Rig;
use super::super::sites::{allow, submit, wait_for};
use super::paths::{Paths, content};

/// The bytes that the channel over the second path has carried; 0 without that channel.
fn carried(job: &Value) -> u64 {
    let channels = job["progress"]["channels"].as_array();
    let channel = channels.into_iter().flatten().find(|channel| {
        let name = channel["name"].as_str().unwrap_or_default();
        name.contains("10.11.1.2")
    });
    channel.map_or(0, |channel| channel["bytes"].as_u64().unwrap_or(0))
}

fn bytes(job: &Value) -> u64 {
    job["progress"]["bytes"].as_u64().unwrap_or(0)
}

#[test]
fn a_running_job_uses_an_interface_that_comes_up_and_survives_one_that_goes_down() {
    with_network(
        "godwit::channels::jobs::a_running_job_uses_an_interface_that_comes_up_and_survives_one_that_goes_down",
        || {
            for encryption in ["encryption=tls", "encryption=none"] {
                let paths = Paths::new(2);
                let set = |name: &str, to: &str| paths.ip(&paths.near, &["link", "set", name, to]);
                set("c1", "down");
                let (mut here, mut there) = (Rig::new(), Rig::new());
                here.wrap_daemon(paths.near.wrapper());
                there.wrap_daemon(paths.far.wrapper());
                there.listen("0.0.0.0:0");
                here.serve(&[]);
                there.serve(&["--encryption", "any"]);
                allow(&there, &here.identity, &["--read", "--write"]);
                let (_, port) = there.address().rsplit_once(':').expect("a port");
                let address = format!("10.11.0.2:{port}");
                let line = [
                    "site",
                    "add",
                    "siteB",
                    &address,
                    "--identity",
                    &there.identity,
                ];
                let known = here.admin(&line);
                assert_eq!(known.code, Some(0), "{known:?}");
                let file = content(160_000_000);
                here.write("export/set/file", &file);
                // The interface is found after 10 s, and the job lasts 40 s.
                let line = ["--limit", "4MB", "--setting", encryption];
                let id = submit(&here, "here:/data/set", "siteB:/data/to", &line);
                let before = wait_for(&here, &id, |job| bytes(job) > 2_000_000);
                assert_eq!(carried(&before), 0, "{before}");
                set("c1", "up");
                let used = wait_for(&here, &id, |job| carried(job) > 0);
                // The path that was dialled dies; the rest of the job goes over the other one.
                paths.cut(0);
                let than = carried(&used) + 8_000_000;
                wait_for(&here, &id, |job| carried(job) > than);
                let free = here.admin(&["job", "limit", &id, "none"]);
                assert_eq!(free.code, Some(0), "{free:?}");
                let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
                assert_eq!(ended["state"], "complete", "{ended}");
                assert_eq!(ended["attempts"], 1, "{ended}");
                assert_identical(&here.export.join("set"), &there.export.join("to"));
            }
        },
    );
}
