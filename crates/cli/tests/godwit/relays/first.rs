//! Destinations that pass the data on from the beginning, between nodes of the real binary: whole copies, and files as they become whole.
//! See the unit tests of `queue::relay::rounds` for the order in which they do.

use super::*;

#[test]
fn one_destination_gets_the_data_from_the_source_and_the_others_from_each_other() {
    let world = World::new(&["--read", "--write"]);
    let mut d = Rig::new();
    d.serve(&[]);
    allow(&d, &world.here.identity, &["--read", "--write"]);
    know(&world.here, "siteD", &d);
    let before = world.here.daemon().read().expect("it runs");
    let line = [
        "job",
        "submit",
        "here:/data/run42",
        "--to",
        "siteB:/data/copy",
        "--to",
        "siteC:/data/copy",
        "--to",
        "siteD:/data/copy",
        "--relay",
        "first",
        "--limit",
        "24MB/s",
        "--setting",
        "memory=8MiB",
    ];
    let id = world.output_of(&line).trim().to_owned();
    let child = |number: usize| {
        let child = world.child(&id, number)["id"].clone();
        child.as_str().expect("an id").to_owned()
    };
    let [second, third] = [1, 2].map(child);
    let waits = wait_for(&world.here, &third, |job| {
        job["reason"]["code"] == "relaying"
    });
    let why = waits["reason"]["text"].as_str().expect("a text");
    assert!(why.contains("waits for its relay from site"), "{why}");
    world.output_of(&["job", "pause", &third]);
    world.output_of(&["job", "limit", &id, "none"]);
    world.ends(&second, "complete");
    // The first copy is changed, so the second one has to serve the third.
    fs::write(world.b.export.join("copy/foreign"), b"foreign").expect("written");
    world.output_of(&["job", "resume", &third]);
    world.ends(&id, "complete");
    let read = world.here.daemon().read().expect("it runs") - before;
    assert!(
        read < ALL * 5 / 4,
        "{read} of {ALL} were read at the source"
    );
    world.assert_identical();
    let [one, other] = [world.here.export.join("run42"), d.export.join("copy")];
    assert_identical_to_rsync("-aHO", &one, &other);
    let children = [0, 1, 2].map(|number| world.child(&id, number));
    let codes = children
        .each_ref()
        .map(|child| child["reason"]["code"].clone());
    assert_eq!(codes, ["complete", "relayed", "relayed"], "{children:?}");
    let from = children
        .each_ref()
        .map(|child| child["reason"]["text"].to_string());
    assert!(from[1].contains("siteB"), "{from:?}");
    assert!(from[2].contains("siteC"), "{from:?}");
    let relays = world.relays();
    let mut ends: Vec<String> = relays
        .iter()
        .map(|relay| {
            let to = relay["destination"].as_str().expect("a place");
            let site = to.split(':').next().expect("a site");
            format!("{site} {}", relay["state"].as_str().expect("a state"))
        })
        .collect();
    ends.sort();
    let expected = ["siteC complete", "siteD complete", "siteD failed"];
    assert_eq!(ends, expected, "{relays:?}");
    let mut relays = relays.iter();
    let failed = relays.find(|relay| relay["state"] == "failed");
    let failed = failed.expect("the relay from siteB");
    assert_eq!(failed["reason"]["code"], "relay_changed", "{failed}");
}

#[test]
fn files_are_passed_on_while_the_first_copy_is_not_complete() {
    let world = World::new(&["--read", "--write"]);
    let before = world.here.daemon().read().expect("it runs");
    let line = [
        "job",
        "submit",
        "here:/data/run42",
        "--to",
        "siteB:/data/copy",
        "--to",
        "siteC:/data/copy",
        "--relay",
        "first",
        "--limit",
        "4MB/s",
        "--setting",
        "memory=8MiB",
    ];
    let id = world.output_of(&line).trim().to_owned();
    let child = |number: usize| {
        let child = world.child(&id, number)["id"].clone();
        child.as_str().expect("an id").to_owned()
    };
    let (first, second) = (child(0), child(1));
    let is_whole = |n: u8| {
        let path = world.c.export.join(format!("copy/d{}/f{n}", n % 3));
        fs::read(path).is_ok_and(|found| found == vec![n; BYTES])
    };
    // A destination that takes files from another one counts them.
    let brought = |job: &Value| job["moved"]["bytes"].as_u64() >= Some(BYTES as u64);
    let waits = wait_for(&world.here, &second, |job| {
        (0..FILES).any(is_whole) && brought(job)
    });
    assert_eq!(waits["state"], "queued", "{waits}");
    assert_eq!(waits["reason"]["code"], "relaying", "{waits}");
    let why = waits["reason"]["text"].as_str().expect("a text");
    assert!(why.contains("siteB") && why.contains(&first), "{why}");
    let filling = world.child(&id, 0);
    assert!(filling["ended"].is_null(), "{filling}");
    world.output_of(&["job", "limit", &id, "none"]);
    world.ends(&id, "complete");
    let read = world.here.daemon().read().expect("it runs") - before;
    assert!(
        read < ALL * 5 / 4,
        "{read} of {ALL} were read at the source"
    );
    world.assert_identical();
    // The last round is the relay of the complete copy. It brings the rest alone.
    let second = world.child(&id, 1);
    assert_eq!(second["reason"]["code"], "relayed", "{second}");
    let relays = world.relays();
    let [relay] = relays.as_slice() else {
        panic!("{relays:?}");
    };
    let rest = relay["moved"]["bytes"].as_u64().expect("a number");
    assert!(rest <= ALL - BYTES as u64, "{relay}");
}
