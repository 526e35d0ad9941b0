//! Owns a real Prometheus that reads the nodes of a test.
//! Knows no figure.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::rig::Rig;

/// A Prometheus that reads some nodes; ends when dropped.
pub(crate) struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// Starts a Prometheus that reads the node with a viewer's token, and evaluates the rules of a file.
    pub(crate) fn start(rig: &Rig, rules: Option<&Path>) -> Self {
        Self::of(&[rig], rules)
    }

    /// Does the same with several nodes.
    pub(crate) fn of(rigs: &[&Rig], rules: Option<&Path>) -> Self {
        let rig = rigs.first().expect("a node");
        let rules = rules.map_or_else(String::new, |file| format!("'{}'", file.display()));
        let scrapes: String = (1..).zip(rigs).map(scrape).collect();
        // An answer that takes longer than the interval is lost.
        let interval = if rigs.len() == 1 { "200ms" } else { "1s" };
        let config = format!(
            "global: {{scrape_interval: {interval}, evaluation_interval: 200ms}}\nrule_files: [{rules}]\nscrape_configs:\n{scrapes}"
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
        // The lines have no other reader, and a full pipe would stop the program.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// The document at a path; None while Prometheus is not ready.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: prometheus\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// The series of a query; None while Prometheus is not ready.
    #[track_caller]
    pub(crate) fn series(&self, query: &str) -> Option<Vec<Value>> {
        let text: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut answer = self.get(&format!("/api/v1/query?query={text}"))?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        match answer["data"]["result"].take() {
            Value::Array(series) => Some(series),
            other => panic!("{query}: {other}"),
        }
    }

    /// The value of a query with a single value.
    #[track_caller]
    pub(crate) fn value(&self, query: &str) -> Option<f64> {
        let series = self.series(query)?;
        series.first()?["value"][1].as_str()?.parse().ok()
    }
}

/// The part of the configuration that reads one node. All nodes have the label `job` that the rules look for.
#[track_caller]
fn scrape((number, rig): (u32, &&Rig)) -> String {
    let made = rig.admin(&["token", "create", "--role", "viewer"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let secret = rig.path("prometheus-token");
    fs::write(&secret, made.out.trim()).expect("written");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("ours");
    format!(
        "- job_name: godwit-{number}\n  scheme: https\n  authorization: {{credentials_file: {}}}\n  \
         tls_config: {{ca_file: {}, server_name: localhost}}\n  static_configs: [{{targets: ['{}']}}]\n  \
         relabel_configs: [{{target_label: job, replacement: godwit}}]\n",
        secret.display(),
        rig.daemon_home.join("web/certificate.pem").display(),
        rig.address(),
    )
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
