//! The documents of the rules that jobs obey, of webhooks, and of the audit log.
//! Enforces none.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rate::{self, RateInput};
use super::{NewJob, Reason, Timestamp};

/// What a limit is for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitScopeName {
    /// A node.
    Node,
    /// All jobs of an owner.
    Owner,
    /// All jobs with a site.
    Site,
    /// Each job that has no limit of its own.
    JobDefault,
}

impl LimitScopeName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Node, Self::Owner, Self::Site, Self::JobDefault];

    /// The word for it in addresses and documents.
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

/// A rate that is to hold at times of the week.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWindow {
    /// Days: 0 is Monday, 6 is Sunday.
    pub days: Vec<u8>,
    /// First minute of the day, 0 to 1439.
    #[schema(maximum = 1439)]
    pub from: u16,
    /// Minute of the day at which it ends. A window that ends before it begins lasts over midnight.
    #[schema(maximum = 1440)]
    pub to: u16,
    /// Bytes per second, or a text with a unit; without it there is no limit.
    #[serde(default, deserialize_with = "rate::limit")]
    #[schema(value_type = Option<RateInput>)]
    pub rate: Option<u64>,
}

/// A rate that holds at times of the week.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WindowView {
    /// Days: 0 is Monday, 6 is Sunday.
    pub days: Vec<u8>,
    /// First minute of the day, 0 to 1439.
    #[schema(maximum = 1439)]
    pub from: u16,
    /// Minute of the day at which it ends. A window that ends before it begins lasts over midnight.
    #[schema(maximum = 1440)]
    pub to: u16,
    /// Bytes per second; None is no limit.
    pub rate: Option<u64>,
}

/// A limit to add or replace.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLimit {
    /// Bytes per second, or a text with a unit; without it there is no limit.
    #[serde(
        default,
        deserialize_with = "rate::limit",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<RateInput>)]
    pub rate: Option<u64>,
    /// Jobs at once; None is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_max: Option<u32>,
    /// Rates by time of day; the first window that holds counts.
    #[serde(default)]
    pub windows: Vec<NewWindow>,
    /// Name of the time zone of the windows; empty is UTC.
    #[serde(default)]
    pub time_zone: String,
}

/// A limit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct LimitView {
    /// What it is for.
    pub scope: LimitScopeName,
    /// Which node, owner or site; `*` for each.
    pub name: String,
    /// Bytes per second; None is no limit.
    pub rate: Option<u64>,
    /// Jobs at once; None is no limit.
    pub jobs_max: Option<u32>,
    /// Rates by time of day; the first window that holds counts.
    pub windows: Vec<WindowView>,
    /// Name of the time zone of the windows; empty is UTC.
    pub time_zone: String,
    /// What is wrong with the limit. Its windows count in UTC while its time zone is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A share to add or replace.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewShare {
    /// The owner's part where owners compete; an owner without a share has 1.
    #[schema(minimum = 1)]
    pub weight: u32,
}

/// An owner's part where owners compete.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ShareView {
    /// The owner.
    pub owner: String,
    /// The weight.
    pub weight: u32,
}

/// A job to submit again and again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    /// Cron expression.
    #[schema(example = "0 22 * * mon-fri")]
    pub cron: String,
    /// Name of the time zone in which the expression is meant; empty is UTC.
    #[serde(default)]
    pub time_zone: String,
    /// The job.
    pub job: NewJob,
    /// Nothing is submitted for the time being.
    #[serde(default)]
    pub disabled: bool,
    /// Free text.
    #[serde(default)]
    pub comment: String,
}

/// A job that is submitted again and again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ScheduleView {
    /// Id.
    pub id: String,
    /// Owner of the jobs.
    pub owner: String,
    /// Cron expression.
    pub cron: String,
    /// Name of the time zone in which the expression is meant.
    pub time_zone: String,
    /// The job; None if it cannot be read.
    pub job: Option<NewJob>,
    /// Nothing is submitted for the time being.
    pub disabled: bool,
    /// Free text.
    pub comment: String,
    /// When the job was submitted last, or the schedule made.
    pub fired: Option<Timestamp>,
    /// When the job is submitted next.
    pub next: Option<Timestamp>,
    /// Why the job was not submitted when it was due last, or why the schedule was disabled.
    #[serde(default)]
    pub reason: Option<Reason>,
}

/// An address to tell of changes.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// Where to send.
    pub url: String,
    /// States of jobs that are told; empty is all.
    #[serde(default)]
    pub events: Vec<String>,
    /// Owner whose jobs are told; None is everybody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Key for signatures: `whsec_` and base64 of 24 to 64 bytes. Without one a webhook that is there keeps its key, and a new one gets a key
    /// that the answer shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Nothing is sent for the time being.
    #[serde(default)]
    pub disabled: bool,
}

/// An address that is told of changes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WebhookView {
    /// Id.
    pub id: String,
    /// Where to send.
    pub url: String,
    /// States of jobs that are told; empty is all.
    pub events: Vec<String>,
    /// Owner whose jobs are told; None is everybody's.
    pub owner: Option<String>,
    /// Nothing is sent for the time being.
    pub disabled: bool,
    /// The key that the node made for a new webhook; shown this once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A delivery to a webhook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct DeliveryView {
    /// Number; later deliveries have greater ones.
    pub id: u64,
    /// Id of the job.
    pub job: String,
    /// The state that the job came into.
    pub event: String,
    /// When the last attempt ended, or when the delivery was noted if there was none.
    pub at: Timestamp,
    /// Attempts so far.
    pub attempts: u32,
    /// When the next attempt comes; None once the delivery has ended.
    pub next_attempt: Option<Timestamp>,
    /// Status of HTTP of the last attempt, or why there was none.
    pub status: String,
}

/// A line of the audit log.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct AuditView {
    /// Number; later lines have greater ones.
    pub seq: u64,
    /// When it was wanted.
    pub at: Timestamp,
    /// Who wanted it.
    pub actor: String,
    /// In which role.
    pub role: Option<String>,
    /// What was wanted.
    pub action: String,
    /// Of what.
    pub object: String,
    /// `ok`, or the code of the refusal.
    pub outcome: String,
    /// Address from which the request came.
    pub remote: Option<String>,
    /// Id of the request.
    pub request: Option<String>,
    /// Node that proposed the change, where several nodes are one cluster: it vouches for the user.
    #[serde(default)]
    pub via: Option<String>,
}

/// Whether the node lives or is ready.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Health {
    /// `ok`, or `ready`.
    pub status: String,
}
