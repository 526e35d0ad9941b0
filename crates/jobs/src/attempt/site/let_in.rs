//! Lets the sites and nodes of a job in at the other end, for this job: gives access, renews it, and takes it back. The other nodes of this
//! cluster get access, too, so that they can find and resume the job.
//! Decides no right: the site that is asked does.

use godwit_api::ask::{GrantJob, Peer, Question, Refusal};
use godwit_api::job::Text;
use godwit_api::rest::Timestamp;

use super::lone::living;
use super::{Direction, GRANT_FOR, SiteAttempt, Stop, below_exports, is_passing, mates, millis};
use crate::asking::reached::GoesOn;
use crate::attempt::askers::asker;
use crate::rights::grants::RULES_OF_JOB_MAX;

/// The access that sites give for a job while another site runs it.
pub(super) struct JobAccess<'a> {
    attempt: &'a SiteAttempt<'a>,
}

impl<'a> JobAccess<'a> {
    pub(super) const fn of(attempt: &'a SiteAttempt<'a>) -> Self {
        Self { attempt }
    }

    /// Lets the runner in at the other end, for this job; or for longer.
    pub(super) fn grant(&self, direction: Direction) -> Result<(), Refusal> {
        let attempt = self.attempt;
        let Some(granter) = attempt.ends.granter(direction) else {
            return Ok(());
        };
        let paths = match direction {
            Direction::Pull => below_exports(&attempt.ends.sources),
            _ => below_exports(std::slice::from_ref(&attempt.ends.destination)),
        };
        let give = |identity: String| {
            let write = direction == Direction::Push;
            self.ask_for(granter, identity, paths.clone(), write)
        };
        let room = rooms(paths.len());
        let runners = attempt.ends.runners(direction);
        if runners.len() > room {
            attempt.note(&format!(
                "{} sources are too many to grant access to each of the {} nodes that may run the job: {room} nodes get access",
                paths.len(),
                runners.len()
            ));
        }
        let left = room.saturating_sub(runners.len());
        for identity in runners.into_iter().take(room) {
            match give(identity) {
                // The access that the earlier node gave lasts for a time.
                Err(refusal) if attempt.earlier.borrow().is_some() && !refusal.retryable => {
                    attempt.note(&format!(
                        "{} refuses to renew the access: {refusal}",
                        granter.name
                    ));
                    return Ok(());
                }
                given => given?,
            }
        }
        // Each of them may renew the access later. Without that the access ends within a day after this node is lost.
        if attempt.ends.own.is_none() {
            for mate in self.mates_to_let_in().into_iter().take(left) {
                drop(give(mate));
            }
        }
        Ok(())
    }

    /// Admits the other nodes of this cluster at the site that runs the job. Otherwise they could not resume it.
    pub(super) fn let_mates_in(&self, direction: Direction) {
        let attempt = self.attempt;
        let (runner, paths) = (
            attempt.ends.runner(direction),
            attempt.ends.paths_at_runner(direction),
        );
        let own = asker(&attempt.context.rights.cluster, None);
        for identity in self.mates_to_let_in() {
            let is_own = own.as_ref() == Some(&identity);
            // The right to one path lets the node in.
            let path = paths.iter().take(1).cloned().collect();
            let write = direction == Direction::Pull;
            if let Err(refusal) = self.ask_for(runner, identity, path, write)
                && !is_own
            {
                return attempt.note(&format!(
                    "{} gives no access to the other nodes of this cluster, so they cannot continue the job if this node is lost: {refusal}",
                    runner.name
                ));
            }
        }
    }

    /// Gives access to the present nodes: nodes that have left the cluster since an earlier attempt have none any more.
    pub(super) fn give_to_present_nodes(&self, direction: Direction) -> Result<(), Refusal> {
        let control = self.attempt.control;
        self.follow_runners(direction, &|| !control.is_cancelled());
        self.keep_out(direction);
        self.grant(direction)?;
        self.let_mates_in(direction);
        Ok(())
    }

    /// Takes the access back. A site that does not answer is asked again after the attempt.
    pub(super) fn revoke(&self, direction: Direction) {
        self.take_back(direction);
        if !self.attempt.mates.borrow().is_empty() {
            self.revoke_at(self.attempt.ends.runner(direction), Vec::new());
        }
    }

    /// The same at the other end alone: the nodes of this cluster still find the job at the site that runs it.
    pub(super) fn take_back(&self, direction: Direction) {
        if let Some(granter) = self.attempt.ends.granter(direction) {
            self.revoke_at(granter, Vec::new());
        }
    }

