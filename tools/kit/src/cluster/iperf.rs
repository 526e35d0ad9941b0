//! Owns the reference of the figures: iperf3 over all links between two sites at the same time.
//! Runs no jobs.

use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::network::LINKS;
use super::sites::Sites;

/// How long iperf3 runs, in seconds.
const IPERF_SECONDS: &str = "8";

/// Payload in Mbit/s that iperf3 moves over all links at once; from each source to each destination if nodes have unequal rates.
///
/// # Errors
/// iperf3 is missing or fails.
pub(crate) fn iperf(sites: &Sites, check: &dyn Fn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let (sources, destinations) = (sites.shape.sources, sites.shape.destinations);
    let mut servers = Vec::new();
    let mut clients = Vec::new();
    // One connection for each link of the larger site, so that no link is unused.
    let pairs: Vec<(usize, usize)> = match sites.shape.rates().contains(',') {
        false => {
            let pairs = 0..sources.max(destinations);
            pairs
                .map(|pair| (pair % sources, pair % destinations))
                .collect()
        }
        true => {
            let each = |from| (0..destinations).map(move |to| (from, to));
            (0..sources).flat_map(each).collect()
        }
    };
    for (pair, (from, to)) in pairs.into_iter().enumerate() {
        let to = sources + to;
        for link in 0..LINKS {
            let address = sites.network.address(to, link);
            let port = (5201 + pair).to_string();
            let mut server = sites.network.inside(to, "iperf3");
            server.args(["-s", "-1", "-B", &address, "-p", &port]);
            server.stdout(Stdio::null());
            servers.push(Reaped(server.spawn().context("iperf3")?));
            let own = sites.network.address(from, link);
            let mut client = sites.network.inside(from, "iperf3");
            client.args(["-c", &address, "-p", &port, "-B", &own, "-J"]);
            client.args(["-t", IPERF_SECONDS, "-O", "1"]);
            client.stdout(Stdio::piped());
            clients.push(client);
        }
    }
    // The servers need a moment to listen; a client that starts earlier would fail.
    std::thread::sleep(Duration::from_millis(500));
    check()?;
    let started: std::io::Result<Vec<Child>> =
        clients.iter_mut().map(|client| client.spawn()).collect();
    let mut sum = 0.0;
    for client in started.context("iperf3")? {
        let output = client.wait_with_output()?;
        let report: Value = serde_json::from_slice(&output.stdout).context("iperf3's report")?;
        let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
        sum += rate.with_context(|| format!("no rate from iperf3: {}", report["error"]))?;
    }
    Ok(sum / 1e6)
}

/// A process that dropping this value kills.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
