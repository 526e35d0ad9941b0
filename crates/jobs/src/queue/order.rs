//! Chooses which of the waiting jobs are started, and explains why the others wait: a pure function of waiting jobs, running jobs, and the
//! rules.
//! Reads no state and no clock.
//!
//! Owners compete by their shares: the next job is that of the owner with the fewest running jobs for the weight of the share.
//! Among the jobs of one owner the higher priority goes first, then the older job. So a high priority never takes another owner's turn.
//! Among the jobs of one parent the site with the fewest running jobs goes first. So a site with many sources keeps no other
//! site waiting.
//! Jobs of other sites may not take all places, neither of the node nor with a site, because a job can run for ever: some places are kept
//! for jobs of this site. For the same reason, jobs of one other site leave some of these places to further sites.

use std::collections::HashMap;

use godwit_api::failure::FailureCode;
use godwit_api::units::counted;
use godwit_state::{Job, Reason};

use crate::basis::ends::sites_of;
use crate::basis::owners::is_of_site;

/// The rules, as they hold now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Jobs of this node at once.
    pub(crate) node_max: usize,
    /// Jobs of an owner at once.
    pub(crate) owner_max: HashMap<String, u32>,
    /// Jobs with a site at once.
    pub(crate) site_max: HashMap<String, u32>,
    /// Weights of owners; 1 where there is none.
    pub(crate) weights: HashMap<String, u32>,
    /// Parents of waiting jobs, by the ids of the jobs.
    pub(crate) parents: HashMap<String, String>,
}

/// A job that runs.
#[derive(Clone, Debug)]
pub(crate) struct ActiveJob {
    pub(crate) owner: String,
    pub(crate) sites: Vec<String>,
}

/// The decision.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Jobs to start, in this order.
    pub(crate) start: Vec<Job>,
    /// Jobs that wait, and why.
    pub(crate) wait: Vec<(Job, Reason)>,
}

fn jobs(number: u64) -> String {
    counted(number, "job")
}

#[derive(Default)]
struct Counts {
    all: usize,
    /// Number of jobs of each other site, at this node.
    guests: HashMap<String, usize>,
    owners: HashMap<String, u32>,
    sites: HashMap<String, u32>,
    /// By site: the number of running guest jobs with that site, by the site that asked for them.
    guests_with: HashMap<String, HashMap<String, usize>>,
}

/// Why a job of another site has to wait, if it has to. `guests` are the running ones that use the same places.
enum Kept {
    /// Number of places for jobs of this site.
    Own(usize),
    /// Number of places for jobs of further sites.
    Others(usize),
}

fn kept_from(guests: &HashMap<String, usize>, owner: &str, places: usize) -> Option<Kept> {
    let own = kept(places);
    let places = places - own;
    if guests.values().sum::<usize>() >= places {
        return Some(Kept::Own(own));
    }
    let others = kept(places);
    let running = guests.get(owner).copied().unwrap_or(0);
    (running + others >= places).then_some(Kept::Others(others))
}

impl Counts {
    fn add(&mut self, owner: &str, sites: &[String]) {
        self.all += 1;
        if is_of_site(owner) {
            *self.guests.entry(owner.to_owned()).or_default() += 1;
        }
        *self.owners.entry(owner.to_owned()).or_default() += 1;
        for site in sites {
            *self.sites.entry(site.clone()).or_default() += 1;
            if is_of_site(owner) {
                let guests = self.guests_with.entry(site.clone()).or_default();
                *guests.entry(owner.to_owned()).or_default() += 1;
            }
        }
    }

    fn of_owner(&self, owner: &str) -> u32 {
        self.owners.get(owner).copied().unwrap_or(0)
    }

    /// Why a job of another site has to wait, by the places that it leaves to other jobs.
    fn in_the_way_of_guest(&self, job: &Job, rules: &Rules) -> Option<Reason> {
        if let Some(kept) = kept_from(&self.guests, &job.owner, rules.node_max) {
            let text = waits_for("this node", kept);
            return Some(Reason::new(FailureCode::JobsOfNode, text));
        }
        let in_use = |site: &String| self.sites.get(site).copied().unwrap_or(0);
        sites_of(job).into_iter().find_map(|site| {
            let max = *rules.site_max.get(&site)?;
            // Without room for any job there is another reason.
            if in_use(&site) >= max {
                return None;
            }
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            let none = HashMap::new();
            let guests = self.guests_with.get(&site).unwrap_or(&none);
            let kept = kept_from(guests, &job.owner, max)?;
            let text = waits_for(&format!("this node with {site}"), kept);
            Some(Reason::new(FailureCode::JobsOfSite, text))
        })
    }

