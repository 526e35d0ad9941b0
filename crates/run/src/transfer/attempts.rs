//! The record that attempts of one job share about its destination: reads it and adds to it. Stores
//! nothing; the job's owner does.

use std::sync::Arc;

use godwit_api::failure::Failure;
use godwit_engine::Fence;
use godwit_proto::{Mapping, limits};
use godwit_tree::{Earlier, PreparedDestination};

use crate::env::Env;

/// The record, for one attempt.
#[derive(Clone, Copy)]
pub(super) struct AttemptRecord<'a> {
    pub(super) env: &'a Env,
    /// A dry run adds nothing.
    pub(super) is_dry: bool,
}

impl AttemptRecord<'_> {
    /// The results of earlier attempts.
    pub(super) fn earlier(&self) -> Earlier {
        let attempts = self.env.attempts.as_ref();
        attempts.map_or_else(Earlier::default, |attempts| attempts.earlier())
    }

    /// The fence that decides whether this attempt may still write here, if that permission can
    /// end.
    pub(super) fn fence(&self) -> Option<Arc<dyn Fence>> {
        self.env.attempts.as_ref()?.fence()
    }

    /// The name of this node, if others may make attempts of the job.
    pub(super) fn node(&self) -> Result<Vec<u8>, Failure> {
        match self.env.attempts {
            Some(_) => Ok(self.env.home.identity()?.id().to_string().into_bytes()),
            None => Ok(Vec::new()),
        }
    }

    /// The results of earlier attempts for a destination at a daemon; `None` without an earlier
    /// attempt.
    pub(super) fn earlier_of_push(&self) -> Option<godwit_proto::Earlier> {
        let Earlier {
            into,
            mut tags,
            age,
        } = self.earlier();
        tags.truncate(limits::EARLIER_TAGS_MAX);
        into.map(|into| godwit_proto::Earlier {
            mapping: Mapping::of(into).0,
            tags,
            age_ms: age.and_then(|age| u64::try_from(age.as_millis()).ok()),
        })
    }

    /// The nodes that may take over this push. Under a mandate, the grants of the mandate name
    /// them.
    pub(super) fn heirs(&self) -> Vec<String> {
        let attempts = self.env.attempts.as_ref();
        let attempts = attempts.filter(|_| self.env.mandate.is_none());
        let mut heirs = attempts.map_or_else(Vec::new, |attempts| attempts.heirs());
        heirs.truncate(limits::HEIRS_MAX);
        heirs
    }

    /// Records the meaning of a local destination, before anything is written to it.
    pub(super) fn report_place(&self, prepared: Option<&PreparedDestination>) {
        if let Some(prepared) = prepared {
            self.report_placed(prepared.into, prepared.config.tag);
        }
    }

    /// Records the meaning of the destination, before anything is sent to it.
    pub(super) fn report_placed(&self, into: bool, tag: u64) {
        if let Some(attempts) = self.env.attempts.as_ref().filter(|_| !self.is_dry) {
            attempts.placed(into, tag);
        }
    }
}
