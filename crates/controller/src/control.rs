//! Drives the controller of one divided job: asks the destination, proposes to the state, follows the work to its end.
//! Decides by `course`, and brings nothing itself.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Answer, AskSites, ClaimPlace, EntryKind, GrantJob, MakeDirectory, Peer, Question, Refusal,
    ReleaseClaim, RenewClaim, code,
};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::{ClaimId, JobKind, Text};
use godwit_api::rest::{Place, Timestamp};
use godwit_run::walk::{Walk, WalkLimits};
use godwit_state::{Effect, Op, OpenWork, Pair, Work, WorkOp, WorkRoot, Works};

use crate::Node;
use crate::batch::{Base, Way};
use crate::course::{Course, LEASE, LOOK_EVERY, Step};

/// A job to divide.
pub struct Order<'a> {
    /// Id of the job.
    pub job: &'a str,
    /// Epoch of the job that this controller claimed.
    pub epoch: u64,
    /// What all transfers of the job have in common.
    pub base: Base,
    /// Directories of exports of this node.
    pub sources: &'a [Place],
    /// Where they go.
    pub destination: &'a Place,
    /// The node of the destination.
    pub peer: Peer,
    /// Names a claim that nobody has made yet.
    pub claim: ClaimId,
    /// Files with more bytes are cut.
    pub part_bytes: u64,
    /// The nodes that may work on the job now, this one first.
    pub crew: &'a dyn Fn() -> Vec<Mate>,
}

/// A node that works on a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mate {
    /// Name of the node.
    pub name: String,
    /// Identity that it proves.
    pub identity: String,
}

/// How the control of a job ended.
pub enum End {
    /// The job cannot be divided; nothing was done.
    Undivided(String),
    /// Nobody wants any more of it.
    Stopped,
    /// All items are settled, and the claim is released.
    Done(Box<Work>),
    /// The attempt failed.
    Failed(Failure),
}

/// Controls a job until its work is done, or `goes_on` says no.
pub fn control(
    node: &Node,
    sites: &dyn AskSites,
    order: &Order<'_>,
    limit: &dyn Fn() -> u64,
    goes_on: &dyn Fn() -> bool,
    seen: &mut dyn FnMut(&Work),
) -> End {
    let driver = Driver {
        node,
        sites,
        order,
        goes_on,
        let_in: Cell::new(None),
    };
    match driver.run(limit, seen) {
        Ok(end) => end,
        Err(failure) => End::Failed(failure),
    }
}

struct Driver<'a> {
    node: &'a Node,
    sites: &'a dyn AskSites,
    order: &'a Order<'a>,
    goes_on: &'a dyn Fn() -> bool,
    /// When the other nodes were let in at the destination last.
    let_in: Cell<Option<Instant>>,
}

/// Between two looks at who may work.
const CREW_EVERY: Duration = Duration::from_secs(1);

/// How long the access of another node of this cluster lasts at the destination unless it is given again.
const GRANT_MS: u64 = 24 * 3_600_000;

/// When it is given again.
const GRANT_AGAIN: Duration = Duration::from_hours(12);

