//! Runs the transfer of one lease, again and to other nodes of the destination while that may help.
//! Knows no items: the description of the transfer comes from whoever leased them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::event::{Channel, Event, EventSink, Summary};
use godwit_api::failure::{Failure, FailureCode, Retry};
use godwit_api::job::JobSpec;
use godwit_api::rest::ChannelView;
use godwit_run::{Control, GivenList, Runner};
use godwit_state::{Target, Works};

use crate::Node;
use crate::batch::{Heard, To};

/// Between two looks for a node of the destination.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// First and longest wait between tries of the same items.
const TRY_AGAIN: Duration = Duration::from_millis(250);
const TRY_AGAIN_MAX: Duration = Duration::from_secs(2);
/// How long a refusal may be one that passes: the nodes of the destination learn of access one after the other.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// The transfer of one lease.
pub(crate) struct Sending<'a> {
    pub(crate) node: &'a Node,
    pub(crate) job: &'a str,
    pub(crate) epoch: u64,
    pub(crate) lease: u64,
    /// How long tries go on while none of them works.
    pub(crate) retry_for: Duration,
    pub(crate) control: &'a Control,
    pub(crate) stopped: &'a AtomicBool,
    /// What is on its way.
    pub(crate) flight: &'a Arc<Mutex<Flight>>,
}

impl Sending<'_> {
    fn goes_on(&self) -> bool {
        !self.stopped.load(Ordering::SeqCst)
    }

    /// Runs one transfer, again where its end may pass by itself: to the node of the destination that the controller names by then.
    pub(crate) fn transfer(
        &self,
        make: &dyn Fn(To) -> Result<JobSpec, Failure>,
        list: Option<GivenList>,
    ) -> Sent {
        let heard = Arc::new(Told {
            heard: Mutex::default(),
            flight: Arc::clone(self.flight),
            channels: Mutex::default(),
        });
        let events = Arc::clone(&heard) as Arc<dyn EventSink>;
        let began = Instant::now();
        let mut wait = TRY_AGAIN;
        let mut last = None;
        for tried in 0.. {
            let (to, targets) = match self.choose(tried) {
                Chosen::To(to, targets) => (to, targets),
                Chosen::Later if began.elapsed() < self.retry_for && self.goes_on() => {
                    thread::sleep(LOOK_EVERY);
                    continue;
                }
                Chosen::Later | Chosen::Never => break,
            };
            let mut env = (self.node.make_env)(&targets);
            env.list.clone_from(&list);
            let ended = make(to).and_then(|spec| Runner::run(&spec, &env, &events, self.control));
            let is_early = |most: Duration| began.elapsed() < most;
            let passes = |failure: &Failure| match failure.code {
                FailureCode::AccessDenied | FailureCode::BusyDestination => {
                    is_early(REFUSED_FOR.min(self.retry_for))
                }
                code => code.retry() == Retry::Transient && is_early(self.retry_for),
            };
            match &ended {
                Err(failure) if self.goes_on() && passes(failure) => {}
                _ => {
                    return Sent {
                        cut: last.is_some() || ended.is_err(),
                        ended,
                        heard: std::mem::take(&mut *heard.lock()),
                    };
                }
            }
            last = Some(ended);
            thread::sleep(wait);
            wait = (wait * 2).min(TRY_AGAIN_MAX);
        }
        let nobody = || {
            let message = "no node of the destination takes anything";
            Err(Failure::new(FailureCode::Unreachable, message))
        };
        Sent {
            cut: last.is_some(),
            ended: last.unwrap_or_else(nobody),
            heard: std::mem::take(&mut *heard.lock()),
        }
    }

    /// Where a try goes. The nodes of the destination that the controller chose for this node come in turn; where one does not take it, any
    /// other one is tried that somebody sends to.
    fn choose(&self, tried: usize) -> Chosen {
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
        let turn = usize::try_from(self.lease).unwrap_or(0);
        // Who rests ends what it holds.
        let mut places = pair.to.clone();
        let length = places.len().max(1);
        places.rotate_left(turn % length);
        let others = work.pairs.iter().flat_map(|pair| pair.to.iter().copied());
        for other in others {
            if !places.contains(&other) {
                places.push(other);
            }
        }
        if places.is_empty() {
            return Chosen::Later;
        }
        let place = usize::try_from(places[tried % places.len()]).ok();
        let Some(target) = place.and_then(|place| work.targets.nodes.get(place)) else {
            return Chosen::Later;
        };
        let addresses = &target.addresses;
        let round = tried / places.len();
        let Some(address) = addresses.get(round % addresses.len().max(1)) else {
            return Chosen::Later;
        };
        let to = To {
            address: address.clone(),
            limit: pair.limit,
        };
        Chosen::To(to, work.targets.nodes)
    }
}

/// What came of a transfer.
pub(crate) struct Sent {
    pub(crate) ended: Result<Summary, Failure>,
    pub(crate) heard: Heard,
    /// A try was cut: what it sent may still be written.
    pub(crate) cut: bool,
}

/// Where a transfer goes now.
enum Chosen {
    /// To a node of the destination, one of these.
    To(To, Vec<Target>),
    /// The controller has to say.
    Later,
    /// The work is another controller's.
    Never,
}

/// What a node brings of a job now, and has not settled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flight {
    /// Bytes that the transfer has brought so far.
    pub bytes: u64,
    /// Files that it has brought so far.
    pub files: u64,
    /// Rate of the last seconds.
    pub bytes_per_second: f64,
    /// Streams attached.
    pub streams: u32,
    /// The network paths.
    pub channels: Vec<ChannelView>,
}

struct Told {
    heard: Mutex<Heard>,
    flight: Arc<Mutex<Flight>>,
    /// Where there are several, with the rate of each.
    channels: Mutex<Vec<Channel>>,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for Told {
    fn tell(&self, event: Event) {
        let told = || self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Channels(channels) = &event {
            told().clone_from(&channels.channels);
        }
        if let Event::Progress(progress) = &event {
            let channels = ChannelView::of(progress, &told());
            *self.flight.lock().unwrap_or_else(PoisonError::into_inner) = Flight {
                bytes: progress.bytes,
                files: progress.files,
                bytes_per_second: progress.bytes_per_second.unwrap_or(0.0),
                streams: progress.streams,
                channels,
            };
        }
        self.lock().hear(&event);
    }
}
