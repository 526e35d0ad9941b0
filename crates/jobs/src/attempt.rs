//! Groups the attempts of jobs: what all of them share, and the three ways to run one (`local`, `divided`, `site`).
//! Does not decide when the next one comes, except for the delay of the job's policy.

pub(crate) mod after_crash;
pub(crate) mod askers;
pub(crate) mod claim;
pub(crate) mod divided;
mod ending;
mod events;
mod fence;
mod foresight;
mod lack;
pub(crate) mod left;
pub(crate) mod live;
pub(crate) mod local;
mod placed;
pub(crate) mod promises;
pub(crate) mod record;
mod relay;
mod removal;
pub(crate) mod reports;
mod seal;
mod shared;
pub(crate) mod site;
mod space;
pub(crate) mod start;
mod veil;

use godwit_run::Env;
use godwit_state::Site;

pub(crate) use events::AttemptEvents;
use events::per_second;
pub(crate) use fence::{Claim, ClaimFence};
pub(crate) use placed::Placing;
pub(crate) use shared::SharedSources;
pub(crate) use space::Shortage;

/// Makes the surroundings of one attempt, which connects to these sites only.
pub type MakeEnv = dyn Fn(&[Site]) -> Env + Send + Sync;
