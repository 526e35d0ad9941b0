//! What a transfer tells its user: JSON lines, plain lines, or a bar on a terminal.
//! Decides nothing about the transfer; may be called from any thread.
//!
//! JSON lines, the list of entries and the summary go to standard output, everything else to standard error. A reader that went away
//! (`| head`) is no reason to stop a transfer: what can no longer be said is dropped.

mod bar;
mod channels;
mod json;
mod kept;
mod limited;
mod log;
mod plain;
mod rate;
mod stats;

use bar::Bar;
pub(crate) use channels::ChannelShown;
use channels::ChannelsTold;
use godwit_engine::Shares;
use json::JsonLines;
pub(crate) use kept::NotKept;
pub(crate) use limited::{Limited, LimitedTold};
pub(crate) use log::Log;
use plain::PlainLines;
pub(crate) use plain::printable;
pub(crate) use rate::Pace;
use rate::RecentRate;
use serde::Serialize;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a transfer says when it begins.
#[derive(Clone, Debug)]
pub(crate) struct Started<'a> {
    /// The transfer's id, in hexadecimal digits.
    pub(crate) transfer: &'a str,
    /// As they were named.
    pub(crate) sources: &'a [Vec<u8>],
    /// Mapped: what will really be written.
    pub(crate) destination: &'a [u8],
    /// It goes on where an earlier run stopped.
    pub(crate) resumed: bool,
}

/// Where a transfer is.
#[derive(Clone, Debug)]
pub(crate) struct Progress<'a> {
    /// Of the sizes of all files, what is done with: delivered by this run or an earlier one, there already, holes, failed.
    pub(crate) bytes: u64,
    /// Sizes of all files, never less than `bytes`: None until the scan has ended.
    pub(crate) bytes_total: Option<u64>,
    /// What the rate is computed from.
    pub(crate) pace: Pace,
    /// Entries complete.
    pub(crate) files: u64,
    /// Streams alive.
    pub(crate) streams: u32,
    /// What limits it now.
    pub(crate) bottleneck: Option<&'a Limited>,
}

/// A number that the tuner has changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuned<'a> {
    /// Of what: streams, readers, writers.
    pub(crate) what: &'a str,
    /// Whose streams, where there are several channels.
    pub(crate) channel: Option<u32>,
    /// Until now.
    pub(crate) from: u32,
    /// From now on.
    pub(crate) to: u32,
    /// Why.
    pub(crate) reason: &'a str,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Status {
    /// Everything arrived.
    Complete,
    /// Some entries failed; all others arrived.
    Partial,
    /// Stopped; the same command goes on.
    Interrupted,
    /// It could not be done.
    Failed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// A figure of each side; None where that side cannot say.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Sides<T> {
    /// Where the data came from.
    pub(crate) source: Option<T>,
    /// Where it went.
    pub(crate) destination: Option<T>,
}

/// What becomes of an entry, or would in a dry run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Itemised<'a> {
    /// A word for it: send, make, adjust, skip, delete.
    pub(crate) action: &'static str,
    /// A word for what the entry is.
    pub(crate) kind: &'static str,
    /// Below the source; with several sources, behind its name.
    pub(crate) path: &'a [u8],
    /// Of its contents; [`UNKNOWN_BYTES`](godwit_proto::UNKNOWN_BYTES) if nobody knows.
    pub(crate) bytes: u64,
    /// Nobody asked for it: people are not told, programs are.
    pub(crate) quiet: bool,
}

/// An entry that failed, as an agent tells its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToldFault<'a> {
    /// Below the source; with several sources, behind its name.
    pub(crate) name: &'a [u8],
    /// A word for whose fault it is.
    pub(crate) side: &'a str,
    /// A word for the reason.
    pub(crate) code: &'a str,
    /// For people.
    pub(crate) message: &'a str,
}

/// A transfer's last word; the seconds from process start are added here.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// How it ended.
    pub(crate) status: Status,
    /// File contents delivered, without holes.
    pub(crate) bytes: u64,
    /// It would be the contents of a file whose size only its end tells.
    pub(crate) unknown_bytes: bool,
    /// Files delivered.
    pub(crate) files: u64,
    /// Entries that were there already.
    pub(crate) skipped: u64,
    /// Entries that the user chose to leave out; a directory counts once, with all that is in it.
    pub(crate) excluded: u64,
    /// Entries that were there but for their metadata, which was set.
    pub(crate) adjusted: u64,
    /// Entries that only the destination had, and that were removed.
    pub(crate) deleted: u64,
    /// Nothing was done: all figures say what would be.
    pub(crate) dry_run: bool,
    /// Entries that failed, each told before.
    pub(crate) failed: u64,
    /// File contents that had to be sent more than once, over all runs.
    pub(crate) resent_bytes: u64,
    /// Processor time.
    pub(crate) cpu_seconds: Sides<f64>,
    /// Peak resident memory.
    pub(crate) max_rss_bytes: Sides<u64>,
    /// What limited it most.
    pub(crate) bottleneck: Option<Limited>,
    /// What was written down of it.
    pub(crate) manifest: Option<ManifestDone>,
    /// Entries that arrived without some of their metadata.
    pub(crate) not_kept: NotKept,
}

