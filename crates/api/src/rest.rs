//! Owns the documents of the REST API: the JSON that clients and nodes exchange.
//! Serves nothing: `web` has the routes, and `jobs` decides what the documents mean.

mod access;
mod buffer;
mod cluster;
mod entries;
mod figures;
mod flow;
mod grant;
mod job;
mod merge;
mod place;
mod problem;
mod progress;
mod rate;
mod report;
mod rules;
mod work;

pub use access::{
    AccountView, ExportView, IndependentNode, Login, NewPassword, NewSession, NewSite, NewToken,
    NewUser, NodeView, RoleName, SessionView, SiteView, TokenCreated, TokenKind, TokenView,
    UserView,
};
pub use buffer::{
    BufferChanged, BufferFile, BufferFiles, BufferNode, BufferNodeChanged, BufferStall, BufferView,
    BufferVolume, DropFromBuffer, KeepInBuffer, RetryDrain,
};
pub use cluster::{
    ChangeNode, ClusterNode, ClusterView, InviteView, ListedInvite, NewInvite, NodeInterface,
    NodeResources, NodeRoom, NodeState,
};
pub use entries::{CleanEntries, NewDirectory, RemoveEntry, RenameEntry};
pub use figures::{RateKind, RateSeries, RatesView, SettingView};
pub use flow::{FlowHopState, FlowHopView, FlowView, NewFlow};
pub use godwit_model::{
    Amount, AttemptOutcome, AuditOutcome, Bottleneck, FailureGroup, JobState, Moved, Peer, Reason,
    Timestamp,
};
pub use grant::{ALL_EXPORTS, AccessOrigin, AccessView, NewAccess, RightName};
pub use job::{
    AttemptView, CancelJob, ChangeJob, ChannelView, DestinationCount, Divide, JobList, JobProgress,
    JobView, LineOrigin, LogLine, LogPage, MissingNode, NewJob, ProgressView, Relay, SampleView,
};
pub use merge::{Merge, own_place};
pub use place::{HERE, Place, PlaceError, check_site_name, whole_site};
pub use problem::{Problem, is_request_id};
pub use progress::{ForecastView, NodeProgress};
pub use rate::RateInput;
pub use report::{
    Distribution, EvennessView, ForecastReview, InterfaceShare, JobReport, NodeShare,
};
pub use rules::{
    AuditView, DeliveryView, Health, LimitScopeName, LimitView, NewLimit, NewSchedule, NewShare,
    NewWebhook, NewWindow, ScheduleView, ShareView, WebhookView, WindowView,
};
pub use work::{
    WorkDoneView, WorkKindName, WorkNodeView, WorkOpenView, WorkPairView, WorkRootView, WorkView,
};
