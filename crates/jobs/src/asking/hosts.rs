//! Owns the figures of this node's host, and asks for the figures of the hosts at the other ends of this node's transfers.
//! Makes no decision, and keeps no figures of ended jobs: `history` does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, Peer, Question};
use godwit_history::Host;

use super::{Asking, reached};

/// Between two looks at the own host: several nodes may ask.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Between two questions to a node.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Limit of one question.
const WITHIN: Duration = Duration::from_secs(3);

/// Older figures of another host are not shown.
const OLD_AFTER: Duration = Duration::from_secs(5);

/// Hosts at other ends: more than a node has transfers. Each has at most some 4 KiB of figures.
const OTHERS_MAX: usize = 256;

/// Figures by their names.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Hosts of both ends.
#[derive(Default)]
pub(crate) struct Hosts {
    own: Mutex<Own>,
    /// By the identity of the node.
    others: Mutex<BTreeMap<String, Other>>,
}

#[derive(Default)]
struct Own {
    host: Option<Host>,
    at: Option<Instant>,
    figures: Figures,
}

/// Host at the other end.
struct Other {
    asked: Instant,
    /// A thread waits for its answer.
    waits: bool,
    figures: Figures,
    /// When these figures came.
    at: Instant,
}

impl Hosts {
    /// The figures of this host, read at most twice a second.
    pub(crate) fn own(&self) -> Figures {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if own.at.is_none_or(|at| now.duration_since(at) >= LOOK_EVERY) {
            let host = own.host.get_or_insert_with(Host::begin);
            own.figures = host.figures();
            own.at = Some(now);
        }
        own.figures.clone()
    }

    fn others(&self) -> MutexGuard<'_, BTreeMap<String, Other>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The known figures of a host at the other end, none if they are old. Begins a question if one is due.
    fn known(&self, identity: &str, now: Instant) -> (Figures, bool) {
        let mut others = self.others();
        others.retain(|_, other| other.waits || now.duration_since(other.asked) < OLD_AFTER);
        if let Some(other) = others.get_mut(identity) {
            let is_due = !other.waits && now.duration_since(other.asked) >= ASK_EVERY;
            if is_due {
                (other.waits, other.asked) = (true, now);
            }
            let is_new = now.duration_since(other.at) < OLD_AFTER;
            let figures = is_new.then(|| other.figures.clone());
            return (figures.unwrap_or_default(), is_due);
        }
        let is_due = others.len() < OTHERS_MAX;
        if is_due {
            let other = Other {
                asked: now,
                waits: true,
                figures: Figures::new(),
                at: now,
            };
            others.insert(identity.to_owned(), other);
        }
        (Figures::new(), is_due)
    }

    /// Takes the answer of a node; `figures` is None if the node gives none.
    fn answered(&self, identity: &str, figures: Option<Figures>) {
        if let Some(other) = self.others().get_mut(identity) {
            other.waits = false;
            if let Some(figures) = figures {
                (other.figures, other.at) = (figures, Instant::now());
            }
        }
    }
}

/// One question to a node. The next question may start when this one ends, even if it fails.
struct HostQuestion {
    asking: Arc<Asking>,
    node: Peer,
    figures: Option<Figures>,
}

impl Drop for HostQuestion {
    fn drop(&mut self) {
        let hosts = &self.asking.hosts;
        hosts.answered(&self.node.identity, self.figures.take());
    }
}

/// The last figures from the host at the other end of a running transfer. The call does not wait: a thread asks
/// for the figures of the next call. An older node does not know the question, and another one refuses it between two transfers.
pub(crate) fn of_other(asking: &Arc<Asking>, node: &Peer) -> Figures {
    let hosts = &asking.hosts;
    let (figures, is_due) = hosts.known(&node.identity, Instant::now());
    if is_due {
        let mut asked = HostQuestion {
            asking: Arc::clone(asking),
            node: node.clone(),
            figures: None,
        };
        let ask = move || {
            let answer = reached::ask(
                &asked.asking,
                &asked.node,
                &Question::Host {},
                WITHIN,
                &|| true,
            );
            if let Ok(Answer::Host(figures)) = answer {
                asked.figures = Some(figures);
            }
        };
        let thread = thread::Builder::new().name("gw-host".to_owned());
        // Without a thread the question ends here.
        drop(thread.spawn(ask));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_question_at_a_time_and_no_old_figures() {
        let hosts = Hosts::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let figures = || Figures::from([("cpu_user".to_owned(), 0.5)]);
        assert_eq!(hosts.known("b", at(0)), (Figures::new(), true));
        // The node has not answered.
        assert_eq!(hosts.known("b", at(2_000)), (Figures::new(), false));
        hosts.answered("b", Some(figures()));
        assert_eq!(hosts.known("b", at(2_000)), (figures(), true));
        hosts.answered("b", None);
        assert_eq!(hosts.known("b", at(2_100)), (figures(), false));
        assert_eq!(hosts.known("b", at(6_000)).0, Figures::new());
        // A question without an answer is remembered for as long as its thread waits.
        assert_eq!(hosts.known("c", at(60_000)), (Figures::new(), true));
        assert!(hosts.others().contains_key("b"));
        hosts.answered("b", None);
        assert_eq!(hosts.known("c", at(60_000)), (Figures::new(), false));
        assert!(!hosts.others().contains_key("b"));
    }

    #[test]
    fn there_are_no_more_hosts_than_the_bound() {
        let hosts = Hosts::default();
        let now = Instant::now();
        for number in 0..2 * OTHERS_MAX {
            let (_, is_due) = hosts.known(&number.to_string(), now);
            assert_eq!(is_due, number < OTHERS_MAX);
        }
        assert_eq!(hosts.others().len(), OTHERS_MAX);
    }
}