    /// Why the job has to wait, if it has to.
    fn in_the_way(&self, job: &Job, rules: &Rules) -> Option<Reason> {
        if self.all >= rules.node_max {
            return Some(Reason::new(
                FailureCode::JobsOfNode,
                format!(
                    "This node runs {}, which is its limit; the job begins when one of them ends.",
                    jobs(self.all as u64)
                ),
            ));
        }
        if is_of_site(&job.owner)
            && let Some(reason) = self.in_the_way_of_guest(job, rules)
        {
            return Some(reason);
        }
        let running = self.of_owner(&job.owner);
        if rules
            .owner_max
            .get(&job.owner)
            .is_some_and(|max| running >= *max)
        {
            return Some(Reason::new(
                FailureCode::JobsOfOwner,
                format!(
                    "The node runs {} of {}, which is the limit; the job begins when one of them ends.",
                    jobs(running.into()),
                    job.owner
                ),
            ));
        }
        sites_of(job).into_iter().find_map(|site| {
            let running = self.sites.get(&site).copied().unwrap_or(0);
            let full = rules.site_max.get(&site).is_some_and(|max| running >= *max);
            full.then(|| {
                Reason::new(
                    FailureCode::JobsOfSite,
                    format!(
                        "The node runs {} with {site}, which is the limit; the job begins when one of them ends.",
                        jobs(running.into())
                    ),
                )
            })
        })
    }
}

fn waits_for(of: &str, kept: Kept) -> String {
    match kept {
        Kept::Own(own) => {
            let own = counted(own as u64, "place");
            format!(
                "Of the job slots of {of}, {own} are reserved for the node's own jobs; the job begins when a job of another site ends."
            )
        }
        Kept::Others(others) => {
            let others = counted(others as u64, "place");
            format!(
                "Of the job slots of {of}, {others} are reserved for jobs of further sites; the job begins when a job of the same site ends."
            )
        }
    }
}

/// Chooses. `waiting` has the jobs of each owner in their order; `elsewhere` are the running jobs of other nodes of the cluster.
pub(crate) fn choose(
    waiting: Vec<Job>,
    running: &[ActiveJob],
    elsewhere: &[ActiveJob],
    rules: &Rules,
) -> Plan {
    let mut counts = Counts::default();
    for job in running.iter().chain(elsewhere) {
        counts.add(&job.owner, &job.sites);
    }
    counts.all = running.len();
    counts.guests.clear();
    for job in running.iter().filter(|job| is_of_site(&job.owner)) {
        *counts.guests.entry(job.owner.clone()).or_default() += 1;
    }
    let mut plan = Plan::default();
    let mut left: Vec<Job> = waiting;
    loop {
        let weight = |owner: &str| f64::from(rules.weights.get(owner).copied().unwrap_or(1).max(1));
        let load = |job: &Job| f64::from(counts.of_owner(&job.owner)) / weight(&job.owner);
        // The first of the least loaded owners: jobs come by priority and age.
        let next = left
            .iter()
            .enumerate()
            .filter(|(_, job)| counts.in_the_way(job, rules).is_none())
            .min_by(|(_, a), (_, b)| load(a).total_cmp(&load(b)))
            .map(|(index, _)| index);
        let Some(index) = next else {
            break;
        };
        let index = fairest(&left, index, &counts, rules);
        let job = left.remove(index);
        counts.add(&job.owner, &sites_of(&job));
        plan.start.push(job);
    }
    for job in left {
        if let Some(reason) = counts.in_the_way(&job, rules) {
            plan.wait.push((job, reason));
        }
    }
    plan
}

/// The job that starts instead of the chosen one: the first job of the same parent and priority whose sites run the fewest jobs.
fn fairest(left: &[Job], chosen: usize, counts: &Counts, rules: &Rules) -> usize {
    let parent_of = |job: &Job| rules.parents.get(&job.id);
    let Some((job, parent)) = left
        .get(chosen)
        .and_then(|job| Some((job, parent_of(job)?)))
    else {
        return chosen;
    };
    let in_use = |job: &Job| -> u32 {
        let sites = sites_of(job).into_iter();
        sites.filter_map(|site| counts.sites.get(&site)).sum()
    };
    left.iter()
        .enumerate()
        .filter(|(_, other)| other.priority == job.priority && parent_of(other) == Some(parent))
        .filter(|(_, other)| counts.in_the_way(other, rules).is_none())
        .min_by_key(|(_, other)| in_use(other))
        .map_or(chosen, |(index, _)| index)
}

/// Places kept for jobs of this site, and among jobs of other sites for further sites: a quarter,
/// and at least one of two.
fn kept(places: usize) -> usize {
    (places / 4).max(usize::from(places > 1))
}

/// The limit of one job in bytes per second; 0 is none. It is the least of the job's limit and of its portions of shared limits.
pub(crate) fn rate(own: Option<u64>, shared: &[(Option<u64>, usize)]) -> u64 {
    let parts = shared.iter().filter_map(|(limit, jobs)| {
        let jobs = u64::try_from(*jobs).unwrap_or(u64::MAX).max(1);
        limit.map(|limit| (limit / jobs).max(1))
    });
    own.into_iter().chain(parts).min().unwrap_or(0)
}

#[cfg(test)]
mod tests;
