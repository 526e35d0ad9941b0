//! Owns which rights a job needs at its places, by its description, and whether its owner may see other entries there.
//! Asks no other node.

use godwit_api::grant::Right;
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::{NewJob, Place};
use godwit_api::settings::{Setting, Value, parse_value};
use godwit_state::{Job, Reader, Role};

use super::{check_owner, places_of};
use crate::basis::error::JobsError;
use crate::basis::owners::asker_of;
use crate::basis::stored::Stored;
use crate::rights::{Rights, asker};

/// The rights that a job needs at its destination, and at its sources.
#[derive(Clone, Copy)]
pub(crate) struct There(&'static [Right], &'static [Right]);

/// A job reads its sources.
const READ: &[Right] = &[Right::Read];

impl There {
    /// The rights for this job. One that removes files of its source proves the copies before, so it reads them. A verification reads the copy; the right to write also lets a job delete. A dry run reports the entries
    /// there, and another site reports the entries that a deletion removes. That site checks the node's right to list, not the user's. For
    /// the same reason, with `size-only` it would give an existing file of the same size further names, where the user may read it.
    pub(crate) fn of(new: &NewJob) -> Self {
        match new.kind {
            JobKind::Verify => Self(&[Right::Read], READ),
            _ if new.remove_source_after.is_some() => {
                Self(&[Right::Write, Right::Read], &[Right::Read, Right::Delete])
            }
            // Listing follows from reading.
            JobKind::Copy | JobKind::Sync if is_elsewhere(new) && is_on(new, "size-only") => {
                Self(&[Right::Write, Right::Read], READ)
            }
            JobKind::Copy | JobKind::Sync if is_dry(new) || deletes_elsewhere(new) => {
                Self(&[Right::Write, Right::List], READ)
            }
            JobKind::Copy | JobKind::Sync => Self(&[Right::Write], READ),
        }
    }

    /// The same for a job by its stored description, and the role of its submitter.
    pub(crate) fn of_job(reader: &Reader, id: &str) -> (Self, Option<Role>) {
        let stored = Stored::of(reader, id).ok();
        let there = stored.as_ref().map(|stored| Self::of(&stored.new));
        let there = there.unwrap_or(Self(&[Right::Write], READ));
        (there, stored.and_then(|stored| stored.role))
    }

    /// The rights at the destination.
    pub(crate) const fn rights(self) -> &'static [Right] {
        self.0
    }

    /// The rights at each source.
    pub(crate) const fn at_source(self) -> &'static [Right] {
        self.1
    }
}

/// Whether the owner of a job has the right to list or read its destination now. An unknown right counts as missing.
pub(crate) fn may_there(rights: &Rights, job: &Job, right: Right) -> bool {
    known(rights, job, right) == Some(true)
}

/// The same; None while the right is unknown.
fn known(rights: &Rights, job: &Job, right: Right) -> Option<bool> {
    if let Some(asker) = asker_of(job) {
        return asker::may_there(rights, asker, job, right);
    }
    let there = match right {
        Right::List => There(&[Right::List], READ),
        _ => There(READ, READ),
    };
    let (_, destination) = places_of(job).ok()?;
    let role = Stored::role_of(&rights.this.reader(), &job.id).ok()?;
    match check_owner(rights, (&job.owner, role), there, &[], &destination) {
        Ok(()) => Some(true),
        Err(JobsError::Forbidden { .. }) => Some(false),
        Err(_) => None,
    }
}

/// Rights of the owner of a job to see its destination, as they were when the attempt began.
#[derive(Clone, Copy, Default)]
pub(crate) struct RightsAtStart {
    /// The names there.
    pub(crate) names: bool,
    /// The contents of files.
    pub(crate) contents: bool,
}

impl RightsAtStart {
    /// As it is now.
    pub(crate) fn of(rights: &Rights, job: &Job) -> Self {
        Self {
            names: may_there(rights, job, Right::List),
            contents: may_there(rights, job, Right::Read),
        }
    }

