//! Connects TCP sockets within a deadline, from a given local address and interface or from the kernel's choice. Chooses
//! neither end.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use godwit_sys::interfaces::{bind_to_interface, bind_without_port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::channel::{LeavesBy, LocalEnd};
use crate::short_path::prepare_for_short_path;

/// Connects to `remote` within `deadline`; the kernel chooses the local end.
///
/// # Errors
/// The kernel's error: no peer answers, or no route leads there.
pub fn connect(remote: SocketAddr, deadline: Duration) -> io::Result<TcpStream> {
    connect_from(None, remote, deadline).map(|(stream, _)| stream)
}

/// Like `connect`, from a local end, if there is one; also returns how the interface of outgoing packets is chosen.
pub(crate) fn connect_from(
    local: Option<&LocalEnd>,
    remote: SocketAddr,
    deadline: Duration,
) -> io::Result<(TcpStream, LeavesBy)> {
    let until = Instant::now() + deadline;
    let family = match remote {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    let leaves_by = match local {
        Some(local) => leave_from(&socket, local)?,
        None => LeavesBy::Routing,
    };
    prepare_for_short_path(&socket);
    match rustix::net::connect(&socket, &remote) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => await_connection(&socket, until)?,
        Err(errno) => return Err(errno.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok((stream, leaves_by))
}

fn leave_from(socket: &OwnedFd, local: &LocalEnd) -> io::Result<LeavesBy> {
    let leaves_by = match &local.interface {
        Some(interface) => match bind_to_interface(socket, interface) {
            Ok(()) => LeavesBy::Interface,
            // Before Linux 5.7 only the administrator may bind to an interface.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => LeavesBy::Routing,
            Err(error) => return Err(error),
        },
        None => LeavesBy::Routing,
    };
    // An optimisation that saves ports; connections work without it.
    let _ = bind_without_port(socket);
    rustix::net::bind(socket, &SocketAddr::new(local.address, 0))?;
    Ok(leaves_by)
}

fn await_connection(socket: &OwnedFd, until: Instant) -> io::Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                sockopt::socket_error(socket)??;
                return Ok(());
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}
