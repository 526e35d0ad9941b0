//! The requested comparison with the destination, and the events for each entry. Does not decide about entries.

use std::sync::Arc;
use std::time::Instant;

use godwit_api::event::{self, Event, EventSink, Failed, ItemKind, Tuning};
use godwit_api::settings::Judge as JudgeSetting;
use godwit_engine::tuner::Decision;
use godwit_engine::{Action, FailedEntry, Item, Observer};
use godwit_proto::{Comparison, EntryKind, Judge, Record, Side, UNKNOWN_BYTES};

use super::work::Telling;
use super::{Job, elapsed_seconds};
use crate::reports::{Reports, code, side};

/// Reports failed entries to the user, and all entries to the reports.
pub(super) struct EntryEvents {
    events: Arc<dyn EventSink>,
    /// The time zero of the seconds in events.
    started: Instant,
    reports: Arc<Reports>,
    /// The names of the sources in the user's spelling.
    roots: Vec<Vec<u8>>,
    /// The side on another machine, and the name of that machine.
    far: Option<(Side, String)>,
    /// Whether to report every decision, or only deletions.
    itemise: bool,
    /// Whether to report skipped entries too.
    verbose: bool,
    /// Reports the items of the job, if it has any.
    work: Option<Telling>,
}

impl Observer for EntryEvents {
    fn entry_failed(&self, failed: &FailedEntry<'_>) {
        let fault = failed.fault;
        let message = match &self.far {
            // In this case the shown path belongs to this side.
            Some((at, name)) if *at == fault.side => {
                format!("{} (at the {}, {name})", fault.message, side(*at))
            }
            _ => fault.message.clone(),
        };
        self.events
            .emit(Event::Failed(failed_event(failed, message)));
        self.reports.entry_failed(failed);
        if let Some(work) = &self.work {
            work.failed(failed);
        }
    }

    fn wants_entries(&self) -> bool {
        self.reports.wants_entries() || self.work.is_some()
    }

    fn entry_done(&self, record: &Record) {
        self.reports.entry_done(record);
        if let Some(work) = &self.work {
            work.done(record);
        }
    }

    fn portion_announced(&self, record: &Record) {
        if let Some(work) = &self.work {
            work.announced(record);
        }
    }

    fn note(&self, message: &str) {
        self.events.note(message);
    }

    fn tuned(&self, decision: &Decision, channel: Option<u32>) {
        self.events.emit(Event::Tuning(Tuning {
            what: decision.knob.as_str().to_owned(),
            channel,
            from: decision.from,
            to: decision.to,
            reason: decision.reason.to_string(),
            seconds: elapsed_seconds(self.started),
        }));
    }

    // The event need not name the other end: readers are at the source, writers at the destination.
    fn tuned_there(&self, decision: &Decision) {
        self.tuned(decision, None);
    }

    fn item(&self, item: &Item<'_>) {
        let is_wanted = match item.action {
            Action::Delete => true,
            Action::Skip => self.verbose,
            _ => self.itemise,
        };
        if !is_wanted {
            return;
        }
        let root = self.roots.get(usize::from(item.root));
        // A file that is the source itself has no name below it.
        let is_source = item.path.is_empty() && item.kind != EntryKind::DIRECTORY;
        let path = match root.filter(|_| is_source || self.roots.len() > 1) {
            Some(root) if item.path.is_empty() => root.clone(),
            Some(root) => [root.as_slice(), b"/", item.path].concat(),
            None => item.path.to_vec(),
        };
        self.events.emit(Event::Item(event::Item {
            action: match item.action {
                Action::Send => event::Action::Send,
                Action::Make => event::Action::Make,
                Action::Adjust => event::Action::Adjust,
                Action::Skip => event::Action::Skip,
                Action::Delete => event::Action::Delete,
            },
            kind: match item.kind {
                EntryKind::FILE => ItemKind::File,
                EntryKind::DIRECTORY => ItemKind::Directory,
                EntryKind::SYMLINK => ItemKind::Symlink,
                EntryKind::HARD_LINK => ItemKind::Link,
                _ => ItemKind::Other,
            },
            path,
            bytes: Some(item.bytes).filter(|bytes| *bytes != UNKNOWN_BYTES),
        }));
    }
}

/// A failed entry as an event.
pub(super) fn failed_event(failed: &FailedEntry<'_>, message: String) -> Failed {
    let fault = failed.fault;
    Failed {
        path: failed.shown.to_vec(),
        message,
        root: failed.root,
        side: Some(side(fault.side).to_owned()),
        code: Some(code(fault.code)),
        entry: Some(fault.entry.0).filter(|entry| *entry != 0),
    }
}

impl EntryEvents {
    /// Reports entries to the user. `roots` are the names of the sources in the user's spelling; `far` is the side on another
    /// machine, with its name.
    pub(super) fn of(job: &Job<'_>, roots: &[Vec<u8>], far: Option<(Side, String)>) -> Arc<Self> {
        Arc::new(Self {
            events: Arc::clone(&job.run.events),
            started: job.env.started,
            reports: Arc::clone(&job.run.reports),
            roots: roots.to_vec(),
            far,
            itemise: job.itemises(),
            verbose: job.settings.verbose,
            work: Telling::of(job.spec, &job.settings, &job.run.events),
        })
    }
}

impl Job<'_> {
    pub(super) fn itemises(&self) -> bool {
        self.settings.verbose || self.settings.comparison.dry_run
    }

    /// The comparison for the receiving end. Even a default comparison makes the receiver answer more exactly, and compare contents
    /// if times prove nothing.
    pub(super) fn comparison(&self) -> Comparison {
        let asked = self.settings.comparison;
        let judge = match asked.judge {
            JudgeSetting::SizeAndTime => Judge::SIZE_AND_TIME,
            JudgeSetting::Checksum => Judge::CHECKSUM,
            JudgeSetting::Size => Judge::SIZE,
        };
        Comparison {
            judge: judge.0,
            update: asked.update,
            existing: asked.existing,
            ignore_existing: asked.ignore_existing,
            delete: asked.delete,
            max_delete: asked.max_delete,
            dry_run: asked.dry_run,
            counterpart: asked.counterpart,
            no_replace: asked.no_replace,
        }
    }
}
