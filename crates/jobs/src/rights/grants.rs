//! Access that this node gives to another site for one job of a third node: given, renewed, and taken back.
//! Checks no grant itself: the caller that serves the question supplies the rights of the asker.
//!
//! An asker gives away its present rights, and no more: the same right, at the same path, and for no longer. A node that was let in for a
//! job may let other nodes in for the same job. Each path is a rule, whose id follows from asker, job, identity and path; so a question
//! that comes twice changes nothing. The rule counts only for requests that name the job (`api::grant::Requester`).

use std::cell::OnceCell;
use std::collections::HashSet;
use std::time::Instant;

use godwit_api::ask::{Answer, GrantJob, MEMBERS_MAX, MayUse, Refusal, code};
use godwit_api::endpoint::is_memory;
use godwit_api::fnv;
use godwit_api::grant::{JOB_ID_BYTES_MAX, Mandate, Right, Subject, is_job_id};
use godwit_api::job::Text;
use godwit_api::rest::{HERE, Place, Timestamp};
use godwit_state::{
    AccessRight, AccessRule, ById, Change, Command, Op, RULES_OF_ASKER_MAX, RULES_OF_JOBS_MAX,
    SOURCES_MAX,
};

use crate::basis::error::refuse;
use crate::basis::owners::actor;
use crate::basis::this_node::ThisNode;
use crate::rights::Rights;
use crate::rights::access::{Access, JOB_RULE, OwnRights};

/// Longest time for which an asker gives access without a renewal.
const LASTS_MAX_MILLIS: i64 = 24 * 3_600_000;

/// Access for a shorter time is refused: it would be of no use.
const LEAST_MILLIS: i64 = 60_000;

/// Paths of one job: as many as the state takes sources.
const PATHS_MAX: usize = SOURCES_MAX;

/// Rules of one job: at most one for each path.
pub(crate) const RULES_OF_JOB_MAX: usize = PATHS_MAX;

/// The same bound if a node with access for the job passes it on: its rules count together with those of the asker.
const RULES_PASSED_ON_MAX: usize = 256;

/// Most passes that remove the rules of a job.
const REVOKE_PASSES_MAX: usize = 8;

/// Lets a site in for a job of the asker, or for the job of the mandate.
pub(crate) fn grant(
    rights: &Rights,
    asker: &str,
    mandate: Option<&Mandate>,
    wish: &GrantJob,
    may: &MayUse<'_>,
) -> Result<Answer, Refusal> {
    let giver = giver(asker, mandate, wish)?;
    let own = OwnRight::new(rights, asker);
    let renews = mandate.filter(|_| wish.identity.eq_ignore_ascii_case(asker));
    if let Some(mandate) = renews
        && !(own.covers(wish) && is_let_in(rights, mandate, asker)?)
    {
        let message = "identity: a node without its own rights cannot grant access to itself";
        return Err(Refusal::new(code::INVALID, message));
    }
    let now = rights.this.now().0;
    let most = now.saturating_add(LASTS_MAX_MILLIS);
    let mut until = match wish.lasts_ms {
        Some(lasts) => rights.this.now().after(lasts).0,
        None => wish.until.0,
    };
    until = until.min(most);
    if until < now.saturating_add(LEAST_MILLIS) {
        return Err(ends_too_soon(wish, now));
    }
    let until_first = Timestamp(until);
    let wished: Vec<AccessRule> = wish
        .paths
        .iter()
        .map(|path| rule(giver, wish, path, until_first))
        .collect::<Result<_, _>>()?;
    // A check of each path takes work, too, whether it is allowed or not. A node uses up only the changes of the sites that let it in.
    if let Some(mandate) = mandate
        && !is_let_in(rights, mandate, asker)?
    {
        let message = "the job has granted no access here to the asking node";
        return Err(Refusal::new(code::NOT_GRANTED, message));
    }
    rights.pace.take(giver, wish.paths.len(), Instant::now())?;
    // All are asked for before one is given.
    let may_itself = |path: &Text, write: bool, at: Timestamp| own.check(path, write, at);
    for path in &wish.paths {
        until = match renews {
            Some(_) => latest_end(path, wish.write, now, until, &may_itself)?,
            None => latest_end(path, wish.write, now, until, may)?,
        };
    }
    let _turn = rights.turns.take(format!("access of {giver}"));
    let wished = Wished {
        giver,
        rules: &wished,
        is_passed_on: mandate.is_some(),
        renews: renews.is_some(),
    };
    wished.check_room(rights, wish)?;
    let mut given = Vec::new();
    for path in &wish.paths {
        let rule = rule(giver, wish, path, Timestamp(until))?;
        given.push(rule.id.clone());
        propose(&rights.this, asker, Op::Access(Change::Put(rule)))?;
    }
    // The asker of the job may have taken its access back meanwhile. Then the access of this node has ended, and the rules that
    // it made are removed.
    if mandate.is_some() {
        let of_job = rules(&rights.this, &prefix(giver, &wish.job))?;
        if !of_job.iter().any(|rule| rule.subject == asker) {
            for id in given {
                take_back(&rights.this, asker, id)?;
            }
            let message = "the access for this job was revoked";
            return Err(Refusal::new(code::NOT_GRANTED, message));
        }
    }
    Ok(Answer::Done {})
}

