//! The beacon of a destination: a temporary entry with a random name. The source looks for the name at its root and in the directories that
//! it scans. Does not search for a beacon; `run` does, and the planner recognises one that a source has announced.
//!
//! Two machines, or two mounts, may see one directory under different device and inode numbers. But both mounts show the same
//! names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_engine::SinkFailure;
use godwit_store::{Create, Kind, RelPath, Storage, TempName, Timestamp};

use crate::files::destination::PreparedDestination;

/// An existing beacon; it is removed when this value is dropped, if not before. The beacon of a killed process has the tag of the transfer,
/// so it is removed as other temporary files are.
pub struct Beacon {
    storage: Arc<dyn Storage>,
    directory: RelPath,
    name: TempName,
    /// The earlier time of the directory, which is restored, so that a beacon changes nothing for users.
    before: Option<Timestamp>,
    is_lit: AtomicBool,
    /// The source has announced an entry, so it has already searched for the beacon.
    has_begun: AtomicBool,
    /// The source has announced the beacon.
    is_met: AtomicBool,
}

/// The place of a beacon, as it is sent to the source.
pub struct BeaconPlace {
    /// Name of the beacon.
    pub name: TempName,
    /// Directory of the beacon, relative to the storage.
    pub directory: RelPath,
    /// Path from that directory to the destination.
    pub rest: Vec<u8>,
    /// Whether each source gets its own name in the destination.
    pub into: bool,
}

impl PreparedDestination {
    /// Makes a beacon that exists until everything was sent. A dry run makes one too, so that it reports the same as the real run. `None`
    /// if no entry can be made in any directory at or above the destination.
    pub fn light(&mut self) -> Option<BeaconPlace> {
        let (target, into) = target_of(&self.config.mapping)?;
        let beacon = self.make_beacon(&target)?;
        let (directory, name) = (beacon.directory.clone(), beacon.name);
        if self.journal.is_some() && self.recovered.resumed && self.config.member.is_none() {
            beacon.put_out_earlier(self.config.tag);
        }
        beacon.give_back();
        self.config.beacon = Some(beacon);
        let rest = &target.as_bytes()[directory.as_bytes().len()..];
        let rest = rest.strip_prefix(b"/").unwrap_or(rest).to_vec();
        Some(BeaconPlace {
            name,
            directory,
            rest,
            into,
        })
    }

    /// Finds out when the first attempt of the job began, by the clock of the destination's file system: an entry shows that clock for a
    /// moment.
    pub(crate) fn date(&mut self) {
        let Some(age) = self.config.age.filter(|_| self.journal.is_some()) else {
            return;
        };
        let now = || {
            let (target, _) = target_of(&self.config.mapping)?;
            let beacon = self.make_beacon(&target)?;
            let made = beacon.directory.join(beacon.name.as_bytes()).ok()?;
            let made = self.config.storage.stat(&made);
            beacon.give_back();
            Some(made.ok()??.ctime)
        };
        self.config.since = now().and_then(|now| now.before(age));
    }

    /// Makes an entry with a random name in the nearest directory at or above the target.
    fn make_beacon(&self, target: &RelPath) -> Option<Beacon> {
        let config = &self.config;
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let name = TempName::of_member(config.tag, &random, b"beacon");
        let storage = &config.storage;
        let mut device = None;
        let mut levels = std::iter::successors(Some(target.clone()), RelPath::parent);
        let (directory, before) = levels.find_map(|level| {
            let there = storage.stat(&level).ok()?;
            let there = there.filter(|there| there.kind == Kind::Directory)?;
            // A source that reads the mounted file system does not know the name of its mount point.
            if *device.get_or_insert(there.device) != there.device {
                return None;
            }
            let before = storage.time_of(&level).ok().flatten();
            let within = level.join(b"beacon").ok()?;
            let made = storage.create(&within, &name, Create::Fresh, Some(0));
            made.is_ok().then_some((level, before))
        })?;
        Some(Beacon {
            storage: Arc::clone(storage),
            // Not restored for members of a claim: their beacons overlap in time, and the closer sets the times.
            before: before.filter(|_| config.member.is_none()),
            directory,
            name,
            is_lit: AtomicBool::new(true),
            has_begun: AtomicBool::new(false),
            is_met: AtomicBool::new(false),
        })
    }
}

/// The destination of all sources, and whether each source gets its own name there.
fn target_of(mapping: &[RelPath]) -> Option<(RelPath, bool)> {
    let [first, others @ ..] = mapping else {
        return None;
    };
    let parent = first.parent();
    let is_beside = |other: &RelPath| other.parent() == parent;
    match parent.as_ref() {
        Some(parent) if !others.is_empty() && others.iter().all(is_beside) => {
            Some((parent.clone(), true))
        }
        // If several sources include the contents of one directory, its contents go to the directory of the others.
        _ => {
            let base = mapping.iter().min_by_key(|path| path.components().count());
            base.map(|base| (base.clone(), false))
        }
    }
}

impl Beacon {
    /// Whether a component of an announced path is the beacon; if so, this is recorded.
    pub(crate) fn meets(&self, name: &[u8]) -> bool {
        let is_met = name == self.name.as_bytes();
        if is_met {
            self.is_met.store(true, Ordering::Relaxed);
        }
        is_met
    }

    /// Records that the source sends entries.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Whether anything has arrived from a source that has searched for the beacon. If not, there is nothing to resume.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed) && !self.is_met.load(Ordering::Relaxed)
    }

    /// Whether the name is the beacon's, which must stay.
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        name == self.name.as_bytes()
    }

    /// The reason why the transfer ends, if its source has announced the beacon.
    pub(crate) fn failure(&self) -> Option<SinkFailure> {
        self.is_met.load(Ordering::Relaxed).then(|| {
            SinkFailure::IntoItself(
                "the source contains the destination, and cannot be copied into itself; the two ends see one file system through different mounts"
                    .to_owned(),
            )
        })
    }

    /// Removes the beacon, because the source no longer searches.
    pub(crate) fn put_out(&self) {
        if !self.is_lit.swap(false, Ordering::Relaxed) {
            return;
        }
        let Ok(within) = self.directory.join(b"beacon") else {
            return;
        };
        let now = self.storage.time_of(&self.directory);
        let removed = self.storage.discard(&within, &self.name);
        // If the time has changed since, another program has changed the directory, and its time stays.
        if removed.is_ok() && self.before.is_some() && now.ok().flatten() == self.before {
            self.give_back();
        }
    }

    /// Removes the beacon that a killed run has left. A beacon is empty, unlike any file that a run resumes.
    fn put_out_earlier(&self, tag: u64) {
        let storage = &self.storage;
        let mut found = Vec::new();
        let listed = storage.names_in(&self.directory, &mut |name| {
            if TempName::is_ours(name, tag) && !self.is(name) {
                found.push(name.to_vec());
            }
        });
        let paths = found
            .iter()
            .filter_map(|name| self.directory.join(name).ok());
        for path in paths.filter(|_| listed.is_ok()) {
            let there = storage.stat(&path).ok().flatten();
            if there.is_some_and(|there| there.kind == Kind::File && there.bytes == 0) {
                let _ = storage.remove_entry(&path, false);
            }
        }
    }

    /// Restores the earlier time of its directory. If that is not permitted, the directory keeps the time of the change.
    fn give_back(&self) {
        if let Some(before) = &self.before {
            let _ = self.storage.restore_mtime(&self.directory, *before);
        }
    }
}

impl Drop for Beacon {
    fn drop(&mut self) {
        self.put_out();
    }
}
