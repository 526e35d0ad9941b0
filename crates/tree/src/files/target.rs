//! Shared state of all parts of a tree sink: its configuration, counters and acknowledgements, and the mapping of names to the
//! destination. Has no other state and needs no lock.

use std::sync::Arc;

use godwit_engine::{Acks, Counters};
use godwit_proto::{Comparison, EntryId, EntryKind, Fault, FaultCode, Record, Seq, Side};
use godwit_store::{Kind, Meta, RelPath, StoreError, StoreErrorKind, TempName};

use crate::files::member::Delivered;
use crate::files::plan::compare::mtime_of;
use crate::files::sink::TreeSinkConfig;

/// The destination of a transfer, for its planner, writer and finisher.
pub(crate) struct Target {
    pub(crate) config: TreeSinkConfig,
    pub(crate) acks: Arc<Acks>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) delivered: Delivered,
}

impl Target {
    pub(crate) fn comparison(&self) -> Comparison {
        self.config.comparison.unwrap_or_default()
    }

    /// The destination path of the first source.
    pub(crate) fn base(&self) -> RelPath {
        self.config.mapping.first().cloned().unwrap_or_default()
    }

    pub(crate) fn mapped(&self, root: u16, path: &[u8]) -> Result<RelPath, Fault> {
        let mut mapped = RelPath::root();
        self.map_in(root, path, &mut mapped)?;
        Ok(mapped)
    }

    /// Does the same as [`Target::mapped`], but writes the path into `mapped`.
    pub(crate) fn map_in(&self, root: u16, path: &[u8], mapped: &mut RelPath) -> Result<(), Fault> {
        // Only a sender that breaks the rules sends a temporary name; the file would be mistaken for an incomplete one.
        let mut names = path.split(|byte| *byte == b'/');
        if let Some(name) = names.find(|name| TempName::is_temp(name)) {
            if self
                .config
                .beacon
                .as_ref()
                .is_some_and(|beacon| beacon.meets(name))
            {
                return Err(name_fault("the transfer writes to this place"));
            }
            return Err(name_fault(
                "the name has the form of Godwit's temporary names, which no sender may deliver; rename it at the source",
            ));
        }
        self.join_in(root, path, mapped)
    }

    /// The path that an entry would have, whether or not a sender may deliver it.
    fn join_in(&self, root: u16, path: &[u8], joined: &mut RelPath) -> Result<(), Fault> {
        let prefix = self
            .config
            .mapping
            .get(usize::from(root))
            .ok_or_else(|| name_fault("an entry of an unknown root"))?;
        prefix.join_in(path, joined).map_err(|_error| {
            name_fault("the name is not allowed, or too long, at the destination")
        })
    }

    /// The path as shown to users.
    pub(crate) fn shown(&self, path: &RelPath) -> Vec<u8> {
        let mut name = self.config.display.clone();
        if !name.is_empty() && !name.ends_with(b"/") {
            name.push(b'/');
        }
        name.extend_from_slice(path.as_bytes());
        name
    }

    /// The path of an entry for messages; the destination's own path if the entry has no valid name here.
    pub(crate) fn display_path(&self, root: u16, path: &[u8]) -> Vec<u8> {
        let mut joined = RelPath::root();
        self.join_in(root, path, &mut joined).map_or_else(
            |_fault| self.config.display.clone(),
            |()| self.shown(&joined),
        )
    }

    /// Reports the failure of an entry that no longer belongs to an item.
    pub(crate) fn fail(&self, fault: Fault, root: u16, path: &[u8]) {
        let shown = self.display_path(root, path);
        let fault = self.with_room(fault);
        self.acks.fault(Seq(0), fault, root, path, &shown);
    }

    /// Adds the free space to a fault because of a full disk.
    pub(crate) fn with_room(&self, mut fault: Fault) -> Fault {
        if fault.code == FaultCode::NO_SPACE
            && let Some(free) = self.config.storage.free_bytes()
        {
            let (free, unit) = match free {
                ..0x1000_0000 => (free >> 10, "KiB"),
                _ => (free >> 20, "MiB"),
            };
            fault.message = format!("{} ({free} {unit} are free there)", fault.message);
        }
        fault
    }

