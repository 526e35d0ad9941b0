//! Draws the samples of a job: lines over time, the bottleneck over time, and small histograms.
//! Chooses no figure but for the page of a report.

use std::fmt::{Result, Write as _};

use godwit_api::rest::SampleView;

use super::{escape, rate_text};
use crate::report::seconds;

/// Width and height of a plot, in SVG units.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 90.0;

/// Height of the strip that shows the bottleneck.
const STRIP_HEIGHT: f64 = 22.0;

/// Distinct colours for bottlenecks; further bottlenecks reuse them from the first.
const COLOURS: [&str; 8] = [
    "#2a9d8f", "#e9c46a", "#e76f51", "#457b9d", "#9b5de5", "#f15bb5", "#8d99ae", "#6a994e",
];

/// The figures of a sample that have plots: title, name, and how they are shown.
const HOST_PLOTS: [(&str, &str, Shown); 11] = [
    ("Processors, user", "cpu_user", Shown::Part),
    ("Processors, system", "cpu_system", Shown::Part),
    ("Processors, interrupts", "cpu_interrupts", Shown::Part),
    ("Busiest core", "cpu_busiest_core", Shown::Part),
    (
        "Context switches",
        "context_switches_per_second",
        Shown::Number,
    ),
    ("Softirqs", "softirqs_per_second", Shown::Number),
    ("Disks, read", "disk_read_bytes_per_second", Shown::Rate),
    (
        "Disks, written",
        "disk_written_bytes_per_second",
        Shown::Rate,
    ),
    (
        "Network, received",
        "network_received_bytes_per_second",
        Shown::Rate,
    ),
    (
        "Network, sent",
        "network_sent_bytes_per_second",
        Shown::Rate,
    ),
    ("Processor packages, watts", "package_watts", Shown::Number),
];

/// How a figure is shown.
#[derive(Clone, Copy)]
enum Shown {
    Part,
    Rate,
    Number,
}

impl Shown {
    fn text(self, value: f64) -> String {
        match self {
            Self::Part => format!("{:.0} %", value * 100.0),
            Self::Rate => rate_text(value),
            Self::Number => format!("{value:.0}"),
        }
    }
}

/// A value of a sample at a time, with its attempt.
type Point = (f64, f64, u32);

/// Draws all plots of a report.
pub(super) fn all(page: &mut String, samples: &[SampleView]) -> Result {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Ok(());
    };
    if samples.len() < 2 {
        return Ok(());
    }
    write!(
        page,
        "<h2>Over time</h2><p><small>From {} to {}.</small></p>",
        first.at.utc(),
        last.at.utc()
    )?;
    let time = TimeAxis {
        start: seconds(first.at.0),
        width: (seconds(last.at.0) - seconds(first.at.0)).max(1e-3),
    };
    bottlenecks(page, samples, &time)?;
    page.push_str("<div class=\"plots\">");
    let mut attempt = None;
    let rates: Vec<Point> = samples
        .iter()
        .filter_map(|sample| {
            // The first sample of an attempt has nothing to compare with.
            let has_rate = attempt.replace(sample.attempt) == Some(sample.attempt);
            has_rate.then(|| point(sample, sample.bytes_per_second))
        })
        .collect();
    line(page, "Rate", &[rates], &time, Shown::Rate)?;
    let streams = samples
        .iter()
        .map(|sample| point(sample, sample.streams.into()));
    line(page, "Streams", &[streams.collect()], &time, Shown::Number)?;
    for (title, name, shown) in HOST_PLOTS {
        line(page, title, &[host(samples, name)], &time, shown)?;
    }
    let cores: Vec<Vec<Point>> = (0..)
        .map(|core| host(samples, &format!("cpu_core_{core}")))
        .take_while(|points| !points.is_empty())
        .collect();
    line(page, "Each core", &cores, &time, Shown::Part)?;
    page.push_str("</div>");
    Ok(())
}

/// Start of a plot, and its width in seconds.
struct TimeAxis {
    start: f64,
    width: f64,
}

impl TimeAxis {
    fn x(&self, at: f64) -> f64 {
        (at - self.start) / self.width * WIDTH
    }
}

fn point(sample: &SampleView, value: f64) -> Point {
    (seconds(sample.at.0), value, sample.attempt)
}

fn host(samples: &[SampleView], name: &str) -> Vec<Point> {
    let value = |sample: &SampleView| Some(point(sample, *sample.host.get(name)?));
    samples.iter().filter_map(value).collect()
}

fn line(
    page: &mut String,
    title: &str,
    lines: &[Vec<Point>],
    time: &TimeAxis,
    shown: Shown,
) -> Result {
    let values = lines.iter().flatten().map(|point| point.1);
    let Some(max) = values.reduce(f64::max) else {
        return Ok(());
    };
    write!(
        page,
        "<figure><figcaption>{title}, up to {}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">",
        escape(&shown.text(max))
    )?;
    // Attempts are lines of their own: between them nothing ran.
    for line in lines
        .iter()
        .flat_map(|line| line.chunk_by(|a, b| a.2 == b.2))
    {
        page.push_str("<polyline points=\"");
        for (at, value, _) in line {
            let y = HEIGHT - 2.0 - value / max.max(1e-9) * (HEIGHT - 4.0);
            write!(page, "{:.1},{y:.1} ", time.x(*at))?;
        }
        page.push_str("\"/>");
    }
    page.push_str("</svg></figure>");
    Ok(())
}

