//! Owns the reports to the operator of this node: lines of the log, refusals, and counted strangers. Peers cause a bounded number of them.
//! Does not make the reports about transfers; `news` does.

use std::sync::Arc;
use std::time::Instant;

use godwit_api::ask::Refusal;
use godwit_api::failure::{FailureCode, Scope};
use godwit_api::record::{NewsSink, StrangerAction, TransferNews, TransferRefusal};
use godwit_net::IdentityId;
use godwit_proto::{ErrorCode, Open};

use crate::DaemonConfig;
use crate::allow::Denial;
use crate::news;
use crate::noise::Noise;

/// Reports to the operator.
pub(crate) struct Operator {
    tells: Arc<NewsSink>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
    /// Bounds what peers can cause.
    pub(crate) noise: Noise,
}

impl Operator {
    pub(crate) fn of(config: &DaemonConfig) -> Self {
        Self {
            tells: Arc::clone(&config.tells),
            log: Arc::clone(&config.log),
            noise: Noise::default(),
        }
    }

    /// Reports a transfer.
    pub(crate) fn report(&self, news: &TransferNews) {
        (self.tells)(news);
    }

    /// Logs a line that no peer can repeat. See [`Self::log_peer`] for others.
    pub(crate) fn log(&self, line: &str) {
        (self.log)(line);
    }

    /// Logs a line that this peer caused, unless it caused too many recently.
    pub(crate) fn log_peer(&self, peer: IdentityId, line: &str) {
        if let Some(left_out) = self.noise.refusal(peer, Instant::now()) {
            self.log(&news::for_operator(line, left_out));
        }
    }

    /// Counts a stranger, and logs its action, unless strangers caused too many lines recently.
    pub(crate) fn log_stranger(&self, did: StrangerAction, line: &str) {
        self.report(&TransferNews::Stranger(did));
        match self.noise.line(Instant::now()) {
            Some(0) => self.log(line),
            Some(more) => self.log(&format!(
                "{line} ({more} lines about unknown peers were left out)"
            )),
            None => {}
        }
    }

    /// Reports a refusal. `request` is `None` if a peer only asked about this side.
    pub(crate) fn refused(
        &self,
        peer: IdentityId,
        address: &str,
        request: Option<&Open>,
        no: &Denial,
    ) {
        let probe = request.and_then(news::probe);
        // The place was searched, so the peer has access; a doctor expects this answer.
        if probe.is_some() && matches!(no.code, ErrorCode::SOURCE | ErrorCode::DESTINATION) {
            return;
        }
        let code = FailureCode::of_number(Scope::Job, no.code.0);
        let is_stranger = no.is_of_stranger();
        let left_out = match is_stranger {
            true => self.is_worth_a_line(StrangerAction::Ask).then_some(0),
            false => self.noise.refusal(peer, Instant::now()),
        };
        let Some(left_out) = left_out else {
            return;
        };
        // A stranger chooses the text of the places.
        let request_of_peer = request.filter(|_| !is_stranger);
        self.report(&TransferNews::Refused(TransferRefusal {
            identity: peer.to_string(),
            peer: address.to_owned(),
            direction: request.map(news::direction),
            places: match (&probe, request_of_peer) {
                (Some(place), Some(_)) => vec![news::clip_place(place.clone())],
                (_, request) => request.map(news::places).unwrap_or_default(),
            },
            code: code.into(),
            message: match probe {
                Some(_) => news::for_operator(&news::of_doctor(&no.message), left_out),
                None => news::for_operator(&no.message, left_out),
            },
        }));
    }

    /// Reports that a question of another node was refused, unless there were too many recently.
    pub(crate) fn refused_answer(&self, peer: IdentityId, address: &str, no: &Refusal) {
        if let Some(left_out) = self.noise.refusal(peer, Instant::now()) {
            self.report_refusal(peer, address, no, left_out);
        }
    }

    /// Reports that a question about the cluster by a node without a grant was refused. An attempt to join is only counted.
    pub(crate) fn refused_stranger(
        &self,
        peer: IdentityId,
        address: &str,
        did: StrangerAction,
        no: &Refusal,
    ) {
        if self.is_worth_a_line(did) {
            self.report_refusal(peer, address, no, 0);
        }
    }

    fn report_refusal(&self, peer: IdentityId, address: &str, no: &Refusal, left_out: u64) {
        self.report(&TransferNews::Refused(TransferRefusal {
            identity: peer.to_string(),
            peer: address.to_owned(),
            direction: None,
            places: Vec::new(),
            code: no.code.clone(),
            message: news::for_operator(&no.to_string(), left_out),
        }));
    }

    /// Counts a stranger. Returns whether its refusal is worth a line, which is false if there were many recently.
    fn is_worth_a_line(&self, did: StrangerAction) -> bool {
        self.report(&TransferNews::Stranger(did));
        did != StrangerAction::Join && self.noise.line(Instant::now()).is_some()
    }
}
