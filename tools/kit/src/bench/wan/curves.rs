//! Owns the picture of a row: rate, streams, round trips and memory over time, with a curve for each flow of a
//! round. The code draws the curves itself, because they need no library.

use std::fmt::Write as _;

use super::flow::Trace;
use super::report::RowReport;
use super::turn::Course;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const PANEL: f64 = 120.0;
const GAP: f64 = 34.0;
const TOP: f64 = 30.0;
const KEY: f64 = 18.0;
/// Interval between two points of a rate.
const STEP_SECONDS: f64 = 0.5;
/// Godwit's colour first, then the others; readers with colour blindness can distinguish them.
const COLOURS: [&str; 8] = [
    "#2166ac", "#d95f02", "#7570b3", "#1b9e77", "#e7298a", "#a6761d", "#666666", "#66a61e",
];

/// One curve of a panel.
struct Curve<'a> {
    title: &'a str,
    points: Vec<(f64, f64)>,
}

impl RowReport {
    /// The picture as SVG, on white, for any page.
    pub(crate) fn picture(&self) -> String {
        let shown = self.shown();
        let flows: Vec<(&Course, &Trace)> = shown
            .iter()
            .copied()
            .flat_map(|course| course.flows.iter().map(move |flow| (course, flow)))
            .collect();
        let end = flows.iter().map(|(_, flow)| flow.ended).fold(1.0, f64::max);
        let mut panels: Vec<(&str, Vec<Curve<'_>>)> = Vec::new();
        let of = |points: &dyn Fn(&Trace) -> Vec<(f64, f64)>| -> Vec<Curve<'_>> {
            let curve = |(_, flow): &(&Course, &'_ Trace)| points(flow);
            flows
                .iter()
                .map(|pair| Curve {
                    title: &pair.1.title,
                    points: curve(pair),
                })
                .collect()
        };
        panels.push((
            "Gbit/s",
            of(&|flow| flow.arrived.rates(STEP_SECONDS, flow.arrived.end())),
        ));
        let cables: Vec<Curve<'_>> = shown
            .last()
            .copied()
            .into_iter()
            .flat_map(|course| &course.cables)
            .map(|(name, sent)| Curve {
                title: name,
                points: sent.rates(STEP_SECONDS, sent.end()),
            })
            .collect();
        let has_cables = !cables.is_empty();
        if has_cables {
            panels.push(("Gbit/s, by cable", cables));
        }
        panels.push(("streams", of(&|flow| flow.seen.streams.clone())));
        panels.push(("RTT, ms", of(&|flow| flow.seen.rtt_ms.clone())));
        panels.push(("memory, MiB", of(&|flow| flow.seen.memory_mib.clone())));
        self.draw(&panels, end)
    }

    #[expect(clippy::cast_precision_loss, reason = "a few panels")]
    fn draw(&self, panels: &[(&str, Vec<Curve<'_>>)], end: f64) -> String {
        let keys = |curves: &[Curve<'_>]| KEY * curves.len().div_ceil(4) as f64;
        let height: f64 = TOP
            + panels
                .iter()
                .map(|(_, curves)| PANEL + GAP + keys(curves))
                .sum::<f64>();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"8\" y=\"20\" font-weight=\"bold\">{}</text>\n",
            super::super::report::escaped(&self.title)
        );
        let mut top = TOP;
        for (unit, curves) in panels {
            panel(unit, curves, top, end, &mut svg);
            top += PANEL + GAP + keys(curves);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few curves")]
fn panel(unit: &str, curves: &[Curve<'_>], top: f64, end: f64, svg: &mut String) {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let most = points().map(|&(_, value)| value).fold(0.0, f64::max);
    let most = if most > 0.0 { most * 1.05 } else { 1.0 };
    let width = WIDTH - LEFT - RIGHT;
    let bottom = top + PANEL;
    let x = |seconds: f64| LEFT + seconds / end * width;
    let y = |value: f64| bottom - value / most * PANEL;
    let digits = if most >= 20.0 { 0 } else { 2 };
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {top}V{bottom}H{}\" stroke=\"#888888\" fill=\"none\"/>\
         <text x=\"{1}\" y=\"{2}\" text-anchor=\"end\">{most:.digits$}</text>\
         <text x=\"{1}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\
         <text x=\"{3}\" y=\"{2}\" font-weight=\"bold\">{unit}</text>\
         <text x=\"{4}\" y=\"{5}\" text-anchor=\"end\">{end:.0} s</text>",
        WIDTH - RIGHT,
        LEFT - 6.0,
        top + 10.0,
        LEFT + 6.0,
        WIDTH - RIGHT,
        bottom + 14.0,
    );
    for (number, curve) in curves.iter().enumerate() {
        // Godwit's curve is the last one.
        let colour = COLOURS[(curves.len() - 1 - number) % COLOURS.len()];
        let mut path = String::new();
        for &(at, value) in &curve.points {
            let to = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{to}{:.1} {:.1}", x(at), y(value));
        }
        if !path.is_empty() {
            let _ = writeln!(
                svg,
                "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"1.5\" fill=\"none\"/>"
            );
        }
        let (column, line) = ((number % 4) as f64, (number / 4) as f64);
        let (key_x, key_y) = (LEFT + column * 190.0, bottom + 16.0 + KEY * line);
        let _ = writeln!(
            svg,
            "<path d=\"M{key_x} {0}h16\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"{1}\" y=\"{key_y}\">{2}</text>",
            key_y - 4.0,
            key_x + 22.0,
            super::super::report::escaped(curve.title)
        );
    }
}
