//! The documents of access rules: who may do what below which path of which export, here or at a site.
//! Their meaning is that of `grant`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{HERE, Timestamp, check_site_name};
use crate::grant::{Area, Grant, GrantError, Mandate, Right, Rights, Subject};

/// How all exports are written.
pub const ALL_EXPORTS: &str = "*";

/// One thing that a rule allows.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RightName {
    /// Read files; listing follows from it.
    Read,
    /// Write files and make directories; deleting follows from it.
    Write,
    /// List directories.
    List,
    /// Delete and rename entries.
    Delete,
}

/// Where a rule is kept.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessOrigin {
    /// In the file `grants` of the node's home; the API shows these rules and does not change them.
    File,
    /// In the state of the node.
    State,
}

/// An access rule to add or replace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAccess {
    /// Who: an identity as `godwit id` prints it, or `user:NAME`.
    #[schema(example = "user:alice")]
    pub subject: String,
    /// Name of the site that the export is at, for rules of users; None is the node that is asked. The rule ends when the site is
    /// removed or its name is given to another identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Name of the export; `*` is all of them.
    pub export: String,
    /// Path below the export; empty is all of it.
    #[serde(default)]
    pub path: String,
    /// What is allowed.
    #[schema(min_items = 1)]
    pub rights: Vec<RightName>,
    /// When the rule ends; None is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Free text.
    #[serde(default)]
    pub comment: String,
}

/// An access rule.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct AccessView {
    /// Id of a rule of the state.
    pub id: Option<String>,
    /// Where the rule is kept.
    pub origin: AccessOrigin,
    /// Who.
    pub subject: String,
    /// Name of the site that the export is at; None is the node that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Name of the export; `*` is all of them.
    pub export: String,
    /// Path below the export; empty is all of it.
    pub path: String,
    /// What is allowed.
    pub rights: Vec<RightName>,
    /// When the rule ends; None is never.
    pub expires: Option<Timestamp>,
    /// The rule has ended, and allows nothing.
    pub expired: bool,
    /// Free text.
    pub comment: String,
    /// Job of another node that the rule belongs to. The rule opens nothing to requests for anything else.
    pub job: Option<String>,
    /// Identity of the node whose job that is. The rule counts only while that node itself has the right here.
    #[serde(default)]
    pub asker: Option<String>,
}

impl NewAccess {
    /// The rule as a grant.
    ///
    /// # Errors
    /// Names the field that makes no sense.
    pub fn grant(&self) -> Result<Grant, GrantError> {
        let field = |name: &str, error: GrantError| GrantError(format!("{name}: {error}"));
        let area = match self.export.as_str() {
            ALL_EXPORTS if self.path.is_empty() => Area::All,
            ALL_EXPORTS => {
                let what = "path: a rule for all exports has none";
                return Err(GrantError(what.to_owned()));
            }
            name => Area::below(name, &self.path).map_err(|error| field("export", error))?,
        };
        let rights: Rights = self.rights.iter().map(|right| right.right()).collect();
        if rights.is_empty() {
            let what = "rights: a rule allows something: read, write, list or delete";
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

/// Whether a rule for this subject can be about this site.
fn check_site(site: &str, subject: &Subject) -> Result<(), GrantError> {
    check_site_name(site).map_err(|error| GrantError(format!("site: {error}")))?;
    if site == HERE {
        let what = format!("site: {HERE} is the node that is asked; leave the site out");
        return Err(GrantError(what));
    }
    match subject {
        Subject::User(_) => Ok(()),
        Subject::Identity(_) => Err(GrantError(
            "site: a rule at a site is for a user of this node; what identities may do there, the site says".to_owned(),
        )),
    }
}

impl AccessView {
    /// The grant as it is shown; `id` is that of a rule of the state.
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

    /// The grant that is shown; None if it makes no sense here.
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