/// The rules that a question asks for.
struct Wished<'a> {
    giver: &'a str,
    rules: &'a [AccessRule],
    /// A node with access for the job asks for another one.
    is_passed_on: bool,
    /// A node asks for itself.
    renews: bool,
}

impl Wished<'_> {
    /// Checks that the state has room for the rules. The state also counts the rules, but refuses in the middle of a question.
    fn check_room(&self, rights: &Rights, wish: &GrantJob) -> Result<(), Refusal> {
        let reader = rights.this.reader();
        let ids = ById(&reader);
        let of_all = ids.count_below::<AccessRule>(JOB_RULE);
        let of_all = of_all.map_err(|error| refuse(&error.into()))?;
        let before = ids.count_below::<AccessRule>(&format!("{JOB_RULE}{}:", self.giver));
        let before = before.map_err(|error| refuse(&error.into()))?;
        let of_job = rules(&rights.this, &prefix(self.giver, &wish.job))?;
        let of_job: HashSet<&str> = of_job.iter().map(|rule| rule.id.as_str()).collect();
        let new: HashSet<&str> = self.rules.iter().map(|rule| rule.id.as_str()).collect();
        let added = u64::try_from(new.difference(&of_job).count()).unwrap_or(u64::MAX);
        if self.renews && added > 0 {
            let message = "paths: a node can renew its own access, but cannot extend it";
            return Err(Refusal::new(code::INVALID, message));
        }
        // Existing access is renewed regardless of the number.
        let over = |before: u64, max: u64| added > 0 && before.saturating_add(added) > max;
        let most = match self.is_passed_on {
            true => RULES_PASSED_ON_MAX,
            false => RULES_OF_JOB_MAX,
        };
        let before_of_job = of_job.len();
        if added > 0 && of_job.union(&new).count() > most {
            let message = format!(
                "the job {} has {before_of_job} access rules here, and the limit is {most}, with one rule for each path and node; name a common directory as the source",
                wish.job
            );
            return Err(Refusal::new(code::INVALID, message));
        }
        if over(before, RULES_OF_ASKER_MAX) {
            let message = format!(
                "this identity has granted access for {before} paths of jobs here, and the limit is {RULES_OF_ASKER_MAX}; wait until some jobs have ended"
            );
            return Err(Refusal::later(code::BUSY, message));
        }
        if over(of_all, RULES_OF_JOBS_MAX) {
            let message = format!(
                "access for jobs of other sites has reached this node's limit of {RULES_OF_JOBS_MAX} paths; try again later"
            );
            return Err(Refusal::later(code::BUSY, message));
        }
        Ok(())
    }
}

/// The node whose access a question passes on.
fn giver<'a>(
    asker: &'a str,
    mandate: Option<&'a Mandate>,
    wish: &GrantJob,
) -> Result<&'a str, Refusal> {
    check_job(&wish.job)?;
    let giver = match mandate {
        None => asker,
        Some(mandate) if mandate.job == wish.job => mandate.asker.as_str(),
        Some(_) => {
            let message = "job: access for a job can be passed on for the same job only";
            return Err(Refusal::new(code::INVALID, message));
        }
    };
    if !matches!(wish.identity.parse(), Ok(Subject::Identity(_))) {
        let message = "identity: access for a job goes to a node, named as godwit id prints it";
        return Err(Refusal::new(code::INVALID, message));
    }
    check_paths(&wish.paths)?;
    Ok(giver)
}

/// Bounds the paths that a question names, before the right to each of them is looked up.
pub(crate) fn check_paths(paths: &[Text]) -> Result<(), Refusal> {
    if (1..=PATHS_MAX).contains(&paths.len()) {
        return Ok(());
    }
    let what = format!("paths: a job has 1 to {PATHS_MAX}");
    Err(Refusal::new(code::INVALID, what))
}

