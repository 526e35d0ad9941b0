//! Asks another site which destinations of one job are one directory there, or lie in one another.
//! Compares no places: only that site knows the directories of its exports.

use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, Peer, PlaceOverlap, Question, code};
use godwit_api::job::Text;
use godwit_state::Site;

use super::reached::GoesOn;
use super::{Asking, reached};

/// How long the sites of one job may take to answer together.
pub(crate) const WITHIN: Duration = Duration::from_secs(5);

/// How long to wait before a busy node is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Nodes of a site that are asked: each compares the exports that it serves.
const NODES_MAX: usize = 4;

/// The pairs of these paths, export first, that overlap by the answer of any node of the site. The site has this name here. A site that
/// does not answer by then, and one that does not know the question, names no pair.
pub(crate) fn of_site(
    asking: &Asking,
    name: &str,
    paths: Vec<Text>,
    until: Instant,
    goes_on: &GoesOn<'_>,
) -> Vec<PlaceOverlap> {
    let Ok(Some(site)) = asking.this.reader().object::<Site>(name) else {
        return Vec::new();
    };
    if Instant::now() >= until {
        return Vec::new();
    }
    let others = reached::learned(&site, asking.this.now());
    let nodes = std::iter::once(reached::peer(&site)).chain(others);
    let nodes: Vec<Peer> = nodes.take(NODES_MAX).collect();
    let question = Question::Overlaps { paths };
    let asks = |node: Peer| loop {
        let within = until.saturating_duration_since(Instant::now());
        match reached::ask(asking, &node, &question, within, goes_on) {
            Ok(Answer::Overlaps(found)) => return found,
            // Many jobs of one parent may begin at once.
            Err(refusal) if refusal.code == code::BUSY && within > AGAIN_AFTER && goes_on() => {
                thread::sleep(AGAIN_AFTER);
            }
            _ => return Vec::new(),
        }
    };
    thread::scope(|scope| {
        let asked = nodes.into_iter().map(|node| scope.spawn(|| asks(node)));
        // All threads run before the first is waited for.
        let asked: Vec<_> = asked.collect();
        let found = asked.into_iter().filter_map(|asked| asked.join().ok());
        found.flatten().collect()
    })
}
