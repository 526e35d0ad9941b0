//! Owns where the manifest of a job lies, here or at another node of the cluster, and which jobs have one.
//! Writes none: `run` does.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_api::ask::{Answer, ManifestAfter, ManifestChunk, Question};
use godwit_api::event::Summary;
use godwit_api::failure::FailureCode;
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::NewJob;
use godwit_state::{Job, Reader};

use crate::asking::{Asking, past};
use crate::basis::ends::is_third_party;
use crate::basis::error::JobsError;
use crate::basis::spec;

/// Stands for the file in a summary.
const SHOWN: &str = "manifest";

/// Settings that are about the manifest and make no sense without one.
const ABOUT: [&str; 2] = ["sign", "manifest-sorted"];

/// Checks the manifest fields of a job.
pub(crate) fn check(new: &NewJob) -> Result<(), JobsError> {
    let invalid = |detail: String| Err(JobsError::invalid(FailureCode::Invalid, detail));
    if new.manifest && new.kind == JobKind::Verify {
        return invalid("manifest: a verification reads a manifest and writes none".to_owned());
    }
    let about = ABOUT.iter().find(|name| new.settings.contains_key(**name));
    match about {
        Some(name) if !new.manifest => invalid(format!(
            "settings: {name} needs a manifest, and the job writes no manifest; add manifest (godwit job submit --manifest)"
        )),
        _ => Ok(()),
    }
}

/// The file for the manifest of a job of this node.
pub(crate) fn file(directory: &Path, job: &Job) -> PathBuf {
    // Where it cannot be made, the transfer fails with the reason.
    let _ = godwit_history::make_directory(directory, &job.id);
    godwit_history::manifest_path(directory, &job.id)
}

/// A manifest that is read from its beginning to its end, from this node or from another one of the cluster.
pub struct Manifest {
    bytes: u64,
    from: From,
}

enum From {
    Here(File),
    There(Box<There>),
}

struct There {
    asking: Arc<Asking>,
    node: String,
    job: String,
    of: String,
    /// Bytes that were asked for so far.
    offset: u64,
    /// Bytes that came with the length.
    first: Option<Vec<u8>>,
}

impl Manifest {
    /// Its length.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next bytes; none at the end. Blocks.
    ///
    /// # Errors
    /// The file cannot be read, or the other node is lost or has another manifest of the job by now.
    pub fn chunk(&mut self) -> io::Result<Vec<u8>> {
        match &mut self.from {
            From::Here(file) => {
                let mut chunk = Vec::new();
                file.take(CHUNK_BYTES).read_to_end(&mut chunk)?;
                Ok(chunk)
            }
            From::There(there) => {
                if let Some(first) = there.first.take() {
                    return Ok(first);
                }
                if there.offset >= self.bytes {
                    return Ok(Vec::new());
                }
                let chunk = ask(
                    &there.asking,
                    &there.node,
                    &there.job,
                    there.offset,
                    Some(&there.of),
                );
                let chunk = chunk.map_err(io::Error::other)?;
                if chunk.bytes.0.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                there.offset += chunk.bytes.0.len() as u64;
                Ok(chunk.bytes.0)
            }
        }
    }
}

/// Bytes that are read at once here.
const CHUNK_BYTES: u64 = 256 << 10;

/// Bytes of one answer to another node: as JSON they take six times as many at worst, and a document holds 1 MiB.
const ANSWER_BYTES: u64 = 128 << 10;

/// Opens the manifest of a job. The manifest is that of the last attempt that wrote one, at any node.
pub(crate) fn open(asking: &Arc<Asking>, id: &str) -> Result<Manifest, JobsError> {
    let job = check_written(&asking.this.reader(), id)?;
    let mut runners = past::runners(&asking.this.reader(), id)?;
    if let Some(node) = job.summary.as_deref().and_then(holder) {
        runners.retain(|(runner, _)| *runner != node);
        runners.insert(0, (node, job.attempts));
    }
    if runners.is_empty() {
        runners.push((asking.this.name.clone(), 0));
    }
    for (node, attempt) in runners {
        if node == asking.this.name {
            if let Some(file) = godwit_history::open_manifest(&asking.this.directory, id)? {
                return Ok(Manifest {
                    bytes: length(&asking.this.directory, id, &file)?,
                    from: From::Here(file),
                });
            }
            continue;
        }
        let first = ask(asking, &node, id, 0, None).map_err(|why| {
            JobsError::Elsewhere(format!(
                "the manifest of job {id} is at {node}, if its attempt {attempt} wrote one, and cannot be read now: {why}"
            ))
        })?;
        if !first.of.is_empty() {
            return Ok(Manifest {
                bytes: first.total,
                from: From::There(Box::new(There {
                    asking: Arc::clone(asking),
                    node,
                    job: id.to_owned(),
                    of: first.of,
                    offset: first.bytes.0.len() as u64,
                    first: Some(first.bytes.0),
                })),
            });
        }
    }
    Err(JobsError::NoManifest(format!(
        "job {id} has no manifest yet: the manifest is written when an attempt has seen all entries; the job is {}",
        job.state
    )))
}

