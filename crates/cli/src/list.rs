//! The user's list of names, as a file or a pipe: read as it arrives, and again from the beginning when a transfer restarts.
//! Does not look at the names.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use godwit_api::settings::{ListPlace, SelectionSettings};
use godwit_engine::names::ListBytes;
use godwit_run::NameList;
use godwit_run::reports::file_key;
use godwit_store::spill::unnamed_file;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::exit::Failure;
use crate::home::Home;

/// Opens the list that the settings name, if they name one.
pub(crate) fn open(settings: &SelectionSettings, home: &Home) -> Result<Option<NameList>, Failure> {
    let Some(place) = &settings.files_from else {
        return Ok(None);
    };
    let spill = home.spill()?;
    let list = match place {
        ListPlace::Input => ListInput::standard(&spill)
            .map_err(|error| Failure::usage(format!("--files-from -: standard input: {error}"))),
        ListPlace::File(path) => ListInput::open(path, &spill)
            .map_err(|error| Failure::usage(format!("--files-from {}: {error}", path.display()))),
    }?;
    Ok(Some(NameList {
        bytes: Arc::new(list),
        file: file_key(settings),
    }))
}

/// A list.
enum ListInput {
    /// A list that can be read at any position.
    File(File),
    /// A list that can be read once; read names are kept on disk.
    Stream(Mutex<Stream>),
}

/// The input of a list, and the names read so far.
struct Stream {
    input: File,
    kept: File,
    kept_bytes: u64,
    ended: bool,
}

impl ListInput {
    /// A file, a pipe or a device.
    fn open(path: &Path, spill: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?, spill)
    }

    /// Standard input.
    fn standard(spill: &Path) -> io::Result<Self> {
        if godwit_sys::closed::was_closed(0) {
            return Err(io::Error::other("it is closed"));
        }
        Self::of(File::from(io::stdin().as_fd().try_clone_to_owned()?), spill)
    }

    fn of(input: File, spill: &Path) -> io::Result<Self> {
        let meta = input.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::other("it is a directory, not a list"));
        }
        // Standard input may be a partly read file, and the list is the rest of the file.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
