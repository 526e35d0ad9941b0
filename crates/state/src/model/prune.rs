//! Owns the selection of history to delete. Does not delete; `apply` does.

use godwit_model::{Timestamp, millis};
use serde::{Deserialize, Serialize};

/// History to delete. One command deletes a bounded number of rows and reports whether there are more.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prune {
    /// Jobs that ended before this time.
    #[serde(default, with = "millis::option")]
    pub jobs_before: Option<Timestamp>,
    /// Audit entries before this time.
    #[serde(default, with = "millis::option")]
    pub audit_before: Option<Timestamp>,
    /// Deliveries that ended before this time, with or without success.
    #[serde(default, with = "millis::option")]
    pub deliveries_before: Option<Timestamp>,
    /// Tokens that were revoked or ended, and access rules and invitations that ended, before this time.
    #[serde(default, with = "millis::option")]
    pub tokens_before: Option<Timestamp>,
    /// Owners, each with a time. Their ended jobs that were submitted up to this time are deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(with = "millis::named")]
    pub of_owners: Vec<(String, Timestamp)>,
}
