//! Owns the checks of a command before it is in the log: the proposing node, the time, and the rights of the node. Does not decide;
//! `apply` does.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{ProposeError, Replica};
use crate::apply;
use crate::model::{Change, Command, CommandError, Node, Op, Timestamp};
use crate::read::Agreed;

/// Sets the proposing node of the command, and ignores the value in the command.
pub(super) fn stamp(
    replica: &Replica,
    from: u64,
    command: &mut Command,
) -> Result<(), ProposeError> {
    match Agreed(&replica.reader).origin(from) {
        Ok(via) => command.actor.via = via,
        // If a node cannot read its own state, the command still goes to the log, whose failure is permanent. The node then ends and
        // reports the reason.
        Err(_) if from == replica.options.voter => command.actor.via = None,
        Err(fault) => return Err(fault.into()),
    }
    Ok(())
}

/// Sets the time of a command from another node to the leader's present. Therefore no member with a wrong clock can extend a rule, revive
/// an invitation, or delete history early.
pub(super) fn set_time(now: Timestamp, command: &mut Command) {
    command.at = now;
    if let Op::Prune(prune) = &mut command.op {
        for before in [
            &mut prune.jobs_before,
            &mut prune.audit_before,
            &mut prune.deliveries_before,
            &mut prune.tokens_before,
        ] {
            *before = before.map(|before| before.min(now));
        }
    }
}

/// Milliseconds since 1970-01-01 UTC by the clock of this machine.
pub(super) fn machine_time() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Checks that the follower with the number `from` may propose the command.
pub(super) fn check(replica: &Replica, from: u64, command: &Command) -> Result<(), ProposeError> {
    // A state without rows of nodes belongs to a node that has just begun to join.
    if replica.reader.objects::<Node>()?.is_empty() {
        return Ok(());
    }
    let checked = replica
        .reader
        .with(|db| apply::check_follower(db, from, command))?;
    checked.map_err(ProposeError::Refused)
}

/// Checks that a joining node may join. Any client may ask, so nothing is recorded unless the invitation is valid.
pub(super) fn check_join(replica: &Replica, command: &Command) -> Result<(), ProposeError> {
    let checked = replica.reader.with(|db| apply::check_join(db, command))?;
    checked.map_err(ProposeError::Refused)
}

/// Refuses a limit or a schedule in a time zone that this program does not know. Its times would be wrong.
pub(super) fn check_zone(replica: &Replica, command: &Command) -> Result<(), ProposeError> {
    let zone = match &command.op {
        Op::Limit(Change::Create(limit) | Change::Put(limit)) => &limit.time_zone,
        Op::Schedule(Change::Create(schedule) | Change::Put(schedule)) => &schedule.time_zone,
        _ => return Ok(()),
    };
    match (replica.options.zone_trouble)(zone) {
        Some(what) => Err(ProposeError::Refused(CommandError::invalid(
            "time_zone",
            what,
        ))),
        None => Ok(()),
    }
}
