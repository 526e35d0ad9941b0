//! Measures jobs from memory to memory between sites of equal size, with TLS and in clear, in turns with iperf3 over all links at once.
//! Moves no files; `figures` does.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::figures::unevenness;
use super::iperf::iperf;
use super::job::Job;
use super::network::LINKS;
use super::rate::float;
use super::sites::{Shape, Sites};

/// The header of the table.
const HEAD: &str = "nodes a side\tMbit/s a link\tcontents\tMiB\tiperf3 Mbit/s\tgodwit Mbit/s\tratio\tlinks Mbit/s\tseconds\tlinks uneven %\tprocessors\tnodes at work";

/// Bytes of the unit in which sizes are given.
const MIB: u64 = 1 << 20;

/// Settings of the measurement.
pub(crate) struct MemoryFigures<'a> {
    pub(crate) program: &'a Path,
    pub(crate) root: &'a Path,
    /// Nodes of each site, for one world after the other.
    pub(crate) nodes: &'a [u16],
    /// Rate of each link in Mbit/s.
    pub(crate) rate_mbit: u32,
    /// How long a job takes that has all of every link.
    pub(crate) seconds: u64,
    pub(crate) rounds: u64,
    pub(crate) check: &'a dyn Fn() -> anyhow::Result<()>,
    pub(crate) say: &'a dyn Fn(&str),
}

impl MemoryFigures<'_> {
    /// Prints the conditions as a comment, the header, and one row for each round of each world.
    ///
    /// # Errors
    /// A job fails, or moves another amount than it was asked for.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        (self.say)(&self.conditions()?);
        (self.say)(HEAD);
        for nodes in self.nodes {
            for is_plain in [false, true] {
                self.world(*nodes, is_plain)?;
            }
        }
        Ok(())
    }

    fn conditions(&self) -> anyhow::Result<String> {
        let nodes: Vec<String> = self.nodes.iter().map(u16::to_string).collect();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        Ok(format!(
            "# cargo xtask cluster memory --nodes {} --rate {} --seconds {}, {}, {}: two sites in namespaces of one machine with {cores} cores, {LINKS} links a node; iperf3 over all links at once in turns with each job.",
            nodes.join(","),
            self.rate_mbit,
            self.seconds,
            first_line(Command::new("date").args(["-u", "+%Y-%m-%d"]))?,
            first_line(Command::new(self.program).arg("--version"))?,
        ))
    }

    fn world(&self, nodes: u16, is_plain: bool) -> anyhow::Result<()> {
        let of_site = usize::from(nodes);
        let shape = Shape {
            sources: of_site,
            destinations: of_site,
            rates_mbit: vec![self.rate_mbit; 2 * of_site],
            is_plain,
            is_mounted: false,
        };
        let contents = if is_plain { "plain" } else { "TLS" };
        let root = self.root.join(format!("{nodes}-{contents}"));
        let sites = Sites::start(self.program, &root, &shape, self.check)?;
        let mib = mib_for(nodes, self.rate_mbit, self.seconds);
        for _ in 0..self.rounds {
            (self.check)()?;
            let reference = iperf(&sites, self.check)?;
            let row = self.round(&sites, mib, reference)?;
            let row = [
                nodes.to_string(),
                shape.rates(),
                contents.to_owned(),
                mib.to_string(),
                format!("{reference:.0}"),
                row,
            ];
            (self.say)(&row.join("\t"));
        }
        Ok(())
    }

    /// The figures of one job.
    fn round(&self, sites: &Sites, mib: u64, reference: f64) -> anyhow::Result<String> {
        let spent = sites.cpu_seconds();
        let mut job = Job::measure(sites, 0, &format!("{mib}MiB"))?;
        let mut at_work = 0;
        let ended = job.sample_until(sites, 0, self.check, &mut |_, document| {
            let nodes = document.and_then(|job| job["progress"]["nodes"].as_array());
            at_work = at_work.max(nodes.map_or(0, Vec::len));
            document.is_some_and(|job| !job["ended"].is_null())
        })?;
        let elapsed = job.elapsed();
        let ended = ended.context("an end without a document")?;
        let spent = sites.cpu_seconds() - spent;
        let carried = sites.network.carried()?;
        ensure!(
            ended["state"] == "complete" && ended["summary"]["bytes"] == mib * MIB,
            "the job is {}: {}; {}",
            ended["state"],
            ended["reason"],
            ended["summary"]
        );
        let seconds = elapsed.as_secs_f64();
        let rate = float(mib * MIB) * 8.0 / seconds / 1e6;
        // Without the start and the end, with all overhead.
        let middle = job.samples.rate(elapsed / 4, elapsed * 3 / 4);
        let middle = middle.unwrap_or(0.0) * 8.0 / 1e6;
        let row = [
            format!("{rate:.0}"),
            format!("{:.3}", rate / reference),
            format!("{middle:.0}"),
            format!("{seconds:.1}"),
            format!("{:.1}", unevenness(&sites.shape, &job.before, &carried)),
            format!("{:.2}", spent / seconds),
            // An undivided job names no nodes.
            at_work.max(1).to_string(),
        ];
        Ok(row.join("\t"))
    }
}

/// How much the nodes of a site send in this time if all their links are full.
fn mib_for(nodes: u16, rate_mbit: u32, seconds: u64) -> u64 {
    let links = u64::from(nodes) * LINKS as u64;
    let bytes = links * u64::from(rate_mbit) * 1_000_000 / 8 * seconds;
    (bytes / MIB).max(1)
}

/// The first line that a program prints.
fn first_line(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().context("cannot run a program")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_as_large_as_full_links_move_in_its_time() {
        // Two links of 100 Mbit/s carry 25 MB a second.
        assert_eq!(mib_for(1, 100, 20), 500_000_000 / MIB);
        assert_eq!(mib_for(4, 100, 20), 2_000_000_000 / MIB);
        assert_eq!(mib_for(1, 1, 1), 1);
    }
}
