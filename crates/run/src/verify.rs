//! Runs one verification: a copy checked by a manifest, here or on another machine. Does not read
//! contents; the engine does.

mod findings;
mod history;
mod local;
mod manifest;
mod remote;

use std::io::{BufReader, Read};
use std::sync::Arc;
use std::time::Instant;

use godwit_api::endpoint::Endpoint;
use godwit_api::event::{EventSink, Summary, Verdict};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::JobSpec;
use godwit_api::settings::VerifySettings;
use godwit_engine::limits;
use godwit_net::IdentityId;
use godwit_proto::Record;
use godwit_store::manifest::{EntryType, ManifestReader, Trailer};
use godwit_tree::OwnFiles;

use crate::control::Control;
use crate::env::Env;
use crate::local::Access;
use crate::reports::{check_signature, listing};
use findings::{Findings, Totals, Whole};
pub use local::root_of;
pub(crate) use local::threads;
use manifest::ManifestFile;

/// Entries checked in one batch.
const BATCH_RECORDS: usize = 256;

/// A complete manifest, which is read again entry by entry.
pub(crate) struct Checklist {
    path: String,
    reader: ManifestReader<BufReader<Box<dyn Read + Send>>>,
    trailer: Trailer,
    /// Entries that are files.
    files: u64,
    entries: u64,
    /// The manifest itself, which is not an extra entry of the copy.
    own: Arc<OwnFiles>,
    /// The directory of the manifest, by device and inode.
    directory: Option<(u64, u64)>,
    /// A record that was read but did not fit into the last batch.
    left: Option<Record>,
}

impl Checklist {
    /// Reads the manifest to its end, so that a truncated or changed manifest is refused before any
    /// check.
    fn open(manifest: &ManifestFile, signed_by: Option<&IdentityId>) -> Result<Self, Failure> {
        let shown = manifest.shown.clone();
        let refused = |what: String| {
            Failure::new(FailureCode::ManifestRefused, format!("{shown}: {what}")).about(&shown)
        };
        let open = || -> Result<_, Failure> {
            let file = manifest
                .open()
                .map_err(|error| refused(error.to_string()))?;
            ManifestReader::new(BufReader::with_capacity(1 << 20, file))
                .map_err(|error| refused(error.to_string()))
        };
        let mut whole = open()?;
        let mut files = 0;
        while let Some(entry) = whole
            .next_entry()
            .map_err(|error| refused(error.to_string()))?
        {
            files += u64::from(entry.kind == EntryType::File);
        }
        let trailer = whole
            .trailer()
            .cloned()
            .ok_or_else(|| refused("the manifest has no end".to_owned()))?;
        check_signature(&trailer, signed_by).map_err(refused)?;
        Ok(Self {
            own: Arc::new(OwnFiles::new(manifest.key())),
            directory: manifest.directory_key(),
            reader: open()?,
            path: shown,
            trailer,
            files,
            entries: 0,
            left: None,
        })
    }

    fn refused(&self, what: impl std::fmt::Display) -> Failure {
        let message = format!("{}: {what}", self.path);
        Failure::new(FailureCode::ManifestRefused, message).about(&self.path)
    }

    /// The kind of digest in the manifest.
    pub(crate) fn digest_kind(&self) -> godwit_store::digest::DigestKind {
        self.reader.digest_kind()
    }

