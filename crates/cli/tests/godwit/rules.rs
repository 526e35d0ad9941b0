//! Limits, shares, schedules and webhooks by the commands of the real binary.
//! The effect of a rule on jobs is tested in `jobs` and in the library of that name.

use serde_json::Value;

use super::process::wait_until;
use super::rig::Rig;

#[track_caller]
fn output_of(rig: &Rig, line: &[&str]) -> String {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.out
}

#[track_caller]
fn refused(rig: &Rig, line: &[&str], words: &str) {
    let outcome = rig.admin(line);
    assert_ne!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.says(words);
}

#[test]
fn limits_and_shares_are_set_listed_and_removed() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    assert!(output_of(&rig, &["node", "limits"]).contains("there are no limits"));
    let window = "mon-fri 08:00-18:00 100MB/s";
    let zone = ["--time-zone", "Europe/Berlin"];
    let line = [
        &["site", "limit", "siteB", "1GB/s", "--window", window],
        &zone[..],
    ]
    .concat();
    let site = rig.admin(&line);
    site.says("the node does not know site siteB yet");
    let site = site.out;
    assert!(
        site.contains(
            "site siteB: mon-fri 08:00-18:00 100 MB/s (times in Europe/Berlin), otherwise 1.00 GB/s"
        ),
        "{site}"
    );
    output_of(&rig, &["user", "limit", "alice", "none", "--jobs", "4"]);
    output_of(&rig, &["node", "limit", "20Gbit/s"]);
    output_of(&rig, &["node", "limit", "--each-job", "2Gbit/s"]);
    output_of(&rig, &["user", "share", "alice", "3"]);
    let list = output_of(&rig, &["node", "limits"]);
    for row in [
        "user alice",
        "at most 4 jobs at once",
        "share 3",
        "each node",
        "2.50 GB/s",
        "each job that has no other limit",
        "250 MB/s",
        "otherwise 1.00 GB/s",
    ] {
        assert!(list.contains(row), "{row}: {list}");
    }
    let json = output_of(&rig, &["node", "limits", "--json"]);
    let of_site = json.lines().find(|line| line.contains("siteB"));
    let of_site: Value = serde_json::from_str(of_site.expect("its limit")).expect("JSON");
    assert_eq!(of_site["windows"][0]["rate"], 100_000_000, "{of_site}");

    assert!(output_of(&rig, &["site", "limit", "siteB", "none"]).contains("no limit any more"));
    assert!(!output_of(&rig, &["node", "limits"]).contains("siteB"));
    for (line, words) in [
        (&["site", "limit", "siteB", "none"][..], "siteB"),
        (&["node", "limit", "fast"], "is not a rate"),
        (
            &["node", "limit", "1GB", "--window", "mon 8-9 1MB"],
            "write DAYS FROM-TO RATE",
        ),
        (
            &["user", "limit", "alice", "1GB", "--time-zone", "Berlin"],
            "Berlin",
        ),
        (
            &["user", "share", "alice", "0"],
            "a share must be at least 1",
        ),
    ] {
        refused(&rig, line, words);
    }
}

#[test]
fn a_schedule_is_added_disabled_enabled_and_removed() {
    let mut rig = Rig::new();
    rig.write("export/run42/a", "alpha");
    rig.serve(&[]);
    assert!(output_of(&rig, &["schedule", "list"]).contains("there are no schedules"));
    let places = ["here:/data/run42", "here:/data/nightly/"];
    let options = [
        "--exclude",
        "*.tmp",
        "--label",
        "nightly",
        "--time-zone",
        "Europe/Berlin",
    ];
    let line = [
        &["schedule", "add", "night", "0 22 * * *"],
        &places[..],
        &options,
    ]
    .concat();
    assert!(output_of(&rig, &line).contains("the schedule night submits its next job at"));
    let one = |rig: &Rig| -> Value {
        let list = output_of(rig, &["schedule", "list", "--json"]);
        serde_json::from_str(list.trim()).expect("one schedule")
    };
    let added = one(&rig);
    assert_eq!(
        added["job"]["selection"]["rules"][0]["pattern"], "*.tmp",
        "{added}"
    );
    assert_eq!(added["job"]["label"], "nightly", "{added}");

    let off = output_of(&rig, &["schedule", "disable", "night"]);
    assert!(off.contains("submits no jobs"), "{off}");
    let disabled = one(&rig);
    assert_eq!(disabled["disabled"], true, "{disabled}");
    assert_eq!(disabled["job"], added["job"]);
    assert!(output_of(&rig, &["schedule", "list"]).contains("disabled"));
    output_of(&rig, &["schedule", "enable", "night"]);
    assert_eq!(one(&rig)["disabled"], false);
    output_of(&rig, &["schedule", "remove", "night"]);
    let ages = ["--newer", "2d"];
    let way = ["--from", "here:/data/a", "--to", "here:/data/b"];
    for (line, words) in [
        (
            vec!["schedule", "enable", "night"],
            "there is no schedule night",
        ),
        (vec!["schedule", "remove", "night"], "night"),
        (
            [&["schedule", "add", "n", "never"], &places[..]].concat(),
            "cron",
        ),
        (
            [&["schedule", "add", "n", "0 22 * * *"], &places[..], &ages].concat(),
            "--newer: a schedule or a flow cannot use an age",
        ),
        (
            [&["flow", "add", "n"], &way[..], &ages].concat(),
            "--newer: a schedule or a flow cannot use an age",
        ),
    ] {
        refused(&rig, &line, words);
    }
}

