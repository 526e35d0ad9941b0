//! Owns the normal form of a name in a list, and the measure of a batch. Does not look names up (`list` does).

use godwit_engine::{Offers, Unoffered, limits};
use godwit_proto::{EntryId, FaultCode, Record};
use godwit_store::RelPath;

use crate::files::read::offer::source_fault;

/// A batch ends early when its records have this many bytes of paths, targets and attributes. One name may have 32,000
/// directories above it, whose paths together take 1 GiB.
const BATCH_BYTES: usize = 1 << 20;

/// Most bytes of a name that a message quotes.
const SHOWN_BYTES_MAX: usize = 200;

/// How much of a batch was measured. Records are only appended to it.
#[derive(Default)]
pub(crate) struct Filled {
    records: usize,
    bytes: usize,
}

impl Filled {
    /// Whether the batch has enough records, or bytes.
    pub(crate) fn is_full(&mut self, out: &Offers) -> bool {
        let fresh = out.entries.get(self.records..).unwrap_or_default();
        let bytes =
            |record: &Record| record.path.len() + record.target.len() + record.extensions.len();
        self.bytes += fresh.iter().map(bytes).sum::<usize>();
        self.records = out.entries.len();
        out.len() >= limits::MANIFEST_RECORDS || self.bytes >= BATCH_BYTES
    }
}

/// A name of the list in its normal form.
pub(super) struct Wanted {
    pub(super) path: RelPath,
    /// The name ended in a slash, or is the root.
    pub(super) contents: bool,
}

/// Converts a name of the list to a path: `.` and empty components are dropped.
pub(super) fn clean(name: &[u8]) -> Result<Wanted, &'static str> {
    if name.first() == Some(&b'/') {
        return Err("the name is absolute; names are relative to the source");
    }
    let components = name.split(|byte| *byte == b'/');
    if components.clone().any(|component| component == b"..") {
        return Err("the name has a component .., which could lead out of the source");
    }
    let named = |component: &&[u8]| !matches!(*component, b"" | b".");
    let contents = !components
        .clone()
        .next_back()
        .is_some_and(|last| named(&last));
    let clean: Vec<&[u8]> = components.filter(named).collect();
    RelPath::parse(&clean.join(&b'/'))
        .map(|path| Wanted { path, contents })
        .map_err(|error| match error {
            godwit_store::PathError::NameTooLong => "a component is longer than 255 bytes",
            _ => "the name is not a path",
        })
}

/// The failure of a name that is not a valid path.
pub(super) fn refused(name: &[u8], why: &str) -> Unoffered {
    let shown = &name[..name.len().min(SHOWN_BYTES_MAX)];
    let more = if shown.len() < name.len() { "…" } else { "" };
    let message = format!(
        "`{}{more}` in the list: {why}",
        String::from_utf8_lossy(shown)
    );
    Unoffered {
        root: 0,
        path: name.to_vec(),
        fault: source_fault(EntryId(0), FaultCode::NAME, message),
    }
}
