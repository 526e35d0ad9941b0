//! Owns the named objects besides jobs: sites, schedules, users, tokens, rules, limits, webhooks, settings. Does not enforce them; the
//! node does.

mod check;
mod origin;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use godwit_model::millis;

use super::{CommandError, Peer, Reason, Secret, Timestamp};
use crate::bounds;

pub use origin::TokenOrigin;

/// An object that is stored under its kind and id.
pub trait Object: Serialize + DeserializeOwned + Clone {
    /// Name of the kind in the API and in the database.
    const KIND: &'static str;
    /// Maximum number of objects.
    const COUNT_MAX: u64 = bounds::OBJECTS_MAX;
    /// Id of this object.
    fn id(&self) -> String;
    /// A second key for lookups.
    fn lookup(&self) -> Option<String> {
        None
    }
    /// Checks that the fields are valid.
    ///
    /// # Errors
    /// The error names the first invalid field.
    fn check(&self) -> Result<(), CommandError>;
}

/// Role of a user. Each role includes the previous ones.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May read.
    Viewer,
    /// May also submit and change jobs.
    Operator,
    /// May change everything.
    Admin,
}

impl Role {
    /// The name in commands and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// The sender of a command.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// Name of the user or node.
    pub name: String,
    /// The role in which the command was sent; `None` for a node.
    pub role: Option<Role>,
    /// Address of the sender, or the identity of the node that acts for another site.
    pub remote: Option<String>,
    /// Id of the request.
    pub request: Option<String>,
    /// Number of the node that proposed the command. The receiving node sets it by the identity of the connection; the value in the
    /// command is ignored. `None` if the node is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<u64>,
}

impl Actor {
    /// A node that acts without a user.
    pub fn node(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }
}

/// A site: a node or cluster under one name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Name, as in `NAME:/export/path`.
    pub name: String,
    /// Addresses to dial, in this order.
    pub addresses: Vec<String>,
    /// Identity that the site must prove.
    pub identity: String,
    /// Comment of the operator.
    pub comment: String,
    /// Other nodes of the site: learned ones, and independent ones named by the operator. A change of the site clears the learned
    /// ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<SiteNode>,
}

/// Another node of a site, reported by the site itself or named by the operator.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SiteNode {
    /// The node as others reach it.
    #[serde(flatten)]
    pub peer: Peer,
    /// When the node that the operator named last reported this node; `None` below [`LEVEL_NAMED`](super::LEVEL_NAMED).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<Timestamp>,
    /// The operator named the node with the site. It shares the file system of the other nodes but no cluster, and reports only about
    /// itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub independent: bool,
}

/// How long a learned node is believed after the node that the operator named has reported it.
pub const BELIEVED_HOURS: u64 = 25;

impl SiteNode {
    /// Whether the node is believed at a time to belong to its site.
    #[must_use]
    pub fn is_believed(&self, at: Timestamp) -> bool {
        let until = |named: Timestamp| named.after(BELIEVED_HOURS * 3_600_000);
        self.independent || self.named.is_none_or(|named| at < until(named))
    }
}

impl Site {
    /// The nodes that the operator named besides the first one: no two of them are in a cluster.
    pub fn independent(&self) -> impl Iterator<Item = &SiteNode> {
        self.nodes.iter().filter(|node| node.independent)
    }

    /// The other nodes that count as nodes of the site at a given time, besides the first node that the operator named.
    pub fn believed(&self, at: Timestamp) -> impl Iterator<Item = &SiteNode> {
        let is_other = |node: &&SiteNode| node.peer.identity != self.identity;
        self.nodes
            .iter()
            .filter(is_other)
            .filter(move |node| node.is_believed(at))
    }
}

/// A job that is submitted repeatedly.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Id.
    pub id: String,
    /// Cron expression.
    pub cron: String,
    /// Time zone of the expression.
    pub time_zone: String,
    /// Owner of the jobs.
    pub owner: String,
    /// Role in which the schedule was put, which bounds the role of its jobs. `None` below [`LEVEL_ROLES`](super::LEVEL_ROLES).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Job to submit, as JSON text that the state does not interpret.
    pub template: String,
    /// Whether the schedule is suspended.
    pub disabled: bool,
    /// The latest tick that was handled. The state sets this field.
    #[serde(default, with = "millis::option")]
    pub fired: Option<Timestamp>,
    /// The reason why the schedule submits nothing. The state sets this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Comment of the operator.
    pub comment: String,
}

/// A user.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Name.
    pub name: String,
    /// Role.
    pub role: Role,
    /// argon2id hash; `None` for users without a password.
    pub password: Option<Secret>,
    /// Whether the user is locked out.
    pub disabled: bool,
}

