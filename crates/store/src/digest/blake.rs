//! Owns the shape of the BLAKE3 tree: which slices are subtrees, how to hash a subtree, and how subtrees join. Does not remember parts
//! (`file` does).

mod zeros;

use std::cell::Cell;

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, max_subtree_len, merge_subtrees_non_root,
    merge_subtrees_root,
};
use blake3::{CHUNK_LEN, Hasher};

/// The unfinished hash of one slice.
pub(super) struct Run {
    hasher: Hasher,
    root: bool,
}

impl Run {
    /// Starts the slice of `bytes` bytes at `offset` of a file of `file_bytes`. Exactly `bytes` bytes must follow.
    pub(super) fn new(offset: u64, bytes: u64, file_bytes: u64) -> Self {
        if offset == 0 && bytes == file_bytes {
            return Self {
                hasher: Hasher::new(),
                root: true,
            };
        }
        let tail = offset.checked_add(bytes) == Some(file_bytes);
        if is_complete(offset, bytes) || (tail && may_be_tail(offset, bytes)) {
            return Self::inner(offset);
        }
        let mut hasher = Hasher::new_derive_key(OUTSIDE_THE_TREE);
        hasher.update(&offset.to_le_bytes());
        Self { hasher, root: true }
    }

    /// Starts a subtree that is not the whole tree.
    fn inner(offset: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(offset);
        Self {
            hasher,
            root: false,
        }
    }

    pub(super) fn data(&mut self, data: &[u8]) {
        self.hasher.update(data);
    }

    pub(super) fn zeros(&mut self, bytes: u64) {
        let mut rest = bytes;
        while rest > 0 {
            let step = rest.min(ZEROS.len() as u64);
            self.hasher
                .update(&ZEROS[..usize::try_from(step).unwrap_or(ZEROS.len())]);
            rest -= step;
        }
    }

    /// Like [`Self::zeros`]; `None` if `zeros` asked to stop.
    pub(super) fn zeros_unless(&mut self, bytes: u64, zeros: &Zeros<'_>) -> Option<()> {
        let mut rest = bytes;
        while rest > 0 {
            let step = rest.min(STOP_EVERY_BYTES);
            self.zeros(step);
            zeros.count(step)?;
            rest -= step;
        }
        Some(())
    }

    pub(super) fn finish(self) -> [u8; 32] {
        if self.root {
            *self.hasher.finalize().as_bytes()
        } else {
            self.hasher.finalize_non_root()
        }
    }
}

/// Whether the range is a subtree whose leaves are all full, for any size of the file.
pub(super) fn is_complete(offset: u64, bytes: u64) -> bool {
    bytes.is_power_of_two() && bytes >= CHUNK_LEN as u64 && offset.is_multiple_of(bytes)
}

/// Whether the range would be a subtree if the file ended with it.
pub(super) fn may_be_tail(offset: u64, bytes: u64) -> bool {
    bytes > 0
        && offset.is_multiple_of(CHUNK_LEN as u64)
        && max_subtree_len(offset).is_none_or(|most| bytes <= most)
}

/// The chaining value of two siblings.
pub(super) fn join(left: &ChainingValue, right: &ChainingValue) -> ChainingValue {
    merge_subtrees_non_root(left, right, Mode::Hash)
}

/// Counts zeros that are hashed in one go, and asks whether to stop.
pub(super) struct Zeros<'a> {
    unasked: Cell<u64>,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Zeros<'a> {
    pub(super) fn new(stop: &'a dyn Fn() -> bool) -> Self {
        Self {
            unasked: Cell::new(0),
            stop,
        }
    }

    /// Whether the caller wants to stop.
    fn stops(&self) -> bool {
        (self.stop)()
    }

    fn count(&self, bytes: u64) -> Option<()> {
        self.unasked.set(self.unasked.get() + bytes);
        if self.unasked.get() < STOP_EVERY_BYTES {
            return Some(());
        }
        self.unasked.set(0);
        (!(self.stop)()).then_some(())
    }
}

/// The root hash of a file of `file_bytes` bytes, which is longer than a chunk. Uses the chaining values of the subtrees that `node`
/// knows. `None` if `zeros` asked to stop.
pub(super) fn root(
    file_bytes: u64,
    node: &dyn Fn(u64, u64) -> Node,
    zeros: &Zeros<'_>,
) -> Option<[u8; 32]> {
    let left = left_subtree_len(file_bytes);
    let first = subtree(0, left, node, zeros)?;
    let second = subtree(left, file_bytes - left, node, zeros)?;
    Some(*merge_subtrees_root(&first, &second, Mode::Hash).as_bytes())
}

/// State of knowledge about one subtree.
pub(super) enum Node {
    /// The chaining value of the subtree.
    Known(ChainingValue),
    /// The subtree is all zeros.
    Zeros,
    /// The value follows from the two halves.
    Split,
}

/// The chaining value of the subtree of `bytes` bytes at `offset`. Recursion halves `bytes` each time, so it is at most 54 deep.
pub(super) fn subtree(
    offset: u64,
    bytes: u64,
    node: &dyn Fn(u64, u64) -> Node,
    zeros: &Zeros<'_>,
) -> Option<ChainingValue> {
    match node(offset, bytes) {
        Node::Known(value) => Some(value),
        Node::Split if bytes > CHUNK_LEN as u64 => {
            let left = left_subtree_len(bytes);
            let first = subtree(offset, left, node, zeros)?;
            let second = subtree(offset + left, bytes - left, node, zeros)?;
            Some(join(&first, &second))
        }
        Node::Zeros if bytes > zeros::UNIT_BYTES => {
            zeros::make(offset, bytes, zeros)?;
            let left = left_subtree_len(bytes);
            let known = |_, _| Node::Zeros;
            let first = subtree(offset, left, &known, zeros)?;
            let second = subtree(offset + left, bytes - left, &known, zeros)?;
            Some(join(&first, &second))
        }
        Node::Zeros if bytes == zeros::UNIT_BYTES => zeros::unit(offset, zeros),
        // A chunk is not split: the caller has checked that its parts are subtrees.
        Node::Zeros | Node::Split => {
            let mut run = Run::inner(offset);
            run.zeros_unless(bytes, zeros)?;
            Some(run.finish())
        }
    }
}

/// Zeros between two checks for a stop: a few hundredths of a second.
const STOP_EVERY_BYTES: u64 = 256 << 20;

/// Separates slices that are no subtree from everything else that is hashed.
const OUTSIDE_THE_TREE: &str = "godwit 2026 slice that is no subtree";

/// Enough chunks for the widest vector units (16 at once), several times over.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
