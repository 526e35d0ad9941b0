//! Remembers when the flows were looked at, and which hops may not start: a refusal is not repeated in each pass.
//! Decides no refusal, and is lost with the node.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_state::Flow;

/// The hops that were refused, each with the end of its rest and the reason.
#[derive(Default)]
struct Kept {
    looked: Option<Instant>,
    refused: HashMap<String, HashMap<u32, (Instant, String)>>,
}

/// The rests of all flows.
#[derive(Default)]
pub(crate) struct FlowRests(Mutex<Kept>);

impl FlowRests {
    /// How long a refused hop rests.
    pub(crate) const REST: Duration = Duration::from_secs(10);

    /// Records that all flows are looked at now. Returns how long to wait if the last look was less than `every` ago.
    pub(super) fn look(&self, now: Instant, every: Duration) -> Option<Duration> {
        let mut kept = self.lock();
        let since = kept
            .looked
            .map(|looked| now.saturating_duration_since(looked));
        let left = since.and_then(|since| every.checked_sub(since));
        match left.filter(|left| !left.is_zero()) {
            Some(left) => Some(left),
            None => {
                kept.looked = Some(now);
                None
            }
        }
    }

    /// How long a hop still rests.
    pub(super) fn rest_of(&self, flow: &str, hop: u32, now: Instant) -> Option<Duration> {
        let kept = self.lock();
        let (until, _) = kept.refused.get(flow)?.get(&hop)?;
        Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Lets a hop rest. Returns whether the reason is new.
    pub(super) fn refuse(&self, flow: &str, hop: u32, why: &str, now: Instant) -> bool {
        let mut kept = self.lock();
        let hops = kept.refused.entry(flow.to_owned()).or_default();
        let before = hops.insert(hop, (now + Self::REST, why.to_owned()));
        before.is_none_or(|(_, before)| before != why)
    }

    /// Forgets all flows but these.
    pub(super) fn retain(&self, flows: &[Flow]) {
        let mut kept = self.lock();
        if kept.refused.is_empty() {
            return;
        }
        let ids: HashSet<&str> = flows.iter().map(|flow| flow.id.as_str()).collect();
        kept.refused.retain(|id, _| ids.contains(id.as_str()));
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_hop_rests_alone_and_says_each_reason_once() {
        let (rests, now) = (FlowRests::default(), Instant::now());
        assert!(rests.refuse("night", 0, "no right", now));
        assert!(!rests.refuse("night", 0, "no right", now));
        assert!(rests.refuse("night", 0, "no site", now));
        assert_eq!(rests.rest_of("night", 0, now), Some(FlowRests::REST));
        assert_eq!(rests.rest_of("night", 1, now), None);
        assert_eq!(rests.rest_of("night", 0, now + FlowRests::REST), None);
        rests.retain(&[]);
        assert_eq!(rests.lock().refused.len(), 0);
    }

    #[test]
    fn flows_are_looked_at_once_in_a_while() {
        let (rests, now) = (FlowRests::default(), Instant::now());
        let every = Duration::from_secs(1);
        let half = Duration::from_millis(500);
        assert_eq!(rests.look(now, every), None);
        assert_eq!(rests.look(now + half, every), Some(half));
        assert_eq!(rests.look(now + every, every), None);
        assert_eq!(rests.look(now + every, every), Some(every));
    }
}