    /// Reads the present nodes of the cluster. If a node has left, revokes its access and the access of nodes that it may have passed on.
    pub(super) fn follow_mates(&self, direction: Direction) -> Result<Changed, Stop> {
        let attempt = self.attempt;
        let now = mates::mates(&attempt.context.this)?;
        let changed = {
            let before = attempt.mates.borrow();
            match before.iter().all(|mate| now.contains(mate)) {
                true if before.len() == now.len() => return Ok(Changed::No),
                true => Changed::Came,
                false => Changed::Left,
            }
        };
        attempt.mates.replace(now);
        if changed == Changed::Left {
            attempt.note("a node has left this cluster and has lost its access for this job");
            self.keep_out(direction);
        }
        Ok(changed)
    }

    /// Asks the site that runs the job for its present nodes, unless `goes_on` ends that. Returns whether a new node was found,
    /// which may have to run the job.
    pub(super) fn follow_runners(&self, direction: Direction, goes_on: &GoesOn<'_>) -> bool {
        let attempt = self.attempt;
        let name = attempt.ends.site_of_runner(direction);
        let asking = &attempt.context.asking;
        let now = name.and_then(|name| living(asking, attempt.job, name, goes_on).ok());
        // If no node of a site answers now, the site keeps its known nodes and is asked again.
        let Some(now) = now.filter(|now| now.answered) else {
            return false;
        };
        let before = attempt.ends.nodes_of_runner(direction).replace(now.nodes);
        let nodes = attempt.ends.nodes_of_runner(direction).borrow();
        let is_known = |node: &Peer| before.iter().any(|one| one.identity == node.identity);
        !nodes.iter().all(is_known)
    }

    /// The nodes of this cluster that need access for the job. This node is among them if the site knows the job by another one. The site
    /// renews the access of this node only by its own right.
    fn mates_to_let_in(&self) -> Vec<String> {
        let attempt = self.attempt;
        let own = attempt.earlier.borrow().is_some();
        let own = own
            .then(|| asker(&attempt.context.rights.cluster, None))
            .flatten();
        let mates = attempt.mates.borrow();
        own.into_iter().chain(mates.iter().cloned()).collect()
    }

    /// Asks a site to grant an identity access to these paths for the job.
    fn ask_for(
        &self,
        site: &Peer,
        identity: String,
        paths: Vec<Text>,
        write: bool,
    ) -> Result<(), Refusal> {
        let attempt = self.attempt;
        let question = Question::Grant(GrantJob {
            job: attempt.job.id.clone(),
            identity,
            paths,
            write,
            until: Timestamp(attempt.context.this.now().after(millis(GRANT_FOR)).0),
            lasts_ms: Some(millis(GRANT_FOR)),
        });
        attempt.ask(site, &question).map(|_| ())
    }

    /// Takes access back from all but the nodes of this cluster and the nodes that may run the job.
    fn keep_out(&self, direction: Direction) {
        let attempt = self.attempt;
        // A cluster of one node that never had another has no access to take back.
        let Some(own) = attempt.context.rights.cluster.own() else {
            return;
        };
        // While the state cannot be read it is not known which nodes keep their access. The next attempt takes back the access of others.
        let is_cluster = attempt.context.rights.cluster.has(&own.identity);
        if !is_cluster.unwrap_or(false) {
            return;
        }
        let mut keep = attempt.ends.runners(direction);
        keep.extend(attempt.mates.borrow().iter().cloned());
        keep.push(own.identity);
        let granter = attempt.ends.granter(direction).into_iter();
        for site in granter.chain([attempt.ends.runner(direction)]) {
            self.revoke_at(site, keep.clone());
        }
    }

    fn revoke_at(&self, site: &Peer, keep: Vec<String>) {
        let attempt = self.attempt;
        let job = attempt.job.id.clone();
        match attempt.ask(site, &Question::Revoke { job, keep }) {
            Ok(_) => {}
            Err(refusal) if is_passing(&refusal) => {
                attempt.note(&format!(
                    "the access for this job will be revoked later, and otherwise expires within a day: {refusal}"
                ));
                attempt.context.notices.add(&attempt.job.id);
            }
            Err(refusal) => attempt.note(&format!(
                "the access for this job expires within a day: {refusal}"
            )),
        }
    }
}

/// Change of the nodes of the cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Changed {
    No,
    /// Some nodes are new.
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
