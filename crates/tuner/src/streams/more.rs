//! Judges a trial of more streams by their gain, as a share of the gain on an empty link. Does not begin trials or change the
//! number.

use super::super::path::{Losses, Reading, Room, START_MAX};
use super::super::whole;
use super::meter::Meter;
use super::parameters::{PART, TAKEN, TAKEN_MOST, WORTH, WORTH_LOSSES};

/// By which factor the number of streams is raised, depending on their limit.
pub(super) fn factor(room: Room, target: u32) -> f64 {
    match room {
        Room::Windows if target <= 2 => 4.0,
        Room::Windows if target <= START_MAX => 3.0,
        Room::Losses if target <= 8 => 4.0,
        Room::Windows => 1.5,
        Room::Losses => 2.0,
        Room::Unknown | Room::None => 1.0,
    }
}

/// A trial of more streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raise {
    /// The number of streams before the trial.
    pub(super) from: u32,
    /// The rate before the trial.
    pub(super) before: f64,
    /// Whether only losses limited the streams.
    pub(super) for_losses: bool,
    /// Losses before the trial.
    pub(super) losses: Losses,
    /// If a part of the added streams is being tried: the whole number and its rate.
    pub(super) whole: Option<(u32, f64)>,
}

/// The result of a trial of more streams so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Raised {
    /// The next window decides.
    GoOn,
    /// The added streams are worth keeping.
    Keep,
    /// This number of streams may be enough.
    Part(u32),
    /// The added streams are not worth keeping.
    Back,
}

impl Raise {
    /// Judges `to` streams, which transferred `moved` bytes a second.
    pub(super) fn judge(&self, to: u32, moved: f64, reading: &Reading, meter: &Meter) -> Raised {
        let (from, all) = (f64::from(self.from), f64::from(to));
        let won = moved / self.before.max(1.0);
        if self.is_enough(all, moved) || won >= 1.0 + (all / from - 1.0) / 2.0 {
            return Raised::Keep;
        }
        if meter.windows() == 1 {
            return Raised::GoOn;
        }
        // If only losses limit the streams, the added streams slow down no other transfer. The old streams may still be as fast
        // as at their start, which losses will not allow for long.
        if self.for_losses
            && self.from >= START_MAX
            && reading.room() == Room::Losses
            && won >= 1.0 + WORTH_LOSSES * (all / from - 1.0)
        {
            return Raised::Keep;
        }
        // A part may be enough: as many streams as the new rate needs at the old rate of one stream.
        let enough = whole(from * won * 1.05);
        // Without such a part, the streams are kept if they gain more than they could take from other transfers with half of the
        // link.
        let taken = 2.0 * all / (all + from);
        if won >= TAKEN_MOST * taken && (self.whole.is_some() || enough >= to) {
            return Raised::Keep;
        }
        if self.whole.is_none() && won > WORTH && enough > self.from && enough < to {
            return Raised::Part(enough);
        }
        Raised::Back
    }

    /// Whether a part of the added streams is as fast as all of them.
    fn is_enough(&self, part: f64, moved: f64) -> bool {
        self.whole.is_some_and(|(whole, all)| {
            let (from, whole) = (f64::from(self.from), f64::from(whole));
            // The share that the part takes from as many streams of other transfers. A smaller share does not prove that the part is
            // enough.
            let taken = (part / (part + from)) / (whole / (whole + from));
            moved >= all * PART.max((TAKEN * taken).min(1.0))
        })
    }
}
