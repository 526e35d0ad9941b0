//! Runs the transfer of one lease: again, and to other nodes of the destination, while a retry may help.
//! Knows no items: the description of the transfer comes from the caller that leased them.

mod faults;
mod patience;
mod progress;
mod steering;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use godwit_api::event::{EventSink, Limited, Summary};
use godwit_api::failure::{Culprit, Failure, FailureCode, Retry};
use godwit_api::job::JobSpec;
use godwit_api::rest::{ChannelView, Moved};
use godwit_run::{Control, Env, NameList, Runner};
use godwit_state::{Peer, Usage, Work, Works};

use crate::Node;
use crate::batch::{BatchOutcome, To};
pub(crate) use faults::{AtFault, Faults, severity};
pub(crate) use patience::Patience;
use progress::ProgressSink;
pub(crate) use steering::Steering;

/// Between two looks for a node of the destination.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// First and longest wait between tries of the same items.
const TRY_AGAIN: Duration = Duration::from_millis(250);
const TRY_AGAIN_MAX: Duration = Duration::from_secs(2);
/// How long a refusal may be temporary: the nodes of the destination learn of access one after the other.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// A younger try is stopped when the controller pairs its node with another destination, because the change gains more than it
/// costs.
const MOVES_WITHIN: Duration = Duration::from_secs(5);
/// Number of slow tries, each to another node of the destination, after which this node returns the items for faster nodes.
pub(crate) const SLOW_TRIES_MAX: u32 = 2;
/// Between two looks whether a try is to be left.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// The transfer of one lease.
pub(crate) struct LeaseTransfer<'a> {
    pub(crate) node: &'a Node,
    pub(crate) job: &'a str,
    pub(crate) epoch: u64,
    /// Number of its only root among the roots of the job.
    pub(crate) root: u32,
    /// Number of the transfer among those of its worker.
    pub(crate) turn: usize,
    /// How long tries continue while none of them works.
    pub(crate) retry_for: Duration,
    pub(crate) steering: &'a Steering,
    /// The transfer under way.
    pub(crate) flight: &'a Arc<Mutex<Flight>>,
    /// The nodes of the destination that were at fault.
    pub(crate) at_fault: &'a AtFault,
}

