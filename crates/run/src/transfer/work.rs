//! The items of a job that is a member of a claim: converts them for the tree, and reports each by its number once it is
//! settled. Does not send or assign items; the author of the job description does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use godwit_api::endpoint::{Endpoint, NodePlace};
use godwit_api::event::{Event, EventSink, WorkDone, WorkFailed};
use godwit_api::failure::Failure;
use godwit_api::job::{HELD_PARTS_MAX, HeldPart, ITEMS_MAX, Item, JobKind, JobSpec, PartDigest};
use godwit_api::settings::CpSettings;
use godwit_engine::FailedEntry;
use godwit_engine::entry::digest_to_wire;
use godwit_proto::parts::HELD_ELSEWHERE_MAX;
use godwit_proto::{EntryId, HeldRange, Member, Part, Portion, Record};
use godwit_store::digest::{self, Added, FileDigest};
use godwit_tree::WorkItem;

use crate::reports::{code, locked, side};

/// Refuses items without a claim, and a member whose places, settings or items do not fit a claim.
pub(crate) fn check(
    spec: &JobSpec,
    settings: &CpSettings,
    sources: &[Endpoint],
    destination: &Endpoint,
) -> Result<(), Failure> {
    let Some(member) = &spec.member else {
        return match spec.items.is_empty() {
            true => Ok(()),
            false => Err(Failure::usage(
                "only a member of a claim takes items: describe the claim in `member`",
            )),
        };
    };
    let from_here = matches!(sources, [Endpoint::Local(_)]);
    let to_node = matches!(
        destination,
        Endpoint::Remote(remote) if matches!(remote.place, NodePlace::Export { .. })
    );
    let why = if member.epoch == 0 {
        "the epoch of a claim is 1 or more"
    } else if !from_here || !to_node {
        "a member sends one source of this machine to an export of a node"
    } else if member.closer && !spec.items.is_empty() {
        "the closer brings the whole tree: give its items to another member"
    } else if settings.comparison.delete && !member.closer {
        "only the closer deletes"
    } else if settings.comparison.dry_run {
        "a member writes: there is no dry run of it"
    } else if settings.reports.manifest.is_some() && !spec.items.is_empty() {
        "a part has no line in a manifest: leave --manifest out"
    } else if spec.items.len() > ITEMS_MAX {
        "there are more items than one job takes: give it fewer at a time"
    } else if spec.kind == JobKind::Verify {
        "a verification is no member of a claim"
    } else {
        return Ok(());
    };
    Err(Failure::usage(why))
}

/// The fields of OPEN for a member.
pub(super) fn member_of(spec: &JobSpec) -> Option<Member> {
    spec.member.as_ref().map(|member| {
        let region = member.region.as_ref();
        let within = region.map(|region| region.within.iter().map(|path| path.0.clone()));
        Member {
            claim: member.claim.0.to_vec(),
            epoch: member.epoch,
            closer: member.closer,
            lane: member.lane,
            within: within.into_iter().flatten().collect(),
            flat: region.is_some_and(|region| region.flat),
            deletes: member.deletes,
        }
    })
}

/// The items in the terms of the tree. If there are too many held parts, parts are merged as far as their digests allow.
pub(super) fn items_of(spec: &JobSpec, settings: &CpSettings) -> Result<Vec<WorkItem>, Failure> {
    let mut held = 0;
    let mut items = Vec::with_capacity(spec.items.len());
    for (number, item) in spec.items.iter().enumerate() {
        let refuse = |why: &str| Failure::usage(format!("item {number} of the job: {why}"));
        let (path, generation, portion) = match item {
            Item::Part {
                path,
                offset,
                bytes,
                generation,
            } => {
                let part = Part {
                    offset: *offset,
                    bytes: *bytes,
                };
                (path, *generation, Portion::Part(part))
            }
            Item::Assemble {
                path,
                generation,
                parts,
            } => {
                held += parts.len();
                if held > HELD_PARTS_MAX {
                    return Err(refuse(
                        "there are more parts than one job puts together; give it fewer items",
                    ));
                }
                let ranges = merged(parts, settings).map_err(|why| refuse(&why))?;
                (path, *generation, Portion::Assemble(ranges))
            }
        };
        let item = WorkItem::new(path.0.clone(), generation, &portion);
        items.push(item.map_err(|error| refuse(&error.to_string()))?);
    }
    Ok(items)
}

fn merged(parts: &[HeldPart], settings: &CpSettings) -> Result<Vec<HeldRange>, String> {
    let kind = settings.digest;
    let mut file = FileDigest::new(kind);
    let mut apart = Vec::with_capacity(parts.len());
    for part in parts {
        if part.digest.kind != settings.digest {
            return Err(format!(
                "{} is the digest of a part, and the job takes another kind (--digest)",
                part.digest
            ));
        }
        let mut bytes = [0; 32];
        bytes[..kind.digest_bytes()].copy_from_slice(&part.digest.bytes);
        let digest = digest::Digest(bytes);
        apart.push((part.offset, part.bytes, digest));
        if file.add(part.offset, part.bytes, digest) != Added::New {
            return Err(format!(
                "the part of {} bytes at {} overlaps another, or is no part of a file",
                part.bytes, part.offset
            ));
        }
    }
    // Parts stay separate if they fit, so that a wrong one can be identified.
    let mut each = apart;
    if each.len() > HELD_ELSEWHERE_MAX {
        each = file.ranges();
    }
    each.sort_unstable_by_key(|(offset, _, _)| *offset);
    let range = |(offset, bytes, digest): (u64, u64, digest::Digest)| HeldRange {
        offset,
        bytes,
        digest: digest_to_wire(&digest),
    };
    Ok(each.into_iter().map(range).collect())
}

/// Reports the items of one run of a transfer by their numbers in the job.
pub(super) struct Telling {
    events: Arc<dyn EventSink>,
    kind: digest::DigestKind,
    /// The item number of each entry that is an item. Items get their entries in order.
    numbers: Mutex<HashMap<EntryId, usize>>,
}

impl Telling {
    /// The reporter of a job with items; `None` without items.
    pub(super) fn of(
        spec: &JobSpec,
        settings: &CpSettings,
        events: &Arc<dyn EventSink>,
    ) -> Option<Self> {
        (!spec.items.is_empty()).then(|| Self {
            events: Arc::clone(events),
            kind: settings.digest,
            numbers: Mutex::default(),
        })
    }

    pub(super) fn announced(&self, record: &Record) {
        let mut numbers = locked(&self.numbers);
        let number = numbers.len();
        numbers.entry(record.id).or_insert(number);
    }

    pub(super) fn done(&self, record: &Record) {
        let Some(number) = self.number(record.id) else {
            return;
        };
        let digest = record.digest.as_ref().map(|digest| PartDigest {
            kind: self.kind,
            bytes: digest.0[..self.kind.digest_bytes()].to_vec(),
        });
        self.events
            .emit(Event::WorkDone(WorkDone { number, digest }));
    }

    pub(super) fn failed(&self, failed: &FailedEntry<'_>) {
        let fault = failed.fault;
        if let Some(number) = self.number(fault.entry) {
            self.events.emit(Event::WorkFailed(WorkFailed {
                number,
                side: side(fault.side).to_owned(),
                code: code(fault.code),
                message: fault.message.clone(),
            }));
        }
    }

    fn number(&self, entry: EntryId) -> Option<usize> {
        locked(&self.numbers).get(&entry).copied()
    }
}
