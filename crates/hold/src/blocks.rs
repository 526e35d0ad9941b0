//! The kept blocks, and the order in which they may leave.
//! Decides nothing about readers.

use std::collections::{BTreeMap, BTreeSet};

use crate::destinations::Mask;

/// A kept block.
#[derive(Debug)]
pub(crate) struct Kept<K, B> {
    pub(crate) key: K,
    pub(crate) content: B,
    pub(crate) bytes: u64,
    /// Destinations that have not taken it.
    pub(crate) wanted: Mask,
    /// It was read again, so it is kept only while there is room.
    pub(crate) is_spare: bool,
    /// Askers that copy it now.
    pub(crate) copying: u32,
}

impl<K, B> Kept<K, B> {
    /// Whether no destination will take the block.
    const fn is_useless(&self) -> bool {
        self.wanted == 0 && !self.is_spare && self.copying == 0
    }
}

/// Kept blocks by their number, the oldest first.
#[derive(Debug)]
pub(crate) struct Blocks<K, B> {
    all: BTreeMap<u64, Kept<K, B>>,
    /// Blocks that no current destination wants.
    free: BTreeSet<u64>,
    /// Blocks that a current destination wants.
    wanted: BTreeSet<u64>,
}

impl<K, B> Default for Blocks<K, B> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            free: BTreeSet::new(),
            wanted: BTreeSet::new(),
        }
    }
}

/// A change of a block.
pub(crate) enum Changed<K, B> {
    /// The block has left.
    Left(Kept<K, B>),
    /// The block may leave now.
    Free,
    /// The block may leave when there is no patience left.
    Wanted,
    Nothing,
}

impl<K, B> Blocks<K, B> {
    pub(crate) fn get(&self, number: u64) -> Option<&Kept<K, B>> {
        self.all.get(&number)
    }

    pub(crate) fn insert(&mut self, number: u64, block: Kept<K, B>, current: Mask) {
        self.all.insert(number, block);
        // A block that no one will take is not inserted.
        let _ = self.sort(number, current);
    }

    /// Changes a block.
    pub(crate) fn change(
        &mut self,
        number: u64,
        current: Mask,
        change: impl FnOnce(&mut Kept<K, B>),
    ) -> Changed<K, B> {
        if let Some(block) = self.all.get_mut(&number) {
            change(block);
        }
        self.sort(number, current)
    }

    /// Changes all blocks; returns those that have left, and whether others may leave now.
    pub(crate) fn change_all(
        &mut self,
        current: Mask,
        change: impl Fn(&mut Kept<K, B>),
    ) -> (Vec<Kept<K, B>>, bool) {
        let numbers: Vec<u64> = self.all.keys().copied().collect();
        let (mut left, mut frees) = (Vec::new(), false);
        for number in numbers {
            match self.change(number, current, &change) {
                Changed::Left(block) => left.push(block),
                Changed::Free => frees = true,
                Changed::Wanted | Changed::Nothing => {}
            }
        }
        (left, frees)
    }

    /// Removes the oldest block that no current destination wants.
    pub(crate) fn take_free(&mut self) -> Option<Kept<K, B>> {
        let number = self.free.pop_first()?;
        self.all.remove(&number)
    }

    /// Removes the oldest block that is not copied now.
    pub(crate) fn take_oldest(&mut self) -> Option<Kept<K, B>> {
        let first = [self.free.first(), self.wanted.first()];
        let number = first.into_iter().flatten().min().copied()?;
        self.free.remove(&number);
        self.wanted.remove(&number);
        self.all.remove(&number)
    }

    /// The oldest block that a current destination wants.
    pub(crate) fn oldest_wanted(&self) -> Option<&Kept<K, B>> {
        self.all.get(self.wanted.first()?)
    }

    fn sort(&mut self, number: u64, current: Mask) -> Changed<K, B> {
        let Some(block) = self.all.get(&number) else {
            return Changed::Nothing;
        };
        if block.is_useless() {
            self.free.remove(&number);
            self.wanted.remove(&number);
            return match self.all.remove(&number) {
                Some(block) => Changed::Left(block),
                None => Changed::Nothing,
            };
        }
        if block.copying > 0 {
            self.free.remove(&number);
            self.wanted.remove(&number);
            return Changed::Nothing;
        }
        if block.wanted & current == 0 {
            self.wanted.remove(&number);
            if self.free.insert(number) {
                return Changed::Free;
            }
        } else {
            self.free.remove(&number);
            if self.wanted.insert(number) {
                return Changed::Wanted;
            }
        }
        Changed::Nothing
    }
}
