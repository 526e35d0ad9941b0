//! Bounds how many nodes are asked from here whether they belong to a site, because this site has named them.
//! Asks none itself, and reads no clock.
//!
//! The site chooses the addresses, and is asked for its nodes again and again while a job lasts. Without a bound the site could have a
//! network scanned from here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, Peer, Question, Refusal, code};
use godwit_api::grant::Mandate;

/// Nodes without a good answer that one site may name in a row: most nodes of a large site that is down.
const IN_A_ROW: u32 = 64;

/// After that, one more in each interval of this length.
const ONE_MORE_AFTER: Duration = Duration::from_secs(2);

/// How long a node without a good answer is not asked again, once half of the allowed nodes are used up.
const NOT_AGAIN_FOR: Duration = Duration::from_secs(60);

/// Answers of the nodes that other sites have named.
#[derive(Default)]
pub(super) struct NamedNodeAnswers(Mutex<HashMap<String, Site>>);

/// A node that a site has named, and the identity under which it counts.
pub(super) struct Named<'a> {
    by: &'a str,
    node: &'a Peer,
}

struct Site {
    left: u32,
    since: Instant,
    /// Nodes that gave no good answer, and which answer each gave.
    mute: Vec<(Peer, Instant, Refusal)>,
}

impl<'a> Named<'a> {
    /// The node that is asked whether it belongs to the site that has named it. If another node asks for
    /// a job and names a site, the nodes of that site count against the asker's bound.
    pub(super) fn of(
        mandate: Option<&'a Mandate>,
        node: Option<&'a Peer>,
        question: &'a Question,
    ) -> Option<Self> {
        let Question::Nodes { of: Some(of), .. } = question else {
            return None;
        };
        let by = mandate.map_or(of.as_str(), |mandate| &mandate.asker);
        Some(Self { by, node: node? })
    }
}

impl NamedNodeAnswers {
    /// Whether the node may be asked now.
    ///
    /// # Errors
    /// The recent answer of this node was a refusal, or too many nodes of its site gave no answer.
    pub(super) fn begin(&self, named: &Named<'_>, now: Instant) -> Result<(), Refusal> {
        let mut sites = self.lock();
        sites.retain(|_, site| site.is_of_interest(now));
        let site = sites
            .entry(named.by.to_owned())
            .or_insert_with(|| Site::new(now));
        let is_short = site.left < IN_A_ROW / 2;
        let mut mute = site.mute.iter().rev().filter(|_| is_short);
        if let Some((_, _, no)) = mute.find(|(mute, ..)| mute == named.node) {
            let message = format!("the node answered a short while ago: {}", no.message);
            return Err(Refusal {
                message,
                ..no.clone()
            });
        }
        let Some(left) = site.left.checked_sub(1) else {
            let message = "the site has recently named too many nodes that do not confirm that they belong to it";
            return Err(Refusal::later(code::UNREACHABLE, message));
        };
        site.left = left;
        Ok(())
    }

