//! Owns the effect of each command on the database. The same commands produce the same rows on every replica. Reads
//! no clock and draws no random number. Does not begin or commit transactions.

mod claims;
mod families;
mod flows;
mod history;
mod invites;
mod jobs;
mod nodes;
mod notices;
mod objects;
mod origin;
mod schedules;
mod sites;
mod tokens;
mod users;
mod work;

pub use jobs::check_job;
pub(crate) use origin::SITE;

use rusqlite::{Connection, ErrorCode};

use crate::model::{
    Actor, Applied, AuditOutcome, COMMAND_VERSION, Command, CommandError, Effect, Invite,
    LEVEL_FIRST, LEVEL_LEFT, LEVEL_ORIGIN, Op, Timestamp,
};
use crate::read::committed_level;
use crate::seal;
use flows::Flows;
use invites::Invites;
use notices::Notices;
use objects::Objects;
use schedules::Schedules;
use sites::Sites;
use tokens::Tokens;
use users::Users;

/// The context of a command that is being applied.
pub(crate) struct Context<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) index: u64,
    pub(crate) at: Timestamp,
    pub(crate) actor: &'a Actor,
    pub(crate) action: String,
}

/// Why a command was not applied.
pub(crate) enum Stop {
    /// The command is at fault, with the same result on every replica.
    Refused(CommandError),
    /// This machine is at fault.
    Broken(rusqlite::Error),
}

impl From<CommandError> for Stop {
    fn from(error: CommandError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Stop {
    /// An error that depends on the content alone occurs on every replica, so it must not end the replicas one after
    /// another.
    fn from(error: rusqlite::Error) -> Self {
        let of_content = match &error {
            rusqlite::Error::SqliteFailure(failure, _) => matches!(
                failure.code,
                ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch
            ),
            // Other replicas have the undamaged row.
            _ => seal::broken(&error).is_none(),
        };
        if of_content {
            Self::Refused(CommandError::Internal {
                what: error.to_string(),
            })
        } else {
            Self::Broken(error)
        }
    }
}

impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        Self::Refused(CommandError::Internal {
            what: error.to_string(),
        })
    }
}

/// Applies `command`. A refused command leaves rows that the caller rolls back.
pub(crate) fn apply(db: &Connection, index: u64, command: &Command) -> Result<Effect, Stop> {
    let context = Context {
        db,
        index,
        at: command.at,
        actor: &command.actor,
        action: command.op.action(),
    };
    if command.version == 0 || command.version > COMMAND_VERSION {
        let what = format!("{}; this program knows {COMMAND_VERSION}", command.version);
        return Err(CommandError::invalid("version", what).into());
    }
    crate::bounds::name("actor", &command.actor.name)?;
    let needs = command.level();
    if needs > LEVEL_FIRST {
        let level = committed_level(db)?;
        if needs > level {
            return Err(CommandError::below(needs, level).into());
        }
    }
    if let Some(number) = command.actor.via {
        origin::check(db, number, command)?;
    }
    match &command.op {
        Op::Submit(job) => jobs::submit(&context, job, None),
        Op::SubmitFamily(new) => families::submit(&context, &new.parent, &new.children, None),
        Op::Job(id, op) => jobs::change(&context, id, op),
        Op::Work(id, op) => work::change(&context, id, op),
        Op::Restart(runner) => claims::restart(&context, runner),
        Op::Lost(node) => nodes::lost(&context, node),
        Op::Join(join) => nodes::join(&context, join),
        Op::Node(change) => nodes::change(&context, change),
        Op::Level(level) => nodes::raise(&context, *level),
        Op::Invite(change) => Invites(&context).change(change),
        Op::Prune(prune) => history::prune(&context, prune),
        Op::Site(change) => Sites(&context).change(change),
        Op::Learn(learn) => Sites(&context).learn(learn),
        Op::Sighted(seen) => Sites(&context).sighted(seen),
        Op::Schedule(change) => Schedules(&context).change(change),
        Op::Fired {
            schedule,
            tick,
            job,
            children,
            reason,
        } => {
            let job = job.as_deref().map(|job| (job, children.as_slice()));
            Schedules(&context).fired(schedule, *tick, job, reason.as_ref())
        }
        Op::Flow(change) => Flows(&context).change(change),
        Op::FlowRun(run) => Flows(&context).run(run),
        Op::User(change) => Users(&context).change(change),
        Op::Password(new) => Users(&context).password(new),
        Op::Token(change) => Tokens(&context).change(change),
        Op::ProvenToken(new) => Tokens(&context).proven(new),
        Op::Revoke(which) => Tokens(&context).revoke(which),
        Op::Access(change) => Sites(&context).rule(change),
        Op::Limit(change) => Objects(&context).change(change),
        Op::Share(change) => Objects(&context).change(change),
        Op::Webhook(change) => Notices(&context).webhook(change),
        Op::Delivery(delivery) => Notices(&context).delivered(delivery),
        Op::Setting(change) => Objects(&context).change(change),
        Op::Audit(entry) => history::append(&context, entry),
    }
}

