//! Connects two machines of which one may not be able to reach the other: tries all addresses at once, in both directions.
//! Starts no program at the other end, and does not interpret the data.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::address::PeerAddress;
use crate::connect::connect;
use crate::connection::Connection;
use crate::dial::{Carrier, DialError, DialOptions, dial_over};
use crate::identity::IdentityId;
use crate::short_path::prepare_for_short_path;
use crate::stream::StreamOptions;
use crate::tls::{ClientTls, Expect};
use crate::waker::Waker;

/// Head start of the first address, which is usually the right one.
const FIRST_ALONE: Duration = Duration::from_millis(100);

/// Interval of checks for a connection from the other side while our attempts run.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Interval of checks whether the attempt is still wanted.
const LOOK_EVERY_WAITING: Duration = Duration::from_millis(100);

/// Most connections from the other side that wait for use or for the proof of their identity.
const ARRIVED_MAX: usize = 64;
const STRANGERS_MAX: usize = 16;

/// How to reach the other machine.
pub struct ReachOptions {
    /// Addresses on which the other machine may listen, the likeliest first.
    pub targets: Vec<SocketAddr>,
    /// The identity that the other machine must prove.
    pub identity: IdentityId,
    /// Our key; we are the TLS client in both directions.
    pub tls: ClientTls,
    /// Deadline for one attempt over all paths together.
    pub deadline: Duration,
    /// Options of the streams.
    pub stream: StreamOptions,
}

/// Makes connections to one machine, over any path that works.
pub struct Reach {
    options: ReachOptions,
    /// The path that worked last.
    way: Mutex<Option<Attempt>>,
    arrivals: Option<Arrivals>,
}

/// The paths on which an attempt may still succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// All paths.
    Wait,
    /// Only our own attempts: the other side may no longer run, and will not dial.
    DialOnly,
    /// No path: the connection is no longer wanted.
    Stop,
}

#[derive(Clone, Copy)]
enum Attempt {
    To(SocketAddr),
    From,
}

/// Every path failed.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.describe())]
pub struct ReachError {
    /// The dialled addresses, and the outcome of each.
    pub dialled: Vec<(SocketAddr, String)>,
    /// The port on which we waited for the peer's connection, if we did.
    pub waited_on: Option<u16>,
    /// Whether a machine with another identity answered.
    pub wrong_identity: bool,
}

impl ReachError {
    fn describe(&self) -> String {
        let mut ways: Vec<String> = self
            .dialled
            .iter()
            .map(|(address, what)| format!("{address} from here ({what})"))
            .collect();
        if let Some(port) = self.waited_on {
            ways.push(format!("port {port} here from there (nothing came)"));
        }
        ways.join(", ")
    }
}

impl Reach {
    /// With `listener`, connections that the other side dials are accepted as well.
    ///
    /// # Errors
    /// The process is out of descriptors or threads.
    pub fn new(options: ReachOptions, listener: Option<TcpListener>) -> io::Result<Self> {
        let arrivals = listener
            .map(|listener| Arrivals::start(listener, &options))
            .transpose()?;
        Ok(Self {
            options,
            way: Mutex::default(),
            arrivals,
        })
    }

    /// A new connection. Many threads may call at once: the first one finds the path for all. `look` is called repeatedly.
    ///
    /// # Errors
    /// Contains all attempts.
    pub fn connect(&self, look: &dyn Fn() -> Look) -> Result<Connection, ReachError> {
        let mut way = locked(&self.way);
        if let Some(known) = *way {
            drop(way);
            let found = match known {
                Attempt::To(target) => self.dial(&[target], look).ok(),
                Attempt::From => self.wait_for_arrival(look),
            };
            return match found {
                Some((_, connection)) => Ok(connection),
                None => self.search(look).map(|(_, connection)| connection),
            };
        }
        let (found, connection) = self.search(look)?;
        *way = Some(found);
        Ok(connection)
    }

    /// Whether a connection has ever been made.
    pub fn has_worked(&self) -> bool {
        locked(&self.way).is_some()
    }

    /// Whether any number of connections can be made by dialling from here; false while the path is being searched.
    pub fn dials(&self) -> bool {
        self.way
            .try_lock()
            .is_ok_and(|way| matches!(*way, Some(Attempt::To(_))))
    }

