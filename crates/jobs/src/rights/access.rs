//! Keeps the access rules of the state in memory as grants that are as new as the state. Decides by these grants the
//! rights of the node's users, here and at the sites that the node knows.
//! Does not decide for other nodes: on the data port the node itself asks.

mod own;
mod rule;
mod there;

use std::sync::{Arc, Mutex, PoisonError};

use godwit_api::failure::FailureCode;
use godwit_api::grant::lasting::Look;
use godwit_api::grant::{Area, Grant, Mandate, Right, Subject, Wish, allows_at};
use godwit_api::rest::{HERE, Place, Timestamp};
use godwit_state::{
    AccessRule, Actor, Agreed, Follower, Job, Names, Node, Object as _, Reader, Replica, Role,
    Site, Topic, User, reason,
};

use crate::basis::clock::now;
use crate::basis::documents;
use crate::basis::error::JobsError;
use crate::basis::owners::asker_of;
use crate::basis::stored::Stored;
use crate::rights::{Rights, asker};
pub(crate) use own::OwnRights;
pub(crate) use rule::JOB_RULE;
pub use rule::{grant_of, rule_of};
pub(crate) use there::{RightsAtStart, There, deletes, is_dry, may_there};

/// The access rules of a node's state.
pub(crate) struct Rules {
    kept: Mutex<Kept>,
}

struct Kept {
    follower: Follower,
    /// Index of the last command when the rules were checked last.
    index: u64,
    /// None: they must be read again.
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
        // The index is read first, so that the next look finds all later changes.
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
        // A rule at a site counts only while the site has the identity that the rule was made for.
        let sites = reader.objects::<Site>()?;
        let counts = |rule: &&AccessRule| {
            rule.site.as_ref().is_none_or(|of| {
                let mut sites = sites.iter();
                sites.any(|site| site.name == of.name && site.identity == of.identity)
            })
        };
        let rules = reader.objects::<AccessRule>()?;
        let rules = rules.iter().filter(counts);
        let grants: Arc<Vec<Grant>> = Arc::new(rules.filter_map(grant_of).collect());
        kept.grants = Some(Arc::clone(&grants));
        Ok(grants)
    }
}

impl Kept {
    /// Forgets the rules if an event since the last look is about one, or about a site.
    fn look(&mut self) {
        loop {
            match self.follower.look() {
                Ok(events) if events.is_empty() => return,
                Ok(events) => {
                    let counts = |object: &str| {
                        let kind = object.split_once('/').map(|(kind, _)| kind);
                        kind.is_some_and(|kind| [AccessRule::KIND, Site::KIND].contains(&kind))
                    };
                    let changed = events
                        .iter()
                        .any(|event| event.topic == Topic::Object && counts(&event.object));
                    if changed {
                        self.grants = None;
                        return;
                    }
                }
                // Events were missed, or the state cannot be read: the next reading decides.
                Err(_) => {
                    self.grants = None;
                    return;
                }
            }
        }
    }
}

/// The access at a node, by the file in its home and by the rules of its state.
pub struct Access<'a>(pub(crate) &'a Rights);

