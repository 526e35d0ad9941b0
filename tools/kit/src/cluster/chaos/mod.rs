//! Runs divided jobs with a fault at one node, chosen by a seed; each job must complete with an identical copy and no remaining files.
//! Does not choose the faults: `plan` does.

mod plan;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::Signal;

use super::data::{Amount, Set};
use super::job::Job;
use super::judge::{When, items, journals, judge};
use super::network::KBIT;
use super::rate::quantile;
use super::sites::{Shape, Sites};
pub(crate) use plan::{FAULTS, Fault, ROLES, Wish};
use plan::{Plan, Role};

/// Time within which a returned node must remove the entries of a call that hung.
const REMOVED_WITHIN: Duration = Duration::from_secs(30);

/// Small files: a first scan includes 4,096 of them, and leaves the other directories to all nodes.
const SMALL: Set = Set {
    directories: 90,
    files: 300,
    small: (4_000, 24_000),
    large: 0,
    large_bytes: 0,
};
/// Fewer small files, and one file in two parts.
const WITH_PARTS: Set = Set {
    directories: 50,
    large: 1,
    large_bytes: (300 << 20) + 7,
    ..SMALL
};

/// Settings of the runs; the runs share two sites until one of them fails.
pub(crate) struct Chaos<'a> {
    pub(crate) program: &'a Path,
    pub(crate) root: &'a Path,
    /// Directory for the logs of failed runs.
    pub(crate) logs: &'a Path,
    pub(crate) shape: Shape,
    pub(crate) wish: Wish,
    pub(crate) check: &'a dyn Fn() -> anyhow::Result<()>,
    pub(crate) say: &'a dyn Fn(&str),
}

/// The result of one run.
struct Outcome {
    /// Time in seconds until the rate was back; `None` if it never was, or the job ended before that could be measured.
    back: Option<f64>,
    ended_first: bool,
    /// Longest time in seconds with a rate below `FLOOR`.
    below: f64,
    /// Whether the job stood still for longer than `STILL_MAX`.
    is_stuck: bool,
    wrong: Vec<String>,
}

/// The report shows how long the rate was below this share of the remaining rate: near the end one node may work alone on a part of a
/// file.
const FLOOR: f64 = 0.6;
/// Rate of the links of a slow node, very low.
const SLOW_KBIT: u32 = 64;
/// A job below this share of the rate counts as standing still, which is allowed for this time.
const STILL: f64 = 0.1;
const STILL_MAX: Duration = Duration::from_secs(20);

