//! Owns the figures of running jobs, and of each node that works on them.
//! Measures nothing, and keeps nothing of jobs that have ended.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use godwit_api::rest::{NodeProgress, ProgressView};
use godwit_jobs::is_host_figure;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::done::DoneMetrics;
use super::labels::{RunsLabel, StaticText};
use super::receivers::Receivers;

/// Nodes of a job that have time series.
const NODES_MAX: usize = 64;

/// Figures of a host that have time series: another site chooses their names.
const FIGURES_MAX: usize = 48;

/// How the figure of a single core begins.
const CORE: &str = "cpu_core_";

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct JobLabel {
    /// Not `job`: Prometheus has a label of that name.
    job_id: String,
    runs: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct LimitedLabel {
    job_id: String,
    runs: StaticText,
    stage: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct NodeLabel {
    job_id: String,
    node: String,
    /// The node that receives, as `receivers` names it. Empty if the job has one node.
    to: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct NodeLimitedLabel {
    job_id: String,
    node: String,
    to: String,
    stage: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct HostLabel {
    job_id: String,
    node: String,
    to: String,
    /// `own` for the host of `node`, `other` for that of the node to which its data goes or from which the data comes.
    end: &'static str,
    figure: String,
}

/// The figures, one set of time series for each running job and each of its nodes.
#[derive(Default)]
pub(super) struct JobMetrics {
    done: DoneMetrics,
    rates: Family<JobLabel, Gauge<f64, AtomicU64>>,
    streams: Family<JobLabel, Gauge>,
    behind: Family<JobLabel, Gauge>,
    limited: Family<LimitedLabel, Gauge>,
    node_rates: Family<NodeLabel, Gauge<f64, AtomicU64>>,
    node_streams: Family<NodeLabel, Gauge>,
    node_limited: Family<NodeLimitedLabel, Gauge>,
    hosts: Family<HostLabel, Gauge<f64, AtomicU64>>,
    receivers: Receivers,
}

/// Where a job runs: its site, and the nodes of this site, as the figures of the job name them.
pub(super) struct Runs<'a> {
    pub(super) label: RunsLabel,
    /// The node that moves the data of a job that is not divided. None if another site moves it.
    pub(super) alone: Option<&'a str>,
    /// Names of the nodes, if the job ends at this site.
    pub(super) receivers: &'a BTreeSet<String>,
}

impl JobMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        self.done.register(registry);
        registry.register_with_unit(
            "job_rate",
            "Rate of each running job, per second",
            Unit::Bytes,
            self.rates.clone(),
        );
        registry.register(
            "job_streams",
            "Streams of each running job",
            self.streams.clone(),
        );
        registry.register(
            "job_behind",
            "1 for a running job that reads again what jobs of the other destinations have read",
            self.behind.clone(),
        );
        registry.register(
            "job_limited",
            "1 for the stage that limits each running job now",
            self.limited.clone(),
        );
        registry.register_with_unit(
            "job_node_rate",
            "Rate of each node in each running job, per second",
            Unit::Bytes,
            self.node_rates.clone(),
        );
        registry.register(
            "job_node_streams",
            "Streams of each node in each running job",
            self.node_streams.clone(),
        );
        registry.register(
            "job_node_limited",
            "1 for the stage that limits each node in each running job now",
            self.node_limited.clone(),
        );
        registry.register(
            "job_host",
            "Figures of the hosts at both ends of each running job, by node and end",
            self.hosts.clone(),
        );
    }

    /// Forgets all jobs.
    pub(super) fn clear(&self) {
        self.done.clear();
        self.rates.clear();
        self.streams.clear();
        self.behind.clear();
        self.limited.clear();
        self.node_rates.clear();
        self.node_streams.clear();
        self.node_limited.clear();
        self.hosts.clear();
    }

    /// Takes the progress of a running job.
    pub(super) fn set(&self, id: &str, progress: &ProgressView, own: &Runs<'_>) {
        let runs = own.label.runs;
        let label = JobLabel {
            job_id: id.to_owned(),
            runs,
        };
        self.done.set(&label, progress);
        let rate = progress.bytes_per_second.unwrap_or(0.0);
        self.rates.get_or_create(&label).set(rate);
        let streams = self.streams.get_or_create(&label);
        streams.set(i64::from(progress.streams));
        let behind = self.behind.get_or_create(&label);
        behind.set(i64::from(progress.behind));
        if let Some(stage) = progress.bottleneck {
            let (job_id, stage) = (id.to_owned(), StaticText(stage.as_str()));
            let label = LimitedLabel {
                job_id,
                runs,
                stage,
            };
            self.limited.get_or_create(&label).set(1);
        }
        if let Some(own) = own.alone
            && progress.nodes.is_empty()
        {
            let alone = NodeProgress {
                node: own.to_owned(),
                bytes_per_second: rate,
                streams: progress.streams,
                bottleneck: progress.bottleneck,
                host: progress.host.clone(),
                other_host: progress.other_host.clone(),
                ..NodeProgress::default()
            };
            self.set_node(id, &alone, String::new());
        }
        let nodes = || progress.nodes.iter().take(NODES_MAX);
        let receivers: Vec<&str> = nodes().map(|node| node.to.as_str()).collect();
        let labels = self.receivers.labels(id, &receivers, own.receivers);
        for (node, to) in nodes().zip(labels) {
            self.set_node(id, node, to);
        }
    }

    fn set_node(&self, id: &str, progress: &NodeProgress, to: String) {
        let node = &progress.node;
        let label = NodeLabel {
            job_id: id.to_owned(),
            node: node.clone(),
            to: to.clone(),
        };
        let rate = self.node_rates.get_or_create(&label);
        rate.set(progress.bytes_per_second);
        let streams = self.node_streams.get_or_create(&label);
        streams.set(i64::from(progress.streams));
        if let Some(stage) = progress.bottleneck {
            let label = NodeLimitedLabel {
                job_id: id.to_owned(),
                node: node.clone(),
                to: to.clone(),
                stage: StaticText(stage.as_str()),
            };
            self.node_limited.get_or_create(&label).set(1);
        }
        for (end, figures) in [("own", &progress.host), ("other", &progress.other_host)] {
            // Each core would be a series.
            let whole = figures.iter().filter(|(name, _)| !name.starts_with(CORE));
            // The other site chose these names.
            let whole = whole.filter(|(name, _)| end == "own" || is_host_figure(name));
            for (figure, value) in whole.take(FIGURES_MAX) {
                let label = HostLabel {
                    job_id: id.to_owned(),
                    node: node.clone(),
                    to: to.clone(),
                    end,
                    figure: figure.clone(),
                };
                self.hosts.get_or_create(&label).set(*value);
            }
        }
    }
}
