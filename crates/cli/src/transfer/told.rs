//! What is asked of the comparison with the destination, and what is told of each entry.
//! Decides nothing about entries.

use std::sync::Arc;

use godwit_api::settings::Judge as JudgeSetting;
use godwit_engine::tuner::Decision;
use godwit_engine::{Action, Item, Observer};
use godwit_proto::{Comparison, EntryKind, Fault, Judge, Record, Side};

use super::Job;
use crate::output::{Itemised, Output, Tuned};
use crate::reports::Reports;

/// Tells the user of entries that fail, and the reports of all.
pub(super) struct Told {
    output: Arc<Output>,
    reports: Arc<Reports>,
    /// As the user named the sources.
    roots: Vec<Vec<u8>>,
    /// Which side is another machine, and its name.
    far: Option<(Side, String)>,
    /// Everything that is decided is told, or only what is deleted.
    itemise: bool,
    /// What is skipped is told, too.
    verbose: bool,
}

impl Observer for Told {
    fn entry_failed(&self, path: &[u8], fault: &Fault) {
        match &self.far {
            // The path shown is that of this side.
            Some((side, name)) if *side == fault.side => {
                let word = if *side == Side::SOURCE {
                    "source"
                } else {
                    "destination"
                };
                let message = format!("{} (at the {word}, {name})", fault.message);
                self.output.failed(path, &message);
            }
            _ => self.output.failed(path, &fault.message),
        }
        self.reports.entry_failed(path, fault);
    }

    fn wants_entries(&self) -> bool {
        self.reports.wants_entries()
    }

    fn entry_done(&self, record: &Record) {
        self.reports.entry_done(record);
    }

    fn note(&self, message: &str) {
        self.output.note(message);
    }

    fn tuned(&self, decision: &Decision, channel: Option<u32>) {
        let tuned = Tuned {
            what: decision.knob.as_str(),
            channel,
            from: decision.from,
            to: decision.to,
            reason: &decision.reason,
        };
        self.output.tuned(&tuned, self.verbose);
    }

    // That it was the other end needs no word: readers are at the source, writers at the destination.
    fn tuned_there(&self, decision: &Decision) {
        self.tuned(decision, None);
    }

    fn item(&self, item: &Item<'_>) {
        let told = match item.action {
            Action::Delete => true,
            Action::Skip => self.verbose,
            _ => self.itemise,
        };
        if !told {
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
        self.output.item(&Itemised {
            action: match item.action {
                Action::Send => "send",
                Action::Make => "make",
                Action::Adjust => "adjust",
                Action::Skip => "skip",
                Action::Delete => "delete",
            },
            kind: match item.kind {
                EntryKind::FILE => "file",
                EntryKind::DIRECTORY => "directory",
                EntryKind::SYMLINK => "symlink",
                EntryKind::HARD_LINK => "link",
                _ => "other",
            },
            path: &path,
            bytes: item.bytes,
            // What is really deleted is what programs want to know; people ask for it.
            quiet: !self.itemise,
        });
    }
}

impl Job<'_> {
    /// Tells the user of what happens to entries; `roots` are the sources as the user named them, `far` the side that is
    /// another machine, with its name.
    pub(super) fn told(&self, roots: &[Vec<u8>], far: Option<(Side, String)>) -> Arc<Told> {
        Arc::new(Told {
            output: Arc::clone(&self.output),
            reports: Arc::clone(&self.reports),
            roots: roots.to_vec(),
            far,
            itemise: self.itemises(),
            verbose: self.settings.verbose,
        })
    }

    pub(super) fn itemises(&self) -> bool {
        self.settings.verbose || self.settings.comparison.dry_run
    }

    /// What is asked of the receiving end, if it is more than every one does.
    pub(super) fn comparison(&self) -> Option<Comparison> {
        let asked = self.settings.comparison;
        let judge = match asked.judge {
            JudgeSetting::SizeAndTime => Judge::SIZE_AND_TIME,
            JudgeSetting::Checksum => Judge::CHECKSUM,
            JudgeSetting::Size => Judge::SIZE,
        };
        let comparison = Comparison {
            judge: judge.0,
            update: asked.update,
            existing: asked.existing,
            ignore_existing: asked.ignore_existing,
            delete: asked.delete,
            max_delete: asked.max_delete,
            dry_run: asked.dry_run,
            counterpart: asked.counterpart,
        };
        (comparison != Comparison::default() || self.settings.verbose).then_some(comparison)
    }
}
