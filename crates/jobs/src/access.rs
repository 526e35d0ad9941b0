//! Keeps the access rules of the state in memory as grants, as new as the state is.
//! Says what the users of the node may do; on the data port the node itself asks.

use std::sync::{Arc, Mutex, PoisonError};

use godwit_api::ask::Peer;
use godwit_api::grant::{Area, Grant, Mandate, Right, Rights, Subject, Wish, allows};
use godwit_api::rest::{ALL_EXPORTS, Place, Timestamp};
use godwit_state::{
    AccessRight, AccessRule, Follower, Job, Names, Node, Object as _, Place as StatePlace, Replica,
    Role, Topic, UnixMillis, User, reason,
};

use crate::clock::timestamp;
use crate::error::JobsError;
use crate::{Shared, grants, guests};

/// The access rules of a node's state.
pub(crate) struct Rules {
    kept: Mutex<Kept>,
}

struct Kept {
    follower: Follower,
    /// Index of the last command that the rules were looked at after.
    index: u64,
    /// None: they must be read anew.
    grants: Option<Arc<Vec<Grant>>>,
}

impl Rules {
    pub(crate) fn new(replica: &Replica) -> Self {
        let kept = Kept {
            follower: replica.follow(0),
            index: 0,
            grants: None,
        };
        Self {
            kept: Mutex::new(kept),
        }
    }

    /// The rules as the state has them now.
    pub(crate) fn now(&self, replica: &Replica) -> Result<Arc<Vec<Grant>>, JobsError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // First: what comes after this look is looked at next time.
        let index = replica.applied_index();
        if kept.grants.is_some() && kept.index != index {
            kept.look();
        }
        kept.index = index;
        if let Some(grants) = &kept.grants {
            return Ok(Arc::clone(grants));
        }
        let reader = replica.reader();
        kept.follower = replica.follow(reader.last_event()?);
        let rules = reader.objects::<AccessRule>()?;
        let grants: Arc<Vec<Grant>> = Arc::new(rules.iter().filter_map(grant_of).collect());
        kept.grants = Some(Arc::clone(&grants));
        Ok(grants)
    }
}

impl Kept {
    /// Forgets the rules if an event since the last look is about one.
    fn look(&mut self) {
        loop {
            match self.follower.look() {
                Ok(events) if events.is_empty() => return,
                Ok(events) => {
                    let of_rule = |object: &str| {
                        let rest = object.strip_prefix(AccessRule::KIND);
                        rest.is_some_and(|rest| rest.starts_with('/'))
                    };
                    let changed = events
                        .iter()
                        .any(|event| event.topic == Topic::Object && of_rule(&event.object));
                    if changed {
                        self.grants = None;
                        return;
                    }
                }
                // Events were missed, or the state cannot be read: the next reading says which.
                Err(_) => {
                    self.grants = None;
                    return;
                }
            }
        }
    }
}

/// What is granted to whom at a node, by the file in its home and by the rules of its state.
pub struct Access<'a>(pub(crate) &'a Shared);

impl Access<'_> {
    /// The access rules of the state as they are now; cheap while they do not change.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn rules(&self) -> Result<Arc<Vec<Grant>>, JobsError> {
        self.0.rules.now(&self.0.replica)
    }

    /// The grants in the node's home as they are now.
    ///
    /// # Errors
    /// The file cannot be read, or a line in it says nothing known.
    pub fn file_grants(&self) -> Result<Vec<Grant>, JobsError> {
        (self.0.config.file_grants)().map_err(JobsError::Grants)
    }

    /// Whether the job of a mandate is alive and its owner may still run it, if the asker is a node of this site; None for the asker of
    /// another site.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn own_job(&self, mandate: &Mandate) -> Result<Option<bool>, JobsError> {
        let shared = self.0;
        let reader = shared.replica.reader();
        let is_own = |own: Peer| own.identity == mandate.asker;
        let is_here = (shared.config.own)().is_some_and(is_own)
            || !reader.objects_by::<Node>(&mandate.asker)?.is_empty();
        if !is_here {
            return Ok(None);
        }
        let job = reader.job(&mandate.job)?;
        let lives = |job: &Job| !job.state.ended() && denied(shared, job).is_none();
        Ok(Some(job.as_ref().is_some_and(lives)))
    }

    /// Whether a user may do something at a place of this node: an admin may do everything, others what a grant allows.
    ///
    /// # Errors
    /// `Forbidden`, with the command that allows it; or the grants cannot be read.
    pub fn check(&self, user: &str, role: Role, wish: Wish<'_>) -> Result<(), JobsError> {
        check(self.0, user, role, wish)
    }
}