/// The rights of a node here apart from any job. A node with such a right may renew the access that another node gave it for a job.
struct OwnRight<'a> {
    rights: &'a Rights,
    node: &'a str,
    /// The rights, read once for all paths.
    read: OnceCell<Result<OwnRights, Refusal>>,
}

impl<'a> OwnRight<'a> {
    const fn new(rights: &'a Rights, node: &'a str) -> Self {
        Self {
            rights,
            node,
            read: OnceCell::new(),
        }
    }

    fn covers(&self, wish: &GrantJob) -> bool {
        let now = self.rights.this.now();
        let mut paths = wish.paths.iter();
        paths.all(|path| self.check(path, wish.write, now).is_ok())
    }

    fn check(&self, path: &Text, write: bool, at: Timestamp) -> Result<(), Refusal> {
        let rights = self.read.get_or_init(|| {
            let read = Access(self.rights).rights_of(self.node);
            read.map_err(|error| refuse(&error))
        });
        let rights = rights.as_ref().map_err(Refusal::clone)?;
        let right = if write { Right::Write } else { Right::Read };
        let slash: &[u8] = match is_memory(&String::from_utf8_lossy(&path.0)) {
            true => b"",
            false => b"/",
        };
        let place = Place::at(HERE, &[slash, &path.0].concat());
        match place.is_ok_and(|place| rights.may_at(&place, right, at)) {
            true => Ok(()),
            false => Err(Refusal::new(code::NOT_GRANTED, "no rights")),
        }
    }
}

/// The latest time, no later than `until`, at which the asker may do this itself, as near as some steps find it.
fn latest_end(
    path: &Text,
    write: bool,
    now: i64,
    until: i64,
    may: &MayUse<'_>,
) -> Result<i64, Refusal> {
    may(path, write, Timestamp(now))?;
    let mut span = until.saturating_sub(now);
    while span >= LEAST_MILLIS {
        if may(path, write, Timestamp(now + span)).is_ok() {
            return Ok(now + span);
        }
        span /= 2;
    }
    Err(Refusal::new(
        code::NOT_GRANTED,
        "the asker's own access ends too soon to pass it on",
    ))
}

/// An older node names the end of the access by its own clock.
fn ends_too_soon(wish: &GrantJob, now: i64) -> Refusal {
    let message = match wish.lasts_ms {
        Some(lasts) => {
            format!("lasts_ms: access for a job must last at least {LEAST_MILLIS} ms, not {lasts}")
        }
        None => format!(
            "until: the access would end at {} by the clock of the asking node, but the clock here shows {} already; set the clocks of both nodes, or update the asking node",
            wish.until.utc(),
            Timestamp(now).utc()
        ),
    };
    Refusal::new(code::NOT_GRANTED, message)
}

fn rule(
    asker: &str,
    wish: &GrantJob,
    path: &Text,
    until: Timestamp,
) -> Result<AccessRule, Refusal> {
    let identity = wish.identity.to_ascii_lowercase();
    let text = String::from_utf8(path.0.clone()).map_err(|_error| {
        let what = "a path whose name is not UTF-8 cannot be granted for a job";
        Refusal::new(code::INVALID, what)
    })?;
    let (export, below) = text.split_once('/').unwrap_or((&text, ""));
    let right = match wish.write {
        true => AccessRight::Write,
        false => AccessRight::Read,
    };
    Ok(AccessRule {
        id: format!(
            "{}{:016x}",
            prefix(asker, &wish.job),
            hash(&identity, &path.0, wish.write)
        ),
        subject: identity,
        site: None,
        export: export.to_owned(),
        path: below.to_owned(),
        rights: vec![right],
        expires: Some(until),
        comment: format!("for job {} of {asker}", wish.job),
        job: Some(wish.job.clone()),
    })
}

/// Prefix of the ids of all rules of a job. No asker and no id of a job has a colon.
fn prefix(asker: &str, job: &str) -> String {
    format!("{JOB_RULE}{asker}:{job}:")
}

/// Whether a text can be the id of an asker's job.
pub(crate) fn check_job(job: &str) -> Result<(), Refusal> {
    if is_job_id(job) {
        return Ok(());
    }
    Err(Refusal::new(
        code::INVALID,
        format!("job: 1 to {JOB_ID_BYTES_MAX} letters, digits and hyphens"),
    ))
}

/// Whether a node has access for the job of the mandate, from the asker or from another node with access.
pub(crate) fn is_let_in(rights: &Rights, mandate: &Mandate, node: &str) -> Result<bool, Refusal> {
    let now = rights.this.now();
    let lets_in = |rule: &AccessRule| {
        let lasts = rule.expires.is_none_or(|ends| ends > now);
        rule.subject == node && lasts
    };
    let of_job = rules(&rights.this, &prefix(&mandate.asker, &mandate.job))?;
    Ok(of_job.iter().any(lets_in))
}

