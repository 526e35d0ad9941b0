//! Owns data that is only in a writer's cache: contents, final metadata, names. Does not decide when this data is written back or lost.

use godwit_store::error::{StoreError, StoreErrorKind};
use godwit_store::meta::{FinalMeta, Meta};
use godwit_store::path::{RelPath, TempName};
use godwit_store::storage::{Create, Replace, Storage};
use std::collections::BTreeMap;
use std::ops::Range;

/// The data that a crash would lose.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Cached contents, by final path.
    files: BTreeMap<RelPath, Dirty>,
    /// Renames in directories that were not synced since.
    renames: BTreeMap<RelPath, (TempName, Replace)>,
}

/// Data that was written to one temporary file and not synced.
#[derive(Debug, Clone)]
pub(super) struct Dirty {
    temp: TempName,
    /// Whether the file already has its final name.
    named: bool,
    writes: Vec<(u64, Vec<u8>)>,
    finished: Option<(u64, FinalMeta)>,
    /// Beyond this offset the data below the cache is hidden: the file was once cut to this length.
    below_bytes: u64,
}

impl Dirty {
    fn new(temp: &TempName) -> Self {
        Self {
            temp: *temp,
            named: false,
            writes: Vec::new(),
            finished: None,
            below_bytes: u64::MAX,
        }
    }

    /// Cuts the file or extends it to `bytes`.
    fn finish(&mut self, bytes: u64, meta: &FinalMeta) {
        for (offset, data) in &mut self.writes {
            let left = bytes.saturating_sub(*offset).min(data.len() as u64);
            data.truncate(range(0, left).end);
        }
        self.below_bytes = self.below_bytes.min(bytes);
        self.finished = Some((bytes, meta.clone()));
    }

    /// The end of the last write.
    fn end(&self) -> u64 {
        let written = self.writes.iter().filter(|(_, data)| !data.is_empty());
        written
            .map(|(offset, data)| offset + data.len() as u64)
            .max()
            .unwrap_or(0)
    }

    /// The metadata of the file, given the metadata below the cache.
    pub(super) fn meta(&self, below: Meta) -> Meta {
        let end = self.end();
        match &self.finished {
            Some((bytes, last)) => Meta {
                bytes: (*bytes).max(end),
                mode: last.mode & 0o7777,
                mtime: last.mtime,
                ..below
            },
            None => Meta {
                bytes: below.bytes.max(end),
                ..below
            },
        }
    }

    /// Applies the cached changes to the data read below them at `offset`.
    pub(super) fn overlay(&self, offset: u64, buffer: &mut [u8]) {
        let seen = self
            .below_bytes
            .saturating_sub(offset)
            .min(buffer.len() as u64);
        let end = buffer.len() as u64;
        buffer[range(seen, end)].fill(0);
        for (start, data) in &self.writes {
            let from = offset.max(*start);
            let to = (offset + buffer.len() as u64).min(start + data.len() as u64);
            if from < to {
                let part = range(from - start, to - start);
                buffer[range(from - offset, to - offset)].copy_from_slice(&data[part]);
            }
        }
    }

    /// The next range of data, given the next range below the cache; coarser than a file system would report.
    pub(super) fn next_data(&self, offset: u64, below: Option<Range<u64>>) -> Option<Range<u64>> {
        let ours = self
            .writes
            .iter()
            .map(|(start, data)| *start..start + data.len() as u64);
        let below = below.map(|below| below.start..below.end.min(self.below_bytes));
        ours.chain(below)
            .map(|range| range.start.max(offset)..range.end)
            .filter(|range| !range.is_empty())
            .min_by_key(|range| (range.start, std::cmp::Reverse(range.end)))
    }

    fn write_back(self, inner: &dyn Storage, path: &RelPath) -> Result<(), StoreError> {
        match inner.open_temp(path, &self.temp) {
            // The file was removed meanwhile, so there is nothing to write back.
            Err(error) if error.kind == StoreErrorKind::NotFound => return Ok(()),
            there => drop(there?),
        }
        let file = inner.create(path, &self.temp, Create::Resume, None)?;
        if let Some((_, meta)) = &self.finished {
            let seen = inner
                .open_temp(path, &self.temp)?
                .meta()?
                .bytes
                .min(self.below_bytes);
            file.finish(seen, meta)?;
        }
        for (offset, data) in &self.writes {
            file.write_at(*offset, data)?;
        }
        match &self.finished {
            Some((bytes, meta)) => file.finish((*bytes).max(self.end()), meta).map(drop),
            None => Ok(()),
        }
    }

    /// Writes back a file that already has its final name, by means of a copy.
    fn write_back_named(self, inner: &dyn Storage, path: &RelPath) -> Result<(), StoreError> {
        let old = inner.open(path)?;
        let file = inner.create(path, &self.temp, Create::Fresh, None)?;
        let mut offset = 0;
        let mut buffer = vec![0; COPY_BYTES];
        while let Some(data) = old.next_data(offset)? {
            let room = COPY_BYTES as u64;
            let bytes = old.read_at(
                data.start,
                &mut buffer[range(0, room.min(data.end - data.start))],
            )?;
            file.write_at(data.start, &buffer[..bytes])?;
            offset = data.start + bytes as u64;
        }
        let temp = self.temp;
        self.write_back(inner, path)?;
        inner.commit(path, &temp, Replace::Atomically)
    }
}

/// Number of bytes that are copied at a time.
const COPY_BYTES: usize = 64 << 10;

