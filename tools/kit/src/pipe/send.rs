//! Owns the sending end of a bare pipe: one thread per stream reads a frame and sends it. Keeps no data to send again: a failure ends the
//! run.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, anyhow, ensure};
use rustix::fs::{Mode, OFlags, Stat, openat};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::checked::CheckedLink;
use super::link::{Link, PlainLink};
use super::plan::{Part, Plan, PlanFile};
use super::wire::{Frame, Stamp};
use super::{Load, SendArgs, tls};

/// Memory that is sent again and again if there are no files: larger than the L2 cache, as with real data, and as large as Godwit's send
/// memory. Otherwise a third-level cache might contain only one of the two.
const MEMORY_BYTES: usize = 8 << 20;

/// Sends everything and waits until the receiver confirms it.
pub(super) fn run(args: &SendArgs) -> anyhow::Result<()> {
    match &args.load {
        Load::Memory(bytes) => send_memory(args, *bytes),
        Load::Files(source) => send_files(args, source),
    }
}

fn send_memory(args: &SendArgs, total: u64) -> anyhow::Result<()> {
    let memory: Vec<u8> = (0..MEMORY_BYTES)
        .map(|at| at.wrapping_mul(0x9E37_79B9).to_le_bytes()[3])
        .collect();
    let block_bytes = args.shape.block_bytes;
    ensure!(
        (1..=MEMORY_BYTES).contains(&block_bytes),
        "a block has between one byte and 8 MiB"
    );
    let taken = AtomicU64::new(0);
    each_stream(args, |link| {
        loop {
            let from = taken.fetch_add(block_bytes as u64, Ordering::Relaxed);
            let Some(left) = total.checked_sub(from).filter(|&left| left > 0) else {
                break;
            };
            let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(block_bytes);
            let start = usize::try_from(from % (MEMORY_BYTES - block_bytes + 1) as u64)?;
            link.send(&memory[start..start + bytes])?;
        }
        Ok(())
    })
}

fn send_files(args: &SendArgs, source: &Path) -> anyhow::Result<()> {
    let plan = Plan::list(source)?;
    let root = match source.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let root = File::open(root).with_context(|| format!("cannot open {root:?}"))?;
    each_stream(args, |link| {
        let mut reader = Reader {
            root: &root,
            directory: None,
            file: None,
            commit: args.shape.commit,
        };
        let (mut parts, mut own) = (Vec::new(), None);
        let mut frame = Frame::new(args.shape.block_bytes);
        loop {
            if args.shape.by_file {
                plan.take_of_own(&mut own, args.shape.block_bytes, &mut parts);
            } else {
                plan.take(args.shape.block_bytes, &mut parts);
            }
            if parts.is_empty() {
                return Ok(());
            }
            frame.clear();
            for part in &parts {
                reader.append(&plan.files[part.file], *part, &mut frame)?;
            }
            link.send(frame.seal()?)?;
        }
    })
}

/// Sets the socket options before it connects, because a change from BBR leaves settings behind.
fn dial(args: &SendArgs) -> std::io::Result<TcpStream> {
    let family = match args.to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Some(name) = &args.shape.congestion {
        sockopt::set_tcp_congestion(&socket, name)?;
    }
    connect(&socket, &args.to)?;
    Ok(socket.into())
}

/// Connects all streams, runs `work` on each in a separate thread, and ends each in order.
fn each_stream(
    args: &SendArgs,
    work: impl Fn(&mut dyn Link) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let config = args
        .shape
        .certificate
        .as_deref()
        .map(tls::client)
        .transpose()?;
    let one = || -> anyhow::Result<()> {
        let socket = dial(args).context("cannot dial")?;
        socket.set_nodelay(true)?;
        let mut link: Box<dyn Link> = match &config {
            Some(config) => Box::new(tls::dial(
                socket,
                Arc::clone(config),
                args.shape.block_bytes,
            )?),
            None => Box::new(PlainLink::new(socket)),
        };
        if args.shape.digest {
            link = Box::new(CheckedLink::new(link));
        }
        work(&mut *link)?;
        link.finish()?;
        link.await_confirmation()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.shape.streams).map(|_| scope.spawn(one)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_panic| anyhow!("a stream panicked"))?
        })
    })
}

/// Reads files relative to the last used directory, and keeps the last file open.
struct Reader<'a> {
    root: &'a File,
    directory: Option<(Vec<u8>, OwnedFd)>,
    file: Option<(usize, OwnedFd)>,
    commit: bool,
}

impl Reader<'_> {
    /// Appends one record with the content of `part`.
    fn append(&mut self, file: &PlanFile, part: Part, frame: &mut Frame) -> anyhow::Result<()> {
        let context = || format!("cannot read {:?}", file.path.escape_ascii().to_string());
        // Several streams write a file in several frames, and none of them is the last.
        let is_whole =
            self.commit && part.bytes as u64 == file.bytes && split(&file.path).0.is_some();
        let open = self.open(part.file, &file.path).with_context(context)?;
        let stamp = is_whole
            .then(|| rustix::fs::fstat(open).map(|stat| stamp_of(&stat)))
            .transpose()
            .with_context(context)?;
        let content = frame.push(&file.path, part.offset, part.bytes, stamp)?;
        let mut filled = 0;
        while filled < part.bytes {
            let offset = part.offset + filled as u64;
            let more =
                rustix::io::pread(open, &mut content[filled..], offset).with_context(context)?;
            ensure!(
                more > 0,
                "{:?} shrank",
                file.path.escape_ascii().to_string()
            );
            filled += more;
        }
        Ok(())
    }

    fn open(&mut self, index: usize, path: &[u8]) -> anyhow::Result<&OwnedFd> {
        let found = match self.file.take() {
            Some((last, file)) if last == index => file,
            _ => {
                let (parent, name) = split(path);
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match parent {
                    None => openat(self.root, name, flags, Mode::empty())?,
                    Some(parent) => {
                        let directory = match self.directory.take() {
                            Some((last, directory)) if last == parent => directory,
                            _ => {
                                openat(self.root, parent, flags | OFlags::DIRECTORY, Mode::empty())?
                            }
                        };
                        let file = openat(&directory, name, flags, Mode::empty())?;
                        self.directory = Some((parent.to_vec(), directory));
                        file
                    }
                }
            }
        };
        Ok(&self.file.insert((index, found)).1)
    }
}

fn stamp_of(stat: &Stat) -> Stamp {
    Stamp {
        seconds: stat.st_mtime,
        nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        mode: stat.st_mode & 0o777,
    }
}

/// The directory of a path, if there is one, and the name in it.
pub(super) fn split(path: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (Some(&path[..at]), &path[at + 1..]),
        None => (None, path),
    }
}
