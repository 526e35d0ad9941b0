//! Owns what a replica finds out about a command before it is in the log: which node proposes it, and whether that node may.
//! Decides nothing by itself: `apply` does.

use super::{ProposeError, Replica};
use crate::apply;
use crate::model::{Command, Node};
use crate::read::Agreed;

/// Notes which node proposes the command, whatever the command says.
pub(super) fn stamp(
    replica: &Replica,
    from: u64,
    command: &mut Command,
) -> Result<(), ProposeError> {
    match Agreed(&replica.reader).origin(from) {
        Ok(via) => command.actor.via = via,
        // A node that cannot read its own state goes on to the log, which fails for good: then the node ends and says why.
        Err(_) if from == replica.options.voter => command.actor.via = None,
        Err(fault) => return Err(fault.into()),
    }
    Ok(())
}

/// Whether the node with the number `from`, which does not lead, may propose the command.
pub(super) fn check(replica: &Replica, from: u64, command: &Command) -> Result<(), ProposeError> {
    // A state without rows of nodes is that of a node which has just begun to join.
    if replica.reader.objects::<Node>()?.is_empty() {
        return Ok(());
    }
    let checked = replica
        .reader
        .with(|db| apply::check_follower(db, from, command))?;
    checked.map_err(ProposeError::Refused)
}

/// Whether the node of a join may join. Anybody may ask for it, so nothing of it is written down unless the invitation is good.
pub(super) fn check_join(replica: &Replica, command: &Command) -> Result<(), ProposeError> {
    let checked = replica.reader.with(|db| apply::check_join(db, command))?;
    checked.map_err(ProposeError::Refused)
}
