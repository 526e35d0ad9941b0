//! Bounds the names of failed entries that a manifest keeps in memory. Keeps no names.

/// Most failed entries whose names are stored, so that their lines can be removed. A run with more failures is not
/// successful anyway.
const NAMES_MAX: usize = 64 << 10;

/// Most bytes of these names, and of the messages with them. The other site may choose them.
const BYTES_MAX: usize = NAMES_MAX * 256;

/// The room that is taken.
#[derive(Default)]
pub(super) struct NamesRoom {
    names: usize,
    bytes: usize,
}

impl NamesRoom {
    /// Takes room for one name; false if there is none.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let all = self.bytes.saturating_add(bytes);
        let fits = self.names < NAMES_MAX && all <= BYTES_MAX;
        if fits {
            self.names += 1;
            self.bytes = all;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_in_number_and_in_bytes() {
        for (bytes, most) in [(1, NAMES_MAX), (64 << 10, 256)] {
            let mut room = NamesRoom::default();
            let taken = (0..NAMES_MAX + 10).filter(|_| room.take(bytes)).count();
            assert_eq!(taken, most);
        }
    }
}
