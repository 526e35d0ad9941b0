//! Owns the types of the replicated state: commands, effects, jobs, and the other objects. Uses no
//! database, clock or network.

mod command;
mod credential;
mod effect;
mod event;
mod family;
mod flow;
mod id;
mod job;
mod level;
mod looked;
mod name;
mod node;
mod object;
mod policy;
mod prune;
mod secret;
mod transition;
mod work;

pub use command::{
    AuditEntry, COMMAND_BYTES_MAX, COMMAND_VERSION, Change, Command, Delivery, Finish, JobChange,
    JobOp, Learn, NewJob, Op, SiteAnswer,
};
pub use credential::{NewPassword, ProvenToken, RevokeTokens};
pub use effect::{Applied, CommandError, Effect};
pub use event::{DRAINED_EVENT, Event, SITE_EVENTS, Topic};
pub use family::{Child, NewFamily, RELAY_KEY, RelayKey};
pub use flow::{FLOW_SECONDS, Flow, FlowRun, Hop};
pub use godwit_model::{
    Amount, AttemptOutcome, AuditOutcome, Code, FailureCode, FailureGroup, JobState, Moved, Peer,
    Reason, Timestamp,
};
pub use id::sortable_id;
pub(crate) use job::NotedRoute;
pub use job::{Attempt, Job, Outcome, Placed, Route, Runner, StoredPlace, reason};
pub use level::{
    FEATURE_LEVEL, LEVEL_AFFINITY, LEVEL_ATTEMPTS, LEVEL_CLAIMS, LEVEL_CLOSES, LEVEL_DELIVERIES,
    LEVEL_DESTINATIONS, LEVEL_DRAINED, LEVEL_EARLIER_AMOUNTS, LEVEL_FEWER_PARTS, LEVEL_FIRST,
    LEVEL_FLOWS, LEVEL_INDEPENDENT, LEVEL_INVITES, LEVEL_KEPT_KEY, LEVEL_KEPT_PASSWORD,
    LEVEL_LEARN_AUDITED, LEVEL_LEFT, LEVEL_MEMBERS, LEVEL_MOVED, LEVEL_NAMED, LEVEL_ORIGIN,
    LEVEL_PASSWORD, LEVEL_PROVEN, LEVEL_REMOVALS, LEVEL_REST, LEVEL_REVOKE, LEVEL_ROLES,
    LEVEL_ROUTE, LEVEL_SCHEDULE_OWNERS, LEVEL_SEALED, LEVEL_SIGHTED, LEVEL_SITES, LEVEL_STOPS,
    LEVEL_TRY_NOW, LEVEL_USAGE, level_trouble,
};
pub use looked::{EndUsage, Looked, Usage};
pub use name::Names;
pub(crate) use name::{check_node, stands_for_account};
pub use node::{FormerNode, Invite, Join, Node};
pub use object::{
    AccessRight, AccessRule, Actor, BELIEVED_HOURS, Limit, LimitScope, LimitWindow, Object, Role,
    RuleSite, Schedule, Setting, Share, Site, SiteNode, Token, TokenOrigin, User, Webhook,
};
pub(crate) use policy::DELAY_MAX_MS;
pub use policy::RetryPolicy;
pub use prune::Prune;
pub use secret::Secret;
pub use transition::{Cause, TRANSITIONS, allowed, transition_table};
pub use work::{
    CLOSE_SHARES_MAX, Closed, FILE_PARTS_MAX, FOUND_ITEMS_MAX, Found, OpenWork, Pair, ROOTS_MAX,
    SHARES_MAX, SetPairs, Settle, Settled, Settlement, TARGETS_MAX, TakeWork, Taken, Task,
    WORK_LIST_MAX, WORK_PATHS_BYTES_MAX, Work, WorkCounts, WorkItem, WorkOp, WorkPart, WorkPath,
    WorkRoot, WorkTargets,
};