/// A manifest that was written.
#[derive(Clone, Debug)]
pub(crate) struct ManifestDone {
    /// Where it is.
    pub(crate) path: Vec<u8>,
    /// Its lines of entries.
    pub(crate) entries: u64,
    /// Its own digest, as its last lines have it.
    pub(crate) digest: String,
}

/// What the stages of a transfer did and waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    /// Counters of both ends, as far as they are known.
    pub(crate) shares: Shares,
    /// Peak resident memory.
    pub(crate) max_rss_bytes: Sides<u64>,
}

/// Tells the user; shared by reference between threads.
pub(crate) struct Output {
    started: Instant,
    state: Mutex<State>,
}

struct State {
    form: Form,
    /// Standard output is for contents: everything goes to standard error.
    aside: bool,
    log: Option<Log>,
    /// What is copied where to, for people.
    what: Option<String>,
    rate: RecentRate,
    progress_told: Option<Instant>,
    channels: ChannelsTold,
}

enum Form {
    Json,
    Plain,
    Bar(Box<Bar>),
}

impl Output {
    /// JSON lines, or else a bar where standard error is a terminal, or else plain lines.
    /// `started` is when the process began.
    pub(crate) fn new(json: bool, terminal: bool, started: Instant, log: Option<Log>) -> Self {
        let form = match (json, terminal) {
            (true, _) => Form::Json,
            (false, true) => Form::Bar(Box::new(Bar::new())),
            (false, false) => Form::Plain,
        };
        Self {
            started,
            state: Mutex::new(State {
                form,
                aside: false,
                log,
                what: None,
                rate: RecentRate::new(),
                progress_told: None,
                channels: ChannelsTold::default(),
            }),
        }
    }

    /// Keeps standard output free for contents.
    pub(crate) fn aside(self, aside: bool) -> Self {
        self.with(|state| state.aside = aside);
        self
    }

    /// The transfer begins.
    pub(crate) fn started(&self, started: &Started<'_>) {
        self.with(|state| {
            state.log(|| JsonLines::started(started));
            state.what = Some(PlainLines.what(started));
            match &state.form {
                Form::Json => state.print(&JsonLines::started(started)),
                Form::Plain => say(&PlainLines.started(started)),
                Form::Bar(bar) => bar.line(&PlainLines.started(started)),
            }
        });
    }

    /// The transfer goes on. May be called as often as is handy: what comes too soon after the last is not told.
    pub(crate) fn progress(&self, progress: &Progress<'_>) {
        let now = Instant::now();
        self.with(|state| {
            let rate = state.rate.follow(now, progress.pace);
            if let Some(log) = &mut state.log {
                log.progress(now, || {
                    JsonLines::progress(progress, self.started.elapsed(), rate)
                });
            }
            let interval = match state.form {
                Form::Json => JSON_INTERVAL,
                Form::Plain => PLAIN_INTERVAL,
                Form::Bar(_) => BAR_INTERVAL,
            };
            // The first line of a plain log waits an interval, too: a short transfer needs none.
            let last = match (&state.form, state.progress_told) {
                (_, Some(last)) => Some(last),
                (Form::Plain, None) => Some(self.started),
                _ => None,
            };
            if last.is_some_and(|last| now.saturating_duration_since(last) < interval) {
                return;
            }
            state.progress_told = Some(now);
            match &mut state.form {
                Form::Json => {
                    state.print(&JsonLines::progress(progress, self.started.elapsed(), rate))
                }
                Form::Plain => say(&PlainLines.progress(progress, rate)),
                Form::Bar(bar) => bar.progress(progress, rate),
            }
        });
    }

    /// How far it was when it ended: programs are told whenever that is.
    pub(crate) fn progress_at_end(&self, progress: &Progress<'_>) {
        let now = Instant::now();
        self.with(|state| {
            let rate = state.rate.follow(now, progress.pace);
            let line = || JsonLines::progress(progress, self.started.elapsed(), rate);
            state.log(line);
            match &mut state.form {
                Form::Json => state.print(&line()),
                Form::Plain => {}
                Form::Bar(bar) => bar.progress(progress, rate),
            }
        });
    }

    /// An entry failed; the others go on.
    pub(crate) fn failed(&self, path: &[u8], message: &str) {
        self.with(|state| {
            state.log(|| JsonLines::failed(path, message));
            match &state.form {
                Form::Json => state.print(&JsonLines::failed(path, message)),
                Form::Plain => say(&PlainLines.failed(path, message)),
                Form::Bar(bar) => bar.line(&PlainLines.failed(path, message)),
            }
        });
    }

