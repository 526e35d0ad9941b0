//! Owns the labels of the figures that this node counts itself, and the names that they may have.
//! Counts nothing.

use std::fmt;

use godwit_api::record::{TransferDirection, TransferStart};
use godwit_api::rest::HERE;
use godwit_jobs::{is_for_other_site, runs_elsewhere};
use godwit_state::{AttemptOutcome, Job, JobState, Reader};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// All outcomes of attempts that the state knows.
pub(super) const OUTCOMES: [&str; 9] = [
    JobState::Complete.name(),
    JobState::Partial.name(),
    JobState::Failed.name(),
    JobState::Cancelled.name(),
    JobState::Paused.name(),
    JobState::Queued.name(),
    JobState::Scheduled.name(),
    AttemptOutcome::BACKOFF,
    AttemptOutcome::RESTART,
];

/// All outcomes of transfers that figures distinguish.
pub(super) const ENDS: [&str; 4] = ["complete", "partial", "interrupted", "failed"];

/// Directions of transfers: those of peers, and those that only a job of this node can have.
pub(super) const DIRECTIONS: [TransferDirection; 5] = [
    TransferDirection::Receive,
    TransferDirection::Send,
    TransferDirection::Verify,
    TransferDirection::Local,
    TransferDirection::ThirdParty,
];

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct StateLabel {
    pub(super) state: StaticText,
    /// As [`asked_of`].
    pub(super) asked: StaticText,
}

/// The value of a label for this site, or for another one.
pub(super) const fn site(is_elsewhere: bool) -> StaticText {
    StaticText(if is_elsewhere { "elsewhere" } else { HERE })
}

/// The site that a job was given to, and which may have asked this one to run it. A sum over several sites takes `here`, so that each
/// job counts once, also if no site could run it. A job that the state no longer has counts as one of this site.
pub(super) fn asked_of(job: Option<&Job>) -> StaticText {
    site(job.is_some_and(|job| is_for_other_site(&job.owner)))
}

/// Which site runs the transfer of a job. A sum over several sites takes `here`, so that each job counts once.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct RunsLabel {
    pub(super) runs: StaticText,
}

impl RunsLabel {
    /// This site, and another one.
    pub(super) const ALL: [Self; 2] = [Self::of(false), Self::of(true)];

    const fn of(elsewhere: bool) -> Self {
        Self {
            runs: site(elsewhere),
        }
    }

    /// The label of a job. A job that the state no longer has counts as one of this site.
    pub(super) fn of_job(reader: &Reader, job: Option<&Job>) -> Self {
        Self::of(job.is_some_and(|job| runs_elsewhere(reader, job)))
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct OutcomeLabel {
    pub(super) outcome: StaticText,
    /// As [`asked_of`].
    pub(super) asked: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct TransferLabel {
    pub(super) direction: StaticText,
    pub(super) outcome: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct PeerLabel {
    pub(super) peer: String,
    pub(super) direction: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct StageLabel {
    pub(super) stage: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct StrangerLabel {
    pub(super) did: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct RequestLabel {
    pub(super) method: StaticText,
    pub(super) route: String,
    pub(super) status: u16,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct RouteLabel {
    pub(super) route: String,
}

/// The name that figures give to the peer of a transfer. A job for another site counts under that site. As in the outline of the job and in the
/// rates, viewers may not see its other end.
pub(super) fn peer_of(start: &TransferStart) -> Option<&String> {
    let peer = start.identity.as_ref().or(start.peer.as_ref())?;
    let asker = start
        .owner
        .as_ref()
        .filter(|owner| is_for_other_site(owner));
    Some(asker.unwrap_or(peer))
}

/// A text that the program has.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct StaticText(pub(super) &'static str);

impl EncodeLabelValue for StaticText {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_a_job_for_another_site_is_in_no_figure() {
        let start = |owner: &str, identity: Option<&str>, peer: Option<&str>| TransferStart {
            id: "t".to_owned(),
            job: Some("j".to_owned()),
            identity: identity.map(ToOwned::to_owned),
            peer: peer.map(ToOwned::to_owned),
            owner: Some(owner.to_owned()),
            direction: TransferDirection::Send,
            places: Vec::new(),
            label: None,
            request: None,
            encryption: None,
            counted_as: Vec::new(),
        };
        let named = |start: &TransferStart| peer_of(start).cloned();
        let guest = start("site:gw1-x", None, Some("secret-site"));
        assert_eq!(named(&guest).as_deref(), Some("site:gw1-x"));
        let own = start("otto", None, Some("siteB"));
        assert_eq!(named(&own).as_deref(), Some("siteB"));
        let peer = start("otto", Some("gw1-y"), Some("siteB"));
        assert_eq!(named(&peer).as_deref(), Some("gw1-y"));
        assert_eq!(named(&start("site:gw1-x", None, None)), None);
    }
}
