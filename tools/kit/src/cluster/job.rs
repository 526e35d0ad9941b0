//! Owns one divided job between the sites: its submission, four samples per second, and its end. Makes no
//! comparisons.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::network::{Carried, LINKS};
use super::rate::Samples;
use super::sites::Sites;

/// Interval between samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// A job that takes longer is stuck.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(180);

/// A job that runs or has ended.
pub(crate) struct Job {
    id: String,
    began: Instant,
    /// Bytes that the destination has received over time.
    pub(crate) samples: Samples,
    /// Bytes that each link of each node had carried when the job started.
    pub(crate) before: Vec<[Carried; LINKS]>,
}

impl Job {
    /// Submits a job that all nodes of the source work on.
    ///
    /// # Errors
    /// The node refuses the job.
    pub(crate) fn submit(
        sites: &Sites,
        asked: usize,
        source: &str,
        destination: &str,
    ) -> anyhow::Result<Self> {
        let source = format!("here:/data/{source}");
        let destination = format!("far:/data/{destination}");
        Self::begin(sites, asked, &[&source, &destination, "--divide", "always"])
    }

    /// Submits a job from the memory of the source to that of the destination, as a user does.
    ///
    /// # Errors
    /// The node refuses the job.
    pub(crate) fn measure(sites: &Sites, asked: usize, size: &str) -> anyhow::Result<Self> {
        Self::begin(sites, asked, &[&format!("here:mem:{size}"), "far:null:"])
    }

    fn begin(sites: &Sites, asked: usize, words: &[&str]) -> anyhow::Result<Self> {
        let before = sites.network.carried()?;
        let mut line = [&["job", "submit"][..], words].concat();
        if sites.shape.is_plain {
            line.extend(["--setting", "encryption=none"]);
        }
        let id = sites.nodes[asked].ask(&line)?;
        Ok(Self {
            id: id.trim().to_owned(),
            began: Instant::now(),
            samples: Samples::default(),
            before,
        })
    }

    /// Id of the job.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Time since the job was submitted.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The document of the job, as a node reports it.
    ///
    /// # Errors
    /// The node does not answer.
    pub(crate) fn show(&self, sites: &Sites, asked: usize) -> anyhow::Result<Value> {
        sites.nodes[asked].document(&["job", "show", &self.id, "--json"])
    }

    /// Samples the links until `is_over` accepts the document of the job, or the time is over; returns the last
    /// document.
    ///
    /// # Errors
    /// `check` fails, or the job is stuck.
    pub(crate) fn sample_until(
        &mut self,
        sites: &Sites,
        asked: usize,
        check: &dyn Fn() -> anyhow::Result<()>,
        is_over: &mut dyn FnMut(Duration, Option<&Value>) -> bool,
    ) -> anyhow::Result<Option<Value>> {
        let mut due = Instant::now();
        loop {
            check()?;
            let carried = sites.network.carried()?;
            let now = self.elapsed();
            self.samples.add(now, &carried[sites.shape.sources..]);
            // A node that has lost its leader may fail to answer for a moment.
            let document = self.show(sites, asked).ok();
            if is_over(now, document.as_ref()) {
                return Ok(document);
            }
            if self.elapsed() > STUCK_AFTER {
                bail!("stuck: {}", last(document.as_ref()));
            }
            due = (due + SAMPLE_EVERY).max(Instant::now());
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    /// Samples the links until the job has ended; returns its last document.
    ///
    /// # Errors
    /// As [`Self::sample_until`].
    pub(crate) fn wait(
        &mut self,
        sites: &Sites,
        asked: usize,
        check: &dyn Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<Value> {
        let ended = self.sample_until(sites, asked, check, &mut |_, document| {
            document.is_some_and(|job| !job["ended"].is_null())
        })?;
        ended.context("an end without a document")
    }
}

fn last(document: Option<&Value>) -> String {
    document.map_or_else(
        || "no node answers".to_owned(),
        |job| format!("{} {}", job["state"], job["reason"]),
    )
}