    fn search(&self, look: &dyn Fn() -> Look) -> Result<(Attempt, Connection), ReachError> {
        self.dial(&self.options.targets, look)
    }

    fn wait_for_arrival(&self, look: &dyn Fn() -> Look) -> Option<(Attempt, Connection)> {
        let arrivals = self.arrivals.as_ref()?;
        let until = Instant::now() + self.options.deadline;
        while look() == Look::Wait && Instant::now() < until {
            if let Some(connection) = arrivals.shared.take(LOOK_EVERY_WAITING) {
                return Some((Attempt::From, connection));
            }
        }
        None
    }

    /// Dials all targets, the first one a little earlier; a connection from the other side is used as well.
    fn dial(
        &self,
        targets: &[SocketAddr],
        look: &dyn Fn() -> Look,
    ) -> Result<(Attempt, Connection), ReachError> {
        let until = Instant::now() + self.options.deadline;
        let (outcomes, outcome) = sync_channel(targets.len().max(1));
        let mut rest = targets.iter();
        let mut error = ReachError {
            dialled: Vec::new(),
            waited_on: self.arrivals.as_ref().map(|arrivals| arrivals.port),
            wrong_identity: false,
        };
        let mut running = 0;
        if let Some(first) = rest.next() {
            running += usize::from(self.spawn(*first, &outcomes));
        }
        let mut spread = Instant::now() + FIRST_ALONE;
        loop {
            if let Some(connection) = self
                .arrivals
                .as_ref()
                .and_then(|arrivals| arrivals.shared.take(Duration::ZERO))
            {
                return Ok((Attempt::From, connection));
            }
            let now = Instant::now();
            if now >= spread || running == 0 {
                for target in rest.by_ref() {
                    running += usize::from(self.spawn(*target, &outcomes));
                }
                spread = until;
            }
            let look = look();
            let may_come = self.arrivals.is_some() && look == Look::Wait;
            if now >= until || look == Look::Stop || (running == 0 && !may_come) {
                return Err(error);
            }
            let step = if self.arrivals.is_some() {
                LOOK_EVERY
            } else {
                (until.min(spread) - now).min(LOOK_EVERY_WAITING)
            };
            match outcome.recv_timeout(step) {
                Ok((target, Ok(connection))) => return Ok((Attempt::To(target), connection)),
                Ok((target, Err(failure))) => {
                    running -= 1;
                    error.wrong_identity |= failure.is_authentication();
                    error.dialled.push((target, short(&failure)));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    fn spawn(&self, target: SocketAddr, outcomes: &SyncSender<Outcome>) -> bool {
        let outcomes = outcomes.clone();
        let (tls, deadline) = (self.options.tls.clone(), self.options.deadline);
        let options = dial_options(&self.options);
        let body = move || {
            let address = PeerAddress::new(&target.ip().to_string(), target.port());
            let connected = connect(target, deadline).map_err(|source| DialError::Connect {
                address: address.clone(),
                source,
            });
            let found = connected
                .and_then(|tcp| dial_over(Carrier::Tcp(tcp), &address, &tls, &options))
                .map(|(connection, _)| connection);
            // The receiver is gone if another path was faster.
            let _ = outcomes.send((target, found));
        };
        std::thread::Builder::new()
            .name("gw-dial".to_owned())
            .spawn(body)
            .is_ok()
    }
}

type Outcome = (SocketAddr, Result<Connection, DialError>);

/// The error without address and advice, which the complete message contains.
fn short(error: &DialError) -> String {
    match error {
        DialError::Connect { source, .. } if source.kind() == io::ErrorKind::TimedOut => {
            "no answer".to_owned()
        }
        DialError::Connect { source, .. } => source.to_string(),
        DialError::WrongIdentity { .. } => "another program answers there".to_owned(),
        other => other.to_string(),
    }
}

fn dial_options(options: &ReachOptions) -> DialOptions {
    let mut dialling = DialOptions::new(Expect::Identity(options.identity));
    dialling.deadline = options.deadline;
    dialling.stream = options.stream.clone();
    dialling
}

/// Accepts connections that the other side dials.
struct Arrivals {
    port: u16,
    shared: Arc<Queue>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    /// Proven connections, and whether the accepting has ended.
    inner: Mutex<(Vec<Connection>, bool)>,
    changed: Condvar,
    strangers: AtomicUsize,
}

impl Queue {
    fn take(&self, patience: Duration) -> Option<Connection> {
        let until = Instant::now() + patience;
        let mut inner = locked(&self.inner);
        loop {
            if !inner.0.is_empty() {
                return Some(inner.0.remove(0));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            inner = self
                .changed
                .wait_timeout(inner, left)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(inner, _)| inner);
        }
    }

    fn add(&self, connection: Connection) {
        let mut inner = locked(&self.inner);
        if !inner.1 && inner.0.len() < ARRIVED_MAX {
            inner.0.push(connection);
            self.changed.notify_all();
        }
    }
}

impl Arrivals {
    fn start(listener: TcpListener, options: &ReachOptions) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        prepare_for_short_path(&listener);
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Queue::default());
        let waker = Waker::new()?;
        let (queue, own) = (Arc::clone(&shared), waker.clone());
        let (tls, dialling) = (options.tls.clone(), dial_options(options));
        let body = move || listen(&listener, &own, &queue, &tls, &dialling);
        let thread = std::thread::Builder::new()
            .name("gw-arrivals".to_owned())
            .spawn(body)?;
        Ok(Self {
            port,
            shared,
            waker,
            thread: Some(thread),
        })
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        {
            let mut inner = locked(&self.shared.inner);
            inner.1 = true;
            inner.0.clear();
        }
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the panic was already printed.
            let _ = thread.join();
        }
    }
}

fn listen(
    listener: &TcpListener,
    waker: &Waker,
    queue: &Arc<Queue>,
    tls: &ClientTls,
    options: &DialOptions,
) {
    loop {
        let mut fds = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(waker, PollFlags::IN),
        ];
        let _ = poll(&mut fds, None);
        if locked(&queue.inner).1 {
            return;
        }
        let (tcp, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => {
                // The process is out of descriptors or memory; no event reports that they are available again.
                let _ = waker.wait(Duration::from_millis(100));
                continue;
            }
        };
        if queue.strangers.fetch_add(1, Ordering::SeqCst) >= STRANGERS_MAX {
            queue.strangers.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (own, tls, options) = (Arc::clone(queue), tls.clone(), options.clone());
        let body = move || {
            let address = PeerAddress::new(&from.ip().to_string(), from.port());
            let proven = tcp
                .set_nonblocking(false)
                .ok()
                .and_then(|()| dial_over(Carrier::Tcp(tcp), &address, &tls, &options).ok());
            own.strangers.fetch_sub(1, Ordering::SeqCst);
            if let Some((connection, _)) = proven {
                own.add(connection);
            }
        };
        if std::thread::Builder::new()
            .name("gw-arrival".to_owned())
            .spawn(body)
            .is_err()
        {
            queue.strangers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Listens on a free port of the range (`None`: any), for IPv6 and IPv4 if the system supports both. With `local`, the port is
/// reachable only from this machine.
///
/// # Errors
/// No port of the range is free, or the system refuses every port.
pub fn bind_data_port(ports: Option<(u16, u16)>, local: bool) -> io::Result<TcpListener> {
    let (first, last) = ports.unwrap_or((0, 0));
    let count = u32::from(last - first) + 1;
    // Transfers of one machine begin at different ports, so they seldom try an occupied one.
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let start = u32::from_le_bytes(random) % count;
    let mut last_error = io::Error::from(io::ErrorKind::AddrInUse);
    for step in 0..count {
        let offset = u16::try_from((start + step) % count).unwrap_or_default();
        match bind(first + offset, local) {
            Ok(listener) => return Ok(listener),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

fn bind(port: u16, local: bool) -> io::Result<TcpListener> {
    if local {
        return TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    }
    both_families(port).or_else(|error| match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
        // This machine has no IPv6.
        _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
    })
}

fn both_families(port: u16) -> io::Result<TcpListener> {
    let socket: OwnedFd = rustix::net::socket_with(
        AddressFamily::INET6,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
    rustix::net::listen(&socket, 128)?;
    Ok(socket.into())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
