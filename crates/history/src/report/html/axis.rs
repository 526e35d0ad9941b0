//! Owns the axes of plots: their scales, and labels that do not overlap.
//! Draws no figure.

use std::fmt::{Result, Write as _};

use godwit_api::rest::Timestamp;
use godwit_api::units::human_size;

use super::{escape, rate_text, whole};

/// Labels on an axis of time: the longest has eleven characters of some 5 units, in 270 units.
const TIMES_MAX: f64 = 4.0;

/// Steps between labels, in seconds. Longer ones are whole days.
const STEPS: [f64; 18] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0,
    10_800.0, 21_600.0, 43_200.0, 86_400.0,
];

/// The times of a plot, in seconds, between the left and the right border of its area.
pub(super) struct TimeAxis {
    pub(super) start: f64,
    pub(super) width: f64,
    pub(super) left: f64,
    pub(super) right: f64,
}

impl TimeAxis {
    pub(super) fn x(&self, at: f64) -> f64 {
        // A clock that was set back leaves times outside.
        let part = ((at - self.start) / self.width).clamp(0.0, 1.0);
        self.left + part * (self.right - self.left)
    }

    /// The times with labels.
    fn times(&self) -> Vec<f64> {
        let mut step = STEPS
            .into_iter()
            .find(|step| self.width / step < TIMES_MAX)
            .unwrap_or(STEPS[STEPS.len() - 1]);
        while self.width / step >= TIMES_MAX {
            step *= 2.0;
        }
        let mut at = (self.start / step).ceil() * step;
        let mut times = Vec::new();
        while at <= self.start + self.width {
            times.push(at);
            at += step;
        }
        // Both ends fit in any case.
        match times.len() {
            0 | 1 => vec![self.start, self.start + self.width],
            _ => times,
        }
    }

    /// Draws the axis below the area, which ends at `bottom`.
    pub(super) fn draw(&self, page: &mut String, bottom: f64) -> Result {
        let (left, right) = (self.left, self.right);
        write!(
            page,
            "<line class=\"axis\" x1=\"{left}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>"
        )?;
        for at in self.times() {
            let x = self.x(at);
            write!(
                page,
                "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{:.1}\"/><text class=\"time\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 3.0,
                bottom + 12.0,
                self.label(at)
            )?;
        }
        Ok(())
    }

    /// A time of the day, with the date if the plot is longer than a day.
    fn label(&self, at: f64) -> String {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "times of samples are far below the bounds"
        )]
        let text = Timestamp((at * 1_000.0).round() as i64).utc();
        let part = match self.width > STEPS[17] {
            true => text.get(5..16),
            false => text.get(11..19),
        };
        part.unwrap_or_default().to_owned()
    }
}

/// How a figure is shown.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    Part,
    Bytes,
    Rate,
    /// Events per second.
    Each,
    Watts,
    Number,
}

impl Shown {
    fn text(self, value: f64) -> String {
        match self {
            Self::Part if value > 0.0 && value < 0.02 => format!("{:.1} %", value * 100.0),
            Self::Part => format!("{:.0} %", value * 100.0),
            Self::Bytes => human_size(whole(value)),
            Self::Rate => rate_text(value),
            Self::Each => match value {
                many if many >= 1e6 => format!("{} M/s", short(many / 1e6)),
                many if many >= 1e3 => format!("{} k/s", short(many / 1e3)),
                few => format!("{}/s", short(few)),
            },
            Self::Watts => format!("{} W", short(value)),
            Self::Number => short(value),
        }
    }
}

/// At most one digit after the point, and none that is zero.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// The values of a plot, from 0 to `top`, between the upper and the lower border of its area.
pub(super) struct ValueAxis {
    pub(super) top: f64,
    pub(super) upper: f64,
    pub(super) lower: f64,
    pub(super) shown: Shown,
}

impl ValueAxis {
    /// Up to a round number that is no lower than the greatest value.
    pub(super) fn of(max: f64, shown: Shown, (upper, lower): (f64, f64)) -> Self {
        // Half of this value has a label, too.
        let least = match shown {
            Shown::Part => 0.02,
            _ => 2.0,
        };
        let max = max.max(least);
        let power = 10.0_f64.powf(max.log10().floor());
        let round = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0].map(|digit| digit * power);
        let top = round.into_iter().find(|round| *round >= max * (1.0 - 1e-9));
        Self {
            top: top.unwrap_or(max),
            upper,
            lower,
            shown,
        }
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.lower - value.clamp(0.0, self.top) / self.top * (self.lower - self.upper)
    }

    /// Draws the axis and a line at each label, from `left` to `right`.
    pub(super) fn draw(&self, page: &mut String, left: f64, right: f64) -> Result {
        write!(
            page,
            "<line class=\"axis\" x1=\"{left}\" y1=\"{}\" x2=\"{left}\" y2=\"{}\"/>",
            self.upper, self.lower
        )?;
        for value in [0.0, self.top / 2.0, self.top] {
            let y = self.y(value);
            write!(
                page,
                "<line class=\"grid\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/><text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left - 4.0,
                y + 3.0,
                escape(&self.shown.text(value))
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Width of a character of the labels, in units of the plot.
    const CHARACTER: f64 = 5.2;

    #[test]
    fn labels_of_times_do_not_overlap_and_lie_in_the_plot() {
        for width in [
            0.001, 0.9, 1.0, 3.0, 7.0, 59.0, 61.0, 600.0, 4_000.0, 86_000.0, 90_000.0, 1e6, 3e7,
        ] {
            for start in [0.0, 1_764_405_286.25] {
                let axis = TimeAxis {
                    start,
                    width,
                    left: 56.0,
                    right: 330.0,
                };
                let times = axis.times();
                assert!((2..=5).contains(&times.len()), "{width}: {times:?}");
                for at in &times {
                    assert!((55.9..=330.1).contains(&axis.x(*at)), "{width}: {at}");
                }
                for pair in times.windows(2) {
                    let room = axis.x(pair[1]) - axis.x(pair[0]);
                    let label = CHARACTER * axis.label(pair[0]).len() as f64;
                    assert!(room > label, "{width}: {room} for {label}");
                }
            }
        }
    }

    #[test]
    fn values_have_round_tops_and_units() {
        let labels = |max: f64, shown: Shown| {
            let axis = ValueAxis::of(max, shown, (8.0, 98.0));
            assert!(axis.top >= max && axis.top <= 10.0 * max.max(0.02), "{max}");
            [axis.top / 2.0, axis.top].map(|value| shown.text(value))
        };
        assert_eq!(labels(0.43, Shown::Part), ["30 %", "60 %"]);
        assert_eq!(labels(1.0, Shown::Part), ["50 %", "100 %"]);
        assert_eq!(labels(0.0, Shown::Part), ["1.0 %", "2 %"]);
        assert_eq!(labels(69e6, Shown::Rate), ["40.0 MB/s", "80.0 MB/s"]);
        assert_eq!(labels(3.2e9, Shown::Bytes), ["2.00 GB", "4.00 GB"]);
        assert_eq!(labels(12_345.0, Shown::Each), ["10 k/s", "20 k/s"]);
        assert_eq!(labels(90.0, Shown::Watts), ["50 W", "100 W"]);
        assert_eq!(labels(4.0, Shown::Number), ["2", "4"]);
        for value in [999.4e9, 1e12] {
            assert!(Shown::Rate.text(value).len() as f64 * CHARACTER < 52.0);
        }
    }
}