/// A strip with a colour for each bottleneck; nothing is where nothing limited the transfer.
fn bottlenecks(page: &mut String, samples: &[SampleView], time: &TimeAxis) -> Result {
    let mut stages: Vec<&str> = samples
        .iter()
        .filter_map(|sample| sample.bottleneck.as_deref())
        .collect();
    stages.sort_unstable();
    stages.dedup();
    if stages.is_empty() {
        return Ok(());
    }
    let colour = |stage: &str| {
        let place = stages.iter().position(|known| *known == stage);
        COLOURS[place.unwrap_or(0) % COLOURS.len()]
    };
    write!(
        page,
        "<figure><figcaption>Bottleneck</figcaption><svg class=\"strip\" viewBox=\"0 0 {WIDTH} {STRIP_HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Bottleneck\">"
    )?;
    let key = |sample: &SampleView| (sample.attempt, sample.bottleneck.clone());
    let mut from = 0;
    for run in samples.chunk_by(|a, b| key(a) == key(b)) {
        let next = from + run.len();
        // Up to the next sample of the attempt: the bottleneck lasts until then.
        let until = samples
            .get(next)
            .filter(|sample| sample.attempt == run[0].attempt);
        let end = until.unwrap_or(&run[run.len() - 1]);
        from = next;
        let Some(stage) = &run[0].bottleneck else {
            continue;
        };
        let (x, to) = (time.x(seconds(run[0].at.0)), time.x(seconds(end.at.0)));
        write!(
            page,
            "<rect x=\"{x:.1}\" width=\"{:.1}\" height=\"{STRIP_HEIGHT}\" fill=\"{}\"/>",
            (to - x).max(0.5),
            colour(stage)
        )?;
    }
    page.push_str("</svg><p>");
    for stage in &stages {
        write!(
            page,
            "<span class=\"key\" style=\"background:{}\"></span>{} ",
            colour(stage),
            escape(stage)
        )?;
    }
    page.push_str("</p></figure>");
    Ok(())
}

/// Bars of equal steps from the least to the greatest value.
pub(super) fn histogram(page: &mut String, counts: &[u64]) -> Result {
    const STEP: f64 = 8.0;
    const TOP: f64 = 20.0;
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let width = STEP * crate::report::float(counts.len() as u64);
    write!(
        page,
        "<svg class=\"bars\" viewBox=\"0 0 {width} {TOP}\" role=\"img\" aria-label=\"Distribution\">"
    )?;
    for (place, count) in (0_u64..).zip(counts) {
        let height = crate::report::float(*count) / crate::report::float(most) * TOP;
        write!(
            page,
            "<rect x=\"{}\" y=\"{:.1}\" width=\"7\" height=\"{height:.1}\"/>",
            STEP * crate::report::float(place),
            TOP - height
        )?;
    }
    page.push_str("</svg>");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use godwit_api::rest::Timestamp;

    use super::*;

    fn sample(second: i64, attempt: u32, bottleneck: Option<&str>) -> SampleView {
        SampleView {
            at: Timestamp(second * 1_000),
            attempt,
            bytes_per_second: 5.0,
            bottleneck: bottleneck.map(str::to_owned),
            host: BTreeMap::from([("cpu_core_0".to_owned(), 0.5)]),
            ..SampleView::default()
        }
    }

    #[test]
    fn a_bottleneck_has_one_bar_for_as_long_as_it_lasts() {
        let samples = [
            sample(0, 1, None),
            sample(1, 1, Some("network")),
            sample(2, 1, Some("network")),
            sample(3, 1, Some("<disk>")),
            sample(9, 2, Some("network")),
        ];
        let mut page = String::new();
        all(&mut page, &samples).expect("text");
        assert_eq!(page.matches("<rect").count(), 3, "{page}");
        assert_eq!(page.matches("class=\"key\"").count(), 2, "{page}");
        assert!(
            page.contains("&lt;disk&gt;") && !page.contains("<disk>"),
            "{page}"
        );
        // Two attempts are two lines; a rate needs two samples of one attempt.
        let figure = |title: &str| {
            let (_, rest) = page
                .split_once(&format!("aria-label=\"{title}\""))
                .expect("drawn");
            rest.split("</svg>")
                .next()
                .expect("it ends")
                .matches("<polyline")
                .count()
        };
        assert_eq!(
            (figure("Streams"), figure("Rate"), figure("Each core")),
            (2, 1, 2)
        );
        assert!(!page.contains("Disks"), "{page}");
    }

    #[test]
    fn the_highest_bar_is_that_of_most_samples() {
        let mut page = String::new();
        histogram(&mut page, &[1, 4, 0]).expect("text");
        let heights: Vec<&str> = page.split(" height=\"").skip(1).collect();
        assert!(
            heights[0].starts_with("5.0") && heights[1].starts_with("20.0"),
            "{page}"
        );
        assert!(heights[2].starts_with("0.0"), "{page}");
    }
}
