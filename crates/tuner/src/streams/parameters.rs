//! Owns the parameters of the number of streams, each with its reason.
//! Decides nothing.
//!
//! The simulation (`crate::tests`) fails when one of these rules is taken out; `docs/tuning.md` explains the rules.

use std::time::Duration;

// Measuring.

/// Shortest window of measurement. Shorter windows show noise.
pub(super) const WINDOW_MIN: Duration = Duration::from_millis(300);
/// Shortest window in RTTs: congestion control reacts once an RTT.
pub(super) const WINDOW_ROUND_TRIPS: f64 = 4.0;
/// RTTs that the first streams have to start, before any rate is known.
pub(super) const START_ROUND_TRIPS: f64 = 8.0;
/// Time over which rates are averaged. Losses, and congestion controls that probe, make one window differ from the next by a
/// tenth and more. A trial that was compared with one lucky window alone would never reach that rate again.
pub(super) const LATELY: Duration = Duration::from_secs(2);
/// A rate that grows by more than this factor from window to window is still rising.
pub(super) const RISING: f64 = 1.1;
/// Windows in which a rate that moves shows streams that start.
pub(super) const START_WINDOWS: u32 = 4;
/// Time that streams have to start or end, beside ten RTTs.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

// Holding.

/// No stream is added for this time after another stage held the transfer up.
pub(super) const HELD_UP_FOR: Duration = Duration::from_secs(4);
/// The same where that stage takes its bytes in bursts: the network is the slowest stage between two bursts.
pub(super) const HELD_UP_FOR_BURSTS: Duration = Duration::from_secs(16);
/// The streams are held down where this many times the rate was measured before.
pub(super) const FALLEN: f64 = 1.2;
/// No stream is added without evidence before this time.
pub(super) const EXPLORE_FIRST: Duration = Duration::from_secs(3);
/// Most streams that are tried without evidence. On a full link a transfer wins by streams, and that is no reason to have more.
pub(super) const EXPLORE_MOST: u32 = 8;
/// Where no queue is seen, fewer streams are tried after this time without a change.
pub(super) const FEWER_AFTER: Duration = Duration::from_secs(30);

// Trials.

/// First waits after a trial in vain. Each wait doubles up to [`WAIT_MAX`](crate::backoff::WAIT_MAX).
pub(super) const UP_WAIT: Duration = Duration::from_secs(2);
/// First wait after a trial of more streams without evidence.
pub(super) const EXPLORE_WAIT: Duration = Duration::from_secs(20);
/// First wait after a trial of fewer streams.
pub(super) const DOWN_WAIT: Duration = Duration::from_secs(20);
/// First wait after a trial of fewer streams in a queue of others. Its result depends on what the others try at that moment.
pub(super) const YIELD_WAIT: Duration = Duration::from_secs(4);
/// First wait after the other end or the network admitted no more streams.
pub(super) const MORE_WAIT: Duration = Duration::from_secs(15);

// Trials of more streams.

/// A part of the added streams is enough where it moves this share of what all moved. Streams that only take from others move
/// less, as long as the others have half of the link.
pub(super) const PART: f64 = 0.93;
/// The same share grows with the streams that the part leaves out, by this factor over what they would take from others.
pub(super) const TAKEN: f64 = 1.01;
/// A trial must win this factor over what its streams could take from others that have half of the link.
pub(super) const TAKEN_MOST: f64 = 1.05;
/// Least gain at which a trial keeps at least some of its added streams.
pub(super) const WORTH: f64 = 1.1;
/// Share of the gain on an empty link that is enough if only losses limit all streams.
pub(super) const WORTH_LOSSES: f64 = 0.15;

// Trials of fewer streams.

/// Share of the rate that fewer streams must keep.
pub(super) const KEPT: f64 = 0.95;
/// The same where the queue is gone and no other transfer uses the link: then each part lost is lost for all.
pub(super) const KEPT_ALONE: f64 = 0.985;
/// Such a trial is measured for this time: BBR probes up and down within half a second.
pub(super) const ALONE_FOR: Duration = Duration::from_secs(1);
/// Streams that stay where storage takes bursts have room for this many times the mean rate.
pub(super) const SPARE: f64 = 1.5;
/// A trial over bursts takes the time of this many bursts …
pub(super) const BURSTS: f64 = 3.0;
/// … and this many seconds at most.
pub(super) const BURSTS_SECONDS_MAX: f64 = 12.0;
/// Share of the windows of such a trial in which storage must have held the transfer up, to blame storage for missing bytes.
pub(super) const HELD_UP_PART: f64 = 0.5;

// The usual rate.

/// A rate that is far from the usual one for this time shows another path.
pub(super) const UNUSUAL_FOR: Duration = Duration::from_secs(5);
/// Weight of one window in the usual rate: at the beginning …
pub(super) const USUAL_MOST: f64 = 0.1;
/// … and after some hundred windows.
pub(super) const USUAL_LEAST: f64 = 0.005;
/// Windows that make the usual rate known.
pub(super) const USUAL_KNOWN: u32 = 5;
/// Time that makes the usual rate that of a steady state.
pub(super) const USUAL_STEADY: Duration = Duration::from_secs(6);
/// Other transfers share the queue where the rate is below this share of the usual one …
pub(super) const CROWDED: f64 = 0.85;
/// … for this many windows.
pub(super) const CROWDED_WINDOWS: u32 = 4;
