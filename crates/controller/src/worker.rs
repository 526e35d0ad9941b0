//! Does the items of one divided job at one node, on a separate thread: leases some, walks, transfers, settles, and repeats.
//! Decides nothing about the job: the state does, and the caller that stops the worker.
//!
//! The worker retries a passing failure with the same items. Any other failure goes to the state, and the controller ends the attempt.

mod close;
mod count;
mod finds;
mod first;
mod hung;
mod leased;
mod memory;
mod reads;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use godwit_api::ask::NodeFault;
use godwit_api::event::Summary;
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::ClaimId;
use godwit_api::observation::is_same_directory;
use godwit_run::NameList;
use godwit_run::walk::{Walk, WalkLimits, Walked};
use godwit_state::{
    Effect, LEVEL_CLOSES, Looked, Op, Pair, Settle, Settled, Settlement, TakeWork, Task, Work,
    WorkItem, WorkKind, WorkOp, Works,
};

use crate::batch::{Base, BatchOutcome, ItemTransfer, To, item_of, settlements};
use crate::lease_transfer::{AtFault, Flight, LeaseTransfer, Steering};
use crate::pace::{Left, Pace, Took};
use crate::{Node, measure};
pub(crate) use count::found_by;
use first::OthersFirst;
use leased::{LeaseOutcome, Leased, back, is_paced, trouble};
#[cfg(test)]
pub(crate) use reads::OTHERS_FIRST;
pub(crate) use reads::{Reads, Verdict};

/// How often an idle worker looks for items.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest wait for the nodes of the destination to end the rest of a cut transfer: those writes would end the next transfer, too.
const FENCED_WITHIN: Duration = Duration::from_secs(5);

/// A worker that runs, or has ended.
pub struct Worker {
    epoch: u64,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    steering: Steering,
    /// Transfers begun: they take the nodes of the destination in turn.
    turns: AtomicUsize,
    flight: Arc<Mutex<Flight>>,
    at_fault: AtFault,
    reads: Mutex<Reads>,
}

impl Shared {
    fn flight(&self) -> Flight {
        let flight = self.flight.lock();
        flight.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Worker {
    /// Starts a worker for a job whose work is open in this epoch.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(node: Node, job: String, epoch: u64, base: Base) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("gw-work".to_owned())
            .spawn(move || {
                let doing = JobContext {
                    node: &node,
                    job: &job,
                    epoch,
                    base: &base,
                    shared: &own,
                };
                doing.run();
            })?;
        Ok(Self {
            epoch,
            shared,
            thread,
        })
    }

    /// The transfer of this worker now.
    #[must_use]
    pub fn flight(&self) -> Flight {
        self.shared.flight()
    }

    /// The nodes of the destination that were at fault.
    #[must_use]
    pub fn faults(&self) -> Vec<NodeFault> {
        self.shared.at_fault.all()
    }

    /// Epoch of the controller that it works for.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Changes its share of the job's limit; 0 is none.
    pub fn set_limit(&self, limit: u64) {
        self.shared.steering.set_limit(limit);
    }

    /// Has it end soon.
    pub fn stop(&self) {
        self.shared.steering.stop();
    }

    /// Waits until the thread of the worker has ended.
    pub fn wait(self) {
        // A panic has been printed already. The node returns the items when it checks its leases.
        let _ = self.thread.join();
    }
}

struct JobContext<'a> {
    node: &'a Node,
    job: &'a str,
    epoch: u64,
    base: &'a Base,
    shared: &'a Shared,
}