    /// What becomes of an entry.
    pub(crate) fn item(&self, item: &Itemised<'_>) {
        self.with(|state| {
            state.log(|| JsonLines::item(item));
            match &state.form {
                Form::Json => state.print(&JsonLines::item(item)),
                _ if item.quiet => {}
                Form::Plain => state.print(&PlainLines.item(item)),
                Form::Bar(bar) => {
                    bar.clear();
                    state.print(&PlainLines.item(item));
                }
            }
        });
    }

    /// To another godwit: an entry that failed.
    pub(crate) fn tell_fault(&self, fault: &ToldFault<'_>) {
        self.with(|state| state.print(&JsonLines::fault(fault)));
    }

    /// To another godwit: the line that an entry has in a manifest.
    pub(crate) fn tell_entry(&self, line: &[u8]) {
        self.with(|state| state.print(&JsonLines::entry(line)));
    }

    /// To another godwit: no data moves any more.
    pub(crate) fn tell_ended(&self) {
        self.with(|state| state.print(&JsonLines::ended()));
    }

    /// Something the user should know, but need not act upon.
    pub(crate) fn note(&self, message: &str) {
        self.with(|state| {
            state.log(|| JsonLines::note(message));
            match &state.form {
                Form::Json => state.print(&JsonLines::note(message)),
                Form::Plain => complain(message),
                Form::Bar(bar) => bar.line(&complaint(message)),
            }
        });
    }

    /// The tuner has changed a number; people are told if they want to know.
    pub(crate) fn tuned(&self, tuned: &Tuned<'_>, verbose: bool) {
        let elapsed = self.started.elapsed();
        self.with(|state| {
            state.log(|| JsonLines::tuning(tuned, elapsed));
            match &state.form {
                Form::Json => state.print(&JsonLines::tuning(tuned, elapsed)),
                _ if !verbose => {}
                Form::Plain => say(&PlainLines.tuning(tuned)),
                Form::Bar(bar) => bar.line(&PlainLines.tuning(tuned)),
            }
        });
    }

    /// The transfer cannot go on: what happened, whose fault it is, what to do.
    pub(crate) fn error(&self, message: &str) {
        self.with(|state| {
            state.log(|| JsonLines::error(message));
            match &state.form {
                Form::Json => {
                    state.print(&JsonLines::error(message));
                    complain(message);
                }
                Form::Plain => complain(message),
                Form::Bar(bar) => bar.line(&complaint(message)),
            }
        });
    }

    /// What each stage did and waited for.
    pub(crate) fn stats(&self, stats: &Stats) {
        let elapsed = self.started.elapsed();
        self.with(|state| {
            state.log(|| JsonLines::stats(stats));
            match &state.form {
                Form::Json => state.print(&JsonLines::stats(stats)),
                Form::Plain => state.print(&stats::table(stats, elapsed)),
                Form::Bar(bar) => {
                    bar.clear();
                    state.print(&stats::table(stats, elapsed));
                }
            }
        });
    }

    /// The transfer's last word.
    pub(crate) fn summary(&self, summary: &Summary) {
        let elapsed = self.started.elapsed();
        self.with(|state| {
            state.log(|| JsonLines::summary(summary, elapsed));
            let text = || PlainLines.summary(state.what.as_deref(), summary, elapsed);
            match &state.form {
                Form::Json => state.print(&JsonLines::summary(summary, elapsed)),
                Form::Plain => state.print(&text()),
                Form::Bar(bar) => {
                    bar.clear();
                    state.print(&text());
                }
            }
        });
    }

    fn with(&self, tell: impl FnOnce(&mut State)) {
        // Nothing here is left half done by a panic elsewhere.
        tell(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl State {
    fn print(&self, text: &str) {
        if self.aside {
            say(text);
        } else {
            print(text);
        }
    }

    fn log(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.write(&line());
        }
    }
}

/// Says to standard error that something is wrong.
pub(crate) fn complain(message: &str) {
    say(&complaint(message));
}

/// Prints to standard output; a reader that went away is ignored, any other trouble is told once.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
        && !CUT_SHORT.swap(true, Ordering::Relaxed)
    {
        complain(&format!(
            "standard output cannot be written: {error}; what was printed is incomplete"
        ));
    }
}

/// Whether something that was to be printed is lost.
pub(crate) fn is_cut_short() -> bool {
    CUT_SHORT.load(Ordering::Relaxed)
}

static CUT_SHORT: AtomicBool = AtomicBool::new(false);

/// Prints to standard error, in one write, so that lines of several processes do not mix.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

fn complaint(message: &str) -> String {
    format!("godwit: {}", printable(message))
}

/// Often enough to act upon, seldom enough to cost nothing.
const JSON_INTERVAL: Duration = Duration::from_millis(100);
/// A log shall not fill up: twelve lines a minute.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// Ten frames a second look alive.
const BAR_INTERVAL: Duration = Duration::from_millis(100);