impl LeaseTransfer<'_> {
    fn goes_on(&self) -> bool {
        self.steering.goes_on()
    }

    /// The surroundings of a try.
    fn env(&self, targets: &[Peer], list: Option<NameList>) -> Env {
        let mut env = (self.node.make_env)(targets);
        env.list = list;
        if let Some(seat) = &mut env.seat {
            // A job has few roots.
            seat.at_root(u16::try_from(self.root).unwrap_or(u16::MAX));
        }
        env
    }

    /// Runs one transfer, and retries it where its failure may pass. Each try goes to the node of
    /// the destination that the controller names at that time. A try ends at once if the controller
    /// no longer names its node, or if its node cannot write and a better one is there. A try that moves contents (`brings`)
    /// ends after a while if its node accepts almost no data.
    pub(crate) fn transfer(
        &self,
        make: &dyn Fn(To) -> Result<JobSpec, Failure>,
        list: Option<NameList>,
        brings: bool,
    ) -> Sent {
        let sink = Arc::new(ProgressSink::new(self.flight));
        let events = Arc::clone(&sink) as Arc<dyn EventSink>;
        let began = Instant::now();
        let mut wait = TRY_AGAIN;
        let mut last = None;
        // How often each node of the destination was tried, and how many tries were stopped early.
        let mut tried: BTreeMap<String, u32> = BTreeMap::new();
        let (mut left, mut slow) = (0, 0);
        let settled = self.settled();
        let mut may_move = brings;
        let mut faults = Faults::default();
        loop {
            let (to, target, targets) = match self.choose(&tried, &faults) {
                Chosen::To(to, target, targets) => (to, target, targets),
                Chosen::Later if began.elapsed() < self.retry_for && self.goes_on() => {
                    thread::sleep(LOOK_EVERY);
                    continue;
                }
                Chosen::Later | Chosen::Never => break,
            };
            let env = self.env(&targets, list.clone());
            let control = self.steering.begin(to.limit);
            let patience = brings.then(|| Patience::new(left, to.limit));
            self.begin_flight(&target, !brings);
            let (is_left, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
            // The node cannot write, and a better one was there.
            let (is_slow, is_cut) = (AtomicBool::new(false), AtomicBool::new(false));
            let ended = thread::scope(|scope| {
                let watch = scope.spawn({
                    let (control, is_over) = (&control, &is_over);
                    let left = (&is_left, &is_slow, &is_cut);
                    let (target, sink, faults) = (&target, &sink, &faults);
                    let patience = (patience, may_move);
                    move || self.watch(target, control, patience, (is_over, sink, faults), left)
                });
                let _ends = Ends(&is_over, watch.thread().clone());
                make(to).and_then(|spec| Runner::run(&spec, &env, &events, &control))
            });
            let is_left = is_left.load(Ordering::SeqCst);
            let is_slow = is_slow.load(Ordering::SeqCst);
            let is_cut = is_cut.load(Ordering::SeqCst);
            // If the controller names the node again, the failed try does not count against it. Otherwise all would meet at the same other
            // node.
            if !is_left || is_slow {
                *tried.entry(target.identity.clone()).or_default() += 1;
            }
            left += u32::from(is_left);
            slow += u32::from(is_slow);
            // The other nodes make progress, so this node is the slow one.
            let gives_back = slow >= SLOW_TRIES_MAX && self.settled() > settled;
            let of_end = || ended.as_ref().err().and_then(faults::of_end);
            let fault = sink.take_fault().or_else(of_end);
            if let Some(code) = fault {
                faults.add(&target.identity, code);
                self.at_fault.extend(faults.found(None));
            }
            let fault = fault.map_or(0, severity);
            may_move &= !is_left;
            if self.goes_on() && !gives_back && self.is_better(&faults, fault) {
                sink.lock().forget_failures();
                last = Some(ended);
                continue;
            }
            if ended.is_ok() {
                self.at_fault.extend(faults.found(Some(fault)));
            }
            let is_untried = |one: &Peer| !tried.contains_key(&one.identity);
            let is_early = |most: Duration| began.elapsed() < most;
            let passes = |failure: &Failure| match failure.code {
                FailureCode::AccessDenied | FailureCode::BusyDestination => {
                    is_early(REFUSED_FOR.min(self.retry_for))
                }
                _ if is_left || is_cut => is_early(self.retry_for),
                // Perhaps only this node of the destination is at fault.
                code if code.culprit() == Culprit::Destination && self.takes(&is_untried) => true,
                code => code.retry() == Retry::Transient && is_early(self.retry_for),
            };
            match &ended {
                Err(failure) if !gives_back && self.goes_on() && passes(failure) => {}
                _ => {
                    return Sent {
                        gives_back: gives_back && ended.is_err(),
                        cut: last.is_some() || ended.is_err(),
                        ended,
                        batch: std::mem::take(&mut *sink.lock()),
                    };
                }
            }
            sink.lock().forget_failures();
            last = Some(ended);
            if is_left {
                continue;
            }
            thread::sleep(wait);
            wait = (wait * 2).min(TRY_AGAIN_MAX);
        }
        without_end(last, std::mem::take(&mut *sink.lock()))
    }

    /// Ends a try if no pair names its node any more, or if this node has another pair early in the try. Also if patience is over, or if
    /// the node cannot write. In each case another node to send to must exist.
    fn watch(
        &self,
        target: &Peer,
        control: &Control,
        (mut patience, may_move): (Option<Patience>, bool),
        (is_over, sink, faults): (&AtomicBool, &ProgressSink, &Faults),
        (is_left, is_slowly, is_cut): (&AtomicBool, &AtomicBool, &AtomicBool),
    ) {
        let began = Instant::now();
        loop {
            thread::park_timeout(WATCH_EVERY);
            if is_over.load(Ordering::SeqCst) {
                return;
            }
            let fault = sink.fault().map_or(0, severity);
            if self.is_better(faults, fault) {
                is_cut.store(true, Ordering::SeqCst);
                control.cancel();
                return;
            }
            let is_named = self.takes(&|one| one.identity == target.identity);
            let has_others = self.takes(&|one| one.identity != target.identity);
            let flight = self.flight.lock();
            let (bytes, files) = {
                let flight = flight.unwrap_or_else(PoisonError::into_inner);
                (flight.bytes, flight.files)
            };
            let at = began.elapsed();
            let is_slow = patience
                .as_mut()
                .is_some_and(|patience| patience.is_over(at, bytes, files));
            let is_moved = may_move && at < MOVES_WITHIN && self.is_moved(target, faults);
            if has_others && (!is_named || is_slow || is_moved) {
                is_slowly.store(is_slow, Ordering::SeqCst);
                is_left.store(true, Ordering::SeqCst);
                control.cancel();
                return;
            }
        }
    }

    /// Scans and parts that all nodes have settled.
    fn settled(&self) -> u64 {
        let reader = self.node.replica.reader();
        let work = Works(&reader).of(self.job).ok().flatten();
        work.map_or(0, |work| work.counts.scans + work.counts.parts)
    }

    /// Whether `is_it` holds for a node of the destination to which any node sends now.
    fn takes(&self, is_it: &dyn Fn(&Peer) -> bool) -> bool {
        let reader = self.node.replica.reader();
        let work = Works(&reader).of(self.job);
        let Ok(Some(work)) = work else {
            return false;
        };
        named(&work).any(is_it)
    }

    /// Whether another node of the destination, to which any node may send, had a lesser fault than `fault` in this lease.
    fn is_better(&self, faults: &Faults, fault: u8) -> bool {
        fault > 0 && self.takes(&|one| faults.of(&one.identity) < fault)
    }

    /// Whether the controller now names other nodes of the destination for this node, one of them without a fault.
    fn is_moved(&self, target: &Peer, faults: &Faults) -> bool {
        let reader = self.node.replica.reader();
        let Ok(Some(work)) = Works(&reader).of(self.job) else {
            return false;
        };
        let own = &self.node.runner.node;
        let pair = work.pairs.iter().find(|pair| pair.node == *own);
        pair.is_some_and(|pair| {
            let mut to = pair.to.iter().filter_map(|place| target_at(&work, *place));
            let is_whole = to.clone().any(|one| faults.of(&one.identity) == 0);
            is_whole && to.all(|one| one.identity != target.identity)
        })
    }

    fn begin_flight(&self, target: &Peer, closes: bool) {
        let mut flight = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
        *flight = Flight {
            to: target.identity.clone(),
            to_name: target.name.clone(),
            closes,
            earlier: flight.moved(),
            written_before: flight.written(),
            usage: flight.usage,
            ..Flight::default()
        };
    }

    /// Destination of a try: the node of the destination with the fewest tries, among those with the
    /// least faults. The nodes that the controller chose for this node come first, one after the
    /// other, then any other receiving node.
    fn choose(&self, tried: &BTreeMap<String, u32>, faults: &Faults) -> Chosen {
        let reader = self.node.replica.reader();
        let work = match Works(&reader).of(self.job) {
            Ok(Some(work)) if work.epoch == self.epoch => work,
            Ok(_) => return Chosen::Never,
            Err(_) => return Chosen::Later,
        };
        let own = work
            .pairs
            .iter()
            .find(|pair| pair.node == self.node.runner.node);
        let Some(pair) = own else {
            return Chosen::Later;
        };
        // A resting node finishes its lease.
        let mut places = pair.to.clone();
        let length = places.len().max(1);
        places.rotate_left(self.turn % length);
        let others = work.pairs.iter().flat_map(|pair| pair.to.iter().copied());
        for other in others {
            if !places.contains(&other) {
                places.push(other);
            }
        }
        let tries = |target: &Peer| tried.get(&target.identity).copied().unwrap_or(0);
        let targets = places.iter().filter_map(|place| target_at(&work, *place));
        // The first of the targets with the fewest tries.
        let order = |target: &&Peer| (faults.of(&target.identity), tries(target));
        let Some(target) = targets.min_by_key(order) else {
            return Chosen::Later;
        };
        let addresses = &target.addresses;
        let round = usize::try_from(tries(target)).unwrap_or(0);
        let Some(address) = addresses.get(round % addresses.len().max(1)) else {
            return Chosen::Later;
        };
        let to = To {
            address: address.clone(),
            limit: pair.limit,
        };
        Chosen::To(to, target.clone(), work.targets.nodes)
    }
}

