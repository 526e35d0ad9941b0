//! Checks a job that is submitted, and puts it into the state.
//! Does not run it.

mod room;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use godwit_api::endpoint::Endpoint;
use godwit_api::failure::FailureCode;
use godwit_api::job::JobKind;
use godwit_api::rest::{NewJob, Place};
use godwit_run::local::ExportedFiles;
use godwit_state::{
    Actor, Agreed, Command, CommandError, LEVEL_SEALED, NewFamily, NewJob as Submitted, Node, Op,
    ProposeError, RELAY_KEY, RetryPolicy, Role, Site, StoredPlace, Timestamp, sortable_id,
};

use crate::asking::{Asking, manifest, overlaps};
use crate::basis::clock::random;
use crate::basis::error::JobsError;
pub use crate::basis::spec::check_source_count;
use crate::basis::stored::Stored;
use crate::basis::this_node::ThisNode;
use crate::basis::turns::Turns;
use crate::basis::{removal, sealing, spec};
use crate::queue::family::{Family, May};
use crate::queue::{family, gather, relay};
use crate::rights::{Rights, access};
pub use room::WAITING_OF_OWNER_MAX;
pub(crate) use room::{LastCounts, check_room, check_room_again};

/// Ids that are tried: two jobs of one second share one once in 33 million pairs.
const IDS_MAX: usize = 4;

/// The parts that decide whether a job is taken.
pub(crate) struct Admission {
    pub(crate) this: Arc<ThisNode>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) asking: Arc<Asking>,
    /// The exports of this node.
    pub(crate) exported: Arc<dyn ExportedFiles>,
    /// Turns of requests that add to a bounded number of things of one owner.
    pub(crate) turns: Arc<Turns>,
    /// Jobs of one owner that wait; usually [`WAITING_OF_OWNER_MAX`].
    pub(crate) waiting_of_owner_max: u64,
    pub(crate) counts: LastCounts,
}

/// Submits; returns the id, and whether the job is new.
pub(crate) fn submit(
    admission: &Admission,
    actor: Actor,
    owner: &str,
    new: &NewJob,
    key: Option<String>,
) -> Result<(String, bool), JobsError> {
    if key.as_deref().is_some_and(|key| key.starts_with(RELAY_KEY)) {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            format!(
                "the node itself uses idempotency keys that begin with {RELAY_KEY:?}; choose another key"
            ),
        ));
    }
    let may = |one: &NewJob, sources: &[Place], destination: &Place| match actor.role {
        Some(role) => {
            let there = access::There::of(one);
            access::check_places(&admission.rights, owner, role, there, sources, destination)
        }
        None => Ok(()),
    };
    let checked = check_job(admission, actor.role, new, &may, overlaps::WITHIN)?;
    // A repeated submission is no new job.
    let is_repeated = match &key {
        Some(key) => (admission.this.reader().job_by_key(owner, key)?).is_some(),
        None => false,
    };
    // Simultaneous submissions get no further than successive ones.
    let _turn = admission.turns.take(format!("jobs of {owner}"));
    if !is_repeated {
        check_room(admission, owner)?;
    }
    propose(&admission.this, actor, &|at| {
        let (job, children) = checked.build(at, owner, new, key.clone());
        let id = job.id.clone();
        let op = match children.is_empty() {
            true => Op::Submit(Box::new(job)),
            false => Op::SubmitFamily(Box::new(NewFamily {
                parent: job,
                children,
            })),
        };
        Ok((id, op))
    })
}

/// A job that was checked, whether a user submits it or a schedule does.
pub(super) enum CheckedJob {
    /// A job with one destination, and its description.
    One {
        places: (Vec<Place>, Place),
        text: String,
    },
    /// A job with several destinations or gathered sources.
    Several(Box<Family>),
}

impl CheckedJob {
    /// The job as the state takes it, and the job of each destination or gathered source.
    pub(super) fn build(
        &self,
        at: Timestamp,
        owner: &str,
        new: &NewJob,
        key: Option<String>,
    ) -> (Submitted, Vec<Submitted>) {
        match self {
            Self::One { places, text } => {
                let job = build(at, owner, new, text.clone(), places, key);
                (job, Vec::new())
            }
            Self::Several(family) => family.build(at, owner, new, key),
        }
    }
}

/// Whether a job would be taken from a user of this role: its form, places, settings, and the rights that `may` knows. Other sites may take
/// this long to compare directories.
pub(super) fn check_job(
    admission: &Admission,
    role: Option<Role>,
    new: &NewJob,
    may: &May<'_>,
    within: Duration,
) -> Result<CheckedJob, JobsError> {
    relay::check_form(new)?;
    removal::check(&admission.this.reader(), new)?;
    if !new.more_destinations.is_empty() || new.gather {
        let family = family::check(admission, role, new, may, within)?;
        return Ok(CheckedJob::Several(Box::new(family)));
    }
    let places = check(&admission.this, new)?;
    // The identity is found before the rights are checked, because rights at a site belong to its identity.
    let text = Stored::text_of(&admission.this.reader(), new, role, &places)?;
    may(new, &places.0, &places.1)?;
    Ok(CheckedJob::One { places, text })
}

