//! The bar on a terminal.
//! Its text is the same as a plain line's.

use super::Progress;
use super::plain::PlainLines;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar, drawn on standard error.
pub(super) struct Bar {
    bar: ProgressBar,
    known: ProgressStyle,
    unknown: ProgressStyle,
}

impl Bar {
    pub(super) fn new() -> Self {
        Self {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            known: style("{bar:24} {percent:>3}% {wide_msg}"),
            unknown: style("{spinner} {wide_msg}"),
        }
    }

    /// Draws where the transfer is.
    pub(super) fn progress(&self, progress: &Progress<'_>, rate: Option<f64>) {
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
        self.bar.set_message(PlainLines.progress(progress, rate));
    }

    /// A line above the bar.
    pub(super) fn line(&self, line: &str) {
        // Not the bar's own println: that says nothing where the bar is not drawn.
        self.bar.suspend(|| super::say(line));
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