fn target_at(work: &Work, place: u32) -> Option<&Peer> {
    work.targets.nodes.get(usize::try_from(place).ok()?)
}

/// The nodes of the destination to which any node sends.
fn named(work: &Work) -> impl Iterator<Item = &Peer> {
    let places = work.pairs.iter().flat_map(|pair| pair.to.iter());
    places.filter_map(|place| target_at(work, *place))
}

/// Ends the watch of an act, however the act ends.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool, pub(crate) Thread);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.unpark();
    }
}

/// Outcome of a transfer.
pub(crate) struct Sent {
    pub(crate) ended: Result<Summary, Failure>,
    pub(crate) batch: BatchOutcome,
    /// A try was cut: its sent bytes may still be written.
    pub(crate) cut: bool,
    /// Other nodes shall move the items, and nothing else is wrong.
    pub(crate) gives_back: bool,
}

/// Where a transfer goes now.
enum Chosen {
    /// The node of the destination to send to, and all nodes that it was chosen from.
    To(To, Peer, Vec<Peer>),
    /// The controller has to decide.
    Later,
    /// The work is another controller's.
    Never,
}

/// The end of a transfer that no node of the destination takes.
fn without_end(last: Option<Result<Summary, Failure>>, batch: BatchOutcome) -> Sent {
    let nobody = || {
        let message = "no node of the destination accepts data";
        Err(Failure::new(FailureCode::Unreachable, message))
    };
    Sent {
        gives_back: false,
        cut: last.is_some(),
        // The failures of an earlier try are forgotten, so the end of that try says nothing about the items.
        ended: last.and_then(Result::err).map_or_else(nobody, Err),
        batch,
    }
}

