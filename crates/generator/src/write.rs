//! Owns the writing of a data set: threads that write files in groups, and the times of directories at the end. Does not sync files,
//! because a data set can be made again.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, futimens, openat, utimensat};

use super::content::Content;
use super::layout::{Layout, root_time};
use super::spec::Spec;
use godwit_store::Timestamp;

/// Amounts that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Directories, without the directory of the data set.
    pub directories: u64,
    /// Bytes of content.
    pub bytes: u64,
}

/// Makes the data set in `directory`, which must be empty or missing, with up to `threads` threads. Calls `progress` with the totals so far
/// on the calling thread, after every few files or about ten MiB.
///
/// # Errors
/// The first error of the system, with its path. Files that were already made remain.
pub fn generate(
    spec: &Spec,
    directory: &Path,
    seed: u64,
    threads: usize,
    progress: &mut dyn FnMut(Totals),
) -> io::Result<Totals> {
    fs::create_dir_all(directory).map_err(at(directory))?;
    if fs::read_dir(directory)
        .map_err(at(directory))?
        .next()
        .is_some()
    {
        let error = io::Error::from(io::ErrorKind::DirectoryNotEmpty);
        return Err(at(directory)(error));
    }
    let layouts: Vec<Layout> = layouts(spec, seed).collect();
    let making = Making {
        root: directory,
        layouts: &layouts,
        next: Mutex::new(NextFile::default()),
        stop: AtomicBool::new(false),
    };
    let mut totals = making.run(threads.max(1), progress)?;
    making.finish_directories(seed)?;
    totals.directories += making
        .next
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .made;
    progress(totals);
    Ok(totals)
}

/// The amounts that [`generate`] makes with the same specification and seed. Writes nothing; takes some nanoseconds a file.
#[must_use]
pub fn foretell(spec: &Spec, seed: u64) -> Totals {
    let mut totals = Totals::default();
    for layout in layouts(spec, seed) {
        totals.files += layout.item.count;
        totals.bytes += (0..layout.item.count)
            .map(|file| layout.bytes(file))
            .sum::<u64>();
        let top = u64::from(!layout.is_nested());
        totals.directories += top + layout.rows() + layout.directories();
    }
    totals
}

fn layouts(spec: &Spec, seed: u64) -> impl Iterator<Item = Layout> {
    (0..).zip(&spec.items).map(move |(number, item)| Layout {
        seed,
        number,
        item: *item,
    })
}

struct Making<'a> {
    root: &'a Path,
    layouts: &'a [Layout],
    next: Mutex<NextFile>,
    stop: AtomicBool,
}

/// The next file to assign to a thread.
#[derive(Default)]
struct NextFile {
    item: usize,
    file: u64,
    /// Directories made so far.
    made: u64,
}

/// Several files of one directory, for one thread.
struct Run {
    layout: Layout,
    directory: PathBuf,
    first: u64,
    count: u64,
}

