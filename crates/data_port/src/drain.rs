//! Brings files that wait in the transfer buffer to their exports, on threads that do nothing else. Chooses no file; the buffer does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use godwit_run::Process;
use godwit_run::local::Access;
use godwit_store::Syncs;
use godwit_tree::arriving::{Due, Failed, Queue, place};

use crate::export::Export;

/// Files that drain at one time. One place takes fewer, so that two that hang leave threads for the others.
const THREADS: usize = 8;
/// The threads look at least this often whether the buffer is closed.
const LOOK_EVERY: Duration = Duration::from_secs(5);

struct Drainer {
    queue: Queue,
    exports: Vec<Export>,
    spill: PathBuf,
    syncs: Syncs,
}

/// Drains files until the buffer of the process is closed. `spill` is a directory for data that does not fit in memory.
///
/// # Errors
/// No thread could be started.
pub fn drain(exports: &[Export], process: &Process, spill: &Path) -> std::io::Result<()> {
    let Some(buffer) = &process.buffer else {
        return Ok(());
    };
    let drainer = Arc::new(Drainer {
        queue: Queue::of(buffer),
        exports: exports.to_vec(),
        spill: spill.to_owned(),
        syncs: process.syncs.clone(),
    });
    for _ in 0..THREADS {
        let drainer = Arc::clone(&drainer);
        let body = move || drainer.run();
        Builder::new().name("gw-drain".to_owned()).spawn(body)?;
    }
    Ok(())
}

impl Drainer {
    fn run(&self) {
        while !self.queue.is_closed() {
            if let Some(due) = self.queue.next(LOOK_EVERY) {
                let placed = self.place(&due);
                due.end(placed);
            }
        }
    }

    fn place(&self, due: &Due) -> Result<u64, Failed> {
        let found = self.exports.iter().find_map(|export| {
            let arrivals = export.arrivals.as_ref()?;
            due.is_for(arrivals).then_some((export, arrivals))
        });
        let Some((export, arrivals)) = found else {
            return Err(Failed {
                reason: due.homeless(),
                may_pass: true,
            });
        };
        let opened = export.open_itself(&self.spill, Access::default(), &self.syncs);
        let storage = opened.map_err(|error| Failed {
            reason: error.to_string(),
            may_pass: true,
        })?;
        place(&*storage, arrivals, due)
    }
}
