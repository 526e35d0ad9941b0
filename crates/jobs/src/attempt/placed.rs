//! Keeps in the state the meaning of an attempt's destination, and the tags of leftovers; passes both on to later attempts.
//! Does not decide what a destination means.

use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_run::{Attempts, Control, Earlier, Fence};
use godwit_state::{Agreed, JobOp, Node, Placed, ProposeError};

use super::fence::ClaimFence;
use crate::basis::this_node::ThisNode;

/// How long an attempt waits for the state before it continues without the note. A leader is chosen within seconds.
const PATIENCE: Duration = Duration::from_secs(30);

const PROPOSE_AGAIN: Duration = Duration::from_millis(200);

/// The earlier attempts of a job, as seen by the present one.
pub(crate) struct Placing {
    this: Arc<ThisNode>,
    job: String,
    epoch: u64,
    control: Control,
    fence: Option<Arc<ClaimFence>>,
    /// The meaning of the destination to a relay, until an attempt has found it out.
    relayed: Option<bool>,
}

impl Placing {
    /// Makes the placing of an attempt with this fence. A divided attempt has none here. `relayed` is the meaning of the destination to a
    /// relay.
    pub(crate) fn of(
        this: &Arc<ThisNode>,
        job: &str,
        epoch: u64,
        control: &Control,
        fence: Option<&Arc<ClaimFence>>,
        relayed: Option<bool>,
    ) -> Arc<dyn Attempts> {
        Arc::new(Self {
            this: Arc::clone(this),
            job: job.to_owned(),
            epoch,
            control: control.clone(),
            fence: fence.cloned(),
            relayed,
        })
    }

    fn read(&self) -> Placed {
        let read = Agreed(&self.this.reader()).placed(&self.job);
        read.unwrap_or_else(|error| {
            self.this.log(&format!("job {}: {error}", self.job));
            Placed::default()
        })
    }
}

impl Attempts for Placing {
    fn fence(&self) -> Option<Arc<dyn Fence>> {
        let fence = Arc::clone(self.fence.as_ref()?);
        Some(fence)
    }

    fn heirs(&self) -> Vec<String> {
        let own = &self.this.name;
        let nodes = self.this.reader().objects::<Node>();
        // Without them another node waits until the receiver has given up this one.
        let others = nodes.unwrap_or_default().into_iter();
        let others = others.filter(|row| row.name != *own);
        others.map(|row| row.identity).collect()
    }

    fn earlier(&self) -> Earlier {
        let Placed { into, tags } = self.read();
        let into = into.or(self.relayed);
        let attempts = self.this.reader().attempts(&self.job).unwrap_or_default();
        let first = attempts.first().filter(|_| attempts.len() > 1);
        let age = first.and_then(|first| {
            let millis = self.this.now().0.checked_sub(first.started.0)?;
            Some(Duration::from_millis(u64::try_from(millis).ok()?))
        });
        Earlier { into, tags, age }
    }

    /// Nothing is written before the state has it, so that a crash cannot leave a destination that the next attempt misunderstands.
    fn placed(&self, into: bool, tag: u64) {
        let known = self.read();
        if known.into == Some(into) && known.tags.first() == Some(&tag) {
            return;
        }
        let op = JobOp::Placed {
            epoch: self.epoch,
            into,
            tag,
        };
        let until = Instant::now() + PATIENCE;
        loop {
            match self.this.propose_for(&self.job, op.clone()) {
                // A refusal means that the job is another runner's by now, which ends this attempt.
                Ok(()) | Err(ProposeError::Refused(_)) => return,
                Err(error) if Instant::now() >= until || self.control.is_cancelled() => {
                    let id = &self.job;
                    self.this.log(&format!(
                        "job {id}: the resolved destination could not be stored: {error}"
                    ));
                    return;
                }
                Err(_) => std::thread::sleep(PROPOSE_AGAIN),
            }
        }
    }
}
