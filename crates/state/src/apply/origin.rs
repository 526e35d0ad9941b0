//! Decides which commands a node of the cluster may propose, for itself and for its users. Cannot verify that a user really made the
//! request: this depends on the node, and the audit log names the node.
//!
//! A command names an actor, and the number of the node that proposed it. The receiver of a command sets the number of the node
//! that sent it, so no node can impersonate another node. Each replica checks a command when it applies it; the leader also
//! checks it before it is in the
//! log.

use rusqlite::Connection;

use super::{Stop, families, objects};
use crate::model::{
    AccessRule, Actor, Change, Command, CommandError, Flow, JobOp, LEVEL_EARLIER_AMOUNTS,
    LEVEL_MEMBERS, Names, Node, Op, Prune, Role, Schedule, Site, Timestamp, Token, User, Webhook,
    WorkOp,
};
use crate::read::{
    attempt_node, claimed_by, committed_level, job_by_id, node_by_number, object_by_id,
};

/// Prefix of the names of other sites for which a node acts.
pub(crate) const SITE: &str = "site:";

/// Whether the node with this number may propose the command.
pub(super) fn check(db: &Connection, number: u64, command: &Command) -> Result<(), Stop> {
    let node = node_by_number(db, number)?.ok_or_else(|| no_node(number))?;
    let actor = &command.actor;
    match actor.role {
        Some(role) => for_user(db, &node, actor, role, &command.op),
        None => by_itself(db, &node, command),
    }
}

/// Whether a follower with this number may propose the command. Commands that a leader proposes for all nodes are refused too.
pub(super) fn check_follower(db: &Connection, number: u64, command: &Command) -> Result<(), Stop> {
    let node = node_by_number(db, number)?.ok_or_else(|| no_node(number))?;
    if is_of_leader(command, &node) {
        let what = format!("only the leader may request {}", command.op.action());
        return no(&node, what);
    }
    if let Op::Work(id, op) = &command.op
        && !works_itself(db, &node, id, op)?
    {
        let what = format!("{} in the name of another node", command.op.action());
        return no(&node, what);
    }
    if command.actor.role.is_some() && !is_of_api(db, &command.op)? {
        return no(&node, for_no_user(&command.op));
    }
    if let Op::Join(join) = &command.op
        && committed_level(db)? >= LEVEL_MEMBERS
        && !join.is_proven()
    {
        let what = "a join without the secret of its invitation";
        return no(&node, what.to_owned());
    }
    check(db, number, command)
}

/// Whether the node acts on its own work: it leases, settles and returns its own items, and controls the work of jobs that it runs. The
/// leader checks this before the command is in the log. From [`LEVEL_MEMBERS`] on, the state checks it, too: between the two another node
/// may claim the job.
fn works_itself(db: &Connection, node: &Node, id: &str, op: &WorkOp) -> Result<bool, Stop> {
    Ok(match op {
        WorkOp::Open(_) | WorkOp::Pairs(_) => {
            let runner = job_by_id(db, id)?.and_then(|job| job.runner);
            runner.is_none_or(|runner| runner.node == node.name)
        }
        WorkOp::Decline { node: named, .. } | WorkOp::Return { node: named } => *named == node.name,
        WorkOp::Lease(take) => take.runner.node == node.name,
        WorkOp::Settle(settle) => settle.runner.node == node.name,
        WorkOp::Found { number, lease, .. } => {
            let mut held = db.prepare_cached(
                "SELECT 1 FROM work_items WHERE work = (SELECT id FROM work WHERE job = ?1) \
                 AND number = ?2 AND lease = ?3 AND node <> ?4",
            )?;
            let [number, lease] = [number, lease].map(|n| i64::try_from(*n).unwrap_or(i64::MAX));
            !held.exists(rusqlite::params![id, number, lease, node.name])?
        }
    })
}

fn no_node(number: u64) -> CommandError {
    CommandError::denied(format!("no node of the cluster has the number {number}"))
}

