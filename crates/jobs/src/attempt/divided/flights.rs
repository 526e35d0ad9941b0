//! Follows the transfers of the cluster's nodes for one divided job: asks each second while the job is controlled here.
//! Keeps no settled amounts: the state does.

mod limits;
mod nodes;
pub(crate) mod steady;
mod written;

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{NodeFault, RunningJob};
use godwit_api::event::Limited;
use godwit_api::rest::{Amount, ChannelView, NodeProgress, ProgressView, Timestamp};
use godwit_controller::Traffic;
use godwit_state::{Node, Works};

use super::Context;
use crate::asking::{Asking, elsewhere};
use crate::basis::this_node::ThisNode;
use limits::Limits;
use written::Written;

/// Between two rounds of questions.
const EVERY: Duration = Duration::from_secs(1);

/// An older report is not counted.
const OLD_AFTER: Duration = Duration::from_secs(5);

/// Channels of one node that are shown.
const CHANNELS_MAX: usize = 64;

/// Transfers under way for one job.
pub(crate) struct Flights {
    job: String,
    reports: Mutex<NodeReports>,
    woken: Condvar,
}

#[derive(Default)]
struct NodeReports {
    has_ended: bool,
    /// The last report of each node with the time of its question, in the order of the first reports.
    nodes: Vec<NodeReport>,
    /// Nodes that are being asked.
    asked: BTreeSet<String>,
    limits: Limits,
}

/// Report of one node.
struct NodeReport {
    node: String,
    job: ReportedJob,
    at: Instant,
    /// None as long as the node has not worked on the job.
    written: Option<Written>,
}

/// The part of a node in the job, as it reports it.
#[derive(Default)]
struct ReportedJob {
    /// Identity of the node of the other site that it sends to.
    to: String,
    view: ProgressView,
    /// Nodes of the other site that could not write.
    faults: Vec<NodeFault>,
    /// Bytes that the node has written there.
    written: u64,
}

impl From<RunningJob> for ReportedJob {
    fn from(job: RunningJob) -> Self {
        Self {
            to: job.to,
            view: job.progress,
            faults: job.faults,
            written: job.written,
        }
    }
}

/// A node that is being asked, until this is dropped.
struct NodeQuestion(Arc<Flights>, String);

impl Drop for NodeQuestion {
    fn drop(&mut self) {
        self.0.lock().asked.remove(&self.1);
    }
}

/// Ends the thread that asks when it is dropped.
pub(crate) struct EndsAsking<'a>(&'a Flights);

impl Drop for EndsAsking<'_> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.woken.notify_all();
    }
}