    /// Notes the answer of a node, whose texts are bounded.
    pub(super) fn end(&self, named: &Named<'_>, answer: &Result<Answer, Refusal>, now: Instant) {
        let mut sites = self.lock();
        let Some(site) = sites.get_mut(named.by) else {
            return;
        };
        let no = match answer {
            Ok(Answer::Nodes(_)) => {
                site.left = IN_A_ROW.min(site.left + 1);
                return;
            }
            Ok(_) => Refusal::new(code::BROKEN, "an answer to another question"),
            Err(no) => no.clone(),
        };
        site.mute.push((named.node.clone(), now, no));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Site>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Site {
    const fn new(now: Instant) -> Self {
        Self {
            left: IN_A_ROW,
            since: now,
            mute: Vec::new(),
        }
    }

    /// Adds the attempts that have come due, and forgets old entries; returns whether anything is left to know.
    fn is_of_interest(&mut self, now: Instant) -> bool {
        while self.left < IN_A_ROW && now.duration_since(self.since) >= ONE_MORE_AFTER {
            self.left += 1;
            self.since += ONE_MORE_AFTER;
        }
        if self.left == IN_A_ROW {
            self.since = now;
        }
        self.mute
            .retain(|(_, at, _)| now.duration_since(*at) < NOT_AGAIN_FOR);
        !self.mute.is_empty() || self.left < IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use godwit_api::ask::{AskSites, GoOn};
    use godwit_api::job::Text;
    use godwit_controller::of_site;

    use super::*;
    use crate::asking::border::Bordered;

    fn node(number: u32) -> Peer {
        Peer {
            name: format!("n{number}"),
            addresses: vec![format!("192.0.2.{number}")],
            identity: format!("gw1-{number}"),
        }
    }

    /// Counts the questions, and answers nothing.
    #[derive(Default)]
    struct Mute(AtomicU32);

    impl AskSites for Mute {
        fn ask_for(
            &self,
            _: Option<&Mandate>,
            _: Option<&Peer>,
            _: &Question,
            _: &mut GoOn<'_>,
        ) -> Result<Answer, Refusal> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(Refusal::later(code::UNREACHABLE, "no"))
        }

        fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
            Err(Refusal::later(code::UNREACHABLE, "no"))
        }
    }

    #[test]
    fn whatever_asks_for_this_node_asks_within_the_bound() {
        let mute = Arc::new(Mute::default());
        let nobody = Arc::new(|_: &str| Ok(false));
        let sites = Bordered::new(Arc::clone(&mute) as Arc<dyn AskSites>, nobody);
        let known = node(0);
        for number in 0..200 {
            let ask = |one: &Peer, question: &Question, _| {
                sites.ask_for(None, Some(one), question, &mut |_| true)
            };
            let named = vec![node(number)];
            let found = of_site(named, &known, &Text::from("data"), &|_| false, &ask);
            assert!(found.is_empty());
        }
        let dialled = mute.0.load(Ordering::Relaxed);
        assert!((IN_A_ROW..IN_A_ROW + 30).contains(&dialled), "{dialled}");
    }

    /// Asks whether the node is of the site; returns whether the question was let through.
    fn is_asked(asked: &NamedNodeAnswers, number: u32, good: bool, now: Instant) -> bool {
        let question = Question::Nodes {
            path: Text::from("data"),
            of: Some("gw1-known".to_owned()),
        };
        let node = node(number);
        let named = Named::of(None, Some(&node), &question).expect("such a question");
        let may = asked.begin(&named, now).is_ok();
        if may {
            let answer = match good {
                true => Ok(Answer::Nodes(Vec::new())),
                false => Err(Refusal::later(code::UNREACHABLE, "no")),
            };
            asked.end(&named, &answer, now);
        }
        may
    }

    #[test]
    fn a_site_that_is_asked_again_and_again_has_few_of_its_addresses_tried() {
        let (asked, start) = (NamedNodeAnswers::default(), Instant::now());
        let mut tried = 0;
        for second in 0..600_u32 {
            let now = start + Duration::from_secs(second.into());
            // Other addresses each time.
            let named = (0..8).map(|number| 8 * second + number);
            let of_second = named.filter(|number| is_asked(&asked, *number, false, now));
            tried += u32::try_from(of_second.count()).expect("few");
        }
        assert!((300..=IN_A_ROW + 300).contains(&tried), "{tried} tried");
    }

    /// A known node that refused may have left its site. A node that was not reached has not.
    #[test]
    fn a_node_that_refused_is_named_as_one_that_refused() {
        let (asked, now) = (NamedNodeAnswers::default(), Instant::now());
        for number in 0..=IN_A_ROW / 2 {
            assert!(is_asked(&asked, number, false, now));
        }
        let question = Question::Nodes {
            path: Text::from("data"),
            of: Some("gw1-known".to_owned()),
        };
        let refused = node(100);
        let named = Named::of(None, Some(&refused), &question).expect("such a question");
        asked.begin(&named, now).expect("not asked before");
        let no = Refusal::new(code::OTHER_CLUSTER, "no node of this site");
        asked.end(&named, &Err(no), now);
        let again = asked.begin(&named, now).expect_err("too soon");
        assert_eq!(again.code, code::OTHER_CLUSTER, "{again:?}");
        assert!(!again.retryable, "{again:?}");
        let silent = node(1);
        let named = Named::of(None, Some(&silent), &question).expect("such a question");
        let again = asked.begin(&named, now).expect_err("too soon");
        assert_eq!(again.code, code::UNREACHABLE, "{again:?}");
    }

    #[test]
    fn nodes_that_answer_cost_nothing_and_those_that_do_not_are_left_alone_for_a_time() {
        let (asked, start) = (NamedNodeAnswers::default(), Instant::now());
        for number in 0..1_000 {
            assert!(is_asked(&asked, number, true, start));
        }
        // Two in a row of the same node may be a restart.
        for number in [1, 1].into_iter().chain(2..=34) {
            assert!(is_asked(&asked, number, false, start));
        }
        let soon = start + ONE_MORE_AFTER;
        assert!(!is_asked(&asked, 1, true, soon));
        assert!(is_asked(&asked, 100, true, soon));
        assert!(is_asked(&asked, 1, true, start + NOT_AGAIN_FOR));
    }
}
