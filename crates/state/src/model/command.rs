//! Owns the commands: all changes of the state, with the time and the ids that the caller chose.
//! Does not apply them.

use std::fmt;

use serde::{Deserialize, Serialize};

use godwit_model::millis;

use super::prune::Prune;
use super::{
    AccessRule, Actor, AuditOutcome, DRAINED_EVENT, FailureGroup, Flow, FlowRun, Invite, JobState,
    Join, Limit, Moved, NewFamily, NewPassword, Node, Object, Outcome, Peer, ProvenToken, Reason,
    RetryPolicy, RevokeTokens, Route, Runner, Schedule, Setting, Share, Site, StoredPlace,
    Timestamp, Token, User, Webhook, WorkOp,
};

/// Version of the commands that this program writes and the newest one that it reads.
pub const COMMAND_VERSION: u16 = 1;

/// Longest command as JSON: a specification of 256 KiB with every byte escaped to two, and three quarters as much for the rest. One entry
/// of the log fits into a message between nodes.
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
    /// The actor that requests the change.
    pub actor: Actor,
    /// The change.
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
    /// Formats the name of the change, without any content.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} by {}", self.op.action(), self.actor.name)
    }
}

/// The change of a command.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Submits a job.
    Submit(Box<NewJob>),
    /// Submits a job with several destinations.
    SubmitFamily(Box<NewFamily>),
    /// Changes the job with that id.
    Job(String, JobOp),
    /// Changes the divided work of the job with that id.
    Work(String, WorkOp),
    /// Returns jobs and items of work of this node's earlier runs to the queue.
    Restart(Runner),
    /// Returns jobs and items of work of the lost node with that name to the queue.
    Lost(String),
    /// Adds the node that shows an invitation.
    Join(Box<Join>),
    /// Changes a node.
    Node(Change<Node>),
    /// Raises the level of the cluster to one that all nodes support.
    Level(u32),
    /// Changes an invitation.
    Invite(Change<Invite>),
    /// Deletes history.
    Prune(Prune),
    /// Changes a site.
    Site(Change<Site>),
    /// A site has reported its nodes. No effect if the name belongs to another site now.
    Learn(Box<Learn>),
    /// The leader found that a site stopped or resumed answering.
    Sighted(SiteAnswer),
    /// Changes a schedule.
    Schedule(Change<Schedule>),
    /// Submits the job of a schedule's tick, once for each tick.
    Fired {
        /// Id of the schedule.
        schedule: String,
        /// Time of the tick.
        #[serde(with = "millis")]
        tick: Timestamp,
        /// Job to submit; `None` skips the tick.
        job: Option<Box<NewJob>>,
        /// The jobs of the destinations, if the submitted job is the parent of several.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        children: Vec<NewJob>,
        /// The reason why the tick is skipped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    /// Changes a flow.
    Flow(Change<Flow>),
    /// Submits the next run of a flow's hop.
    FlowRun(Box<FlowRun>),
    /// Changes a user.
    User(Change<User>),
    /// Changes the password of the user who sends the command.
    Password(Box<NewPassword>),
    /// Changes a token; `Remove` revokes it.
    Token(Change<Token>),
    /// Adds a token that the sender made with the own password.
    ProvenToken(Box<ProvenToken>),
    /// Revokes several tokens of one user.
    Revoke(Box<RevokeTokens>),
    /// Changes an access rule.
    Access(Change<AccessRule>),
    /// Changes a limit.
    Limit(Change<Limit>),
    /// Changes an owner's share.
    Share(Change<Share>),
    /// Changes a webhook.
    Webhook(Change<Webhook>),
    /// Reports the result of a delivery to a webhook.
    Delivery(Delivery),
    /// Changes a setting.
    Setting(Change<Setting>),
    /// Appends an event from outside the state to the audit log, such as a refused log-in.
    Audit(AuditEntry),
}