/// A bearer token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Id.
    pub id: String,
    /// User of the token.
    pub user: String,
    /// Digest of the secret.
    pub hash: Secret,
    /// Origin of the token: the text of a [`TokenOrigin`].
    pub scope: String,
    /// The role of the token; at most the role of the user.
    pub role: Role,
    /// When the token was made.
    #[serde(with = "millis")]
    pub created: Timestamp,
    /// When the token expires.
    #[serde(default, with = "millis::option")]
    pub expires: Option<Timestamp>,
    /// When the token was revoked. The state sets this field.
    #[serde(default, with = "millis::option")]
    pub revoked: Option<Timestamp>,
    /// Last characters of the secret, for lists.
    pub last_digits: String,
    /// Comment of the user.
    pub comment: String,
}

/// One right of an access rule.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessRight {
    /// Read files.
    Read,
    /// Write files.
    Write,
    /// List directories.
    List,
    /// Delete entries.
    Delete,
}

/// The site of an access rule. The rule applies only while the site proves this identity.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSite {
    /// Name of the site.
    pub name: String,
    /// Identity of the site when the rule was made.
    pub identity: String,
}

/// Rights of a subject below a path of an export.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRule {
    /// Id.
    pub id: String,
    /// Subject of the rule: an identity, or `user:NAME`.
    #[serde(alias = "identity")]
    pub subject: String,
    /// Site of the export; `None` for this node or cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<RuleSite>,
    /// Name of the export; `*` is all exports.
    pub export: String,
    /// Path below the export; empty for the whole export.
    pub path: String,
    /// Allowed rights.
    pub rights: Vec<AccessRight>,
    /// When the rule ends.
    #[serde(default, with = "millis::option")]
    pub expires: Option<Timestamp>,
    /// Comment of the operator.
    pub comment: String,
    /// Job that the rule belongs to. The rule ends with the job.
    #[serde(default)]
    pub job: Option<String>,
}

/// Scope of a limit.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// A node.
    Node,
    /// All jobs of an owner.
    Owner,
    /// All jobs with a site.
    Site,
    /// Each job without a separate limit.
    JobDefault,
}

/// A rate for certain times of the week.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitWindow {
    /// Days: 0 is Monday, 6 is Sunday.
    pub days: Vec<u8>,
    /// First minute of the day, 0 to 1439.
    pub from: u16,
    /// Minute of the day at which the window ends. A window that ends before it starts lasts over midnight.
    pub to: u16,
    /// Bytes per second; `None` for no limit.
    pub rate: Option<u64>,
}

/// A limit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Scope of the limit.
    pub scope: LimitScope,
    /// Name of the node, owner or site; `*` is each of them.
    pub name: String,
    /// Bytes per second; `None` for no limit.
    pub rate: Option<u64>,
    /// Maximum number of concurrent jobs; `None` for no limit.
    pub jobs_max: Option<u32>,
    /// Rates by time of day. The first window that matches counts.
    pub windows: Vec<LimitWindow>,
    /// Name of the time zone of the windows.
    pub time_zone: String,
}

impl Limit {
    /// The rate on a day (0 is Monday) at a minute of the day, both in the limit's time zone.
    #[must_use]
    pub fn rate_at(&self, day: u8, minute: u16) -> Option<u64> {
        let holds = |window: &&LimitWindow| {
            let yesterday = (day + 6) % 7;
            let on = |day: u8| window.days.contains(&day);
            if window.from < window.to {
                on(day) && (window.from..window.to).contains(&minute)
            } else {
                (on(day) && minute >= window.from) || (on(yesterday) && minute < window.to)
            }
        };
        match self.windows.iter().find(holds) {
            Some(window) => window.rate,
            None => self.rate,
        }
    }
}

/// Weight of an owner when owners compete.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The owner.
    pub owner: String,
    /// The weight; an owner without a share has 1.
    pub weight: u32,
}

/// An address that receives reports of changes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Id.
    pub id: String,
    /// Address of the receiver.
    pub url: String,
    /// States of jobs to report; empty for all.
    pub events: Vec<String>,
    /// Owner of the jobs to report; `None` for all owners.
    pub owner: Option<String>,
    /// Key for signatures; empty in a command that leaves the key as it is.
    pub secret: Secret,
    /// Whether the webhook is suspended.
    pub disabled: bool,
}

/// A setting that was changed at run time.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Name in the settings table.
    pub name: String,
    /// Value as text.
    pub value: String,
}