/// The transfer of a node for a job now, until it is settled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flight {
    /// Identity of the node of the destination; empty if there is no transfer.
    pub to: String,
    /// Name of that node.
    pub to_name: String,
    /// This transfer is the close, which finds files that earlier transfers have moved.
    pub closes: bool,
    /// Bytes that are done, including those that were there before.
    pub bytes: u64,
    /// Files that it has moved so far.
    pub files: u64,
    /// Amounts of this try.
    pub(crate) delivered: Moved,
    /// Amounts of earlier tries of the same items.
    pub(crate) earlier: Moved,
    /// Bytes that this try has written at its destination, safe or not.
    pub(crate) written: u64,
    /// The same of all earlier tries of the worker.
    pub(crate) written_before: u64,
    /// Processor time and memory of the tries that have ended.
    pub(crate) usage: Usage,
    /// Figures of the stages in the last seconds.
    pub stages: BTreeMap<String, f64>,
    /// The stage that limits the transfer.
    pub bottleneck: Option<Limited>,
    /// Rate of the last seconds.
    pub bytes_per_second: f64,
    /// Streams attached.
    pub streams: u32,
    /// The network paths.
    pub channels: Vec<ChannelView>,
}

impl Flight {
    /// Bytes and files that are safe at the destination, over all tries.
    #[must_use]
    pub fn moved(&self) -> Moved {
        self.delivered.plus(self.earlier)
    }

    /// Bytes that the worker has written at destinations so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written_before.saturating_add(self.written)
    }
}
