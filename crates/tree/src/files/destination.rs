//! Prepares a tree as a destination: maps names once, opens the journal, refuses places that another transfer writes to. Writes no
//! data.

mod earlier;
mod header;
mod key;
mod member;
mod shown;

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_engine::Fence;
use godwit_proto::Comparison;

use godwit_store::journal::{
    BeginError, Journal, JournalDirectory, JournalError, JournalHeader, JournalKey, Recovered,
    sender_tag,
};
use godwit_store::{Kind, RelPath, Storage, StoreError, TempName, digest};

pub use self::earlier::Earlier;
use self::header::{decode_mapping, encode_mapping, label};
use crate::files::member::Membership;
use crate::files::read::source::TreeRoot;
use crate::files::sink::TreeSinkConfig;
use crate::select::Select;

/// A place at which a transfer writes files.
#[derive(Clone)]
pub struct DestinationPlace {
    /// The directory that contains the entry.
    pub storage: Arc<dyn Storage>,
    /// Absolute path of that directory, for the check against other transfers.
    pub storage_path: Vec<u8>,
    /// The entry's name in that directory; empty for the directory itself.
    pub base: RelPath,
    /// The argument ended in a slash, so entries go into the directory.
    pub is_directory: bool,
    /// The directory's name in messages.
    pub display: Vec<u8>,
}

/// The user's request for a destination.
#[derive(Clone)]
pub struct DestinationRequest {
    /// Where the files go.
    pub place: DestinationPlace,
    /// Identity of the sending side.
    pub sender: Vec<u8>,
    /// The source arguments, absolute, in order.
    pub sources: Vec<Vec<u8>>,
    /// The sources' names at the destination if they go into a directory; empty for "the contents of the source".
    pub names: Vec<Vec<u8>>,
    /// Digest of blocks and files, unless an unfinished transfer already uses another.
    pub digest: digest::DigestKind,
    /// Send entries even if size and time match.
    pub force: bool,
    /// Read every file back.
    pub verify: bool,
    /// Do not wait for storage.
    pub no_sync: bool,
    /// Directory of journals, and of data that does not fit in memory.
    pub journals: PathBuf,
    /// How to treat existing entries, if the sender requested anything.
    pub comparison: Option<Comparison>,
    /// The selection rules of the sources. The transfer does not change excluded entries.
    pub select: Arc<Select>,
    /// Membership in a claim, if the transfer is a member.
    pub member: Option<Membership>,
    /// Decides whether the transfer may still write, if it is no member but another node may take over its job.
    pub fence: Option<Arc<dyn Fence>>,
    /// Findings and temporary files of earlier attempts of the same job.
    pub earlier: Earlier,
    /// Names the writing node, if another node may continue its job.
    pub node: Vec<u8>,
    /// Names the identity whose share of the journal space the transfer uses; None if that is the sender.
    pub counted_as: Option<Vec<u8>>,
}

/// A destination that is ready to be written.
pub struct PreparedDestination {
    /// Configuration of the sink.
    pub config: TreeSinkConfig,
    /// The transfer's journal, locked; `None` for a dry run.
    pub journal: Option<Journal>,
    /// State left by an earlier run.
    pub recovered: Recovered,
    /// The directory that this run created for the sources.
    made: Option<RelPath>,
    /// The destination in messages: the path of the only source, or the directory of several, followed by a slash.
    pub mapped: Vec<u8>,
    /// Absolute destination path of each source.
    pub destinations: Vec<Vec<u8>>,
    /// Sources go into a directory; otherwise the only source becomes the destination.
    pub into: bool,
}

impl PreparedDestination {
    /// Undoes the preparation before anything was written: removes the directory and the journal that this run created. The journal of
    /// an earlier run stays, for the run that will resume it.
    ///
    /// # Errors
    /// The journal of this run cannot be removed.
    pub fn put_away(mut self) -> Result<(), JournalError> {
        drop(self.config.beacon.take());
        if let Some(made) = &self.made {
            // The directory stays if another program has put an entry into it meanwhile.
            let _ = self.config.storage.remove_entry(made, true);
        }
        match self.journal {
            Some(journal) if !self.recovered.resumed => journal.finish(),
            _ => Ok(()),
        }
    }

