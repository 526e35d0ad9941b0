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
    /// Bytes of those that go to slow storage now.
    #[serde(default)]
    pub bytes_draining: u64,
    /// Clean bytes that stay: their files are pinned, or kept until a time.
    #[serde(default)]
    pub bytes_kept: u64,
    /// Time since which the oldest content is on flash.
    #[serde(default)]
    pub oldest: Option<Timestamp>,
    /// Time since which flash has the oldest content that exists only in the buffer.
    #[serde(default)]
    pub oldest_dirty: Option<Timestamp>,
    /// Files with extents.
    pub files: u64,
    /// Files that users have pinned.
    #[serde(default)]
    pub files_pinned: u64,
    /// Files that have arrived, and are not at their export yet.
    #[serde(default)]
    pub files_waiting: u64,
    /// Files of those whose last way to the export failed.
    #[serde(default)]
    pub files_troubled: u64,
    /// Files of those that were put aside until a user acts.
    #[serde(default)]
    pub files_aside: u64,
    /// Bytes that transfers got from the buffer since the start of the node.
    pub hit_bytes: u64,
    /// Bytes that transfers read from the exports instead.
    pub missed_bytes: u64,
    /// Bytes that transfers got from the buffers of other nodes of the cluster.
    #[serde(default)]
    pub pooled_bytes: u64,
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
    /// Exports to which files drain, and that take no data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalled: Vec<BufferStall>,
    /// A row for each node of the cluster, this one first; none if the node is alone. Together they are the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<BufferNode>,
}

/// An export that takes no data from the buffer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct BufferStall {
    /// Name of the export.
    pub export: String,
    /// When it took data last.
    pub since: Timestamp,
    /// Files that drain to it.
    pub files: u64,
}

/// The part of one node in the pool.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct BufferNode {
    /// Name of the node.
    pub node: String,
    /// `well`, `trouble` if a volume is not well, `none` without a buffer, or `silent`.
    pub state: String,
    /// Why the figures are missing, or why the node gives no extents to others now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes of all extents of its volumes.
    pub bytes_total: u64,
    /// Bytes that hold nothing.
    pub bytes_free: u64,
    /// Bytes that can be evicted.
    pub bytes_clean: u64,
    /// Bytes of which the buffer has the only copy.
    pub bytes_dirty: u64,
    /// Bytes of those that go to slow storage now.
    #[serde(default)]
    pub bytes_draining: u64,
    /// Time since which flash has the oldest content that exists only in the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_dirty: Option<Timestamp>,
    /// Files that have arrived, and are not at their export yet.
    #[serde(default)]
    pub files_waiting: u64,
    /// Files of those whose last way to the export failed.
    #[serde(default)]
    pub files_troubled: u64,
    /// Files of those that were put aside until a user acts.
    #[serde(default)]
    pub files_aside: u64,
    /// Its exports that take no data from the buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalled: Vec<BufferStall>,
    /// Clean bytes that stay.
    pub bytes_kept: u64,
    /// Files with extents. A large file has some at several nodes.
    pub files: u64,
    /// Bytes that transfers of any node got from this buffer.
    pub hit_bytes: u64,
    /// Bytes that this node read from the exports.
    pub missed_bytes: u64,
    /// Bytes that its transfers got from the buffers of other nodes.
    pub pooled_bytes: u64,
    /// Bytes written to flash.
    pub filled_bytes: u64,
}

impl BufferNode {
    /// The row of a node that shows its buffer.
    #[must_use]
    pub fn of(node: &str, view: &BufferView) -> Self {
        let is_well = view.volumes.iter().all(|volume| volume.state == "well");
        let state = match (view.volumes.is_empty(), is_well) {
            (true, _) => "none",
            (false, true) => "well",
            (false, false) => "trouble",
        };
        Self {
            node: node.to_owned(),
            state: state.to_owned(),
            reason: None,
            bytes_total: view.bytes_total,
            bytes_free: view.bytes_free,
            bytes_clean: view.bytes_clean,
            bytes_dirty: view.bytes_dirty,
            bytes_draining: view.bytes_draining,
            oldest_dirty: view.oldest_dirty,
            files_waiting: view.files_waiting,
            files_troubled: view.files_troubled,
            files_aside: view.files_aside,
            stalled: view.stalled.clone(),
            bytes_kept: view.bytes_kept,
            files: view.files,
            hit_bytes: view.hit_bytes,
            missed_bytes: view.missed_bytes,
            pooled_bytes: view.pooled_bytes,
            filled_bytes: view.filled_bytes,
        }
    }

    /// The row of a node that shows nothing now.
    #[must_use]
    pub fn silent(node: &str, reason: &str) -> Self {
        Self {
            node: node.to_owned(),
            state: "silent".to_owned(),
            reason: Some(reason.to_owned()),
            ..Self::default()
        }
    }
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
    /// Nodes of the cluster that did not answer. Their files are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
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
    /// Time until which the file stays; null if it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The state of a file that has arrived, and is not at its export yet: `ready`, `draining`, `later`, `held`, or `aside` until a user
    /// acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// Time since which the file waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How often its way to the export failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u32>,
    /// Why it failed the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Files whose stay in the buffer changes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeepInBuffer {
    /// Place of a file or directory of this node, as `here:/EXPORT/PATH`.
    #[schema(value_type = String, example = "here:/data/run42")]
    pub place: Text,
    /// The files stay for this time from now on. With 0 they may be evicted when room is needed. Without a value they stay
    /// until this changes.
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
    /// The files that have arrived, and are not at their export yet, are given up instead: they are lost. This needs the right to write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
}

/// Waiting files that are tried again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryDrain {
    /// Place of a file or directory of this node, as `here:/EXPORT/PATH`.
    #[schema(value_type = String, example = "here:/data/run42")]
    pub place: Text,
}

/// The result of a change.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct BufferChanged {
    /// Files with the wanted state now. A file counts at each node that has a part of it.
    pub files: u64,
    /// Files that did not change, because others have reserved the room.
    pub refused: u64,
    /// A row for each node of the cluster, this one first; none if the node is alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<BufferNodeChanged>,
}

/// The result of a change at one node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct BufferNodeChanged {
    /// Name of the node.
    pub node: String,
    /// Files that are as asked now.
    pub files: u64,
    /// Files that are not.
    pub refused: u64,
    /// Why the node has not answered; its files may be as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
