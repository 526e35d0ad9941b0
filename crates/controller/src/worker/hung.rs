//! Gives the items of a lease back while the file system of their source hangs here, so that other nodes move them.
//! Ends no call that hangs. The worker ends once that call returns, and the next one begins when the file system answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use godwit_state::{Looked, Settle, WorkItem, WorkOp};

use super::leased::back;
use super::{JobContext, LOOK_EVERY};
use crate::lease_transfer::Ends;

impl JobContext<'_> {
    /// Does the items of a lease, and gives them back if their source hangs meanwhile.
    pub(super) fn unless_hung<T>(
        &self,
        lease: u64,
        items: &[WorkItem],
        act: impl FnOnce() -> T,
    ) -> T {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let watch = scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    if (self.node.hangs)() {
                        return self.give_back(lease, items);
                    }
                    thread::park_timeout(LOOK_EVERY);
                }
            });
            let _ends = Ends(&is_over, watch.thread().clone());
            act()
        })
    }

    /// The amounts so far are counted now: the state takes nothing of this lease later.
    fn give_back(&self, lease: u64, items: &[WorkItem]) {
        let moved = self.shared.flight().moved();
        let looked = Looked {
            again: moved.bytes_again,
            ..Looked::default()
        };
        let settle = WorkOp::Settle(Box::new(Settle {
            runner: self.node.runner.clone(),
            lease,
            items: back(items, None).settled,
            files: moved.files,
            bytes: moved.bytes,
            trouble: None,
            // A write that hangs may still take effect.
            cut: true,
            looked: self.reported(looked),
        }));
        self.report(settle);
        self.shared.steering.stop();
    }
}
