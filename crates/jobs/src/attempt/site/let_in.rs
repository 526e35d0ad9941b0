//! Lets the sites and nodes of a job in at the other end, for this job: gives access, renews it, and takes it back.
//! Decides no right: the site that is asked does.

use godwit_api::ask::{GrantJob, Peer, Question, Refusal};
use godwit_api::rest::Timestamp;

use super::lone::living;
use super::{Direction, GRANT_FOR, SiteAttempt, Stop, below_exports, is_passing, mates, millis};
use crate::asking::reached::GoesOn;
use crate::rights::grants::RULES_OF_JOB_MAX;

impl SiteAttempt<'_> {
    /// Lets the runner in at the other end, for this job; or for longer.
    pub(super) fn grant(&self, way: Direction) -> Result<(), Refusal> {
        let Some(granter) = self.ends.granter(way) else {
            return Ok(());
        };
        let paths = match way {
            Direction::Pull => below_exports(&self.ends.sources),
            _ => below_exports(std::slice::from_ref(&self.ends.destination)),
        };
        let give = |identity: String| {
            let question = Question::Grant(GrantJob {
                job: self.job.id.clone(),
                identity,
                paths: paths.clone(),
                write: way == Direction::Push,
                until: Timestamp(self.context.this.now().after(millis(GRANT_FOR)).0),
                lasts_ms: Some(millis(GRANT_FOR)),
            });
            self.ask(granter, &question).map(|_| ())
        };
        let room = rooms(paths.len());
        let runners = self.ends.runners(way);
        if runners.len() > room {
            self.note(&format!(
                "{} sources are too many to grant access to each of the {} nodes that may run the job: {room} nodes get access",
                paths.len(),
                runners.len()
            ));
        }
        let left = room.saturating_sub(runners.len());
        for identity in runners.into_iter().take(room) {
            match give(identity) {
                // The access that the earlier node gave lasts for a time.
                Err(refusal) if self.earlier.borrow().is_some() && !refusal.retryable => {
                    self.note(&format!(
                        "{} refuses to renew the access: {refusal}",
                        granter.name
                    ));
                    return Ok(());
                }
                given => given?,
            }
        }
        // Each of them may renew the access later. Without that the access ends within a day after this node is lost.
        if self.ends.own.is_none() {
            for mate in mates::to_be_let_in(self).into_iter().take(left) {
                drop(give(mate));
            }
        }
        Ok(())
    }

    /// Takes the access back. A site that does not answer is asked again after the attempt.
    pub(super) fn revoke(&self, way: Direction) {
        self.take_back(way);
        if !self.mates.borrow().is_empty() {
            revoke_at(self, self.ends.runner(way), Vec::new());
        }
    }

    /// The same at the other end alone: the nodes of this cluster still find the job at the site that runs it.
    pub(super) fn take_back(&self, way: Direction) {
        if let Some(granter) = self.ends.granter(way) {
            revoke_at(self, granter, Vec::new());
        }
    }

    /// Reads the present nodes of the cluster. If a node has left, revokes its access and the access of nodes that it may have passed on.
    pub(super) fn follow_mates(&self, way: Direction) -> Result<Changed, Stop> {
        let now = mates::mates(&self.context.this)?;
        let changed = {
            let before = self.mates.borrow();
            match before.iter().all(|mate| now.contains(mate)) {
                true if before.len() == now.len() => return Ok(Changed::No),
                true => Changed::Came,
                false => Changed::Left,
            }
        };
        self.mates.replace(now);
        if changed == Changed::Left {
            self.note("a node has left this cluster and has lost its access for this job");
            keep_out(self, way);
        }
        Ok(changed)
    }
}

/// Asks the site that runs the job for its present nodes, unless `goes_on` ends that. Returns whether one has come: it may have to run the
/// job.
pub(super) fn follow_runners(
    third: &SiteAttempt<'_>,
    way: Direction,
    goes_on: &GoesOn<'_>,
) -> bool {
    let name = third.ends.site_of_runner(way);
    let now = name.and_then(|name| living(&third.context.asking, third.job, name, goes_on).ok());
    // A site of which no node answers now keeps the nodes that it had, and is asked again.
    let Some(now) = now.filter(|now| now.answered) else {
        return false;
    };
    let before = third.ends.nodes_of_runner(way).replace(now.nodes);
    let nodes = third.ends.nodes_of_runner(way).borrow();
    let is_known = |node: &Peer| before.iter().any(|one| one.identity == node.identity);
    !nodes.iter().all(is_known)
}

/// Gives access for the job to the present nodes: nodes that have left the cluster since an earlier attempt have none any more.
pub(super) fn give_again(third: &SiteAttempt<'_>, way: Direction) -> Result<(), Refusal> {
    let control = third.control;
    follow_runners(third, way, &|| !control.is_cancelled());
    keep_out(third, way);
    third.grant(way)?;
    third.let_mates_in(way);
    Ok(())
}

/// Takes access back from all but the nodes of this cluster and the nodes that may run the job.
fn keep_out(third: &SiteAttempt<'_>, way: Direction) {
    // A cluster of one node that never had another has no access to take back.
    let Some(own) = third.context.rights.cluster.own() else {
        return;
    };
    // While the state cannot be read it is not known which nodes keep their access. The next attempt takes back the access of others.
    let is_cluster = third.context.rights.cluster.has(&own.identity);
    if !is_cluster.unwrap_or(false) {
        return;
    }
    let mut keep = third.ends.runners(way);
    keep.extend(third.mates.borrow().iter().cloned());
    keep.push(own.identity);
    for site in third
        .ends
        .granter(way)
        .into_iter()
        .chain([third.ends.runner(way)])
    {
        revoke_at(third, site, keep.clone());
    }
}

fn revoke_at(third: &SiteAttempt<'_>, site: &Peer, keep: Vec<String>) {
    let job = third.job.id.clone();
    match third.ask(site, &Question::Revoke { job, keep }) {
        Ok(_) => {}
        Err(refusal) if is_passing(&refusal) => {
            third.note(&format!(
                "the access for this job will be revoked later, and otherwise expires within a day: {refusal}"
            ));
            third.context.notices.add(&third.job.id);
        }
        Err(refusal) => third.note(&format!(
            "the access for this job expires within a day: {refusal}"
        )),
    }
}

/// Change of the nodes of the cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Changed {
    No,
    /// New nodes are there.
    Came,
    /// Some nodes are gone.
    Left,
}

/// Number of nodes that can be let in for a job with this many paths, within a site's bound of rules for one job.
fn rooms(paths: usize) -> usize {
    (RULES_OF_JOB_MAX / paths.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_many_sources_keeps_within_the_rules_of_one_job() {
        assert_eq!(rooms(1), RULES_OF_JOB_MAX);
        assert_eq!(rooms(660), 1);
        assert_eq!(rooms(2 * RULES_OF_JOB_MAX), 1);
        for paths in 1..=RULES_OF_JOB_MAX {
            assert!(rooms(paths) * paths <= RULES_OF_JOB_MAX, "{paths}");
        }
    }
}
