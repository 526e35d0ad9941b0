//! Owns the bounds of the state: the lengths of texts, and the numbers of rows. Does not know the fields; their owners call this
//! module.

use crate::model::CommandError;

/// Longest name or id: a DNS name, a user name, an identity, a path component.
const NAME_BYTES_MAX: usize = 255;
/// Longest free text: a Linux path, and a sentence that names one.
const TEXT_BYTES_MAX: usize = 4_352;
/// Longest specification or summary: 60 sources with the longest paths.
pub const SPEC_BYTES_MAX: usize = 256 << 10;
/// Longest list: addresses of a site, events of a webhook, windows of a limit.
pub(crate) const LIST_MAX: usize = 64;
/// Sources of one job; the specification has room for this many of usual length. A transfer that is not a job may have more, because no
/// node stores its description.
pub const SOURCES_MAX: usize = 1_024;
/// Destinations of one job: as many as share the reads of a source, and one group of failures each.
pub const DESTINATIONS_MAX: usize = 64;
/// Relays to one child that are read at once, rounds included. `jobs` submits fewer.
pub const RELAYS_MAX: usize = 512;
/// Flows: the leader looks at all of them in each pass.
pub const FLOWS_MAX: u64 = 200;
/// Hops of a flow.
pub const HOPS_MAX: usize = 8;
/// Bytes of the descriptions of all jobs of a flow.
pub const FLOW_BYTES_MAX: usize = 32 << 10;
/// Jobs of the last runs that are kept for each hop.
pub(crate) const RUNS_KEPT: usize = 16;
/// Groups of failed entries of a job: more than the failure catalogue has codes.
pub(crate) const FAILURE_GROUPS_MAX: usize = 64;
/// Paths that a group of failed entries names.
pub(crate) const FAILURE_EXAMPLES_MAX: usize = 16;
/// Objects of one kind: a hundred users with a hundred tokens each.
pub(crate) const OBJECTS_MAX: u64 = 10_000;
/// Access rules for jobs of one other site: a fifth of all rules.
pub const RULES_OF_ASKER_MAX: u64 = 2_000;
/// Access rules for jobs of all other sites. Admins may use the remaining rules.
pub const RULES_OF_JOBS_MAX: u64 = 8_000;
/// Nodes of a cluster: ten times as many as a large site has data nodes.
pub(crate) const NODES_MAX: u64 = 1_000;
/// Webhooks; each change of a job is compared with all of them.
pub(crate) const WEBHOOKS_MAX: u64 = 100;
/// Ended jobs that are kept for one other site; a node refuses new jobs at twice that number.
pub const JOBS_OF_SITE_MAX: u64 = 10_000;
/// Bytes of the descriptions of jobs that are kept for one other site. Beyond it, ended jobs are deleted; a node refuses new jobs at
/// twice that number.
pub const SPEC_BYTES_OF_SITE_MAX: u64 = 64 << 20;
/// Bytes of descriptions of one user's ended jobs: enough for a million usual jobs. Beyond it, the oldest are deleted.
pub const SPEC_BYTES_OF_OWNER_MAX: u64 = 1 << 30;
/// Lines in the audit log about one other site: enough for thousands of jobs. Beyond it, the oldest are deleted.
pub const AUDIT_OF_SITE_MAX: u64 = 10_000;
/// Within this time a node stops an attempt whose claim has ended: three times as long as it may be cut off from the cluster before it stops
/// attempts of merged sources.
pub(crate) const STOPS_WITHIN_MS: i64 = 30_000;
/// Attempts after which users cannot restart a job, because each attempt is a row in the state of every node.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Waiting jobs: fifty times the number in the node's benchmark.
pub(crate) const JOBS_WAITING_MAX: u64 = 50_000;
/// Events that can be resumed: three hours at one per second.
pub(crate) const EVENTS_KEPT: i64 = 10_000;
/// Deliveries to all webhooks; beyond this number, the oldest of the webhooks with most deliveries are deleted.
pub(crate) const DELIVERIES_KEPT: i64 = 10_000;
/// Rows of each kind that one prune deletes: about 100 ms of work.
pub(crate) const PRUNE_ROWS_MAX: i64 = 1_000;
/// A page of a list or an answer ends when its user-chosen texts have this many bytes. A job may have a thousand long sources.
pub const PAGE_BYTES: usize = 4 << 20;
/// Most rows of one page of a list.
pub(crate) const PAGE_ROWS_MAX: usize = 1_000;

/// Checks a name or an id.
pub(crate) fn name(field: &str, value: &str) -> Result<(), CommandError> {
    if value.is_empty() {
        return Err(CommandError::invalid(field, "must not be empty"));
    }
    if value.chars().any(char::is_control) {
        let what = "must not contain control characters";
        return Err(CommandError::invalid(field, what));
    }
    bytes(field, value, NAME_BYTES_MAX)
}

/// Checks free text.
pub(crate) fn text(field: &str, value: &str) -> Result<(), CommandError> {
    bytes(field, value, TEXT_BYTES_MAX)
}

/// Checks JSON text that is stored without interpretation.
pub(crate) fn spec(field: &str, value: &str) -> Result<(), CommandError> {
    bytes(field, value, SPEC_BYTES_MAX)?;
    match serde_json::from_str::<serde::de::IgnoredAny>(value) {
        Ok(_) => Ok(()),
        Err(error) => Err(CommandError::invalid(field, format!("not JSON: {error}"))),
    }
}

/// Checks the length of a list.
pub(crate) fn count(field: &str, count: usize, max: usize) -> Result<(), CommandError> {
    if count > max {
        let what = format!("has {count} entries; at most {max}");
        return Err(CommandError::invalid(field, what));
    }
    Ok(())
}

fn bytes(field: &str, value: &str, max: usize) -> Result<(), CommandError> {
    if value.len() > max {
        let what = format!("has {} bytes; at most {max}", value.len());
        return Err(CommandError::invalid(field, what));
    }
    Ok(())
}