#[expect(
    clippy::cast_possible_truncation,
    reason = "both ends lie within a buffer in memory"
)]
fn range(start: u64, end: u64) -> Range<usize> {
    start as usize..end as usize
}

impl Cache {
    /// Starts the temporary file of `path` again; continues it if `keep` is set.
    pub(super) fn begin(&mut self, path: &RelPath, temp: &TempName, keep: bool) {
        let dirty = self
            .files
            .entry(path.clone())
            .or_insert_with(|| Dirty::new(temp));
        if !keep {
            *dirty = Dirty::new(temp);
        }
    }

    /// Extends a shared temporary file of `path` to `bytes`, if the cached file is shorter.
    pub(super) fn lengthen(&mut self, path: &RelPath, how: Create, bytes: Option<u64>) {
        let dirty = self.files.get_mut(path).filter(|_| how == Create::Shared);
        let finished = dirty.and_then(|dirty| dirty.finished.as_mut());
        if let (Some((end, _)), Some(bytes)) = (finished, bytes) {
            *end = bytes.max(*end);
        }
    }

    /// The cached data of the temporary file of `path`.
    pub(super) fn unnamed(&self, path: &RelPath) -> Option<&Dirty> {
        self.files.get(path).filter(|dirty| !dirty.named)
    }

    /// The cached data of the file at `path`, and its temporary name while the rename is cached too.
    pub(super) fn named(&self, path: &RelPath) -> (Option<&Dirty>, Option<TempName>) {
        let temp = self.renames.get(path).map(|(temp, _)| *temp);
        (self.files.get(path).filter(|dirty| dirty.named), temp)
    }

    pub(super) fn write(&mut self, path: &RelPath, temp: &TempName, offset: u64, data: &[u8]) {
        self.files
            .entry(path.clone())
            .or_insert_with(|| Dirty::new(temp))
            .writes
            .push((offset, data.to_vec()));
    }

    pub(super) fn finish(&mut self, path: &RelPath, temp: &TempName, bytes: u64, meta: &FinalMeta) {
        self.files
            .entry(path.clone())
            .or_insert_with(|| Dirty::new(temp))
            .finish(bytes, meta);
    }

    /// Discards the data of the file at `path` that was not synced.
    pub(super) fn lose(&mut self, path: &RelPath) {
        self.files.remove(path);
    }

    /// Writes back the cached data of the file at `path`, as its sync does; its name does not change.
    pub(super) fn write_back(
        &mut self,
        inner: &dyn Storage,
        path: &RelPath,
    ) -> Result<(), StoreError> {
        match self.files.remove(path) {
            Some(dirty) if dirty.named && !self.renames.contains_key(path) => {
                dirty.write_back_named(inner, path)
            }
            Some(dirty) => dirty.write_back(inner, path),
            None => Ok(()),
        }
    }

    /// Renames the temporary file of `path` to its final name, in the cache only.
    pub(super) fn rename(&mut self, path: &RelPath, temp: &TempName, replace: Replace) {
        self.renames.insert(path.clone(), (*temp, replace));
        if let Some(dirty) = self.files.get_mut(path) {
            dirty.named = true;
        }
    }

    /// Writes back the contents and the name of `path`, if the file was renamed.
    pub(super) fn settle(&mut self, inner: &dyn Storage, path: &RelPath) -> Result<(), StoreError> {
        if self.files.get(path).is_some_and(|dirty| dirty.named) {
            self.write_back(inner, path)?;
        }
        self.settle_name(inner, path)
    }

    /// Writes back the name of `path` if names are not cached; contents that were not synced stay in the cache.
    pub(super) fn settle_if(
        &mut self,
        at_once: bool,
        inner: &dyn Storage,
        path: &RelPath,
    ) -> Result<(), StoreError> {
        match at_once {
            true => self.settle_name(inner, path),
            false => Ok(()),
        }
    }

    fn settle_name(&mut self, inner: &dyn Storage, path: &RelPath) -> Result<(), StoreError> {
        self.renames
            .remove(path)
            .map_or(Ok(()), |(temp, replace)| inner.commit(path, &temp, replace))
    }

    /// Writes back the names in a directory, as its sync does. Contents that were not synced stay in the cache: only the writer's order of
    /// operations makes contents durable before names.
    pub(super) fn settle_names(
        &mut self,
        inner: &dyn Storage,
        directory: &RelPath,
    ) -> Result<(), StoreError> {
        let within = |path: &&RelPath| path.parent().as_ref() == Some(directory);
        let paths: Vec<_> = self.renames.keys().filter(within).cloned().collect();
        paths
            .iter()
            .try_for_each(|path| self.settle_name(inner, path))
    }

    /// Writes back all data.
    pub(super) fn settle_all(&mut self, inner: &dyn Storage) -> Result<(), StoreError> {
        while let Some(path) = self.files.keys().next().cloned() {
            self.write_back(inner, &path)?;
        }
        while let Some(path) = self.renames.keys().next().cloned() {
            self.settle_name(inner, &path)?;
        }
        Ok(())
    }

    /// Discards all data, except the names that `survives` selects: those reach the disk without their contents.
    pub(super) fn crash(&mut self, inner: &dyn Storage, mut survives: impl FnMut() -> bool) {
        for (path, (temp, replace)) in std::mem::take(&mut self.renames) {
            if survives() {
                // A name that cannot be set in a crash is lost like the other names.
                let _ = inner.commit(&path, &temp, replace);
            }
        }
        self.files.clear();
    }
}