impl Access<'_> {
    /// The access rules of the state as they are now; cheap while they do not change.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn rules(&self) -> Result<Arc<Vec<Grant>>, JobsError> {
        self.0.rules.now(&self.0.this.replica)
    }

    /// The grants in the node's home as they are now.
    ///
    /// # Errors
    /// The file cannot be read, or a line in it is unknown.
    pub fn file_grants(&self) -> Result<Vec<Grant>, JobsError> {
        (self.0.file_grants)().map_err(JobsError::Grants)
    }

    /// Whether a peer may do this at a time by its own grants, apart from any job.
    ///
    /// # Errors
    /// The grants cannot be read.
    pub(crate) fn peer_may_at(
        &self,
        identity: &str,
        place: &Place,
        right: Right,
        at: Timestamp,
    ) -> Result<bool, JobsError> {
        Ok(self.rights_of(identity)?.may_at(place, right, at))
    }

    /// Whether the job of a mandate is alive and its owner may still run it. The asker must be a node of this site, or one that had another
    /// site run the job and has left; None for the asker of another site. `peer` acts for the job: a node that left no longer does.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn own_job(&self, peer: &str, mandate: &Mandate) -> Result<Option<bool>, JobsError> {
        let rights = self.0;
        let reader = rights.this.reader();
        let is_here =
            rights.cluster.is_own(&mandate.asker) || rights.cluster.has(&mandate.asker)?;
        if !is_here && Agreed(&reader).asker(&mandate.job)?.as_ref() != Some(&mandate.asker) {
            return Ok(None);
        }
        if !is_here && peer == mandate.asker {
            return Ok(Some(false));
        }
        let job = reader.job(&mandate.job)?;
        let lives = |job: &Job| !job.state.ended() && denied(rights, job).is_none();
        Ok(Some(job.as_ref().is_some_and(lives)))
    }

    /// The rights of a user now. An admin may do everything.
    ///
    /// # Errors
    /// The grants cannot be read.
    pub fn of(&self, user: &str, role: Role) -> Result<Granted, JobsError> {
        Granted::of(self.0, user, role)
    }
}

/// The rights of one user, here and at sites, by the grants of one moment. Every request of a user that touches a place asks this.
pub struct Granted {
    who: Subject,
    role: Role,
    /// None: the user is an admin, and may do everything.
    grants: Option<(Vec<Grant>, Arc<Vec<Grant>>)>,
    at: Timestamp,
}

impl Granted {
    fn of(rights: &Rights, user: &str, role: Role) -> Result<Self, JobsError> {
        let access = Access(rights);
        let grants = match role {
            Role::Admin => None,
            Role::Viewer | Role::Operator => Some((access.file_grants()?, access.rules()?)),
        };
        Ok(Self {
            who: Subject::user(user),
            role,
            grants,
            at: now(),
        })
    }

    /// Whether the user is an admin.
    pub(crate) const fn is_admin(&self) -> bool {
        self.grants.is_none()
    }

    /// Whether the user may do something at a place.
    #[must_use]
    pub fn allows(&self, place: &Place, right: Right) -> bool {
        let Some((file, state)) = &self.grants else {
            return true;
        };
        let all = file.iter().chain(state.iter());
        let wish = Wish::at(&place.export, &place.path, right);
        allows_at(all, site_of(&place.site), &self.who, wish, self.at)
    }

    /// Whether the user may do something anywhere in an export of a site.
    #[must_use]
    pub fn allows_in(&self, site: &str, export: &str, right: Right) -> bool {
        let Some((file, state)) = &self.grants else {
            return true;
        };
        file.iter().chain(state.iter()).any(|grant| {
            let wish = Wish { place: None, right };
            let covers = match &grant.area {
                Area::All => true,
                Area::Export { name, .. } => name == export,
            };
            covers && grant.allows_at(site_of(site), &self.who, wish, self.at)
        })
    }

    /// Whether the user has any right at a site, or in one export of it. Used when a request names no path.
    ///
    /// # Errors
    /// `Forbidden`, as [`Self::check`].
    pub fn check_site(&self, site: &str, export: Option<&str>) -> Result<(), JobsError> {
        let any = |export: &str| {
            Right::ALL
                .iter()
                .any(|right| self.allows_in(site, export, *right))
        };
        let knows = match (&self.grants, export) {
            (None, _) => true,
            (Some(_), Some(export)) => any(export),
            (Some((file, state)), None) => file.iter().chain(state.iter()).any(|grant| {
                let of_user = grant.subject == self.who && grant.holds(self.at);
                of_user && grant.site.as_deref() == site_of(site) && !grant.rights.is_empty()
            }),
        };
        if knows {
            return Ok(());
        }
        let export = export.unwrap_or("EXPORT");
        Err(JobsError::Forbidden {
            code: FailureCode::NotGranted,
            detail: format!(
                "{} has no rights at {site}:/{export}; an admin of the node can grant some with: godwit access allow {} --site {site}:/{export} --read",
                self.name(),
                self.who,
            ),
        })
    }