/// Records the actor, the command and the outcome in the audit log, for commands of users.
pub(crate) fn audit(
    db: &Connection,
    command: &Command,
    applied: &Applied,
) -> Result<(), rusqlite::Error> {
    let by_user = match &command.op {
        Op::Job(_, op) => op.by_user(),
        // A node keeps its own row up to date.
        Op::Node(_) => command.actor.role.is_some(),
        Op::Work(..)
        | Op::Restart(_)
        | Op::Lost(_)
        | Op::Learn(_)
        | Op::Sighted(_)
        | Op::Level(_)
        | Op::Fired { .. }
        | Op::FlowRun(_)
        | Op::Delivery(_)
        | Op::Audit(_) => false,
        Op::Prune(_) => command.actor.role.is_some(),
        _ => true,
    };
    if !by_user {
        return Ok(());
    }
    let outcome = match applied {
        Ok(_) => AuditOutcome::Done,
        Err(error) => AuditOutcome::Refused(error.code().into()),
    };
    let (action, object) = (command.op.action(), command.op.object());
    history::write(db, command.at, &command.actor, &action, &object, &outcome)
}

/// Whether a follower may propose the command.
pub(crate) fn check_follower(
    db: &Connection,
    number: u64,
    command: &Command,
) -> rusqlite::Result<Result<(), CommandError>> {
    refusal(origin::check_follower(db, number, command))
}

/// Checks a join; accepts all other commands.
pub(crate) fn check_join(
    db: &Connection,
    command: &Command,
) -> rusqlite::Result<Result<(), CommandError>> {
    match &command.op {
        Op::Join(join) => refusal(nodes::check_join(db, join, command.at).map(drop)),
        _ => Ok(Ok(())),
    }
}

/// Whether a new node may join with the invitation at this time.
pub(crate) fn admits(db: &Connection, invite: &Invite, at: Timestamp) -> rusqlite::Result<bool> {
    let checked =
        invites::check_end(invite, at).and_then(|()| invites::check_maker(db, invite, at));
    Ok(invite.used.is_none() && refusal(checked)?.is_ok())
}

fn refusal(checked: Result<(), Stop>) -> rusqlite::Result<Result<(), CommandError>> {
    match checked {
        Ok(()) => Ok(Ok(())),
        Err(Stop::Refused(error)) => Ok(Err(error)),
        Err(Stop::Broken(error)) => Err(error),
    }
}

/// Whether the cluster has reached the level from which commands name their origin.
fn knows_origin(db: &Connection) -> Result<bool, rusqlite::Error> {
    Ok(committed_level(db)? >= LEVEL_ORIGIN)
}

/// Whether the cluster has reached the level from which access for jobs is counted, and removed users leave no jobs.
fn counts_what_is_left(db: &Connection) -> Result<bool, rusqlite::Error> {
    Ok(committed_level(db)? >= LEVEL_LEFT)
}

/// A number in the form of SQLite.
pub(crate) fn sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
