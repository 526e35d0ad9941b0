//! Derives the fault of one run from a seed: the node, the fault, the time and the duration. Causes no faults.

use std::fmt;
use std::time::Duration;

use crate::cluster::network::LINKS;
use crate::cluster::seeded::Seeded;
use crate::cluster::sites::Shape;

/// Number of nodes with which a site may lose one for good: with two, one node has the only vote.
const SPARE_NODES: usize = 3;
/// The fault happens after this share of the data at the earliest and at the latest, in percent.
const WHEN_PERCENT: (u64, u64) = (15, 50);
/// Shortest and longest fault, in milliseconds.
const DURING_MS: (u64, u64) = (500, 12_000);
/// One fault in this number lasts long instead.
const LONG_ONE_OF: u64 = 6;
const LONG: Duration = Duration::from_secs(60);

/// The node that has the fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// The node of the source that controls the job.
    Controller,
    /// The node that leads the cluster of the source.
    Leader,
    /// A node of the source that neither controls nor leads, or the last node.
    Worker,
    /// The node of the destination by whose address the site is known.
    Door,
    /// Another node of the destination, or the only one.
    Target,
}

/// The fault of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// SIGKILL, and a restart afterwards or none.
    Kill(Option<Duration>),
    /// SIGSTOP, and SIGCONT afterwards or none before the end of the job.
    Stop(Option<Duration>),
    /// Both links are cut, and restored afterwards or not.
    CutNode(Option<Duration>),
    /// One link is cut, and restored afterwards or not.
    CutLink(usize, Option<Duration>),
    /// The file system of the node's export does not answer, and answers again afterwards or not before the end of the job.
    HangMount(Option<Duration>),
    /// Both links are very slow, and as fast as before afterwards.
    Slow(Option<Duration>),
    /// The process of the node runs for a small part of the time, and all the time afterwards.
    SlowNode(Option<Duration>),
    /// The file system of the node's state has too little space for changes; it has space again afterwards, or not before the
    /// end of the job.
    FullDisk(Option<Duration>),
}

/// Choices of the user for all runs, in place of the seed's choices.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) role: Option<Role>,
    pub(crate) fault: Option<Fault>,
    pub(crate) has_parts: Option<bool>,
}

/// Roles by their names on the command line.
pub(crate) const ROLES: [(&str, Role); 5] = [
    ("controller", Role::Controller),
    ("leader", Role::Leader),
    ("worker", Role::Worker),
    ("door", Role::Door),
    ("target", Role::Target),
];

/// Makes a fault with this duration.
pub(crate) type MakeFault = fn(Option<Duration>) -> Fault;

/// Faults by their names on the command line; the second part makes a fault with a given duration.
pub(crate) const FAULTS: [(&str, MakeFault); 8] = [
    ("kill", Fault::Kill),
    ("stop", Fault::Stop),
    ("cut", Fault::CutNode),
    ("cut-link", |during| Fault::CutLink(0, during)),
    ("hang-mount", Fault::HangMount),
    ("slow", Fault::Slow),
    ("slow-node", Fault::SlowNode),
    ("full-disk", Fault::FullDisk),
];

/// One run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) role: Role,
    pub(crate) fault: Fault,
    /// The fault happens after this share of the data, in percent.
    pub(crate) after_percent: u64,
    /// The data set has a large file, which is transferred in parts.
    pub(crate) has_parts: bool,
}

