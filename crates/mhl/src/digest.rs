//! Owns the kinds of digest of ASC MHL: their names, their texts and their computation over contents that come in order.
//! Leaves the computation of a digest to libraries.

use std::hash::Hasher as _;

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA512};
use data_encoding::HEXLOWER_PERMISSIVE;
use md5::{Digest as _, Md5};
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

/// A kind of digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// SHA-512 as a C4 identifier (SMPTE ST 2114).
    C4,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// XXH3 with 128 bits.
    Xxh128,
    /// XXH3 with 64 bits.
    Xxh3,
    /// XXH64.
    Xxh64,
}

impl Format {
    /// All kinds, by name.
    pub const ALL: [Self; 6] = [
        Self::C4,
        Self::Md5,
        Self::Sha1,
        Self::Xxh128,
        Self::Xxh3,
        Self::Xxh64,
    ];

    /// The name in a history.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::C4 => "c4",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Xxh128 => "xxh128",
            Self::Xxh3 => "xxh3",
            Self::Xxh64 => "xxh64",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    const fn bytes(self) -> usize {
        match self {
            Self::C4 => 64,
            Self::Md5 | Self::Xxh128 => 16,
            Self::Sha1 => 20,
            Self::Xxh3 | Self::Xxh64 => 8,
        }
    }

    /// The digest with this text.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<Digest> {
        let bytes = match self {
            Self::C4 => from_c4(text)?,
            _ => HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?,
        };
        (bytes.len() == self.bytes()).then_some(Digest(bytes))
    }

    /// The text of a digest of this kind.
    #[must_use]
    pub fn text(self, digest: &Digest) -> String {
        match self {
            Self::C4 => to_c4(&digest.0),
            _ => HEXLOWER_PERMISSIVE.encode(&digest.0),
        }
    }
}

/// A digest. Digests of one kind have the order of their texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(Vec<u8>);

impl Digest {
    /// The digest of the bytes.
    pub(crate) fn of(format: Format, bytes: &[u8]) -> Self {
        let mut running = DigestState::new(format);
        running.update(bytes);
        running.finish()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A digest that is being computed.
pub(crate) enum DigestState {
    Library(Context),
    Md5(Md5),
    Xxh128(Box<XxHash3_128>),
    Xxh3(Box<XxHash3_64>),
    Xxh64(Box<XxHash64>),
}

impl DigestState {
    pub(crate) fn new(format: Format) -> Self {
        match format {
            Format::C4 => Self::Library(Context::new(&SHA512)),
            Format::Sha1 => Self::Library(Context::new(&SHA1_FOR_LEGACY_USE_ONLY)),
            Format::Md5 => Self::Md5(Md5::new()),
            Format::Xxh128 => Self::Xxh128(Box::new(XxHash3_128::new())),
            Format::Xxh3 => Self::Xxh3(Box::new(XxHash3_64::new())),
            Format::Xxh64 => Self::Xxh64(Box::new(XxHash64::with_seed(0))),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Library(context) => context.update(bytes),
            Self::Md5(running) => running.update(bytes),
            Self::Xxh128(running) => running.write(bytes),
            Self::Xxh3(running) => running.write(bytes),
            Self::Xxh64(running) => running.write(bytes),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(match self {
            Self::Library(context) => context.finish().as_ref().to_vec(),
            Self::Md5(running) => running.finalize().to_vec(),
            Self::Xxh128(running) => running.finish_128().to_be_bytes().to_vec(),
            Self::Xxh3(running) => running.finish().to_be_bytes().to_vec(),
            Self::Xxh64(running) => running.finish().to_be_bytes().to_vec(),
        })
    }
}

/// The digits of a C4 identifier. A digest has 88 of these characters behind `c4`, the most significant first.
const C4_DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const C4_LENGTH: usize = 88;

fn to_c4(bytes: &[u8]) -> String {
    let mut number = bytes.to_vec();
    let mut digits = Vec::with_capacity(C4_LENGTH);
    for _ in 0..C4_LENGTH {
        let mut rest = 0_u16;
        for byte in &mut number {
            let value = rest << 8 | u16::from(*byte);
            *byte = u8::try_from(value / 58).unwrap_or(u8::MAX);
            rest = value % 58;
        }
        digits.push(C4_DIGITS[usize::from(rest)]);
    }
    let text = digits.iter().rev().map(|digit| char::from(*digit));
    "c4".chars().chain(text).collect()
}

fn from_c4(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("c4")?;
    if digits.len() != C4_LENGTH {
        return None;
    }
    let mut number = vec![0_u8; 64];
    for digit in digits.bytes() {
        let mut carry = u16::try_from(C4_DIGITS.iter().position(|known| *known == digit)?).ok()?;
        for byte in number.iter_mut().rev() {
            let value = u16::from(*byte) * 58 + carry;
            *byte = value.to_le_bytes()[0];
            carry = value >> 8;
        }
        if carry != 0 {
            return None;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn digests_are_those_of_other_programs() {
        // By `xxhsum`, `md5sum`, `sha1sum` and the `ascmhl` of PyPI.
        let known = [
            (Format::Md5, "900150983cd24fb0d6963f7d28e17f72"),
            (Format::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (Format::Xxh64, "44bc2cf5ad770999"),
            (Format::Xxh3, "78af5f94892f3950"),
            (Format::Xxh128, "06b05ab6733a618578af5f94892f3950"),
            (
                Format::C4,
                "c45S4rnaTNWonxss1u8LzsaJdEph1AJhWUF4sh2waXKMsutyfAxg4ybUeuXVWS9HdNcEypmeXn8FZGonD4w1rj9DZp",
            ),
        ];
        for (format, text) in known {
            let digest = Digest::of(format, b"abc");
            assert_eq!(format.text(&digest), text, "{format:?}");
            assert_eq!(format.parse(text), Some(digest));
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
    }

    #[test]
    fn a_text_of_another_length_or_another_alphabet_is_no_digest() {
        let high = format!("c4{}", "z".repeat(88));
        for text in ["", "c4", "zz", "00", &high, &"0".repeat(90)] {
            for format in Format::ALL {
                assert_eq!(format.parse(text), None, "{format:?} {text}");
            }
        }
    }

    proptest! {
        #[test]
        fn c4_identifiers_come_back_and_keep_the_order(a in prop::collection::vec(any::<u8>(), 64), b in prop::collection::vec(any::<u8>(), 64)) {
            let (one, other) = (to_c4(&a), to_c4(&b));
            prop_assert_eq!(from_c4(&one), Some(a.clone()));
            prop_assert_eq!(one.cmp(&other), a.cmp(&b));
        }
    }
}
