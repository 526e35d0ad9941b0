//! Simulates an outage of a path. Does not know transfers.

use super::{Flow, Kind, SEGMENT, World};

impl World {
    /// Starts the outage.
    pub(crate) fn go_away(&mut self) {
        self.away_since = Some(self.now);
    }

    /// Ends the outage. Bytes in flight for longer than the kernel's timeout count as lost, and their streams start again.
    pub(crate) fn come_back(&mut self) {
        let round_trip = self.link.round_trip + self.queued / self.link.capacity;
        let Some(since) = self.away_since.take() else {
            return;
        };
        let is_lost = self.now - since > 0.2 + round_trip;
        self.queued *= if is_lost { 0.0 } else { 1.0 };
        for flow in self.flows.iter_mut().filter(|flow| flow.from <= since) {
            flow.come_back(self.now, round_trip, is_lost);
        }
    }

    /// Advances the time while no data moves.
    pub(super) fn stand_still(&mut self, tick: f64) {
        for flow in &mut self.flows {
            if flow.from > self.now {
                // A connection that is being made waits too.
                flow.from += tick;
                continue;
            }
            let own = &mut self.owners[flow.owner];
            own.busy += tick;
            let held_up = flow.window >= self.link.buffer;
            own.held_up += if held_up { tick } else { 0.0 };
        }
    }
}

impl Flow {
    fn come_back(&mut self, now: f64, round_trip: f64, is_lost: bool) {
        self.round_bytes = 0.0;
        self.round_since = now;
        self.next_round = now + round_trip;
        // A stream of the rate model continues at its last rate.
        if is_lost && self.kind != Kind::Rate {
            self.peak = self.window;
            self.since = now;
            self.threshold = 0.7 * self.window;
            self.window = 2.0 * SEGMENT;
        }
    }
}
