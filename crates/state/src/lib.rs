//! Owns the replicated state of a node: applies commands deterministically and stores their effects in SQLite. Runs no job, opens no socket
//! and reads no clock.
//!
//! A [`Command`] contains its time, its ids and its actor. [`Replica::propose`] writes it to a consensus log, which is on the disk before
//! the command is acknowledged. It then applies the command in one transaction together with its index. A refused command changes nothing;
//! the result contains the reason ([`CommandError`]). [`Reader`] reads the applied state, and [`Follower`] reports each change.
//!
//! ```
//! use godwit_state::{
//!     Actor, Command, JobOp, JobState, JobQueue, NewJob, Op, Options, StoredPlace, Replica, RetryPolicy, Runner, Timestamp,
//! };
//!
//! # let directory = tempfile::tempdir()?;
//! let replica = Replica::open(Options::new(directory.path()))?;
//! let now = Timestamp(1_800_000_000_000);
//! let place = |site: &str, path: &str| StoredPlace { site: site.into(), path: path.into() };
//! let job = NewJob {
//!     id: "01jd8z".into(),
//!     label: "night-42".into(),
//!     owner: "alice".into(),
//!     spec: "{}".into(),
//!     sources: vec![place("siteA", "/data/run42")],
//!     destination: place("siteB", "/archive/run42"),
//!     priority: 0,
//!     limit: None,
//!     not_before: None,
//!     deadline: None,
//!     retry: RetryPolicy::default(),
//!     idempotency_key: None,
//! };
//! replica.propose_blocking(Command::new(now, Actor::node("node1"), Op::Submit(Box::new(job))))?;
//!
//! // A node takes what is due. The claim names the epoch that the node saw, so of two nodes one gets the job.
//! let job = JobQueue(&replica.reader()).due(now, 1, 1)?.remove(0);
//! let runner = Runner { node: "node1".into(), instance: "a random text".into() };
//! let claim = Op::Job(job.id.clone(), JobOp::Claim { runner, seen: job.epoch });
//! replica.propose_blocking(Command::new(now, Actor::node("node1"), claim))?;
//!
//! let events = replica.follow(0).look()?;
//! assert_eq!(events.last().map(|event| event.change.as_str()), Some("job.claim"));
//! assert_eq!(replica.reader().job(&job.id)?.map(|job| job.state), Some(JobState::Scanning));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//!
//! | file | content | durability |
//! | --- | --- | --- |
//! | `raft.db` | log and vote | synced before a command is acknowledged |
//! | `state.db` | the state, and the position of its last command | synced before the log is cut; applied again from the log after a power cut |
//! | `snapshot.db` | a copy of the state, behind which the log is cut | written under another name, synced, renamed |
//! | `state.lock` | keeps other processes out | |
//! | `kept-N/` | files that a restore replaced | |

mod affinity;
mod apply;
mod bounds;
mod fault;
mod model;
mod raft;
mod read;
mod replica;
mod schema;
mod seal;
mod store;

pub use apply::check_job;
pub use bounds::{
    ATTEMPTS_MAX, AUDIT_OF_SITE_MAX, DESTINATIONS_MAX, FLOW_BYTES_MAX, FLOWS_MAX, HOPS_MAX,
    JOBS_OF_SITE_MAX, PAGE_BYTES, RELAYS_MAX, RULES_OF_ASKER_MAX, RULES_OF_JOBS_MAX, SOURCES_MAX,
    SPEC_BYTES_MAX, SPEC_BYTES_OF_OWNER_MAX, SPEC_BYTES_OF_SITE_MAX,
};
pub use fault::{Fault, FaultKind};
pub use model::*;
pub use raft::{Answer, NoPeers, PROPOSE, Peers, is_short};
pub use read::{
    Agreed, AuditFilter, AuditLine, ById, Cursor, Deliveries, DeliveryLine, Details, Families,
    GuestJobs, HeldItems, JobAmounts, JobDetails, JobFilter, JobPage, JobQueue, Kept,
    PendingDelivery, Reader, WorkKind, Works,
};
pub use replica::{
    Done, Ended, FollowError, Follower, Gate, Member, Members, OpenError, Options, ProposeError,
    Readiness, Replica, Restored, backup, recover, restore, set_aside,
};
pub use store::{Batch, Position, Store};
