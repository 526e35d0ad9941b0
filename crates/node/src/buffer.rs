//! Joins the transfer buffer to the settings of a node: opens its volumes, makes missing directories, and shows it to the API.
//! Moves no data.

mod latest;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use godwit_api::job::Text;
use godwit_api::rest::{
    BufferChanged, BufferFile, BufferFiles, BufferStall, BufferView, BufferVolume, Timestamp,
};
use godwit_api::settings::{BufferSettings, ServeSettings};
use godwit_buffer::extent::{FileKey, Generation, Keep, SourceId, State};
use godwit_buffer::health::{Cause, Health};
use godwit_buffer::in_use::Places;
use godwit_buffer::ledger::FileView;
use godwit_buffer::make::{self, Kind, Request};
use godwit_buffer::service::{Buffer, FailedVolume, Log, open_volumes};
use godwit_buffer::waiting::{First, WaitingFile};
use godwit_data_port::Export;
use godwit_net::Identity;
use godwit_run::Process;
use godwit_sys::replaceable;
use godwit_web::BufferControl;
use rustix::process::geteuid;

use crate::cluster::Opened;
use crate::plan::Plan;
use crate::pool::{Pool, PoolConfig};
use godwit_api::failure::Failure;
use latest::Latest;

/// Directories of this size and more get extents of 4 MiB, smaller ones of 1 MiB.
const LARGE_BYTES: u64 = 1 << 30;

/// Opens the volumes of the settings; `None` if they name none. The node runs without a volume that cannot be opened, and says so.
pub(crate) fn open(
    settings: &BufferSettings,
    identity: &str,
    log: &Log,
) -> Result<Option<Buffer>, Failure> {
    if settings.paths.is_empty() && settings.devices.is_empty() {
        return Ok(None);
    }
    let each = settings.bytes / (settings.paths.len() as u64).max(1);
    let mut failed = Vec::new();
    let mut places = Vec::new();
    for path in &settings.paths {
        // Before it is made, too: it would be made where others lead.
        let made = check(path).and_then(|()| make_missing(path, each, identity));
        match made.and_then(|()| check(path)) {
            Ok(()) => places.push(path.clone()),
            Err(why) => failed.push(FailedVolume {
                path: path.clone(),
                why,
            }),
        }
    }
    for path in &settings.devices {
        match check(path) {
            Ok(()) => places.push(path.clone()),
            Err(why) => failed.push(FailedVolume {
                path: path.clone(),
                why,
            }),
        }
    }
    let (opened, unopened) = open_volumes(&places, identity);
    failed.extend(unopened);
    for one in &failed {
        log(&format!(
            "buffer {}: {}; the node runs without it",
            one.path.display(),
            one.why
        ));
    }
    let buffer = Buffer::start(opened, failed, Arc::clone(log)).map_err(Failure::local)?;
    let figures = buffer.figures();
    let slots: u64 = figures.slots.iter().sum();
    log(&format!(
        "buffer: {} volumes with {} extents of {} bytes, {} of them in use",
        figures.volumes.len(),
        slots,
        figures.extent_bytes,
        slots - figures.slots[State::Free as usize]
    ));
    Ok(Some(buffer))
}

/// The state that all transfers of this process share.
pub(crate) fn process(settings: &ServeSettings, buffer: Option<&Buffer>) -> Process {
    Process {
        buffer: buffer.cloned(),
        ..Process::with_pool(settings.memory_bytes)
    }
}

/// Joins the exports to the files that wait for them, and sets how those drain.
pub(crate) fn take_arrivals(settings: &BufferSettings, exports: &mut [Export], process: &Process) {
    let Some(buffer) = &process.buffer else {
        return;
    };
    let first = match settings.smallest_first {
        true => First::Smallest,
        false => First::Oldest,
    };
    buffer.arrivals().set(first, settings.drain_rate);
    for export in exports {
        let takes = settings.arrivals.contains(&export.name);
        export.arrive(process, takes);
    }
}