    /// The copies of the sources, in the order of the roots.
    pub fn roots(&self) -> Vec<TreeRoot> {
        self.config
            .mapping
            .iter()
            .map(|start| TreeRoot {
                storage: Arc::clone(&self.config.storage),
                start: start.clone(),
            })
            .collect()
    }

    /// The prefix of each root's entry names in messages.
    pub fn root_displays(&self) -> Vec<Vec<u8>> {
        self.config
            .mapping
            .iter()
            .map(|start| {
                let mut display = self.config.display.clone();
                if !display.is_empty() && !display.ends_with(b"/") && !start.is_root() {
                    display.push(b'/');
                }
                display.extend_from_slice(start.as_bytes());
                display
            })
            .collect()
    }
}

/// Reason why a destination cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// Another transfer writes to the destination.
    #[error(
        "{destination} is being written by another transfer ({label}); wait for it, or stop it"
    )]
    Busy {
        /// The destination being written.
        destination: String,
        /// The transfer that writes there.
        label: String,
        /// The other transfer is the same transfer, started twice.
        same: bool,
    },
    /// A run of a later epoch of the claim wrote to the journal.
    #[error(
        "a member of epoch {0} of this claim has written to the destination since; ask the controller of the job for the current epoch"
    )]
    Stale(u64),
    /// The destination argument does not fit the existing entries.
    #[error("{0}")]
    Unsuitable(String),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal failed.
    #[error("the journal in {path} cannot be used: {message}")]
    Journal {
        /// Directory of the journals.
        path: String,
        /// Description of the error.
        message: String,
    },
}

impl DestinationRequest {
    /// The request of a plain transfer: usual settings, no membership, no earlier attempts.
    #[must_use]
    pub fn new(
        place: DestinationPlace,
        sender: Vec<u8>,
        sources: Vec<Vec<u8>>,
        names: Vec<Vec<u8>>,
        journals: PathBuf,
    ) -> Self {
        Self {
            place,
            sender,
            sources,
            names,
            digest: digest::DigestKind::Crc64Nvme,
            force: false,
            verify: false,
            no_sync: false,
            journals,
            comparison: None,
            select: Arc::default(),
            member: None,
            fence: None,
            earlier: Earlier::default(),
            node: Vec::new(),
            counted_as: None,
        }
    }

    /// Opens the journal, or creates it with today's mapping of names.
    ///
    /// # Errors
    /// Nothing was written in this case.
    pub fn prepare(self) -> Result<PreparedDestination, DestinationError> {
        self.check_names()?;
        let key = self.key();
        let (journal, recovered) = if self.comparison().dry_run {
            (None, self.recovered_dry(key)?)
        } else {
            let (journal, recovered) = self.begin(key)?;
            self.enter_epoch(&journal, &recovered)?;
            (Some(journal), recovered)
        };
        let mapping = decode_mapping(&recovered.header.mapping)
            .filter(|mapping| mapping.len() == self.names.len())
            .ok_or_else(|| {
                self.journal_error(format!(
                    "{key}.journal belongs to a transfer of other sources; to start again, remove that file"
                ))
            })?;
        // The directory is made last, when the transfer can no longer be refused, so that a failed start leaves no directory.
        let makes_base = journal.is_some() && !recovered.resumed && self.makes_base(&mapping);
        let made =
            match makes_base.then(|| self.place.storage.make_directory(&self.place.base, 0o755)) {
                None => false,
                Some(Ok(made)) => made,
                Some(Err(error)) => {
                    // The transfer has not begun, so there is nothing to resume. A journal that cannot be removed does no harm.
                    let _ = journal.map(Journal::finish);
                    return Err(error.into());
                }
            };
        let mut tag = [0; 8];
        tag.copy_from_slice(&key.0[..8]);
        self.hold_to_fence(u64::from_le_bytes(tag));
        let mapped = self.place_for_people(&mapping);
        let into =
            self.place.is_directory || mapping.as_slice() != std::slice::from_ref(&self.place.base);
        let protected = self.own_place();
        let mut prepared = PreparedDestination {
            mapped,
            made: made.then(|| self.place.base.clone()),
            into,
            config: TreeSinkConfig {
                storage: self.place.storage,
                mapping,
                base: self.place.base,
                tag: u64::from_le_bytes(tag),
                key: key.0,
                fence: match &self.member {
                    Some(member) => Some(Arc::clone(&member.fence)),
                    None => self.fence,
                },
                since: self.member.as_ref().and_then(Membership::counts_since),
                age: self.earlier.age.filter(|_| self.member.is_none()),
                member: self.member,
                earlier_tags: self.earlier.tags,
                beacon: None,
                digest: recovered.header.digest,
                force: self.force,
                verify: self.verify,
                no_sync: self.no_sync,
                protected,
                must_be_directory: self.place.is_directory
                    && self
                        .comparison
                        .is_some_and(|comparison| comparison.counterpart),
                comparison: self.comparison,
                spill: (&self.journals).into(),
                display: self.place.display,
                keeper: Arc::default(),
                select: self.select,
                hides_names: false,
                hides_contents: false,
            },
            destinations: recovered.header.destinations.clone(),
            journal,
            recovered,
        };
        prepared.date();
        Ok(prepared)
    }

