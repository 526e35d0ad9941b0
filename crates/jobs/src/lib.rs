//! Decides which job runs when on a node, runs it, and keeps its records while it runs and after.
//! Serves no request, and moves no data itself: `web` and `run` do.
//!
//! ```text
//! Jobs::submit, pause, … ─▶ state (commands) ─▶ events ─▶ scheduler ─▶ attempt (a thread, run::Runner)
//!                                 ▲                                        │
//!                                 └── claim, report, backoff, finish ◀─────┤
//!                     live figures, HOME/jobs/ID/{log,samples}.jsonl ◀─────┘
//! ```
//!
//! The state is the target; the scheduler follows it. The scheduler reads the state after each change, and when the next event is due. It
//! stops attempts whose claim has ended, and starts those that are due. A caller that changes a job only proposes a command.
//!
//! The modules stand in groups. Each group uses only later ones: `guests` (jobs for other sites) and `views` (what callers see), `service`
//! (the requests of callers), `queue`, `attempt`, `rights` and `asking`, `basis` (the words of all).

mod asking;
mod attempt;
mod basis;
mod guests;
mod queue;
mod rights;
mod service;
mod views;

pub use asking::manifest::Manifest;
pub use attempt::MakeEnv;
pub use basis::clock::{Clock, now};
pub use basis::cluster::{IsMember, OwnPeer};
pub use basis::error::{JobsError, OWN_FILE_FAILS};
pub use basis::owners::is_of_site as is_for_other_site;
pub use basis::turns::Turn;
pub use basis::zone::{check_time_zone, time_zone_trouble};
pub use godwit_history::{Energy, HostTotals, host_totals, is_host_figure, render as report_page};
pub use guests::Guests;
pub use queue::submit::{WAITING_OF_OWNER_MAX, check_source_count};
pub use rights::FileGrants;
pub use rights::access::{Access, Granted, grant_of, rule_of};
pub use service::{Flows, JobRecords, Jobs, JobsConfig, Schedules};
pub use views::runs::runs_elsewhere;
pub use views::seen::Seen;
pub use views::work::work_of;
