//! Owns what a deletion of history names.
//! Deletes nothing: `apply` does.

use godwit_model::{Timestamp, millis};
use serde::{Deserialize, Serialize};

/// Which history to delete. One command deletes a bounded number of rows and says whether there are more.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prune {
    /// Jobs that ended before this time.
    #[serde(default, with = "millis::option")]
    pub jobs_before: Option<Timestamp>,
    /// Audit entries from before this time.
    #[serde(default, with = "millis::option")]
    pub audit_before: Option<Timestamp>,
    /// Deliveries that were done or given up before this time.
    #[serde(default, with = "millis::option")]
    pub deliveries_before: Option<Timestamp>,
    /// Tokens that were revoked or ended, and access rules and invitations that ended, before this time.
    #[serde(default, with = "millis::option")]
    pub tokens_before: Option<Timestamp>,
    /// Owners with the time up to which their jobs were submitted that go, if they have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(with = "millis::named")]
    pub of_owners: Vec<(String, Timestamp)>,
}
