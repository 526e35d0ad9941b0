//! Chooses the library that seals and opens records, by the processor's features; the table is read once. Seals
//! nothing, and does not concern the REST API or webhooks, which move few bytes.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use rustls::SupportedCipherSuite;
use rustls::crypto::{aws_lc_rs, ring};
use thiserror::Error;

use crate::tls::Cipher;

/// A library that implements the ciphers of TLS. The libraries produce the same records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Library {
    /// aws-lc-rs: the fastest AES with AVX-512.
    AwsLc,
    /// ring: has AES for VAES and AVX2 without AVX-512.
    Ring,
}

impl Library {
    /// All libraries.
    pub const ALL: [Self; 2] = [Self::AwsLc, Self::Ring];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AwsLc => "aws-lc",
            Self::Ring => "ring",
        }
    }

    pub(crate) fn suite(self, cipher: Cipher) -> SupportedCipherSuite {
        match (self, cipher) {
            (Self::AwsLc, Cipher::Aes256Gcm) => aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
            (Self::AwsLc, Cipher::Aes128Gcm) => aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
            (Self::AwsLc, Cipher::ChaCha20Poly1305) => {
                aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256
            }
            (Self::Ring, Cipher::Aes256Gcm) => ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
            (Self::Ring, Cipher::Aes128Gcm) => ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
            (Self::Ring, Cipher::ChaCha20Poly1305) => {
                ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256
            }
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is no name of a library.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a cipher library: write aws-lc or ring")]
pub struct LibraryError(String);

impl FromStr for Library {
    type Err = LibraryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|library| library.name() == text)
            .ok_or_else(|| LibraryError(text.to_owned()))
    }
}

/// The processor instructions that decide the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whether the processor has AES instructions, under any name.
    pub aes: bool,
    /// AES and carry-less multiplication on vectors of 256 bits.
    pub vaes: bool,
    /// AVX-512 with all parts that aws-lc needs.
    pub avx512: bool,
}

impl Features {
    /// The instructions of this machine's processor.
    #[must_use]
    pub fn of_this_processor() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let vaes = has!("avx2") && has!("vaes") && has!("vpclmulqdq");
            let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
            Self {
                aes: has!("aes") && has!("pclmulqdq"),
                vaes,
                avx512: vaes && wide,
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            let aes = std::arch::is_aarch64_feature_detected!("aes");
            Self {
                aes,
                ..Self::default()
            }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Self::default()
    }

    const fn has(self, needs: Self) -> bool {
        (self.aes || !needs.aes) && (self.vaes || !needs.vaes) && (self.avx512 || !needs.avx512)
    }
}

/// The choice for processors with certain instructions.
struct Row {
    needs: Features,
    library: Library,
    ciphers: [Cipher; 3],
}

/// AES with 128 bits is a tenth faster than with 256, on every processor with AES instructions.
const BY_AES: [Cipher; 3] = [
    Cipher::Aes128Gcm,
    Cipher::Aes256Gcm,
    Cipher::ChaCha20Poly1305,
];
const BY_SHIFTS: [Cipher; 3] = [
    Cipher::ChaCha20Poly1305,
    Cipher::Aes128Gcm,
    Cipher::Aes256Gcm,
];

/// A processor gets the first row whose instructions it has. docs/performance/results/aead.tsv has the figures.
const TABLE: [Row; 4] = [
    row(true, true, true, Library::AwsLc, BY_AES),
    row(true, true, false, Library::Ring, BY_AES),
    row(true, false, false, Library::AwsLc, BY_AES),
    row(false, false, false, Library::AwsLc, BY_SHIFTS),
];

const fn row(aes: bool, vaes: bool, avx512: bool, library: Library, ciphers: [Cipher; 3]) -> Row {
    let needs = Features { aes, vaes, avx512 };
    Row {
        needs,
        library,
        ciphers,
    }
}

fn row_for(has: Features) -> &'static Row {
    let row = TABLE.iter().find(|row| has.has(row.needs));
    row.expect("the last row needs nothing")
}

/// The ciphers in the order in which this processor offers them: the fastest first.
#[must_use]
pub fn ciphers() -> &'static [Cipher; 3] {
    &row_for(Features::of_this_processor()).ciphers
}

static CHOSEN: OnceLock<Library> = OnceLock::new();

/// The library of this process's data connections.
#[must_use]
pub fn library() -> Library {
    *CHOSEN.get_or_init(|| row_for(Features::of_this_processor()).library)
}

/// Overrules the table, for tests and measurements. Only the first call before any connection has an effect.
pub fn use_library(library: Library) {
    let _ = CHOSEN.set(library);
}

#[cfg(test)]
mod tests;
