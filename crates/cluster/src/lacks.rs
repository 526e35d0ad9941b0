//! Owns how long the row of this node has lacked each of its exports, and marks exports that the leader found to be different.
//! Does not observe exports: `observations` does.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use godwit_state::Node;

use crate::ClusterConfig;

/// Number of beats for which a row that lacks an export has no effect: a row follows the announcement of its node.
const LACKS_FOR: u32 = 2;

/// Number of beats for which the row of this node has lacked each of its exports.
#[derive(Default)]
pub(crate) struct Lacks(Mutex<BTreeMap<String, u32>>);

impl Lacks {
    /// Makes this node refuse its exports that are missing in its row: the leader has found that their file systems are different. An
    /// export that has not answered lately is missing because this node left it out.
    pub(crate) fn mark_odd(&self, config: &ClusterConfig) {
        let Ok(rows) = config.replica.reader().objects::<Node>() else {
            return;
        };
        let own = rows.iter().find(|row| row.number == config.home.number);
        for name in &config.exports {
            let is_listed = own.is_none_or(|row| row.exports.contains(name));
            let is_odd = rows.len() > 1 && !is_listed;
            let mut lacks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let times = lacks.entry(name.clone()).or_default();
            *times = if is_odd { times.saturating_add(1) } else { 0 };
            let is_odd = *times > LACKS_FOR;
            drop(lacks);
            let Some(watched) = config.watched.get(name) else {
                continue;
            };
            if is_odd && !watched.is_odd() {
                (config.log)(&format!(
                    "cluster: the export {name} is a different file system here than at most nodes, or is not mounted; requests for this export are refused until the file system is mounted as at the other nodes"
                ));
            }
            watched.set_odd(is_odd);
        }
    }
}