/// Makes a buffer in a directory that is new or empty.
fn make_missing(path: &Path, bytes: u64, identity: &str) -> Result<(), String> {
    let kind = make::kind(path).map_err(|error| error.to_string())?;
    if kind != Kind::Directory {
        return Err("this is not a directory; name a device in buffer-device".to_owned());
    }
    if path.join("log").exists() {
        return Ok(());
    }
    if bytes == 0 {
        return Err("there is no transfer buffer here yet, and buffer-bytes names no size".into());
    }
    let request = Request {
        path: path.to_owned(),
        bytes: Some(bytes),
        extent_bytes: match bytes >= LARGE_BYTES {
            true => 4 << 20,
            false => 1 << 20,
        },
        node: identity.to_owned(),
        force: None,
        id: {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&chance().to_le_bytes());
            id[8..].copy_from_slice(&chance().to_le_bytes());
            id
        },
        salt: chance(),
        now: now(),
    };
    let made = make::make(&request, &Places::default());
    made.map(drop).map_err(|refusal| refusal.to_string())
}

/// Refuses a place that other users of this machine can change or replace: the node would send what they put there as content
/// of files. If the place is missing, the directories above it are checked.
fn check(place: &Path) -> Result<(), String> {
    let (shown, own) = (place.display(), geteuid().as_raw());
    let meta = std::fs::metadata(place).ok();
    // Those who may use a device may do everything with the machine.
    if let Some(meta) = meta.filter(|meta| !meta.file_type().is_block_device()) {
        if meta.uid() != own && meta.uid() != 0 {
            let owner = meta.uid();
            return Err(format!(
                "it belongs to another user (uid {owner}), who could change what the node sends from it; take it over with: chown -R {own} {shown}"
            ));
        }
        if replaceable::is_open(place, &meta) {
            return Err(format!(
                "other users may write there (mode {:03o}), and could change what the node sends from it; forbid this with: chmod go-w {shown}",
                meta.mode() & 0o777
            ));
        }
    }
    let weakness = match replaceable::weakness(place, own) {
        // The existing part of the path was judged above.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        found => found.map_err(|error| error.to_string())?,
    };
    weakness.map_or(Ok(()), |weakness| Err(weakness.words(&shown.to_string())))
}

/// A number that no other volume has; it is no secret.
fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Whether a place, or the directory that it will lie in, is on the file system of another one.
pub(crate) fn is_on_file_system_of(place: &Path, other: &Path) -> bool {
    let there = place.ancestors().find_map(|at| std::fs::metadata(at).ok());
    let other = std::fs::metadata(other).ok();
    there
        .zip(other)
        .is_some_and(|(there, other)| there.dev() == other.dev())
}

/// Joins the buffer to those of the other nodes of the cluster.
pub(crate) fn pool(
    identity: &Identity,
    plan: &Plan,
    opened: &Opened,
    log: &Log,
) -> Result<Pool, Failure> {
    let exports = plan.exports.iter();
    let exports = exports.map(|export| (export.name.clone(), SourceId(export.origin())));
    let exports: Vec<(String, SourceId)> = exports.collect();
    let control = plan.buffer.as_ref().map(|buffer| {
        let control: Arc<dyn BufferControl> = Arc::new(Control {
            buffer: buffer.clone(),
            exports: exports.clone(),
            latest: Latest::default(),
        });
        control
    });
    let config = PoolConfig {
        identity: identity.id().to_string(),
        replica: Arc::clone(&opened.replica),
        sites: Arc::clone(&opened.sites),
        buffer: plan.buffer.clone(),
        control,
        exports,
        share: {
            let (exports, log) = (plan.exports.clone(), Arc::clone(log));
            Box::new(move |shared| {
                for export in &exports {
                    let is_shared = shared.contains(&export.name);
                    if export.share(is_shared) {
                        let name = &export.name;
                        log(&match is_shared {
                            true => format!(
                                "buffer: other nodes serve the export {name}, too, and do not see files that wait here: arriving files go there at once"
                            ),
                            false => {
                                format!("buffer: files for the export {name} arrive on flash again")
                            }
                        });
                    }
                }
            })
        },
        log: Arc::clone(log),
    };
    Pool::start(config).map_err(Failure::local)
}

