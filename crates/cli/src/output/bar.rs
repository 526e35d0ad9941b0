//! The bar on a terminal.
//! Its text is the same as a plain line's, on two lines, so that a narrow terminal cuts off nothing that matters.

use super::plain::PlainLines;
use godwit_api::event::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// A bar, drawn on standard error.
pub(super) struct Bar {
    bar: ProgressBar,
    known: ProgressStyle,
    unknown: ProgressStyle,
    /// Before there is something to show, a line above the bar must not draw it.
    shown: bool,
}

impl Bar {
    pub(super) fn new() -> Self {
        Self {
            // Whatever ends the program, no half-drawn bar stays behind.
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
                .with_finish(ProgressFinish::AndClear),
            known: style("{bar:16} {percent:>3}% {prefix}\n{wide_msg}"),
            unknown: style("{spinner} {prefix}\n{wide_msg}"),
            shown: false,
        }
    }

    /// Draws where the transfer is.
    pub(super) fn progress(&mut self, progress: &Progress) {
        self.shown = true;
        match progress.bytes_total {
            Some(total) => {
                self.bar.set_style(self.known.clone());
                self.bar.set_length(total);
                self.bar.set_position(progress.bytes.min(total));
            }
            None => {
                self.bar.set_style(self.unknown.clone());
                self.bar.tick();
            }
        }
        self.bar.set_prefix(PlainLines.amounts(progress));
        self.bar.set_message(PlainLines.circumstances(progress));
    }

    /// A line above the bar.
    pub(super) fn line(&self, line: &str) {
        // Not the bar's own println: that says nothing where the bar is not drawn.
        if self.shown {
            self.bar.suspend(|| super::say(line));
        } else {
            super::say(line);
        }
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_unreadable| ProgressStyle::default_bar())
}
