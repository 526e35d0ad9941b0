//! The output of a transfer: JSON lines, plain lines, or a bar on a terminal.
//! Decides nothing about the transfer; may be called from any thread.
//!
//! JSON lines, the list of entries and the summary go to standard output, everything else to standard error. A reader that is gone
//! (`| head`) does not stop a transfer: further output is dropped.

mod bar;
mod channels;
mod connection;
mod dry;
mod fit;
mod flood;
mod log;
mod log_line;
mod plain;
mod stats;
mod summary;
mod to;

use bar::Bar;
use connection::Lost;
pub(crate) use connection::time as lost_time;
pub(crate) use dry::DryList;
use flood::{Flood, What};
use godwit_api::event::{ConnectionLost, Event, EventSink, Progress, Summary};
use godwit_api::failure::{Code, Failure, FailureCode};
pub(crate) use godwit_api::shown::printable;
use godwit_api::shown::printable_lines;
use godwit_node::outlet::{self, complaint, say};
pub(crate) use godwit_node::outlet::{complain, is_cut_short, print, print_data};
pub(crate) use log::Log;
pub(crate) use log_line::line_of;
use plain::PlainLines;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
pub(crate) use to::To;

/// Renders events for the user; shared by reference between threads.
pub(crate) struct Output {
    started: Instant,
    /// People see the outcome of each entry.
    items: bool,
    /// People see everything: decisions of the tuner, each failed entry, all figures.
    verbose: bool,
    state: Mutex<State>,
}

struct State {
    form: Form,
    /// Standard output carries contents, so all messages go to standard error.
    aside: bool,
    log: Option<Log>,
    /// The sources and the destination, for people.
    what: Option<String>,
    progress_shown: Option<Instant>,
    /// The other end is out of reach.
    lost: Option<Lost>,
    flood: Flood,
    /// The entries of a dry run, which people read below the summary.
    dry: Option<DryList>,
    /// The destination, if the process has several.
    to: Option<To>,
}

enum Form {
    Json,
    Plain,
    Bar(Box<Bar>),
}

impl Output {
    /// Prints JSON lines, or else a bar if standard error is a terminal, or else plain lines. `started` is the start of the process.
    pub(crate) fn new(json: bool, terminal: bool, started: Instant, log: Option<Log>) -> Self {
        let form = match (json, terminal) {
            (true, _) => Form::Json,
            (false, true) => Form::Bar(Box::new(Bar::new())),
            (false, false) => Form::Plain,
        };
        Self {
            started,
            items: false,
            verbose: false,
            state: Mutex::new(State {
                form,
                aside: false,
                log,
                what: None,
                progress_shown: None,
                lost: None,
                flood: Flood::default(),
                dry: None,
                to: None,
            }),
        }
    }

    /// Keeps standard output free for contents.
    pub(crate) fn on_stderr(self, aside: bool) -> Self {
        self.with(|state| state.aside = aside);
        self
    }

    /// Names the destination in everything that is shown, because the process has several.
    pub(crate) fn about(self, to: To) -> Self {
        self.with(|state| {
            if let Form::Bar(bar) = &mut state.form {
                **bar = Bar::among(to.bars(), to.name());
            }
            state.to = Some(to);
        });
        self
    }

    /// Shows people the outcome of each entry, and everything else that is usually left out.
    pub(crate) fn showing(mut self, items: bool, verbose: bool) -> Self {
        self.items = items;
        self.verbose = verbose;
        self
    }

    /// People read the entries below the summary, by name: a dry run has few other lines.
    pub(crate) fn sorted(self, dry: bool) -> Self {
        self.with(|state| state.dry = dry.then(DryList::default));
        self
    }

    /// Shows progress. An update too soon after the last one is dropped.
    fn progress(&self, progress: &Progress, event: &Event) {
        let now = Instant::now();
        self.with(|state| {
            let State { log, to, .. } = state;
            if let Some(log) = log {
                log.progress(now, || to::line(to.as_ref(), event));
            }
            let interval = match state.form {
                Form::Json => JSON_INTERVAL,
                Form::Plain => PLAIN_INTERVAL,
                Form::Bar(_) => BAR_INTERVAL,
            };
            // The first line of a plain log also waits an interval, because a short transfer needs none.
            let last = match (&state.form, state.progress_shown) {
                (_, Some(last)) => Some(last),
                (Form::Plain, None) => Some(self.started),
                _ => None,
            };
            if last.is_some_and(|last| now.saturating_duration_since(last) < interval) {
                return;
            }
            state.progress_shown = Some(now);
            match &mut state.form {
                Form::Json => state.print_data(&to::line(state.to.as_ref(), event)),
                Form::Plain => {
                    let mut line = PlainLines.progress(progress);
                    if state.to.as_ref().is_some_and(To::is_behind) {
                        line.push_str(to::BEHIND);
                    }
                    if let Some(lost) = &state.lost {
                        line = format!("{}, {line}", lost.phrase(now));
                    }
                    state.beside(&line);
                }
                Form::Bar(bar) => bar.progress(progress, state.to.as_ref()),
            }
        });
    }

