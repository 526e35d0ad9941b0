//! Decides whether the other end is lost, silent or reached, by the session and the counters. Time is an argument. Does not
//! connect or send events.

use std::time::{Duration, Instant};

use godwit_api::event::{ConnectionLost, ConnectionRegained, Event};
use godwit_engine::session::Outage;

/// A healthy peer sends its counters twice a second. If ten are missing, that is no coincidence.
pub(super) const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Interval between repeated reports of a continuing loss: twelve log lines a minute.
const AGAIN_EVERY: Duration = Duration::from_secs(5);

/// Looks happen five times a second. A longer gap between two is a standstill of this process, not silence of the peer.
pub(super) const LOOK_MAX: Duration = Duration::from_secs(1);

/// The observations of one look at a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// The latest age that the other end reported.
    pub(super) peer_elapsed_ns: u64,
    /// Bytes transferred over the network, according to the kernel of this side.
    pub(super) bytes: u64,
    /// Bytes that may be on the network before the other end must answer: a block on each stream.
    pub(super) unfinished_bytes: u64,
}

/// Observes one connection to the other end, over all its streams.
#[derive(Default)]
pub(super) struct Following {
    looked: Option<Instant>,
    last_contact: LastContact,
    lost: Option<Lost>,
}

/// The last sign of life.
#[derive(Default)]
struct LastContact {
    elapsed_ns: u64,
    /// Bytes transferred when the other end last answered, and when they last increased.
    bytes_then: u64,
    bytes: u64,
    /// Time without an answer.
    unanswered: Duration,
}

/// A reported loss.
struct Lost {
    /// When the loss began.
    began: Instant,
    reported: Instant,
    silent: bool,
    why: String,
}

impl Following {
    /// Whether the other end is unreachable, which makes current figures meaningless.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Updates the state; `look` is `None` while there is no engine. Returns the event to report, without its seconds.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        outage: Option<&Outage>,
        look: Option<Look>,
        retry_for: Duration,
    ) -> Option<Event> {
        let passed = self
            .looked
            .replace(now)
            .map_or(Duration::ZERO, |before| now.duration_since(before));
        match (outage, look) {
            (Some(_), _) | (None, None) => self.last_contact.unanswered = Duration::ZERO,
            (None, Some(look)) => self.last_contact.listen(look, passed.min(LOOK_MAX)),
        }
        let unanswered = self.last_contact.unanswered;
        if let Some(outage) = outage {
            return self.note_loss(now, outage.since, outage.patience, false, &outage.why);
        }
        if unanswered >= SILENT_AFTER {
            let since = now.checked_sub(unanswered).unwrap_or(now);
            return self.note_loss(now, since, retry_for, true, NO_ANSWER);
        }
        // The other end does not answer while a transfer is being opened.
        look?;
        self.regain(now)
    }

    /// Records that data in one or both directions has not arrived since `since`.
    pub(super) fn note_loss(
        &mut self,
        now: Instant,
        since: Instant,
        patience: Duration,
        silent: bool,
        why: &str,
    ) -> Option<Event> {
        let due = self.lost.as_ref().is_none_or(|lost| {
            let again = now.duration_since(lost.reported);
            let differs = lost.silent != silent;
            let other = lost.why != why && again >= LOOK_MAX;
            differs || other || again >= AGAIN_EVERY
        });
        if !due {
            return None;
        }
        let began = self
            .lost
            .as_ref()
            .map_or(since, |lost| lost.began.min(since));
        self.lost = Some(Lost {
            began,
            reported: now,
            silent,
            why: why.to_owned(),
        });
        Some(Event::ConnectionLost(ConnectionLost {
            lost_seconds: tenths(now.duration_since(since)),
            retry_for_seconds: patience.as_secs_f64(),
            why: why.to_owned(),
            silent,
            channel: None,
            seconds: 0.0,
        }))
    }

    /// Records that the other end is reached; returns the event if it was lost before.
    pub(super) fn regain(&mut self, now: Instant) -> Option<Event> {
        let lost = self.lost.take()?;
        self.last_contact.unanswered = Duration::ZERO;
        Some(Event::ConnectionRegained(ConnectionRegained {
            lost_seconds: tenths(now.duration_since(lost.began)),
            channel: None,
            seconds: 0.0,
        }))
    }
}

