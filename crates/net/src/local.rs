//! Owns streams without TLS: between two threads of one process, or over a socket that another program protects.
//! Encrypts nothing.

use std::io;
use std::os::unix::net::UnixStream;

use crate::buffer::InBuffer;
use crate::connection::{Connection, Layer};
use crate::socket::Socket;
use crate::stream::StreamOptions;

/// Two ends of a stream inside this process.
///
/// # Errors
/// When the process is out of file descriptors.
pub fn local_pair(options: &StreamOptions) -> io::Result<(Connection, Connection)> {
    let (one, other) = UnixStream::pair()?;
    let end = |socket, peer| {
        Connection::new(
            Socket::local(socket, peer)?,
            Layer::Clear,
            InBuffer::new(),
            options,
        )
    };
    Ok((end(one, "local:b")?, end(other, "local:a")?))
}

/// A stream over a socket to a program, such as ssh, that proves both identities and encrypts. `peer` names the peer
/// in messages.
///
/// # Errors
/// The process is out of file descriptors.
pub fn piped(socket: UnixStream, peer: &str, options: &StreamOptions) -> io::Result<Connection> {
    Connection::new(
        Socket::local(socket, peer)?,
        Layer::Clear,
        InBuffer::new(),
        options,
    )
}
