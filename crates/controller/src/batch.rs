//! Turns leased items into the description of one transfer, and the events of the transfer into settlements.
//! Runs nothing.

mod lack;
mod region;
mod report;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use godwit_api::PORT_DEFAULT;
use godwit_api::endpoint::{Endpoint, NodePlace, Remote};
use godwit_api::event::Event;
use godwit_api::failure::{Code, Failure, FailureCode};
use godwit_api::host::HostPort;
use godwit_api::job::{
    ClaimId, HeldPart, Imposed, Item, JOB_VERSION, JobKind, JobSpec, ListForm, Member, Selection,
    Text, TypedTexts,
};
use godwit_api::settings::{Scope, Setting};
use godwit_state::{FailureGroup, Reason, Settled, Settlement, Task, Work, WorkItem, WorkRoot};

pub(crate) use region::names_of;
pub(crate) use report::{add_unread, closed, name_holder};
pub use report::{notes, summed};

/// Groups of failures that a close reports, and examples and bytes of texts in each.
const GROUPS_MAX: usize = 40;
const EXAMPLES_MAX: usize = 8;
const TEXT_BYTES_MAX: usize = 400;

/// Stands for the file of the manifest in a summary.
const MANIFEST: &str = "manifest";

/// Settings about the manifest, which the close alone writes.
const ABOUT_MANIFESTS: [&str; 2] = ["manifest-sorted", "sign"];

/// How long one transfer retries on its own.
const ONE_TRY: Duration = Duration::from_secs(4);

/// Properties that all transfers of a job share.
#[derive(Clone, Debug)]
pub struct Base {
    /// Kind of the job.
    pub kind: JobKind,
    /// Settings of the job.
    pub settings: TypedTexts,
    /// The job deletes entries that the source does not have.
    pub deletes: bool,
    /// Patterns that select entries.
    pub selection: Option<Selection>,
    /// The file at this node for the manifest, if the job writes one. The close of the tree writes it.
    pub manifest: Option<PathBuf>,
    /// How long a node keeps trying to move its items while no try works.
    pub retry_for: Duration,
}

/// The destination of one transfer.
#[derive(Clone, Debug)]
pub(crate) struct To {
    /// Address of a node of the destination.
    pub(crate) address: String,
    /// Bytes per second; 0 is no limit.
    pub(crate) limit: u64,
}

impl To {
    /// The destination of a transfer that is described and never run.
    pub(crate) fn nowhere() -> Self {
        Self {
            address: "localhost".to_owned(),
            limit: 0,
        }
    }
}

/// The transfers of one root by one node.
pub(crate) struct ItemTransfer<'a> {
    pub(crate) base: &'a Base,
    pub(crate) root: &'a WorkRoot,
    pub(crate) to: To,
    pub(crate) claim: ClaimId,
    pub(crate) epoch: u64,
}

impl ItemTransfer<'_> {
    /// The transfer that moves items, and the small files of a list where there is one.
    pub(crate) fn members(&self, items: Vec<Item>, is_listed: bool) -> Result<JobSpec, Failure> {
        let settings = copy_settings(self.base);
        let mut selection = self.base.selection.clone();
        if is_listed {
            selection.get_or_insert_default().list = Some(ListForm::Zeros);
        }
        Ok(JobSpec {
            items,
            ..self.spec(JobKind::Copy, settings, selection, false)?
        })
    }

    /// The transfer that finishes the tree. Nothing is deleted if a part of the source could not be read.
    pub(crate) fn close(&self, deletes: bool) -> Result<JobSpec, Failure> {
        let mut settings = self.base.settings.clone();
        if !deletes {
            settings.remove("delete");
            settings.remove("delete-before");
            settings.remove("max-delete");
        }
        let mut spec = self.spec(self.base.kind, settings, self.base.selection.clone(), true)?;
        spec.imposed.manifest.clone_from(&self.base.manifest);
        Ok(spec)
    }

    fn spec(
        &self,
        kind: JobKind,
        settings: TypedTexts,
        selection: Option<Selection>,
        closer: bool,
    ) -> Result<JobSpec, Failure> {
        let (source, destination) = match &self.root.file {
            // The close of a file looks at the file alone, not at the directory.
            Some(name) if closer => (
                Endpoint::Local(format!("/{}/{name}", self.root.source).into()),
                format!("{}/{name}", self.root.destination),
            ),
            _ => (source_of(self.root), self.root.destination.clone()),
        };
        Ok(JobSpec {
            version: JOB_VERSION,
            kind,
            sources: vec![source],
            destination: root_endpoint(&self.to.address, &destination)?,
            settings,
            selection,
            member: Some(Member {
                claim: self.claim,
                epoch: self.epoch,
                closer,
                deletes: self.base.deletes,
                lane: 0,
                region: None,
            }),
            items: Vec::new(),
            imposed: of_one_try(&self.to),
        })
    }
}

