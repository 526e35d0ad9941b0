//! Writes a manifest: header, lines in the order of the calls, totals, digest, signature. Does not
//! sort entries or choose them.

use std::io::{self, Write};

use super::{DIGEST, END, EntryType, MAGIC, ManifestEntry, SIGNATURE, Trailer, VERSION, line};
use crate::digest::DigestKind;

/// Makes the signature of a manifest's digest, in the form of its line.
pub type Sign<'a> = &'a dyn Fn(&[u8; 32]) -> String;

/// Writes a manifest; memory does not grow with it.
#[derive(Debug)]
pub struct ManifestWriter<W> {
    out: W,
    kind: DigestKind,
    hasher: blake3::Hasher,
    entries: u64,
    bytes: u64,
    line: Vec<u8>,
}

impl<W: Write> ManifestWriter<W> {
    /// Begins a manifest of files with this kind of digest.
    pub fn new(out: W, kind: DigestKind) -> io::Result<Self> {
        let mut writer = Self {
            out,
            kind,
            hasher: blake3::Hasher::new(),
            entries: 0,
            bytes: 0,
            line: Vec::with_capacity(512),
        };
        let header = format!("{MAGIC}\t{VERSION}\t{}\n", kind.name());
        writer.hasher.update(header.as_bytes());
        writer.out.write_all(header.as_bytes())?;
        Ok(writer)
    }

    /// The digest kind of the manifest's files.
    #[must_use]
    pub fn digest_kind(&self) -> DigestKind {
        self.kind
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: &ManifestEntry) -> io::Result<()> {
        if entry.kind == EntryType::File && entry.digest.is_none() {
            return Err(io::Error::other("a file without a digest"));
        }
        self.line.clear();
        line::encode_entry(entry, self.kind, &mut self.line);
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(entry.bytes);
        self.hasher.update(&self.line);
        self.out.write_all(&self.line)
    }

    /// Writes the end of the manifest. `failed` entries of the data set are missing.
    pub fn finish(mut self, failed: u64, sign: Option<Sign<'_>>) -> io::Result<(W, Trailer)> {
        let end = format!("{END}\t{}\t{}\t{failed}\n", self.entries, self.bytes);
        self.hasher.update(end.as_bytes());
        self.out.write_all(end.as_bytes())?;
        let digest = self.hasher.finalize();
        writeln!(self.out, "{DIGEST}\tblake3\t{}", digest.to_hex())?;
        let signature = sign.map(|sign| sign(digest.as_bytes()));
        if let Some(signature) = &signature {
            writeln!(self.out, "{SIGNATURE}\t{signature}")?;
        }
        self.out.flush()?;
        let trailer = Trailer {
            entries: self.entries,
            bytes: self.bytes,
            failed,
            digest: *digest.as_bytes(),
            signature,
        };
        Ok((self.out, trailer))
    }
}
