//! Owns the two ends of a job that another site runs: both sites, their nodes, and the choice of the site that runs the job.
//! Asks no node about the job.

use std::cell::RefCell;

use godwit_api::ask::Peer;
use godwit_api::job::Text;
use godwit_api::rest::{NewJob, Place};
use godwit_run::Control;
use godwit_state::Job;

use super::direction::Direction;
use super::lone::site;
use super::{Context, Stop, below_exports, route};
use crate::basis::spec;

/// The ends of a job, by nodes that answer.
pub(super) struct Ends {
    pub(super) sources: Vec<Place>,
    pub(super) destination: Place,
    /// Site of the sources, by a node that answers.
    pub(super) from: Peer,
    /// Its nodes that serve the sources.
    from_nodes: RefCell<Vec<Peer>>,
    /// Site of the destination.
    pub(super) to: Peer,
    /// Its nodes that serve the destination.
    to_nodes: RefCell<Vec<Peer>>,
    /// This node, where it is the site of the destination.
    pub(super) own: Option<Peer>,
}

impl Ends {
    pub(super) fn of(
        context: &Context,
        job: &Job,
        new: &NewJob,
        control: &Control,
    ) -> Result<Self, Stop> {
        let (sources, mut destination) = spec::places(new)?;
        let first = sources.first().map_or("", |place| place.site.as_str());
        let goes_on = || !control.is_cancelled();
        let (from, from_nodes) = site(&context.asking, job, first, &goes_on)?;
        let own = match destination.is_here() {
            true => route::own(&context.rights, control)?,
            false => None,
        };
        let (to, to_nodes) = match &own {
            Some(own) => {
                destination.site.clone_from(&own.name);
                (own.clone(), vec![own.clone()])
            }
            None => site(&context.asking, job, &destination.site, &goes_on)?,
        };
        Ok(Self {
            sources,
            destination,
            from,
            from_nodes: RefCell::new(from_nodes),
            to,
            to_nodes: RefCell::new(to_nodes),
            own,
        })
    }

    /// The site that runs the job.
    pub(super) fn runner(&self, direction: Direction) -> &Peer {
        match direction {
            Direction::Within | Direction::Push => &self.from,
            Direction::Pull => &self.to,
        }
    }

    /// The paths that the job uses at the site that runs it.
    pub(super) fn paths_at_runner(&self, direction: Direction) -> Vec<Text> {
        match direction {
            Direction::Within | Direction::Push => below_exports(&self.sources),
            Direction::Pull => below_exports(std::slice::from_ref(&self.destination)),
        }
    }

    /// The site that is connected to.
    pub(super) fn granter(&self, direction: Direction) -> Option<&Peer> {
        match direction {
            Direction::Within => None,
            Direction::Push => Some(&self.to),
            Direction::Pull => Some(&self.from),
        }
    }

    /// The identities of all nodes that may come to run the job.
    pub(super) fn runners(&self, direction: Direction) -> Vec<String> {
        let runner = &self.runner(direction).identity;
        let nodes = self.nodes_of_runner(direction).borrow();
        let others = nodes.iter().map(|node| &node.identity);
        let others = others.filter(|identity| *identity != runner);
        std::iter::once(runner).chain(others).cloned().collect()
    }

    /// The sending and the receiving site, for people.
    pub(super) fn route_text(&self, direction: Direction) -> String {
        match direction {
            Direction::Within => format!("{} copies within its exports", self.from.name),
            Direction::Push => format!("{} sends to {}", self.from.name, self.to.name),
            Direction::Pull => format!("{} fetches from {}", self.to.name, self.from.name),
        }
    }

    /// The nodes of the site that runs the job, as the site last named them.
    pub(super) const fn nodes_of_runner(&self, direction: Direction) -> &RefCell<Vec<Peer>> {
        match direction {
            Direction::Within | Direction::Push => &self.from_nodes,
            Direction::Pull => &self.to_nodes,
        }
    }

    /// The name of the site that runs the job.
    pub(super) fn site_of_runner(&self, direction: Direction) -> Option<&String> {
        match direction {
            Direction::Within | Direction::Push => self.sources.first().map(|place| &place.site),
            Direction::Pull => Some(&self.destination.site),
        }
    }
}
