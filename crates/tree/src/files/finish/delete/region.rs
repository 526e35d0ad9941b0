//! Surveys the part of the tree that a deletion covers: the whole tree, or the region that a closer finishes. Does not decide which
//! entries are removed.

use std::io;

use godwit_store::{Kind, RelPath, StoreError, SurveyItem};

use super::Deleter;
use crate::files::plan::announced::Key;
use crate::files::region::{Region, place};
use crate::files::target::{below, spill_error};

impl Deleter<'_> {
    /// Lists the entries that may have to be removed, a directory before its contents.
    pub(super) fn survey(
        &self,
        base: &RelPath,
        each: &mut dyn FnMut(SurveyItem) -> bool,
    ) -> Result<(), StoreError> {
        let storage = &self.target.config.storage;
        let Some((within, flat)) = self.target.region().and_then(Region::directories) else {
            return storage.survey(base, each);
        };
        let mut goes_on = true;
        let mut each = |item| {
            goes_on = goes_on && each(item);
            goes_on
        };
        for path in within {
            let Some(start) = place(base, path) else {
                continue;
            };
            // The source has this directory. Therefore temporary files in it are kept for the transfers that may resume with them.
            let key = Key::new(0, below(base, &start), true);
            self.agenda.announced.add(&[key]);
            match flat {
                true => self.survey_flat(base, &start, &mut each)?,
                false => storage.survey(&start, &mut each)?,
            }
        }
        Ok(())
    }

    /// Like a survey of the directory, but without the contents of directories that the source has too, because other closers
    /// handle those.
    fn survey_flat(
        &self,
        base: &RelPath,
        start: &RelPath,
        each: &mut dyn FnMut(SurveyItem) -> bool,
    ) -> Result<(), StoreError> {
        let storage = &self.target.config.storage;
        let (mut goes_on, mut failure) = (true, None);
        storage.names_in(start, &mut |name| {
            let Ok(path) = start.join(name) else {
                return;
            };
            if !goes_on || failure.is_some() {
                return;
            }
            let kind = match storage.stat(&path) {
                Ok(Some(there)) => there.kind,
                Ok(None) => return,
                Err(error) => {
                    goes_on = each(SurveyItem::Fault(error));
                    return;
                }
            };
            let is_mount = kind == Kind::Directory && storage.is_mount(&path);
            let enters = match kind {
                Kind::Directory => self.has_closer(below(base, &path)).map(|has| !has),
                _ => Ok(false),
            };
            let enters = match enters {
                Ok(enters) => enters,
                Err(error) => {
                    failure = Some(spill_error(&path, &error));
                    return;
                }
            };
            goes_on = each(SurveyItem::Entry {
                path: path.clone(),
                kind,
                is_mount,
            });
            if enters && goes_on {
                failure = storage.survey(&path, each).err();
            }
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Whether another closer handles the contents of this directory.
    fn has_closer(&self, below: &[u8]) -> io::Result<bool> {
        let spared = &self.agenda.spared;
        Ok(spared.has(below) || spared.is_left(below)?)
    }
}
