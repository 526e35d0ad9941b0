//! Exports as the local ends of the node's own jobs. Checks no grants: a user that may submit a job
//! to this node may use its exports.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::endpoint::NodePlace;
use godwit_proto::FaultCode;
use godwit_run::local::{Access, ExportedFiles, LocalError, LocalSource, hint};
use godwit_store::{RelPath, Storage, StoreErrorKind, Syncs};
use godwit_tree::{DestinationPlace, TreeRoot, root_fault};

use crate::claims::{ClaimTable, Spots};
use crate::export::{Export, ExportError, ExportPath, locate};

/// The exports of a node, for the jobs that the node itself runs.
pub struct Exported {
    exports: Vec<Export>,
    spill: PathBuf,
    syncs: Syncs,
    claims: Arc<ClaimTable>,
}

/// The target of a path.
struct Found {
    storage: Arc<dyn Storage>,
    /// Real path of the export.
    real: Vec<u8>,
    below: RelPath,
    export: String,
    /// The path ended in a slash.
    directory: bool,
    /// The path ended in `/.`.
    contents: bool,
}

impl Exported {
    /// Uses these exports; data that does not fit in memory is written to files in `spill`.
    #[must_use]
    pub fn new(exports: Vec<Export>, spill: PathBuf, syncs: Syncs) -> Self {
        Self {
            exports,
            spill,
            syncs,
            claims: Arc::default(),
        }
    }

    /// These exports, with the claims that other parts of this node use.
    #[must_use]
    pub fn claiming(self, claims: Arc<ClaimTable>) -> Self {
        Self { claims, ..self }
    }

    fn find(&self, path: &Path, access: Access) -> Result<Found, LocalError> {
        let shown = path.display();
        let bytes = path.as_os_str().as_bytes();
        let wire = bytes.strip_prefix(b"/").unwrap_or(bytes);
        let refuse = |error: ExportError| {
            let code = match error {
                ExportError::Unknown(..) => FaultCode::NOT_FOUND,
                ExportError::Path(_) => FaultCode::NAME,
                // Nothing changes until the operator of that machine acts.
                ExportError::Led { .. } | ExportError::Own { .. } => FaultCode::PERMISSION,
                _ => FaultCode::IO,
            };
            let message = format!("{shown}: {error}");
            match error.passes() {
                true => LocalError::away(message),
                false => LocalError::new(code, message),
            }
        };
        let (directory, contents) = match NodePlace::from_wire(wire) {
            Ok(NodePlace::Export {
                directory,
                contents,
                ..
            }) => (directory, contents),
            _ => (false, false),
        };
        match locate(&self.exports, wire).map_err(refuse)? {
            ExportPath::Below(export, below) => {
                let opened = export.open(&self.spill, access, &self.syncs);
                let (storage, real) = opened.map_err(refuse)?;
                Ok(Found {
                    storage,
                    real,
                    below,
                    export: export.name.clone(),
                    directory,
                    contents,
                })
            }
            ExportPath::Null | ExportPath::Memory(_) => {
                Err(refuse(ExportError::Path(shown.to_string())))
            }
        }
    }
}

impl ExportedFiles for Exported {
    fn source(&self, path: &Path, access: Access) -> Result<LocalSource, LocalError> {
        let found = self.find(path, access)?;
        let shown = path.display();
        let there = found.storage.stat(&found.below).map_err(|error| {
            let code = match error.kind {
                StoreErrorKind::Escape => FaultCode::PERMISSION,
                _ => root_fault(&error).code,
            };
            LocalError::new(code, format!("{shown}: {error}"))
        })?;
        if there.is_none() && !found.below.is_root() {
            let bytes = path.as_os_str().as_bytes();
            let why = format!("{shown}: does not exist{}", hint(bytes));
            return Err(LocalError::new(FaultCode::NOT_FOUND, why));
        }
        let name = match found.below.split() {
            _ if found.contents => Vec::new(),
            Some((_, name)) => name.to_vec(),
            // The export itself uses its name, like any directory.
            None => found.export.into_bytes(),
        };
        Ok(LocalSource {
            absolute: below(&found.real, found.below.as_bytes()),
            root: TreeRoot {
                storage: found.storage,
                start: found.below,
            },
            name,
            shown: godwit_run::local::called(path.as_os_str().as_bytes()),
        })
    }

    fn destination(&self, path: &Path, access: Access) -> Result<DestinationPlace, LocalError> {
        let found = self.find(path, access)?;
        let is_directory = found.directory || found.contents;
        Ok(DestinationPlace {
            storage: found.storage,
            storage_path: found.real,
            base: found.below,
            is_directory,
            display: found.export.into_bytes(),
        })
    }

    fn real(&self, path: &Path) -> Option<Vec<u8>> {
        let found = self.find(path, Access::default()).ok()?;
        // A writer may have made a link on the path, which leads out of the export. No answer says what is there.
        found.storage.stat(&found.below).ok()?;
        Some(below(&found.real, found.below.as_bytes()))
    }

    fn free_bytes(&self, path: &Path) -> Option<u64> {
        let found = self.find(path, Access::default()).ok()?;
        found.storage.free_bytes()
    }

    fn buffered(&self, path: &Path, arrived: &RangeInclusive<Duration>) -> u64 {
        let bytes = path.as_os_str().as_bytes();
        let wire = bytes.strip_prefix(b"/").unwrap_or(bytes);
        let Ok(ExportPath::Below(export, below)) = locate(&self.exports, wire) else {
            return 0;
        };
        let arrivals = export.arrivals.as_ref();
        arrivals.map_or(0, |arrivals| arrivals.bytes(&below, arrived))
    }

    fn silent_for(&self, export: &str) -> Option<Duration> {
        let mut exports = self.exports.iter();
        let export = exports.find(|own| own.name == export)?;
        export.watched.hangs_for(Instant::now())
    }

    fn returned_within(&self, export: &str, time: Duration) -> bool {
        let mut exports = self.exports.iter();
        let export = exports.find(|own| own.name == export);
        export.is_some_and(|export| export.watched.returned_within(time, Instant::now()))
    }

    fn claimed(&self, destinations: &[Vec<u8>]) -> Option<String> {
        // The keeper ends the claim of a holder that has lost its right.
        let places = Spots::look(destinations);
        self.claims.keeps_out(&places, Instant::now())
    }
}

fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let joined = Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(name));
    let mut bytes = joined.into_os_string().into_encoded_bytes();
    if name.is_empty() {
        bytes.truncate(directory.len());
    }
    bytes
}
