//! Describes an item, so that it can be read and sent again. Does not contain its bytes; the item does.
//!
//! If the source can be read again, a block's buffer is released once the kernel has accepted the bytes; otherwise the
//! buffer is kept until WRITTEN. The description stays until DURABLE. After a lost stream or RESEND the bytes are read
//! again from the description, under the same number.

use std::sync::Arc;

use godwit_proto::Record;

use crate::entry;
use crate::sender::large::{LargeFile, SliceCut};

/// Describes an item; kept until the item is durable, so that it can be read and sent again.
#[derive(Clone)]
pub(crate) enum Desc {
    Manifest(Arc<Vec<Record>>),
    Slice { file: Arc<LargeFile>, cut: SliceCut },
    Bundle(Arc<Vec<Record>>),
    Finish,
}

impl Desc {
    /// Memory of the extensions and long names in its records, in bytes.
    pub(super) fn extension_bytes(&self) -> usize {
        match self {
            Self::Bundle(records) | Self::Manifest(records) => {
                records.iter().map(entry::extra_bytes).sum()
            }
            // Any slice keeps the whole description of its file.
            Self::Slice { file, .. } => file.extra_bytes,
            Self::Finish => 0,
        }
    }

    /// Records that wait to become durable.
    pub(super) fn records(&self) -> usize {
        match self {
            Self::Bundle(records) => records.len(),
            Self::Slice { .. } => 1,
            Self::Manifest(_) | Self::Finish => 0,
        }
    }
}