impl Chaos<'_> {
    /// Runs these seeds in order.
    ///
    /// # Errors
    /// A run failed; all other runs were completed.
    pub(crate) fn run(&self, seeds: std::ops::Range<u64>) -> anyhow::Result<()> {
        (self.say)(
            "seed\tnode\twhat\tafter %\tparts\tseconds\tback after s\tbelow 0.6 for s\toutcome",
        );
        let mut sites: Option<Sites> = None;
        let (mut backs, mut failed, mut runs, mut unseen) = (Vec::new(), Vec::new(), 0, 0);
        let (mut below, mut stuck) = (Vec::new(), 0);
        for seed in seeds {
            (self.check)()?;
            let root = self.root.join(format!("sites-{seed}"));
            let at = match sites.take() {
                Some(at) => at,
                None => Sites::start(self.program, &root, &self.shape, self.check)?,
            };
            let plan = Plan::of(seed, &self.shape, self.wish);
            let (at, outcome) = self.one(at, &plan);
            (self.check)()?;
            runs += 1;
            if let Ok(outcome) = &outcome {
                below.push(outcome.below);
                stuck += usize::from(outcome.is_stuck);
            }
            match outcome {
                Ok(outcome) if outcome.wrong.is_empty() => {
                    backs.extend(outcome.back);
                    unseen += usize::from(outcome.ended_first);
                    sites = Some(at);
                }
                outcome => {
                    if let Err(error) = outcome {
                        (self.say)(&format!("{seed}\t\t\t\t\t\t\tfailed: {error:#}"));
                    }
                    let kept = self.logs.join(format!("seed-{seed}"));
                    at.keep_logs(&kept)?;
                    (self.say)(&format!("the logs of seed {seed} are in {kept:?}"));
                    let root = at.root().to_owned();
                    drop(at);
                    fs::remove_dir_all(&root).with_context(|| format!("cannot remove {root:?}"))?;
                    failed.push(seed);
                }
            }
        }
        (self.say)(&format!(
            "{runs} runs, {} failed {failed:?}; rate back after: {}; not seen before the end of the job: {unseen}; below {FLOOR} of the others: {}; stuck: {stuck}",
            failed.len(),
            spread(&mut backs),
            spread(&mut below),
        ));
        match failed.len() {
            0 => Ok(()),
            count => bail!("{count} of {runs} runs failed"),
        }
    }

    /// The data set of a plan; it is made at its first use.
    fn source(&self, sites: &Sites, plan: &Plan) -> anyhow::Result<(String, PathBuf, Amount)> {
        let (name, set) = match plan.has_parts {
            true => ("with-parts", WITH_PARTS),
            false => ("small", SMALL),
        };
        let path = sites.shared(0).join(name);
        // The data set is made again for each network; its seed does not depend on the plan.
        let amount = match path.exists() {
            true => measure(&path)?,
            false => set.make(&path, 1)?,
        };
        Ok((name.to_owned(), path, amount))
    }

    fn one(&self, mut sites: Sites, plan: &Plan) -> (Sites, anyhow::Result<Outcome>) {
        let outcome = self.try_one(&mut sites, plan);
        (sites, outcome)
    }

    fn try_one(&self, sites: &mut Sites, plan: &Plan) -> anyhow::Result<Outcome> {
        for node in &sites.nodes {
            node.note(&format!("seed {}", plan.seed));
        }
        let (name, source, amount) = self.source(sites, plan)?;
        let copy_name = format!("copy-{}", plan.seed);
        let copy = sites.shared(sites.shape.sources).join(&copy_name);
        let mut job = Job::submit(sites, 0, &name, &copy_name)?;
        let wanted = amount.bytes * plan.after_percent / 100;
        let first = sites.shape.sources;
        let (mut began, mut had) = (false, 0);
        let network = &sites.network;
        let start: u64 = job.before[first..]
            .iter()
            .flatten()
            .map(|l| l.received)
            .sum();
        let shown = job.sample_until(sites, 0, self.check, &mut |_, document| {
            let carried = network.carried().unwrap_or_default();
            let links = carried.iter().skip(first).flatten();
            had = links
                .map(|link| link.received)
                .sum::<u64>()
                .saturating_sub(start);
            began |= document.is_some_and(|job| job["node"].is_string());
            let has_ended = document.is_some_and(|job| !job["ended"].is_null());
            has_ended || (began && had >= wanted)
        })?;
        let shown = shown.context("no node tells of the job")?;
        let controller = shown["node"].as_str().unwrap_or_default();
        let victim = self.victim(sites, plan, controller)?;
        let fault_at = job.elapsed();
        let label = sites.label(victim);
        for node in &sites.nodes {
            let (seed, role, fault) = (plan.seed, plan.role, plan.fault);
            node.note(&format!("seed {seed}: {label} ({role}): {fault}"));
        }
        inject(sites, victim, plan.fault)?;
        let asked = usize::from(victim == 0 && sites.shape.sources > 1);
        let lift_at = plan.fault.during().map(|during| fault_at + during);
        let has_ended =
            |job: Option<&serde_json::Value>| job.is_some_and(|job| !job["ended"].is_null());
        job.sample_until(sites, asked, self.check, &mut |now, document| {
            has_ended(document) || lift_at.is_some_and(|at| now >= at)
        })?;
        if lift_at.is_some() {
            lift(sites, victim, plan.fault)?;
        }
        let ended = job.wait(sites, asked, self.check)?;
        let end = job.elapsed();
        let seconds = end.as_secs_f64();
        let mut wrong = judge(sites, &ended, &source, &copy, amount, When::AtItsEnd)?;
        if lift_at.is_none() {
            lift(sites, victim, plan.fault)?;
        }
        sites.wait_until_up(self.check)?;
        let later = found_later(&wrong, &|| {
            judge(sites, &ended, &source, &copy, amount, When::Later)
        })?;
        wrong.extend(later);
        if let Some(left) = items(sites.nodes[asked].home()).filter(|left| *left > 0) {
            wrong.push(format!("{left} items are left in the state"));
        }
        let journals = journals(sites).len();
        let before = job.samples.best_before(fault_at);
        let expected = before * survivors(&sites.shape, victim, plan.fault);
        let back = job.samples.back_after(fault_at, end, expected);
        let ended_first = back.is_none();
        let below = job.samples.longest_below(fault_at, end, expected * FLOOR);
        let still = job.samples.longest_below(fault_at, end, expected * STILL);
        if still > STILL_MAX {
            wrong.push(format!("stands still for {still:.1?}"));
        }
        let attempts = ended["attempts"].as_u64().unwrap_or(0);
        let is_of_source = victim < sites.shape.sources;
        if attempts > 1 && !is_of_source {
            wrong.push(format!("{attempts} attempts"));
        }
        let outcome = Outcome {
            back: back.map(|back| back.as_secs_f64()),
            ended_first,
            below: below.as_secs_f64(),
            is_stuck: still > STILL_MAX,
            wrong,
        };
        let reported = match outcome.wrong.as_slice() {
            [] => format!(
                "identical; {journals} journals, best {:.1} MB/s before",
                before / 1e6
            ),
            wrong => format!("WRONG: {}", wrong.join("; ")),
        };
        (self.say)(&line(plan, &label, seconds, &outcome, &reported));
        if outcome.wrong.is_empty() {
            fs::remove_dir_all(&copy).context("cannot remove the copy")?;
        } else {
            let log = sites.nodes[asked].ask(&["job", "log", job.id()]);
            (self.say)(&log.unwrap_or_else(|error| format!("{error:#}")));
        }
        Ok(outcome)
    }

    fn victim(&self, sites: &Sites, plan: &Plan, controller: &str) -> anyhow::Result<usize> {
        let view = sites.view(0)?;
        let leader = view["leader"].as_str().unwrap_or_default();
        let controller = sites.named(controller, 0);
        let leader = sites.named(leader, 0);
        let first = sites.shape.sources;
        Ok(match plan.role {
            Role::Controller => controller.unwrap_or(0),
            Role::Leader => leader.unwrap_or(0),
            Role::Worker => {
                let mut others = (0..first).rev();
                let other = others.find(|node| Some(*node) != controller && Some(*node) != leader);
                other.unwrap_or(first - 1)
            }
            Role::Door => first,
            Role::Target => sites.nodes.len() - 1,
        })
    }
}