struct Control {
    buffer: Buffer,
    /// The names of the exports, with the names of their files in the buffer.
    exports: Vec<(String, SourceId)>,
    latest: Latest,
}

impl Control {
    fn source(&self, export: &str) -> Option<SourceId> {
        let mut exports = self.exports.iter();
        exports
            .find(|(name, _)| name == export)
            .map(|(_, source)| *source)
    }

    /// The exports to which files drain, and where nothing moves.
    fn stalled(&self) -> Vec<BufferStall> {
        let stalls = self.buffer.arrivals().stalls();
        let named = stalls.iter().filter_map(|stall| {
            let mut exports = self.exports.iter();
            let (export, _) = exports.find(|(_, source)| *source == stall.source)?;
            Some(BufferStall {
                export: export.clone(),
                since: timestamp(stall.since)?,
                files: stall.files as u64,
            })
        });
        named.collect()
    }

    /// The figures of this moment. Walks over all slots.
    fn look(&self) -> BufferView {
        let figures = self.buffer.figures();
        let each = u64::from(figures.extent_bytes);
        let volumes = figures.volumes.iter().map(|one| {
            let (state, reason) = match one.health {
                Health::Well => ("well", None),
                Health::Slow => ("slow", Some("far slower than usual")),
                Health::Out(Cause::Errors) => ("out", Some("several operations failed")),
                Health::Out(Cause::Hung) => ("out", Some("an operation does not end")),
                Health::Out(Cause::Commit) => ("out", Some("its log could not be written")),
            };
            let all: u64 = one.slots.iter().map(|slots| u64::from(*slots)).sum();
            BufferVolume {
                path: Some(text(&one.path)),
                state: state.to_owned(),
                reason: reason.map(ToOwned::to_owned),
                bytes_total: all * each,
                bytes_free: u64::from(one.slots[State::Free as usize]) * each,
            }
        });
        let closed = self.buffer.failed().iter().map(|one| BufferVolume {
            path: Some(text(&one.path)),
            state: "closed".to_owned(),
            reason: Some(one.why.clone()),
            bytes_total: 0,
            bytes_free: 0,
        });
        let bytes =
            |states: &[State]| -> u64 { states.iter().map(|state| figures.bytes(*state)).sum() };
        BufferView {
            extent_bytes: each,
            bytes_total: bytes(&State::ALL),
            bytes_free: bytes(&[State::Free, State::Freeing]),
            bytes_filling: bytes(&[State::Filling, State::Written]),
            bytes_clean: bytes(&[State::Clean]),
            bytes_dirty: bytes(&[State::Dirty, State::Draining, State::Lost]),
            bytes_draining: bytes(&[State::Draining]),
            files_waiting: figures.waiting.files,
            files_troubled: figures.waiting.troubled,
            files_aside: figures.waiting.aside,
            bytes_kept: figures.kept_bytes,
            oldest: figures.oldest.and_then(timestamp),
            oldest_dirty: figures.oldest_dirty.and_then(timestamp),
            files: figures.files,
            files_pinned: figures.pinned_files,
            drained_bytes: figures.drained_bytes,
            hit_bytes: figures.hit_bytes,
            missed_bytes: figures.missed_bytes,
            pooled_bytes: figures.pooled_bytes,
            filled_bytes: figures.filled_bytes,
            passed_bytes: figures.passed_bytes,
            damaged_bytes: figures.damaged_bytes,
            volumes: volumes.chain(closed).collect(),
            stalled: self.stalled(),
            nodes: Vec::new(),
        }
    }
}

impl BufferControl for Control {
    fn view(&self) -> BufferView {
        self.latest.get(Instant::now(), || self.look())
    }

