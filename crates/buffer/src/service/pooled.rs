//! Owns what a pool of several nodes needs of a buffer in use: its mates, files that others name, and the counts. Asks no node.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::{Buffer, BufferedFile};
use crate::extent::{FileKey, Keep, SourceId};
use crate::pool::Mates;

impl Buffer {
    /// Makes this buffer a part of the pool. Only the first call counts; the pool ends with its owner.
    pub fn join_pool(&self, mates: &Arc<dyn Mates>) {
        // Nodes have one pool.
        let _ = self.0.pool.set(Arc::downgrade(mates));
    }

    /// The other nodes of the pool.
    #[must_use]
    pub fn pool(&self) -> Option<Arc<dyn Mates>> {
        self.0.pool.get().and_then(Weak::upgrade)
    }

    /// Number of bytes of a source that the buffers of all nodes hold.
    #[must_use]
    pub fn pool_room(&self, source: SourceId) -> u64 {
        let others = self.pool().map_or(0, |mates| mates.room(source));
        self.room().saturating_add(others)
    }

    /// A file that another node names. This node has not seen the generation, so no other generation is given up for it.
    #[must_use]
    pub fn named(&self, key: FileKey, keep: Keep) -> Option<BufferedFile> {
        let shared = &self.0;
        if shared.is_closed() {
            return None;
        }
        if keep != Keep::No {
            shared.lock().keep_at_least(&key, keep);
        }
        shared.open.fetch_add(1, Ordering::Relaxed);
        Some(BufferedFile {
            shared: Arc::clone(shared),
            key: Arc::new(key),
            keep,
        })
    }

    /// Whether the extent of a file at `offset` is in the buffer, or on its way there.
    #[must_use]
    pub fn has(&self, key: &FileKey, offset: u64) -> bool {
        self.0.lock().has(key, offset)
    }
}

impl BufferedFile {
    /// As [`Self::read`], without a count if the buffer does not have the bytes.
    #[must_use]
    pub fn find(&self, offset: u64, out: &mut [u8]) -> bool {
        let shared = &self.shared;
        if shared.is_closed() || !shared.read(&self.key, offset, out) {
            return false;
        }
        let bytes = out.len() as u64;
        shared.counts.hit.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Counts bytes that came from slow storage.
    pub fn count_missed(&self, bytes: u64) {
        let count = &self.shared.counts.missed;
        count.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that came from another node.
    pub fn count_pooled(&self, bytes: u64) {
        let count = &self.shared.counts.pooled;
        count.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The name of the file.
    #[must_use]
    pub const fn key(&self) -> &Arc<FileKey> {
        &self.key
    }
}
