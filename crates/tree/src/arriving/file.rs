//! Owns one file that is being written: on flash, or at slow storage after flash could not take it. Places no file.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use godwit_buffer::service::Arriving;
use godwit_engine::lock;
use godwit_store::{
    Create, FinalMeta, Lost, ReadFile, RelPath, Storage, StoreError, StoreErrorKind, TempName,
    WriteFile,
};

/// A file that is being written.
pub(super) struct ArrivingFile {
    storage: Arc<dyn Storage>,
    path: RelPath,
    temp: TempName,
    bytes: u64,
    medium: RwLock<Medium>,
    meta: Mutex<Option<FinalMeta>>,
}

/// The present place of the contents.
pub(super) enum Medium {
    Flash(Arriving),
    Slow(Box<dyn WriteFile>),
    /// Contents were lost between both.
    Broken,
}

impl ArrivingFile {
    pub(super) fn new(
        storage: &Arc<dyn Storage>,
        path: &RelPath,
        temp: &TempName,
        bytes: u64,
        arriving: Arriving,
    ) -> Arc<Self> {
        Arc::new(Self {
            storage: Arc::clone(storage),
            path: path.clone(),
            temp: *temp,
            bytes,
            medium: RwLock::new(Medium::Flash(arriving)),
            meta: Mutex::default(),
        })
    }

    pub(super) fn medium(&self) -> RwLockReadGuard<'_, Medium> {
        self.medium.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The metadata of a finished file.
    pub(super) fn meta(&self) -> Option<FinalMeta> {
        lock(&self.meta).clone()
    }

    pub(super) fn is_slow(&self) -> bool {
        matches!(*self.medium(), Medium::Slow(_))
    }

    /// Writes the file to slow storage from now on, with all that flash has taken of it. A finished file is finished there, too.
    pub(super) fn divert(&self) -> Result<(), StoreError> {
        let mut medium = self.medium.write().unwrap_or_else(PoisonError::into_inner);
        self.divert_held(&mut medium)?;
        let Some(meta) = self.meta() else {
            return Ok(());
        };
        match &*medium {
            Medium::Slow(file) => file.finish(self.bytes, &meta).map(drop),
            Medium::Flash(_) | Medium::Broken => Err(self.broken()),
        }
    }

    fn divert_held(&self, medium: &mut RwLockWriteGuard<'_, Medium>) -> Result<(), StoreError> {
        let arriving = match std::mem::replace(&mut **medium, Medium::Broken) {
            Medium::Flash(arriving) => arriving,
            Medium::Slow(file) => {
                **medium = Medium::Slow(file);
                return Ok(());
            }
            Medium::Broken => return Err(self.broken()),
        };
        let file = match self.create() {
            Ok(file) => file,
            Err(error) => {
                // Nothing is lost: the next call tries again.
                **medium = Medium::Flash(arriving);
                return Err(error);
            }
        };
        match arriving.copy(|offset, data| file.write_at(offset, data))? {
            true => {
                **medium = Medium::Slow(file);
                Ok(())
            }
            false => Err(self.broken()),
        }
    }

    /// Creates the file at slow storage. Its directory may be missing by now, because flash needed none. One that was closed meanwhile stays
    /// closed: only the transfer that sets its mode may open it.
    fn create(&self) -> Result<Box<dyn WriteFile>, StoreError> {
        let create = || {
            self.storage
                .create(&self.path, &self.temp, Create::Fresh, Some(self.bytes))
        };
        match create() {
            Err(error) if error.kind == StoreErrorKind::NotFound => {
                let parent = self.path.parent().unwrap_or_default();
                self.storage.make_directory(&parent, 0o755)?;
                create()
            }
            made => made,
        }
    }

    fn broken(&self) -> StoreError {
        StoreError::new(
            "write (the transfer buffer lost a part of it)",
            &self.path,
            StoreErrorKind::Io,
        )
    }

    /// Writes to the present medium, or to slow storage if flash cannot take the bytes.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        match &*self.medium() {
            Medium::Flash(arriving) if arriving.write(offset, data).is_ok() => return Ok(()),
            Medium::Slow(file) => return file.write_at(offset, data),
            Medium::Broken => return Err(self.broken()),
            Medium::Flash(_) => {}
        }
        let mut medium = self.medium.write().unwrap_or_else(PoisonError::into_inner);
        self.divert_held(&mut medium)?;
        match &*medium {
            Medium::Slow(file) => file.write_at(offset, data),
            Medium::Flash(_) | Medium::Broken => Err(self.broken()),
        }
    }

    /// Keeps the metadata for the end of the drain, or sets it at slow storage.
    pub(super) fn finish(&self, bytes: u64, meta: &FinalMeta) -> Result<Lost, StoreError> {
        let is_fit = |arriving: &Arriving| {
            // A file with holes, or whose metadata must be kept exactly, is judged by slow storage itself.
            bytes == self.bytes && !meta.strict && arriving.is_complete()
        };
        {
            let medium = self.medium();
            match &*medium {
                Medium::Flash(arriving) if is_fit(arriving) => {
                    *lock(&self.meta) = Some(meta.clone());
                    return Ok(Lost::NOTHING);
                }
                Medium::Slow(file) => return file.finish(bytes, meta),
                Medium::Broken => return Err(self.broken()),
                Medium::Flash(_) => {}
            }
        }
        let mut medium = self.medium.write().unwrap_or_else(PoisonError::into_inner);
        self.divert_held(&mut medium)?;
        match &*medium {
            Medium::Slow(file) => file.finish(bytes, meta),
            Medium::Flash(_) | Medium::Broken => Err(self.broken()),
        }
    }
}

/// An [`ArrivingFile`] in the hands of its writer.
pub(super) struct Handle(pub(super) Arc<ArrivingFile>);

impl WriteFile for Handle {
    fn preallocate(&self, range: Range<u64>) -> Result<(), StoreError> {
        match &*self.0.medium() {
            Medium::Slow(file) => file.preallocate(range),
            // The room on flash is reserved.
            Medium::Flash(_) | Medium::Broken => Ok(()),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.0.write(offset, data)
    }

    fn copy_from(&self, from: &dyn ReadFile, range: Range<u64>) -> Result<u64, StoreError> {
        match &*self.0.medium() {
            Medium::Slow(file) => file.copy_from(from, range),
            Medium::Flash(_) | Medium::Broken => Ok(0),
        }
    }

    fn write_out(&self, range: Range<u64>) {
        if let Medium::Slow(file) = &*self.0.medium() {
            file.write_out(range);
        }
    }

    /// Flash forgets a file that is not whole. Data from before the file went to slow storage has no records either.
    fn lasts(&self) -> bool {
        false
    }

    fn finish(&self, bytes: u64, meta: &FinalMeta) -> Result<Lost, StoreError> {
        self.0.finish(bytes, meta)
    }
}
