//! The figures of a node, read by a real Prometheus with a token over HTTPS.
//! See the tests of the API for the list of figures and the bound of their number.

use super::process::wait_until;
use super::prometheus::Prometheus;
use super::rest::Caller;
use super::rig::Rig;
use super::sites::third::Three;
use super::sites::{submit, two_sites, wait_for};

#[test]
fn a_real_prometheus_reads_the_channels_of_running_jobs() {
    let (here, _there) = two_sites();
    here.write("export/large", vec![7; 64 << 20]);
    let prometheus = Prometheus::start(&here, None);
    let id = submit(
        &here,
        "here:/data/large",
        "siteB:/data/large",
        &["--limit", "1MB/s"],
    );
    for figure in [
        "carried_bytes",
        "rate_bytes",
        "streams",
        "round_trip_seconds",
    ] {
        let query = format!("godwit_channel_{figure}{{job_id=\"{id}\",channel=\"0\"}}");
        let seen = wait_until(|| prometheus.value(&query).filter(|value| *value > 0.0));
        assert!(seen.is_some(), "{query}: {:?}", prometheus.value(&query));
    }
    for figure in ["resent_bytes", "cuts"] {
        let query = format!("godwit_channel_{figure}{{job_id=\"{id}\",channel=\"0\"}}");
        assert!(prometheus.value(&query).is_some(), "{query}");
    }
    // An ended job leaves no time series.
    let cancelled = here.admin(&["job", "cancel", &id]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    let gone = wait_until(|| {
        prometheus
            .value("godwit_channel_streams")
            .is_none()
            .then_some(())
    });
    assert!(
        gone.is_some(),
        "{:?}",
        prometheus.value("godwit_channel_streams")
    );
}

/// The figure of a node whose line begins so.
#[track_caller]
fn figure(rig: &Rig, begin: &str) -> f64 {
    let text = Caller::admin(rig).metrics();
    let mut lines = text.lines();
    let figure = lines.find_map(|line| line.strip_prefix(begin));
    let figure = figure.and_then(|figure| figure.parse().ok());
    figure.unwrap_or_else(|| panic!("no {begin}: {text}"))
}

/// The bytes that a node received from its peers.
fn received(rig: &Rig) -> f64 {
    figure(rig, "godwit_received_bytes_total ")
}

#[test]
fn a_node_that_receives_counts_the_bytes_while_they_arrive() {
    let (here, there) = two_sites();
    let bytes = f64::from(64 << 20);
    here.write("export/large", vec![7; 64 << 20]);
    let line = ["--limit", "1MB/s"];
    let id = submit(&here, "here:/data/large", "siteB:/data/large", &line);
    let seen = wait_until(|| (received(&there) > 0.0).then_some(()));
    assert!(seen.is_some(), "{}", received(&there));
    let job = wait_for(&here, &id, |_| true);
    assert!(job["ended"].is_null(), "{job}");
    let unlimited = here.admin(&["job", "limit", &id, "none"]);
    assert_eq!(unlimited.code, Some(0), "{unlimited:?}");
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let all = received(&there);
    assert!((bytes..1.1 * bytes).contains(&all), "{all}");
    // The node that sends receives nothing, and the count of the other one does not fall.
    assert!(received(&here) == 0.0 && received(&there) == all);
}

#[test]
fn a_job_that_another_site_runs_counts_at_that_site_alone() {
    let three = Three::new();
    let Three {
        asked,
        source,
        destination,
    } = &three;
    let nodes = [asked, source, destination];
    source.write("export/set", vec![7; 10_000_000]);
    let line = ["--limit", "1MB/s"];
    let id = submit(asked, "siteS:/data/set", "siteD:/data/set", &line);
    // Both sites follow the running job, and one of them counts it.
    let rates = |runs: &str| {
        let begin = format!("godwit_running_rate_bytes{{runs=\"{runs}\"}} ");
        nodes.map(|node| figure(node, &begin) > 0.0)
    };
    let seen = wait_until(|| {
        let once = rates("here") == [false, true, false];
        (once && rates("elsewhere") == [true, false, false]).then_some(())
    });
    let now = (rates("here"), rates("elsewhere"));
    assert!(seen.is_some(), "{now:?}");
    let series = |runs: &str| {
        let label = format!("runs=\"{runs}\"");
        nodes.map(|node| {
            let text = Caller::admin(node).metrics();
            let of_jobs = |line: &&str| line.starts_with("godwit_job_rate_bytes{");
            let lines = text.lines().filter(of_jobs);
            lines.filter(|line| line.contains(&label)).count()
        })
    };
    assert_eq!(
        (series("here"), series("elsewhere")),
        ([0, 1, 0], [1, 0, 0])
    );
    let unlimited = asked.admin(&["job", "limit", &id, "none"]);
    assert_eq!(unlimited.code, Some(0), "{unlimited:?}");
    let ended = wait_for(asked, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let moved = |runs: &str| {
        let begin = format!("godwit_moved_bytes_total{{runs=\"{runs}\"}} ");
        nodes.map(|node| figure(node, &begin))
    };
    let bytes = 10_000_000.0;
    let seen = wait_until(|| {
        let counted = moved("here") == [0.0, bytes, 0.0] && moved("elsewhere")[0] == bytes;
        counted.then_some(())
    });
    let now = (moved("here"), moved("elsewhere"));
    assert!(seen.is_some(), "{now:?}");
    // Both sites count the job and its attempts, and only the one that it was given to counts them as its jobs.
    for begin in [
        "godwit_jobs{state=\"complete\"",
        "godwit_attempts_total{outcome=\"complete\"",
    ] {
        let of = |site: &str| {
            let begin = format!("{begin},asked=\"{site}\"}} ");
            nodes.map(|node| figure(node, &begin))
        };
        let seen = wait_until(|| {
            let once = of("here") == [1.0, 0.0, 0.0] && of("elsewhere") == [0.0, 1.0, 0.0];
            once.then_some(())
        });
        assert!(seen.is_some(), "{:?}", (of("here"), of("elsewhere")));
    }
}

#[test]
fn a_real_prometheus_reads_the_figures() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    rig.write("export/run42", vec![7; 100_000]);
    let prometheus = Prometheus::start(&rig, None);
    let up = wait_until(|| (prometheus.value("up{job=\"godwit\"}") == Some(1.0)).then_some(()));
    let targets = prometheus.get("/api/v1/targets");
    assert!(up.is_some(), "{targets:?}");
    let none = prometheus.value("godwit_jobs{state=\"complete\",asked=\"here\"}");
    assert_eq!(none, Some(0.0));
    for name in ["one", "two"] {
        let destination = format!("here:/data/{name}");
        let line = ["job", "submit", "here:/data/run42", &destination, "--wait"];
        let outcome = rig.admin(&line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    for (query, wanted) in [
        ("godwit_jobs{state=\"complete\",asked=\"here\"}", 2.0),
        ("sum(godwit_jobs)", 2.0),
        (
            "godwit_attempts_total{outcome=\"complete\",asked=\"here\"}",
            2.0,
        ),
        ("godwit_moved_bytes_total{runs=\"here\"}", 200_000.0),
    ] {
        let seen = wait_until(|| (prometheus.value(query) == Some(wanted)).then_some(()));
        assert!(seen.is_some(), "{query}: {:?}", prometheus.value(query));
    }
    let requests = prometheus.value("sum(godwit_http_requests_total{route=\"/api/v1/jobs\"})");
    assert!(requests.is_some_and(|count| count >= 2.0), "{requests:?}");
}
