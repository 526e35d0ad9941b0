//! Owns the kinds of digest that protect blocks and files: their names, their numbers, their lengths.
//! Computes none.

/// Which digest protects blocks and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DigestKind {
    /// CRC-64/NVME: finds accidents, at memory speed.
    Crc64Nvme = 1,
    /// BLAKE3: detects intentional changes as well; `b3sum` prints the same digest of a file.
    Blake3 = 2,
}

impl DigestKind {
    const ALL: [Self; 2] = [Self::Crc64Nvme, Self::Blake3];

    /// The number of this kind in messages and journals.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind with `number`, if this version knows it.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Name in settings, manifests, texts of parts, and for users.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "crc64-nvme",
            Self::Blake3 => "blake3",
        }
    }

    /// The kind with this name, if this version knows it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Number of bytes of a digest of this kind.
    #[must_use]
    pub const fn digest_bytes(self) -> usize {
        match self {
            Self::Crc64Nvme => 8,
            Self::Blake3 => 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_their_kind() {
        for kind in DigestKind::ALL {
            assert_eq!(DigestKind::from_name(kind.name()), Some(kind));
            assert_eq!(DigestKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(DigestKind::from_number(0), None);
        assert_eq!(DigestKind::from_name("md5"), None);
    }
}
