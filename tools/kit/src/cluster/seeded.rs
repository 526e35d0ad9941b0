//! Owns pseudo-random numbers that are the same for the same seed. Use them for choices and
//! contents, never for secrets.

/// A sequence of numbers (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Seeded(godwit_seeded::Seeded);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(godwit_seeded::Seeded(seed))
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number from `from` to below `to`, which is larger.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    /// One of the values, of which there must be at least one.
    pub(crate) fn one_of<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        let at = self.between(0, some.len() as u64);
        &some[usize::try_from(at).unwrap_or(0)]
    }

    /// Fills a buffer.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            piece.copy_from_slice(&bytes[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_sequence() {
        let take = |seed| {
            let mut seeded = Seeded::new(seed);
            (0..4).map(|_| seeded.between(3, 10)).collect::<Vec<_>>()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
        assert!(take(7).iter().all(|number| (3..10).contains(number)));
    }
}