/// Sorts the times in seconds; returns their median, 99th percentile and maximum.
fn spread(seconds: &mut [f64]) -> String {
    seconds.sort_by(f64::total_cmp);
    let reported = |part| {
        let value = quantile(seconds, part);
        value.map_or_else(|| "-".to_owned(), |s| format!("{s:.2} s"))
    };
    let [median, late, longest] = [0.5, 0.99, 1.0].map(reported);
    format!("median {median}, p99 {late}, longest {longest}")
}

/// The share of the rate that the remaining links can carry.
fn survivors(shape: &Shape, victim: usize, fault: Fault) -> f64 {
    let links = |sources: f64, destinations: f64| sources.min(destinations);
    let count = |nodes: usize| {
        let links = u32::try_from(nodes * super::network::LINKS).unwrap_or(u32::MAX);
        f64::from(links)
    };
    let lost = f64::from(u32::try_from(fault.links_lost()).unwrap_or(0));
    let (sources, destinations) = (count(shape.sources), count(shape.destinations));
    let left = match victim < shape.sources {
        true => links(sources - lost, destinations),
        false => links(sources, destinations - lost),
    };
    left / links(sources, destinations)
}

fn inject(sites: &mut Sites, victim: usize, fault: Fault) -> anyhow::Result<()> {
    match fault {
        Fault::Kill(_) => sites.nodes[victim].kill(),
        Fault::Stop(_) => sites.nodes[victim].signal(Signal::STOP),
        Fault::CutNode(_) => {
            for link in 0..super::network::LINKS {
                sites.network.set_link(victim, link, false)?;
            }
        }
        Fault::CutLink(link, _) => sites.network.set_link(victim, link, false)?,
        Fault::HangMount(_) => sites.signal_mount(victim, Signal::STOP)?,
        Fault::Slow(_) => set_rate(sites, victim, SLOW_KBIT)?,
        Fault::SlowNode(_) => sites.nodes[victim].slow_down(),
        Fault::FullDisk(_) => sites.disk(victim)?.fill()?,
    }
    Ok(())
}

