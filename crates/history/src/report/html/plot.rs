//! Draws the samples of a job: lines over time, the bottleneck over time, and small histograms.
//! Owns no scale (`axis`), and chooses no figure but for the page of a report.

use std::collections::BTreeSet;
use std::fmt::{Result, Write as _};

use godwit_api::rest::{Bottleneck, SampleView};

use super::axis::{Shown, TimeAxis, ValueAxis};
use super::{escape, figure};
use crate::report::hosts::HostSeen;
use crate::report::{float, seconds};

/// Width and height of a plot, and the borders of its area, in SVG units.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 118.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 330.0;
const UPPER: f64 = 8.0;
const LOWER: f64 = 100.0;

/// The strip that shows the bottleneck: its width, the height of the colours, and the height with the axis.
const STRIP_WIDTH: f64 = 720.0;
const STRIP_LOWER: f64 = 20.0;
const STRIP_HEIGHT: f64 = 36.0;

/// Distinct colours for bottlenecks and lines; further ones reuse them from the first.
const COLOURS: [&str; 8] = [
    "#2a9d8f", "#e9c46a", "#e76f51", "#457b9d", "#9b5de5", "#f15bb5", "#8d99ae", "#6a994e",
];

/// Most points of a line: about one for each unit of the plot's width.
const POINTS_MAX: usize = 300;

/// Hosts that have plots. The figures of others are in the report as JSON.
const HOSTS_MAX: usize = 32;

/// Lines of interfaces in a plot: another site chooses their names.
const INTERFACES_MAX: usize = 16;

/// Silence, in usual intervals of samples, that leaves a gap in a line.
const GAP: f64 = 4.0;

/// Title of a plot, form of its values, and each line with its figure.
type HostPlot = (&'static str, Shown, &'static [(&'static str, &'static str)]);

/// Plots of a host.
const HOST_PLOTS: [HostPlot; 8] = [
    (
        "Processors busy",
        Shown::Part,
        &[
            ("user", "cpu_user"),
            ("system", "cpu_system"),
            ("interrupts", "cpu_interrupts"),
            ("waiting for disks", "cpu_iowait"),
            ("stolen", "cpu_steal"),
        ],
    ),
    (
        "Busiest core",
        Shown::Part,
        &[("busiest core", "cpu_busiest_core")],
    ),
    (
        "Memory available",
        Shown::Bytes,
        &[("available", "memory_available_bytes")],
    ),
    (
        "Network of the machine",
        Shown::Rate,
        &[
            ("sent", "network_sent_bytes_per_second"),
            ("received", "network_received_bytes_per_second"),
        ],
    ),
    (
        "Packets",
        Shown::Each,
        &[
            ("sent", "network_sent_packets_per_second"),
            ("received", "network_received_packets_per_second"),
        ],
    ),
    (
        "Disks",
        Shown::Rate,
        &[
            ("read", "disk_read_bytes_per_second"),
            ("written", "disk_written_bytes_per_second"),
        ],
    ),
    (
        "Interrupts and switches",
        Shown::Each,
        &[
            ("interrupts", "interrupts_per_second"),
            ("softirqs", "softirqs_per_second"),
            ("context switches", "context_switches_per_second"),
        ],
    ),
    (
        "Power of the processors",
        Shown::Watts,
        &[("packages", "package_watts")],
    ),
];

/// A value at a time.
type Point = (f64, f64);

/// The parts of a line between its gaps.
type Line = Vec<Vec<Point>>;

/// Draws the plots of the samples and of these hosts.
pub(super) fn all(page: &mut String, samples: &[SampleView], found: &[HostSeen<'_>]) -> Result {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Ok(());
    };
    if samples.len() < 2 {
        return Ok(());
    }
    write!(
        page,
        "<h2>Over time</h2><p><small>From {} to {}; the times below the plots are UTC.</small></p>",
        first.at.utc(),
        last.at.utc()
    )?;
    bottlenecks(page, samples)?;
    let plots = Plots::new(samples);
    page.push_str("<div class=\"plots\">");
    let mut attempt = None;
    let rates = plots.line(|sample, _| {
        // The first sample of an attempt has nothing to compare with.
        let has_rate = attempt.replace(sample.attempt) == Some(sample.attempt);
        has_rate.then_some(sample.bytes_per_second)
    });
    plots.draw(page, "Rate", Shown::Rate, &[("", rates)])?;
    let streams = plots.line(|sample, _| Some(f64::from(sample.streams)));
    plots.draw(page, "Streams", Shown::Number, &[("", streams)])?;
    page.push_str("</div>");
    for host in found.iter().take(HOSTS_MAX) {
        self::host(page, &plots, host)?;
    }
    if found.len() > HOSTS_MAX {
        let more = found.len() - HOSTS_MAX;
        write!(page, "<p>{more} more hosts are in the report as JSON.</p>")?;
    }
    Ok(())
}