impl LastContact {
    /// Records signs of life. Data in flight shows life only until its blocks are through, because the kernel of a stopped peer
    /// still accepts some data.
    fn listen(&mut self, look: Look, passed: Duration) {
        let answered = look.peer_elapsed_ns != self.elapsed_ns;
        if answered || look.bytes < self.bytes {
            self.bytes_then = look.bytes;
        }
        let within = look.bytes.saturating_sub(self.bytes_then) <= look.unfinished_bytes;
        let on_its_way = look.bytes != self.bytes && within;
        if answered || on_its_way {
            self.unanswered = Duration::ZERO;
        } else {
            self.unanswered += passed;
        }
        self.elapsed_ns = look.peer_elapsed_ns;
        self.bytes = look.bytes;
    }
}

/// The reason of a silence.
const NO_ANSWER: &str = "the other end does not answer";

/// Seconds with one decimal digit; more digits are noise.
pub(super) fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(200);
    const RETRY_FOR: Duration = Duration::from_secs(300);

    fn look(peer_elapsed_ns: u64, bytes: u64) -> Option<Look> {
        Some(Look {
            peer_elapsed_ns,
            bytes,
            unfinished_bytes: 1_000,
        })
    }

    /// The events for these looks, one each fifth of a second; each event is a name and a time in whole seconds.
    fn statement(looks: impl IntoIterator<Item = (bool, Option<Look>)>) -> Vec<String> {
        let began = Instant::now();
        let mut following = Following::default();
        let mut outage: Option<Outage> = None;
        let mut statement = Vec::new();
        for (step, (reached, look)) in (0..).zip(looks) {
            let now = began + STEP * step;
            outage = (!reached).then(|| {
                outage.take().unwrap_or_else(|| Outage {
                    since: now,
                    patience: RETRY_FOR,
                    why: "reset".to_owned(),
                })
            });
            match following.follow(now, outage.as_ref(), look, RETRY_FOR) {
                Some(Event::ConnectionLost(lost)) => statement.push(format!(
                    "{} {:.0} of {:.0}",
                    if lost.silent { "silent" } else { "lost" },
                    lost.lost_seconds,
                    lost.retry_for_seconds
                )),
                Some(Event::ConnectionRegained(regained)) => {
                    statement.push(format!("regained {:.0}", regained.lost_seconds));
                }
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            assert_eq!(
                following.is_lost(),
                statement
                    .last()
                    .is_some_and(|last| !last.starts_with("regained"))
            );
        }
        statement
    }

    #[test]
    fn a_loss_is_reported_at_once_again_while_it_lasts_and_when_it_ends() {
        let there = (0..20).map(|step| (true, look(step, step)));
        let away = (0..60).map(|_| (false, None));
        let again = (30..40).map(|step| (true, look(step, step)));
        assert_eq!(
            statement(there.chain(away).chain(again)),
            [
                "lost 0 of 300",
                "lost 5 of 300",
                "lost 10 of 300",
                "regained 12"
            ]
        );
    }

    #[test]
    fn a_peer_that_says_nothing_is_silent_before_its_streams_are_cut() {
        let there = (0..20).map(|step| (true, look(step, step)));
        let silent = (0..60).map(|_| (true, look(19, 19)));
        let cut = (0..5).map(|_| (false, look(19, 19)));
        assert_eq!(
            statement(there.clone().chain(silent.clone()).chain(cut)),
            ["silent 5 of 300", "silent 10 of 300", "lost 0 of 300"]
        );
        let back = (20..22).map(|step| (true, look(step, step)));
        assert_eq!(
            statement(there.chain(silent).chain(back)),
            ["silent 5 of 300", "silent 10 of 300", "regained 12"]
        );
    }

    #[test]
    fn a_block_that_takes_long_is_no_silence_and_a_full_kernel_is() {
        let slow = |bytes: u64| (0..90).map(move |step| (true, look(7, step * bytes)));
        assert!(statement(slow(10)).is_empty());
        assert_eq!(statement(slow(100))[0], "silent 5 of 300");
    }

    #[test]
    fn time_in_which_this_process_stood_still_is_no_silence() {
        let began = Instant::now();
        let mut following = Following::default();
        for (after, last_contact) in [(0, 1), (1, 2), (3_600, 2), (3_601, 3)] {
            let now = began + Duration::from_secs(after);
            let event = following.follow(now, None, look(last_contact, 0), RETRY_FOR);
            assert_eq!(event, None, "after {after} s");
        }
    }

    #[test]
    fn no_engine_is_neither_a_loss_nor_its_end() {
        let begins = (0..60).map(|_| (true, None));
        assert!(statement(begins).is_empty());
    }
}
