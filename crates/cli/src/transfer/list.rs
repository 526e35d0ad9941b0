//! The list of names that the user gives, as a file or a pipe: read as it comes, and again from the beginning when a transfer is opened anew.
//! Does not look at the names.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use godwit_engine::names::ListBytes;
use godwit_engine::{IfPanicking, PANICKED};
use godwit_proto::agent::LIST_PART_BYTES_MAX;
use godwit_store::spill::unnamed_file;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// How often it is looked whether the list is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A list.
pub(super) enum ListInput {
    /// One that can be read anywhere.
    File(File),
    /// One that comes once; what came is kept on disk.
    Stream(Mutex<Stream>),
}

/// What comes, and what came.
pub(super) struct Stream {
    input: File,
    kept: File,
    kept_bytes: u64,
    ended: bool,
}

impl ListInput {
    /// A file, a pipe or a device.
    pub(super) fn open(path: &Path, spill: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?, spill)
    }

    /// Standard input.
    pub(super) fn standard(spill: &Path) -> io::Result<Self> {
        Self::of(File::from(io::stdin().as_fd().try_clone_to_owned()?), spill)
    }

    fn of(input: File, spill: &Path) -> io::Result<Self> {
        let meta = input.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::other("it is a directory, not a list"));
        }
        // Standard input may be a file that was read in part, and is meant from there on.
        let begun =
            meta.is_file() && rustix::fs::seek(&input, rustix::fs::SeekFrom::Current(0)) != Ok(0);
        if meta.is_file() && !begun {
            return Ok(Self::File(input));
        }
        Ok(Self::Stream(Mutex::new(Stream {
            input,
            kept: unnamed_file(spill)?,
            kept_bytes: 0,
            ended: false,
        })))
    }
}

impl ListBytes for ListInput {
    fn read_at(&self, offset: u64, buffer: &mut [u8], wait: Duration) -> io::Result<Option<usize>> {
        match self {
            Self::File(file) => file.read_at(buffer, offset).map(Some),
            // One reader at a time: an engine has stopped before the next one begins.
            Self::Stream(stream) => stream
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .read_at(offset, buffer, wait),
        }
    }
}

impl Stream {
    fn read_at(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
        wait: Duration,
    ) -> io::Result<Option<usize>> {
        if offset < self.kept_bytes {
            let kept = usize::try_from(self.kept_bytes - offset).unwrap_or(usize::MAX);
            let bytes = buffer.len().min(kept);
            return self.kept.read_at(&mut buffer[..bytes], offset).map(Some);
        }
        if self.ended {
            return Ok(Some(0));
        }
        let timeout = Timespec::try_from(wait).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&self.input, PollFlags::IN)];
        match rustix::event::poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let bytes = match self.input.read(buffer) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) =>
            {
                return Ok(None);
            }
            read => read?,
        };
        self.kept.write_all_at(&buffer[..bytes], self.kept_bytes)?;
        self.kept_bytes += bytes as u64;
        self.ended = bytes == 0;
        Ok(Some(bytes))
    }
}

/// Sends a list to whoever looks its names up, in parts, as fast as that takes them.
pub(super) struct ListSender {
    thread: JoinHandle<Option<io::Error>>,
    over: Arc<AtomicBool>,
}

impl ListSender {
    /// Begins; what was written to `socket` before stands before it.
    pub(super) fn start(list: Arc<dyn ListBytes>, socket: &UnixStream) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let (mut out, told) = (socket.try_clone()?, Arc::clone(&over));
        let thread = std::thread::Builder::new()
            .name("gw-list".to_owned())
            .spawn(move || {
                // Without the whole list nothing is to be done.
                let give_up = |out: &UnixStream| {
                    let _ = out.shutdown(Shutdown::Write);
                };
                let socket = out.try_clone();
                let _panic = IfPanicking(|| socket.iter().for_each(give_up));
                let error = send(&*list, &mut out, &told).err()?;
                give_up(&out);
                Some(error)
            })?;
        Ok(Self { thread, over })
    }

    /// Ends it once the socket is shut down. Gives what is wrong with the list.
    pub(super) fn end(self) -> Option<io::Error> {
        self.over.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_panic| Some(io::Error::other(PANICKED)))
    }
}

/// Fails only if the list cannot be read: who does not take it any more has said why.
fn send(list: &dyn ListBytes, out: &mut UnixStream, over: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0; LIST_PART_BYTES_MAX];
    let mut offset = 0;
    while !over.load(Ordering::Relaxed) {
        let Some(bytes) = list.read_at(offset, &mut buffer, LOOK_EVERY)? else {
            continue;
        };
        let length = u32::try_from(bytes).unwrap_or_default().to_le_bytes();
        let sent = out
            .write_all(&length)
            .and_then(|()| out.write_all(&buffer[..bytes]));
        if bytes == 0 || sent.is_err() {
            break;
        }
        offset += bytes as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    struct Panicking;

    impl ListBytes for Panicking {
        fn read_at(&self, _: u64, _: &mut [u8], _: Duration) -> io::Result<Option<usize>> {
            panic!("on purpose");
        }
    }

    #[test]
    fn a_list_whose_sender_panics_ends_and_is_no_whole_one() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let sender = ListSender::start(Arc::new(Panicking), &near).expect("a thread");
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).expect("the end comes");
        assert!(rest.is_empty());
        let error = sender.end().expect("it failed");
        assert_eq!(error.to_string(), PANICKED);
    }

    #[test]
    fn a_pipe_gives_what_there_is_and_can_be_read_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let input = File::from(std::os::fd::OwnedFd::from(reader));
        let list = ListInput::of(input, directory.path()).expect("opened");
        let mut buffer = [0; 100];
        let mut read = |offset| {
            let read = list
                .read_at(offset, &mut buffer, Duration::ZERO)
                .expect("read");
            read.map(|bytes| buffer[..bytes].to_vec())
        };
        assert_eq!(read(0), None);
        writer.write_all(b"one\n").expect("written");
        assert_eq!(read(0), Some(b"one\n".to_vec()));
        assert_eq!(read(4), None);
        assert_eq!(read(0), Some(b"one\n".to_vec()));
        writer.write_all(b"two\n").expect("written");
        drop(writer);
        assert_eq!(read(4), Some(b"two\n".to_vec()));
        assert_eq!((read(8), read(8)), (Some(vec![]), Some(vec![])));
        assert_eq!(read(2), Some(b"e\ntwo\n".to_vec()));
    }
}
