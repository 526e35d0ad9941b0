//! Stores and describes data: storages and their entries, digests, the journal of a transfer, manifest files, the pool of
//! blocks. Does not depend on the wire format, on peers, or on the order of steps in a transfer.

pub mod accounts;
mod cpu;
pub mod digest;
pub mod error;
pub mod extended;
mod fs;
mod handles;
pub mod journal;
pub mod manifest;
pub mod measure;
pub mod meta;
pub mod path;
pub mod pool;
pub mod seen;
pub mod spill;
pub mod storage;
pub mod times;

pub use cpu::{thread_cpu_time, thread_cpu_waiting};
pub use error::{StoreError, StoreErrorKind};
pub use extended::{AclEntry, AclWho, Acls, Extended, Lost, Xattr};
pub use fs::{
    Confine, DirectoryId, FsOptions, FsStorage, RootDirectory, ScanPages, ScanSeat, Syncs,
};
pub use handles::{close_kept_handles, open_with_room};
pub use meta::{FinalMeta, Kind, Meta, Timestamp};
pub use path::{
    NAME_BYTES_MAX, PATH_BYTES_MAX, PathError, RelPath, TEMP_NAME_BYTES, TempName, claim_tag,
};
pub use storage::{
    Capabilities, Choice, Create, Known, Look, May, Pick, ReadFile, Replace, SCAN_BATCH_ITEMS,
    SYNC_EACH_MAX, Scan, ScanEntry, ScanItem, Storage, SurveyItem, WriteFile, above_to_sync,
};
