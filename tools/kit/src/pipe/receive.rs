//! Owns the receiving end of a bare pipe: one thread per stream receives a frame and writes it.
//! Makes contents durable, and sets metadata, only on request.

use std::fs::File;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail, ensure};
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, futimens, openat, renameat};
use rustix::io::Errno;

use super::checked::CheckedLink;
use super::link::{Link, PlainLink};
use super::send::split;
use super::wire::{Record, Stamp};
use super::{ReceiveArgs, tls, wire};

/// Accepts the streams of one sender, receives all data, and confirms it on each stream.
pub(super) fn run(args: &ReceiveArgs) -> anyhow::Result<()> {
    let config = args
        .shape
        .certificate
        .as_deref()
        .map(tls::server)
        .transpose()?;
    let root = args
        .directory
        .as_deref()
        .map(File::open)
        .transpose()
        .context("no directory")?;
    let listener = TcpListener::bind(args.listen).context("cannot listen")?;
    if let Some(name) = &args.shape.congestion {
        rustix::net::sockopt::set_tcp_congestion(&listener, name)
            .context("no such congestion control")?;
    }
    let mut out = std::io::stdout();
    writeln!(out, "listening on {}", listener.local_addr()?)?;
    out.flush()?;
    let one = |socket: TcpStream| -> anyhow::Result<()> {
        socket.set_nodelay(true)?;
        let block_bytes = args.shape.block_bytes;
        let mut link: Box<dyn Link> = match &config {
            Some(config) => Box::new(tls::accept(socket, Arc::clone(config), block_bytes)?),
            None => Box::new(PlainLink::new(socket)),
        };
        if args.shape.digest {
            link = Box::new(CheckedLink::new(link));
        }
        match &root {
            Some(root) => receive_files(&mut *link, root, args)?,
            None => receive_memory(&mut *link, block_bytes)?,
        }
        // The sender exits when it has this message, so an orderly close would find no peer.
        link.confirm()
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(args.shape.streams);
        for _ in 0..args.shape.streams {
            let (socket, _) = listener.accept().context("cannot accept")?;
            threads.push(scope.spawn(move || one(socket)));
        }
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_panic| anyhow!("a stream panicked"))?
        })
    })
}

fn receive_memory(link: &mut dyn Link, block_bytes: usize) -> anyhow::Result<()> {
    let mut block = vec![0; block_bytes];
    while link.receive_some(&mut block)? > 0 {}
    Ok(())
}

fn receive_files(link: &mut dyn Link, root: &File, args: &ReceiveArgs) -> anyhow::Result<()> {
    let block_bytes = args.shape.block_bytes;
    let mut writer = Writer {
        root,
        root_path: args.directory.as_deref().context("no directory")?,
        sync: args.shape.sync,
        directory: None,
        file: None,
    };
    let mut header = [0; wire::FRAME_HEADER_BYTES];
    let mut frame = vec![0; block_bytes + wire::FRAME_EXTRA_BYTES];
    while link.receive_all(&mut header)? {
        let bytes = usize::try_from(u32::from_le_bytes(header))?;
        let frame = frame
            .get_mut(..bytes)
            .context("the frame is longer than a block")?;
        ensure!(
            link.receive_all(frame)?,
            "the connection ended before a frame"
        );
        let mut rest = &*frame;
        while !rest.is_empty() {
            let record = wire::take(&mut rest)?;
            writer.write(&record).with_context(|| {
                format!("cannot write {:?}", record.path.escape_ascii().to_string())
            })?;
        }
    }
    writer.close()
}

fn write_all(file: &OwnedFd, offset: u64, content: &[u8]) -> anyhow::Result<()> {
    let mut written = 0;
    while written < content.len() {
        written += rustix::io::pwrite(file, &content[written..], offset + written as u64)?;
    }
    Ok(())
}

/// Writes files relative to the last used directory, and keeps the last file open.
struct Writer<'a> {
    root: &'a File,
    root_path: &'a Path,
    sync: bool,
    directory: Option<(Vec<u8>, OwnedFd)>,
    file: Option<(Vec<u8>, OwnedFd)>,
}

impl Writer<'_> {
    fn write(&mut self, record: &Record<'_>) -> anyhow::Result<()> {
        if let Some(stamp) = record.stamp {
            return self.commit(record, stamp);
        }
        let file = self.open(record.path)?;
        write_all(file, record.offset, record.content)
    }

    /// Writes a whole file under a temporary name, sets mode and times, and renames it.
    fn commit(&mut self, record: &Record<'_>, stamp: Stamp) -> anyhow::Result<()> {
        let (parent, name) = split(record.path);
        let parent = parent.context("a file without a directory is not committed")?;
        let directory = match self.directory.take() {
            Some((last, directory)) if last == parent => directory,
            _ => self.open_directory(parent)?,
        };
        let temporary = [b".pipe-", name].concat();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(stamp.mode);
        let file = openat(&directory, &*temporary, flags, mode)?;
        write_all(&file, 0, record.content)?;
        let time = Timespec {
            tv_sec: stamp.seconds,
            tv_nsec: stamp.nanoseconds.into(),
        };
        futimens(
            &file,
            &Timestamps {
                last_access: time,
                last_modification: time,
            },
        )?;
        renameat(&directory, &*temporary, &directory, name)?;
        self.directory = Some((parent.to_vec(), directory));
        Ok(())
    }

    fn open(&mut self, path: &[u8]) -> anyhow::Result<&OwnedFd> {
        let found = match self.file.take() {
            Some((last, file)) if last == path => file,
            other => {
                self.file = other;
                self.close()?;
                self.create(path)?
            }
        };
        Ok(&self.file.insert((path.to_vec(), found)).1)
    }

    /// Closes the last file, if there is one.
    fn close(&mut self) -> anyhow::Result<()> {
        if let Some((_, file)) = self.file.take().filter(|_| self.sync) {
            rustix::fs::fsync(file)?;
        }
        Ok(())
    }

    fn create(&mut self, path: &[u8]) -> anyhow::Result<OwnedFd> {
        let (parent, name) = split(path);
        // Streams share files, so files are not truncated: the destination is empty at the start.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let Some(parent) = parent else {
            return Ok(openat(self.root, name, flags, mode)?);
        };
        let directory = match self.directory.take() {
            Some((last, directory)) if last == parent => directory,
            _ => self.open_directory(parent)?,
        };
        let file = openat(&directory, name, flags, mode)?;
        self.directory = Some((parent.to_vec(), directory));
        Ok(file)
    }

    fn open_directory(&self, path: &[u8]) -> anyhow::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(self.root, path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                use std::os::unix::ffi::OsStrExt as _;
                let relative = Path::new(std::ffi::OsStr::from_bytes(path));
                if !relative
                    .components()
                    .all(|part| matches!(part, Component::Normal(_)))
                {
                    bail!("the path leads out of the directory");
                }
                std::fs::create_dir_all(self.root_path.join(relative))?;
                Ok(openat(self.root, path, flags, Mode::empty())?)
            }
            other => Ok(other?),
        }
    }
}
