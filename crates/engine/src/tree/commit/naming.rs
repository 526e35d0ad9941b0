//! Checks a whole file and gives it its final name; what fails here fails for its entry alone.
//! Syncs nothing and journals nothing; the batch does, before and after.

use godwit_proto::{EntryId, FaultCode, Seq, Side};
use godwit_store::{RelPath, Replace, TempName, digest};

use super::{Committer, SmallFile};
use crate::tree::sink::{OpenFile, destination_fault};
use crate::{entry, lock};

impl Committer {
    /// Checks a whole file and gives it its size, mode and times, before the sync that makes them durable.
    pub(super) fn finalise(&self, seq: Seq, file: &OpenFile) -> bool {
        let progress = lock(&file.progress);
        let whole = progress.written.finish(file.bytes);
        let expected = progress.end.as_ref().map(|(digest, _)| *digest);
        drop(progress);
        if expected != Some(whole) {
            let message = "the digest of the whole file differs from the source's".to_owned();
            self.reject(
                seq,
                file.id,
                &file.path,
                &file.temp,
                FaultCode::DIGEST,
                message,
            );
            self.restart(file.key);
            return false;
        }
        if let Err(error) = file.file.finish(file.bytes, &file.meta) {
            let fault = entry::fault(file.id, Side::DESTINATION, &error);
            self.reject(
                seq,
                file.id,
                &file.path,
                &file.temp,
                fault.code,
                fault.message,
            );
            self.restart(file.key);
            return false;
        }
        true
    }

    pub(super) fn commit_small(&self, seq: Seq, file: &SmallFile) -> bool {
        if self.verify
            && !self.reads_back(
                seq,
                file.id,
                &file.path,
                &file.temp,
                file.bytes,
                file.digest,
            )
        {
            return false;
        }
        self.commit(seq, file.id, &file.path, &file.temp, file.replace)
    }

    pub(super) fn commit_large(&self, seq: Seq, file: &OpenFile) -> bool {
        let digest = lock(&file.progress).end.as_ref().map(|(digest, _)| *digest);
        if self.verify && !self.reads_back(seq, file.id, &file.path, &file.temp, file.bytes, digest)
        {
            self.restart(file.key);
            return false;
        }
        self.commit(seq, file.id, &file.path, &file.temp, file.replace)
    }

    fn commit(
        &self,
        seq: Seq,
        id: EntryId,
        path: &RelPath,
        temp: &TempName,
        replace: Replace,
    ) -> bool {
        match self.storage.commit(path, temp, replace) {
            Ok(()) => true,
            Err(error) => {
                let fault = entry::fault(id, Side::DESTINATION, &error);
                let message = if fault.code == FaultCode::COLLISION {
                    format!(
                        "{path}: another entry already has this name at the destination (letter case or normalisation of names, or two sources of one name); it was not overwritten"
                    )
                } else {
                    fault.message
                };
                self.reject(seq, id, path, temp, fault.code, message);
                false
            }
        }
    }

    fn reads_back(
        &self,
        seq: Seq,
        id: EntryId,
        path: &RelPath,
        temp: &TempName,
        bytes: u64,
        expected: Option<digest::Digest>,
    ) -> bool {
        let read = crate::tree::verify::digest_of(&*self.storage, path, temp, bytes, self.digest);
        let (code, message) = match read {
            Ok(digest) if Some(digest) == expected => return true,
            Ok(_) => (
                FaultCode::DIGEST,
                format!(
                    "{path}: what was read back from the destination storage differs from what was written"
                ),
            ),
            Err(error) => {
                let fault = entry::fault(id, Side::DESTINATION, &error);
                (fault.code, fault.message)
            }
        };
        self.reject(seq, id, path, temp, code, message);
        false
    }

    fn reject(
        &self,
        seq: Seq,
        id: EntryId,
        path: &RelPath,
        temp: &TempName,
        code: FaultCode,
        message: String,
    ) {
        // What cannot be removed now is swept by the next complete run.
        let _ = self.storage.discard(path, temp);
        self.acks.fault(
            seq,
            destination_fault(id, code, message),
            &self.display(path),
        );
    }

    fn display(&self, path: &RelPath) -> Vec<u8> {
        let mut name = self.display.clone();
        if !name.is_empty() && !name.ends_with(b"/") {
            name.push(b'/');
        }
        name.extend_from_slice(path.as_bytes());
        name
    }
}