    /// Refuses requests that none of our clients makes. A journal for such a request would fit no transfer.
    fn check_names(&self) -> Result<(), DestinationError> {
        let (sources, names) = (self.sources.len(), self.names.len());
        if names == 0 || names != sources || names > 1 && self.comparison().counterpart {
            return Err(DestinationError::Unsuitable(format!(
                "the request has {names} names for {sources} sources; each source needs one name, and sync takes one source"
            )));
        }
        Ok(())
    }

    /// Whether sources go into a directory that the user named and that may have to be created.
    fn makes_base(&self, mapping: &[RelPath]) -> bool {
        let into = mapping.iter().any(|path| *path != self.place.base) || self.place.is_directory;
        into && !self.place.base.is_root() && !self.comparison().counterpart
    }

    fn fresh_header(&self) -> Result<JournalHeader, DestinationError> {
        let mapping = self.map_names()?;
        let is_temporary = |path: &&RelPath| path.file_name().is_some_and(TempName::is_temp);
        if let Some(path) = mapping.iter().find(is_temporary) {
            return Err(DestinationError::Unsuitable(format!(
                "{} has the form of Godwit's temporary names, and a later transfer might remove it; choose another name",
                lossy(&self.show(path))
            )));
        }
        let destinations = mapping
            .iter()
            .map(|path| {
                let mut absolute = self.place.storage_path.clone();
                if !path.as_bytes().is_empty() {
                    if !absolute.ends_with(b"/") {
                        absolute.push(b'/');
                    }
                    absolute.extend(path.as_bytes());
                }
                absolute
            })
            .collect();
        Ok(JournalHeader {
            mapping: encode_mapping(&mapping),
            digest: self.digest,
            destinations,
            label: label(&self.sources, &self.show(&self.place.base)),
            claim: self.member.as_ref().map(|member| member.claim),
            sender: Some(sender_tag(self.counted_as.as_ref().unwrap_or(&self.sender))),
        })
    }

    /// Opens or creates the journal.
    fn begin(&self, key: JournalKey) -> Result<(Journal, Recovered), DestinationError> {
        let journal_error = |message: String| self.journal_error(message);
        let directory = JournalDirectory::open(&self.journals)
            .map_err(|error| journal_error(error.to_string()))?;
        directory
            .begin(key, || self.fresh_header())
            .map_err(|error| match error {
                BeginError::Busy {
                    label,
                    destination,
                    same,
                } => DestinationError::Busy {
                    label,
                    destination: destination.display().to_string(),
                    same,
                },
                BeginError::Fresh(error) => error,
                error @ (BeginError::TooLarge | BeginError::Journal(_)) => {
                    journal_error(error.to_string())
                }
            })
    }

    fn journal_error(&self, message: String) -> DestinationError {
        DestinationError::Journal {
            path: self.journals.display().to_string(),
            message,
        }
    }

