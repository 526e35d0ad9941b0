//! The memory of kept blocks, which is used again.
//! Does not bound the kept blocks; `hold` does.

use std::sync::{Arc, Mutex, PoisonError};

use godwit_engine::OnceDigest;

/// Most buffers that wait for use, beside the kept ones.
const SHELVED_MAX: usize = 8;

/// Most bytes of these buffers, because the bound of the kept blocks does not count them.
const SHELVED_BYTES_MAX: usize = 32 << 20;

/// Smaller buffers are not worth keeping.
const SHELVED_BYTES_MIN: usize = 64 << 10;

/// Buffers that wait for use.
#[derive(Default)]
pub(super) struct Shelf(Mutex<Vec<Vec<u8>>>);

/// The contents of a kept block.
pub(super) struct Contents {
    bytes: Vec<u8>,
    used: usize,
    shelf: Arc<Shelf>,
    digest: OnceDigest,
}

impl Shelf {
    /// A copy of `bytes`.
    pub(super) fn copy(self: &Arc<Self>, bytes: &[u8]) -> Contents {
        let shelved = {
            let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A much larger buffer would take memory that the bound does not count.
            let fits =
                |buffer: &Vec<u8>| buffer.len() >= bytes.len() && buffer.len() / 2 < bytes.len();
            let found = shelf.iter().position(fits);
            found.map(|found| shelf.swap_remove(found))
        };
        let buffer = match shelved {
            Some(mut buffer) => {
                buffer[..bytes.len()].copy_from_slice(bytes);
                buffer
            }
            None => bytes.to_vec(),
        };
        Contents {
            bytes: buffer,
            used: bytes.len(),
            shelf: Arc::clone(self),
            digest: OnceDigest::default(),
        }
    }
}

impl Contents {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// The digest that all transfers with these bytes share.
    pub(super) const fn digest(&self) -> &OnceDigest {
        &self.digest
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.len() < SHELVED_BYTES_MIN {
            return;
        }
        let mut shelf = self.shelf.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shelved: usize = shelf.iter().map(Vec::len).sum();
        if shelf.len() < SHELVED_MAX && shelved + bytes.len() <= SHELVED_BYTES_MAX {
            shelf.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_keeps_few_bytes_and_uses_them_again() {
        let shelf = Arc::new(Shelf::default());
        let large = vec![1; SHELVED_BYTES_MAX / 2];
        drop([(); 3].map(|()| shelf.copy(&large)));
        let shelved = || shelf.0.lock().expect("whole").len();
        assert_eq!(shelved(), 2);
        let used = shelf.copy(&large);
        assert_eq!((shelved(), used.as_slice().len()), (1, large.len()));
    }
}