/// Submits the job that `build` makes of a moment, with its id; returns the id, and whether the job is new.
pub(crate) fn propose(
    this: &ThisNode,
    actor: Actor,
    build: &dyn Fn(Timestamp) -> Result<(String, Op), JobsError>,
) -> Result<(String, bool), JobsError> {
    for _ in 0..IDS_MAX {
        let at = this.now();
        let (id, op) = build(at)?;
        let command = Command::new(at, actor.clone(), op);
        match this.replica.propose_blocking(command) {
            Ok(_) => return Ok((id, true)),
            Err(ProposeError::Refused(CommandError::Duplicate { job, same: true })) => {
                return Ok((job, false));
            }
            Err(ProposeError::Refused(CommandError::Conflict { kind, .. })) if kind == "job" => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(JobsError::invalid(
        FailureCode::Conflict,
        "no free id was found for the job; submit the job again",
    ))
}

/// The job as the state takes it; `spec` is the text of its description.
pub(crate) fn build(
    at: Timestamp,
    owner: &str,
    new: &NewJob,
    spec: String,
    (sources, destination): &(Vec<Place>, Place),
    idempotency_key: Option<String>,
) -> Submitted {
    let place = |place: &Place| StoredPlace {
        site: place.site.clone(),
        path: place.below_site(),
    };
    Submitted {
        id: sortable_id(at, random()),
        label: new.label.clone(),
        owner: owner.to_owned(),
        spec,
        sources: sources.iter().map(place).collect(),
        destination: place(destination),
        priority: new.priority,
        limit: new.limit,
        not_before: new.not_before,
        deadline: new.deadline,
        retry: RetryPolicy {
            retries_max: new.retries_max,
            ..RetryPolicy::default()
        },
        idempotency_key,
    }
}

/// Whether the job could be run: places, sites, exports and settings make sense.
pub(crate) fn check(this: &ThisNode, new: &NewJob) -> Result<(Vec<Place>, Place), JobsError> {
    let reader = this.reader();
    if sealing::kinds(new).is_some() {
        let level = Agreed(&reader).level()?;
        if level < LEVEL_SEALED {
            return Err(JobsError::invalid(
                FailureCode::Invalid,
                format!(
                    "settings: --manifest ascmhl: the cluster is at level {level} and takes such jobs from level {LEVEL_SEALED} on; update all nodes"
                ),
            ));
        }
    }
    check_known(this, new, &|site| {
        Ok(reader.object::<Site>(site)?.is_some())
    })
}

/// The same, where `is_known` decides which sites exist.
pub(crate) fn check_known(
    this: &ThisNode,
    new: &NewJob,
    is_known: &dyn Fn(&str) -> Result<bool, JobsError>,
) -> Result<(Vec<Place>, Place), JobsError> {
    if new.gather {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            "gather: a site gathers nothing for another site; submit a job for each source",
        ));
    }
    gather::check_merge(new)?;
    if !new.more_destinations.is_empty() {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            "more_destinations: a site runs jobs with one destination for another site; name one, and submit a job for each",
        ));
    }
    check_source_count(new.sources.len())
        .map_err(|what| JobsError::invalid(FailureCode::Invalid, format!("sources: {what}")))?;
    spec::check_length(new)?;
    let (sources, destination) = spec::places(new)?;
    if new.kind == JobKind::Verify {
        check_verification(new, &sources)?;
    }
    for place in sources.iter().chain([&destination]) {
        if place.is_here() && !place.is_memory() {
            let exports = all_exports(this)?;
            if !exports.contains(&place.export) {
                return Err(JobsError::invalid(
                    FailureCode::NoSuchExport,
                    format!(
                        "this node has no export {:?}; it has: {}",
                        place.export,
                        exports.join(", ")
                    ),
                ));
            }
        } else if !place.is_here() && !is_known(&place.site)? {
            return Err(spec::unknown_site(&place.site));
        }
    }
    spec::check_settings(new)?;
    spec::check_list(new)?;
    manifest::check(new)?;
    let resolved = match new.kind {
        JobKind::Verify => new.kind.verify_settings(&new.settings).map(|_| None),
        JobKind::Copy | JobKind::Sync => new.kind.copy_settings(&new.settings).map(Some),
    };
    let resolved = resolved
        .map_err(|error| JobsError::invalid(FailureCode::Invalid, format!("settings: {error}")))?;
    if let Some(mut settings) = resolved {
        // The file gets its name from the id of the job.
        let has_manifest = new.manifest || new.remove_source_after.is_some();
        settings.reports.manifest = has_manifest.then(PathBuf::new);
        let ends: Vec<Endpoint> = sources.iter().map(spec::here).collect();
        let is_listed = !new.list.is_empty();
        godwit_run::check(&settings, is_listed, &ends, &spec::here(&destination))
            .map_err(|failure| JobsError::invalid(FailureCode::Invalid, failure.message))?;
        sealing::check(new).map_err(|what| {
            JobsError::invalid(FailureCode::Invalid, format!("settings: {what}"))
        })?;
    }
    Ok((sources, destination))
}

/// The exports of this node, and of the other nodes of its cluster.
fn all_exports(this: &ThisNode) -> Result<Vec<String>, JobsError> {
    let mut exports = this.exports.clone();
    for node in this.reader().objects::<Node>()? {
        exports.extend(node.exports);
    }
    exports.sort();
    exports.dedup();
    Ok(exports)
}

/// A verification reads its manifest here, wherever the copy is.
fn check_verification(new: &NewJob, sources: &[Place]) -> Result<(), JobsError> {
    let is_manifest_here = matches!(sources, [manifest] if manifest.is_here());
    if !is_manifest_here {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            "sources: a verification has one source, the manifest, written as here:/EXPORT/PATH",
        ));
    }
    if new.selection.is_some() || !new.list.is_empty() {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            "selection: a verification checks all entries of its manifest; leave the selection and the list out",
        ));
    }
    Ok(())
}