    /// The same as [`Self::allows`].
    ///
    /// # Errors
    /// `Forbidden`, with the command with which an admin allows the request.
    pub fn check(&self, place: &Place, right: Right) -> Result<(), JobsError> {
        if self.allows(place, right) {
            return Ok(());
        }
        let wish = Wish::at(&place.export, &place.path, right);
        let verb = match right {
            Right::Read => "read",
            Right::Write => "write to",
            Right::List => "list",
            Right::Delete => "delete",
        };
        let shown = match place.is_memory() {
            true => place.to_string(),
            false => {
                let path = String::from_utf8_lossy(&place.path);
                format!("{}:/{}/{path}", place.site, place.export)
            }
        };
        Err(JobsError::Forbidden {
            code: FailureCode::NotGranted,
            detail: format!(
                "{} may not {verb} {shown}; an admin of the node can allow it with: godwit access allow {} {}",
                self.name(),
                self.who,
                wish.options_at(site_of(&place.site)),
            ),
        })
    }

    /// The same as [`Self::check`], for a place of a job. Only a user that may see the place learns its path.
    pub(crate) fn check_of_job(
        &self,
        id: &str,
        is_own: bool,
        place: &Place,
        right: Right,
    ) -> Result<(), JobsError> {
        let checked = self.check(place, right);
        if is_own || checked.is_ok() || self.allows(place, Right::List) {
            return checked;
        }
        Err(JobsError::Forbidden {
            code: FailureCode::NotGranted,
            detail: format!(
                "{} lacks a right at a place of the job {id}, which was submitted in a larger role; use that role, or ask an admin of the node",
                self.name()
            ),
        })
    }

    /// Whether the user owns all of a job in this role: it is at least the role of the job's submitter. An older job has the role of its user.
    pub(crate) fn owns(&self, reader: &Reader, owner: &str, kept: Option<Role>) -> bool {
        let of_user = || {
            let user = reader.object::<User>(owner).ok();
            user.map(|user| user.map_or(Role::Admin, |user| user.role))
        };
        let is_within = || kept.or_else(of_user).is_some_and(|kept| self.role >= kept);
        self.name() == owner && is_within()
    }

    /// Name of the user.
    pub(crate) fn name(&self) -> &str {
        match &self.who {
            Subject::User(name) | Subject::Identity(name) => name,
        }
    }
}

/// The site as grants name it; None stands for this node.
fn site_of(site: &str) -> Option<&str> {
    Some(site).filter(|site| *site != HERE)
}

/// The rights that a job needs at its places.
fn needs<'a>(
    there: There,
    sources: &'a [Place],
    destination: &'a Place,
) -> impl Iterator<Item = (&'a Place, Right)> {
    let sources = sources.iter().flat_map(move |place| {
        let rights = there.at_source().iter();
        rights.map(move |right| (place, *right))
    });
    sources.chain(
        there
            .rights()
            .iter()
            .map(move |right| (destination, *right)),
    )
}

/// Whether the owner of a job may still run it, and use the places that the job names. The job has at most the role of its submitter, which
/// may have had a token with a smaller role than its user.
pub(crate) fn check_owner(
    rights: &Rights,
    (owner, kept): (&str, Option<Role>),
    there: There,
    sources: &[Place],
    destination: &Place,
) -> Result<(), JobsError> {
    let forbidden = |code, detail| Err(JobsError::Forbidden { code, detail });
    let reader = rights.this.reader();
    let mut names = Names::of(&reader.objects::<Node>()?);
    names.accounts.extend(rights.machine_admins.clone());
    let user = reader.object::<User>(owner)?;
    if let Some(error) = user
        .as_ref()
        .and_then(|user| names.check_acting(user).err())
    {
        return forbidden(FailureCode::NameTaken, error.to_string());
    }
    let as_kept = |role: Role| {
        let role = kept.map_or(role, |kept| kept.min(role));
        check_places(rights, owner, role, there, sources, destination)
    };
    // The accounts of all machines of a cluster are admins of all of it.
    if names.is_account(owner) {
        return as_kept(Role::Admin);
    }
    match user {
        Some(user) if user.disabled => forbidden(
            FailureCode::UserDisabled,
            format!("the user {owner} is disabled on this node"),
        ),
        Some(user) if user.role < Role::Operator => forbidden(
            FailureCode::RoleTooSmall,
            format!(
                "{owner} is {} on this node and may not run jobs; an admin can allow it with: godwit user add {owner} --role operator",
                user.role.name()
            ),
        ),
        Some(user) => as_kept(user.role),
        None => forbidden(
            reason::USER_REMOVED,
            format!("{owner} is no longer a user of this node"),
        ),
    }
}

