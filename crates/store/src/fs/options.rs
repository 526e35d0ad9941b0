//! Owns the options of a file system storage.
//! Does not obey them: the parts of the storage do.

use super::attributes::Confine;
use super::syncs::Syncs;
use crate::path::RelPath;
use std::sync::Arc;

/// How a file system storage behaves; `new` returns the usual options.
#[derive(Debug, Clone)]
pub struct FsOptions {
    /// Apply setuid and setgid bits.
    pub allow_set_id: bool,
    /// Apply ownership if the metadata contains it.
    pub allow_owner: bool,
    /// Read and apply `security.*` and `trusted.*` attributes, if attributes are copied and this process has the right.
    pub allow_privileged_xattrs: bool,
    /// Create device nodes.
    pub allow_devices: bool,
    /// Scans report extended attributes.
    pub read_xattrs: bool,
    /// Scans report access lists.
    pub read_acls: bool,
    /// The process cleared its file mode creation mask (`godwit_sys::umask::clear`), so files can be created with their final
    /// mode in one call.
    pub umask_cleared: bool,
    /// Most directory handles kept open; none below two.
    pub directories_max: usize,
    /// About how many bytes a scan keeps in memory for each of two purposes, before it uses the spill directory.
    pub spill_bytes: usize,
    /// Read and write large files past the page cache, except for parts that do not begin or end with a page. It is an error if the
    /// file system does not support this.
    pub direct: bool,
    /// Use `openat2` if the kernel has it.
    pub openat2: bool,
    /// Use `RENAME_NOREPLACE` if the file system supports it.
    pub rename_noreplace: bool,
    /// Directories that no call removes, renames or replaces, nor a directory above them: other storages begin there.
    pub lasting: Arc<[RelPath]>,
    /// Shares syncs of whole file systems with all storages that use the same value.
    pub syncs: Syncs,
    /// The name under which copies of the contents may be kept.
    pub origin: Option<[u8; 16]>,
}

impl FsOptions {
    /// The usual options of a local or an exported tree.
    pub fn new(confine: Confine) -> Self {
        Self {
            allow_set_id: confine == Confine::Local,
            allow_owner: confine == Confine::Local,
            allow_privileged_xattrs: confine == Confine::Local,
            allow_devices: confine == Confine::Local,
            read_xattrs: false,
            read_acls: false,
            umask_cleared: false,
            directories_max: DIRECTORIES_MAX,
            spill_bytes: SPILL_BYTES,
            direct: false,
            openat2: true,
            rename_noreplace: true,
            lasting: [].into(),
            syncs: Syncs::default(),
            origin: None,
        }
    }
}

/// Twice the directories of a batch of small files in a source tree. They are kept open until the files have their names. If the
/// process has too many open handles, only 256 directories are kept.
const DIRECTORIES_MAX: usize = 1024;

/// Some 30,000 files with several names, or as many directories that wait for listing.
const SPILL_BYTES: usize = 4 << 20;