    /// Shows the progress of a transfer at its end. Programs get this last event whatever the interval.
    fn progress_at_end(&self, progress: &Progress, event: &Event) {
        self.with(|state| {
            state.log(event);
            match &mut state.form {
                Form::Json => state.print_data(&to::line(state.to.as_ref(), event)),
                Form::Plain => {}
                Form::Bar(bar) => bar.progress(progress, state.to.as_ref()),
            }
        });
    }

    /// Logs an event and prints it: as JSON, or for people as a line on standard output or error, or not at all.
    fn render(&self, event: &Event, line: impl FnOnce(&mut State) -> Line) {
        self.with(|state| {
            state.log(event);
            if matches!(state.form, Form::Json) {
                state.print_data(&to::line(state.to.as_ref(), event));
                return;
            }
            match (line(state), &state.form) {
                (Line::Nothing, _) => {}
                (Line::Beside(text), _) => state.beside(&text),
                (Line::Printed(text), Form::Bar(bar)) => {
                    bar.clear();
                    bar.around(|| state.print(&text));
                }
                (Line::Printed(text), _) => state.print(&text),
            }
        });
    }

    fn summary(&self, summary: &Summary, event: &Event) {
        let elapsed = self.started.elapsed();
        self.with(State::report_rest);
        match summary {
            Summary::Transfer(summary) => {
                let began = summary.began;
                // A person has read why the transfer never began. A program gets figures in any case, and several destinations have a
                // line each.
                let mut wanted = began;
                self.with(|state| wanted |= matches!(state.form, Form::Json) || state.to.is_some());
                if wanted {
                    self.render(event, |state| {
                        let what = state.what.as_deref();
                        Line::Printed(match self.verbose {
                            false if state.to.is_some() => PlainLines.one_line(summary, elapsed),
                            true => PlainLines.summary(what, summary, elapsed),
                            false => PlainLines.short_summary(what, summary, elapsed),
                        })
                    });
                }
            }
            Summary::Verify(summary) => {
                self.render(event, |_| {
                    Line::Printed(PlainLines.verified(summary, elapsed))
                });
            }
        }
    }

    /// Prints the last text, below which no bar is drawn.
    pub(crate) fn last(&self, text: &str) {
        self.with(|state| {
            state.report_rest();
            if let Form::Bar(bar) = &state.form {
                bar.clear();
            }
            state.print(text);
        });
    }

    /// Whether people see a line of this reason.
    fn shows(&self, state: &mut State, what: What, code: &Code) -> bool {
        self.verbose || state.flood.admits(what, code)
    }

