//! Chooses the site that runs a job, and the end that connects, if neither end is here or the other site sends to here.
//! Starts nothing; `route` keeps the decision.

use std::cell::RefCell;

use godwit_api::ask::{Peer, Question, ReachSite, Refusal, code};
use godwit_api::event::EventSink as _;
use godwit_api::job::Text;
use godwit_state::Route;

use super::{SiteAttempt, Stop, below_exports, lone, route};
use crate::attempt::askers::asker;

/// The site that runs the job, and how it reaches the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Both ends are at one site, which runs it.
    Within,
    /// The site of the sources sends.
    Push,
    /// The site of the destination fetches.
    Pull,
}

impl Direction {
    pub(super) const fn route(self) -> Route {
        match self {
            Self::Within => Route::Within,
            Self::Push => Route::Push,
            Self::Pull => Route::Pull,
        }
    }
}

impl SiteAttempt<'_> {
    /// The way that an earlier attempt decided on.
    pub(super) fn noted(&self) -> Result<Option<Direction>, Stop> {
        let route = route::noted(&self.context.this.reader(), self.job)?;
        let mut all = [Direction::Within, Direction::Push, Direction::Pull].into_iter();
        Ok(all.find(|way| Some(way.route()) == route))
    }

    /// Notes the route, and the node by which the site knows the job. The state takes the note only from an attempt whose claim holds.
    pub(super) fn note_route(&self, way: Direction) -> Result<(), Stop> {
        let asker = asker(&self.context.rights.cluster, self.earlier.borrow().as_ref());
        route::note(
            &self.context.this,
            self.job,
            self.epoch,
            way.route(),
            (asker, lone::of_attempt(self)?),
            self.control,
        )
    }

    /// Which way the sites reach each other.
    pub(super) fn choose(&self) -> Result<Direction, Stop> {
        if self.from == self.to {
            return Ok(Direction::Within);
        }
        if self.own.is_some() {
            return Ok(Direction::Push);
        }
        let reach = |way: Direction, from: &Peer, to: &Peer| {
            let wish = ReachSite {
                peer: to.clone(),
                paths: self.paths_at_runner(way),
                write: way == Direction::Pull,
            };
            self.ask(from, &Question::Reach(wish)).map(|_| ())
        };
        let forth = match reach(Direction::Push, &self.from, &self.to) {
            Ok(()) => return Ok(Direction::Push),
            Err(refusal) if refusal.code == code::UNREACHABLE => refusal,
            Err(refusal) => return Err(refusal.into()),
        };
        match reach(Direction::Pull, &self.to, &self.from) {
            Ok(()) => {
                self.told.note(&format!(
                    "{} cannot connect to {}, so {} fetches: {}",
                    self.from.name, self.to.name, self.to.name, forth.message
                ));
                Ok(Direction::Pull)
            }
            Err(back) if back.code == code::UNREACHABLE => Err(Refusal::later(
                code::UNREACHABLE,
                format!(
                    "the two sites cannot connect to each other; open the data port of one site for the other. {}; {}",
                    forth.message, back.message
                ),
            )
            .into()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// The site that runs the job.
    pub(super) fn runner(&self, way: Direction) -> &Peer {
        match way {
            Direction::Within | Direction::Push => &self.from,
            Direction::Pull => &self.to,
        }
    }

    /// The paths that the job uses at the site that runs it.
    pub(super) fn paths_at_runner(&self, way: Direction) -> Vec<Text> {
        match way {
            Direction::Within | Direction::Push => below_exports(&self.sources),
            Direction::Pull => below_exports(std::slice::from_ref(&self.destination)),
        }
    }

    /// The site that is connected to.
    pub(super) fn granter(&self, way: Direction) -> Option<&Peer> {
        match way {
            Direction::Within => None,
            Direction::Push => Some(&self.to),
            Direction::Pull => Some(&self.from),
        }
    }

    /// The identities of all nodes that may come to run the job.
    pub(super) fn runners(&self, way: Direction) -> Vec<String> {
        let runner = &self.runner(way).identity;
        let nodes = nodes_of_runner(self, way).borrow();
        let others = nodes.iter().map(|node| &node.identity);
        let others = others.filter(|identity| *identity != runner);
        std::iter::once(runner).chain(others).cloned().collect()
    }

    /// The sending and the receiving site, for people.
    pub(super) fn way_text(&self, way: Direction) -> String {
        match way {
            Direction::Within => format!("{} copies within its exports", self.from.name),
            Direction::Push => format!("{} sends to {}", self.from.name, self.to.name),
            Direction::Pull => format!("{} fetches from {}", self.to.name, self.from.name),
        }
    }

    pub(super) fn tell_way(&self, way: Direction) {
        self.told.note(&self.way_text(way));
    }
}

/// The nodes of the site that runs the job, as it named them last.
pub(super) const fn nodes_of_runner<'a>(
    third: &'a SiteAttempt<'_>,
    way: Direction,
) -> &'a RefCell<Vec<Peer>> {
    match way {
        Direction::Within | Direction::Push => &third.from_nodes,
        Direction::Pull => &third.to_nodes,
    }
}