fn check(shared: &Shared, user: &str, role: Role, wish: Wish<'_>) -> Result<(), JobsError> {
    if role == Role::Admin {
        return Ok(());
    }
    let who = Subject::user(user);
    let at = timestamp();
    let access = Access(shared);
    if allows(&access.file_grants()?, &who, wish, at) || allows(&*access.rules()?, &who, wish, at) {
        return Ok(());
    }
    let shown = wish.place.map_or_else(String::new, |(export, path)| {
        format!("here:/{export}/{}", String::from_utf8_lossy(path))
    });
    let verb = match wish.right {
        Right::Read => "read",
        Right::Write => "write to",
        Right::List => "list",
        Right::Delete => "delete",
    };
    Err(JobsError::Forbidden {
        code: "not_granted",
        detail: format!(
            "{user} may not {verb} {shown}; an admin of the node can allow it with: godwit access allow {who} {}",
            wish.options()
        ),
    })
}

/// Whether the owner of a job may still run it, and use the exports of this node that the job names.
pub(crate) fn check_owner(
    shared: &Shared,
    owner: &str,
    sources: &[Place],
    destination: &Place,
) -> Result<(), JobsError> {
    let forbidden = |code, detail| Err(JobsError::Forbidden { code, detail });
    let reader = shared.replica.reader();
    let mut names = Names::of(&reader.objects::<Node>()?);
    names.accounts.extend(shared.config.machine_admins.clone());
    let user = reader.object::<User>(owner)?;
    if let Some(error) = user
        .as_ref()
        .and_then(|user| names.check_acting(user).err())
    {
        return forbidden("name_taken", error.to_string());
    }
    // The accounts of all machines of a cluster are admins of all of it.
    if names.is_account(owner) {
        return Ok(());
    }
    match user {
        Some(user) if user.disabled => forbidden(
            "user_disabled",
            format!("the user {owner} is disabled on this node"),
        ),
        Some(user) if user.role < Role::Operator => forbidden(
            "role_too_small",
            format!(
                "{owner} is {} on this node and may not run jobs; an admin can allow it with: godwit user add {owner} --role operator",
                user.role.name()
            ),
        ),
        Some(user) => check_places(shared, owner, user.role, sources, destination),
        None => forbidden(
            reason::USER_REMOVED,
            format!("{owner} is no longer a user of this node"),
        ),
    }
}

/// Why the owner of a job may not run it any more. While grants and users cannot be read, jobs that were let in go on.
pub(crate) fn denied(shared: &Shared, job: &Job) -> Option<String> {
    if let Some(asker) = guests::asker_of(job) {
        return (!guests::may_go_on(shared, asker, job)).then(|| guests::ACCESS_ENDED.to_owned());
    }
    let place = |place: &StatePlace| format!("{}:{}", place.site, place.path).parse::<Place>();
    let sources: Result<Vec<Place>, _> = job.sources.iter().map(place).collect();
    // Both were read when the job was submitted.
    let (Ok(sources), Ok(destination)) = (sources, place(&job.destination)) else {
        return None;
    };
    match check_owner(shared, &job.owner, &sources, &destination) {
        Err(JobsError::Forbidden { detail, .. }) => Some(detail),
        _ => None,
    }
}

/// Whether the submitter of a job may use the exports of this node that the job names.
pub(crate) fn check_places(
    shared: &Shared,
    user: &str,
    role: Role,
    sources: &[Place],
    destination: &Place,
) -> Result<(), JobsError> {
    let sources = sources.iter().map(|place| (place, Right::Read));
    for (place, right) in sources.chain([(destination, Right::Write)]) {
        if place.is_here() {
            let place = Some((place.export.as_str(), place.path.as_slice()));
            check(shared, user, role, Wish { place, right })?;
        }
    }
    Ok(())
}

/// The rule as a grant; None for one that makes no sense, which allows nothing.
#[must_use]
pub fn grant_of(rule: &AccessRule) -> Option<Grant> {
    let area = match rule.export.as_str() {
        ALL_EXPORTS if rule.path.is_empty() => Area::All,
        export => Area::below(export, &rule.path).ok()?,
    };
    let right = |right: &AccessRight| match right {
        AccessRight::Read => Right::Read,
        AccessRight::Write => Right::Write,
        AccessRight::List => Right::List,
        AccessRight::Delete => Right::Delete,
    };
    Some(Grant {
        subject: rule.subject.parse().ok()?,
        area,
        rights: rule.rights.iter().map(right).collect(),
        expires: rule.expires.map(|time| Timestamp(time.0)),
        comment: rule.comment.clone(),
        mandate: match &rule.job {
            None => None,
            Some(_) => Some(grants::mandate_of(rule)?),
        },
    })
}

/// The grant as a rule of the state.
#[must_use]
pub fn rule_of(id: &str, grant: &Grant) -> AccessRule {
    let (export, path) = match &grant.area {
        Area::All => (ALL_EXPORTS.to_owned(), String::new()),
        Area::Export { name, path } => (name.clone(), path.clone()),
    };
    AccessRule {
        id: id.to_owned(),
        subject: grant.subject.to_string(),
        export,
        path,
        rights: rights_of(grant.rights),
        expires: grant.expires.map(|time| UnixMillis(time.0)),
        comment: grant.comment.clone(),
        job: grant.mandate.as_ref().map(|mandate| mandate.job.clone()),
    }
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
