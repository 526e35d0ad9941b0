//! Owns reading: pages, counts and single objects, directly from the database. Does not change the
//! state, and does not know the consensus log.

mod by_id;
mod deliveries;
mod details;
mod families;
mod jobs;
mod lists;
mod page;
mod queue;
mod row;
mod work;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use rusqlite::{Connection, OpenFlags};

use crate::fault::{Fault, FaultKind};

pub use by_id::ById;
pub use deliveries::{Deliveries, DeliveryLine, PendingDelivery};
pub use details::{Details, JobDetails};
pub use families::Families;
pub(crate) use families::{
    children_of, crew_of, gathers, is_destination_taken, is_parent, parent_of,
};
pub(crate) use jobs::moved_of;
pub use jobs::{Agreed, GuestJobs, JobAmounts, Kept};
pub use lists::{AuditFilter, AuditLine};
pub use page::{Cursor, JobFilter, JobPage};
pub use queue::JobQueue;
pub(crate) use row::{
    attempt_node, claimed_by, committed_level, job_by_id, job_route, job_spec, node_by_number,
    object_by_id,
};
pub(crate) use work::work_by_job;
pub use work::{HeldItems, WorkKind, Works};

/// Connections that are kept open: as many as the concurrent reads of a busy page.
const IDLE_MAX: usize = 8;

/// Reads the state. All methods block for microseconds to a few milliseconds.
#[derive(Debug)]
pub struct Reader {
    file: PathBuf,
    idle: Mutex<Vec<Connection>>,
    /// Whether the data read so far is consistent.
    pub(crate) soundness: Soundness,
}

/// The first inconsistency that a reader found. The whole file is checked only when the node
/// starts.
#[derive(Debug)]
pub(crate) struct Soundness(OnceLock<String>);

impl Soundness {
    /// Checks that nothing inconsistent was read from the file.
    ///
    /// # Errors
    /// The first inconsistency.
    pub(crate) fn check(&self, file: &Path) -> Result<(), Fault> {
        match self.0.get() {
            Some(found) => Err(Fault::new(file, FaultKind::Unsound(found.clone()))),
            None => Ok(()),
        }
    }

    fn note(&self, fault: Fault) -> Fault {
        if let FaultKind::Unsound(found) = &fault.kind {
            let _ = self.0.set(found.clone());
        }
        fault
    }
}

impl Reader {
    /// A reader of this `state.db`.
    #[must_use]
    pub const fn new(file: PathBuf) -> Self {
        Self {
            file,
            idle: Mutex::new(Vec::new()),
            soundness: Soundness(OnceLock::new()),
        }
    }

    /// Runs `query` on a connection that cannot write.
    pub(crate) fn with<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Fault> {
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open(&self.file).map_err(|fault| self.soundness.note(fault))?,
        };
        let result = query(&connection)
            .map_err(|error| self.soundness.note(Fault::sqlite(&self.file, error)));
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        result
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Opens a file read-only.
pub(crate) fn open(file: &Path) -> Result<Connection, Fault> {
    let fault = |error| Fault::sqlite(file, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(fault)?;
    connection
        .busy_timeout(crate::store::BUSY_TIMEOUT)
        .map_err(fault)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}
