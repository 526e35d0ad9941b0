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

mod asking;
mod attempt;
mod basis;
mod guests;
mod queue;
mod rights;
mod service;
mod views;

pub use asking::manifest::Manifest;
pub use basis::clock::{Clock, now};
pub use basis::error::{JobsError, OWN_FILE_FAILS};
pub use basis::turns::Turn;
pub use basis::zone::{check_time_zone, time_zone_trouble};
pub use godwit_history::{HostTotals, host_totals, render as report_page};
pub use guests::{Guests, is_of_site as is_for_other_site};
pub use queue::nodes::IsMember;
pub use queue::schedule::kept_role;
pub use queue::submit::{WAITING_OF_OWNER_MAX, check_source_count};
pub use rights::access::{Access, Granted, grant_of, rule_of};
pub use service::{
    FileGrants, Jobs, JobsConfig, MakeEnv, directory_of, manifest_of, progress_of, progress_of_all,
    sites_of,
};
pub use views::seen::Seen;
pub use views::work::work_of;

use service::Shared;