impl Driver<'_> {
    fn run(&self, limit: &dyn Fn() -> u64, seen: &mut dyn FnMut(&Work)) -> Result<End, Failure> {
        let reader = self.node.replica.reader();
        let read = || Works(&reader).of(self.order.job).map_err(Failure::local);
        let (roots, claim) = match read()? {
            Some(work) => {
                let claim = work.claim.parse().map_err(Failure::local)?;
                (work.roots, claim)
            }
            None => match self.roots() {
                Ok(roots) => (roots, self.order.claim),
                Err(why) => return Ok(End::Undivided(why)),
            },
        };
        let began = Instant::now();
        let mut course = Course::default();
        let mut crew = (self.order.crew)();
        let mut looked = Instant::now();
        loop {
            if looked.elapsed() >= CREW_EVERY {
                let now = (self.order.crew)();
                looked = Instant::now();
                if now != crew {
                    crew = now;
                    course.crew_changed(began.elapsed());
                }
            }
            if !(self.goes_on)() {
                self.leave(claim, &crew);
                return Ok(End::Stopped);
            }
            let work = read()?;
            if let Some(work) = &work {
                seen(work);
            }
            match course.next(began.elapsed(), work.as_ref(), limit()) {
                Step::Claim => {
                    let claimed = self
                        .let_in(&roots, &crew)
                        .and_then(|()| self.claim(claim, &roots, &crew));
                    course.claimed(began.elapsed(), claimed);
                }
                Step::Renew => {
                    let renewed = self.renew(claim, &roots, &crew);
                    course.claimed(began.elapsed(), renewed);
                }
                Step::Open => {
                    let open = WorkOp::Open(OpenWork {
                        epoch: self.order.epoch,
                        claim: claim.to_string(),
                        roots: roots.clone(),
                        part_bytes: self.order.part_bytes,
                    });
                    if self.insist(open).is_some() {
                        course.opened();
                    }
                }
                Step::Pair(limit) => {
                    let pairs = WorkOp::Pairs {
                        epoch: self.order.epoch,
                        pairs: pairs(&crew, &self.order.peer.addresses, limit),
                    };
                    if self.insist(pairs).is_some() {
                        course.paired(limit);
                    }
                }
                Step::Rest => thread::sleep(LOOK_EVERY),
                Step::Done => {
                    self.release(claim, &crew);
                    return Ok(work.map_or(End::Stopped, |work| End::Done(Box::new(work))));
                }
                Step::Undivided(why) => return Ok(End::Undivided(why)),
                Step::Refused(refusal) => return Err(failure_of(&refusal)),
                Step::Troubled(word, text) => {
                    let known = FailureCode::parse(&word).unwrap_or(FailureCode::LocalFailure);
                    return Err(Failure::new(known, text));
                }
            }
        }
    }

    /// None where the state refuses, because the claim of the job has ended: the next look at `goes_on` says so.
    fn insist(&self, op: WorkOp) -> Option<Effect> {
        let op = Op::Work(self.order.job.to_owned(), op);
        let effect = self.node.insist(&op, self.goes_on);
        if effect.is_none() {
            thread::sleep(LOOK_EVERY);
        }
        effect
    }

    fn ask(&self, question: &Question) -> Result<Answer, Refusal> {
        let peer = Some(&self.order.peer);
        self.sites.ask(peer, question, &mut |_| (self.goes_on)())
    }

    fn claim(&self, claim: ClaimId, roots: &[WorkRoot], crew: &[Mate]) -> Result<(), Refusal> {
        let question = Question::Claim(ClaimPlace {
            claim,
            epoch: self.order.epoch,
            path: self.path(roots),
            members: crew.iter().map(|mate| mate.identity.clone()).collect(),
            lease_ms: lease_ms(),
        });
        self.ask(&question).map(drop)
    }

    fn renew(&self, claim: ClaimId, roots: &[WorkRoot], crew: &[Mate]) -> Result<(), Refusal> {
        let let_in = self.let_in.get();
        if let_in.is_none_or(|at| at.elapsed() >= GRANT_AGAIN) {
            self.let_in(roots, crew)?;
        }
        let question = Question::Renew(RenewClaim {
            claim,
            epoch: self.order.epoch,
            lease_ms: lease_ms(),
        });
        self.ask(&question).map(drop)
    }

    /// Has the destination let the other nodes in for this job: they may do there what this node may.
    fn let_in(&self, roots: &[WorkRoot], crew: &[Mate]) -> Result<(), Refusal> {
        let until = (self.node.now)().after(GRANT_MS);
        for mate in crew.iter().skip(1) {
            let question = Question::Grant(GrantJob {
                job: self.access_of(mate),
                identity: mate.identity.clone(),
                paths: vec![self.path(roots)],
                write: true,
                until: Timestamp(until.0),
            });
            self.ask(&question)?;
        }
        self.let_in.set(Some(Instant::now()));
        Ok(())
    }

    /// The place at the destination below which the job writes.
    fn path(&self, roots: &[WorkRoot]) -> Text {
        match roots {
            [root] => Text::from(root.destination.as_str()),
            _ => Text(self.order.destination.below_exports()),
        }
    }

    /// By which name the destination knows the access of a mate for this job.
    fn access_of(&self, mate: &Mate) -> String {
        let sign: String = mate.identity.chars().skip(4).take(12).collect();
        format!("{}-{sign}", self.order.job)
    }

    /// Lets others write to the destination. If that fails, the claim ends by itself.
    fn release(&self, claim: ClaimId, crew: &[Mate]) {
        for mate in crew.iter().skip(1) {
            let job = self.access_of(mate);
            let question = Question::Revoke { job };
            drop(
                self.sites
                    .ask(Some(&self.order.peer), &question, &mut |_| true),
            );
        }
        let question = Question::Release(ReleaseClaim {
            claim,
            epoch: self.order.epoch,
        });
        let asked = self
            .sites
            .ask(Some(&self.order.peer), &question, &mut |_| true);
        drop(asked);
    }

    /// A job that has ended needs its claim no more; any other goes on later.
    fn leave(&self, claim: ClaimId, crew: &[Mate]) {
        let job = self.node.replica.reader().job(self.order.job);
        if job.is_ok_and(|job| job.is_none_or(|job| job.state.ended())) {
            self.release(claim, crew);
        }
    }

    /// What becomes of each source, or why the job is not divided. Nothing is written before the state has it.
    fn roots(&self) -> Result<Vec<WorkRoot>, String> {
        let destination = self.order.destination;
        let text = |place: &Place| {
            String::from_utf8(place.below_exports())
                .map_err(|_error| "the name of a place is not UTF-8".to_owned())
        };
        let several = self.order.sources.len() > 1;
        let counterpart = self.order.base.kind == JobKind::Sync;
        let slashed = destination.directory || destination.contents;
        let below = text(destination)?;
        let is_there = self.is_directory(&below)?;
        let into = !counterpart && (several || slashed || is_there);
        if into && !is_there {
            let question = Question::MakeDirectory(MakeDirectory {
                path: Text::from(below.as_str()),
                parents: false,
            });
            let made = self.ask(&question);
            made.map_err(|refusal| refusal.message)?;
        }
        let mut roots: Vec<WorkRoot> = Vec::new();
        for source in self.order.sources {
            let name = match source.path.rsplit(|byte| *byte == b'/').next() {
                Some(name) if !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
                _ => source.export.clone(),
            };
            let destination = match into && !source.contents {
                true => format!("{below}/{name}"),
                false => below.clone(),
            };
            if roots.iter().any(|root| root.destination == destination) {
                return Err("two sources would become the same directory".to_owned());
            }
            let root = WorkRoot {
                source: text(source)?,
                destination,
            };
            self.check_source(&root)?;
            roots.push(root);
        }
        Ok(roots)
    }

    /// Whether the destination is a directory that is there.
    fn is_directory(&self, below: &str) -> Result<bool, String> {
        // The root of an export is there.
        if !below.contains('/') {
            return Ok(true);
        }
        let question = Question::Stat {
            path: Text::from(below),
        };
        match self.ask(&question) {
            Ok(Answer::Entry(entry)) if entry.kind == EntryKind::Directory => Ok(true),
            Ok(_) => Err("the destination is no directory".to_owned()),
            Err(refusal) if refusal.code == code::NOT_FOUND => Ok(false),
            Err(refusal) => Err(refusal.message),
        }
    }

    /// A source that is no directory is brought by one transfer.
    fn check_source(&self, root: &WorkRoot) -> Result<(), String> {
        let pair = Pair {
            node: String::new(),
            to: self
                .order
                .peer
                .addresses
                .first()
                .cloned()
                .unwrap_or_default(),
            limit: 0,
        };
        let way = Way {
            base: &self.order.base,
            root,
            pair: &pair,
            claim: self.order.claim,
            epoch: self.order.epoch,
        };
        let spec = way.members(Vec::new(), false);
        let walk = spec.and_then(|spec| {
            Walk::open(&spec, &(self.node.make_env)(), WalkLimits::default()).map(drop)
        });
        walk.map_err(|failure| failure.message)
    }
}

