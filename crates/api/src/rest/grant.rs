//! The documents of access rules: rights of a subject below a path of an export, here or at a site.
//! Rights have the meaning that `grant` describes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{HERE, Timestamp, check_site_name};
use crate::grant::{Area, Grant, GrantError, Mandate, Right, Rights, Subject};

/// Text that stands for all exports.
pub const ALL_EXPORTS: &str = "*";

/// One right of a rule.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RightName {
    /// Read files; includes listing.
    Read,
    /// Write files and make directories; includes deleting.
    Write,
    /// List directories.
    List,
    /// Delete and rename entries.
    Delete,
}

/// Origin of a rule.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessOrigin {
    /// The file `grants` of the node's home. The API shows these rules and cannot change them.
    File,
    /// The state of the node.
    State,
}

/// An access rule to add or replace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAccess {
    /// Subject: an identity as `godwit id` prints it, or `user:NAME`.
    #[schema(example = "user:alice")]
    pub subject: String,
    /// Name of the site of the export, for rules of users; default the queried node. The rule ends when the site is removed or its name
    /// gets another identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Name of the export; `*` is all exports.
    pub export: String,
    /// Path below the export; empty is the whole export.
    #[serde(default)]
    pub path: String,
    /// Allowed rights.
    #[schema(min_items = 1)]
    pub rights: Vec<RightName>,
    /// When the rule ends; default never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Free text.
    #[serde(default)]
    pub comment: String,
}

/// An access rule.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct AccessView {
    /// Id of the rule; null for a rule of the file.
    pub id: Option<String>,
    /// Origin of the rule.
    pub origin: AccessOrigin,
    /// Subject: an identity, or `user:NAME`.
    pub subject: String,
    /// Name of the site of the export; null is the queried node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Name of the export; `*` is all exports.
    pub export: String,
    /// Path below the export; empty is the whole export.
    pub path: String,
    /// Allowed rights.
    pub rights: Vec<RightName>,
    /// When the rule ends; null is never.
    pub expires: Option<Timestamp>,
    /// The rule has ended and allows nothing.
    pub expired: bool,
    /// Free text.
    pub comment: String,
    /// Id of the job of another node that the rule belongs to. The rule admits only requests for this job.
    pub job: Option<String>,
    /// Identity of the node that owns the job. The rule applies only while that node itself has the right here.
    #[serde(default)]
    pub asker: Option<String>,
}

impl NewAccess {
    /// The rule as a grant.
    ///
    /// # Errors
    /// The error names the invalid field.
    pub fn grant(&self) -> Result<Grant, GrantError> {
        let field = |name: &str, error: GrantError| GrantError(format!("{name}: {error}"));
        let area = match self.export.as_str() {
            ALL_EXPORTS if self.path.is_empty() => Area::All,
            ALL_EXPORTS => {
                let what = "path: a rule for all exports must have no path";
                return Err(GrantError(what.to_owned()));
            }
            name => Area::below(name, &self.path).map_err(|error| field("export", error))?,
        };
        let rights: Rights = self.rights.iter().map(|right| right.right()).collect();
        if rights.is_empty() {
            let what = "rights: name at least one right: read, write, list or delete";
            return Err(GrantError(what.to_owned()));
        }
        let subject: Subject = self
            .subject
            .parse()
            .map_err(|error| field("subject", error))?;
        if let Some(site) = &self.site {
            check_site(site, &subject)?;
        }
        Ok(Grant {
            subject,
            site: self.site.clone(),
            area,
            rights,
            expires: self.expires,
            comment: self.comment.clone(),
            mandate: None,
        })
    }
}

/// Checks that a rule for this subject may concern this site.
fn check_site(site: &str, subject: &Subject) -> Result<(), GrantError> {
    check_site_name(site).map_err(|error| GrantError(format!("site: {error}")))?;
    if site == HERE {
        let what =
            format!("site: {HERE} is the node that receives the request; leave the site out");
        return Err(GrantError(what));
    }
    match subject {
        Subject::User(_) => Ok(()),
        Subject::Identity(_) => Err(GrantError(
            "site: a rule at a site must be for a user of this node; rights of identities are granted at the site itself".to_owned(),
        )),
    }
}

impl AccessView {
    /// The grant as a view; `id` is the id of a rule of the state.
    #[must_use]
    pub fn of(grant: &Grant, id: Option<String>, now: Timestamp) -> Self {
        let (export, path) = match &grant.area {
            Area::All => (ALL_EXPORTS.to_owned(), String::new()),
            Area::Export { name, path } => (name.clone(), path.clone()),
        };
        Self {
            origin: match id {
                Some(_) => AccessOrigin::State,
                None => AccessOrigin::File,
            },
            id,
            subject: grant.subject.to_string(),
            site: grant.site.clone(),
            export,
            path,
            rights: grant.rights.iter().map(RightName::of).collect(),
            expires: grant.expires,
            expired: !grant.holds(now),
            comment: grant.comment.clone(),
            job: grant.mandate.as_ref().map(|mandate| mandate.job.clone()),
            asker: grant.mandate.as_ref().map(|mandate| mandate.asker.clone()),
        }
    }

    /// The grant of this view; None if it is invalid here.
    #[must_use]
    pub fn grant(&self) -> Option<Grant> {
        let new = NewAccess {
            subject: self.subject.clone(),
            site: self.site.clone(),
            export: self.export.clone(),
            path: self.path.clone(),
            rights: self.rights.clone(),
            expires: self.expires,
            comment: self.comment.clone(),
        };
        let mandate = self.job.clone().zip(self.asker.clone());
        let mandate = mandate.map(|(job, asker)| Mandate { asker, job });
        new.grant().ok().map(|grant| Grant { mandate, ..grant })
    }
}

impl RightName {
    const fn right(self) -> Right {
        match self {
            Self::Read => Right::Read,
            Self::Write => Right::Write,
            Self::List => Right::List,
            Self::Delete => Right::Delete,
        }
    }

    const fn of(right: Right) -> Self {
        match right {
            Right::Read => Self::Read,
            Right::Write => Self::Write,
            Right::List => Self::List,
            Right::Delete => Self::Delete,
        }
    }
}