impl Plan {
    /// The run of this seed between two sites.
    pub(crate) fn of(seed: u64, shape: &Shape, wish: Wish) -> Self {
        let mut seeded = Seeded::new(seed);
        let role = seeded.one_of(&ROLES).1;
        let nodes = match role {
            Role::Controller | Role::Leader | Role::Worker => shape.sources,
            Role::Door | Role::Target => shape.destinations,
        };
        let (least, most) = DURING_MS;
        let short = Duration::from_millis(seeded.between(least, most));
        let during = match seeded.between(0, LONG_ONE_OF) {
            0 => LONG,
            _ => short,
        };
        let is_for_good = seeded.between(0, 2) == 0;
        let link = usize::try_from(seeded.between(0, LINKS as u64)).unwrap_or(0);
        // Without separate mounts, no mount can hang.
        let kinds = if shape.is_mounted { 8 } else { 7 };
        let until_end = (!is_for_good).then_some(during);
        // A site of two nodes has one vote.
        let with_spare = match nodes >= SPARE_NODES {
            true => until_end,
            false => Some(during),
        };
        let fault = match seeded.between(0, kinds) {
            0 => Fault::Kill(with_spare),
            1 => Fault::Stop(with_spare),
            2 => Fault::CutNode(with_spare),
            3 => Fault::Slow(with_spare),
            4 => Fault::FullDisk(with_spare),
            5 => Fault::SlowNode(with_spare),
            7 => Fault::HangMount(until_end),
            _ => Fault::CutLink(link, until_end),
        };
        let (early, late) = WHEN_PERCENT;
        let after_percent = seeded.between(early, late);
        let has_parts = seeded.between(0, 3) == 0;
        Self {
            seed,
            role: wish.role.unwrap_or(role),
            fault: wish.fault.unwrap_or(fault),
            after_percent,
            has_parts: wish.has_parts.unwrap_or(has_parts),
        }
    }
}

impl Fault {
    /// The duration of the fault; `None` if it does not end.
    pub(crate) fn during(self) -> Option<Duration> {
        match self {
            Self::Kill(during)
            | Self::CutLink(_, during)
            | Self::Stop(during)
            | Self::CutNode(during)
            | Self::HangMount(during)
            | Self::Slow(during)
            | Self::SlowNode(during)
            | Self::FullDisk(during) => during,
        }
    }

    /// Number of the node's links that carry nothing during the fault, or next to nothing.
    pub(crate) fn links_lost(self) -> usize {
        match self {
            Self::Kill(_)
            | Self::Stop(_)
            | Self::CutNode(_)
            | Self::HangMount(_)
            | Self::Slow(_)
            | Self::SlowNode(_) => LINKS,
            Self::CutLink(..) => 1,
            Self::FullDisk(_) => 0,
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
            Self::HangMount(_) => f.write_str("mount hung"),
            Self::Slow(_) => f.write_str("links at 64 kbit/s"),
            Self::SlowNode(_) => f.write_str("slow process"),
            Self::FullDisk(_) => f.write_str("state disk full"),
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

    fn shape(sources: usize, destinations: usize, is_mounted: bool) -> Shape {
        Shape {
            sources,
            destinations,
            rates_mbit: vec![40; sources + destinations],
            is_plain: false,
            is_mounted,
        }
    }

    #[test]
    fn all_that_may_happen_does_within_some_seeds() {
        let shape = shape(3, 3, true);
        let of = |seed| Plan::of(seed, &shape, Wish::default());
        let plans: Vec<Plan> = (0..3_000).map(of).collect();
        assert_eq!(plans[7], of(7));
        for role in ["controller", "leader", "worker", "door", "target"] {
            let with = plans.iter().filter(|plan| plan.role.to_string() == role);
            let faults: Vec<String> = with.map(|plan| plan.fault.to_string()).collect();
            for fault in [
                "SIGKILL for good",
                "SIGKILL for 60.0 s",
                "SIGSTOP for good",
                "SIGSTOP for 60.0 s",
                "both links",
                "link 0",
                "link 1",
                "links at 64 kbit/s for good",
                "slow process for good",
                "state disk full for good",
                "mount hung for good",
                "mount hung for 60.0 s",
            ] {
                let found = faults.iter().any(|one| one.starts_with(fault));
                assert!(found, "{role}: {fault}");
            }
        }
    }

    #[test]
    fn a_site_is_never_lost_for_good() {
        for seed in 0..500 {
            let plan = Plan::of(seed, &shape(2, 1, false), Wish::default());
            let is_link = matches!(plan.fault, Fault::CutLink(..));
            assert!(is_link || plan.fault.during().is_some(), "{plan:?}");
        }
    }
}