/// The nodes that have access for a job of the asker.
pub(crate) fn let_in_by(
    rights: &Rights,
    asker: &str,
    job: &str,
) -> Result<HashSet<String>, Refusal> {
    let of_job = rules(&rights.this, &prefix(asker, job))?;
    Ok(of_job.into_iter().map(|rule| rule.subject).collect())
}

/// Revokes the access for a job of the asker, at the request of the asker or of a node with access. Some nodes may keep their access.
pub(crate) fn revoke(
    rights: &Rights,
    by: &str,
    asker: &str,
    job: &str,
    keep: &[String],
) -> Result<Answer, Refusal> {
    check_job(job)?;
    if keep.len() > MEMBERS_MAX {
        let message = format!("keep: at most {MEMBERS_MAX} nodes can keep their access");
        return Err(Refusal::new(code::INVALID, message));
    }
    let keep: HashSet<&str> = keep.iter().map(String::as_str).collect();
    let prefix = prefix(asker, job);
    // A node of the job may pass access on at the same moment. A node whose access has ended can give none to others.
    for _ in 0..REVOKE_PASSES_MAX {
        let mut rules = rules(&rights.this, &prefix)?;
        rules.retain(|rule| !keep.contains(rule.subject.as_str()));
        if rules.is_empty() {
            return Ok(Answer::Done {});
        }
        for rule in rules {
            take_back(&rights.this, by, rule.id)?;
        }
    }
    let message = "other nodes of the job are still granting access; try again";
    Err(Refusal::later(code::BUSY, message))
}

/// Changes the state for an asker.
fn propose(this: &ThisNode, asker: &str, op: Op) -> Result<(), Refusal> {
    let command = Command::new(this.now(), actor(asker), op);
    let done = this.replica.propose_blocking(command);
    done.map(|_| ()).map_err(|error| refuse(&error.into()))
}

/// Removes a rule that may be gone by now.
fn take_back(this: &ThisNode, asker: &str, rule: String) -> Result<(), Refusal> {
    let taken = propose(this, asker, Op::Access(Change::Remove(rule.clone())));
    let reader = this.reader();
    let is_gone = || matches!(reader.object::<AccessRule>(&rule), Ok(None));
    taken.or_else(|refusal| if is_gone() { Ok(()) } else { Err(refusal) })
}

/// The rules whose ids have this prefix, by the key: a node asks often, and other askers may have given thousands.
fn rules(this: &ThisNode, prefix: &str) -> Result<Vec<AccessRule>, Refusal> {
    let reader = this.reader();
    let rules = ById(&reader).below::<AccessRule>(prefix);
    rules.map_err(|error| refuse(&error.into()))
}

/// A number that follows from identity, path and right: it distinguishes the rules of one job.
fn hash(identity: &str, path: &[u8], write: bool) -> u64 {
    let bytes = identity.bytes().chain([0]).chain(path.iter().copied());
    fnv(bytes.chain(if write { *b"w" } else { *b"r" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_lasts_no_longer_than_that_of_the_asker() {
        let (hour, path) = (3_600_000, Text::from("data/a"));
        let ends = |end: i64| {
            move |_: &Text, write: bool, at: Timestamp| match write && at.0 < end {
                true => Ok(()),
                false => Err(Refusal::new(code::NOT_GRANTED, "no")),
            }
        };
        let until = latest_end(&path, true, 0, 24 * hour, &ends(i64::MAX)).expect("granted");
        assert_eq!(until, 24 * hour);
        let until = latest_end(&path, true, 0, 24 * hour, &ends(5 * hour)).expect("granted");
        assert!((hour..5 * hour).contains(&until), "{until}");
        assert!(latest_end(&path, true, 0, 24 * hour, &ends(30_000)).is_err());
        assert!(latest_end(&path, false, 0, 24 * hour, &ends(i64::MAX)).is_err());
    }

    #[test]
    fn ids_of_rules_tell_askers_jobs_and_paths_apart() {
        assert_ne!(prefix("ab", "c"), prefix("a", "bc"));
        assert_ne!(hash("i", b"a", true), hash("i", b"a", false));
        assert_ne!(hash("i", b"a/b", true), hash("i", b"b/a", true));
        assert_ne!(hash("i", b"a", true), hash("j", b"a", true));
        for wrong in ["", "a:b", "a b", &"x".repeat(65)] {
            assert!(check_job(wrong).is_err(), "{wrong}");
        }
        assert!(check_job("0abc-9").is_ok());
    }
}
