//! The dashboards and alert rules of `deploy/grafana`: a real Prometheus reads a real node and answers each of their queries,
//! and the paths of the dashboard for Graphite are among those that a node sends.
//! Draws no dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::process::wait_until;
use super::prometheus::Prometheus;
use super::rig::Rig;
use super::sites::{allow, know, submit, two_sites, wait_for};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana")
}

/// A query of a panel, and the legend of each of its series.
pub(crate) struct PanelQuery {
    /// Titles of the dashboard and of the panel.
    pub(crate) panel: String,
    pub(crate) query: String,
    legend: String,
}

/// Whether this machine has energy counters that this process may read. Other machines have no such figures.
fn has_energy() -> bool {
    let packages = fs::read_dir("/sys/class/powercap").into_iter().flatten();
    let mut counters = packages.flatten().filter(|package| {
        let name = package.file_name();
        let name = name.to_string_lossy();
        name.starts_with("intel-rapl:") && name.matches(':').count() == 1
    });
    counters.any(|package| fs::read_to_string(package.path().join("energy_uj")).is_ok())
}

/// All queries of all dashboards that can find something on this machine, as Grafana sends them.
pub(crate) fn asked() -> Vec<PanelQuery> {
    let has_energy = has_energy();
    let files = fs::read_dir(directory()).expect("dashboards");
    let files = files.map(|file| file.expect("an entry").path());
    let dashboards = files.filter(|file| file.extension().is_some_and(|kind| kind == "json"));
    let mut all = Vec::new();
    for file in dashboards {
        let text = fs::read_to_string(&file).expect("text");
        let dashboard: Value = serde_json::from_str(&text).expect("JSON");
        let title = dashboard["title"].as_str().expect("a title");
        for panel in dashboard["panels"].as_array().expect("panels") {
            let targets = panel["targets"].as_array().expect("queries");
            assert!(!targets.is_empty(), "{panel}");
            for target in targets {
                if target["datasource"]["type"] == "graphite" {
                    continue;
                }
                let text = |name: &str| target[name].as_str().expect("a text").to_owned();
                if text("expr").contains("godwit_host_energy_") && !has_energy {
                    continue;
                }
                all.push(PanelQuery {
                    panel: format!("{title}: {}", panel["title"].as_str().expect("a title")),
                    query: text("expr")
                        .replace("$instance", ".*")
                        .replace("$__rate_interval", "10s"),
                    legend: text("legendFormat"),
                });
            }
        }
    }
    assert!(all.len() > 20, "{}", all.len());
    all
}

/// The paths of the dashboard for Graphite, as patterns without their functions.
fn paths() -> Vec<String> {
    let text = fs::read_to_string(directory().join("graphite.json")).expect("text");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("queries"));
    let path = |target: &Value| {
        let text = target["target"].as_str().expect("a target");
        let begin = text.find("godwit.").expect("a path");
        let end = text[begin..].find([',', ')']).expect("an end");
        text[begin..begin + end].replace("$host", "*")
    };
    targets.map(path).collect()
}

/// Whether a pattern matches this path; an asterisk stands for one part.
fn names(pattern: &str, path: &str) -> bool {
    let (wanted, found): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), path.split('.').collect());
    let fits = |(wanted, found): (&&str, &&str)| *wanted == "*" || wanted == found;
    wanted.len() == found.len() && wanted.iter().zip(&found).all(fits)
}

/// Names in braces, as in `{{direction}} {{peer}}`.
fn labels_of(legend: &str) -> Vec<&str> {
    let parts = legend.split("{{").skip(1);
    parts
        .map(|part| part.split_once("}}").expect("closed").0)
        .collect()
}

/// Waits until a query finds series, which have the labels that the legend names.
#[track_caller]
pub(crate) fn assert_found(prometheus: &Prometheus, asked: &PanelQuery) {
    let PanelQuery {
        panel,
        query,
        legend,
    } = asked;
    let seen = wait_until(|| prometheus.series(query).filter(|found| !found.is_empty()));
    let seen = seen.unwrap_or_else(|| panic!("{panel}: nothing for {query}"));
    for label in labels_of(legend) {
        let has = |one: &Value| one["metric"][label].is_string();
        assert!(seen.iter().all(has), "{panel}: {label}: {seen:?}");
    }
}

/// Submits two long jobs, one that completes and one that fails. Adds a flow.
fn some_jobs(here: &Rig) {
    here.write("export/pass/one", "1");
    let line = [
        "flow",
        "add",
        "night",
        "--from",
        "here:/data/pass",
        "--to",
        "siteB:/data/passed",
    ];
    let added = here.admin(&line);
    assert_eq!(added.code, Some(0), "{added:?}");
    here.write("export/large", vec![7; 64 << 20]);
    here.write("export/small", vec![7; 1 << 10]);
    for name in ["one", "two"] {
        let destination = format!("siteB:/data/{name}");
        submit(
            here,
            "here:/data/large",
            &destination,
            &["--limit", "200kB/s"],
        );
    }
    let complete = submit(here, "here:/data/small", "siteB:/data/small", &[]);
    let failed = submit(here, "here:/data/absent", "siteB:/data/absent", &[]);
    for id in [complete, failed] {
        wait_for(here, &id, |job| !job["ended"].is_null());
    }
}

