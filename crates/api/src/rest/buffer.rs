//! The documents about the transfer buffer of a node: its figures, its files, and what a user may change.
//! Knows no buffer.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;
use crate::job::Text;

/// The transfer buffer of a node. Without a buffer all figures are 0.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct BufferView {
    /// Bytes of one extent.
    pub extent_bytes: u64,
    /// Bytes of all extents of the volumes.
    pub bytes_total: u64,
    /// Bytes that hold nothing.
    pub bytes_free: u64,
    /// Bytes on their way to flash.
    pub bytes_filling: u64,
    /// Bytes that can be evicted, because their source has them.
    pub bytes_clean: u64,
    /// Bytes of which the buffer has the only copy.
    pub bytes_dirty: u64,
    /// Bytes of those that can be evicted, but stay: their files are pinned, or kept until a time.
    #[serde(default)]
    pub bytes_kept: u64,
    /// Since when the oldest content is on flash.
    #[serde(default)]
    pub oldest: Option<Timestamp>,
    /// Since when the oldest content is on flash of which the buffer has the only copy.
    #[serde(default)]
    pub oldest_dirty: Option<Timestamp>,
    /// Files with extents.
    pub files: u64,
    /// Files that users have pinned.
    #[serde(default)]
    pub files_pinned: u64,
    /// Bytes that transfers got from the buffer since the start of the node.
    pub hit_bytes: u64,
    /// Bytes that transfers read from the exports instead.
    pub missed_bytes: u64,
    /// Bytes written to flash.
    pub filled_bytes: u64,
    /// Bytes that went on from flash to slow storage.
    #[serde(default)]
    pub drained_bytes: u64,
    /// Bytes that passed the buffer by, because it had no room or was slower.
    pub passed_bytes: u64,
    /// Bytes that were not as they had been written. None of them was sent.
    pub damaged_bytes: u64,
    /// The volumes, in the order of the settings.
    pub volumes: Vec<BufferVolume>,
}

impl BufferView {
    /// Bytes that no other content can have now: they are on their way, the only copy, or stay.
    #[must_use]
    pub const fn bytes_taken(&self) -> u64 {
        let sum = self.bytes_filling.saturating_add(self.bytes_dirty);
        sum.saturating_add(self.bytes_kept)
    }

    /// Whether almost all room is taken by content that stays.
    #[must_use]
    pub const fn is_nearly_full(&self) -> bool {
        self.bytes_total > 0 && self.bytes_taken() / 9 >= self.bytes_total / 10
    }
}

/// One volume of the buffer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct BufferVolume {
    /// Its place; only admins see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub path: Option<Text>,
    /// `well`, `slow`, `out`, or `closed` if the node could not open it.
    pub state: String,
    /// Why it is out or closed; only admins see why it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes of its extents.
    pub bytes_total: u64,
    /// Bytes that hold nothing.
    pub bytes_free: u64,
}

/// A page of the files in the buffer.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct BufferFiles {
    /// The files, by the bytes of their paths.
    pub files: Vec<BufferFile>,
    /// Cursor of the next page; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<Text>,
}

/// A file in the buffer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct BufferFile {
    /// Path below the export.
    #[schema(value_type = String)]
    pub path: Text,
    /// Size of the file.
    pub bytes: u64,
    /// Bytes of the file that the buffer can send.
    pub bytes_held: u64,
    /// Whether the buffer has the only copy of some of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dirty: bool,
    /// Whether a user has pinned the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Until when the file stays, if that has an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// Files whose stay in the buffer changes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeepInBuffer {
    /// Place of a file or directory of this node, as `here:/EXPORT/PATH`.
    #[schema(value_type = String, example = "here:/data/run42")]
    pub place: Text,
    /// The files stay for this time from now on; 0 lets them go when room is needed; without it they stay until this changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// Files that leave the buffer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DropFromBuffer {
    /// Place of a file or directory of this node, as `here:/EXPORT/PATH`.
    #[schema(value_type = String, example = "here:/data/run42")]
    pub place: Text,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct BufferChanged {
    /// Files that are as asked now.
    pub files: u64,
    /// Files that are not, because others have reserved the room.
    pub refused: u64,
}