impl Flights {
    pub(crate) fn new(job: &str) -> Self {
        Self {
            job: job.to_owned(),
            reports: Mutex::default(),
            woken: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, NodeReports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All rates and paths together; without a rate while nothing moves. Behind if any node is.
    pub(crate) fn sum(&self, limit: u64) -> ProgressView {
        let mut sum = ProgressView::default();
        let mut rate = 0.0;
        let mut reports = self.lock();
        // Numbers of channels stay with their node.
        for (first, one) in (0..).step_by(CHANNELS_MAX).zip(&reports.nodes) {
            let (node, view) = (&one.node, &one.job.view);
            if one.at.elapsed() < OLD_AFTER {
                sum.streams = sum.streams.saturating_add(view.streams);
                sum.behind |= view.behind;
                rate += view.bytes_per_second.unwrap_or(0.0);
                sum.nodes
                    .extend(view.nodes.iter().map(|shown| NodeProgress {
                        node: node.clone(),
                        ..shown.clone()
                    }));
                for channel in view.channels.iter().take(CHANNELS_MAX) {
                    sum.channels.push(ChannelView {
                        number: channel.number.saturating_add(first),
                        name: format!("{node}: {}", channel.name),
                        ..channel.clone()
                    });
                }
            }
        }
        sum.bytes_per_second = (rate > 0.0).then_some(rate);
        sum.nodes.sort_by(|one, other| one.node.cmp(&other.node));
        sum.stages = nodes::stages(&sum.nodes);
        if let Some((stage, text)) = nodes::limited(&sum.nodes, limit) {
            reports.limits.add(stage, &text);
            (sum.bottleneck, sum.bottleneck_text) = (Some(stage), Some(text));
        }
        sum
    }

    /// The stage that limited the job most often so far.
    pub(crate) fn limited(&self) -> Option<Limited> {
        self.lock().limits.most()
    }

    /// The rate of all nodes since the last call, by the bytes that they have written.
    pub(crate) fn rate(&self) -> f64 {
        let mut reports = self.lock();
        let new = reports.nodes.iter_mut();
        let new = new.filter(|one| one.at.elapsed() < OLD_AFTER);
        new.filter_map(|one| match one.job.written {
            // A node of an older version has no such figure.
            0 => one.job.view.bytes_per_second,
            _ => one.written.as_mut().map(Written::sample),
        })
        .sum()
    }

    /// Bytes and files in transfer, from reports requested after the given time.
    pub(crate) fn since(&self, time: Instant) -> Amount {
        let reports = self.lock();
        let new = reports.nodes.iter();
        let new = new.filter(|one| one.at > time && one.at.elapsed() < OLD_AFTER);
        new.fold(Amount::default(), |sum, one| {
            let view = &one.job.view;
            let (files, bytes) = (view.files, view.bytes);
            sum.plus(Amount { files, bytes })
        })
    }

    /// The traffic of each node that reports its traffic.
    pub(crate) fn traffic(&self) -> Vec<Traffic> {
        let reports = self.lock();
        let new = reports
            .nodes
            .iter()
            .filter(|one| one.at.elapsed() < OLD_AFTER);
        new.map(|NodeReport { node, job, at, .. }| Traffic {
            node: node.clone(),
            age: at.elapsed(),
            to: job.to.clone(),
            bytes_per_second: job.view.bytes_per_second.unwrap_or(0.0),
            passed_bytes: total(&job.view, |channel| channel.bytes),
            resent_bytes: total(&job.view, |channel| channel.resent_bytes),
            streams: job.view.streams,
            faults: job.faults.clone(),
        })
        .collect()
    }

    /// Ends the thread that asks, however its job ends.
    pub(crate) fn ends(&self) -> EndsAsking<'_> {
        EndsAsking(self)
    }

    /// Whether the job is no longer controlled here.
    pub(crate) fn have_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// Body of the thread that asks, until the end. Each node is asked on a separate thread, which
    /// is not joined: a silent node must not delay the others or the end of the job.
    pub(crate) fn follow(self: &Arc<Self>, shared: &Arc<Context>) {
        loop {
            let asked = Instant::now();
            let own = shared.workers.flights(&shared.asking);
            self.update(
                &shared.this.name,
                asked,
                own.into_iter()
                    .find(|one| one.id == self.job)
                    .map(ReportedJob::from),
            );
            for node in self.others(&shared.this) {
                self.begin(shared, node);
            }
            let reports = self.lock();
            let waited = self
                .woken
                .wait_timeout_while(reports, EVERY, |reports| !reports.has_ended);
            if waited.unwrap_or_else(PoisonError::into_inner).0.has_ended {
                return;
            }
        }
    }

    /// Asks a node, unless it is being asked.
    fn begin(self: &Arc<Self>, shared: &Arc<Context>, node: Node) {
        if !self.lock().asked.insert(node.name.clone()) {
            return;
        }
        let asked = NodeQuestion(Arc::clone(self), node.name.clone());
        let (own, shared) = (Arc::clone(self), Arc::clone(shared));
        // If no thread starts, the node is asked next time.
        let _ = thread::Builder::new()
            .name("gw-flight".to_owned())
            .spawn(move || {
                let at = Instant::now();
                let job = own.ask(&shared.asking, &node);
                own.update(&node.name, at, job);
                drop(asked);
            });
    }

    fn update(&self, node: &str, asked: Instant, job: Option<ReportedJob>) {
        // The report of a node that does not answer gets old.
        let Some(job) = job else {
            return;
        };
        let mut reports = self.lock();
        let known = reports.nodes.iter_mut().find(|known| known.node == node);
        let mut written = known.and_then(|known| known.written.take());
        if job.view.at == Timestamp(0) {
            written.iter_mut().for_each(Written::rests);
        } else {
            let (at, bytes) = (job.view.at, job.written);
            let written = written.get_or_insert_with(|| Written::first(at, bytes));
            written.add(at, bytes);
        }
        let new = NodeReport {
            node: node.to_owned(),
            job,
            at: asked,
            written,
        };
        match reports.nodes.iter_mut().find(|known| known.node == node) {
            Some(known) => *known = new,
            None => reports.nodes.push(new),
        }
    }

    /// The other nodes that work on the job.
    fn others(&self, this: &ThisNode) -> Vec<Node> {
        let reader = this.reader();
        let work = Works(&reader).of(&self.job).ok().flatten();
        let pairs = work.map(|work| work.pairs).unwrap_or_default();
        let mut rows: Vec<Node> = reader.objects().unwrap_or_default();
        rows.retain(|row| row.name != this.name && pairs.iter().any(|pair| pair.node == row.name));
        rows
    }

    fn ask(&self, asking: &Asking, node: &Node) -> Option<ReportedJob> {
        let goes_on = || !asking.this.is_stopping() && !self.lock().has_ended;
        let mut jobs = elsewhere::ask(asking, node, &goes_on)?.into_iter();
        let job = jobs.find(|job| job.works && job.id == self.job);
        Some(job.map(ReportedJob::from).unwrap_or_default())
    }
}

/// A figure of all channels together. A node may report any figure, so a sum may not overflow.
fn total(view: &ProgressView, of: impl Fn(&ChannelView) -> u64) -> u64 {
    view.channels.iter().map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_behind_while_one_of_its_nodes_is() {
        let flights = Flights::new("j");
        let report = |node: &str, behind: bool| {
            let view = ProgressView {
                behind,
                ..ProgressView::default()
            };
            let job = ReportedJob {
                view,
                ..ReportedJob::default()
            };
            flights.update(node, Instant::now(), Some(job));
            flights.sum(0).behind
        };
        assert!(!report("a", false));
        assert!(report("b", true));
        assert!(report("a", false));
        assert!(!report("b", false));
    }

    #[test]
    fn figures_of_other_nodes_add_up_without_overflow() {
        let flights = Flights::new("j");
        let start = Instant::now();
        let channel = ChannelView {
            bytes: u64::MAX,
            resent_bytes: u64::MAX,
            ..ChannelView::default()
        };
        for node in ["a", "b"] {
            let view = ProgressView {
                bytes: u64::MAX,
                files: u64::MAX,
                streams: u32::MAX,
                channels: vec![channel.clone(), channel.clone()],
                ..ProgressView::default()
            };
            let job = ReportedJob {
                view,
                ..ReportedJob::default()
            };
            flights.update(node, Instant::now(), Some(job));
        }
        assert_eq!(flights.sum(0).streams, u32::MAX);
        let before = start.checked_sub(Duration::from_secs(1)).unwrap_or(start);
        let all = Amount {
            files: u64::MAX,
            bytes: u64::MAX,
        };
        assert_eq!(flights.since(before), all);
        for traffic in flights.traffic() {
            let figures = (traffic.passed_bytes, traffic.resent_bytes);
            assert_eq!(figures, (u64::MAX, u64::MAX));
        }
    }
}
