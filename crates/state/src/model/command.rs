//! Owns the commands: all that changes the state, with the time and the ids that the caller chose.
//! Does not apply them.

use std::fmt;

use serde::{Deserialize, Serialize};

use godwit_model::millis;

use super::prune::Prune;
use super::{
    AccessRule, Actor, FailureGroup, Invite, JobState, Join, Limit, Moved, Node, Object, Outcome,
    Reason, RetryPolicy, Route, Runner, Schedule, Secret, Setting, Share, Site, StoredPlace,
    Target, Timestamp, Token, User, Webhook, WorkOp,
};

/// Version of the commands that this program writes and the newest one that it reads.
pub const COMMAND_VERSION: u16 = 1;

/// Longest command as JSON: a specification of 256 KiB whose every byte is escaped to two, and three quarters as much for all
/// else. One entry of the log fits into a message between nodes.
pub const COMMAND_BYTES_MAX: usize = 896 << 10;

/// One change of the state.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// [`COMMAND_VERSION`] of the program that made the command.
    pub version: u16,
    /// The caller's clock.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// Who wants the change.
    pub actor: Actor,
    /// What changes.
    pub op: Op,
}

impl Command {
    /// A command of this program's version.
    #[must_use]
    pub const fn new(at: Timestamp, actor: Actor, op: Op) -> Self {
        Self {
            version: COMMAND_VERSION,
            at,
            actor,
            op,
        }
    }
}

impl fmt::Display for Command {
    /// Names the change, without any content.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} by {}", self.op.action(), self.actor.name)
    }
}

/// What a command changes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Submits a job.
    Submit(Box<NewJob>),
    /// Changes the job with that id.
    Job(String, JobOp),
    /// Changes the work of the divided job with that id.
    Work(String, WorkOp),
    /// Returns the jobs that an earlier start of this node ran to the queue, and the items of work that it held.
    Restart(Runner),
    /// Returns the jobs of the node of that name to the queue, and the items of work that it held: it is not heard of any more.
    Lost(String),
    /// Adds the node that shows an invitation.
    Join(Box<Join>),
    /// Changes a node.
    Node(Change<Node>),
    /// Raises the level of the cluster: all nodes know it.
    Level(u32),
    /// Changes an invitation.
    Invite(Change<Invite>),
    /// Deletes history.
    Prune(Prune),
    /// Changes a site.
    Site(Change<Site>),
    /// A site has told which nodes it has. Nothing changes where the site is another one by now.
    Learn(Box<Learn>),
    /// The leader found that a site answers no more, or again.
    Sighted(Sighted),
    /// Changes a schedule.
    Schedule(Change<Schedule>),
    /// Submits the job of a schedule's tick, once for each tick.
    Fired {
        /// Id of the schedule.
        schedule: String,
        /// Time of the tick.
        #[serde(with = "millis")]
        tick: Timestamp,
        /// Job to submit; None skips the tick.
        job: Option<Box<NewJob>>,
        /// Why the tick is skipped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    /// Changes a user.
    User(Change<User>),
    /// A user changes the own password.
    Password(Box<NewPassword>),
    /// Changes a token; `Remove` revokes it.
    Token(Change<Token>),
    /// Changes an access rule.
    Access(Change<AccessRule>),
    /// Changes a limit.
    Limit(Change<Limit>),
    /// Changes an owner's share.
    Share(Change<Share>),
    /// Changes a webhook.
    Webhook(Change<Webhook>),
    /// Tells how a delivery to a webhook went.
    Delivery(Delivery),
    /// Changes a setting.
    Setting(Change<Setting>),
    /// Appends to the audit log what happened outside the state, such as a refused log-in.
    Audit(AuditEntry),
}

/// A change of a named object.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change<T> {
    /// Adds the object; an object of the same id is a conflict.
    Create(T),
    /// Adds the object or replaces it.
    Put(T),
    /// Removes the object of that id.
    Remove(String),
}

/// A job that is submitted.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// Short id; ids made later sort after it.
    pub id: String,
    /// Free text.
    pub label: String,
    /// User to whom the job belongs.
    pub owner: String,
    /// Description of the transfer, as JSON text. The state reads its `kind`, and nothing else.
    pub spec: String,
    /// Places to copy from.
    pub sources: Vec<StoredPlace>,
    /// StoredPlace to copy to.
    pub destination: StoredPlace,
    /// Higher runs first.
    pub priority: i32,
    /// Limit in bytes per second.
    pub limit: Option<u64>,
    /// Time before which the job does not begin.
    #[serde(default, with = "millis::option")]
    pub not_before: Option<Timestamp>,
    /// Time after which the job is given up.
    #[serde(default, with = "millis::option")]
    pub deadline: Option<Timestamp>,
    /// How the job is retried.
    pub retry: RetryPolicy,
    /// Key by which the owner's repeated submission is known.
    pub idempotency_key: Option<String>,
}

