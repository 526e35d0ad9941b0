//! Aligned tables, cut to the width of the terminal.
//! Knows what a job's row shows; its words come from `words`.

use godwit_api::rest::{JobView, own_place};
use rustix::termios::{isatty, tcgetwinsize};

use super::when::Clock;
use super::words;
use crate::output::printable;

/// Between two columns.
const GAP: &str = "  ";

/// The longest label in a table; `job show` prints the whole label.
const LABEL_SIGNS: usize = 20;

/// The width of the terminal on standard output; None without a terminal.
pub(super) fn width() -> Option<usize> {
    let out = rustix::stdio::stdout();
    isatty(out)
        .then(|| tcgetwinsize(out).ok())
        .flatten()
        .map(|size| usize::from(size.ws_col))
        .filter(|width| *width > 0)
}

/// The height of the terminal on standard output; None without a terminal.
pub(super) fn height() -> Option<usize> {
    let out = rustix::stdio::stdout();
    isatty(out)
        .then(|| tcgetwinsize(out).ok())
        .flatten()
        .map(|size| usize::from(size.ws_row))
        .filter(|height| *height > 0)
}

/// A row for each job, and below it the reason of its wait.
pub(super) fn jobs(jobs: &[JobView], clock: &Clock, width: Option<usize>) -> String {
    let head = ["ID", "STATE", "DONE", "RATE", "LEFT", "LABEL", "FROM -> TO"];
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            vec![
                printable(&job.id),
                words::state_of(job),
                words::done(job),
                words::rate(job),
                words::left(job),
                cut(&printable(&job.label), Some(LABEL_SIGNS)),
                words::places(job),
            ]
        })
        .collect();
    let lines = aligned(&head, &rows);
    let mut out = vec![cut(&lines[0], width)];
    for (job, line) in jobs.iter().zip(&lines[1..]) {
        out.push(cut(line, width));
        if let Some(why) = words::why(job, clock) {
            out.push(cut(&format!("{GAP}{GAP}{why}"), width));
        }
    }
    out.join("\n")
}

/// The jobs of several destinations or gathered sources, one line each; jobs that wait or failed say why.
pub(super) fn destinations(jobs: &[JobView], clock: &Clock) -> String {
    let head = [
        "JOB",
        "STATE",
        "DONE",
        "RATE",
        "LEFT",
        "LIMITED BY",
        "PLACE",
    ];
    let row = |job: &JobView| {
        vec![
            printable(&job.id),
            words::state_of(job),
            words::done(job),
            words::rate(job),
            words::left(job),
            words::limited(job),
            printable(own_place(job, jobs)),
        ]
    };
    let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    let (lines, width) = (aligned(&head, &rows), width());
    let mut out = vec![cut(&lines[0], width)];
    for (job, line) in jobs.iter().zip(&lines[1..]) {
        out.push(cut(line, width));
        let why = words::why(job, clock);
        out.extend(why.map(|why| cut(&format!("{GAP}{GAP}{why}"), width)));
    }
    out.join("\n")
}

/// Rows below a head, cut to the width.
pub(super) fn plain(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = width();
    let lines = aligned(head, rows);
    let lines: Vec<String> = lines.iter().map(|line| cut(line, width)).collect();
    lines.join("\n")
}

/// Lines of columns; an empty column is left out.
fn aligned(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let signs = |text: &str| text.chars().count();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let widest = rows.iter().map(|row| signs(&row[column])).max();
            match widest.unwrap_or(0) {
                0 => 0,
                widest => widest.max(signs(head[column])),
            }
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .filter(|(_, width)| **width > 0)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        padded.join(GAP).trim_end().to_owned()
    };
    let first = line(&mut head.iter().copied());
    let others = rows
        .iter()
        .map(|row| line(&mut row.iter().map(String::as_str)));
    std::iter::once(first).chain(others).collect()
}

/// The text, cut to this width.
pub(super) fn cut(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if text.chars().count() > width => {
            let kept: String = text.chars().take(width.saturating_sub(1)).collect();
            format!("{kept}…")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "", "long ä"]), row(["bcd", "", "x"])];
        assert_eq!(
            aligned(&["ID", "RATE", "TO"], &rows),
            ["ID   TO", "a    long ä", "bcd  x"]
        );
    }

    #[test]
    fn a_line_is_cut_to_the_width_in_signs() {
        assert_eq!(cut("äöüß", Some(4)), "äöüß");
        assert_eq!(cut("äöüßa", Some(4)), "äöü…");
        assert_eq!(cut("äöüßa", None), "äöüßa");
    }
}