fn lift(sites: &mut Sites, victim: usize, fault: Fault) -> anyhow::Result<()> {
    match fault {
        Fault::Kill(_) => sites.restart(victim)?,
        Fault::Stop(_) => sites.nodes[victim].signal(Signal::CONT),
        Fault::CutNode(_) => {
            for link in 0..super::network::LINKS {
                sites.network.set_link(victim, link, true)?;
            }
        }
        Fault::CutLink(link, _) => sites.network.set_link(victim, link, true)?,
        Fault::HangMount(_) => sites.signal_mount(victim, Signal::CONT)?,
        Fault::Slow(_) => {
            let mbit = sites.shape.rates_mbit[victim];
            set_rate(sites, victim, mbit.saturating_mul(KBIT))?;
        }
        Fault::SlowNode(_) => sites.nodes[victim].speed_up(),
        Fault::FullDisk(_) => {
            sites.disk(victim)?.empty()?;
            // A node ends at the first failed write; its service starts it again.
            if sites.nodes[victim].has_ended() {
                sites.restart(victim)?;
            }
        }
    }
    Ok(())
}

/// The faults that appear after the end of a job. A node that returns late must not change the copy. The node soon removes files that its
/// kernel had begun to make.
fn found_later(
    known: &[String],
    look: &dyn Fn() -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Vec<String>> {
    let until = Instant::now() + REMOVED_WITHIN;
    loop {
        let mut late = look()?;
        late.retain(|what| !known.contains(what));
        if late.is_empty() || Instant::now() >= until {
            return Ok(late.iter().map(|late| format!("later: {late}")).collect());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The row of one run.
fn line(plan: &Plan, label: &str, seconds: f64, outcome: &Outcome, reported: &str) -> String {
    let back = outcome.back.map(|seconds| format!("{seconds:.2}"));
    format!(
        "{}\t{label} {}\t{}\t{}\t{}\t{seconds:.1}\t{}\t{:.1}\t{reported}",
        plan.seed,
        plan.role,
        plan.fault,
        plan.after_percent,
        if plan.has_parts { "yes" } else { "no" },
        back.as_deref().unwrap_or("-"),
        outcome.below,
    )
}

/// Sets the rate of all links of a node.
fn set_rate(sites: &Sites, node: usize, kbit: u32) -> anyhow::Result<()> {
    (0..super::network::LINKS).try_for_each(|link| sites.network.set_rate(node, link, kbit))
}

/// Number of files and bytes below a directory.
fn measure(root: &Path) -> anyhow::Result<Amount> {
    let mut amount = Amount::default();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if meta.is_dir() {
                directories.push(entry.path());
            } else {
                amount.files += 1;
                amount.bytes += if meta.is_file() { meta.len() } else { 0 };
            }
        }
    }
    Ok(amount)
}
