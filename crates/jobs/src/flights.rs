//! Follows what the nodes of the cluster bring of one divided job at this moment: asked for each second while the job is controlled here.
//! Keeps nothing that is settled: the state does.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::rest::{ChannelView, ProgressView};
use godwit_controller::Traffic;
use godwit_state::{Node, Works};

use crate::{Shared, elsewhere};

/// Between two rounds of questions.
const EVERY: Duration = Duration::from_secs(1);

/// What was told longer ago than this is not counted.
const OLD_AFTER: Duration = Duration::from_secs(5);

/// What is on its way of one job.
pub(crate) struct Flights {
    job: String,
    told: Mutex<Told>,
    woken: Condvar,
}

#[derive(Default)]
struct Told {
    has_ended: bool,
    nodes: BTreeMap<String, (ProgressView, Instant)>,
}

/// Ends the thread when it is dropped.
pub(crate) struct Ends<'a>(&'a Flights);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.woken.notify_all();
    }
}

impl Flights {
    pub(crate) fn new(job: &str) -> Self {
        Self {
            job: job.to_owned(),
            told: Mutex::default(),
            woken: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All together; without a rate while nothing moves.
    pub(crate) fn sum(&self) -> ProgressView {
        let mut sum = ProgressView::default();
        let mut rate = 0.0;
        for (node, (view, at)) in &self.lock().nodes {
            if at.elapsed() < OLD_AFTER {
                sum.bytes += view.bytes;
                sum.files += view.files;
                sum.streams += view.streams;
                rate += view.bytes_per_second.unwrap_or(0.0);
                for channel in &view.channels {
                    sum.channels.push(ChannelView {
                        number: u32::try_from(sum.channels.len()).unwrap_or(u32::MAX),
                        name: format!("{node}: {}", channel.name),
                        ..channel.clone()
                    });
                }
            }
        }
        sum.bytes_per_second = (rate > 0.0).then_some(rate);
        sum
    }

    /// What each node does, as far as it tells.
    pub(crate) fn traffic(&self) -> Vec<Traffic> {
        let told = self.lock();
        let new = told
            .nodes
            .iter()
            .filter(|(_, (_, at))| at.elapsed() < OLD_AFTER);
        new.map(|(node, (view, _))| Traffic {
            node: node.clone(),
            bytes_per_second: view.bytes_per_second.unwrap_or(0.0),
            passed_bytes: view.channels.iter().map(|channel| channel.bytes).sum(),
            resent_bytes: view
                .channels
                .iter()
                .map(|channel| channel.resent_bytes)
                .sum(),
            streams: view.streams,
        })
        .collect()
    }

    /// Ends the thread that asks, however its job ends.
    pub(crate) fn ends(&self) -> Ends<'_> {
        Ends(self)
    }

    /// Body of the thread that asks, until the end.
    pub(crate) fn follow(&self, shared: &Shared, goes_on: &dyn Fn() -> bool) {
        loop {
            let own = shared.workers.flights();
            self.update(
                &shared.config.node,
                own.into_iter()
                    .find(|one| one.id == self.job)
                    .map(|one| one.progress),
            );
            for node in self.others(shared) {
                let told = self.ask(shared, &node, goes_on);
                self.update(&node.name, told);
            }
            let told = self.lock();
            let waited = self
                .woken
                .wait_timeout_while(told, EVERY, |told| !told.has_ended);
            if waited.unwrap_or_else(PoisonError::into_inner).0.has_ended {
                return;
            }
        }
    }

    fn update(&self, node: &str, view: Option<ProgressView>) {
        let mut told = self.lock();
        match view {
            Some(view) => told.nodes.insert(node.to_owned(), (view, Instant::now())),
            // What does not answer gets old.
            None => None,
        };
    }

    /// The other nodes that work on the job.
    fn others(&self, shared: &Shared) -> Vec<Node> {
        let reader = shared.replica.reader();
        let work = Works(&reader).of(&self.job).ok().flatten();
        let pairs = work.map(|work| work.pairs).unwrap_or_default();
        let mut rows: Vec<Node> = reader.objects().unwrap_or_default();
        rows.retain(|row| {
            row.name != shared.config.node && pairs.iter().any(|pair| pair.node == row.name)
        });
        rows
    }

    fn ask(
        &self,
        shared: &Shared,
        node: &Node,
        goes_on: &dyn Fn() -> bool,
    ) -> Option<ProgressView> {
        let goes_on = || goes_on() && !self.lock().has_ended;
        let mut jobs = elsewhere::ask(shared, node, &goes_on)?.into_iter();
        let job = jobs.find(|job| job.works && job.id == self.job);
        Some(job.map(|job| job.progress).unwrap_or_default())
    }
}
