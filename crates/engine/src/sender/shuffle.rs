//! Chooses the next of several ready objects of a sender: the first, or a random one. An observer
//! of the network cannot predict the random numbers. Owns no queue.

use rand::rngs::{StdRng, SysRng};
use rand::{RngExt as _, SeedableRng as _};

/// The order in which slices and bundles are sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// The order of the source.
    #[default]
    Source,
    /// A random order, within a bounded window.
    Random,
}

/// Chooses the next of several objects.
#[derive(Default)]
pub(crate) struct Shuffle(Option<StdRng>);

impl Shuffle {
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(order: Order) -> std::io::Result<Self> {
        let random = match order {
            Order::Source => None,
            Order::Random => {
                let random = StdRng::try_from_rng(&mut SysRng);
                Some(random.map_err(std::io::Error::other)?)
            }
        };
        Ok(Self(random))
    }

    pub(crate) fn is_random(&self) -> bool {
        self.0.is_some()
    }

    /// The index of the next of `count` objects; 0 for the usual order, or if `count` is 0.
    pub(crate) fn pick(&mut self, count: usize) -> usize {
        match &mut self.0 {
            Some(random) if count > 1 => random.random_range(0..count),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Shuffle};

    #[test]
    fn a_random_order_takes_each_and_another_takes_the_first() {
        let mut random = Shuffle::new(Order::Random).expect("there are random numbers");
        let mut taken = [0; 8];
        for _ in 0..8_000 {
            taken[random.pick(8)] += 1;
        }
        assert!(
            taken.iter().all(|times| (700..1_300).contains(times)),
            "{taken:?}"
        );
        assert_eq!((random.pick(0), random.pick(1)), (0, 0));
        let mut first = Shuffle::new(Order::Source).expect("none are needed");
        assert!((0..100).all(|_| first.pick(8) == 0));
    }
}
