//! Owns flows: data that moves from place to place. Each hop is a job that runs again and again.
//! Decides no start of a run; the leader does.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use godwit_model::{Amount, millis};

use super::{CommandError, NewJob, Object, Role, Timestamp};
use crate::bounds::{self, FLOW_BYTES_MAX, FLOWS_MAX, HOPS_MAX};

/// Seconds after which a hop looks for new files again, at the least and at the most.
pub const FLOW_SECONDS: RangeInclusive<u32> = 1..=86_400;

/// A flow passes files from place to place.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Id.
    pub id: String,
    /// Owner of the jobs.
    pub owner: String,
    /// Role in which the flow was put, which bounds the role of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The hops, in the order of the data.
    pub hops: Vec<Hop>,
    /// Most seconds after which a hop looks for new files again.
    pub every: u32,
    /// Whether the flow is suspended: no run starts.
    pub paused: bool,
    /// Comment of the operator.
    pub comment: String,
    /// When the flow was added. The state sets this field.
    #[serde(default, with = "millis::option")]
    pub created: Option<Timestamp>,
}

/// A hop of a flow: from one place to the next. A change of the flow keeps all facts about the runs of a hop.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The job of each run, as JSON text that the state does not interpret.
    pub template: String,
    /// Ids of the jobs of the last runs, the latest last. The state sets this field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// When the latest run was submitted. The state sets this field.
    #[serde(default, with = "millis::option")]
    pub started: Option<Timestamp>,
    /// Amount that the hop before had moved at that time. The state sets this field.
    #[serde(default)]
    pub seen: Amount,
    /// Amount that was known to wait when the latest run was submitted. The state sets this field.
    #[serde(default)]
    pub waited: Amount,
    /// Amount that all runs before the latest one moved. The state sets this field.
    #[serde(default)]
    pub moved: Amount,
    /// The submission time of the last complete run that precedes the latest run. Every file that existed at this time has
    /// been passed on. The state sets this field.
    #[serde(default, with = "millis::option")]
    pub clear: Option<Timestamp>,
}

/// A run of a hop.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowRun {
    /// Id of the flow.
    pub flow: String,
    /// Number of the hop, counted from 0.
    pub hop: u32,
    /// The job to submit.
    pub job: NewJob,
    /// Amount that the hop before has moved.
    #[serde(default)]
    pub seen: Amount,
}

impl Object for Flow {
    const KIND: &'static str = "flow";
    const COUNT_MAX: u64 = FLOWS_MAX;
    fn id(&self) -> String {
        self.id.clone()
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("id", &self.id)?;
        bounds::name("owner", &self.owner)?;
        bounds::text("comment", &self.comment)?;
        bounds::count("hops", self.hops.len(), HOPS_MAX)?;
        if self.hops.is_empty() {
            return Err(CommandError::invalid("hops", "a flow has a hop"));
        }
        let bytes: usize = self.hops.iter().map(|hop| hop.template.len()).sum();
        if bytes > FLOW_BYTES_MAX {
            let what = format!("the jobs have {bytes} bytes together; at most {FLOW_BYTES_MAX}");
            return Err(CommandError::invalid("hops", what));
        }
        if !FLOW_SECONDS.contains(&self.every) {
            let (least, most) = (*FLOW_SECONDS.start(), *FLOW_SECONDS.end());
            let what = format!("must be {least} to {most} seconds");
            return Err(CommandError::invalid("every", what));
        }
        let mut hops = self.hops.iter();
        hops.try_for_each(|hop| bounds::spec("template", &hop.template))
    }
}
