//! Reports to the state why a running job is slower than it could be: nothing reaches the other end, or nodes of it cannot write.
//! Ends no attempt.

use godwit_api::event::ConnectionLost;
use godwit_api::failure::FailureCode;
use godwit_state::Reason;

use super::AttemptEvents;
use crate::basis::words::clip;

impl AttemptEvents {
    /// The job continues without some nodes of the destination, or with all of them again. If another site asked for the job, it gets no
    /// names of nodes.
    pub(crate) fn goes_on_without(&self, nodes: Option<Reason>, names: bool) {
        let mut observed = self.lock();
        let said = |before: &str, after: &str| {
            let nodes = nodes.as_ref()?;
            let named = match names {
                true => format!(" {}.", nodes.text),
                false => String::new(),
            };
            let text = format!("{before}{named}{after}");
            Some(Reason::new(nodes.code.clone(), clip(&text)))
        };
        let now = said(
            "The job goes on without nodes of the destination that could not write.",
            " They are tried again.",
        );
        let ended = said(
            "Nodes of the destination could not write, and the others did their part.",
            "",
        );
        observed.without = ended.or_else(|| observed.without.take());
        let (phase, is_lost) = (observed.phase, observed.lost);
        drop(observed);
        if !is_lost {
            self.report(phase, now);
        }
    }

    /// Nothing reaches the other end: the state gets one report.
    pub(super) fn connection_lost(&self, lost: &ConnectionLost) {
        let mut observed = self.lock();
        if lost.channel.is_some() || std::mem::replace(&mut observed.lost, true) {
            return;
        }
        let phase = observed.phase;
        drop(observed);
        let text = format!(
            "No connection since {}: {}. The attempt continues for up to {} and then ends; the job is then retried.",
            self.reports.this.now().utc(),
            lost.why,
            span(lost.retry_for_seconds)
        );
        self.report(
            phase,
            Some(Reason::new(FailureCode::ConnectionLost, clip(&text))),
        );
    }

    pub(super) fn connection_regained(&self) {
        let mut observed = self.lock();
        if std::mem::replace(&mut observed.lost, false) {
            let phase = observed.phase;
            drop(observed);
            self.report(phase, None);
        }
    }
}

/// A time span in whole seconds or minutes.
fn span(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
}