    fn files(&self, export: &str, below: &[u8], after: Option<&[u8]>, most: usize) -> BufferFiles {
        let Some(source) = self.source(export) else {
            return BufferFiles::default();
        };
        let after = after.map(|path| FileKey {
            source,
            path: path.to_vec(),
            generation: Generation {
                bytes: u64::MAX,
                stamp: u64::MAX,
            },
        });
        let (found, has_more) = self.buffer.files(source, below, after.as_ref(), most);
        let last = found.last().filter(|_| has_more);
        let next = last.map(|view| Text(view.file.path.clone()));
        BufferFiles {
            files: found.iter().map(file).collect(),
            next,
            silent: Vec::new(),
        }
    }

    fn keep(&self, export: &str, below: &[u8], time: Option<Duration>) -> BufferChanged {
        let keep = match time {
            None => Keep::Pinned,
            Some(Duration::ZERO) => Keep::No,
            Some(time) => Keep::Until(now().saturating_add(time)),
        };
        let source = self.source(export);
        let done = source.map(|source| self.buffer.keep(source, below, keep));
        self.latest.forget();
        let (files, refused) = done.unwrap_or_default();
        BufferChanged {
            files,
            refused,
            nodes: Vec::new(),
        }
    }

    fn waiting(
        &self,
        export: &str,
        below: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> BufferFiles {
        let Some(source) = self.source(export) else {
            return BufferFiles::default();
        };
        let found = self.buffer.arrivals().list(source, below, after, most);
        let last = found.last().filter(|_| found.len() == most);
        let next = last.map(|one| Text(one.file.path.clone()));
        BufferFiles {
            files: found.iter().map(waiting_file).collect(),
            next,
            silent: Vec::new(),
        }
    }

    fn retry(&self, export: &str, below: &[u8]) -> BufferChanged {
        let source = self.source(export);
        let files = source.map(|source| self.buffer.arrivals().retry(source, below));
        self.latest.forget();
        BufferChanged {
            files: files.unwrap_or(0),
            ..BufferChanged::default()
        }
    }

    fn give_up(&self, export: &str, below: &[u8]) -> BufferChanged {
        let source = self.source(export);
        let done = source.map(|source| self.buffer.arrivals().give_up(source, below));
        self.latest.forget();
        let (files, refused) = done.unwrap_or_default();
        BufferChanged {
            files,
            refused,
            ..BufferChanged::default()
        }
    }

    fn drop_files(&self, export: &str, below: &[u8]) -> BufferChanged {
        let source = self.source(export);
        let files = source.map(|source| self.buffer.drop_files(source, below));
        self.latest.forget();
        BufferChanged {
            files: files.unwrap_or(0),
            ..BufferChanged::default()
        }
    }
}

fn file(view: &FileView) -> BufferFile {
    let until = match view.keep {
        Keep::Until(until) => timestamp(until),
        Keep::No | Keep::Pinned => None,
    };
    BufferFile {
        path: Text(view.file.path.clone()),
        bytes: view.file.generation.bytes,
        bytes_held: view.bytes,
        dirty: view.is_dirty,
        pinned: view.keep == Keep::Pinned,
        until,
        waiting: None,
        since: None,
        tries: None,
        reason: None,
    }
}

fn waiting_file(one: &WaitingFile) -> BufferFile {
    let bytes = one.file.generation.bytes;
    BufferFile {
        path: Text(one.file.path.clone()),
        bytes,
        bytes_held: bytes,
        dirty: true,
        pinned: false,
        until: None,
        waiting: Some(one.phase.name().to_owned()),
        since: timestamp(one.since),
        tries: Some(one.tries),
        reason: one.reason.clone(),
    }
}

fn timestamp(since_epoch: Duration) -> Option<Timestamp> {
    let millis = i64::try_from(since_epoch.as_millis());
    millis.ok().map(Timestamp)
}

fn text(path: &Path) -> Text {
    Text(path.as_os_str().as_encoded_bytes().to_vec())
}