/// A change of a named object.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change<T> {
    /// Adds the object; an object of the same id is a conflict.
    Create(T),
    /// Adds or replaces the object.
    Put(T),
    /// Removes the object with that id.
    Remove(String),
}

/// A submitted job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// Short id. Ids made later sort after it.
    pub id: String,
    /// Free text.
    pub label: String,
    /// Owner of the job.
    pub owner: String,
    /// Description of the transfer, as JSON text. The state interprets only its `kind`.
    pub spec: String,
    /// Places to copy from.
    pub sources: Vec<StoredPlace>,
    /// Place to copy to.
    pub destination: StoredPlace,
    /// Jobs with a higher priority run first.
    pub priority: i32,
    /// Limit in bytes per second.
    pub limit: Option<u64>,
    /// The job does not start before this time.
    #[serde(default, with = "millis::option")]
    pub not_before: Option<Timestamp>,
    /// The job fails if it has not ended by this time.
    #[serde(default, with = "millis::option")]
    pub deadline: Option<Timestamp>,
    /// The retry policy of the job.
    pub retry: RetryPolicy,
    /// Key that identifies repeated submissions of the owner.
    pub idempotency_key: Option<String>,
}

/// Whether a site that jobs wait for is responding.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SiteAnswer {
    /// Name of the site.
    pub site: String,
    /// The identity that was dialled.
    pub identity: String,
    /// True if the site answers now and did not before.
    pub answers: bool,
}

/// A change of one job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobOp {
    /// A node claims the job to run it.
    Claim {
        /// The node.
        runner: Runner,
        /// Epoch of the job that the node read. The claim gets the next epoch.
        seen: u64,
    },
    /// The runner reports its progress.
    Report {
        /// Epoch of the claim.
        epoch: u64,
        /// The new state: scanning, running or verifying.
        state: JobState,
        /// The reason why the job hardly progresses, if so.
        reason: Option<Reason>,
    },
    /// The runner reports whether the sources go into the destination, before it writes there.
    Placed {
        /// Epoch of the claim.
        epoch: u64,
        /// The sources go into the destination; otherwise the only source becomes the destination.
        into: bool,
        /// Tag of the attempt's temporary files.
        tag: u64,
    },
    /// The runner decides which site runs the transfer, before any site starts it. The decision holds for all attempts.
    Route {
        /// Epoch of the claim.
        epoch: u64,
        /// The site.
        route: Route,
        /// Identity of the node that asks the site; the site stores the job under it. `None` until the site is asked to run the job.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asker: Option<String>,
        /// Identities of the nodes that have the job at sites of independent nodes. They stay the same for all attempts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        at: Vec<String>,
    },
    /// The runner ends the attempt for a transient reason.
    Backoff {
        /// Epoch of the claim.
        epoch: u64,
        /// The transient reason.
        reason: Reason,
        /// Time of the next attempt.
        #[serde(with = "millis")]
        next_attempt: Timestamp,
        /// Bytes that the attempt moved.
        bytes: u64,
        /// Files that the attempt finished.
        files: u64,
    },
    /// A node reports the amounts of its attempt, also after its claim has ended. If there are several reports, the highest amounts
    /// count.
    Moved {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Amounts of the attempt.
        #[serde(with = "super::job::LoggedMoved")]
        moved: Moved,
    },
    /// The runner ends the job.
    Finish(Box<Finish>),
    /// No data of the ended job waits in a transfer buffer any more. Only its event and its deliveries follow.
    Drained,
    /// Reports why a waiting job waits.
    Explain {
        /// Epoch of the job that the caller read.
        seen: u64,
        /// The reason for waiting.
        reason: Reason,
    },
    /// Fails the job because its deadline has passed.
    Expire,
    /// Ends a waiting or paused job whose owner lost the right to run it.
    Deny {
        /// Epoch of the job that the caller read.
        seen: u64,
        /// The missing right.
        reason: Reason,
    },
    /// Pauses the job.
    Pause,
    /// Resumes a paused job.
    Resume,
    /// Cancels the job.
    Cancel {
        /// Comment of the user.
        comment: Option<String>,
    },
    /// Runs an ended job again, or starts the next attempt of one that waits after a failure.
    Retry,
    /// Changes fields of the job.
    Change(JobChange),
}