    /// The next entries; `None` after the last.
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Failure> {
        let mut batch = Vec::with_capacity(BATCH_RECORDS);
        let mut section = 0;
        loop {
            let record = match self.left.take() {
                Some(record) => record,
                None => match self.next_record()? {
                    Some(record) => record,
                    None => break,
                },
            };
            section += 128 + record.path.len() + record.target.len();
            if section > limits::RECORD_SECTION_BYTES && !batch.is_empty() {
                self.left = Some(record);
                break;
            }
            batch.push(record);
            if batch.len() == BATCH_RECORDS {
                break;
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    fn next_record(&mut self) -> Result<Option<Record>, Failure> {
        // The manifest was complete before. A change since then is detected here.
        let entry = self
            .reader
            .next_entry()
            .map_err(|error| self.refused(error))?;
        match entry {
            Some(entry) => {
                self.entries += 1;
                Ok(Some(listing::record_of(&entry, self.entries)))
            }
            None if self.reader.trailer() == Some(&self.trailer) => Ok(None),
            None => Err(self.refused("it was replaced meanwhile")),
        }
    }
}

/// Runs one verification to its end.
pub(crate) fn run(
    spec: &JobSpec,
    env: &Env,
    events: &Arc<dyn EventSink>,
    control: &Control,
) -> Result<Summary, Failure> {
    check(spec, env, events, control).inspect_err(|failure| {
        if !failure.code.is_interruption() {
            events.error(failure);
        }
    })
}

fn check(
    spec: &JobSpec,
    env: &Env,
    events: &Arc<dyn EventSink>,
    control: &Control,
) -> Result<Summary, Failure> {
    let settings = spec.verify_settings().map_err(Failure::usage)?;
    let [Endpoint::Local(manifest)] = &spec.sources[..] else {
        return Err(Failure::usage(
            "a verification has one source, the manifest",
        ));
    };
    let manifest = match &spec.imposed.manifest {
        // A file of the node, which no user names.
        Some(own) => ManifestFile::of_node(own),
        None if history::is_one(env, manifest) => {
            return history::check(spec, &settings, manifest, (env, events, control));
        }
        None => ManifestFile::find(env, manifest)?,
    };
    let endpoint = spec.destination.clone();
    let signed_by = settings
        .signed_by
        .as_ref()
        .map(|text| text.to_string_lossy().parse::<IdentityId>())
        .transpose()
        .map_err(|error| Failure::usage(format!("--signed-by: {error}")))?;
    let checklist = Checklist::open(&manifest, signed_by.as_ref())?;
    let Trailer {
        entries: expected,
        failed: failed_before,
        ..
    } = checklist.trailer;
    let whole = Whole {
        bytes: checklist.trailer.bytes,
        files: checklist.files,
    };
    let findings = Findings::new(Arc::clone(events), env.started, whole);
    if failed_before > 0 {
        events.note(&format!(
            "{}: {failed_before} entries failed when this manifest was written, and the manifest does not list them",
            manifest.shown
        ));
    }
    let asked = CheckInputs {
        settings: &settings,
        env,
        findings: &findings,
        control,
        durable: spec.imposed.durable,
    };
    let finished = match &endpoint {
        Endpoint::Local(path) => {
            let root = match &env.exports {
                Some(exports) => {
                    let found = exports.source(path, Access::default());
                    let unreadable =
                        |error| Failure::new(FailureCode::NoSource, error).about(path.display());
                    found.map_err(unreadable)?.root
                }
                None => root_of(&env.resolve(path), &env.home)?,
            };
            local::check(&asked, checklist, root, path)?
        }
        Endpoint::Remote(remote) => remote::check(&asked, checklist, remote)?,
        Endpoint::Ssh(place) => remote::check_by_ssh(&asked, checklist, place)?,
        other => {
            return Err(Failure::usage(format!(
                "{other} cannot be verified; name a path, HOST:PATH or godwit://HOST/EXPORT/PATH"
            )));
        }
    };
    conclude(&findings, finished, expected)
}

/// The summary of a check that has ended.
fn conclude(findings: &Findings, finished: bool, expected: u64) -> Result<Summary, Failure> {
    if !finished {
        findings.summary(Verdict::Interrupted);
        return Err(Failure::new(
            FailureCode::Cancelled,
            "interrupted by the user",
        ));
    }
    let Totals {
        entries,
        different,
        extra,
        ..
    } = findings.totals();
    if entries != expected {
        // An entry without an answer must never count as equal.
        return Err(Failure::new(
            FailureCode::VerificationIncomplete,
            format!(
                "only {entries} of {expected} entries were checked, so the result is unknown; check the copy again"
            ),
        ));
    }
    let same = different == 0 && extra == 0;
    Ok(Summary::Verify(findings.summary(if same {
        Verdict::Same
    } else {
        Verdict::Different
    })))
}

/// The inputs of all kinds of checks.
struct CheckInputs<'a> {
    settings: &'a VerifySettings,
    env: &'a Env,
    findings: &'a Findings,
    control: &'a Control,
    /// Whether what is as expected is to be durable, too.
    durable: bool,
}

impl CheckInputs<'_> {
    /// Reports progress; returns false once the verification must stop.
    fn goes_on(&self) -> bool {
        self.findings.progress(Instant::now());
        !self.control.is_cancelled()
    }
}