fn ask(
    asking: &Asking,
    node: &str,
    job: &str,
    offset: u64,
    of: Option<&str>,
) -> Result<ManifestChunk, String> {
    let question = Question::Manifest(ManifestAfter {
        job: job.to_owned(),
        offset,
        of: of.map(str::to_owned),
    });
    match past::ask_node(asking, node, &question)? {
        Answer::Manifest(chunk) => Ok(chunk),
        _ => Err(format!(
            "{node} answered a different question; update that node"
        )),
    }
}

/// A part of the manifest that this node keeps, for another node of the cluster; without a name where there is none.
pub(crate) fn chunk(directory: &Path, wish: &ManifestAfter) -> Result<ManifestChunk, JobsError> {
    let Some(file) = godwit_history::open_manifest(directory, &wish.job)? else {
        return Ok(ManifestChunk::default());
    };
    let unreadable = |source| JobsError::File {
        path: godwit_history::manifest_path(directory, &wish.job),
        source,
    };
    let meta = file.metadata().map_err(unreadable)?;
    let of = format!("{}-{}-{}", meta.ino(), meta.mtime(), meta.mtime_nsec());
    if wish.of.as_ref().is_some_and(|before| *before != of) {
        return Err(JobsError::Elsewhere(format!(
            "a later attempt of job {} wrote another manifest meanwhile; read it again",
            wish.job
        )));
    }
    let mut bytes = vec![0; usize::try_from(ANSWER_BYTES).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        let at = wish.offset.saturating_add(filled as u64);
        match file.read_at(&mut bytes[filled..], at).map_err(unreadable)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(ManifestChunk {
        of,
        total: meta.len(),
        bytes: Text(bytes),
    })
}

fn length(directory: &Path, id: &str, file: &File) -> Result<u64, JobsError> {
    let meta = file.metadata().map_err(|source| JobsError::File {
        path: godwit_history::manifest_path(directory, id),
        source,
    })?;
    Ok(meta.len())
}

/// The job, if it writes a manifest at a node of this cluster.
fn check_written(reader: &Reader, id: &str) -> Result<Job, JobsError> {
    let none = |detail: String| Err(JobsError::NoManifest(detail));
    let (Some(job), Some(text)) = (reader.job(id)?, reader.job_spec(id)?) else {
        return Err(JobsError::NoJob(id.to_owned()));
    };
    let new = spec::parse(&text)?;
    if !new.manifest && new.remove_source_after.is_none() {
        return none(format!(
            "job {id} writes no manifest; submit one that does with: godwit job submit --manifest"
        ));
    }
    if is_third_party(&job) {
        return none(format!(
            "neither end of job {id} is at this node, so the site that ran the job keeps the manifest; the job's log names the site, the report has the digest"
        ));
    }
    Ok(job)
}

/// Takes the path of the file out of a summary that is kept: only the node needs that path.
pub(crate) fn hide_path(summary: &mut Summary) {
    if let Summary::Transfer(transfer) = summary
        && let Some(manifest) = &mut transfer.manifest
        && manifest.path.first() == Some(&b'/')
    {
        manifest.path = SHOWN.as_bytes().to_vec();
    }
}

/// The node that wrote the manifest of a divided job, by the summary of the job.
fn holder(summary: &str) -> Option<String> {
    let summary = serde_json::from_str(summary).ok()?;
    let Summary::Transfer(summary) = summary else {
        return None;
    };
    let path = String::from_utf8(summary.manifest?.path).ok()?;
    let (node, _) = path.rsplit_once(':')?;
    Some(node.to_owned())
}