    /// The metadata of the entry at `path`.
    pub(crate) fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        self.unless_in_the_way(self.config.storage.stat(path))
    }

    /// Converts the result of a look. In a dry run, an entry that a directory would have replaced has no entries below it.
    pub(crate) fn unless_in_the_way(
        &self,
        found: Result<Option<Meta>, StoreError>,
    ) -> Result<Option<Meta>, StoreError> {
        match found {
            Err(error) if self.may_replace(&error) => Ok(None),
            found => found,
        }
    }

    /// Whether the error means that another entry has the name of a directory, and the transfer may remove it. With `--ignore-existing` alone
    /// that entry stays.
    pub(crate) fn may_replace(&self, error: &StoreError) -> bool {
        let comparison = self.comparison();
        let stays = comparison.ignore_existing && !comparison.existing;
        comparison.delete
            && !stays
            && matches!(
                error.kind,
                StoreErrorKind::TypeConflict | StoreErrorKind::Escape
            )
    }

    /// Whether the change of a directory to another kind of entry, or the reverse, is deferred to the end: the old entry is then removed,
    /// or causes a fault.
    pub(crate) fn defers(&self, record: &Record, path: &RelPath) -> bool {
        self.comparison().delete && (!record.path.is_empty() || self.root_makes_way(path))
    }

    /// Whether the entry named as the destination may be replaced by another kind of entry. The storage's own root cannot, and a name that
    /// ends with a slash must be a directory.
    pub(crate) fn root_makes_way(&self, path: &RelPath) -> bool {
        self.comparison().counterpart && !path.is_root() && !self.config.must_be_directory
    }

    /// Refuses to replace a device, FIFO or socket that has the name of the whole destination, because its user wants to write into it.
    /// Inside a data set such an entry is a copy, and may be replaced.
    pub(crate) fn spare_special(&self, record: &Record, there: &Meta) -> Result<(), Fault> {
        let (kind, advice) = match there.kind {
            Kind::CharDevice | Kind::BlockDevice => {
                ("device", "to discard the data, use the destination null:")
            }
            Kind::Fifo => ("FIFO", "to write into it, use: godwit cp SOURCE - > FIFO"),
            Kind::Socket => ("socket", "remove it first"),
            Kind::File | Kind::Directory | Kind::Symlink => return Ok(()),
        };
        let is_copy = self.config.keeper.preserve().specials && record.kind.is_special();
        if !record.path.is_empty() || is_copy {
            return Ok(());
        }
        let message = format!("the destination is a {kind}, which is not replaced; {advice}");
        let code = FaultCode::NOT_REGULAR;
        Err(destination_fault(record.id, code, message))
    }

    /// Whether the directory belongs to the data set, so that its mode is set at the end. Directories above may be closed for a reason,
    /// and would stay open; the storage's own root is not a copy.
    pub(crate) fn sets_mode_of(&self, directory: &RelPath) -> bool {
        let mut roots = self.config.mapping.iter();
        !directory.is_root() && roots.any(|root| directory.starts_with(root))
    }
}

/// Whether an option for existing or missing entries excludes the entry.
pub(crate) fn stays_out(comparison: Comparison, kind: EntryKind, there: Option<&Meta>) -> bool {
    match there {
        None => comparison.existing,
        Some(there) => {
            let both_directories = kind == EntryKind::DIRECTORY && there.kind == Kind::Directory;
            comparison.ignore_existing && !both_directories
        }
    }
}

/// Whether `--update` keeps the existing file in whose place a link or a special file would be made.
pub(crate) fn spares_newer(comparison: Comparison, record: &Record, there: &Meta) -> bool {
    comparison.update && there.kind == Kind::File && there.mtime > mtime_of(record)
}

/// The fault of an entry that would replace one with other contents, where that is excluded.
pub(crate) fn stays(entry: EntryId, path: &RelPath) -> Fault {
    let message = format!(
        "{path}: the destination has another entry of this name, which stays (--no-replace, or a merge that refuses); rename one of the two"
    );
    destination_fault(entry, FaultCode::COLLISION, message)
}

pub(crate) fn destination_fault(entry: EntryId, code: FaultCode, message: String) -> Fault {
    Fault {
        entry,
        side: Side::DESTINATION,
        code,
        errno: None,
        message,
    }
}

pub(crate) fn type_conflict(path: &RelPath) -> StoreError {
    StoreError {
        operation: "replace the directory with another entry",
        path: path.clone(),
        kind: StoreErrorKind::TypeConflict,
        errno: None,
    }
}

pub(crate) fn spill_error(path: &RelPath, error: &std::io::Error) -> StoreError {
    StoreError {
        operation: "note for the end",
        path: path.clone(),
        kind: StoreErrorKind::Io,
        errno: error.raw_os_error(),
    }
}

/// The part of `path` below `base`.
pub(crate) fn below<'a>(base: &RelPath, path: &'a RelPath) -> &'a [u8] {
    let rest = path.as_bytes();
    let rest = rest.strip_prefix(base.as_bytes()).unwrap_or(rest);
    rest.strip_prefix(b"/").unwrap_or(rest)
}

fn name_fault(message: &str) -> Fault {
    destination_fault(EntryId(0), FaultCode::NAME, message.to_owned())
}

#[cfg(test)]
mod tests;