/// The settings of a job that a copy has. The close applies the settings that only a synchronisation has.
pub(crate) fn copy_settings(base: &Base) -> TypedTexts {
    let mut settings = base.settings.clone();
    let is_kept = |name: &str| !ABOUT_MANIFESTS.contains(&name);
    settings.retain(|name, _| Setting::find(Scope::Cp, name).is_some() && is_kept(name));
    settings
}

/// Makes a transfer end early, because another try may go to another node, and gives it its share of the limit.
pub(crate) fn of_one_try(to: &To) -> Imposed {
    Imposed {
        limit: Some(to.limit),
        retry_for: Some(ONE_TRY),
        ..Imposed::default()
    }
}

/// The source of a root: the contents of the directory.
pub(crate) fn source_of(root: &WorkRoot) -> Endpoint {
    Endpoint::Local(format!("/{}/.", root.source).into())
}

/// A path at a destination node, export first, as an endpoint.
pub(crate) fn root_endpoint(address: &str, path: &str) -> Result<Endpoint, Failure> {
    let node = HostPort::parse(address, PORT_DEFAULT).map_err(Failure::usage)?;
    let named = NodePlace::from_wire(path.as_bytes()).map_err(Failure::usage)?;
    let NodePlace::Export { name, path, .. } = named else {
        return Err(Failure::usage("memory has no paths"));
    };
    Ok(Endpoint::Remote(Remote {
        node,
        place: NodePlace::Export {
            name,
            path,
            directory: false,
            contents: false,
        },
    }))
}

/// The item as a transfer takes it; none of a scan or a close.
pub(crate) fn item_of(item: &WorkItem) -> Option<Item> {
    match &item.task {
        Task::Part {
            path,
            offset,
            bytes,
            generation,
        } => Some(Item::Part {
            path: Text(path.0.clone()),
            offset: *offset,
            bytes: *bytes,
            generation: *generation,
        }),
        Task::Assemble {
            path,
            generation,
            parts,
        } => Some(Item::Assemble {
            path: Text(path.0.clone()),
            generation: *generation,
            // A file without a digest that could be read fails, and is left to the close.
            parts: parts
                .iter()
                .filter_map(|part| {
                    Some(HeldPart {
                        offset: part.offset,
                        bytes: part.bytes,
                        digest: part.digest.parse().ok()?,
                    })
                })
                .collect(),
        }),
        Task::Scan { .. } | Task::Close {} | Task::Region { .. } => None,
    }
}

/// Events of a transfer about its items and failed entries.
#[derive(Default)]
pub(crate) struct BatchOutcome {
    /// By the number of the item in the transfer: its digest, or nothing where it failed.
    items: HashMap<usize, Option<Option<String>>>,
    groups: BTreeMap<Code, FailureGroup>,
    bytes_total: Option<u64>,
    /// Notes of the transfer, for the log of the job.
    notes: BTreeSet<String>,
    /// An entry of the source could not be read.
    pub(crate) is_unread: bool,
}

/// Most notes that a transfer reports, and bytes of each.
const NOTES_MAX: usize = 8;
const NOTE_BYTES_MAX: usize = 300;

/// A close reports its notes while those of earlier closes are fewer. The state keeps the sum.
const NOTES_OF_JOB_MAX: usize = 64;

/// The side of a fault, as events name it.
const SOURCE: &str = "source";

impl BatchOutcome {
    pub(crate) fn take(&mut self, event: &Event) {
        match event {
            Event::WorkDone(done) => {
                let digest = done.digest.as_ref().map(ToString::to_string);
                self.items.insert(done.number, Some(digest));
            }
            Event::WorkFailed(failed) => {
                self.is_unread |= failed.side == SOURCE && failed.code == FailureCode::Io;
                self.items.insert(failed.number, None);
            }
            Event::Progress(progress) => self.bytes_total = progress.bytes_total,
            Event::Note { message } if self.notes.len() < NOTES_MAX => {
                let end = message.floor_char_boundary(NOTE_BYTES_MAX);
                self.notes.insert(message[..end].to_owned());
            }
            Event::Failed(failed) => {
                let code = failed.code.clone();
                let code = code.unwrap_or_else(|| FailureCode::Other.into());
                let is_of_source = failed.side.as_deref() == Some(SOURCE);
                self.is_unread |= is_of_source && code == FailureCode::Io;
                self.failed(&code, &failed.message, &failed.path);
            }
            _ => {}
        }
    }

    /// Leaves out the notes if the closes of the job have reported many.
    pub(crate) fn bounded(mut self, work: &Work) -> Self {
        if notes(work).len() >= NOTES_OF_JOB_MAX {
            self.notes.clear();
        }
        self
    }