/// Whether a site answers that jobs wait for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sighted {
    /// Its name.
    pub site: String,
    /// The identity that was dialled.
    pub identity: String,
    /// It does now, and did not before.
    pub answers: bool,
}

/// A change of one job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobOp {
    /// A node takes the job.
    Claim {
        /// The node.
        runner: Runner,
        /// Epoch of the job as the node saw it. The claim gets the next one.
        seen: u64,
    },
    /// The runner tells how far it is.
    Report {
        /// Epoch of the claim.
        epoch: u64,
        /// One of the moving states.
        state: JobState,
        /// Why the job hardly moves, if so.
        reason: Option<Reason>,
    },
    /// The runner tells what the destination means, before it writes there.
    Placed {
        /// Epoch of the claim.
        epoch: u64,
        /// Sources go into the destination; otherwise the only one becomes it.
        into: bool,
        /// Tag of the attempt's temporary files.
        tag: u64,
    },
    /// The runner decides which site runs the transfer, before any site begins it. It is decided once for all attempts.
    Route {
        /// Epoch of the claim.
        epoch: u64,
        /// The site.
        route: Route,
        /// Identity of the node that asks the site, by which the site knows the job. None until the site is asked to run it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asker: Option<String>,
    },
    /// The runner ends the attempt for a passing reason.
    Backoff {
        /// Epoch of the claim.
        epoch: u64,
        /// What was in the way.
        reason: Reason,
        /// When to try again.
        #[serde(with = "millis")]
        next_attempt: Timestamp,
        /// Bytes that the attempt moved.
        bytes: u64,
        /// Files that the attempt finished.
        files: u64,
    },
    /// A node tells what an attempt of it moved, also after its claim has ended. Of several such figures the highest count.
    Moved {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Amounts of the attempt.
        moved: Moved,
    },
    /// The runner ends the job.
    Finish(Box<Finish>),
    /// Tells why a waiting job waits.
    Explain {
        /// Epoch of the job as it was seen.
        seen: u64,
        /// Why it waits.
        reason: Reason,
    },
    /// Gives the job up, for its deadline passed.
    Expire,
    /// Ends a waiting or paused job that its owner may not run any more.
    Deny {
        /// Epoch of the job as it was seen.
        seen: u64,
        /// Which right is missing.
        reason: Reason,
    },
    /// Stops the job for a time.
    Pause,
    /// Lets a paused job go on.
    Resume,
    /// Gives the job up.
    Cancel {
        /// The user's words.
        comment: Option<String>,
    },
    /// Runs an ended job once more.
    Retry,
    /// Changes what is set of the job.
    Change(JobChange),
}

/// What is to change of a job; what is None stays.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobChange {
    /// Limit in bytes per second; 0 removes the limit.
    pub limit: Option<u64>,
    /// Higher runs first.
    pub priority: Option<i32>,
    /// Free text.
    pub label: Option<String>,
}

/// The end of a job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// Epoch of the claim.
    pub epoch: u64,
    /// How the job ended.
    pub outcome: Outcome,
    /// Why it ended so; may be left out of a complete job only.
    pub reason: Option<Reason>,
    /// Result as JSON text.
    pub summary: String,
    /// Bytes that the attempt moved.
    pub bytes: u64,
    /// Files that the attempt finished.
    pub files: u64,
    /// Failed entries grouped by reason.
    pub failures: Vec<FailureGroup>,
}

/// The password of a user, changed by the user. Nothing else of the user changes, whatever an admin does at the same time.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// Name of the user.
    pub user: String,
    /// argon2id hash of the password that the user proved.
    pub earlier: Secret,
    /// argon2id hash of the new one.
    pub password: Secret,
    /// Ids of tokens that stay good: what the request showed, and what that came from.
    pub keep: Vec<String>,
}

/// The nodes of a site.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Learn {
    /// Name of the site.
    pub site: String,
    /// Identity that the site has for the node that learns.
    pub identity: String,
    /// Its nodes.
    pub nodes: Vec<Target>,
    /// The node that the operator named has named them. Any other node renews addresses alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
}

/// How an attempt to deliver to a webhook went.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// Id of the delivery.
    pub id: u64,
    /// When to try again; None ends the delivery.
    #[serde(default, with = "millis::option")]
    pub next_attempt: Option<Timestamp>,
    /// What the receiver answered, or what was in the way.
    pub status: String,
}