impl Making<'_> {
    fn run(&self, threads: usize, progress: &mut dyn FnMut(Totals)) -> io::Result<Totals> {
        thread::scope(|scope| {
            // Space for a few reports of each thread, so that no thread waits for a slow terminal.
            let (sender, receiver) = sync_channel(threads * 4);
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    let sender = sender.clone();
                    scope.spawn(move || {
                        let result = self.work(&sender);
                        if result.is_err() {
                            self.stop.store(true, Ordering::Relaxed);
                        }
                        result
                    })
                })
                .collect();
            drop(sender);
            let mut totals = Totals::default();
            for step in receiver {
                totals.files += step.files;
                totals.bytes += step.bytes;
                progress(totals);
            }
            for worker in workers {
                let panicked = |_| Err(io::Error::other("a thread of the generator panicked"));
                worker.join().unwrap_or_else(panicked)?;
            }
            Ok(totals)
        })
    }

    fn work(&self, report: &SyncSender<Totals>) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            let Some(run) = self.take()? else { break };
            self.make_files(&run, &mut buffer, report)?;
        }
        Ok(())
    }

    /// Assigns the next group of files, and makes its directory if the group is the first there.
    fn take(&self) -> io::Result<Option<Run>> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(layout) = self.layouts.get(next.item).copied() else {
            return Ok(None);
        };
        let first = next.file;
        let per_directory = layout.item.per_directory;
        let number = first / per_directory;
        let directory = self.root.join(layout.directory(number));
        if first == 0 {
            let top = self.root.join(layout.top());
            make_directory(&top)?;
            next.made += 1;
        }
        if first.is_multiple_of(per_directory)
            && let Some(row) = layout.row_begun_by(number)
        {
            make_directory(&self.root.join(layout.row(row)))?;
            next.made += 1;
        }
        if first.is_multiple_of(per_directory) && !(number == 0 && layout.is_nested()) {
            make_directory(&directory)?;
            next.made += 1;
        }
        let end = (first + RUN_FILES)
            .min((number + 1).saturating_mul(per_directory))
            .min(layout.item.count);
        next.file = end;
        if end == layout.item.count {
            next.item += 1;
            next.file = 0;
        }
        Ok(Some(Run {
            layout,
            directory,
            first,
            count: end - first,
        }))
    }

    fn make_files(
        &self,
        run: &Run,
        buffer: &mut [u8],
        report: &SyncSender<Totals>,
    ) -> io::Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
        let directory = rustix::fs::open(&run.directory, flags, Mode::empty())
            .map_err(|error| at(&run.directory)(error.into()))?;
        let mut done = Totals::default();
        for file in run.first..run.first + run.count {
            let name = run.layout.file_name(file);
            self.make_file(
                &directory, &name, run.layout, file, buffer, &mut done, report,
            )
            .map_err(|error| at(&run.directory.join(&name))(error))?;
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        // The receiver is dropped only if the caller's `progress` panicked.
        let _ = report.send(done);
        Ok(())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of a loop, with all that the loop has"
    )]
    fn make_file(
        &self,
        directory: &OwnedFd,
        name: &str,
        layout: Layout,
        file: u64,
        buffer: &mut [u8],
        done: &mut Totals,
        report: &SyncSender<Totals>,
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = layout.mode(file);
        let mut open = File::from(openat(directory, name, flags, Mode::from_raw_mode(mode))?);
        let content = Content::new(layout.seed, layout.number, file, layout.item.texture);
        let bytes = layout.bytes(file);
        let mut offset = 0;
        while offset < bytes && !self.stop.load(Ordering::Relaxed) {
            let step = (bytes - offset).min(buffer.len() as u64);
            let part = &mut buffer[..usize::try_from(step).unwrap_or(BUFFER_BYTES)];
            content.fill(offset, part);
            open.write_all(part)?;
            offset += step;
            done.bytes += step;
            if done.bytes >= REPORT_BYTES {
                let _ = report.send(std::mem::take(done));
            }
        }
        // The umask of the process may have removed permissions.
        open.set_permissions(Permissions::from_mode(mode))?;
        futimens(&open, &timestamps(layout.file_time(file)))?;
        done.files += 1;
        Ok(())
    }

    /// Sets the times of directories at the end, because each new file changes the time of its directory.
    fn finish_directories(&self, seed: u64) -> io::Result<()> {
        for layout in self.layouts {
            for number in 0..layout.directories() {
                let path = self.root.join(layout.directory(number));
                set_time(&path, layout.directory_time(number))?;
            }
            for row in 0..layout.rows() {
                set_time(
                    &self.root.join(layout.row(row)),
                    layout.directory_time(u64::MAX - 1 - row),
                )?;
            }
            if !layout.is_nested() {
                set_time(
                    &self.root.join(layout.top()),
                    layout.directory_time(u64::MAX),
                )?;
            }
        }
        set_time(self.root, root_time(seed))
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path).map_err(at(path))?;
    fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(at(path))
}

fn set_time(path: &Path, time: Timestamp) -> io::Result<()> {
    utimensat(CWD, path, &timestamps(time), AtFlags::empty())
        .map_err(|error| at(path)(error.into()))
}

fn timestamps(time: Timestamp) -> Timestamps {
    let time = Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Small enough for the second-level cache.
const BUFFER_BYTES: usize = 256 * 1024;

/// Large enough that assignment costs nothing, small enough that all threads have work in one directory.
const RUN_FILES: u64 = 32;

/// Bytes of a large file between two reports.
const REPORT_BYTES: u64 = 32 << 20;
