//! Joins standard input and output, which may be pipes of any kind, to one socket.
//! Does not look at the data.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, sync_channel};

/// Standard input without a buffer: bytes after a message stay for later readers.
pub(super) fn input() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Standard output without a buffer.
pub(super) fn output() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Copies both ways on two threads, each until its side ends. The receiver gets a message once the last byte of the socket is out.
pub(super) fn join(input: File, output: File, socket: UnixStream) -> io::Result<Receiver<()>> {
    let (out, is_out) = sync_channel(1);
    let back = socket.try_clone()?;
    std::thread::Builder::new()
        .name("gw-stdin".to_owned())
        .spawn(move || {
            copy(&input, &socket);
            // The socket may be closed already.
            let _ = socket.shutdown(std::net::Shutdown::Write);
        })?;
    std::thread::Builder::new()
        .name("gw-stdout".to_owned())
        .spawn(move || {
            copy(&back, &output);
            // Further input has no reader either.
            let _ = back.shutdown(std::net::Shutdown::Read);
            let _ = out.send(());
        })?;
    Ok(is_out)
}

/// Copies both ways until either side has ended and all of its data has arrived.
pub(super) fn run(input: File, output: File, socket: &TcpStream) -> io::Result<()> {
    let back = socket.try_clone()?;
    let there = std::thread::Builder::new()
        .name("gw-stdin".to_owned())
        .spawn(move || {
            copy(&input, &back);
            let _ = back.shutdown(std::net::Shutdown::Write);
        })?;
    copy(socket, &output);
    // Standard input may stay open for ever. The end of the process ends that thread.
    drop(there);
    Ok(())
}

/// Copies until the end of input. An error ends the copy like an end of input, and the reader sees no difference.
fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => {
                if to.write_all(&buffer[..bytes]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// The capacity of a pipe.
const COPY_BYTES: usize = 64 << 10;