/// Whether only the leader proposes such a command without a user.
fn is_of_leader(command: &Command, node: &Node) -> bool {
    command.actor.role.is_none()
        && match &command.op {
            Op::Level(_)
            | Op::Node(_)
            | Op::Fired { .. }
            | Op::FlowRun(_)
            | Op::Delivery(_)
            | Op::Webhook(_)
            | Op::Sighted(_)
            | Op::Job(_, JobOp::Expire) => true,
            Op::Lost(lost) => *lost != node.name,
            Op::Prune(prune) => !is_of_tokens(prune),
            _ => false,
        }
}

/// Whether the API proposes such a command for a user. This is the complete list: a node has no other command in the name of a user,
/// whatever the role of the user.
fn is_of_api(db: &Connection, op: &Op) -> Result<bool, Stop> {
    Ok(match op {
        Op::Audit(_)
        | Op::Submit(_)
        | Op::SubmitFamily(_)
        | Op::Password(_)
        | Op::User(_)
        | Op::Schedule(_)
        | Op::Flow(_)
        | Op::Limit(_)
        | Op::Share(_)
        | Op::Webhook(_)
        | Op::Token(Change::Create(_) | Change::Remove(_))
        | Op::ProvenToken(_)
        | Op::Revoke(_)
        | Op::Invite(Change::Create(_) | Change::Remove(_))
        | Op::Node(Change::Remove(_))
        | Op::Site(Change::Remove(_))
        | Op::Access(Change::Remove(_)) => true,
        Op::Job(_, op) => op.by_user(),
        Op::Node(Change::Put(new)) => is_wish(db, new)?,
        Op::Site(Change::Create(new) | Change::Put(new)) => is_of_operator(new),
        Op::Access(Change::Create(new) | Change::Put(new)) => {
            let earlier = object_by_id::<AccessRule>(db, &new.id)?;
            new.job.is_none() && earlier.is_none_or(|earlier| earlier.job.is_none())
        }
        Op::Node(Change::Create(_))
        | Op::Token(Change::Put(_))
        | Op::Invite(Change::Put(_))
        | Op::Work(..)
        | Op::Restart(_)
        | Op::Lost(_)
        | Op::Join(_)
        | Op::Level(_)
        | Op::Learn(_)
        | Op::Sighted(_)
        | Op::Fired { .. }
        | Op::FlowRun(_)
        | Op::Delivery(_)
        | Op::Prune(_)
        | Op::Setting(_) => false,
    })
}

/// Whether the row is that of a member, and differs only in the wishes of an operator. From [`LEVEL_MEMBERS`] on, the state takes nothing
/// else from the command, so the row of a node that lags may be older.
fn is_wish(db: &Connection, new: &Node) -> Result<bool, Stop> {
    let Some(row) = object_by_id::<Node>(db, &new.name)? else {
        return Ok(false);
    };
    if committed_level(db)? >= LEVEL_MEMBERS {
        return Ok(row.number == new.number && row.identity == new.identity);
    }
    let (draining, voter) = (new.draining, new.voter);
    let wished = Node {
        draining,
        voter,
        ..row
    };
    Ok(wished == *new)
}

/// Whether an operator named all nodes of the site. Only answers of the site name others, and only for a time.
fn is_of_operator(site: &Site) -> bool {
    let mut nodes = site.nodes.iter();
    nodes.all(|node| node.independent && node.named.is_none())
}

fn for_no_user(op: &Op) -> String {
    format!("users may not request {}", op.action())
}

