//! Owns which copies count at the end of a job that removes files of its source: their manifests, and whether a proof is recent enough.
//! Removes nothing.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use godwit_api::event::{EventSink as _, Summary};
use godwit_api::rest::{JobState, Place};
use godwit_run::removal::Proof;
use godwit_state::{Families, Finish, Job, Outcome, Timestamp};

use super::{Checks, Removal};
use crate::asking::manifest;
use crate::basis::stored::Stored;
use crate::basis::words::clip;

/// How long the proof of another copy counts, in milliseconds. An older copy is read once more before files go. Neither the own proof nor the
/// removal has a bound: either takes as long as the reading of a copy or of the source. `docs/several-sites.md` says so.
const PROVEN_FOR: u64 = 10 * 60 * 1_000;

/// The place of a copy, and the job that wrote it.
pub(super) struct CopyAt {
    pub(super) job: Job,
    pub(super) stored: Stored,
    pub(super) place: Place,
}

/// The copies that count, and the trouble with the first one that does not.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) proofs: Vec<Proof>,
    pub(super) places: Vec<CopyAt>,
    pub(super) trouble: Option<String>,
}

impl Removal<'_> {
    /// The manifests of all destinations whose copies are proven, and the places of the copies.
    pub(super) fn proofs(&self, finish: &Finish) -> Result<Counted, String> {
        let directory = &self.0.asking.this.directory;
        let reader = self.0.asking.this.reader();
        let mut counted = Counted::default();
        let mut add = |job: &Job, file: File, digest: &str| -> Result<(), String> {
            let stored = Stored::of(&reader, &job.id).map_err(|error| error.to_string())?;
            let place = self.copy_of(&job.id, &stored)?;
            counted.proofs.push(Proof::of(file, digest)?);
            let job = job.clone();
            counted.places.push(CopyAt { job, stored, place });
            Ok(())
        };
        let is_proven = finish.outcome != Outcome::Failed;
        if let Some(digest) = digest_in(&finish.summary).filter(|_| is_proven) {
            let own = godwit_history::open_manifest(directory, &self.0.job.id);
            let own = own.map_err(|error| error.to_string())?;
            let own = own.ok_or_else(|| "the manifest of the job is gone".to_owned())?;
            add(self.0.job, own, &digest)?;
        }
        let parent = Families(&reader).parent(&self.0.job.id);
        let Some(parent) = parent.map_err(|error| error.to_string())? else {
            return Ok(counted);
        };
        let children = Families(&reader).children(&parent);
        let own = godwit_history::manifest_path(directory, &self.0.job.id);
        let path = own.with_extension("other");
        let mut trouble = None;
        for child in children.map_err(|error| error.to_string())? {
            let is_other = child.id != self.0.job.id;
            let is_proven = matches!(child.state, JobState::Complete | JobState::Partial);
            let digest = child.summary.as_deref().and_then(digest_in);
            let Some(digest) = digest.filter(|_| is_other && is_proven) else {
                continue;
            };
            let named = |why: String| format!("the copy of job {}: {why}", child.id);
            // Its copy is read and looked at in the name of the owner, who may have lost the right to it.
            if let Err(why) = self.check_owner([&child]) {
                let why = named(why);
                self.0.events.note(&clip(&why));
                trouble.get_or_insert(why);
                continue;
            }
            let file = self.fetch(&child.id, &path);
            let again = match file.is_err() || self.is_recent(&child) {
                true => Ok(()),
                false => self.prove_again(&child, &path),
            };
            let _ = fs::remove_file(&path);
            let file = file.map_err(|error| named(error.to_string()))?;
            match again {
                Ok(()) => add(&child, file, &digest).map_err(named)?,
                Err(why) => {
                    let why = named(why);
                    self.0.events.note(&clip(&why));
                    trouble.get_or_insert(why);
                }
            }
        }
        counted.trouble = trouble;
        Ok(counted)
    }

    /// Whether a destination ended so lately that its proof still counts.
    fn is_recent(&self, child: &Job) -> bool {
        let now = self.0.asking.this.now();
        let is_recent = |ended: Timestamp| ended <= now && now <= ended.after(PROVEN_FOR);
        child.ended.is_some_and(is_recent)
    }

    /// Has the site of another destination read its copy once more. The manifest at this path is that of its transfer.
    fn prove_again(&self, child: &Job, manifest: &Path) -> Result<(), String> {
        let checks = Checks {
            job: child,
            ..*self.0
        };
        let reader = self.0.asking.this.reader();
        let stored = Stored::of(&reader, &child.id).map_err(|error| error.to_string())?;
        let place = self.copy_of(&child.id, &stored)?;
        let found = Removal(&checks).first_difference(&stored, &place, manifest);
        match found.map_err(|failure| failure.message)? {
            None => Ok(()),
            Some(first) => Err(format!("it is not as it was: {first}")),
        }
    }

    /// Writes the manifest of another destination, wherever it lies in the cluster, to this path.
    fn fetch(&self, job: &str, path: &Path) -> io::Result<File> {
        let mut manifest = manifest::open(self.0.asking, job)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        loop {
            let chunk = manifest.chunk()?;
            if chunk.is_empty() {
                return Ok(file);
            }
            file.write_all(&chunk)?;
            if !self.goes_on() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }
}

/// The digest of the manifest that the summary of a transfer names.
pub(super) fn digest_in(summary: &str) -> Option<String> {
    match serde_json::from_str(summary).ok()? {
        Summary::Transfer(done) => Some(done.manifest?.digest),
        Summary::Verify(_) => None,
    }
}
