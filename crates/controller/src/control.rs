//! Drives the controller of one divided job: asks the nodes of the destination, proposes to the state, follows the work to its end.
//! Decides by `claims` and `course`, and transfers nothing itself.
//!
//! Each question runs on a separate thread, so that a node that does not answer delays no other work.

mod asking;
mod bounding;
mod end;
mod picture;
mod target_answers;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{AskSites, Peer, Refusal};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::{ClaimId, Text};
use godwit_api::rest::Place;
use godwit_state::{
    Agreed, Effect, LEVEL_REST, Op, OpenWork, Reader, Reason, Work, WorkOp, WorkRoot, Works,
};

use self::asking::Asking;
pub use self::end::End;
use self::picture::{Member, Picture};
use crate::aside::Aside;
use crate::batch::Base;
use crate::bound::Bound;
use crate::claims::{Ask, Claims};
use crate::course::{LOOK_EVERY, Ring, Step, next};
use crate::place::Mapping;
use crate::questions::{Destination, LetIn, Listed, Site, failure_of};
use crate::rates::Rates;
use crate::shares::Shares;
use crate::watch::{Traffic, Watch};
use crate::{Believed, Node};

/// A job to divide.
pub struct Order<'a> {
    /// Id of the job.
    pub job: &'a str,
    /// Id by which the destination knows the access of the job. For a guest job it differs from the id here.
    pub known_as: &'a str,
    /// This node gave the access of the other nodes, and revokes it at the end.
    pub gives_access: bool,
    /// Epoch of the job that this controller claimed.
    pub epoch: u64,
    /// Properties that all transfers of the job share.
    pub base: Base,
    /// Directories of exports of this node.
    pub sources: &'a [Place],
    /// Where they go.
    pub destination: &'a Place,
    /// The node by which the site of the destination is known.
    pub peer: Peer,
    /// Nodes of that site that are believed, regardless of further answers.
    pub believed: Believed,
    /// The owner wants it divided at any cost to others.
    pub always: bool,
    /// Most nodes of each site that take part.
    pub nodes_max: usize,
    /// Id of the claim; all attempts of the job share the claim, and no other job has it.
    pub claim: ClaimId,
    /// Decision of an earlier attempt: sources go into the destination, or the only source becomes it.
    pub into: Option<bool>,
    /// The job by its earlier controllers: the access that they gave may last.
    pub earlier: Vec<godwit_api::grant::Mandate>,
    /// Takes the decision of this attempt, before it writes there.
    pub placed: &'a (dyn Fn(bool) + Sync),
    /// Length of the parts of large files, but for the last one.
    pub part_bytes: u64,
    /// The nodes that may work on the job now, this one first.
    pub crew: &'a (dyn Fn() -> Vec<Mate> + Sync),
    /// The traffic of this cluster's nodes for the job now, as far as they report it.
    pub traffic: &'a (dyn Fn() -> Vec<Traffic> + Sync),
    /// Stores the notes that workers send about nodes.
    pub note: &'a (dyn Fn(&str) + Sync),
    /// Reports the nodes without which the job continues, or that no node is missing.
    pub without: &'a (dyn Fn(Option<Reason>) + Sync),
}

/// A node that works on a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mate {
    /// Name of the node.
    pub name: String,
    /// Identity that it proves.
    pub identity: String,
}

/// Controls a job until its work is done, or `goes_on` is false.
pub fn control(
    node: &Node,
    sites: Arc<dyn AskSites>,
    order: &Order<'_>,
    limit: &dyn Fn() -> u64,
    goes_on: &(dyn Fn() -> bool + Sync),
    seen: &mut dyn FnMut(&Work),
) -> End {
    let driver = Driver {
        node,
        order,
        goes_on,
        site: Arc::new(Site {
            sites,
            is_over: AtomicBool::new(false),
            known: order.peer.clone(),
            believed: order.believed.clone(),
            below: Text(order.destination.below_exports()),
            vouched: Default::default(),
        }),
    };
    match driver.run(limit, seen) {
        Ok(end) => end,
        Err(failure) => End::Failed(failure),
    }
}

pub(crate) struct Driver<'a> {
    pub(crate) node: &'a Node,
    pub(crate) order: &'a Order<'a>,
    pub(crate) goes_on: &'a (dyn Fn() -> bool + Sync),
    pub(crate) site: Arc<Site>,
}

