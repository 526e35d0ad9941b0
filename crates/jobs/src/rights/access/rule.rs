//! Owns the two forms of one access rule: a row of the state, and a grant.
//! Decides nothing by it.

use godwit_api::grant::{Area, Grant, Mandate, Right, Rights, Subject};
use godwit_api::rest::ALL_EXPORTS;
use godwit_state::{AccessRight, AccessRule, RuleSite, Site};

/// Prefix of the ids of all rules for jobs.
pub(crate) const JOB_RULE: &str = "job:";

/// The rule as a grant; None for an invalid one, which allows nothing.
#[must_use]
pub fn grant_of(rule: &AccessRule) -> Option<Grant> {
    let area = match rule.export.as_str() {
        ALL_EXPORTS if rule.path.is_empty() => Area::All,
        export => match Area::memory(export) {
            Some(memory) => memory,
            None => Area::below(export, &rule.path).ok()?,
        },
    };
    let right = |right: &AccessRight| match right {
        AccessRight::Read => Right::Read,
        AccessRight::Write => Right::Write,
        AccessRight::List => Right::List,
        AccessRight::Delete => Right::Delete,
    };
    let subject: Subject = rule.subject.parse().ok()?;
    if rule.site.is_some() && !matches!(subject, Subject::User(_)) {
        return None;
    }
    Some(Grant {
        subject,
        site: rule.site.as_ref().map(|site| site.name.clone()),
        area,
        rights: rule.rights.iter().map(right).collect(),
        expires: rule.expires,
        comment: rule.comment.clone(),
        mandate: match &rule.job {
            None => None,
            Some(_) => Some(mandate_of(rule)?),
        },
    })
}

/// The grant as a rule of the state. `site` is the site of the grant in the state now. A grant is no rule if it names another site, or if
/// `site` is missing.
#[must_use]
pub fn rule_of(id: &str, grant: &Grant, site: Option<&Site>) -> Option<AccessRule> {
    if grant.site.as_ref() != site.map(|site| &site.name) {
        return None;
    }
    let (export, path) = match &grant.area {
        Area::All => (ALL_EXPORTS.to_owned(), String::new()),
        Area::Export { name, path } => (name.clone(), path.clone()),
    };
    Some(AccessRule {
        id: id.to_owned(),
        subject: grant.subject.to_string(),
        site: site.map(|site| RuleSite {
            name: site.name.clone(),
            identity: site.identity.clone(),
        }),
        export,
        path,
        rights: rights_of(grant.rights),
        expires: grant.expires,
        comment: grant.comment.clone(),
        job: grant.mandate.as_ref().map(|mandate| mandate.job.clone()),
    })
}

fn rights_of(rights: Rights) -> Vec<AccessRight> {
    rights
        .iter()
        .map(|right| match right {
            Right::Read => AccessRight::Read,
            Right::Write => AccessRight::Write,
            Right::List => AccessRight::List,
            Right::Delete => AccessRight::Delete,
        })
        .collect()
}

/// The mandate that a rule belongs to, read from the id of the rule; None if the rule does not belong to a job.
pub(crate) fn mandate_of(rule: &AccessRule) -> Option<Mandate> {
    let job = rule.job.clone()?;
    let (asker, rest) = rule.id.strip_prefix(JOB_RULE)?.split_once(':')?;
    let mandate = Mandate {
        asker: asker.to_owned(),
        job,
    };
    let of_job = rest.strip_prefix(&mandate.job)?.starts_with(':');
    (of_job && mandate.check().is_ok()).then_some(mandate)
}
