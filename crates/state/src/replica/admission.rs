//! Owns the checks of a command before it is in the log: the proposing node, the time, the size, the level, and the rights of the node.
//! Does not decide; `apply` does.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Options, ProposeError};
use crate::model::{
    COMMAND_BYTES_MAX, Change, Command, CommandError, LEVEL_FIRST, Node, Op, Timestamp, Webhook,
};
use crate::read::{Agreed, Reader};
use crate::{apply, bounds};

/// Admits commands to the log.
#[derive(Debug)]
pub(super) struct Admission {
    reader: Arc<Reader>,
    /// Number of this node.
    number: u64,
    /// Describes why the name of a time zone is invalid.
    zone_trouble: fn(&str) -> Option<String>,
}

impl Admission {
    pub(super) fn new(reader: Arc<Reader>, options: &Options) -> Self {
        Self {
            reader,
            number: options.voter,
            zone_trouble: options.zone_trouble,
        }
    }

    /// Sets the proposing node of the command, and ignores the value in the command.
    pub(super) fn stamp(&self, from: u64, command: &mut Command) -> Result<(), ProposeError> {
        match Agreed(&self.reader).origin(from) {
            Ok(via) => command.actor.via = via,
            // If a node cannot read its own state, the command still goes to the log, whose failure is permanent. The node then ends and
            // reports the reason.
            Err(_) if from == self.number => command.actor.via = None,
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }

    /// Checks that the follower with the number `from` may propose the command.
    pub(super) fn check_follower(&self, from: u64, command: &Command) -> Result<(), ProposeError> {
        // A state without rows of nodes belongs to a node that has just begun to join.
        if self.reader.objects::<Node>()?.is_empty() {
            return Ok(());
        }
        let checked = self
            .reader
            .with(|db| apply::check_follower(db, from, command))?;
        checked.map_err(ProposeError::Refused)
    }

    /// Refuses commands that the state would refuse, before they are in the log.
    pub(super) fn check(&self, command: &Command) -> Result<(), ProposeError> {
        let bytes = serde_json::to_vec(command).map_or(usize::MAX, |json| json.len());
        if bytes > COMMAND_BYTES_MAX {
            return Err(ProposeError::TooLarge { bytes });
        }
        // A node that cannot read the command would end. The state refuses the command too, but only when the command is already in the
        // log.
        let needs = command.level();
        if needs > LEVEL_FIRST {
            let level = Agreed(&self.reader).level()?;
            if needs > level {
                return Err(ProposeError::Refused(CommandError::below(needs, level)));
            }
        }
        self.check_join(command)?;
        check_owner(command)?;
        self.check_zone(command)
    }

    /// Checks that a joining node may join. Any client may ask, so nothing is recorded unless the invitation is valid.
    fn check_join(&self, command: &Command) -> Result<(), ProposeError> {
        let checked = self.reader.with(|db| apply::check_join(db, command))?;
        checked.map_err(ProposeError::Refused)
    }

    /// Refuses a limit or a schedule in a time zone that this program does not know. Its times would be wrong.
    fn check_zone(&self, command: &Command) -> Result<(), ProposeError> {
        let zone = match &command.op {
            Op::Limit(Change::Create(limit) | Change::Put(limit)) => &limit.time_zone,
            Op::Schedule(Change::Create(schedule) | Change::Put(schedule)) => &schedule.time_zone,
            _ => return Ok(()),
        };
        match (self.zone_trouble)(zone) {
            Some(what) => {
                let invalid = CommandError::invalid("time_zone", what);
                Err(ProposeError::Refused(invalid))
            }
            None => Ok(()),
        }
    }
}

/// Refuses a webhook whose owner is longer than a name, because each change of a job reads all webhooks. The effect of a log entry does not
/// depend on it: programs of the same level admit any owner.
fn check_owner(command: &Command) -> Result<(), ProposeError> {
    match &command.op {
        Op::Webhook(Change::Create(Webhook { owner, .. }) | Change::Put(Webhook { owner, .. })) => {
            let checked = owner
                .as_ref()
                .map_or(Ok(()), |owner| bounds::name("owner", owner));
            checked.map_err(ProposeError::Refused)
        }
        _ => Ok(()),
    }
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
