//! Takes the samples of an attempt, with the hosts of both ends.
//! Writes no file: `history` does.

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_api::ask::Peer;
use godwit_api::rest::{ProgressView, SampleView};

use super::{AttemptEvents, Observed};
use crate::asking::hosts;

impl AttemptEvents {
    /// The transfer of the attempt has this node at its other end.
    pub(in crate::attempt) fn has_other_end(&self, node: Peer) {
        self.lock().other_end = Some(node);
    }

    /// Takes a sample, if one is due, and adds the figures of the hosts to the view.
    pub(super) fn sampled(&self, heard: &mut Observed, view: &mut ProgressView) {
        if let Some(node) = &heard.other_end {
            view.other_host = hosts::of_other(&self.reports.asking, node);
        }
        if heard.recorder.is_due() {
            let sample = self.sample(heard, view);
            heard.recorder.sample(sample);
        }
        let last = heard.recorder.last();
        view.host = last.map_or_else(BTreeMap::new, |sample| sample.host.clone());
    }

    pub(super) fn sample(&self, heard: &mut Observed, view: &ProgressView) -> SampleView {
        let before = heard
            .recorder
            .last()
            .map(|sample| (sample.at.0, sample.bytes));
        let rate = before.map_or(0.0, |(then, bytes)| {
            let seconds = Duration::from_millis(view.at.0.saturating_sub(then).unsigned_abs());
            #[expect(
                clippy::cast_precision_loss,
                reason = "a rate needs no more than 53 bits"
            )]
            let moved = view.bytes.saturating_sub(bytes) as f64;
            moved / seconds.as_secs_f64().max(0.001)
        });
        SampleView {
            at: view.at,
            attempt: self.attempt,
            bytes: view.bytes,
            files: view.files,
            bytes_per_second: rate,
            streams: view.streams,
            moved: view.moved,
            held: heard.held,
            bottleneck: view.bottleneck.clone(),
            forecast: view.forecast,
            stages: view.stages.clone(),
            host: heard.host.figures(),
            other_host: view.other_host.clone(),
            nodes: view.nodes.clone(),
            site: None,
            node: None,
        }
    }
}
