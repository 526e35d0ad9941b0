//! Owns the bytes of generated files, which depend on seed, file and offset. Writes no files.

use godwit_seeded::{STEP, mix};

/// The content of one file, of any length, which can be read at any offset.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    key: u64,
    texture: Texture,
}

/// The degree to which contents can be compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Texture {
    /// Like noise: compression saves nothing.
    #[default]
    Random,
    /// Repeats within 64 bytes: compression saves about two thirds.
    Repeating,
    /// This percentage of each 800 bytes are zeros, from 0 to 100: compression saves about as much.
    Zeros(u8),
}

impl Content {
    /// The content of file number `file` of item number `item` of a specification.
    pub fn new(seed: u64, item: u64, file: u64, texture: Texture) -> Self {
        Self {
            key: draw(seed, item, file, Purpose::Content),
            texture,
        }
    }

    /// Fills `buffer` with the bytes at `offset`.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        // The bytes before the first whole word; then whole words follow, and the rest.
        let head = (offset.wrapping_neg() % WORD) as usize;
        let (head, body) = buffer.split_at_mut(head.min(buffer.len()));
        if !head.is_empty() {
            let skip = (offset % WORD) as usize;
            let word = self.word(offset / WORD).to_le_bytes();
            head.copy_from_slice(&word[skip..skip + head.len()]);
        }
        let mut index = offset.div_ceil(WORD);
        let (words, tail) = body.as_chunks_mut::<8>();
        for word in words {
            *word = self.word(index).to_le_bytes();
            index = index.wrapping_add(1);
        }
        if !tail.is_empty() {
            tail.copy_from_slice(&self.word(index).to_le_bytes()[..tail.len()]);
        }
    }

    #[inline]
    fn word(&self, index: u64) -> u64 {
        let index = match self.texture {
            Texture::Random => index,
            // Two random words in eight, repeated four times.
            Texture::Repeating => (index & !7) | (index & 1),
            Texture::Zeros(hundredths) if index % 100 < u64::from(hundredths) => return 0,
            Texture::Zeros(_) => index,
        };
        mix(self.key.wrapping_add(index.wrapping_mul(STEP)))
    }
}

/// The use of a random number: two numbers of one file must be independent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Content = 1,
    Size = 2,
    Time = 3,
    Name = 4,
    Shape = 5,
}

/// A random number that belongs to one file.
pub(super) fn draw(seed: u64, item: u64, file: u64, purpose: Purpose) -> u64 {
    let key = mix(seed.wrapping_add(STEP)) ^ (purpose as u64);
    let key = mix(key.wrapping_add(STEP)) ^ item;
    mix(mix(key.wrapping_add(STEP)) ^ file)
}

const WORD: u64 = 8;

#[cfg(test)]
mod tests {
    use super::{Content, Texture};
    use proptest::prelude::*;

    fn texture() -> impl Strategy<Value = Texture> {
        prop_oneof![
            Just(Texture::Random),
            Just(Texture::Repeating),
            (0..=100_u8).prop_map(Texture::Zeros),
        ]
    }

    proptest! {
        #[test]
        fn any_window_is_the_same_content(offset in 0..5000_u64, length in 0..300_usize, texture in texture()) {
            let content = Content::new(7, 1, 2, texture);
            let mut whole = vec![0; 5300];
            content.fill(0, &mut whole);
            let mut window = vec![0; length];
            content.fill(offset, &mut window);
            let start = usize::try_from(offset).unwrap();
            prop_assert_eq!(&window, &whole[start..start + length]);
        }
    }

    #[test]
    fn as_much_is_zero_as_was_asked_for() {
        for hundredths in [0_u8, 1, 37, 50, 99, 100] {
            let mut bytes = vec![1; 800_000];
            Content::new(1, 2, 3, Texture::Zeros(hundredths)).fill(0, &mut bytes);
            let (words, _) = bytes.as_chunks::<8>();
            let zeros = words.iter().filter(|word| **word == [0; 8]).count();
            assert_eq!(zeros, 1000 * usize::from(hundredths));
        }
    }

    #[test]
    fn seeds_items_and_files_differ() {
        let mut seen = std::collections::HashSet::new();
        for (seed, item, file) in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)] {
            let mut bytes = [0; 64];
            Content::new(seed, item, file, Texture::Random).fill(0, &mut bytes);
            assert!(bytes.iter().any(|byte| *byte != 0));
            assert!(seen.insert(bytes));
        }
    }

    /// The bytes are a fixed interface: specification and seed identify a data set.
    #[test]
    fn the_bytes_are_fixed() {
        let mut bytes = [0; 8];
        Content::new(7, 0, 0, Texture::Random).fill(0, &mut bytes);
        assert_eq!(bytes, FIRST);
        let mut far = [0; 8];
        Content::new(7, 0, 0, Texture::Random).fill(1 << 50, &mut far);
        assert_eq!(far, FAR);
    }

    const FIRST: [u8; 8] = [102, 159, 172, 76, 209, 49, 234, 121];
    const FAR: [u8; 8] = [11, 49, 196, 49, 231, 142, 251, 172];
}