impl JobContext<'_> {
    fn goes_on(&self) -> bool {
        self.shared.steering.goes_on()
    }

    fn run(&self) {
        let reader = self.node.replica.reader();
        let works = Works(&reader);
        let (job, name) = (self.job, &self.node.runner.node);
        let mut has_looked = false;
        let (began, mut pace) = (Instant::now(), Pace::new());
        let mut others_first = OthersFirst::default();
        let mut fenced_since = None;
        while self.goes_on() {
            let work = match works.of(job) {
                Ok(Some(work)) if work.epoch == self.epoch => work,
                Ok(_) => return,
                Err(_) => {
                    thread::sleep(LOOK_EVERY);
                    continue;
                }
            };
            if works.holds(job, name).unwrap_or(false) {
                // A lease whose answer was lost.
                let node = name.clone();
                self.report(WorkOp::Return { node });
            }
            let pair = work.pairs.iter().find(|pair| pair.node == *name);
            let is_ready = works.has_ready(&work).unwrap_or(false);
            let is_paired = pair.is_some_and(|pair| !pair.to.is_empty());
            let may_lease = is_paired && is_ready && work.trouble.is_none();
            if !may_lease || (self.node.hangs)() {
                others_first.nothing();
                thread::sleep(LOOK_EVERY);
                continue;
            };
            if work.targets.taken.iter().any(|taken| taken.node == *name) {
                let since: Instant = *fenced_since.get_or_insert_with(Instant::now);
                if since.elapsed() < FENCED_WITHIN {
                    thread::sleep(LOOK_EVERY);
                    continue;
                }
            } else {
                fenced_since = None;
            }
            if !has_looked {
                if let Err(failure) = self.look(&work) {
                    let why = trouble(&failure);
                    let (epoch, node) = (self.epoch, name.clone());
                    self.report(WorkOp::Decline { epoch, node, why });
                    continue;
                }
                has_looked = true;
            }
            let has_own = works.has_own_ready(&work, name).unwrap_or(true);
            if others_first.waits(began.elapsed(), has_own) {
                thread::sleep(LOOK_EVERY);
                continue;
            }
            pace.saw(began.elapsed(), work.counts.scans + work.counts.parts);
            let Some(wanted) = pace.next(began.elapsed(), self.left(&work)) else {
                thread::sleep(LOOK_EVERY);
                continue;
            };
            let take = WorkOp::Lease(TakeWork {
                epoch: self.epoch,
                runner: self.node.runner.clone(),
                scans_max: wanted.scans,
                bytes_max: wanted.part_bytes,
            });
            match self.node.propose(Op::Work(job.to_owned(), take)) {
                Ok(Effect::Leased { lease, items }) if !items.is_empty() => {
                    // Without this report the items return to the state at the next check.
                    let Some(work) = self.as_leased(lease) else {
                        continue;
                    };
                    let leased = Instant::now();
                    let count = items.iter().filter(|item| is_paced(&item.task)).count() as u64;
                    let all = items.clone();
                    let (took, unread) =
                        self.unless_hung(lease, &all, || self.carry_out(&work, lease, items));
                    if count > 0 {
                        pace.took(
                            Took {
                                items: count,
                                ..took
                            },
                            leased.elapsed(),
                        );
                    }
                    self.leave_to_others(unread);
                }
                _ => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Makes sure that this node sees the sources that the controller's node sees.
    fn look(&self, work: &Work) -> Result<(), Failure> {
        let items: &[WorkItem] = &[];
        for (root, one) in (0..).zip(&work.roots) {
            // Each node has memory.
            if measure::measures(one) {
                continue;
            }
            let leased = Leased {
                work,
                lease: 0,
                root,
                items,
            };
            let bare = self.transfer_of(&leased, To::nowhere())?;
            let bare = bare.members(Vec::new(), false)?;
            let env = (self.node.make_env)(&[]);
            let walk = Walk::open(&bare, &env, WalkLimits::default())?;
            let observation = walk.observe(Some(&one.observation))?;
            if !is_same_directory(&one.observation, &observation) {
                let message = format!(
                    "/{} is a different directory here than at the node that began the job: the export is a different file system, or is not mounted; mount it as at the other nodes",
                    one.source
                );
                return Err(Failure::new(FailureCode::NoSource, message));
            }
        }
        Ok(())
    }

    fn report(&self, op: WorkOp) -> bool {
        let op = Op::Work(self.job.to_owned(), op);
        self.node.insist(&op, &|| self.goes_on()).is_some()
    }

    /// The open items of the job for this node and the others.
    fn left(&self, work: &Work) -> Left {
        let reader = self.node.replica.reader();
        let own = &self.node.runner.node;
        let sends = |pair: &&Pair| pair.node != *own && !pair.to.is_empty();
        let mut left = Left {
            others: work.pairs.iter().filter(sends).count() as u64,
            ..Left::default()
        };
        for open in Works(&reader).open_items(self.job).unwrap_or_default() {
            match (open.kind, &open.node, open.waits) {
                (WorkKind::Assemble | WorkKind::Close, ..) | (_, None, true) => {}
                (_, None, false) => {
                    left.ready += open.items;
                    if open.kind == WorkKind::Part {
                        (left.parts, left.part_bytes) = (open.items, open.part_bytes);
                    }
                }
                (_, Some(node), _) if node != own => left.held += open.items,
                (_, Some(_), _) => {}
            }
        }
        left
    }

    /// Does the items of one lease, root by root; returns how many scans and parts are settled, and how much was moved. And what follows
    /// from entries that could not be read.
    fn carry_out(&self, work: &Work, lease: u64, items: Vec<WorkItem>) -> (Took, Verdict) {
        let (mut took, mut unread) = (Took::default(), Verdict::Keep);
        let is_done = |settled: &&Settled| !matches!(settled.outcome, Settlement::Back {});
        let mut roots: BTreeMap<u32, Vec<WorkItem>> = BTreeMap::new();
        for item in items {
            roots.entry(item.root).or_default().push(item);
        }
        for (root, items) in roots {
            let leased = Leased {
                work,
                lease,
                root,
                items: &items,
            };
            let done = match items.as_slice() {
                _ if leased.root_of().is_some_and(measure::measures) => self.measure(&leased),
                [item] if matches!(item.task, Task::Close {} | Task::Region { .. }) => {
                    self.close(&leased, item)
                }
                _ => self.members(&leased),
            };
            let lease_outcome = match done {
                Ok(lease_outcome) => lease_outcome,
                // The worker was stopped.
                Err(_) if !self.goes_on() => back(&items, None),
                Err(failure) => self
                    .unopened(&leased, &failure)
                    .unwrap_or_else(|| back(&items, Some(&failure))),
            };
            let paced = items.iter().filter(|item| is_paced(&item.task));
            let paced: Vec<u64> = paced.map(|item| item.number).collect();
            let settled = lease_outcome.settled.iter().filter(is_done);
            let settled = settled.filter(|settled| paced.contains(&settled.number));
            took.settled += settled.count() as u64;
            took.files += lease_outcome.files;
            took.bytes += lease_outcome.bytes;
            unread = unread.max(lease_outcome.unread);
            let settle = WorkOp::Settle(Box::new(Settle {
                runner: self.node.runner.clone(),
                lease,
                items: lease_outcome.settled,
                files: lease_outcome.files,
                bytes: lease_outcome.bytes,
                trouble: lease_outcome.trouble,
                cut: lease_outcome.cut,
                looked: self.reported(lease_outcome.looked),
            }));
            // From now on the state counts it.
            let flight = self.shared.flight.lock();
            let mut flight = flight.unwrap_or_else(PoisonError::into_inner);
            *flight = Flight {
                written_before: flight.written(),
                ..Flight::default()
            };
            drop(flight);
            // The settlement is proposed once even if the state stops the job; otherwise the lease returns.
            let op = Op::Work(self.job.to_owned(), settle);
            self.node.insist(&op, &|| self.goes_on());
        }
        (took, unread)
    }

    fn transfer_of<'a>(&'a self, leased: &Leased<'a>, to: To) -> Result<ItemTransfer<'a>, Failure> {
        let claim: ClaimId = leased.work.claim.parse().map_err(Failure::local)?;
        Ok(ItemTransfer {
            base: self.base,
            root: leased
                .root_of()
                .ok_or_else(|| Failure::usage("the job has no such root"))?,
            to,
            claim,
            epoch: self.epoch,
        })
    }

    fn sending(&self, root: u32) -> LeaseTransfer<'_> {
        LeaseTransfer {
            node: self.node,
            job: self.job,
            epoch: self.epoch,
            root,
            turn: self.shared.turns.fetch_add(1, Ordering::Relaxed),
            retry_for: self.base.retry_for,
            steering: &self.shared.steering,
            flight: &self.shared.flight,
            at_fault: &self.shared.at_fault,
        }
    }

    /// Carries out leased items: walks those that are scans, and reports the found entries as new items. One transfer moves all
    /// other items.
    fn members(&self, leased: &Leased<'_>) -> Result<LeaseOutcome, Failure> {
        let items = leased.items;
        let bare = self
            .transfer_of(leased, To::nowhere())?
            .members(Vec::new(), false)?;
        let mut names = Vec::new();
        let mut failed = Vec::new();
        let mut found = Looked::default();
        let mut walk = None;
        for item in items {
            let Task::Scan {
                path,
                share,
                shares,
            } = &item.task
            else {
                continue;
            };
            if walk.is_none() {
                let env = (self.node.make_env)(&[]);
                let opened = Walk::open(&bare, &env, WalkLimits::default())?;
                walk = Some(match self.knows(LEVEL_CLOSES) {
                    true => opened,
                    false => opened.without_files(),
                });
            }
            let one = leased.root_of().and_then(|root| root.file.as_deref());
            let walked = walk.as_ref().map(|walk| match one {
                // A file that is no longer moved in parts is left to the close.
                Some(name) => Ok(Walked {
                    large: walk.large_file(name.as_bytes()).into_iter().collect(),
                    ..Walked::default()
                }),
                None => walk.walk(&path.0, *share, *shares),
            });
            match walked {
                Some(Ok(mut walked)) => {
                    names.append(&mut walked.names);
                    found = found.plus(found_by(&walked));
                    if !self.report_finds(item.number, leased.lease, &walked) {
                        thread::sleep(LOOK_EVERY);
                        return Ok(back(items, None));
                    }
                }
                _ => failed.push(item.number),
            }
        }
        let work: Vec<_> = items.iter().filter_map(item_of).collect();
        let mut lease_outcome = LeaseOutcome::default();
        let (mut batch, mut is_over) = (BatchOutcome::default(), true);
        let mut ended = None;
        if !work.is_empty() || !names.is_empty() {
            let is_listed = !names.is_empty();
            let make = |to: To| {
                self.transfer_of(leased, to)?
                    .members(work.clone(), is_listed)
            };
            let list = is_listed.then(|| NameList::in_memory(names));
            let sent = self.sending(leased.root).transfer(&make, list, true);
            (batch, lease_outcome.cut) = (sent.batch, sent.cut);
            match sent.ended {
                Ok(summary) => ended = Some(summary),
                Err(failure) => {
                    is_over = false;
                    let is_trouble = self.goes_on() && !sent.gives_back;
                    lease_outcome.trouble = is_trouble.then(|| trouble(&failure));
                }
            }
        }
        let is_faulty = batch.is_unread || !failed.is_empty();
        if is_over {
            let moved = self.shared.flight().moved();
            lease_outcome.unread =
                self.judge(leased, is_faulty, moved.files > 0 || moved.bytes > 0);
            is_over = lease_outcome.unread == Verdict::Keep;
        }
        match ended {
            Some(Summary::Transfer(summary)) if is_over => {
                self.count(&mut lease_outcome, Some(&summary))
            }
            _ => self.count(&mut lease_outcome, None),
        }
        if is_over {
            lease_outcome.looked = lease_outcome.looked.plus(found);
        }
        if !leased.work.counts.reports_names {
            lease_outcome.looked.names = 0;
        }
        lease_outcome.settled = settlements(items, &batch, is_over);
        for settled in lease_outcome.settled.iter_mut().filter(|_| is_over) {
            if failed.contains(&settled.number) {
                settled.outcome = Settlement::Failed {};
            }
        }
        Ok(lease_outcome)
    }
}
