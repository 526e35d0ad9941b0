//! Owns the bar on a terminal: two lines that fit its width, and a third line with the name of a file that is being copied.
//! Its text is the same as a plain line's.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::event::Progress;
use godwit_api::shown::printable;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use rustix::termios::tcgetwinsize;

use super::connection::Lost;
use super::fit::{fit, fit_name};
use super::plain::PlainLines;
use super::to::{self, To};

/// A bar, drawn on standard error.
pub(super) struct Bar {
    bar: ProgressBar,
    known: ProgressStyle,
    narrow: ProgressStyle,
    unknown: ProgressStyle,
    text: Arc<Mutex<Text>>,
    /// Before the first progress, a line above the bar must not draw the bar.
    shown: bool,
    /// All bars, if there is one a destination.
    all: Option<MultiProgress>,
}

/// The second and the third line.
#[derive(Default)]
struct Text {
    circumstances: String,
    /// The name of a file, safe to show; empty for none.
    name: String,
    lost: Option<Lost>,
}

/// Columns of the bar and the percentage before the amounts.
const BAR_COLUMNS: usize = 22;
/// Columns of the percentage alone.
const PERCENT_COLUMNS: usize = 5;
/// Columns of the spinner.
const SPINNER_COLUMNS: usize = 2;
/// Width if the terminal does not report one.
const COLUMNS_USUAL: usize = 80;
/// Interval of redraws without any event: twice as often as the seconds change.
const TICK_EVERY: Duration = Duration::from_millis(500);

impl Bar {
    pub(super) fn new() -> Self {
        let text = Arc::new(Mutex::new(Text::default()));
        let style = |template| style(template, &text);
        Self {
            // However the program ends, no half-drawn bar remains.
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
                .with_finish(ProgressFinish::AndClear),
            known: style("{bar:16} {percent:>3}% {prefix}\n{others}"),
            narrow: style("{percent:>3}% {prefix}\n{others}"),
            unknown: style("{spinner} {prefix}\n{others}"),
            text,
            shown: false,
            all: None,
        }
    }

    /// One of several bars, of one line each that begins with `name`.
    pub(super) fn among(all: &MultiProgress, name: &str) -> Self {
        let single = Self::new();
        let of = |template: &str| style(&format!("{{msg}} {template}"), &single.text);
        let (known, unknown) = (of("{percent:>3}% {prefix}"), of("{spinner} {prefix}"));
        let bar = all.add(ProgressBar::no_length().with_finish(ProgressFinish::AndClear));
        bar.set_style(unknown.clone());
        bar.set_message(name.to_owned());
        Self {
            bar,
            known: known.clone(),
            narrow: known,
            unknown,
            all: Some(all.clone()),
            ..single
        }
    }

    /// Draws the progress of the transfer.
    pub(super) fn progress(&mut self, progress: &Progress, to: Option<&To>) {
        self.shown = true;
        let (mut amounts, mut columns) = (PlainLines.amounts(progress), columns());
        if let Some(to) = to {
            columns = columns.saturating_sub(to.name().chars().count() + 1);
            if let Some(lost) = &self.text().lost {
                amounts = lost.phrase(Instant::now());
            } else if to.is_behind() {
                amounts.push_str(to::BEHIND);
            }
        }
        // The text of the bar changes before the draw.
        let mut text = self.text();
        text.circumstances = PlainLines.circumstances(progress);
        text.name = printable(&String::from_utf8_lossy(&progress.name));
        drop(text);
        let taken = match progress.bytes_total {
            Some(_) if amounts.chars().count() + BAR_COLUMNS <= columns => {
                self.bar.set_style(self.known.clone());
                BAR_COLUMNS
            }
            Some(_) => {
                self.bar.set_style(self.narrow.clone());
                PERCENT_COLUMNS
            }
            None => {
                self.bar.set_style(self.unknown.clone());
                self.bar.tick();
                SPINNER_COLUMNS
            }
        };
        if let Some(total) = progress.bytes_total {
            self.bar.set_length(total);
            self.bar.set_position(progress.bytes.min(total));
        }
        self.bar
            .set_prefix(fit(&amounts, columns.saturating_sub(taken)));
    }

    /// Shows or removes a loss of the connection.
    pub(super) fn lost(&mut self, lost: Option<Lost>) {
        let is_lost = lost.is_some();
        self.text().lost = lost;
        if !self.shown {
            return;
        }
        // Each of several bars shows a loss at its next progress.
        if is_lost && self.all.is_none() {
            self.bar.enable_steady_tick(TICK_EVERY);
        } else {
            self.bar.disable_steady_tick();
        }
    }

    /// Prints a line above the bar.
    pub(super) fn line(&self, line: &str) {
        // Not the bar's println, which prints nothing if the bar is not drawn.
        if self.shown && self.all.is_none() {
            self.bar.suspend(|| super::say(line));
        } else {
            self.around(|| super::say(line));
        }
    }

    /// Prints while no other bar is drawn.
    pub(super) fn around(&self, print: impl FnOnce()) {
        match &self.all {
            Some(all) => all.suspend(print),
            None => print(),
        }
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }

    fn text(&self) -> std::sync::MutexGuard<'_, Text> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Text {
    fn others(&self, now: Instant, columns: usize) -> String {
        match &self.lost {
            Some(lost) => fit(
                &format!("{}, {}", lost.phrase(now), self.circumstances),
                columns,
            ),
            None if self.name.is_empty() => fit(&self.circumstances, columns),
            None => {
                let second = fit(&self.circumstances, columns);
                format!("{second}\n{}", fit_name(&self.name, columns))
            }
        }
    }
}

/// Columns of the terminal that the bar is on.
fn columns() -> usize {
    match tcgetwinsize(rustix::stdio::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => COLUMNS_USUAL,
    }
}

fn style(template: &str, text: &Arc<Mutex<Text>>) -> ProgressStyle {
    let text = Arc::clone(text);
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_unreadable| ProgressStyle::default_bar())
        .with_key(
            "others",
            move |_: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
                let text = text.lock().unwrap_or_else(PoisonError::into_inner);
                // Writing to a String cannot fail.
                let _ = out.write_str(&text.others(Instant::now(), columns()));
            },
        )
}

#[cfg(test)]
mod tests {
    use godwit_api::event::ConnectionLost;

    use super::*;

    #[test]
    fn a_loss_comes_first_on_the_second_line_and_fits() {
        let now = Instant::now();
        let event = ConnectionLost {
            lost_seconds: 12.0,
            retry_for_seconds: 300.0,
            ..ConnectionLost::default()
        };
        let mut text = Text {
            circumstances: "12 files, 0 streams".to_owned(),
            name: "run42/d/a.h5".to_owned(),
            lost: Some(Lost::of(&event, now)),
        };
        assert_eq!(
            text.others(now, 80),
            "connection lost, retrying (12 s of 5 min), 12 files, 0 streams"
        );
        assert_eq!(
            text.others(now, 60),
            "connection lost, retrying (12 s of 5 min), 12 files …"
        );
        // No file is being copied at this time.
        text.lost = None;
        assert_eq!(text.others(now, 80), "12 files, 0 streams\nrun42/d/a.h5");
        assert_eq!(text.others(now, 9), "…\n…2/d/a.h5");
    }
}
