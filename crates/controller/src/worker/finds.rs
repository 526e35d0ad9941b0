//! Reports the finds of a walk to the state, for other leases.
//! Walks nothing.

use godwit_run::walk::Walked;
use godwit_state::{Found, WORK_LIST_MAX, WORK_PATHS_BYTES_MAX, WorkOp, WorkPath};

use super::JobContext;

impl JobContext<'_> {
    /// Reports the finds of a walk in commands of bounded length.
    pub(super) fn tell_finds(&self, number: u64, lease: u64, walked: &Walked) -> bool {
        let large = walked.large.iter().map(|file| Found::File {
            path: WorkPath(file.path.clone()),
            bytes: file.bytes,
            generation: file.generation,
        });
        let left = walked.left.iter().map(|(path, shares)| Found::Scan {
            path: WorkPath(path.clone()),
            shares: *shares,
        });
        let (mut finds, mut bytes) = (Vec::new(), 0);
        let tell = |finds: &mut Vec<Found>| {
            let finds = std::mem::take(finds);
            let found = WorkOp::Found {
                number,
                lease,
                finds,
            };
            self.tell(found)
        };
        for find in large.chain(left) {
            let more = find.path().0.len();
            if finds.len() >= WORK_LIST_MAX || bytes + more > WORK_PATHS_BYTES_MAX {
                if !tell(&mut finds) {
                    return false;
                }
                bytes = 0;
            }
            bytes += more;
            finds.push(find);
        }
        finds.is_empty() || tell(&mut finds)
    }
}
