//! The documents of the rules that jobs obey, of webhooks, and of the audit log.
//! Enforces none.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rate::{self, RateInput};
use super::{AuditOutcome, NewJob, Reason, Timestamp};

/// Scope of a limit.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitScopeName {
    /// A node.
    Node,
    /// All jobs of an owner.
    Owner,
    /// All jobs with a site.
    Site,
    /// Each job without a separate limit.
    JobDefault,
}

impl LimitScopeName {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Node, Self::Owner, Self::Site, Self::JobDefault];

    /// The word in addresses and documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Owner => "owner",
            Self::Site => "site",
            Self::JobDefault => "job_default",
        }
    }
}

/// A rate for certain times of the week.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWindow {
    /// Days: 0 is Monday, 6 is Sunday.
    pub days: Vec<u8>,
    /// First minute of the day, 0 to 1439.
    #[schema(maximum = 1439)]
    pub from: u16,
    /// Minute of the day at which the window ends. A window that ends before it starts lasts over midnight.
    #[schema(maximum = 1440)]
    pub to: u16,
    /// Bytes per second, or a text with a unit; default no limit.
    #[serde(default, deserialize_with = "rate::limit")]
    #[schema(value_type = Option<RateInput>)]
    pub rate: Option<u64>,
}

/// A rate for certain times of the week.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WindowView {
    /// Days: 0 is Monday, 6 is Sunday.
    pub days: Vec<u8>,
    /// First minute of the day, 0 to 1439.
    #[schema(maximum = 1439)]
    pub from: u16,
    /// Minute of the day at which the window ends. A window that ends before it starts lasts over midnight.
    #[schema(maximum = 1440)]
    pub to: u16,
    /// Bytes per second; null is no limit.
    pub rate: Option<u64>,
}

/// A limit to add or replace.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLimit {
    /// Bytes per second, or a text with a unit; default no limit.
    #[serde(
        default,
        deserialize_with = "rate::limit",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<RateInput>)]
    pub rate: Option<u64>,
    /// Maximum number of concurrent jobs; default no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_max: Option<u32>,
    /// Rates by time of day. The first window that matches counts.
    #[serde(default)]
    pub windows: Vec<NewWindow>,
    /// Name of the time zone of the windows; empty is UTC.
    #[serde(default)]
    pub time_zone: String,
}

/// A limit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct LimitView {
    /// Scope of the limit.
    pub scope: LimitScopeName,
    /// Name of the node, owner or site; `*` is each of them.
    pub name: String,
    /// Bytes per second; null is no limit.
    pub rate: Option<u64>,
    /// Maximum number of concurrent jobs; null is no limit.
    pub jobs_max: Option<u32>,
    /// Rates by time of day. The first window that matches counts.
    pub windows: Vec<WindowView>,
    /// Name of the time zone of the windows; empty is UTC.
    pub time_zone: String,
    /// Fault of the limit; null if there is none. While the time zone is unknown, the windows apply in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A share to add or replace.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewShare {
    /// Weight of the owner when owners compete. An owner without a share has the weight 1.
    #[schema(minimum = 1)]
    pub weight: u32,
}

/// Weight of an owner when owners compete.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ShareView {
    /// The owner.
    pub owner: String,
    /// The weight.
    pub weight: u32,
}

/// A job to submit repeatedly.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    /// Cron expression.
    #[schema(example = "0 22 * * mon-fri")]
    pub cron: String,
    /// Time zone of the expression; empty is UTC.
    #[serde(default)]
    pub time_zone: String,
    /// The job.
    pub job: NewJob,
    /// The schedule is suspended: it submits no jobs.
    #[serde(default)]
    pub disabled: bool,
    /// Free text.
    #[serde(default)]
    pub comment: String,
}

/// A job that is submitted repeatedly.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ScheduleView {
    /// Id.
    pub id: String,
    /// Owner of the jobs.
    pub owner: String,
    /// Cron expression.
    pub cron: String,
    /// Time zone of the expression.
    pub time_zone: String,
    /// The job; null if it cannot be read.
    pub job: Option<NewJob>,
    /// The schedule is suspended: it submits no jobs.
    pub disabled: bool,
    /// Free text.
    pub comment: String,
    /// When the job was last submitted, or the schedule made.
    pub fired: Option<Timestamp>,
    /// When the job is submitted next.
    pub next: Option<Timestamp>,
    /// Why the last due job was not submitted, or why the schedule was disabled.
    #[serde(default)]
    pub reason: Option<Reason>,
}

/// An address that receives reports of changes of jobs.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// Address of the receiver.
    pub url: String,
    /// States of jobs to report; empty is all.
    #[serde(default)]
    pub events: Vec<String>,
    /// Owner of the jobs to report; default all owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Key for signatures: `whsec_` and base64 of 24 to 64 bytes. Without it, an existing webhook keeps its key, and a new webhook gets a
    /// key that the answer shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The webhook is suspended: it gets no deliveries.
    #[serde(default)]
    pub disabled: bool,
}

/// An address that receives reports of changes of jobs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WebhookView {
    /// Id.
    pub id: String,
    /// Address of the receiver.
    pub url: String,
    /// States of jobs to report; empty is all.
    pub events: Vec<String>,
    /// Owner of the jobs to report; null is all owners.
    pub owner: Option<String>,
    /// The webhook is suspended: it gets no deliveries.
    pub disabled: bool,
    /// The key that the node made for a new webhook. Only this answer shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A delivery to a webhook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct DeliveryView {
    /// Number of the delivery. Later deliveries have greater numbers.
    pub id: u64,
    /// Id of the job.
    pub job: String,
    /// The state that the job entered.
    pub event: String,
    /// When the last attempt ended, or when the delivery was created if there was none.
    pub at: Timestamp,
    /// Number of attempts so far.
    pub attempts: u32,
    /// When the next attempt starts; null once the delivery has ended.
    pub next_attempt: Option<Timestamp>,
    /// HTTP status of the last attempt, or why there was none.
    pub status: String,
}

/// A line of the audit log.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct AuditView {
    /// Number of the line. Later lines have greater numbers.
    pub seq: u64,
    /// Time of the request.
    pub at: Timestamp,
    /// Name of the actor that made the request.
    pub actor: String,
    /// Role of the actor.
    pub role: Option<String>,
    /// Requested action.
    pub action: String,
    /// Object of the action.
    pub object: String,
    /// `ok`, or the code of the refusal.
    #[schema(value_type = String)]
    pub outcome: AuditOutcome,
    /// Address of the sender.
    pub remote: Option<String>,
    /// Id of the request.
    pub request: Option<String>,
    /// In a cluster, the node that proposed the change. That node vouches for the actor.
    #[serde(default)]
    pub via: Option<String>,
}

/// Whether the node is alive or ready.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Health {
    /// `ok` or `ready`.
    pub status: String,
    /// Parts of the node that do not work. The node serves without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