/// Which node sends where: the addresses of the destination in turn, and the limit in equal shares.
fn pairs(crew: &[Mate], addresses: &[String], limit: u64) -> Vec<Pair> {
    let share = match limit {
        0 => 0,
        limit => (limit / (crew.len() as u64).max(1)).max(1),
    };
    crew.iter()
        .enumerate()
        .map(|(at, mate)| Pair {
            node: mate.name.clone(),
            to: addresses
                .get(at % addresses.len().max(1))
                .cloned()
                .unwrap_or_default(),
            limit: share,
        })
        .collect()
}

fn lease_ms() -> u64 {
    u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX)
}

/// What the destination refuses, as a failure of the job.
fn failure_of(refusal: &Refusal) -> Failure {
    let word = match refusal.code.as_str() {
        code::NOT_GRANTED | code::PERMISSION => FailureCode::AccessDenied,
        code::UNKNOWN_IDENTITY => FailureCode::Unauthorized,
        code::NO_SUCH_EXPORT => FailureCode::NoSuchExport,
        code::OUTSIDE => FailureCode::PathOutsideExport,
        code::UNSUPPORTED => FailureCode::NotSupported,
        code::BUSY | code::NO_SUCH_CLAIM => FailureCode::BusyDestination,
        _ => FailureCode::Unreachable,
    };
    Failure::new(word, refusal.message.clone())
}