/// Two sites, of which the first has a transfer buffer.
fn two_sites_and_a_buffer() -> (Rig, Rig) {
    let (mut here, mut there) = (Rig::new(), Rig::new());
    let place = here.path("flash");
    let place = place.to_str().expect("text");
    here.serve(&["--buffer-path", place, "--buffer-bytes", "48MiB"]);
    there.serve(&[]);
    allow(&there, &here.identity, &["--read", "--write"]);
    know(&here, "siteB", &there);
    (here, there)
}

#[test]
fn each_query_of_the_dashboards_finds_what_its_legend_names() {
    let (here, _there) = two_sites_and_a_buffer();
    let prometheus = Prometheus::start(&here, None);
    some_jobs(&here);
    for one in asked() {
        assert_found(&prometheus, &one);
    }
}

#[test]
fn each_path_of_the_dashboard_for_graphite_is_one_that_a_node_sends() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("an address").to_string();
    let mut node = Rig::new();
    node.serve(&["--graphite", &to]);
    let (mut socket, _) = listener.accept().expect("a push");
    let mut pushed = String::new();
    socket.read_to_string(&mut pushed).expect("lines");
    for pattern in paths() {
        let found = pushed.lines().filter_map(|line| line.split(' ').next());
        assert!(
            found.into_iter().any(|path| names(&pattern, path)),
            "{pattern} is not among\n{pushed}"
        );
    }
}

#[test]
fn series_that_can_be_named_before_anything_happens_are_there_with_zero() {
    let (here, _there) = two_sites();
    let prometheus = Prometheus::start(&here, None);
    let up = wait_until(|| prometheus.value("godwit_build_info"));
    assert_eq!(up, Some(1.0));
    for (query, wanted) in [
        (
            "count(godwit_peer_moved_bytes_total{peer=\"siteB\"} == 0)",
            2.0,
        ),
        ("count(godwit_bottlenecks_total == 0)", 6.0),
        ("count(godwit_attempts_total == 0)", 18.0),
        ("count(godwit_transfers_total == 0)", 20.0),
        ("count(godwit_export_free_bytes > 0)", 1.0),
    ] {
        assert_eq!(prometheus.value(query), Some(wanted), "{query}");
    }
}

/// Nodes of a cluster count the same running jobs, and the node that controls a job has its rate.
#[test]
fn a_cluster_whose_jobs_move_at_one_node_fires_no_alert_at_the_others() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/godwit/alerts.yml");
    let tested = Command::new("promtool")
        .args(["test", "rules"])
        .arg(cases)
        .output()
        .expect("promtool comes with prometheus: scripts/setup.sh installs it");
    assert!(tested.status.success(), "{tested:?}");
}

#[test]
fn the_alert_rules_are_sound_and_a_failed_job_fires_one() {
    let rules = directory().join("alerts.yml");
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(&rules)
        .output()
        .expect("promtool comes with prometheus: scripts/setup.sh installs it");
    assert!(checked.status.success(), "{checked:?}");
    let (here, _there) = two_sites_and_a_buffer();
    let prometheus = Prometheus::start(&here, Some(&rules));
    // The count of the beginning is known before it rises.
    let failed = "godwit_attempts_total{outcome=\"failed\",asked=\"here\"}";
    assert!(wait_until(|| prometheus.value(failed)).is_some());
    some_jobs(&here);
    let firing = wait_until(|| {
        let reported = prometheus.get("/api/v1/alerts")?;
        let reported = reported["data"]["alerts"].as_array()?;
        let ours = |one: &&Value| one["labels"]["alertname"] == "GodwitJobFailed";
        let ours = reported.iter().find(ours)?;
        (ours["state"] == "firing").then(|| ours.clone())
    });
    let firing = firing.unwrap_or_else(|| panic!("{:?}", prometheus.get("/api/v1/alerts")));
    let summary = firing["annotations"]["summary"].as_str();
    let summary = summary.expect("a summary");
    assert!(summary.ends_with(": a job ended as failed"), "{summary}");
    let reported = prometheus.get("/api/v1/rules").expect("rules");
    let reported = reported["data"]["groups"][0]["rules"].as_array();
    let reported = reported.expect("a list");
    assert!(reported.len() > 5, "{reported:?}");
    for rule in reported {
        assert_eq!(rule["health"], "ok", "{rule}");
        let query = rule["query"].as_str().expect("a query");
        for selector in selectors_of(query) {
            // The figures of a running job come with its first progress.
            let seen = wait_until(|| {
                let seen = prometheus.series(&selector);
                seen.filter(|seen| !seen.is_empty())
            });
            assert!(seen.is_some(), "{selector} of {}", rule["name"]);
        }
    }
}

/// The figures of a rule, each with its labels. Statuses of faults are left out, because a healthy node has none.
fn selectors_of(query: &str) -> BTreeSet<String> {
    let name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let mut found = BTreeSet::new();
    for (at, _) in query.match_indices("godwit_") {
        let rest = &query[at..];
        let end = rest.find(|sign| !name(sign)).unwrap_or(rest.len());
        let labels = rest[end..].strip_prefix('{');
        let labels = labels.map(|labels| labels.split_once('}').expect("closed").0);
        let labels = labels.filter(|labels| !labels.starts_with("status"));
        found.insert(match labels {
            Some(labels) => format!("{}{{{labels}}}", &rest[..end]),
            None => rest[..end].to_owned(),
        });
    }
    assert!(query.starts_with("up{") || !found.is_empty(), "{query}");
    found
}
