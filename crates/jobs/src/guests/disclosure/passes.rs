//! Owns the lists of items that pass to the asker of a job: events, figures, failures, reasons and notes.
//! Applies none of them.

use godwit_api::failure::FailureCode;
use godwit_state::reason;

/// The events that pass, each with its fields. A dot leads into an object, or into each object of a list; `*` are all figures of an object.
pub(super) const EVENTS: [(&str, &[&str]); 14] = [
    (
        "started",
        &[
            "transfer",
            "sources",
            "sources_b64",
            "destination",
            "destination_b64",
            "resumed",
        ],
    ),
    (
        "tuning",
        &["what", "channel", "from", "to", "reason", "seconds"],
    ),
    (
        "channels",
        &[
            "channels.number",
            "channels.streams",
            "channels.bytes",
            "channels.bytes_per_second",
            "channels.round_trip_seconds",
            "channels.resent_bytes",
            "channels.cuts",
            "seconds",
        ],
    ),
    (
        "connection_lost",
        &[
            "lost_seconds",
            "retry_for_seconds",
            "silent",
            "channel",
            "seconds",
        ],
    ),
    (
        "connection_regained",
        &["lost_seconds", "channel", "seconds"],
    ),
    (
        "failed",
        &[
            "path", "path_b64", "message", "root", "side", "code", "entry",
        ],
    ),
    ("item", &["action", "kind", "path", "path_b64", "bytes"]),
    ("paused", &[]),
    ("note", &["message"]),
    ("error", &["message", "code", "fault", "advice", "retry"]),
    ("stats", &["source.*", "destination.*"]),
    ("different", &["path", "path_b64", "kind", "message"]),
    ("extra", &["path", "path_b64"]),
    ("summary", &SUMMARY),
];

/// The fields of a summary.
pub(super) const SUMMARY: [&str; 29] = [
    "event",
    "status",
    "code",
    "fault",
    "advice",
    "retry",
    "bytes",
    "files",
    "skipped",
    "excluded",
    "adjusted",
    "deleted",
    "failed",
    "resent_bytes",
    "seconds",
    "cpu_seconds.*",
    "max_rss_bytes.*",
    "bottleneck",
    "encryption.cipher",
    "encryption.library",
    "encryption.plain_contents",
    "dry_run",
    "manifest.entries",
    "manifest.digest",
    "manifest.bytes",
    "not_kept.*",
    "entries",
    "different",
    "extra",
];

/// Beginnings of the notes that pass: other notes reveal details of nodes at the other end.
pub(super) const NOTES: [&str; 2] = ["submitted by request ", "divided: "];

/// Figures of the host that pass: the load of its processors, which may slow the job down.
pub(super) const HOST_FIGURES: [&str; 6] = [
    "cpu_user",
    "cpu_system",
    "cpu_iowait",
    "cpu_interrupts",
    "cpu_steal",
    "cpu_busiest_core",
];

/// Failures whose texts pass: they concern the places of the job. Texts on failed entries pass, too.
pub(super) const FAILURES: [FailureCode; 23] = [
    FailureCode::Usage,
    FailureCode::NoSource,
    FailureCode::DestinationUnusable,
    FailureCode::IntoItself,
    FailureCode::EmptySource,
    FailureCode::PathOutsideExport,
    FailureCode::NoSuchExport,
    FailureCode::NotSupported,
    FailureCode::Unauthorized,
    FailureCode::AccessDenied,
    FailureCode::VersionMismatch,
    FailureCode::PeerBusy,
    FailureCode::BusyDestination,
    FailureCode::Superseded,
    FailureCode::CannotResume,
    FailureCode::JournalUnusable,
    FailureCode::SyncFailed,
    FailureCode::LeftoversStay,
    FailureCode::DataDamaged,
    FailureCode::ManifestRefused,
    FailureCode::VerificationIncomplete,
    FailureCode::Partial,
    FailureCode::Different,
];

/// Reasons of the program whose texts pass.
pub(super) const REASONS: [FailureCode; 5] = [
    reason::WAITING,
    reason::NOT_BEFORE,
    reason::COMPLETE,
    FailureCode::Extra,
    FailureCode::NotDeleted,
];

/// Reasons whose text begins with the name of the acting user. Reasons of acts by the asker pass.
pub(super) const ACTS: [FailureCode; 4] = [
    reason::PAUSED,
    reason::RESUMED,
    reason::RETRIED,
    reason::CANCELLED,
];

/// Replacements for reasons whose own texts name nodes, users or other reasons.
pub(super) const INSTEAD: [(FailureCode, &str); 16] = [
    (
        FailureCode::ExportAway,
        "The file system of an export does not answer at the site that runs the job; the job resumes at another node, or once the file system answers.",
    ),
    (reason::PAUSED, "The site that runs the job paused it."),
    (reason::RESUMED, "The site that runs the job resumed it."),
    (
        reason::RETRIED,
        "The site that runs the job started it again.",
    ),
    (reason::CANCELLED, "The site that ran the job cancelled it."),
    (
        reason::NODE_RESTARTED,
        "The node that ran the job was restarted; the job resumes by itself.",
    ),
    (
        reason::NODE_LOST,
        "The node that ran the job was lost; the job resumes at another node.",
    ),
    (
        reason::DEADLINE_PASSED,
        "The deadline of the job passed at the site that ran it.",
    ),
    (
        reason::RETRIES_EXHAUSTED,
        "The job used up its retries at the site that ran it; the job's log has the failure of each attempt.",
    ),
    (
        FailureCode::LateCalls,
        "Some nodes of the destination have not confirmed that all file system calls of the job have ended; the site that ran the job knows these nodes.",
    ),
    (
        FailureCode::EntriesFailed,
        "Some entries failed; all others arrived. See them with: godwit job report.",
    ),
    (
        FailureCode::NoNode,
        "No node of the site has the exports of the job; the job begins when a node has them.",
    ),
    (
        FailureCode::NodesDrained,
        "Every node of the site that has the exports of the job is drained; the job begins when one of them takes jobs again.",
    ),
    (
        FailureCode::JobsOfNode,
        "The site has reached its limit of running jobs; the job begins when one of them ends.",
    ),
    (
        FailureCode::JobsOfOwner,
        "The site has reached its limit of running jobs for this site; the job begins when one of them ends.",
    ),
    (
        FailureCode::JobsOfSite,
        "The site has reached its limit of running jobs with the other site of the job; the job begins when one of them ends.",
    ),
];

/// Replaces a text that does not pass.
pub(super) const UNSAID: &str = "The site that runs the job has the details.";

/// Replaces a note that does not pass, or an event that is not listed.
pub(super) const FOR_OPERATOR: &str = "a note for the operator of the site that runs the job";
