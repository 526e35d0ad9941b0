//! Takes the samples of an attempt, with the hosts of both ends.
//! Writes no file: `history` does.

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_api::ask::Peer;
use godwit_api::rest::{ProgressView, SampleView, Timestamp};

use super::{AttemptEvents, Observed};
use crate::asking::hosts;

impl AttemptEvents {
    /// Records the node at the other end of the attempt's transfer.
    pub(in crate::attempt) fn has_other_end(&self, node: Peer) {
        self.lock().other_end = Some(node);
    }

    /// Takes a sample, if one is due, and adds the figures of the hosts to the view.
    pub(super) fn sampled(&self, observed: &mut Observed, view: &mut ProgressView) {
        if let Some(node) = &observed.other_end {
            view.other_host = hosts::of_other(&self.reports.asking, node);
        }
        if observed.recorder.is_due() {
            let rate = observed.rate(view.at, observed.written);
            let sample = self.sample(observed, view, rate);
            observed.recorder.sample(sample);
        }
        let last = observed.recorder.last();
        view.host = last.map_or_else(BTreeMap::new, |sample| sample.host.clone());
    }

    pub(super) fn sample(
        &self,
        observed: &mut Observed,
        view: &ProgressView,
        rate: f64,
    ) -> SampleView {
        SampleView {
            at: view.at,
            attempt: self.attempt,
            bytes: view.bytes,
            files: view.files,
            bytes_per_second: rate,
            streams: view.streams,
            moved: view.moved,
            held: observed.held,
            bottleneck: view.bottleneck,
            forecast: view.forecast,
            stages: view.stages.clone(),
            host: observed.host.figures(),
            other_host: view.other_host.clone(),
            nodes: view.nodes.clone(),
            site: None,
            node: None,
        }
    }
}

impl Observed {
    /// The rate since the last sample, by the bytes until then and now. Files that are found complete are no bytes of these: they would be
    /// a rate that no limit holds.
    pub(super) fn rate(&mut self, at: Timestamp, bytes: u64) -> f64 {
        match self.sampled.replace((at, bytes)) {
            Some((then, before)) => per_second(bytes.saturating_sub(before), (then, at)),
            None => 0.0,
        }
    }
}

/// The rate of these bytes between two times.
pub(in crate::attempt) fn per_second(bytes: u64, (then, at): (Timestamp, Timestamp)) -> f64 {
    let seconds = Duration::from_millis(at.0.saturating_sub(then.0).unsigned_abs());
    #[expect(
        clippy::cast_precision_loss,
        reason = "a rate needs no more than 53 bits"
    )]
    let bytes = bytes as f64;
    bytes / seconds.as_secs_f64().max(0.001)
}
