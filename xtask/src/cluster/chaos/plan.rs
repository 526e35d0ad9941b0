//! Decides by a seed what happens in one run: to which node, what, when, and for how long.
//! Does none of it.

use std::fmt;
use std::time::Duration;

use crate::cluster::network::LINKS;
use crate::cluster::seeded::Seeded;
use crate::cluster::sites::Shape;

/// Nodes of a site from which one may be lost for good: with two, one has the only vote.
const SPARE_NODES: usize = 3;
/// The parts of the data, in percent, before and after which nothing happens.
const WHEN_PERCENT: (u64, u64) = (15, 50);
/// Shortest and longest fault, in milliseconds.
const DURING_MS: (u64, u64) = (500, 12_000);

/// Which node something happens to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// The node of the source that controls the job.
    Controller,
    /// The node that leads the cluster of the source.
    Leader,
    /// A node of the source that does neither, or the last one.
    Worker,
    /// The node of the destination that the site is known by.
    Door,
    /// Another node of the destination, or the only one.
    Target,
}

/// What happens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// SIGKILL, and a start afterwards or never.
    Kill(Option<Duration>),
    /// SIGSTOP, and SIGCONT.
    Stop(Duration),
    /// Both links are cut, and joined.
    CutNode(Duration),
    /// One link is cut, and joined or not.
    CutLink(usize, Option<Duration>),
}

/// One run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) role: Role,
    pub(crate) fault: Fault,
    /// The part of the data after which it happens, in percent.
    pub(crate) after_percent: u64,
    /// The data set has a large file, which is brought in parts.
    pub(crate) has_parts: bool,
}

impl Plan {
    /// The run of this seed between two sites.
    pub(crate) fn of(seed: u64, shape: &Shape) -> Self {
        let mut seeded = Seeded::new(seed);
        let roles = [
            Role::Controller,
            Role::Leader,
            Role::Worker,
            Role::Door,
            Role::Target,
        ];
        let role = *seeded.one_of(&roles);
        let nodes = match role {
            Role::Controller | Role::Leader | Role::Worker => shape.sources,
            Role::Door | Role::Target => shape.destinations,
        };
        let (least, most) = DURING_MS;
        let during = Duration::from_millis(seeded.between(least, most));
        let is_for_good = seeded.between(0, 2) == 0;
        let link = usize::try_from(seeded.between(0, LINKS as u64)).unwrap_or(0);
        let fault = match seeded.between(0, 4) {
            0 if is_for_good && nodes >= SPARE_NODES => Fault::Kill(None),
            0 => Fault::Kill(Some(during)),
            1 => Fault::Stop(during),
            2 => Fault::CutNode(during),
            _ => Fault::CutLink(link, (!is_for_good).then_some(during)),
        };
        let (early, late) = WHEN_PERCENT;
        Self {
            seed,
            role,
            fault,
            after_percent: seeded.between(early, late),
            has_parts: seeded.between(0, 3) == 0,
        }
    }
}

impl Fault {
    /// How long it lasts; None where it is for good.
    pub(crate) fn during(self) -> Option<Duration> {
        match self {
            Self::Kill(during) | Self::CutLink(_, during) => during,
            Self::Stop(during) | Self::CutNode(during) => Some(during),
        }
    }

    /// Links of the node that carry nothing meanwhile.
    pub(crate) fn links_lost(self) -> usize {
        match self {
            Self::Kill(_) | Self::Stop(_) | Self::CutNode(_) => LINKS,
            Self::CutLink(..) => 1,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controller => "controller",
            Self::Leader => "leader",
            Self::Worker => "worker",
            Self::Door => "door",
            Self::Target => "target",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(_) => f.write_str("SIGKILL"),
            Self::Stop(_) => f.write_str("SIGSTOP"),
            Self::CutNode(_) => f.write_str("both links cut"),
            Self::CutLink(link, _) => write!(f, "link {link} cut"),
        }?;
        match self.during() {
            Some(during) => write!(f, " for {:.1} s", during.as_secs_f64()),
            None => f.write_str(" for good"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sources: usize, destinations: usize) -> Shape {
        Shape {
            sources,
            destinations,
            rate_mbit: 40,
            is_plain: false,
        }
    }

    #[test]
    fn all_that_may_happen_does_within_some_seeds() {
        let shape = shape(3, 3);
        let plans: Vec<Plan> = (0..200).map(|seed| Plan::of(seed, &shape)).collect();
        assert_eq!(plans[7], Plan::of(7, &shape));
        for role in ["controller", "leader", "worker", "door", "target"] {
            let with = plans.iter().filter(|plan| plan.role.to_string() == role);
            let faults: Vec<String> = with.map(|plan| plan.fault.to_string()).collect();
            for fault in [
                "SIGKILL for good",
                "SIGSTOP",
                "both links",
                "link 0",
                "link 1",
            ] {
                let found = faults.iter().any(|one| one.starts_with(fault));
                assert!(found, "{role}: {fault}");
            }
        }
    }

    #[test]
    fn a_site_is_never_lost_for_good() {
        for seed in 0..500 {
            let plan = Plan::of(seed, &shape(2, 1));
            assert!(plan.fault != Fault::Kill(None), "{plan:?}");
        }
    }
}