/// Changes to a job. Fields that are `None` stay unchanged.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobChange {
    /// Limit in bytes per second; 0 removes the limit.
    pub limit: Option<u64>,
    /// Jobs with a higher priority run first.
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
    /// Outcome of the job.
    pub outcome: Outcome,
    /// Reason of the outcome; only a complete job may have none.
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

/// The nodes of a site.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Learn {
    /// Name of the site.
    pub site: String,
    /// Identity of the site, as known to the learning node.
    pub identity: String,
    /// Nodes of the site.
    pub nodes: Vec<Peer>,
    /// The node that the operator named reported these nodes. Any other node only updates addresses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
}

/// Result of an attempt to deliver to a webhook.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// Id of the delivery.
    pub id: u64,
    /// Time of the next attempt; `None` ends the delivery.
    #[serde(default, with = "millis::option")]
    pub next_attempt: Option<Timestamp>,
    /// The answer of the receiver, or the error.
    pub status: String,
}

/// The parts of a line of the audit log that are not in the command itself.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AuditEntry {
    /// Requested action, such as `login`.
    pub action: String,
    /// Object of the action.
    pub object: String,
    /// How the request ended.
    pub outcome: AuditOutcome,
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
            Self::SubmitFamily(new) => new.parent.id.clone(),
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
            Self::Flow(of) => change(of),
            Self::FlowRun(run) => format!("{}/{}", Flow::KIND, run.flow),
            Self::User(of) => change(of),
            Self::Password(new) => format!("{}/{}", User::KIND, new.user),
            Self::Token(of) => change(of),
            Self::ProvenToken(new) => format!("{}/{}", Token::KIND, new.token.id),
            Self::Revoke(which) => format!("{}/{}", User::KIND, which.user),
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
            Self::Submit(_) | Self::SubmitFamily(_) => "job.submit".to_owned(),
            Self::Job(_, op) => format!("job.{}", op.name()),
            Self::Work(_, op) => format!("work.{}", op.name()),
            Self::Restart(_) => "node.restart".to_owned(),
            Self::Lost(_) => "node.lost".to_owned(),
            Self::Learn(_) => "site.learn".to_owned(),
            Self::Sighted(SiteAnswer { answers: true, .. }) => "site.back".to_owned(),
            Self::Sighted(_) => "site.away".to_owned(),
            Self::Join(_) => "node.join".to_owned(),
            Self::Level(_) => "cluster.level".to_owned(),
            Self::Node(of) => change("node", of),
            Self::Invite(of) => change("invite", of),
            Self::Prune(_) => "history.prune".to_owned(),
            Self::Site(of) => change("site", of),
            Self::Schedule(of) => change("schedule", of),
            Self::Fired { .. } => "schedule.fired".to_owned(),
            Self::Flow(of) => change("flow", of),
            Self::FlowRun(_) => "flow.run".to_owned(),
            Self::User(of) => change("user", of),
            Self::Password(_) => "user.password".to_owned(),
            Self::Token(of) => change("token", of),
            Self::ProvenToken(_) => "token.create".to_owned(),
            Self::Revoke(_) => "token.revoke".to_owned(),
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
            Self::Drained => DRAINED_EVENT,
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

    /// Whether a user makes the request. Commands of nodes without a user are not audited.
    #[must_use]
    pub const fn by_user(&self) -> bool {
        matches!(
            self,
            Self::Pause | Self::Resume | Self::Cancel { .. } | Self::Retry | Self::Change(_)
        )
    }
}
