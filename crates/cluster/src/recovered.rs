//! Asks the other nodes of a cluster, before this node takes part, whether a recovery left it behind.
//! Changes nothing. See `carrier` and `keeper` for refusals that come later.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use godwit_api::ask::{AskSites, ClusterQuestion, Question, code};
use godwit_state::{Node, Reader};

use crate::{known, peer};

/// Time for all answers. Nodes that are silent do not keep this node from its start.
const WITHIN: Duration = Duration::from_secs(2);

/// The refusal of a node that continues the cluster without this node. The other nodes are those of the state in the directory `state`.
#[must_use]
pub fn ask_for_recovery(
    sites: &Arc<dyn AskSites>,
    cluster: &str,
    identity: &str,
    state: &Path,
) -> Option<String> {
    // A state that cannot be read is reported when it is opened.
    let rows: Vec<Node> = Reader::new(state.join("state.db")).objects().ok()?;
    let until = Instant::now() + WITHIN;
    // Each node has one answer.
    let (sender, answers) = sync_channel(rows.len());
    for row in rows.iter().filter(|row| row.identity != identity) {
        let (sites, sender, to) = (Arc::clone(sites), sender.clone(), peer(&known(row)));
        let of = cluster.to_owned();
        let ask = move || {
            let question = Question::Cluster(Box::new(ClusterQuestion::Status { of }));
            let answer = sites.ask(Some(&to), &question, &mut |_| Instant::now() < until);
            let refused = answer
                .err()
                .filter(|refusal| refusal.code == code::RECOVERED);
            // The answer may come too late.
            let _ = sender.send(refused.map(|refusal| refusal.message));
        };
        // A node that cannot be asked is one that does not answer.
        let _ = std::thread::Builder::new()
            .name("gw-recovered".to_owned())
            .spawn(ask);
    }
    drop(sender);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if let Some(why) = answers.recv_timeout(left).ok()? {
            return Some(why);
        }
    }
}
