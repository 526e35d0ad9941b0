//! Owns the parameters for the number of streams, each with its reason. Does not decide.
//!
//! The simulation (`crate::tests`) fails if one of these rules is removed; `docs/tuning.md` explains the rules.

use std::time::Duration;

// Measuring.

/// Shortest window of measurement. Shorter windows show noise.
pub(super) const WINDOW_MIN: Duration = Duration::from_millis(300);
/// Shortest window in RTTs: congestion control reacts once an RTT.
pub(super) const WINDOW_ROUND_TRIPS: f64 = 4.0;
/// RTTs that the first streams need to start, before any rate is known.
pub(super) const START_ROUND_TRIPS: f64 = 8.0;
/// Time over which rates are averaged. Losses, and congestion controls that probe, make windows differ by a tenth and more. A
/// trial compared with a single lucky window would never reach its rate again.
pub(super) const LATELY: Duration = Duration::from_secs(2);
/// A rate that grows by more than this factor from window to window is still rising.
pub(super) const RISING: f64 = 1.1;
/// Windows in which a changing rate means that streams are still starting.
pub(super) const START_WINDOWS: u32 = 4;
/// Time that streams have to start or end, in addition to ten RTTs.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

// Holding.

/// No stream is added for this time after another stage limited the transfer.
pub(super) const HELD_UP_FOR: Duration = Duration::from_secs(4);
/// This time if that stage accepts data in bursts: the network is the slowest stage between two bursts.
pub(super) const HELD_UP_FOR_BURSTS: Duration = Duration::from_secs(16);
/// The streams count as limited if a rate higher by this factor was measured before.
pub(super) const FALLEN: f64 = 1.2;
/// No stream is added without evidence before this time.
pub(super) const EXPLORE_FIRST: Duration = Duration::from_secs(3);
/// Most streams that are tried without evidence. On a full link a transfer gains by more streams, which is no reason to have
/// more.
pub(super) const EXPLORE_MOST: u32 = 8;
/// If there is no queue, fewer streams are tried after this time without a change.
pub(super) const FEWER_AFTER: Duration = Duration::from_secs(30);

// Trials.

/// First wait after a failed trial. Each later wait doubles up to [`WAIT_MAX`](crate::backoff::WAIT_MAX).
pub(super) const UP_WAIT: Duration = Duration::from_secs(2);
/// First wait after a trial of more streams without evidence.
pub(super) const EXPLORE_WAIT: Duration = Duration::from_secs(20);
/// First wait after a trial of fewer streams.
pub(super) const DOWN_WAIT: Duration = Duration::from_secs(20);
/// First wait after a trial of fewer streams in a queue of other transfers. Its result depends on the trials of the other
/// transfers at that moment.
pub(super) const YIELD_WAIT: Duration = Duration::from_secs(4);
/// First wait after the other end or the network accepted no more streams.
pub(super) const MORE_WAIT: Duration = Duration::from_secs(15);

// Trials of more streams.

/// A part of the added streams is enough if it keeps this share of the rate of all of them. Streams that only take bandwidth
/// from other transfers are slower, as long as the others have half of the link.
pub(super) const PART: f64 = 0.93;
/// The required share is also at least this factor times the share that the part could take from the streams of other
/// transfers.
pub(super) const TAKEN: f64 = 1.01;
/// A trial must exceed, by this factor, the bandwidth that its streams could take from other transfers with half of the link.
pub(super) const TAKEN_MOST: f64 = 1.05;
/// Minimum gain for which a trial keeps at least some of its added streams.
pub(super) const WORTH: f64 = 1.1;
/// Share of the gain on an empty link that is enough if only losses limit all streams.
pub(super) const WORTH_LOSSES: f64 = 0.15;

// Trials of fewer streams.

/// Share of the rate that fewer streams must keep.
pub(super) const KEPT: f64 = 0.95;
/// This share if the queue is gone and no other transfer uses the link: bandwidth that these streams lose stays unused.
pub(super) const KEPT_ALONE: f64 = 0.985;
/// Such a trial is measured for this time: BBR probes up and down within half a second.
pub(super) const ALONE_FOR: Duration = Duration::from_secs(1);
/// The remaining streams must be able to reach this multiple of the mean rate if storage accepts data in bursts.
pub(super) const SPARE: f64 = 1.5;
/// A trial over bursts lasts for this many bursts …
pub(super) const BURSTS: f64 = 3.0;
/// … and at most this many seconds.
pub(super) const BURSTS_SECONDS_MAX: f64 = 12.0;
/// Share of the windows of such a trial in which storage must have limited the transfer, so that storage explains missing
/// bytes.
pub(super) const HELD_UP_PART: f64 = 0.5;

// The usual rate.

/// A rate that is far from the usual one for this time means that the path has changed.
pub(super) const UNUSUAL_FOR: Duration = Duration::from_secs(5);
/// Weight of one window in the usual rate, at the beginning …
pub(super) const USUAL_MOST: f64 = 0.1;
/// … and after some hundred windows.
pub(super) const USUAL_LEAST: f64 = 0.005;
/// Windows after which the usual rate is known.
pub(super) const USUAL_KNOWN: u32 = 5;
/// Time after which the usual rate counts as that of a steady state.
pub(super) const USUAL_STEADY: Duration = Duration::from_secs(6);
/// Other transfers use the queue too if the rate is below this share of the usual one …
pub(super) const CROWDED: f64 = 0.85;
/// … for this many windows.
pub(super) const CROWDED_WINDOWS: u32 = 4;
