//! The daemon's side of a streamed list: orders received parts by number, and counts the taken parts for a report. Sends
//! nothing itself; streams report the count.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_proto::NameList;
use godwit_proto::limits::PARTS_AHEAD_MAX;

use super::{Names, Supply};
use crate::lock;

/// Parts of a list between the streams on which they arrive and the walk that uses them. Holds at most [`PARTS_AHEAD_MAX`].
#[derive(Debug, Default)]
pub struct NameQueue {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    parts: BTreeMap<u64, Vec<u8>>,
    taken: u64,
    last: Option<u64>,
    /// The count that was last reported to the client.
    said: u64,
}

impl NameQueue {
    /// Accepts a part; a repeated part is ignored.
    ///
    /// # Errors
    /// The rule that the client broke.
    pub(crate) fn put(&self, list: NameList) -> Result<(), &'static str> {
        let mut inner = lock(&self.inner);
        if list.part == 0 {
            return Err("a message about a list that this side must send");
        }
        if list.part > inner.taken + PARTS_AHEAD_MAX {
            return Err("a part of a list beyond those that may be sent");
        }
        let ended = inner
            .last
            .is_some_and(|last| list.part > last || (list.last && list.part != last));
        let early = list.last
            && inner
                .parts
                .last_key_value()
                .is_some_and(|(part, _)| *part > list.part);
        if ended || early {
            return Err("a list that ends twice");
        }
        if list.part > inner.taken {
            if list.last {
                inner.last = Some(list.part);
            }
            inner.parts.entry(list.part).or_insert(list.names);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// The count of taken parts, if the client does not know it yet; the caller must send it.
    pub(crate) fn due(&self) -> Option<u64> {
        let mut inner = lock(&self.inner);
        let due = inner.taken > inner.said;
        inner.said = inner.taken;
        due.then_some(inner.taken)
    }

    /// Whether a count must be reported.
    pub(crate) fn is_due(&self) -> bool {
        let inner = lock(&self.inner);
        inner.taken > inner.said
    }

    /// Makes the count due again, because the last report may be lost.
    pub(crate) fn say_again(&self) {
        lock(&self.inner).said = 0;
    }
}

/// Reads the names from a queue.
#[derive(Debug)]
pub struct QueueNames(pub Arc<NameQueue>);

impl Names for QueueNames {
    fn next(&mut self, out: &mut Vec<u8>, wait: Duration) -> Supply {
        let until = Instant::now() + wait;
        let mut inner = lock(&self.0.inner);
        loop {
            if inner.last.is_some_and(|last| inner.taken >= last) {
                return Supply::End;
            }
            let next = inner.taken + 1;
            if let Some(names) = inner.parts.remove(&next) {
                inner.taken = next;
                out.extend_from_slice(&names);
                return if inner.last == Some(next) {
                    Supply::End
                } else {
                    Supply::Some
                };
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Supply::NotYet;
            }
            inner = self.0.changed.wait_timeout(inner, left).map_or_else(
                |poisoned| PoisonError::into_inner(poisoned).0,
                |(inner, _)| inner,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(part: u64, last: bool, names: &[u8]) -> NameList {
        NameList {
            part,
            last,
            names: names.to_vec(),
            ..NameList::default()
        }
    }

    fn next(names: &mut QueueNames) -> (Supply, Vec<u8>) {
        let mut out = Vec::new();
        let supply = names.next(&mut out, Duration::ZERO);
        (supply, out)
    }

    #[test]
    fn parts_come_out_in_order_and_once() {
        let queue = Arc::new(NameQueue::default());
        let mut names = QueueNames(Arc::clone(&queue));
        assert_eq!(next(&mut names), (Supply::NotYet, vec![]));
        queue.put(part(2, false, b"b\0")).unwrap();
        assert_eq!(next(&mut names), (Supply::NotYet, vec![]));
        assert_eq!(queue.due(), None);
        queue.put(part(1, false, b"a\0")).unwrap();
        queue.put(part(2, false, b"b\0")).unwrap();
        assert_eq!(next(&mut names), (Supply::Some, b"a\0".to_vec()));
        queue.put(part(1, false, b"a\0")).unwrap();
        assert_eq!(next(&mut names), (Supply::Some, b"b\0".to_vec()));
        assert_eq!((queue.due(), queue.due()), (Some(2), None));
        queue.say_again();
        assert_eq!(queue.due(), Some(2));
        queue.put(part(3, true, b"c\0")).unwrap();
        assert_eq!(next(&mut names), (Supply::End, b"c\0".to_vec()));
        assert_eq!(next(&mut names), (Supply::End, vec![]));
        queue.put(part(3, true, b"c\0")).unwrap();
    }

    #[test]
    fn a_client_that_breaks_the_rules_is_found_out() {
        let queue = NameQueue::default();
        assert!(queue.put(part(0, false, b"")).is_err());
        assert!(queue.put(part(PARTS_AHEAD_MAX + 1, false, b"")).is_err());
        assert!(queue.put(part(u64::MAX, false, b"")).is_err());
        queue.put(part(3, false, b"")).unwrap();
        assert!(queue.put(part(2, true, b"")).is_err());
        queue.put(part(4, true, b"")).unwrap();
        assert!(queue.put(part(5, false, b"")).is_err());
        assert!(queue.put(part(3, true, b"")).is_err());
    }
}
