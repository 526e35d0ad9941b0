//! Decides which mount points and which lasting directories of a destination stay, and reports mounts whose contents go.
//! Deletes nothing.

use std::io;

use godwit_engine::Ending;
use godwit_proto::Notice;
use godwit_store::RelPath;

use super::{Deleter, Survey};
use crate::files::plan::announced::Extras;

impl Deleter<'_> {
    /// Whether the entry stays with all that is below it. The storage may also keep the directory alone.
    pub(super) fn keep_place(
        &self,
        survey: &mut Survey,
        base: &RelPath,
        path: &RelPath,
        is_mount: bool,
    ) -> io::Result<bool> {
        let config = &self.target.config;
        if config.storage.lasts(path) {
            self.keep(survey, base, path)?;
        }
        match config.select.keeps_to_one_file_system() {
            true => self.keep_mount(survey, base, path, is_mount),
            false => Ok(false),
        }
    }

    /// Whether the entry is a mount point, or below one, and must stay.
    fn keep_mount(
        &self,
        survey: &mut Survey,
        base: &RelPath,
        path: &RelPath,
        is_mount: bool,
    ) -> io::Result<bool> {
        if survey
            .mounts
            .iter()
            .any(|(_, mount)| mount != path && path.starts_with(mount))
        {
            return Ok(true);
        }
        if is_mount {
            self.keep(survey, base, path)?;
        }
        Ok(is_mount)
    }

    /// Reports the mounted file systems whose contents are deleted.
    pub(super) fn report_mounts(&self, survey: &Survey, extras: &Extras, ending: &mut Ending<'_>) {
        for (number, mount) in &survey.mounts {
            if extras.has(*number) {
                ending.notify(Notice::note(&format!(
                    "a file system is mounted {}, which the source does not have: its contents are deleted, and the mount point stays; --one-file-system keeps them",
                    self.open_or(&format!("at {mount}"), "at the destination")
                )));
            }
        }
    }
}
