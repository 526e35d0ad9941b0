//! Chooses the site that runs a job, and the end that connects, if neither end is here or the other site sends to here.
//! Starts nothing; `route` keeps the decision.

use godwit_api::ask::{Peer, Question, ReachSite, Refusal, code};
use godwit_api::event::EventSink as _;
use godwit_state::{Job, Reader, Route};

use super::{SiteAttempt, Stop, lone, route};
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
    /// Notes the route, and the node by which the site knows the job. The state takes the note only from an attempt whose claim holds.
    pub(super) fn note_route(&self, direction: Direction) -> Result<(), Stop> {
        let asker = asker(&self.context.rights.cluster, self.earlier.borrow().as_ref());
        route::note(
            &self.context.this,
            self.job,
            self.epoch,
            direction.route(),
            (
                asker,
                lone::chosen(&self.context.this.reader(), self.job, &self.ends)?,
            ),
            self.control,
        )
    }

    /// Which way the sites reach each other.
    pub(super) fn choose(&self) -> Result<Direction, Stop> {
        if self.ends.from == self.ends.to {
            return Ok(Direction::Within);
        }
        if self.ends.own.is_some() {
            return Ok(Direction::Push);
        }
        let reach = |direction: Direction, from: &Peer, to: &Peer| {
            let wish = ReachSite {
                peer: to.clone(),
                paths: self.ends.paths_at_runner(direction),
                write: direction == Direction::Pull,
            };
            self.ask(from, &Question::Reach(wish)).map(|_| ())
        };
        let forth = match reach(Direction::Push, &self.ends.from, &self.ends.to) {
            Ok(()) => return Ok(Direction::Push),
            Err(refusal) if refusal.code == code::UNREACHABLE => refusal,
            Err(refusal) => return Err(refusal.into()),
        };
        match reach(Direction::Pull, &self.ends.to, &self.ends.from) {
            Ok(()) => {
                self.events.note(&format!(
                    "{} cannot connect to {}, so {} fetches: {}",
                    self.ends.from.name, self.ends.to.name, self.ends.to.name, forth.message
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
}

/// The way that an earlier attempt decided on.
pub(super) fn noted(reader: &Reader, job: &Job) -> Result<Option<Direction>, Stop> {
    let route = route::noted(reader, job)?;
    let mut all = [Direction::Within, Direction::Push, Direction::Pull].into_iter();
    Ok(all.find(|direction| Some(direction.route()) == route))
}