#[test]
fn a_schedule_gathers_its_sources_below_their_names() {
    let mut rig = Rig::new();
    rig.write("export/a/one", "1");
    rig.write("export/b/two", "2");
    rig.make_dirs("export/archive");
    rig.serve(&[]);
    let head = ["schedule", "add", "often", "* * * * * *"];
    let to = ["--to", "here:/data/archive"];
    let from = ["--from", "here:/data/a", "--from", "here:/data/b"];
    for (more, words) in [
        (from[..2].to_vec(), "name at least two sources"),
        (
            [&from[..], &["--merge", "newest", "--setting", "size-only"]].concat(),
            "could not follow its rule",
        ),
    ] {
        refused(&rig, &[&head, &to[..], &more[..]].concat(), words);
    }
    output_of(&rig, &[&head, &to[..], &from].concat());
    let list = output_of(&rig, &["schedule", "list"]);
    let places = "here:/data/a here:/data/b -> here:/data/archive";
    assert!(list.contains(places), "{list}");
    let has_come = |file: &str| rig.path(format!("export/archive/{file}")).exists();
    let both = || (has_come("here-a/one") && has_come("here-b/two")).then_some(());
    assert!(wait_until(both).is_some());
    output_of(&rig, &["schedule", "remove", "often"]);
}

#[test]
fn a_webhook_is_added_listed_and_removed() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let url = "https://chat.example.org/godwit";
    let made = rig.admin(&["webhook", "add", "chat", url, "--event", "failed,partial"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    // Standard output has the key and nothing else.
    assert!(
        made.out.starts_with("whsec_") && made.out.lines().count() == 1,
        "{made:?}"
    );
    let list = output_of(&rig, &["webhook", "list"]);
    assert!(
        list.contains("failed,partial") && list.contains(url),
        "{list}"
    );
    assert!(!list.contains("whsec_"), "{list}");
    // An existing webhook keeps its key.
    let again = rig.admin(&["webhook", "add", "chat", url, "--disabled"]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), ""), "{again:?}");
    assert!(again.complaint.contains("is disabled"), "{again:?}");
    assert!(output_of(&rig, &["webhook", "list"]).contains("yes"));
    // Events and address stay.
    let enabled = output_of(&rig, &["webhook", "enable", "chat"]);
    assert!(enabled.contains("job events are sent to"), "{enabled}");
    let list = output_of(&rig, &["webhook", "list"]);
    assert!(list.contains(url) && !list.contains("yes"), "{list}");
    let disabled = output_of(&rig, &["webhook", "disable", "chat"]);
    assert!(disabled.contains("sends nothing"), "{disabled}");
    assert!(output_of(&rig, &["webhook", "list"]).contains("yes"));
    let none = rig.admin(&["webhook", "enable", "other"]);
    assert!(none.complaint.contains("no webhook other"), "{none:?}");
    assert!(output_of(&rig, &["webhook", "deliveries", "chat"]).contains("no messages were sent"));
    output_of(&rig, &["webhook", "remove", "chat"]);
    assert!(output_of(&rig, &["webhook", "list"]).contains("there are no webhooks"));
    rig.write("open", "whsec_c2VjcmV0IHRoYXQgaXMgbG9uZyBlbm91Z2g=\n");
    let open = rig.path("open").display().to_string();
    for (line, words) in [
        (
            &["webhook", "add", "x", url, "--event", "lost"][..],
            "is not an event",
        ),
        (&["webhook", "add", "x", "ftp://x"], "url"),
        (
            &["webhook", "add", "x", url, "--secret-file", &open],
            "chmod",
        ),
        (&["webhook", "remove", "x"], "x"),
    ] {
        refused(&rig, line, words);
    }
}