/// The user must exist with that role at this moment, and the role must permit the request.
fn for_user(db: &Connection, node: &Node, actor: &Actor, role: Role, op: &Op) -> Result<(), Stop> {
    let name = &actor.name;
    let is_account = node.admins.contains(name);
    let user = object_by_id::<User>(db, name)?.filter(|_| !is_account);
    match user {
        Some(user) if user.disabled => return no(node, format!("the user {name} is disabled")),
        Some(user) if role > user.role => {
            let is = user.role.name();
            return no(node, format!("{name} is {is}, not {}", role.name()));
        }
        Some(_) => {}
        None if is_account || (role == Role::Admin && may_be_account(db, node, name)?) => {}
        None => return no(node, format!("there is no user {name}")),
    }
    if committed_level(db)? >= LEVEL_MEMBERS && !is_of_api(db, op)? {
        return no(node, for_no_user(op));
    }
    let Some(least) = least(db, actor, role, op)? else {
        return no(node, for_no_user(op));
    };
    if role < least {
        let what = format!("{} of {name} needs {}", op.action(), least.name());
        return no(node, what);
    }
    Ok(())
}

/// Whether a node that has not reported its accounts yet may act for an admin of its machine. From [`LEVEL_MEMBERS`] on, the account is one
/// of another node, too, or the node waits a moment: otherwise it could act under any name, also under that of another node.
fn may_be_account(db: &Connection, node: &Node, name: &str) -> Result<bool, Stop> {
    if !node.admins.is_empty() || committed_level(db)? < LEVEL_MEMBERS {
        return Ok(node.admins.is_empty());
    }
    Ok(Names::of(&objects::all::<Node>(db)?).is_account(name))
}

/// The lowest role that this request of a user needs; None if no user may make it.
fn least(db: &Connection, actor: &Actor, role: Role, op: &Op) -> Result<Option<Role>, Stop> {
    let is_own = |owner: &str| owner == actor.name;
    let own_or_admin = |is_own: bool, least: Role| if is_own { least } else { Role::Admin };
    Ok(Some(match op {
        Op::Audit(_) => Role::Viewer,
        Op::Submit(job) if is_own(&job.owner) => Role::Operator,
        // The children have the owner of their parent.
        Op::SubmitFamily(new) if is_own(&new.parent.owner) => Role::Operator,
        Op::Job(id, op) if op.by_user() => {
            let job = job_by_id(db, id)?;
            own_or_admin(job.is_none_or(|job| is_own(&job.owner)), Role::Operator)
        }
        Op::Schedule(change) => {
            let (id, new) = match change {
                Change::Create(new) | Change::Put(new) => (&new.id, Some(new)),
                Change::Remove(id) => (id, None),
            };
            let earlier = object_by_id::<Schedule>(db, id)?;
            let within = |new: &Schedule| new.role.is_none_or(|kept| kept <= role);
            let is_own = new.is_none_or(|new| is_own(&new.owner) && within(new))
                && earlier.is_none_or(|earlier| is_own(&earlier.owner));
            own_or_admin(is_own, Role::Operator)
        }
        Op::Flow(change) => {
            let (id, new) = match change {
                Change::Create(new) | Change::Put(new) => (&new.id, Some(new)),
                Change::Remove(id) => (id, None),
            };
            let earlier = object_by_id::<Flow>(db, id)?;
            let within = |new: &Flow| new.role.is_none_or(|kept| kept <= role);
            let is_own = new.is_none_or(|new| is_own(&new.owner) && within(new))
                && earlier.is_none_or(|earlier| is_own(&earlier.owner));
            own_or_admin(is_own, Role::Operator)
        }
        Op::Token(Change::Create(token) | Change::Put(token)) => {
            own_or_admin(is_own(&token.user) && token.role <= role, Role::Viewer)
        }
        Op::ProvenToken(new) => {
            let token = &new.token;
            own_or_admin(is_own(&token.user) && token.role <= role, Role::Viewer)
        }
        Op::Token(Change::Remove(id)) => {
            let token = object_by_id::<Token>(db, id)?;
            own_or_admin(token.is_none_or(|token| is_own(&token.user)), Role::Viewer)
        }
        Op::Revoke(which) => own_or_admin(is_own(&which.user), Role::Viewer),
        Op::Password(new) if is_own(&new.user) => Role::Viewer,
        Op::User(_)
        | Op::Node(_)
        | Op::Invite(_)
        | Op::Prune(_)
        | Op::Site(_)
        | Op::Access(_)
        | Op::Limit(_)
        | Op::Share(_)
        | Op::Webhook(_)
        | Op::Setting(_) => Role::Admin,
        Op::Password(_)
        | Op::Submit(_)
        | Op::SubmitFamily(_)
        | Op::Job(..)
        | Op::Work(..)
        | Op::Restart(_)
        | Op::Lost(_)
        | Op::Join(_)
        | Op::Level(_)
        | Op::Learn(_)
        | Op::Sighted(_)
        | Op::Fired { .. }
        | Op::FlowRun(_)
        | Op::Delivery(_) => return Ok(None),
    }))
}

