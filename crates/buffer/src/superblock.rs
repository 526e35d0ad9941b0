//! Owns the bytes of a superblock. Decides nothing: `volume` reads and writes both copies.

use std::time::Duration;

use crate::frame::{Fields, crc};
use crate::layout::Layout;

/// Bytes of a superblock that mean something: one sector, so that a torn write leaves the old one or the new one.
pub const SUPERBLOCK_BYTES: usize = 512;
/// The first bytes of each superblock.
pub const MAGIC: [u8; 8] = *b"GODWITBF";
/// Version of a new volume.
pub const VERSION: u32 = 1;
/// The latest version, in which logs have arrivals. A volume gets it with its first arrival.
pub const VERSION_MAX: u32 = 2;
/// Most bytes of a node's identity, and of a serial.
pub const TEXT_BYTES_MAX: usize = 120;
const CRC_AT: usize = SUPERBLOCK_BYTES - 8;

/// A superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Version of the format.
    pub version: u32,
    /// Counts the checkpoints; the highest one counts.
    pub generation: u64,
    /// Names the volume.
    pub id: [u8; 16],
    /// The geometry.
    pub layout: Layout,
    /// The log area in use, 0 or 1.
    pub area: u32,
    /// The frames of the checkpoint, at the beginning of the area.
    pub checkpoint_frames: u32,
    /// Where the frames of changes begin in the area.
    pub changes_at: u64,
    /// Marks the frames of this checkpoint and of the changes behind it.
    pub salt: u64,
    /// When the volume was formatted, since the Unix epoch.
    pub made: Duration,
    /// Identity of the node that owns the buffer.
    pub node: String,
    /// Serial of the device, or the path, at the time of formatting.
    pub serial: String,
}

impl Superblock {
    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut out = Vec::with_capacity(SUPERBLOCK_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.area.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.layout.extent_bytes.to_le_bytes());
        out.extend_from_slice(&self.layout.slots.to_le_bytes());
        out.extend_from_slice(&self.layout.area_bytes.to_le_bytes());
        out.extend_from_slice(&self.layout.data_at.to_le_bytes());
        out.extend_from_slice(&self.salt.to_le_bytes());
        out.extend_from_slice(&self.changes_at.to_le_bytes());
        out.extend_from_slice(&self.checkpoint_frames.to_le_bytes());
        out.extend_from_slice(&millis(self.made).to_le_bytes());
        for text in [&self.node, &self.serial] {
            let text = shortened(text).as_bytes();
            out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(text);
        }
        let mut bytes = [0; SUPERBLOCK_BYTES];
        bytes[..out.len()].copy_from_slice(&out);
        let checksum = crc(&[&bytes[..CRC_AT]]);
        bytes[CRC_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a superblock. `None` if the bytes are no superblock, are damaged, or have another version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SUPERBLOCK_BYTES] = bytes.first_chunk()?;
        if crc(&[&bytes[..CRC_AT]]).to_le_bytes() != bytes[CRC_AT..] || !bytes.starts_with(&MAGIC) {
            return None;
        }
        let mut fields = Fields(&bytes[MAGIC.len()..CRC_AT]);
        let version = fields.number32()?;
        if !(VERSION..=VERSION_MAX).contains(&version) {
            return None;
        }
        let area = fields.number32()?;
        let generation = fields.number64()?;
        let id = *fields.take(16)?.first_chunk()?;
        let layout = Layout {
            extent_bytes: fields.number32()?,
            slots: fields.number32()?,
            area_bytes: fields.number64()?,
            data_at: fields.number64()?,
        };
        let salt = fields.number64()?;
        let changes_at = fields.number64()?;
        let checkpoint_frames = fields.number32()?;
        let made = Duration::from_millis(fields.number64()?);
        let mut text = || {
            let length = usize::from(fields.byte()?);
            let text = fields.take(length)?;
            String::from_utf8(text.to_vec()).ok()
        };
        let (node, serial) = (text()?, text()?);
        // Commands print the owner, and others may have written it.
        let is_word = node.bytes().all(|byte| byte.is_ascii_graphic());
        let is_sound = layout.is_sound() && area < 2 && changes_at <= layout.area_bytes && is_word;
        is_sound.then_some(Self {
            version,
            generation,
            id,
            layout,
            area,
            checkpoint_frames,
            changes_at,
            salt,
            made,
            node,
            serial,
        })
    }
}

/// The version of a superblock that a later program wrote.
#[must_use]
pub fn later_version(bytes: &[u8]) -> Option<u32> {
    let bytes: &[u8; SUPERBLOCK_BYTES] = bytes.first_chunk()?;
    if crc(&[&bytes[..CRC_AT]]).to_le_bytes() != bytes[CRC_AT..] || !bytes.starts_with(&MAGIC) {
        return None;
    }
    let version = Fields(&bytes[MAGIC.len()..CRC_AT]).number32()?;
    (version > VERSION_MAX).then_some(version)
}

/// Milliseconds since the Unix epoch.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            version: VERSION,
            generation: 7,
            id: [3; 16],
            layout: Layout::of(1 << 40, 4 << 20).expect("room"),
            area: 1,
            checkpoint_frames: 2,
            changes_at: 8192,
            salt: 0x0123_4567_89ab_cdef,
            made: Duration::from_millis(1_700_000_000_123),
            node: format!("gw1-{}", "a".repeat(52)),
            serial: "S4EWNX0R".to_owned(),
        }
    }

    #[test]
    fn an_encoded_superblock_decodes_and_each_flipped_bit_is_noticed() {
        let bytes = sample().encode();
        assert_eq!(Superblock::decode(&bytes), Some(sample()));
        for bit in 0..SUPERBLOCK_BYTES * 8 {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Superblock::decode(&wrong), None, "bit {bit}");
        }
        assert_eq!(Superblock::decode(&bytes[..100]), None);
    }

    #[test]
    fn a_later_version_is_named() {
        let later = |version| Superblock {
            version,
            ..sample()
        };
        let latest = later(VERSION_MAX);
        assert_eq!(Superblock::decode(&latest.encode()), Some(latest.clone()));
        assert_eq!(later_version(&latest.encode()), None);
        let next = later(VERSION_MAX + 1).encode();
        assert_eq!(Superblock::decode(&next), None);
        assert_eq!(later_version(&next), Some(VERSION_MAX + 1));
        assert_eq!(later_version(&[0; SUPERBLOCK_BYTES]), None);
    }

    #[test]
    fn an_owner_with_control_characters_is_no_owner() {
        let forged = Superblock {
            node: "gw1-\u{1b}[2J".to_owned(),
            ..sample()
        };
        assert_eq!(Superblock::decode(&forged.encode()), None);
    }

    #[test]
    fn long_texts_are_shortened_between_characters() {
        let long = Superblock {
            node: "x".repeat(500),
            serial: "é".repeat(200),
            ..sample()
        };
        let decoded = Superblock::decode(&long.encode()).expect("valid");
        assert_eq!(decoded.serial, "é".repeat(60));
        assert_eq!(decoded.node.len(), TEXT_BYTES_MAX);
    }
}