/// Whether a user that lets a job continue may use the places of the job, as a submitter must. A token with a smaller role than its user
/// does not give the job the rights of the user.
pub(crate) fn check_run(rights: &Rights, actor: &Actor, id: &str) -> Result<(), JobsError> {
    let Some(role) = actor.role else {
        return Ok(());
    };
    let reader = rights.this.reader();
    let job = reader.job(id)?;
    let job = job.ok_or_else(|| JobsError::NoJob(id.to_owned()))?;
    let (sources, destination) = places_of(&job)?;
    let (there, kept) = There::of_job(&rights.this.reader(), id);
    let granted = Granted::of(rights, &actor.name, role)?;
    let is_own = granted.owns(&reader, &job.owner, kept);
    needs(there, &sources, &destination)
        .try_for_each(|(place, right)| granted.check_of_job(id, is_own, place, right))
}

/// The places of a job.
fn places_of(job: &Job) -> Result<(Vec<Place>, Place), JobsError> {
    let sources = job.sources.iter().map(documents::parts);
    Ok((
        sources.collect::<Result<_, _>>()?,
        documents::parts(&job.destination)?,
    ))
}

/// Why the owner of a job may no longer run it. While grants and users cannot be read, admitted jobs continue.
pub(crate) fn denied(rights: &Rights, job: &Job) -> Option<String> {
    if let Some(asker) = asker_of(job) {
        return (!asker::may_go_on(rights, asker, job)).then(|| asker::ACCESS_ENDED.to_owned());
    }
    // They were read when the job was submitted.
    let (sources, destination) = places_of(job).ok()?;
    let (there, kept) = There::of_job(&rights.this.reader(), &job.id);
    match check_owner(rights, (&job.owner, kept), there, &sources, &destination) {
        Err(JobsError::Forbidden { detail, .. }) => Some(detail),
        _ => None,
    }
}

/// Whether the owner of a job may run it now. For work that cannot be undone: rights that cannot be read do not count, unlike in [`denied`].
pub(crate) fn look(rights: &Rights, job: &Job) -> Look<String> {
    if asker_of(job).is_some() {
        return denied(rights, job).map_or(Look::Holds, Look::Gone);
    }
    let check = || -> Result<(), JobsError> {
        let stored = Stored::of(&rights.this.reader(), &job.id)?;
        let (sources, destination) = places_of(job)?;
        let owner = (job.owner.as_str(), stored.role);
        check_owner(
            rights,
            owner,
            There::of(&stored.new),
            &sources,
            &destination,
        )
    };
    match check() {
        Ok(()) => Look::Holds,
        Err(JobsError::Forbidden { detail, .. }) => Look::Gone(detail),
        Err(error) => Look::Unread(format!(
            "it is unknown whether the owner of the job still has the right: {}",
            error.words()
        )),
    }
}

/// Whether the submitter of a job may use the places that the job names.
pub(crate) fn check_places(
    rights: &Rights,
    user: &str,
    role: Role,
    there: There,
    sources: &[Place],
    destination: &Place,
) -> Result<(), JobsError> {
    let granted = Granted::of(rights, user, role)?;
    needs(there, sources, destination).try_for_each(|(place, right)| granted.check(place, right))
}
