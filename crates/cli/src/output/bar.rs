//! The bar on a terminal: two lines that fit its width.
//! Its text is the same as a plain line's.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::event::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use rustix::termios::tcgetwinsize;

use super::connection::Lost;
use super::fit::fit;
use super::plain::PlainLines;

/// A bar, drawn on standard error.
pub(super) struct Bar {
    bar: ProgressBar,
    known: ProgressStyle,
    narrow: ProgressStyle,
    unknown: ProgressStyle,
    text: Arc<Mutex<Text>>,
    /// Before the first progress, a line above the bar must not draw the bar.
    shown: bool,
}

/// The second line.
#[derive(Default)]
struct Text {
    circumstances: String,
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
            known: style("{bar:16} {percent:>3}% {prefix}\n{second}"),
            narrow: style("{percent:>3}% {prefix}\n{second}"),
            unknown: style("{spinner} {prefix}\n{second}"),
            text,
            shown: false,
        }
    }

    /// Draws the progress of the transfer.
    pub(super) fn progress(&mut self, progress: &Progress) {
        self.shown = true;
        let (amounts, columns) = (PlainLines.amounts(progress), columns());
        // The text of the bar changes before the draw.
        self.text().circumstances = PlainLines.circumstances(progress);
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
        if is_lost {
            self.bar.enable_steady_tick(TICK_EVERY);
        } else {
            self.bar.disable_steady_tick();
        }
    }

    /// Prints a line above the bar.
    pub(super) fn line(&self, line: &str) {
        // Not the bar's println, which prints nothing if the bar is not drawn.
        if self.shown {
            self.bar.suspend(|| super::say(line));
        } else {
            super::say(line);
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
    fn second(&self, now: Instant, columns: usize) -> String {
        match &self.lost {
            Some(lost) => fit(
                &format!("{}, {}", lost.phrase(now), self.circumstances),
                columns,
            ),
            None => fit(&self.circumstances, columns),
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
            "second",
            move |_: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
                let text = text.lock().unwrap_or_else(PoisonError::into_inner);
                // Writing to a String cannot fail.
                let _ = out.write_str(&text.second(Instant::now(), columns()));
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
        let text = Text {
            circumstances: "12 files, 0 streams".to_owned(),
            lost: Some(Lost::of(&event, now)),
        };
        assert_eq!(
            text.second(now, 80),
            "connection lost, retrying (12 s of 5 min), 12 files, 0 streams"
        );
        assert_eq!(
            text.second(now, 60),
            "connection lost, retrying (12 s of 5 min), 12 files …"
        );
    }
}
