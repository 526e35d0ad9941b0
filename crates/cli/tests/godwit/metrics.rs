//! The figures of a node, read by a real Prometheus with a token over HTTPS.
//! See the tests of the API for the list of figures and the bound of their number.

use super::process::wait_until;
use super::prometheus::Prometheus;
use super::rig::Rig;
use super::sites::{submit, two_sites};

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

#[test]
fn a_real_prometheus_reads_the_figures() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    rig.write("export/run42", vec![7; 100_000]);
    let prometheus = Prometheus::start(&rig, None);
    let up = wait_until(|| (prometheus.value("up{job=\"godwit\"}") == Some(1.0)).then_some(()));
    let targets = prometheus.get("/api/v1/targets");
    assert!(up.is_some(), "{targets:?}");
    let none = prometheus.value("godwit_jobs{state=\"complete\"}");
    assert_eq!(none, Some(0.0));
    for name in ["one", "two"] {
        let destination = format!("here:/data/{name}");
        let line = ["job", "submit", "here:/data/run42", &destination, "--wait"];
        let outcome = rig.admin(&line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    for (query, wanted) in [
        ("godwit_jobs{state=\"complete\"}", 2.0),
        ("sum(godwit_jobs)", 2.0),
        ("godwit_attempts_total{outcome=\"complete\"}", 2.0),
        ("godwit_moved_bytes_total", 200_000.0),
    ] {
        let seen = wait_until(|| (prometheus.value(query) == Some(wanted)).then_some(()));
        assert!(seen.is_some(), "{query}: {:?}", prometheus.value(query));
    }
    let requests = prometheus.value("sum(godwit_http_requests_total{route=\"/api/v1/jobs\"})");
    assert!(requests.is_some_and(|count| count >= 2.0), "{requests:?}");
}
