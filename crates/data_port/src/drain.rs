//! Brings files that wait in the transfer buffer to their exports. Chooses no file, and starts no thread; the buffer and its crew do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use godwit_engine::lock;
use godwit_run::Process;
use godwit_run::local::Access;
use godwit_store::Syncs;
use godwit_tree::arriving::{self, Drains, Due, Failed, Queue, place};

use crate::export::Export;

struct Drainer {
    queue: Queue,
    exports: Vec<Export>,
    spill: PathBuf,
    syncs: Syncs,
    /// The exports of which the log says that nothing moves there.
    stalled: Mutex<BTreeSet<String>>,
}

/// Drains files until the buffer of the process is closed. `spill` is a directory for data that does not fit in memory.
///
/// # Errors
/// No thread could be started.
pub fn drain(exports: &[Export], process: &Process, spill: &Path) -> std::io::Result<()> {
    let Some(buffer) = &process.buffer else {
        return Ok(());
    };
    let queue = Queue::of(buffer);
    let drainer = Drainer {
        queue: queue.clone(),
        exports: exports.to_vec(),
        spill: spill.to_owned(),
        syncs: process.syncs.clone(),
        stalled: Mutex::default(),
    };
    arriving::drain(queue, drainer)
}

impl Drains for Drainer {
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

    /// Writes to the log which exports stall, and which move again.
    fn look(&self) {
        let stalls = self.queue.stalls();
        let mut known = lock(&self.stalled);
        if stalls.is_empty() && known.is_empty() {
            return;
        }
        for export in &self.exports {
            let arrivals = export.arrivals.as_ref();
            let is_stalled = arrivals.is_some_and(|arrivals| arrivals.is_among(&stalls));
            let name = &export.name;
            match is_stalled {
                true if known.insert(name.clone()) => self.queue.log(&format!(
                    "buffer: the export {name} takes no data: files that drain there have not moved for a minute; other exports go on; look at the storage under it"
                )),
                false if known.remove(name) => {
                    self.queue.log(&format!("buffer: the export {name} takes data again"));
                }
                _ => {}
            }
        }
    }
}