/// A node may act as itself, for a site that asked it, or for an unauthenticated caller of its API.
fn by_itself(db: &Connection, node: &Node, command: &Command) -> Result<(), Stop> {
    let (name, op, at) = (command.actor.name.as_str(), &command.op, command.at);
    let may = match name {
        _ if name == node.name => as_node(db, node, op, at)?,
        _ if name.starts_with(SITE) => for_site(db, name, op, at)?,
        "anonymous" => matches!(op, Op::Audit(_)),
        "api" => matches!(op, Op::Prune(prune) if is_of_tokens(prune)),
        "webhooks" => match op {
            Op::Delivery(_) => true,
            Op::Webhook(Change::Put(new)) => {
                let earlier = object_by_id::<Webhook>(db, &new.id)?;
                earlier.is_some_and(|earlier| {
                    Webhook {
                        disabled: true,
                        ..earlier
                    } == *new
                })
            }
            _ => false,
        },
        _ => return no(node, format!("it acts as {name:?} but is not that user")),
    };
    match may {
        true => Ok(()),
        false => no(node, format!("{name} may not request {}", op.action())),
    }
}

fn as_node(db: &Connection, node: &Node, op: &Op, at: Timestamp) -> Result<bool, Stop> {
    Ok(match op {
        Op::Job(_, JobOp::Claim { runner, .. }) | Op::Restart(runner) => runner.node == node.name,
        Op::Job(
            id,
            op @ (JobOp::Report { .. }
            | JobOp::Placed { .. }
            | JobOp::Route { .. }
            | JobOp::Backoff { .. }
            | JobOp::Finish(_)),
        ) => {
            let job = job_by_id(db, id)?;
            let runner = job.and_then(|job| job.runner);
            // The end of a claim that another node has replaced is late, and forbids nothing.
            runner.is_none_or(|runner| runner.node == node.name) || had_claim(db, (id, op), node)?
        }
        Op::Job(id, JobOp::Moved { attempt, .. }) => {
            let ran_by = attempt_node(db, id, *attempt)?;
            ran_by.is_none_or(|ran_by| ran_by == node.name)
                || (committed_level(db)? >= LEVEL_EARLIER_AMOUNTS && runs(db, id, node)?)
        }
        Op::Submit(job) => families::is_relay(db, job)?,
        Op::Job(id, op @ (JobOp::Retry | JobOp::Cancel { .. })) => match job_by_id(db, id)? {
            Some(job) => families::is_steered(db, &job, op)?,
            None => true,
        },
        Op::Job(_, op) => !op.by_user(),
        // Access rules for jobs.
        Op::Access(Change::Create(rule) | Change::Put(rule)) => is_of_job(rule, at),
        Op::Access(Change::Remove(id)) => id.starts_with(JOB_RULE),
        Op::Fired { schedule, job, .. } => {
            let schedule = object_by_id::<Schedule>(db, schedule)?;
            schedule
                .is_none_or(|schedule| job.as_ref().is_none_or(|job| job.owner == schedule.owner))
        }
        Op::FlowRun(run) => {
            let flow = object_by_id::<Flow>(db, &run.flow)?;
            flow.is_none_or(|flow| run.job.owner == flow.owner)
        }
        Op::Work(id, op) => committed_level(db)? < LEVEL_MEMBERS || works_itself(db, node, id, op)?,
        Op::Lost(_)
        | Op::Join(_)
        | Op::Node(Change::Put(_))
        | Op::Level(_)
        | Op::Prune(_)
        | Op::Learn(_)
        | Op::Sighted(_)
        | Op::Audit(_) => true,
        Op::SubmitFamily(_)
        | Op::Node(_)
        | Op::Invite(_)
        | Op::Site(_)
        | Op::Schedule(_)
        | Op::Flow(_)
        | Op::User(_)
        | Op::Password(_)
        | Op::Token(_)
        | Op::ProvenToken(_)
        | Op::Revoke(_)
        | Op::Limit(_)
        | Op::Share(_)
        | Op::Webhook(_)
        | Op::Delivery(_)
        | Op::Setting(_) => false,
    })
}

