//! Sends the list of names to another machine that looks the names up. Does not check the names.

use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use godwit_engine::names::ListBytes;
use godwit_engine::{IfPanicking, PANICKED};
use godwit_proto::agent::LIST_PART_BYTES_MAX;

/// Interval between checks whether the list is still needed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Sends a list in parts to the machine that looks its names up, at the speed of that machine.
pub(super) struct ListSender {
    thread: JoinHandle<Option<io::Error>>,
    over: Arc<AtomicBool>,
}

impl ListSender {
    /// Starts to send. Earlier data on `socket` is sent first.
    pub(super) fn start(list: Arc<dyn ListBytes>, socket: &UnixStream) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let (mut out, reported) = (socket.try_clone()?, Arc::clone(&over));
        let thread = std::thread::Builder::new()
            .name("gw-list".to_owned())
            .spawn(move || {
                // An incomplete list must not be used.
                let give_up = |out: &UnixStream| {
                    let _ = out.shutdown(Shutdown::Write);
                };
                let socket = out.try_clone();
                let _panic = IfPanicking(|| socket.iter().for_each(give_up));
                let error = send(&*list, &mut out, &reported).err()?;
                give_up(&out);
                Some(error)
            })?;
        Ok(Self { thread, over })
    }

    /// Stops the sender after the socket was shut down. Returns the error of reading the list, if
    /// there was one.
    pub(super) fn end(self) -> Option<io::Error> {
        self.over.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_panic| Some(io::Error::other(PANICKED)))
    }
}

/// Returns an error only if the list cannot be read. If the reader closes the socket, it has
/// reported the reason.
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
    use std::io::Read as _;

    use super::*;

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
}
