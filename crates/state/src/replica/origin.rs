//! Owns what a replica finds out about a command before it is in the log: which node proposes it, when, and whether that node may.
//! Decides nothing by itself: `apply` does.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{ProposeError, Replica};
use crate::apply;
use crate::model::{Change, Command, CommandError, Node, Op, Timestamp};
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

/// Sets the time of a command that another node proposed: the leader's present. No member makes a rule last longer, an invitation good
/// again, or history end sooner by a clock that is wrong.
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

/// Refuses a limit or a schedule in a time zone that this program does not know, whoever proposes it: its times would count as others.
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