    fn failed(&mut self, code: &Code, message: &str, path: &[u8]) {
        let full = self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(code);
        let code = match full {
            true => FailureCode::Other.into(),
            false => code.clone(),
        };
        let group = self.groups.entry(code.clone());
        let group = group.or_insert_with(|| FailureGroup {
            reason: Reason::new(code, clip(message)),
            count: 0,
            examples: Vec::new(),
        });
        group.count += 1;
        if group.examples.len() < EXAMPLES_MAX {
            group.examples.push(clip(&String::from_utf8_lossy(path)));
        }
    }

    /// The same items are tried again, and entries that fail again are reported again.
    pub(crate) fn forget_failures(&mut self) {
        self.items.retain(|_, digest| digest.is_some());
        self.groups.clear();
        self.is_unread = false;
    }

    /// Failed entries grouped by reason.
    pub(crate) fn groups(self) -> Vec<FailureGroup> {
        self.groups.into_values().collect()
    }

    /// The outcome of item number `at` of the transfer; None if the transfer did not report it.
    pub(crate) fn of(&self, task: &Task, at: usize) -> Option<Settlement> {
        Some(match (task, self.items.get(&at)?) {
            // A part of a file that is there already has no digest, and the close skips the file.
            (Task::Part { .. }, Some(None)) | (_, None) => Settlement::Failed {},
            (_, Some(digest)) => Settlement::Done {
                digest: digest.clone(),
            },
        })
    }
}

/// The outcomes of the items of one transfer. `is_over`: the transfer reached its end, so an item that it did not report has failed.
pub(crate) fn settlements(items: &[WorkItem], batch: &BatchOutcome, is_over: bool) -> Vec<Settled> {
    let mut at = 0;
    let mut settled = Vec::with_capacity(items.len());
    for item in items {
        let outcome = match &item.task {
            Task::Scan { .. } if is_over => Settlement::Done { digest: None },
            Task::Scan { .. } | Task::Close {} | Task::Region { .. } => Settlement::Back {},
            task => {
                let batch = batch.of(task, at);
                at += 1;
                match is_over {
                    true => batch.unwrap_or(Settlement::Failed {}),
                    // The early end may be the cause of a failure.
                    false => batch
                        .filter(|outcome| matches!(outcome, Settlement::Done { .. }))
                        .unwrap_or(Settlement::Back {}),
                }
            }
        };
        settled.push(Settled {
            number: item.number,
            outcome,
        });
    }
    settled
}

/// Cuts a text to the length that a command takes.
pub(crate) fn clip(text: &str) -> String {
    let mut text = text.to_owned();
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use godwit_api::event::{WorkDone, WorkFailed};
    use godwit_state::WorkPath;

    use super::*;

    fn items() -> Vec<WorkItem> {
        let path = || WorkPath::from("a");
        let part = |offset| Task::Part {
            path: path(),
            offset,
            bytes: 5,
            generation: 1,
        };
        let scan = Task::Scan {
            path: path(),
            share: 0,
            shares: 1,
        };
        let tasks = [part(0), scan, part(5), part(10), part(15)];
        let item = |(number, task)| WorkItem {
            number,
            root: 0,
            task,
        };
        (10..).zip(tasks).map(item).collect()
    }

    fn batch() -> BatchOutcome {
        let digest = "crc64-nvme:0123456789abcdef".parse().expect("a digest");
        let done = |number, digest| Event::WorkDone(WorkDone { number, digest });
        let mut batch = BatchOutcome::default();
        batch.take(&done(0, Some(digest)));
        batch.take(&done(1, None));
        batch.take(&Event::WorkFailed(WorkFailed {
            number: 2,
            side: "source".to_owned(),
            code: FailureCode::Changed.into(),
            message: "it changed".to_owned(),
        }));
        batch
    }

    fn ended(is_over: bool) -> Vec<(u64, Settlement)> {
        let settled = settlements(&items(), &batch(), is_over);
        settled
            .into_iter()
            .map(|settled| (settled.number, settled.outcome))
            .collect()
    }

    #[test]
    fn items_are_settled_by_the_reports_of_their_transfer() {
        let digest = Settlement::Done {
            digest: Some("crc64-nvme:0123456789abcdef".to_owned()),
        };
        let scan = Settlement::Done { digest: None };
        let failed = || Settlement::Failed {};
        // An item that is already there or was not reported is left to the close.
        let expected = [
            (10, digest.clone()),
            (11, scan),
            (12, failed()),
            (13, failed()),
            (14, failed()),
        ];
        assert_eq!(ended(true), expected);
        // A transfer that was cut off settles only the parts that are done.
        let back = || Settlement::Back {};
        let expected = [
            (10, digest),
            (11, back()),
            (12, back()),
            (13, back()),
            (14, back()),
        ];
        assert_eq!(ended(false), expected);
    }
}