/// Interval between two reads of the crew.
const CREW_EVERY: Duration = Duration::from_secs(1);

/// Between two questions for the nodes of the destination.
const NODES_EVERY: Duration = Duration::from_secs(3);

/// Refusals in a row after which the attempt ends.
const REFUSED_MAX: u32 = 50;

/// Answers that wait to be heard: each node is asked one thing at a time, so there are rarely more.
const ANSWERS_MAX: usize = 64;

/// Interval until access is granted again: after a grant, and after a refusal.
const GRANT_AGAIN: Duration = Duration::from_secs(100);
const GRANT_REFUSED: Duration = Duration::from_secs(30);

/// Answers that the asking threads heard.
enum TargetAnswer {
    Claim(String, Ask, Result<(), Refusal>),
    Nodes(Result<Listed, Refusal>),
    /// The nodes that let the mate in, and those that do not.
    Access(Mate, Result<LetIn, Refusal>),
}

impl Driver<'_> {
    fn run(&self, limit: &dyn Fn() -> u64, seen: &mut dyn FnMut(&Work)) -> Result<End, Failure> {
        let reader = self.node.replica.reader();
        let work = Works(&reader).of(self.order.job).map_err(Failure::local)?;
        // The mark of an earlier controller was made before the work was open.
        let is_taken_over = work.is_some();
        let was_over = work.as_ref().is_some_and(Work::is_done);
        let earlier: Vec<Peer> = match &work {
            Some(work) => work.targets.nodes.clone(),
            None => Vec::new(),
        };
        let (claim, roots, serving, earlier) = match work {
            Some(work) => {
                let claim = work.claim.parse().map_err(Failure::local)?;
                let serving = match earlier.is_empty() {
                    true => vec![self.order.peer.clone()],
                    false => self.with_left_out(earlier.clone()),
                };
                (claim, work.roots, serving, earlier)
            }
            None => match self.begin() {
                Ok((roots, serving)) => {
                    // The members of an attempt whose work is forgotten may write until its claim ends.
                    let earlier = match self.order.epoch > 1 {
                        true => serving.clone(),
                        false => Vec::new(),
                    };
                    (self.order.claim, roots, serving, earlier)
                }
                Err(why) => return Ok(End::Undivided(why)),
            },
        };
        let now = Instant::now();
        let mut picture = Picture {
            began: now,
            here: Bound::new(self.order.nodes_max, "this site", &[]),
            there: Bound::new(self.order.nodes_max, "the destination", &earlier),
            listed: serving,
            claims: Claims::new(Duration::ZERO, earlier, is_taken_over),
            members: Vec::new(),
            taken: Vec::new(),
            declined: Vec::new(),
            gone: Vec::new(),
            shut: HashSet::new(),
            watch: Watch::new(),
            aside: Aside::default(),
            shown: None,
            rates: Rates::default(),
            shares: Shares::default(),
            crew_at: now,
            nodes_at: Some(now),
            asked: 0,
        };
        if was_over {
            picture.claims.was_released();
        }
        self.bound_targets(&mut picture, true);
        let destination = Arc::new(Destination {
            site: Arc::clone(&self.site),
            claim,
            epoch: self.order.epoch,
            known_as: self.order.known_as.to_owned(),
            gives_access: self.order.gives_access,
            earlier: self.order.earlier.clone(),
            now: Arc::clone(&self.node.now),
            path: match roots.as_slice() {
                [root] => Text::from(root.destination.as_str()),
                _ => self.site.below.clone(),
            },
        });
        let (sender, answers) = mpsc::sync_channel(ANSWERS_MAX);
        let asking = Asking {
            sender,
            destination: Arc::clone(&destination),
        };
        let end = self.follow(&asking, &answers, &mut picture, &roots, limit, seen);
        self.site.is_over.store(true, Ordering::SeqCst);
        let is_over = match &end {
            Ok(End::Done { .. } | End::Undivided(_)) => true,
            // A job that has ended no longer needs its claim; any other job resumes later.
            Ok(End::Stopped) => {
                let job = reader.job(self.order.job);
                job.is_ok_and(|job| job.is_none_or(|job| job.state.ended()))
            }
            // Nothing was moved, and nothing will be.
            Err(failure) => failure.code == FailureCode::IntoItself,
            _ => false,
        };
        if is_over {
            let nodes: Vec<Peer> = picture.claims.all().cloned().collect();
            let own = &self.node.runner.node;
            let others = picture
                .members
                .iter()
                .any(|member| member.mate.name != *own);
            // Earlier starts of this node may have let nodes in that are gone.
            let let_in = others || is_taken_over || !picture.gone.is_empty();
            destination.release(&nodes, picture.claims.ready().next(), let_in);
        }
        end
    }

    /// The roots of the sources, and the nodes that serve the destination.
    fn begin(&self) -> Result<(Vec<WorkRoot>, Vec<Peer>), String> {
        let mapping = Mapping {
            node: self.node,
            order: self.order,
            ask: &|question| self.site.ask(&self.order.peer, question),
        };
        let roots = mapping.roots()?;
        let listed = self.site.nodes_of(&self.order.peer);
        let listed = listed.map_err(|refusal| refusal.to_string())?;
        Ok((roots, listed.nodes))
    }

    fn follow(
        &self,
        asking: &Asking,
        answers: &Receiver<TargetAnswer>,
        picture: &mut Picture,
        roots: &[WorkRoot],
        limit: &dyn Fn() -> u64,
        seen: &mut dyn FnMut(&Work),
    ) -> Result<End, Failure> {
        let reader = self.node.replica.reader();
        let mut is_open = false;
        let mut refused = 0;
        loop {
            if !(self.goes_on)() {
                return Ok(End::Stopped);
            }
            let work = Works(&reader).of(self.order.job).map_err(Failure::local)?;
            if let Some(work) = &work {
                seen(work);
            }
            self.look(picture, work.as_ref());
            self.bound_targets(picture, false);
            if let Some(failure) = without_members(picture, work.as_ref()) {
                return Err(failure);
            }
            asking.ask_due(picture);
            let crew: Vec<String> = picture.crew().map(|mate| mate.name.clone()).collect();
            let ready = picture.targets(&self.site);
            let all: Vec<Peer> = picture.claims.all().cloned().collect();
            // Earlier, no node has a worker that could report anything.
            let is_watched = is_open && !ready.is_empty();
            self.watch(picture, &reader, is_watched.then_some(&*crew));
            let resting: Vec<String> = picture.watch.resting().cloned().collect();
            picture.share(limit(), work.as_ref());
            let is_fenced = picture.claims.all_know(picture.claims.order());
            let ring = Ring {
                epoch: self.order.epoch,
                crew: &crew,
                resting: &resting,
                share: &|node| picture.shares.of(node),
                ready: &ready,
                all: &all,
                waits: picture.claims.waits(picture.now()),
                fenced: match is_fenced {
                    true => picture.taken.clone(),
                    false => Vec::new(),
                },
                rates: &picture.rates,
                before: work.as_ref(),
            };
            let standing = picture.claims.standing(picture.now());
            match next(standing, is_open, work.as_ref(), ring.pairs()) {
                Step::Open => {
                    let open = WorkOp::Open(OpenWork {
                        epoch: self.order.epoch,
                        claim: asking.destination.claim.to_string(),
                        roots: roots.to_vec(),
                        part_bytes: self.order.part_bytes,
                    });
                    is_open = self.insist(open).is_some();
                }
                Step::Pair(pairs) => {
                    refused = match self.insist(WorkOp::Pairs(pairs)) {
                        Some(_) => 0,
                        None => refused + 1,
                    };
                    // A claim of the job that has ended is seen at the next look.
                    if refused > REFUSED_MAX {
                        let message = "the state refuses the nodes of the destination; check the names and addresses of these nodes";
                        return Err(Failure::new(FailureCode::LocalFailure, message));
                    }
                }
                Step::Rest => {
                    if let Ok(answer) = answers.recv_timeout(LOOK_EVERY) {
                        self.take_answer(picture, answer);
                    }
                }
                Step::Done => {
                    let unconfirmed = picture.claims.unconfirmed();
                    return Ok(work.map_or(End::Stopped, |work| End::Done {
                        work: Box::new(work),
                        unconfirmed,
                    }));
                }
                Step::Undivided(why) => return Ok(End::Undivided(why)),
                Step::Refused(refusal) => return Err(failure_of(&refusal)),
                Step::Troubled(code, text) => return Err(Failure::new(code, text)),
            }
            while let Ok(answer) = answers.try_recv() {
                self.take_answer(picture, answer);
            }
        }
    }

    /// Looks at the traffic of the crew, and decides which nodes rest.
    fn watch(&self, picture: &mut Picture, reader: &Reader, crew: Option<&[String]>) {
        let at = picture.now();
        let holds = |node: &str| Works(reader).holds(self.order.job, node).unwrap_or(true);
        if let Some(crew) = crew {
            // A worker of an older program would keep its lease while it rests.
            let level = Agreed(reader).level().unwrap_or(0);
            picture.watch.may_rest(level >= LEVEL_REST);
            let (watch, rates) = (&mut picture.watch, &mut picture.rates);
            let (mut reports, mut is_sampled) = (Vec::new(), false);
            let traffic = || {
                is_sampled = true;
                reports = rates.saw((self.order.traffic)());
                reports.clone()
            };
            watch.look(at, crew, traffic, holds);
            if is_sampled {
                picture.shares.look(at, &reports, holds);
            }
            self.take_faults(picture, &reports);
        } else {
            picture.watch.pause();
            picture.shares.pause(at);
        }
        for decided in picture.watch.decided() {
            (self.order.note)(&decided);
        }
    }

    /// Reads the crew, and the leases taken from nodes.
    fn look(&self, picture: &mut Picture, work: Option<&Work>) {
        let now = Instant::now();
        let mut is_changed = false;
        if let Some(work) = work.filter(|work| work.epoch == self.order.epoch) {
            let taken = &work.targets.taken;
            is_changed = taken.iter().any(|one| !picture.taken.contains(one));
            picture.taken.clone_from(taken);
            for (node, why) in &work.targets.declined {
                if !picture.declined.contains(node) {
                    (self.order.note)(&format!("the node {node} does not take part: {}", why.text));
                    picture.declined.push(node.clone());
                    picture.crew_at = now;
                }
            }
        }
        if picture.members.is_empty() || now >= picture.crew_at {
            picture.crew_at = now + CREW_EVERY;
            let mut crew = (self.order.crew)();
            crew.retain(|mate| !picture.declined.contains(&mate.name));
            self.bound_crew(picture, &mut crew);
            let before = picture.members.len();
            let (stay, go): (Vec<Member>, Vec<Member>) = std::mem::take(&mut picture.members)
                .into_iter()
                .partition(|member| crew.contains(&member.mate));
            picture.members = stay;
            picture.gone.retain(|mate| !crew.contains(mate));
            picture
                .gone
                .extend(go.into_iter().map(|member| member.mate));
            is_changed |= picture.members.len() != before;
            let own = &self.node.runner.node;
            for mate in crew {
                if picture.members.iter().any(|member| member.mate == mate) {
                    continue;
                }
                // This node may write there, or the job would not be its.
                let is_own = mate.name == *own;
                is_changed |= is_own;
                picture.members.push(Member {
                    mate,
                    ask_at: (!is_own).then_some(now),
                    is_let_in: is_own,
                    is_own,
                    asked: HashSet::new(),
                    at: HashSet::new(),
                    refused: HashSet::new(),
                });
            }
        }
        if is_changed {
            picture.claims.members_changed(picture.now());
        }
        for (name, why) in picture.claims.left_out() {
            (self.order.note)(&format!(
                "the node {name} of the destination is not used for now: {why}"
            ));
        }
    }

    /// None if the state refuses because the claim of the job has ended. The next call of `goes_on` then returns false.
    fn insist(&self, op: WorkOp) -> Option<Effect> {
        let op = Op::Work(self.order.job.to_owned(), op);
        let effect = self.node.insist(&op, self.goes_on);
        if effect.is_none() {
            thread::sleep(LOOK_EVERY);
        }
        effect
    }
}

/// The failure of a job that all nodes of the source have declined.
fn without_members(picture: &Picture, work: Option<&Work>) -> Option<Failure> {
    if !picture.members.is_empty() || picture.declined.is_empty() {
        return None;
    }
    let declined = work.into_iter().flat_map(|work| &work.targets.declined);
    // These failures may pass, and the next attempt asks all nodes again.
    let passing = [FailureCode::PeerBusy, FailureCode::Io];
    let mut passing = declined.filter(|(_, why)| why.code.is_one_of(&passing));
    if let Some((_, why)) = passing.next() {
        let code = why.code.known().unwrap_or(FailureCode::Io);
        return Some(Failure::new(code, why.text.clone()));
    }
    let message = "no node sees the same source as the node that began the job; the log of the job says what each node sees";
    Some(Failure::new(FailureCode::NoSource, message))
}