    /// Why an attempt with these rights may not continue, if the owner has lost a right to it.
    pub(crate) fn lost(self, rights: &Rights, job: &Job) -> Option<String> {
        let had = [(self.names, Right::List), (self.contents, Right::Read)];
        let gone = |right| known(rights, job, right) == Some(false);
        let (_, right) = had.into_iter().find(|(had, right)| *had && gone(*right))?;
        Some(format!(
            "the right to {} the destination was revoked while the job ran; run the job again, which uses the rights of that time",
            right.name()
        ))
    }
}

/// Whether a job changes nothing, and reports the changes that it would make.
pub(crate) fn is_dry(new: &NewJob) -> bool {
    is_on(new, "dry-run")
}

/// Whether a job removes entries that its source does not have.
pub(crate) fn deletes(new: &NewJob) -> bool {
    is_on(new, "delete") || is_on(new, "delete-before")
}

/// Whether a job removes entries that exist only at another site.
fn deletes_elsewhere(new: &NewJob) -> bool {
    is_elsewhere(new) && deletes(new)
}

fn is_elsewhere(new: &NewJob) -> bool {
    let destination: Result<Place, _> = new.destination.parse();
    !destination.is_ok_and(|place| place.is_here())
}

/// Whether a flag is set. A text that is no flag was refused at the submission; in an older job it asks for more rights.
fn is_on(new: &NewJob, flag: &str) -> bool {
    let Some(given) = new.settings.get(flag) else {
        return false;
    };
    let given: Vec<_> = given.iter().map(Text::to_os).collect();
    let setting = Setting::find(new.kind.scope(), flag);
    let read = setting.map(|setting| parse_value(setting, &given));
    !matches!(read, Some(Ok(Value::Flag(false))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_that_removes_its_source_needs_the_right_to_delete_there_and_to_read_its_copies() {
        let needs = |more: serde_json::Value| {
            let mut new = json!({"sources": ["here:/data/a"], "destination": "siteB:/data/"});
            let fields = new.as_object_mut().expect("an object");
            fields.extend(more.as_object().expect("an object").clone());
            There::of(&serde_json::from_value(new).expect("a job"))
        };
        let removes = needs(json!({"remove_source_after": 1}));
        assert_eq!(removes.at_source(), [Right::Read, Right::Delete]);
        assert_eq!(removes.rights(), [Right::Write, Right::Read]);
        assert_eq!(needs(json!({})).at_source(), [Right::Read]);
    }

    #[test]
    fn a_job_needs_at_another_site_what_that_site_does_not_look_at() {
        let needs = |destination: &str, settings: serde_json::Value| {
            let new = json!({
                "kind": "sync", "sources": ["here:/data/a/"], "destination": destination, "settings": settings,
            });
            There::of(&serde_json::from_value(new).expect("a job")).0
        };
        for flag in ["delete", "delete-before"] {
            let on = json!({flag: ["true"]});
            assert_eq!(
                needs("siteB:/data/", on.clone()),
                [Right::Write, Right::List]
            );
            // Here the job hides the names.
            assert_eq!(needs("here:/data/", on), [Right::Write]);
            for off in ["false", " off "] {
                let off = json!({flag: [off]});
                assert_eq!(needs("siteB:/data/", off), [Right::Write]);
            }
            // An older version kept such a job.
            let unread = json!({flag: ["perhaps"]});
            assert_eq!(needs("siteB:/data/", unread), [Right::Write, Right::List]);
        }
        // Another site would link to any file of that size.
        let by_size = json!({"size-only": ["true"], "delete": ["true"]});
        assert_eq!(
            needs("siteB:/data/", by_size.clone()),
            [Right::Write, Right::Read]
        );
        assert_eq!(needs("here:/data/", by_size), [Right::Write]);
        assert_eq!(needs("siteB:/data/", json!({})), [Right::Write]);
        assert_eq!(
            needs("here:/data/", json!({"dry-run": ["true"]})),
            [Right::Write, Right::List]
        );
    }
}
