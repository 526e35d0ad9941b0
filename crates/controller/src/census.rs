//! Counts the work of a divided job, where that takes at most some seconds. All scans of a job count at the same time, so the last of them
//! ends late.
//! Transfers nothing, and decides nothing: people read it.

use std::time::{Duration, Instant};

use godwit_api::job::ClaimId;
use godwit_run::walk::{Walk, WalkLimits};
use godwit_state::{Looked, Work, WorkRoot};

use crate::Node;
use crate::batch::{Base, ItemTransfer, To};
use crate::measure;
use crate::worker::found_by;

/// A larger job is counted by its scans alone: a second look at each file would cost the file system too much.
const FILES_MAX: u64 = 200_000;

/// The longest time.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Files and bytes of the sources; None where there are too many, or where a part cannot be looked at.
pub fn census(node: &Node, base: &Base, work: &Work, goes_on: &dyn Fn() -> bool) -> Option<Looked> {
    let claim: ClaimId = work.claim.parse().ok()?;
    let until = Instant::now() + TIME_MAX;
    let mut found = Looked::default();
    for root in &work.roots {
        // No walk reads memory.
        if measure::measures(root) {
            found = found.plus(measure::found(measure::bytes_of(root).ok()?));
            continue;
        }
        let transfer = ItemTransfer {
            base,
            root,
            to: To::nowhere(),
            claim,
            epoch: work.epoch,
        };
        let spec = transfer.members(Vec::new(), false).ok()?;
        let walk = Walk::open(&spec, &(node.make_env)(&[]), WalkLimits::default()).ok()?;
        let go =
            |found: &Looked| found.found_files <= FILES_MAX && Instant::now() < until && goes_on();
        found = found.plus(of_root(root, &walk, &go)?);
    }
    Some(found)
}

fn of_root(root: &WorkRoot, walk: &Walk, go: &dyn Fn(&Looked) -> bool) -> Option<Looked> {
    let mut found = Looked::default();
    if let Some(name) = root.file.as_deref() {
        let large = walk.large_file(name.as_bytes())?;
        (found.found_files, found.found_bytes) = (1, large.bytes);
        return Some(found);
    }
    let mut left: Vec<(Vec<u8>, u32, u32)> = vec![(Vec::new(), 0, 1)];
    while let Some((path, share, shares)) = left.pop() {
        if !go(&found) {
            return None;
        }
        let walked = walk.walk(&path, share, shares).ok()?;
        found = found.plus(found_by(&walked));
        for (path, shares) in walked.left {
            left.extend((0..shares).map(|share| (path.clone(), share, shares)));
        }
    }
    Some(found)
}
