//! Owns the gate of a storage: what is asked before each call that gives or takes a name, or changes what has one.
//! Does not know why one is shut.
//!
//! A call that hangs in the kernel has passed the gate, and takes effect late. So nothing is removed in one call: it gets a temporary name
//! first, the gate is asked again, and if it is shut by then, the name is given back.

use super::directories::{Directory, Trouble};
use super::names::give;
use super::write::unlink;
use crate::error::StoreErrorKind;
use crate::path::TempName;
use crate::storage::{May, Replace};
use rustix::io::Errno;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Open for good, unless a transfer sets what is to be asked.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<OnceLock<(May, u64)>>);

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate(set: {})", self.0.get().is_some())
    }
}

impl Gate {
    /// From now on `may` is asked; what is about to be removed gets names with this tag.
    pub(super) fn set(&self, may: May, tag: u64) {
        // A storage has one transfer.
        let _ = self.0.set((may, tag));
    }

    /// Fails once the gate is shut.
    pub(super) fn hold(&self) -> Result<(), Trouble> {
        match self.0.get() {
            Some((may, _)) if !may() => Err(StoreErrorKind::Fenced.into()),
            _ => Ok(()),
        }
    }

    /// Removes what is no directory by way of a temporary name; None where nothing is ever shut. An absent one is fine.
    pub(super) fn remove(&self, parent: &Directory, name: &[u8]) -> Option<Result<(), Trouble>> {
        let (_, tag) = self.0.get()?;
        let temp = TempName::of_member(*tag, name, ASIDE);
        Some(
            self.hold()
                .and_then(|()| self.remove_by(parent, name, &temp)),
        )
    }

    fn remove_by(&self, parent: &Directory, name: &[u8], temp: &TempName) -> Result<(), Trouble> {
        match rustix::fs::renameat(parent, name, parent, temp.as_bytes()) {
            Err(Errno::NOENT) if !parent.is_gone() => return Ok(()),
            renamed => renamed?,
        }
        let shut = self.hold();
        if shut.is_err() {
            // If the name is another's by now, what had it before stays under the temporary one.
            give(parent, name, temp, Replace::Never, true)?;
            return shut;
        }
        Ok(unlink(parent, temp)?)
    }
}

/// Separates these names from those of files that are being written.
const ASIDE: &[u8] = b"aside";
