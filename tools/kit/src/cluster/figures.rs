//! Measures divided jobs between two sites in turns with iperf3 over the same links, and the overhead in addition to their payload.
//! Injects no faults; `chaos` does.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::data::{Amount, Set};
use super::iperf::iperf;
use super::job::Job;
use super::judge::{When, judge, query};
use super::network::{Carried, LINKS};
use super::rate::float;
use super::sites::{Shape, Sites};

/// How long the sites are idle, to measure their traffic without work.
const IDLE: Duration = Duration::from_secs(5);
/// The header of the table.
pub(crate) const HEAD: &str = "sources\tdestinations\tMbit/s a link\tdata\tcontents\tiperf3 Mbit/s\tgodwit Mbit/s\tratio\tseconds\tlinks uneven %\tprocessors\tcontrol kB/s\tidle kB/s\tback %\tlog entries\tlog bytes\tstate bytes";

/// Settings of a measurement.
pub(crate) struct Figures<'a> {
    pub(crate) program: &'a Path,
    pub(crate) root: &'a Path,
    pub(crate) shape: Shape,
    pub(crate) set: Set,
    /// Name of the data in the table.
    pub(crate) title: &'a str,
    pub(crate) rounds: u64,
    pub(crate) check: &'a dyn Fn() -> anyhow::Result<()>,
    pub(crate) say: &'a dyn Fn(&str),
}

impl Figures<'_> {
    /// Prints one row for each round.
    ///
    /// # Errors
    /// A job fails, or the arrived data differs from the sent data.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let sites = Sites::start(self.program, self.root, &self.shape, self.check)?;
        let source = sites.shared(0).join("set");
        let amount = self.set.make(&source, 1)?;
        for round in 0..self.rounds {
            (self.check)()?;
            let reference = iperf(&sites, self.check)?;
            self.round(&sites, &source, amount, round, reference)?;
        }
        Ok(())
    }

    fn round(
        &self,
        sites: &Sites,
        source: &Path,
        amount: Amount,
        round: u64,
        reference: f64,
    ) -> anyhow::Result<()> {
        let quiet = all(&sites.network.carried()?);
        std::thread::sleep(IDLE);
        let idle = float(all(&sites.network.carried()?) - quiet) / IDLE.as_secs_f64();

        let name = format!("copy-{round}");
        let copy = sites.shared(sites.shape.sources).join(&name);
        let home = sites.nodes[0].home();
        let entries = || {
            query(
                &home.join("state/state.db"),
                "SELECT log_index FROM applied",
            )
        };
        let log = "SELECT coalesce(sum(length(body)), 0) FROM entries";
        let state = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
        let index = entries().unwrap_or(0);
        let between = sites.network.between()?;
        let spent = sites.cpu_seconds();
        let mut job = Job::submit(sites, 0, "set", &name)?;
        let ended = job.wait(sites, 0, self.check)?;
        let seconds = job.elapsed().as_secs_f64();
        let spent = sites.cpu_seconds() - spent;
        let carried = sites.network.carried()?;
        let passed = sites.network.between()?;
        let wrong = judge(sites, &ended, source, &copy, amount, When::AtItsEnd)?;
        ensure!(wrong.is_empty(), "{}", wrong.join("; "));

        let rate = float(amount.bytes) * 8.0 / seconds / 1e6;
        let there = passed.sent - between.sent;
        let back = passed.received - between.received;
        // Traffic within the sites is the total minus the traffic between the sites.
        let inside = (all(&carried) - all(&job.before)).saturating_sub(there + back);
        let of_log = query(&home.join("state/raft.db"), log);
        let row = [
            sites.shape.sources.to_string(),
            sites.shape.destinations.to_string(),
            sites.shape.rates(),
            self.title.to_owned(),
            if sites.shape.is_plain { "plain" } else { "TLS" }.to_owned(),
            format!("{reference:.0}"),
            format!("{rate:.0}"),
            format!("{:.3}", rate / reference),
            format!("{seconds:.1}"),
            format!("{:.1}", unevenness(&sites.shape, &job.before, &carried)),
            format!("{:.2}", spent / seconds),
            format!("{:.1}", float(inside) / seconds / 1e3),
            format!("{:.1}", idle / 1e3),
            format!("{:.2}", 100.0 * float(back) / float(there.max(1))),
            (entries().unwrap_or(0) - index).to_string(),
            of_log.unwrap_or(0).to_string(),
            query(&home.join("state/state.db"), state)
                .unwrap_or(0)
                .to_string(),
        ];
        (self.say)(&row.join("\t"));
        fs::remove_dir_all(&copy).context("cannot remove the copy")
    }
}

/// Unevenness of the links of the smaller site: the largest minus the smallest traffic, in percent of the mean.
pub(crate) fn unevenness(
    shape: &Shape,
    before: &[[Carried; LINKS]],
    after: &[[Carried; LINKS]],
) -> f64 {
    let is_source = shape.sources <= shape.destinations;
    let first = if is_source { 0 } else { shape.sources };
    let nodes = first..first + shape.pairs();
    let links = nodes.flat_map(|node| (0..LINKS).map(move |link| (node, link)));
    let bytes = links.map(|(node, link)| {
        let (before, after) = (before[node][link], after[node][link]);
        match is_source {
            true => float(after.sent - before.sent),
            false => float(after.received - before.received),
        }
    });
    let bytes: Vec<f64> = bytes.collect();
    let most = bytes.iter().copied().fold(0.0, f64::max);
    let least = bytes.iter().copied().fold(f64::INFINITY, f64::min);
    let count = u32::try_from(bytes.len()).map_or(1.0, f64::from);
    100.0 * (most - least) / (bytes.iter().sum::<f64>() / count)
}

/// Bytes that all hosts have sent.
fn all(carried: &[[Carried; LINKS]]) -> u64 {
    carried.iter().flatten().map(|link| link.sent).sum()
}