    fn comparison(&self) -> Comparison {
        self.comparison.unwrap_or_default()
    }

    /// The state for a dry run: the name mapping of an unfinished transfer, or the one that would be made now.
    fn recovered_dry(&self, key: JournalKey) -> Result<Recovered, DestinationError> {
        let header = match JournalDirectory::header_of(&self.journals, key) {
            Some(header) => header,
            None => self.fresh_header()?,
        };
        Ok(Recovered::fresh(header, None))
    }

    /// The directory of this program's own files, if it is in the storage.
    fn own_place(&self) -> Option<RelPath> {
        let own = std::fs::canonicalize(&self.journals).ok()?;
        let home = own.parent()?.as_os_str().as_bytes();
        let inside = home.strip_prefix(self.place.storage_path.as_slice())?;
        let inside = match inside.strip_prefix(b"/") {
            Some(inside) => inside,
            // The root directory itself.
            None if self.place.storage_path.ends_with(b"/") => inside,
            None => return None,
        };
        RelPath::parse(inside).ok().filter(|path| !path.is_root())
    }

    /// Follows the rules of `cp -r`: an existing directory, a trailing slash, or several sources mean "into". If that directory must be
    /// created, the trailing slash is required: a name that does not exist may be mistyped.
    fn map_names(&self) -> Result<Vec<RelPath>, DestinationError> {
        let there = if self.place.base.as_bytes().is_empty() {
            Some(Kind::Directory)
        } else {
            self.place
                .storage
                .stat(&self.place.base)?
                .map(|meta| meta.kind)
        };
        let shown = lossy(&self.show(&self.place.base));
        let comparison = self.comparison();
        let is_there = self
            .earlier
            .into
            .unwrap_or_else(|| there == Some(Kind::Directory));
        let into = !comparison.counterpart
            && (self.place.is_directory || self.names.len() > 1 || is_there);
        match there {
            Some(Kind::Directory) => {}
            Some(_) if into => {
                return Err(DestinationError::Unsuitable(format!(
                    "{shown} is not a directory"
                )));
            }
            Some(_) => {}
            None => {
                let parent = self.place.base.parent().unwrap_or_default();
                let parent_there = parent.as_bytes().is_empty()
                    || self
                        .place
                        .storage
                        .stat(&parent)?
                        .is_some_and(|meta| meta.kind == Kind::Directory);
                if !parent_there {
                    let parent = lossy(&self.show(&parent));
                    return Err(DestinationError::Unsuitable(format!(
                        "the destination directory {parent} does not exist; make it first"
                    )));
                }
                if self.names.len() > 1 && !self.place.is_directory {
                    return Err(DestinationError::Unsuitable(format!(
                        "several sources need a directory, and {shown} does not exist; make the directory, or write its name with a trailing slash"
                    )));
                }
            }
        }
        if !into {
            return Ok(vec![self.place.base.clone()]);
        }
        let mut mapping: Vec<RelPath> = Vec::with_capacity(self.names.len());
        let mut taken = HashSet::with_capacity(self.names.len());
        for name in &self.names {
            let path = if name.is_empty() {
                self.place.base.clone()
            } else {
                self.place
                    .base
                    .join(name)
                    .map_err(|_error| self.bad_name(name))?
            };
            if !taken.insert(path.clone()) {
                return Err(DestinationError::Unsuitable(format!(
                    "two sources would both become {}",
                    lossy(&self.show(&path))
                )));
            }
            mapping.push(path);
        }
        Ok(mapping)
    }

    fn bad_name(&self, name: &[u8]) -> DestinationError {
        DestinationError::Unsuitable(format!(
            "{} is not allowed as a name in {}",
            lossy(name),
            lossy(&self.show(&self.place.base))
        ))
    }

    fn show(&self, path: &RelPath) -> Vec<u8> {
        if self.place.display.is_empty() || path.as_bytes().is_empty() {
            return [self.place.display.as_slice(), path.as_bytes()].concat();
        }
        [self.place.display.as_slice(), b"/", path.as_bytes()].concat()
    }
}

/// Text for messages.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