/// The plots of one host.
fn host(page: &mut String, plots: &Plots<'_>, host: &HostSeen<'_>) -> Result {
    write!(
        page,
        "<h3>Host of {}</h3><div class=\"plots\">",
        escape(&host.name)
    )?;
    let line = |name: &str| {
        plots.line(|_, place| {
            let figures = host.figures.get(place).copied().flatten();
            figures.and_then(|figures| figures.get(name).copied())
        })
    };
    for (title, shown, figures) in HOST_PLOTS {
        let lines = figures.iter().map(|(words, name)| (*words, line(name)));
        plots.draw(page, title, shown, &lines.collect::<Vec<_>>())?;
    }
    let cores = (0..).map(|core| ("", line(&format!("cpu_core_{core}"))));
    let cores: Vec<_> = cores.take_while(|(_, line)| !line.is_empty()).collect();
    plots.draw(page, "Each core", Shown::Part, &cores)?;
    let names = host
        .figures
        .iter()
        .copied()
        .flatten()
        .flat_map(|figures| figures.keys());
    let names: BTreeSet<(&str, &str)> = names.filter_map(|name| figure::interface(name)).collect();
    let words: Vec<String> = names
        .iter()
        .map(|(name, way)| format!("{name} {way}"))
        .collect();
    let lines = names.iter().zip(&words).map(|((name, way), words)| {
        let name = format!("interface_{name}_{way}_bytes_per_second");
        (words.as_str(), line(&name))
    });
    let lines: Vec<_> = lines.take(INTERFACES_MAX).collect();
    plots.draw(page, "Each interface", Shown::Rate, &lines)?;
    page.push_str("</div>");
    Ok(())
}

/// The samples of a job on one axis of time.
struct Plots<'a> {
    samples: &'a [SampleView],
    time: TimeAxis,
    /// A longer silence is a gap, in seconds.
    silent: f64,
}

impl<'a> Plots<'a> {
    fn new(samples: &'a [SampleView]) -> Self {
        let mut steps: Vec<f64> = samples
            .windows(2)
            .map(|pair| seconds(pair[1].at.0.saturating_sub(pair[0].at.0)))
            .collect();
        steps.sort_by(f64::total_cmp);
        let usual = steps.get(steps.len() / 2).copied().unwrap_or(0.0);
        Self {
            samples,
            time: time(samples, LEFT, RIGHT),
            silent: GAP * usual,
        }
    }

    /// The values over time. A line ends with its attempt, where values are missing, and before a long silence.
    fn line(&self, mut value: impl FnMut(&SampleView, usize) -> Option<f64>) -> Line {
        let mut line = Line::new();
        let mut before: Option<(f64, u32)> = None;
        for (place, sample) in self.samples.iter().enumerate() {
            let at = seconds(sample.at.0);
            let Some(value) = value(sample, place).filter(|value| value.is_finite()) else {
                before = None;
                continue;
            };
            let goes_on = before.is_some_and(|(then, attempt)| {
                attempt == sample.attempt && at - then <= self.silent.max(1e-3)
            });
            match line.last_mut().filter(|_| goes_on) {
                Some(part) => part.push((at, value)),
                None => line.push(vec![(at, value)]),
            }
            before = Some((at, sample.attempt));
        }
        let points: usize = line.iter().map(Vec::len).sum();
        let each = points.div_ceil(POINTS_MAX).max(1);
        line.iter().map(|part| thinned(part, each)).collect()
    }

    /// Draws lines with their words, if there are any.
    fn draw(&self, page: &mut String, title: &str, shown: Shown, lines: &[(&str, Line)]) -> Result {
        let lines: Vec<_> = lines.iter().filter(|(_, line)| !line.is_empty()).collect();
        let points = lines.iter().flat_map(|(_, line)| line.iter().flatten());
        let Some(max) = points.map(|point| point.1).reduce(f64::max) else {
            return Ok(());
        };
        let values = ValueAxis::of(max, shown, (UPPER, LOWER));
        write!(page, "<figure><figcaption>{title}")?;
        for (place, (words, _)) in lines.iter().enumerate() {
            if !words.is_empty() && lines.len() > 1 {
                key(page, place, words)?;
            }
        }
        write!(
            page,
            "</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">"
        )?;
        values.draw(page, LEFT, RIGHT)?;
        self.time.draw(page, LOWER)?;
        for (place, (_, line)) in lines.iter().enumerate() {
            let colour = colour(place);
            for part in line {
                self.part(page, part, &values, colour)?;
            }
        }
        page.push_str("</svg></figure>");
        Ok(())
    }

