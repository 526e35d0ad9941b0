//! Owns the picture of a report: each case has a bar for each contender, with its smallest and largest run.
//! The code draws the bars itself, because they need no library.

use std::fmt::Write as _;

use super::super::runner::Track;
use super::super::stats::Spread;
use super::{CaseReport, Report};

const WIDTH: f64 = 860.0;
/// Left edge of the bars, and the length of the longest.
const LEFT: f64 = 230.0;
const LONGEST: f64 = 480.0;
const ROW: f64 = 20.0;
const HEAD: f64 = 34.0;
const GAP: f64 = 14.0;
const SUBJECT: &str = "#2166ac";
const LIMIT: &str = "#bdbdbd";
const OTHER: &str = "#92c5de";

impl Report {
    /// The whole report as SVG.
    pub(super) fn plot(&self) -> String {
        let drawn = || self.cases.iter().filter(|case| !case.bars().is_empty());
        let height: f64 = drawn().map(CaseReport::height).sum::<f64>() + GAP;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        let mut top = 0.0;
        for case in drawn() {
            case.draw(top, &mut svg);
            top += case.height();
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// The rate of one contender in the unit of its case.
struct Drawn<'a> {
    track: &'a Track,
    rate: Spread,
}

impl CaseReport {
    /// Whether the unit is files/s, for small or empty files; otherwise it is Gbit/s.
    fn by_files(&self) -> bool {
        const SMALL_BYTES: u64 = 128 << 10;
        let first = self.tracks.first();
        first.is_some_and(|track| track.bytes < track.files.saturating_mul(SMALL_BYTES))
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn bars(&self) -> Vec<Drawn<'_>> {
        let by_files = self.by_files();
        let mut bars = Vec::new();
        for track in &self.tracks {
            let amount = if by_files {
                track.files as f64
            } else {
                track.bytes as f64 * 8e-9
            };
            let rates = track
                .counted()
                .map(|sample| amount / sample.outcome.seconds);
            if let Some(rate) = Spread::of(rates) {
                bars.push(Drawn { track, rate });
            }
        }
        bars
    }

    #[expect(clippy::cast_precision_loss, reason = "a few dozen rows")]
    fn height(&self) -> f64 {
        HEAD + ROW * self.bars().len() as f64 + GAP
    }

    fn draw(&self, top: f64, svg: &mut String) {
        let bars = self.bars();
        let unit = if self.by_files() { "files/s" } else { "Gbit/s" };
        let longest = bars.iter().map(|bar| bar.rate.max).fold(0.0, f64::max);
        let scale = LONGEST / longest.max(f64::MIN_POSITIVE);
        let _ = writeln!(
            svg,
            "<text x=\"8\" y=\"{}\" font-weight=\"bold\">{}, {unit}</text>",
            top + 20.0,
            escaped(&self.title)
        );
        let mut y = top + HEAD;
        for bar in &bars {
            bar.draw(y, scale, svg);
            y += ROW;
        }
    }
}

impl Drawn<'_> {
    fn draw(&self, y: f64, scale: f64, svg: &mut String) {
        let Spread {
            median, min, max, ..
        } = self.rate;
        let kind = self.track.contender;
        let colour = if kind.name().starts_with("godwit") {
            SUBJECT
        } else if kind.is_limit() {
            LIMIT
        } else {
            OTHER
        };
        let middle = y + ROW / 2.0 - 2.0;
        let (from, to) = (LEFT + min * scale, LEFT + max * scale);
        let digits = if median >= 100.0 { 0 } else { 2 };
        let (high, low) = (middle - 4.0, middle + 4.0);
        let _ = writeln!(
            svg,
            "<text x=\"{0}\" y=\"{low}\" text-anchor=\"end\">{1}</text>\
             <rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{2:.1}\" height=\"{3}\" fill=\"{colour}\"/>\
             <path d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {high:.1}V{low:.1}M{to:.1} {high:.1}V{low:.1}\" \
             stroke=\"black\" fill=\"none\"/>\
             <text x=\"{4:.1}\" y=\"{low}\">{median:.digits$}</text>",
            LEFT - 8.0,
            escaped(&self.track.title),
            median * scale,
            ROW - 4.0,
            to + 6.0,
        );
    }
}

/// `text`, escaped for XML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