    fn with(&self, act: impl FnOnce(&mut State)) {
        // No panic of another thread leaves this state half changed.
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The output of an event for people.
enum Line {
    Nothing,
    /// On standard error.
    Beside(String),
    /// On standard output.
    Printed(String),
}

impl Line {
    fn all(lines: Vec<String>) -> Self {
        match lines.is_empty() {
            true => Self::Nothing,
            false => Self::Printed(lines.join("\n")),
        }
    }
}

impl EventSink for Output {
    fn emit(&self, event: Event) {
        let seen = &event;
        match seen {
            Event::Started(started) => self.render(seen, |state| {
                state.what = Some(PlainLines.what(started));
                match state.to {
                    Some(_) => Line::Nothing,
                    None => Line::Beside(PlainLines.started(started)),
                }
            }),
            Event::Progress(progress) if progress.at_end => self.progress_at_end(progress, seen),
            Event::Progress(progress) => self.progress(progress, seen),
            Event::Tuning(tuning) => self.render(seen, |_| match self.verbose {
                true => Line::Beside(PlainLines.tuning(tuning)),
                false => Line::Nothing,
            }),
            Event::Channels(reported) => self.render(seen, |_| match reported.at_end {
                true => Line::Printed(channels::table(&reported.channels)),
                false => Line::Nothing,
            }),
            // Each progress event repeats a lasting loss. People see it once.
            Event::ConnectionLost(lost) => self.render(seen, |state| {
                if lost.channel.is_some() || state.note_lost(lost) {
                    Line::Beside(connection::lost(lost))
                } else {
                    Line::Nothing
                }
            }),
            Event::ConnectionRegained(regained) => self.render(seen, |state| {
                if regained.channel.is_none() {
                    state.show_lost(None);
                }
                Line::Beside(connection::regained(regained))
            }),
            Event::Failed(failed) => self.render(seen, |state| {
                let code = failed.code.clone().unwrap_or_default();
                match self.shows(state, What::Failed, &code) {
                    true => Line::Beside(PlainLines.failed(&failed.path, &failed.message)),
                    false => Line::Nothing,
                }
            }),
            Event::Item(item) => self.render(seen, |state| match (self.items, &mut state.dry) {
                (true, None) => Line::Printed(PlainLines.item(item)),
                (true, Some(dry)) => Line::all(dry.add(item)),
                (false, _) => Line::Nothing,
            }),
            // These events go to another godwit, which writes reports from them. No log has them.
            Event::Fault(_) | Event::Entry { .. } | Event::Ended {} => {
                self.with(|state| state.print_data(&to::line(state.to.as_ref(), seen)));
            }
            // Items are for the controller of a job; people see its figures.
            Event::WorkDone(_) | Event::WorkFailed(_) => self.render(seen, |_| Line::Nothing),
            Event::Paused {} => self.render(seen, |_| Line::Beside(complaint("paused"))),
            Event::Note { message } => self.render(seen, |_| Line::Beside(complaint(message))),
            Event::Error(error) => {
                let code = error.blame.known();
                let lines = error_lines(&error.message, code, error.detail.as_deref());
                // No summary follows.
                self.with(State::list);
                self.render(seen, |_| Line::Beside(lines.clone()));
                self.with(|state| {
                    if matches!(state.form, Form::Json) {
                        say(&to::lines(state.to.as_ref(), &lines));
                    }
                });
            }
            Event::Stats(stats) => self.render(seen, |_| {
                Line::Printed(stats::table(stats, self.started.elapsed()))
            }),
            Event::Different(different) => self.render(seen, |state| {
                match self.shows(state, What::Different, &different.kind) {
                    true => Line::Printed(PlainLines.different(different)),
                    false => Line::Nothing,
                }
            }),
            Event::Extra { path } => self.render(seen, |state| {
                match self.shows(state, What::Extra, &FailureCode::Extra.into()) {
                    true => Line::Printed(PlainLines.extra(path)),
                    false => Line::Nothing,
                }
            }),
            Event::Summary(summary) => {
                self.summary(summary, seen);
                self.with(State::list);
            }
            Event::Unknown => {}
        }
    }
}

impl State {
    /// Notes a loss; returns whether people have not seen it yet.
    fn note_lost(&mut self, event: &ConnectionLost) -> bool {
        let is_new = self.lost.as_ref().is_none_or(|lost| lost.differs(event));
        self.show_lost(Some(Lost::of(event, Instant::now())));
        is_new
    }

    fn show_lost(&mut self, lost: Option<Lost>) {
        if let Form::Bar(bar) = &mut self.form {
            bar.lost(lost.clone());
        }
        self.lost = lost;
    }

    /// Prints the entries of a dry run.
    fn list(&mut self) {
        let lines = self.dry.as_mut().map(DryList::sorted).unwrap_or_default();
        if !lines.is_empty() {
            if let Form::Bar(bar) = &self.form {
                bar.clear();
            }
            self.print(&lines.join("\n"));
        }
    }

    /// Counts the lines that people did not see.
    fn report_rest(&mut self) {
        for line in self.flood.rest() {
            self.beside(&line);
        }
    }

    /// Prints a line for people on standard error.
    fn beside(&self, text: &str) {
        let text = to::lines(self.to.as_ref(), text);
        match &self.form {
            Form::Bar(bar) => bar.line(&printable_lines(&text)),
            _ => say(&text),
        }
    }

    /// Prints an event as a line for people, or several.
    fn print(&self, text: &str) {
        self.print_data(&printable_lines(&to::lines(self.to.as_ref(), text)));
    }

    /// Prints an event for programs.
    fn print_data(&self, line: &str) {
        if self.aside {
            outlet::write_error(format!("{line}\n").into_bytes());
        } else {
            print_data(line);
        }
    }

    fn log(&mut self, event: &Event) {
        if let Some(log) = &mut self.log {
            log.write(&to::line(self.to.as_ref(), event));
        }
    }
}

/// Prints why a command failed, and the remedy.
pub(crate) fn complain_of(failure: &Failure) {
    say(&error_lines(
        &failure.message,
        Some(failure.code),
        failure.detail.as_deref(),
    ));
}

/// The message, with the remedy below it. A message on wrong usage includes the remedy. `about` is the file or peer concerned.
fn error_lines(message: &str, code: Option<FailureCode>, about: Option<&str>) -> String {
    let message = complaint(message);
    let Some(code) = code.filter(|code| *code != FailureCode::Usage) else {
        return message;
    };
    let advice = match (code, about) {
        (FailureCode::SshDenied | FailureCode::SshFailed, Some(host)) => {
            code.advice().replace("HOST", host)
        }
        _ => code.advice().to_owned(),
    };
    format!("{message}\n{}", complaint(&format!("what to do: {advice}")))
}

/// Often enough to act upon, seldom enough to cost nothing.
const JSON_INTERVAL: Duration = Duration::from_millis(100);
/// Keeps a log short: twelve lines a minute.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// Ten frames a second look alive.
const BAR_INTERVAL: Duration = Duration::from_millis(100);