    /// Draws a line without gaps; one value alone is a point.
    fn part(&self, page: &mut String, part: &[Point], values: &ValueAxis, colour: &str) -> Result {
        if let [(at, value)] = part {
            return write!(
                page,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.5\" fill=\"{colour}\"/>",
                self.time.x(*at),
                values.y(*value)
            );
        }
        write!(page, "<polyline stroke=\"{colour}\" points=\"")?;
        for (at, value) in part {
            write!(page, "{:.1},{:.1} ", self.time.x(*at), values.y(*value))?;
        }
        page.push_str("\"/>");
        Ok(())
    }
}

fn time(samples: &[SampleView], left: f64, right: f64) -> TimeAxis {
    let at = |sample: Option<&SampleView>| sample.map_or(0.0, |sample| seconds(sample.at.0));
    let start = at(samples.first());
    TimeAxis {
        start,
        width: (at(samples.last()) - start).max(1e-3),
        left,
        right,
    }
}

/// The averages over groups of this number of points.
fn thinned(part: &[Point], each: usize) -> Vec<Point> {
    let average = |points: &[Point]| {
        let count = float(points.len() as u64);
        let sum = points.iter().fold((0.0, 0.0), |sum, point| {
            (sum.0 + point.0 / count, sum.1 + point.1 / count)
        });
        match points {
            [one] => *one,
            _ => sum,
        }
    };
    part.chunks(each).map(average).collect()
}

fn colour(place: usize) -> &'static str {
    COLOURS[place % COLOURS.len()]
}

fn key(page: &mut String, place: usize, words: &str) -> Result {
    write!(
        page,
        "<span class=\"key\" style=\"background:{}\"></span>{} ",
        colour(place),
        escape(words)
    )
}

/// A strip with a colour for each bottleneck; nothing is where nothing limited the transfer.
fn bottlenecks(page: &mut String, samples: &[SampleView]) -> Result {
    let stages: BTreeSet<Bottleneck> = samples
        .iter()
        .filter_map(|sample| sample.bottleneck)
        .collect();
    if stages.is_empty() {
        return Ok(());
    }
    let time = time(samples, 28.0, STRIP_WIDTH - 28.0);
    write!(
        page,
        "<figure><figcaption>Bottleneck</figcaption><svg class=\"strip\" viewBox=\"0 0 {STRIP_WIDTH} {STRIP_HEIGHT}\" role=\"img\" aria-label=\"Bottleneck\">"
    )?;
    let key_of = |sample: &SampleView| (sample.attempt, sample.bottleneck);
    let mut from = 0;
    for run in samples.chunk_by(|a, b| key_of(a) == key_of(b)) {
        let next = from + run.len();
        // Up to the next sample of the attempt: the bottleneck lasts until then.
        let until = samples
            .get(next)
            .filter(|sample| sample.attempt == run[0].attempt);
        let end = until.unwrap_or(&run[run.len() - 1]);
        from = next;
        let Some(stage) = run[0].bottleneck else {
            continue;
        };
        let place = stages.iter().position(|known| *known == stage);
        let (x, to) = (time.x(seconds(run[0].at.0)), time.x(seconds(end.at.0)));
        write!(
            page,
            "<rect x=\"{x:.1}\" width=\"{:.1}\" height=\"{STRIP_LOWER}\" fill=\"{}\"/>",
            (to - x).max(0.5),
            colour(place.unwrap_or(0))
        )?;
    }
    time.draw(page, STRIP_LOWER)?;
    page.push_str("</svg><p>");
    for (place, stage) in stages.iter().enumerate() {
        key(page, place, stage.words())?;
    }
    page.push_str("</p></figure>");
    Ok(())
}

/// Bars of equal steps from the least to the greatest value.
pub(super) fn histogram(page: &mut String, counts: &[u64]) -> Result {
    const STEP: f64 = 8.0;
    const TOP: f64 = 20.0;
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let width = STEP * float(counts.len() as u64);
    write!(
        page,
        "<svg class=\"bars\" viewBox=\"0 0 {width} {TOP}\" role=\"img\" aria-label=\"Distribution\">"
    )?;
    for (place, count) in (0_u64..).zip(counts) {
        let height = float(*count) / float(most) * TOP;
        write!(
            page,
            "<rect x=\"{}\" y=\"{:.1}\" width=\"7\" height=\"{height:.1}\"/>",
            STEP * float(place),
            TOP - height
        )?;
    }
    page.push_str("</svg>");
    Ok(())
}

#[cfg(test)]
mod tests;
