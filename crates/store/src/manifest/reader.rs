//! Reads a manifest line by line, and checks at its end that all lines are complete and unchanged. Reads
//! only its input; the signature is left to the verifier.

use std::io::{self, BufRead, Read};

use super::{
    DIGEST, END, LINE_BYTES_MAX, LineError, MAGIC, ManifestEntry, SIGNATURE, Trailer, VERSION, line,
};
use crate::digest::DigestKind;

/// Longest text of a signature.
const SIGNATURE_BYTES_MAX: usize = 1024;

/// Reason why a manifest cannot be trusted. Lines count from 1.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The manifest cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The first line is not the header.
    #[error("line 1: this is not a manifest of version {VERSION} ({MAGIC})")]
    Header,
    /// A line is invalid.
    #[error("line {number}: {error}")]
    Line {
        /// The line number.
        number: u64,
        /// The error in the line.
        error: LineError,
    },
    /// A line is longer than any entry can be.
    #[error("line {number}: the line is longer than any valid line")]
    Long {
        /// The line number.
        number: u64,
    },
    /// The end is missing.
    #[error(
        "line {number}: the manifest ends here without its last lines ({END}, {DIGEST}); it was cut off"
    )]
    Truncated {
        /// The number of the missing line.
        number: u64,
    },
    /// Totals or digest do not match the lines above.
    #[error(
        "line {number}: {what} does not match the lines above; the manifest was changed after it was written"
    )]
    Changed {
        /// The line number.
        number: u64,
        /// The part that does not match.
        what: &'static str,
    },
    /// More lines follow the end.
    #[error("line {number}: text after the end of the manifest")]
    Trailing {
        /// The line number.
        number: u64,
    },
}

/// Reads a manifest; memory does not grow with it.
#[derive(Debug)]
pub struct ManifestReader<R> {
    input: R,
    kind: DigestKind,
    hasher: blake3::Hasher,
    number: u64,
    entries: u64,
    bytes: u64,
    line: Vec<u8>,
    trailer: Option<Trailer>,
}

impl<R: BufRead> ManifestReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The input is no manifest, or cannot be read.
    pub fn new(input: R) -> Result<Self, ManifestError> {
        let mut reader = Self {
            input,
            kind: DigestKind::Blake3,
            hasher: blake3::Hasher::new(),
            number: 0,
            entries: 0,
            bytes: 0,
            line: Vec::with_capacity(512),
            trailer: None,
        };
        if !reader.read_line().map_err(|error| match error {
            ManifestError::Read(error) => ManifestError::Read(error),
            _ => ManifestError::Header,
        })? {
            return Err(ManifestError::Header);
        }
        let prefix = format!("{MAGIC}\t{VERSION}\t");
        reader.kind = reader
            .line
            .strip_prefix(prefix.as_bytes())
            .and_then(|name| std::str::from_utf8(name).ok())
            .and_then(DigestKind::from_name)
            .ok_or(ManifestError::Header)?;
        reader.hash_line();
        Ok(reader)
    }

    /// The digest kind of the manifest's files.
    pub fn digest_kind(&self) -> DigestKind {
        self.kind
    }

    /// Number of the line read last; lines count from 1.
    pub fn line_number(&self) -> u64 {
        self.number
    }

    /// The next entry; `None` after the last one, when all checks have passed.
    ///
    /// # Errors
    /// The invalid line. Do not call again after an error.
    pub fn next_entry(&mut self) -> Result<Option<ManifestEntry>, ManifestError> {
        if self.trailer.is_some() {
            return Ok(None);
        }
        if !self.read_line()? {
            return Err(ManifestError::Truncated {
                number: self.number + 1,
            });
        }
        if self.line.first() == Some(&b'#') {
            self.read_end()?;
            return Ok(None);
        }
        let number = self.number;
        let entry = line::decode_entry(&self.line, self.kind)
            .map_err(|error| ManifestError::Line { number, error })?;
        self.hash_line();
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(entry.bytes);
        Ok(Some(entry))
    }

    /// The trailer; `None` before the end is reached.
    pub fn trailer(&self) -> Option<&Trailer> {
        self.trailer.as_ref()
    }

    fn read_end(&mut self) -> Result<(), ManifestError> {
        let number = self.number;
        let [entries, bytes, failed] = self
            .totals()
            .ok_or_else(|| self.bad_line("line of totals"))?;
        if (entries, bytes) != (self.entries, self.bytes) {
            let what = "the number of entries or bytes";
            return Err(ManifestError::Changed { number, what });
        }
        self.hash_line();
        let digest = self.hasher.finalize();
        if !self.read_line()? {
            return Err(ManifestError::Truncated {
                number: self.number + 1,
            });
        }
        let expected = format!("{DIGEST}\tblake3\t{}", digest.to_hex());
        if self.line != expected.as_bytes() {
            let number = self.number;
            let what = "the digest";
            return Err(ManifestError::Changed { number, what });
        }
        let mut signature = None;
        if self.read_line()? {
            let text = self
                .line
                .strip_prefix(SIGNATURE.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"\t"))
                .filter(|text| text.len() <= SIGNATURE_BYTES_MAX)
                .and_then(|text| std::str::from_utf8(text).ok())
                .map(str::to_owned);
            signature = Some(text.ok_or(ManifestError::Trailing {
                number: self.number,
            })?);
            if self.read_line()? {
                return Err(ManifestError::Trailing {
                    number: self.number,
                });
            }
        }
        self.trailer = Some(Trailer {
            entries,
            bytes,
            failed,
            digest: *digest.as_bytes(),
            signature,
        });
        Ok(())
    }

    fn totals(&self) -> Option<[u64; 3]> {
        let rest = self
            .line
            .strip_prefix(END.as_bytes())?
            .strip_prefix(b"\t")?;
        let mut numbers = rest.split(|byte| *byte == b'\t').map(line::number);
        let totals = [numbers.next()??, numbers.next()??, numbers.next()??];
        numbers.next().is_none().then_some(totals)
    }

    fn bad_line(&self, field: &'static str) -> ManifestError {
        ManifestError::Line {
            number: self.number,
            error: LineError::Field {
                field,
                text: String::from_utf8_lossy(&self.line).into_owned(),
            },
        }
    }

    fn hash_line(&mut self) {
        self.hasher.update(&self.line);
        self.hasher.update(b"\n");
    }

    /// Reads the next line, without its newline. False at the end.
    fn read_line(&mut self) -> Result<bool, ManifestError> {
        self.line.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        let read = self
            .input
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.pop() == Some(b'\n') {
            return Ok(true);
        }
        let number = self.number;
        Err(if read as u64 == most {
            ManifestError::Long { number }
        } else {
            // The last line is incomplete.
            ManifestError::Truncated { number }
        })
    }
}