/// Whether the node runs the job now.
fn runs(db: &Connection, id: &str, node: &Node) -> Result<bool, Stop> {
    let runner = job_by_id(db, id)?.and_then(|job| job.runner);
    Ok(runner.is_some_and(|runner| runner.node == node.name))
}

/// Whether the node had the claim that the report names.
fn had_claim(db: &Connection, (id, op): (&str, &JobOp), node: &Node) -> Result<bool, Stop> {
    let epoch = match op {
        JobOp::Report { epoch, .. }
        | JobOp::Placed { epoch, .. }
        | JobOp::Route { epoch, .. }
        | JobOp::Backoff { epoch, .. } => *epoch,
        JobOp::Finish(finish) => finish.epoch,
        _ => return Ok(false),
    };
    Ok(claimed_by(db, id, epoch)?.is_some_and(|claimed_by| claimed_by == node.name))
}

/// Another site may have its own jobs, and access rules for jobs.
fn for_site(db: &Connection, site: &str, op: &Op, at: Timestamp) -> Result<bool, Stop> {
    Ok(match op {
        Op::Submit(job) => job.owner == site,
        Op::Job(id, op) if op.by_user() => job_by_id(db, id)?.is_none_or(|job| job.owner == site),
        Op::Access(Change::Create(rule) | Change::Put(rule)) => is_of_job(rule, at),
        Op::Access(Change::Remove(id)) => id.starts_with(JOB_RULE),
        _ => false,
    })
}

/// Text that stands for all exports.
const ALL_EXPORTS: &str = "*";

/// Prefix of the ids of rules that belong to a job of another node.
pub(super) const JOB_RULE: &str = "job:";

/// Longest lifetime of a job's rule: a day, and an hour for clock differences.
const JOB_RULE_MILLIS_MAX: i64 = 25 * 3_600_000;

/// Whether the rule is access for a job that ends within a day of `at`.
fn is_of_job(rule: &AccessRule, at: Timestamp) -> bool {
    let latest = at.0.saturating_add(JOB_RULE_MILLIS_MAX);
    rule.job.is_some()
        && rule.id.starts_with(JOB_RULE)
        && rule.expires.is_some_and(|end| end.0 <= latest)
        && rule.site.is_none()
        && rule.export != ALL_EXPORTS
        && rule.rights.len() == 1
}

/// Whether the command deletes only expired tokens and rules.
const fn is_of_tokens(prune: &Prune) -> bool {
    prune.jobs_before.is_none()
        && prune.audit_before.is_none()
        && prune.deliveries_before.is_none()
        && prune.of_owners.is_empty()
}

fn no(node: &Node, what: String) -> Result<(), Stop> {
    Err(CommandError::denied(format!(
        "the node {} may not propose this: {what}",
        node.name
    ))
    .into())
}
