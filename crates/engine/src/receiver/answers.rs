//! Keeps earlier answers, so that a repeated manifest gets the same answer and is planned once.
//! Does not plan (the sink does) and does not send (`stream` does).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::{limits, lock};

/// The answers to the latest manifests, as frames.
#[derive(Default)]
pub(super) struct Answers {
    inner: Mutex<Inner>,
    planned: Condvar,
}

#[derive(Default)]
struct Inner {
    /// `None` while the manifest is being planned.
    kept: HashMap<u64, Option<Arc<[u8]>>>,
    order: VecDeque<u64>,
    bytes: usize,
}

/// How to handle a manifest.
pub(super) enum ManifestTask<'a> {
    /// Plan the manifest.
    Plan(Planning<'a>),
    /// The manifest was answered with this frame.
    AnswerAgain(Arc<[u8]>),
}

/// Guards the planning of a manifest by one thread; threads with a copy of the manifest wait for
/// it.
pub(super) struct Planning<'a> {
    answers: &'a Answers,
    seq: u64,
}

impl Answers {
    /// Waits while another thread plans the same manifest, because its stream may be the one that
    /// died.
    pub(super) fn begin(&self, seq: u64) -> ManifestTask<'_> {
        let mut inner = lock(&self.inner);
        loop {
            match inner.kept.get(&seq) {
                None => {
                    inner.kept.insert(seq, None);
                    return ManifestTask::Plan(Planning { answers: self, seq });
                }
                Some(Some(frame)) => return ManifestTask::AnswerAgain(Arc::clone(frame)),
                Some(None) => {
                    inner = self
                        .planned
                        .wait(inner)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl Planning<'_> {
    /// Stores the answer `frame`, and forgets the oldest answers beyond the bounds.
    pub(super) fn answered(self, frame: &[u8]) {
        let mut inner = lock(&self.answers.inner);
        inner.kept.insert(self.seq, Some(Arc::from(frame)));
        inner.order.push_back(self.seq);
        inner.bytes += frame.len();
        while inner.bytes > limits::ANSWERS_KEPT_BYTES_MAX
            || inner.order.len() > limits::ANSWERS_KEPT_MAX
        {
            let Some(oldest) = inner.order.pop_front() else {
                break;
            };
            if let Some(Some(frame)) = inner.kept.remove(&oldest) {
                inner.bytes -= frame.len();
            }
        }
    }
}

impl Drop for Planning<'_> {
    /// If the planning thread has panicked, a waiting thread plans the manifest itself.
    fn drop(&mut self) {
        let mut inner = lock(&self.answers.inner);
        if matches!(inner.kept.get(&self.seq), Some(None)) {
            inner.kept.remove(&self.seq);
        }
        drop(inner);
        self.answers.planned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan<'a>(answers: &'a Answers, seq: u64) -> Planning<'a> {
        match answers.begin(seq) {
            ManifestTask::Plan(planning) => planning,
            ManifestTask::AnswerAgain(_) => panic!("{seq} is not known yet"),
        }
    }

    #[test]
    fn the_oldest_answers_are_forgotten_and_the_memory_is_bounded() {
        let answers = Answers::default();
        let frame = vec![0; limits::ANSWERS_KEPT_BYTES_MAX / 4];
        for seq in 1..=6 {
            plan(&answers, seq).answered(&frame);
        }
        for seq in 3..=6 {
            assert!(
                matches!(answers.begin(seq), ManifestTask::AnswerAgain(_)),
                "{seq}"
            );
        }
        assert!(matches!(answers.begin(2), ManifestTask::Plan(_)));
        let inner = lock(&answers.inner);
        assert_eq!(inner.bytes, frame.len() * 4);
        assert_eq!(inner.kept.len(), 4);
    }

    #[test]
    fn a_copy_waits_for_the_planning_thread_and_plans_itself_if_that_thread_is_gone() {
        let answers = Answers::default();
        let planning = plan(&answers, 1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| match answers.begin(1) {
                ManifestTask::AnswerAgain(frame) => frame.to_vec(),
                ManifestTask::Plan(_) => Vec::new(),
            });
            planning.answered(b"answer");
            assert_eq!(waits.join().unwrap(), b"answer");
        });
        drop(plan(&answers, 2));
        drop(plan(&answers, 2));
    }
}