/// A line of the audit log, as far as the command does not say it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AuditEntry {
    /// What was wanted, such as `login`.
    pub action: String,
    /// Of what.
    pub object: String,
    /// `ok`, or the code of the refusal.
    pub outcome: String,
}

impl Op {
    /// The object of the change, for the audit log: `site/siteB`, or the id of a job.
    #[must_use]
    pub fn object(&self) -> String {
        fn change<T: Object>(change: &Change<T>) -> String {
            let id = match change {
                Change::Create(object) | Change::Put(object) => object.id(),
                Change::Remove(id) => id.clone(),
            };
            format!("{}/{id}", T::KIND)
        }
        match self {
            Self::Submit(job) => job.id.clone(),
            Self::Job(id, _) | Self::Work(id, _) => id.clone(),
            Self::Restart(runner) => runner.node.clone(),
            Self::Lost(node) => format!("{}/{node}", Node::KIND),
            Self::Learn(learn) => format!("{}/{}", Site::KIND, learn.site),
            Self::Sighted(seen) => format!("{}/{}", Site::KIND, seen.site),
            Self::Join(join) => format!("{}/{}", Node::KIND, join.node.name),
            Self::Node(of) => change(of),
            Self::Level(level) => level.to_string(),
            Self::Invite(of) => change(of),
            Self::Prune(_) => String::new(),
            Self::Site(of) => change(of),
            Self::Schedule(of) => change(of),
            Self::Fired { schedule, .. } => format!("{}/{schedule}", Schedule::KIND),
            Self::User(of) => change(of),
            Self::Password(new) => format!("{}/{}", User::KIND, new.user),
            Self::Token(of) => change(of),
            Self::Access(of) => change(of),
            Self::Limit(of) => change(of),
            Self::Share(of) => change(of),
            Self::Webhook(of) => change(of),
            Self::Delivery(delivery) => delivery.id.to_string(),
            Self::Setting(of) => change(of),
            Self::Audit(entry) => entry.object.clone(),
        }
    }

    /// The name of the change: `job.pause`, `site.put`.
    #[must_use]
    pub fn action(&self) -> String {
        fn change<T>(kind: &str, change: &Change<T>) -> String {
            let what = match change {
                Change::Create(_) => "create",
                Change::Put(_) => "put",
                Change::Remove(_) => "remove",
            };
            format!("{kind}.{what}")
        }
        match self {
            Self::Submit(_) => "job.submit".to_owned(),
            Self::Job(_, op) => format!("job.{}", op.name()),
            Self::Work(_, op) => format!("work.{}", op.name()),
            Self::Restart(_) => "node.restart".to_owned(),
            Self::Lost(_) => "node.lost".to_owned(),
            Self::Learn(_) => "site.learn".to_owned(),
            Self::Sighted(Sighted { answers: true, .. }) => "site.back".to_owned(),
            Self::Sighted(_) => "site.away".to_owned(),
            Self::Join(_) => "node.join".to_owned(),
            Self::Level(_) => "cluster.level".to_owned(),
            Self::Node(of) => change("node", of),
            Self::Invite(of) => change("invite", of),
            Self::Prune(_) => "history.prune".to_owned(),
            Self::Site(of) => change("site", of),
            Self::Schedule(of) => change("schedule", of),
            Self::Fired { .. } => "schedule.fired".to_owned(),
            Self::User(of) => change("user", of),
            Self::Password(_) => "user.password".to_owned(),
            Self::Token(of) => change("token", of),
            Self::Access(of) => change("access", of),
            Self::Limit(of) => change("limit", of),
            Self::Share(of) => change("share", of),
            Self::Webhook(of) => change("webhook", of),
            Self::Delivery(_) => "webhook.delivery".to_owned(),
            Self::Setting(of) => change("setting", of),
            Self::Audit(entry) => entry.action.clone(),
        }
    }
}

impl JobOp {
    /// The name of the change.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Claim { .. } => "claim",
            Self::Report { .. } => "report",
            Self::Placed { .. } => "placed",
            Self::Route { .. } => "route",
            Self::Backoff { .. } => "backoff",
            Self::Moved { .. } => "moved",
            Self::Finish(_) => "finish",
            Self::Explain { .. } => "explain",
            Self::Expire => "expire",
            Self::Deny { .. } => "deny",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel { .. } => "cancel",
            Self::Retry => "retry",
            Self::Change(_) => "change",
        }
    }

    /// Whether a user asks for it; what nodes do by themselves is not audited.
    #[must_use]
    pub const fn by_user(&self) -> bool {
        matches!(
            self,
            Self::Pause | Self::Resume | Self::Cancel { .. } | Self::Retry | Self::Change(_)
        )
    }
}
