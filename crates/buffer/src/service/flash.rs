//! Owns the opened volumes of a buffer in use, and the reading again of a volume that failed. Formats no device.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::backing::Backing;
use crate::device::Access;
use crate::extent::{FileKey, Recovered};
use crate::ledger::Ledger;
use crate::make;
use crate::volume::{OpenError, Volume};

/// A volume over any bytes.
pub(super) type AnyVolume = Volume<Arc<dyn Backing>>;

/// A place that could not be opened as a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedVolume {
    /// The place.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// An opened volume that no buffer uses yet.
pub struct Mounted {
    path: PathBuf,
    node: String,
    backing: Arc<dyn Backing>,
    volume: AnyVolume,
    extents: Vec<Recovered>,
}

/// A file that has arrived, as the log of a volume says.
pub(super) struct Arrived {
    pub(super) file: Arc<FileKey>,
    pub(super) what: Arc<[u8]>,
    pub(super) since: Duration,
}

/// A volume in use.
pub(super) struct Mount {
    pub(super) path: PathBuf,
    pub(super) slots: u32,
    node: String,
    backing: Arc<dyn Backing>,
    volume: RwLock<Arc<AnyVolume>>,
}

/// Opens the volumes of a node; no other process can use them meanwhile. All have extents of one size: the size of the first.
#[must_use]
pub fn open_volumes(places: &[PathBuf], node: &str) -> (Vec<Mounted>, Vec<FailedVolume>) {
    let (mut opened, mut failed): (Vec<Mounted>, Vec<FailedVolume>) = (Vec::new(), Vec::new());
    for path in places {
        let fits = |one: &Mounted| match opened.first() {
            Some(first) if first.extent_bytes() != one.extent_bytes() => Err(format!(
                "its extents have {} bytes, and those of {} have {}",
                one.extent_bytes(),
                first.path.display(),
                first.extent_bytes()
            )),
            _ => Ok(()),
        };
        let mounted = Mounted::open(path, node);
        match mounted.and_then(|one| fits(&one).map(|()| one)) {
            Ok(one) => opened.push(one),
            Err(why) => failed.push(FailedVolume {
                path: path.clone(),
                why,
            }),
        }
    }
    (opened, failed)
}

impl Mounted {
    fn open(path: &Path, node: &str) -> Result<Self, String> {
        let backing = make::open(path, Access::Own).map_err(|error| match error.kind() {
            std::io::ErrorKind::ResourceBusy => "another process uses it".to_owned(),
            _ => error.to_string(),
        })?;
        Self::over(path.to_owned(), Arc::from(backing), node).map_err(|error| error.to_string())
    }

    /// Opens a volume over these bytes, which `path` names in messages.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn over(path: PathBuf, backing: Arc<dyn Backing>, node: &str) -> Result<Self, OpenError> {
        let (volume, extents) = Volume::open(Arc::clone(&backing), node)?;
        Ok(Self {
            path,
            node: node.to_owned(),
            backing,
            volume,
            extents,
        })
    }

    /// Size of an extent.
    #[must_use]
    pub fn extent_bytes(&self) -> u32 {
        self.volume.layout().extent_bytes
    }

    /// The arrived files in the log, with the place and the time of each.
    pub(super) fn arrived(&self) -> Vec<Arrived> {
        let sinces: HashMap<&FileKey, Duration> = self
            .extents
            .iter()
            .filter(|extent| extent.is_dirty)
            .map(|extent| (&*extent.content.file, extent.since))
            .collect();
        let arrived = self.volume.arrived().into_iter();
        arrived
            .map(|(file, what)| Arrived {
                since: sinces.get(&*file).copied().unwrap_or_default(),
                file,
                what,
            })
            .collect()
    }

    pub(super) fn attach(self, ledger: &mut Ledger) -> Mount {
        let slots = self.volume.layout().slots;
        // Volumes have the numbers of their mounts.
        ledger.attach(slots, self.extents);
        Mount {
            path: self.path,

            slots,
            node: self.node,
            backing: self.backing,
            volume: RwLock::new(Arc::new(self.volume)),
        }
    }
}

impl Mount {
    pub(super) fn volume(&self) -> Arc<AnyVolume> {
        let volume = self.volume.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&volume)
    }

    /// Reads the log again, and uses what it says from now on.
    pub(super) fn reopen(&self) -> Result<Vec<Recovered>, OpenError> {
        let (volume, extents) = Volume::open(Arc::clone(&self.backing), &self.node)?;
        let mut place = self.volume.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(volume);
        Ok(extents)
    }
}
