//! Keeps answers that were not ready when their manifest arrived, until the manifest's stream sends them. Does not answer.
//!
//! A sender may repeat a short manifest, and its answer may be long. So no more is answered while the sender takes no answers.

use std::time::Duration;

use super::Acks;
use crate::limits;

/// How often to check whether the sender takes its answers. No event reports that.
const ROOM_LOOK_EVERY: Duration = Duration::from_millis(5);

/// Memory of an answer beside its bytes.
const ANSWER_BYTES: usize = 64;

/// Answers, each with the number of the manifest's stream.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: Vec<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Answers {
    fn push(&mut self, stream: u64, answer: Vec<u8>) {
        self.bytes += ANSWER_BYTES + answer.len();
        self.waiting.push((stream, answer));
    }

    fn is_full(&self) -> bool {
        self.bytes >= limits::ANSWERS_WAITING_BYTES_MAX
    }

    /// Removes the answers of `stream`, and passes each to `take`.
    pub(super) fn remove(&mut self, stream: u64, mut take: impl FnMut(&[u8])) {
        let bytes = &mut self.bytes;
        self.waiting.retain(|(id, answer)| {
            if *id == stream {
                *bytes -= ANSWER_BYTES + answer.len();
                take(answer);
            }
            *id != stream
        });
    }
}

impl Acks {
    /// Queues the answer to a manifest on the `stream` on which the manifest arrived, and waits until others have room. If that stream
    /// dies, the manifest is sent again.
    pub(crate) fn answer(&self, stream: u64, answer: Vec<u8>) {
        let mut inner = crate::lock(&self.inner);
        if let Some((_, waker)) = inner.wakers.iter().find(|(id, _)| *id == stream) {
            waker.wake();
            inner.answers.push(stream, answer);
        }
        while inner.answers.is_full() && !self.over.is_set() {
            drop(inner);
            std::thread::park_timeout(ROOM_LOOK_EVERY);
            inner = crate::lock(&self.inner);
        }
    }

    /// Appends the answers that `stream` must send.
    pub(crate) fn take_answers(&self, stream: u64, out: &mut Vec<u8>) {
        let mut inner = crate::lock(&self.inner);
        inner
            .answers
            .remove(stream, |answer| out.extend_from_slice(answer));
    }
}

#[cfg(test)]
mod tests {
    use godwit_net::{Stream as _, StreamOptions, local_pair};

    use super::super::tests::acks;
    use super::*;

    #[test]
    fn answers_that_the_sender_does_not_take_are_bounded() {
        let long = vec![1; limits::ANSWERS_WAITING_BYTES_MAX / 4];
        let mut answers = Answers::default();
        for stream in [1, 1, 1, 2] {
            assert!(!answers.is_full());
            answers.push(stream, long.clone());
        }
        assert!(answers.is_full());
        let mut taken = 0;
        answers.remove(2, |answer| taken += answer.len());
        assert!(taken == long.len() && !answers.is_full());
        answers.push(2, long);
        // The manifests of a lost stream arrive again on another stream.
        answers.remove(1, |_| {});
        assert!(!answers.is_full());
    }

    #[test]
    fn an_answer_waits_until_earlier_ones_are_taken_or_the_transfer_ends() {
        const COUNT: usize = 20;
        let acks = acks();
        let (near, _far) = local_pair(&StreamOptions::default()).unwrap();
        acks.attach(1, near.waker());
        let long = vec![1; limits::ANSWERS_WAITING_BYTES_MAX / 4];
        let say = || (0..COUNT).for_each(|_| acks.answer(1, long.clone()));
        std::thread::scope(|scope| {
            scope.spawn(say);
            let mut taken = 0;
            while taken < COUNT * long.len() {
                let mut out = Vec::new();
                acks.take_answers(1, &mut out);
                assert!(out.len() <= limits::ANSWERS_WAITING_BYTES_MAX);
                taken += out.len();
                std::thread::yield_now();
            }
        });
        acks.over.set();
        say();
    }
}
