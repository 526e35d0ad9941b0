//! The figures of a node, read by a real Prometheus with a token over HTTPS.
//! Leaves which figures there are, and that their number is bounded, to the tests of the API.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::process::wait_until;
use super::rig::Rig;
use super::sites::{submit, two_sites};

/// A Prometheus that reads one node; ends when dropped.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn start(rig: &Rig, token: &str) -> Self {
        let secret = rig.path("token");
        fs::write(&secret, token).expect("written");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("ours");
        let config = format!(
            "global: {{scrape_interval: 200ms}}\nscrape_configs:\n- job_name: godwit\n  scheme: https\n  authorization: {{credentials_file: {}}}\n  \
             tls_config: {{ca_file: {}, server_name: localhost}}\n  static_configs: [{{targets: ['{}']}}]\n",
            secret.display(),
            rig.daemon_home.join("web/certificate.pem").display(),
            rig.address(),
        );
        let file = rig.path("prometheus.yml");
        fs::write(&file, config).expect("written");
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                rig.path("tsdb").display()
            ))
            .arg("--web.listen-address=127.0.0.1:0")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("prometheus runs: scripts/setup.sh installs it");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let found = line.split_once("msg=\"Listening on\" address=")?.1;
                Some(found.trim().to_owned())
            })
            .expect("an address");
        // Nobody else reads it, and a full pipe would stop the program.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// The document at a path; None while Prometheus is not ready.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: prometheus\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// The value of a query that has one.
    fn value(&self, query: &str) -> Option<f64> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={query}"))?;
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"]["result"][0]["value"][1]
            .as_str()?
            .parse()
            .ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_reads_the_channels_of_running_jobs() {
    let (here, _there) = two_sites();
    here.write("export/large", vec![7; 64 << 20]);
    let made = here.admin(&["token", "create", "--role", "viewer"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let prometheus = Prometheus::start(&here, made.out.trim());
    let id = submit(
        &here,
        "here:/data/large",
        "siteB:/data/large",
        &["--limit", "1MB/s"],
    );
    // Prometheus has a label `job` of its own, and calls ours so.
    for figure in [
        "carried_bytes",
        "rate_bytes",
        "streams",
        "round_trip_seconds",
    ] {
        let query = format!("godwit_channel_{figure}{{exported_job=\"{id}\",channel=\"0\"}}");
        let seen = wait_until(|| prometheus.value(&query).filter(|value| *value > 0.0));
        assert!(seen.is_some(), "{query}: {:?}", prometheus.value(&query));
    }
    for figure in ["resent_bytes", "cuts"] {
        let query = format!("godwit_channel_{figure}{{exported_job=\"{id}\",channel=\"0\"}}");
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
    let made = rig.admin(&["token", "create", "--role", "viewer"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let prometheus = Prometheus::start(&rig, made.out.trim());
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
