//! Owns connections: the Unix socket, their number, and serving HTTP on each.
//! Knows no route.

use std::convert::Infallible;
use std::io;
use std::net::TcpStream as StdTcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use crate::arrivals::Arrivals;
use crate::caller::Peer;
use crate::crowd::{Crowd, Member};
use crate::lingering::linger;
use crate::middleware::Crowded;
use crate::places::{Connected, Place, Places, Stay, Working};
use crate::throttle::{Throttle, key};
use crate::unread::{Cut, Unread, Waiting, Watched};

/// Requests at once of one connection.
const STREAMS_MAX: u32 = 32;

/// Limit for the TLS handshake of a client.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// The longest head of a request that is read at all. A shorter head may still be too long and get a problem.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Bytes of bodies that an HTTP/2 connection may send before a handler has read them: the minimum of the protocol.
const WINDOW: u32 = 65_535;

/// Bytes of an answer that wait for an HTTP/2 client.
const SEND_BYTES_MAX: usize = 64 << 10;

/// Bytes of an answer in one frame. HTTP/2 takes a whole frame as soon as it has room for one byte.
const FRAME_BYTES_MAX: usize = 64 << 10;

/// Interval of pings on an idle HTTP/2 connection.
const PING_EVERY: Duration = Duration::from_secs(20);

/// Limit for requests in progress when a connection has to end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Pause after the system refused a connection for want of descriptors or memory.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Burst of log lines about connections, and the interval of further ones. Strangers cannot fill the log.
const LINES_BURST: u32 = 20;
const LINES_EVERY: Duration = Duration::from_secs(10);

/// Data that all connections share.
#[derive(Clone)]
pub(crate) struct Connections {
    router: Router,
    places: Arc<Places>,
    crowd: Crowd,
    tls: TlsAcceptor,
    unread_max: Duration,
    log: Arc<dyn Fn(&str) + Send + Sync>,
    lines: Arc<Throttle>,
    arrivals: Arc<Arrivals>,
    stopping: watch::Receiver<bool>,
}

impl Connections {
    pub(crate) fn new(
        router: Router,
        places: Arc<Places>,
        tls: TlsAcceptor,
        unread_max: Duration,
        stopping: watch::Receiver<bool>,
        log: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            router,
            places,
            crowd: Crowd::default(),
            tls,
            unread_max,
            log,
            lines: Arc::new(Throttle::new(LINES_BURST, LINES_EVERY)),
            arrivals: Arc::new(Arrivals::new()),
            stopping,
        }
    }

    /// Waits until no connection is left.
    pub(crate) async fn wait_until_empty(&self) {
        self.places.wait_until_empty().await;
    }

    /// Serves a network connection, of which nothing was read yet, to its end.
    pub(crate) async fn serve_tls(self, socket: StdTcpStream) {
        let Ok(address) = socket.peer_addr() else {
            return;
        };
        let peer = Peer::Network(address);
        let place = self.places.take(peer, Instant::now());
        let prepared = socket
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(socket))
            .and_then(|socket| socket.set_nodelay(true).map(|()| socket));
        let Ok(socket) = prepared else {
            return;
        };
        let shaken = tokio::select! {
            shaken = timeout(HANDSHAKE_WITHIN, self.tls.accept(socket)) => shaken,
            () = place.connected().displaced() => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.serve(stream, peer, place).await,
            Ok(Err(error)) => {
                self.log_line(&format!("{peer}: no TLS connection to the API: {error}"))
            }
            Err(_elapsed) => {}
        }
    }

    /// Writes a line about a connection, unless there are too many of them.
    fn log_line(&self, line: &str) {
        if self.lines.take(&key(&[]), 1, Instant::now()).is_ok() {
            (self.log)(line);
        }
    }

    /// Serves HTTP on one connection to its end.
    async fn serve<S>(&self, socket: S, peer: Peer, place: Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (cut, unread) = (Cut::default(), Unread::default());
        unread.watch(self.unread_max, cut.clone());
        let waiting = unread.waiting();
        let socket = Watched { socket, waiting };
        let connected = place.connected().clone();
        let (own, crowd) = (connected.clone(), self.crowd.clone());
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let working = own.begin().map(|working| (working, crowd.enter()));
            let extensions = request.extensions_mut();
            extensions.insert(peer);
            extensions.insert(own.clone());
            if let Some((_, member)) = &working {
                extensions.insert(member.clone());
            }
            answer(router.clone(), request, working, unread.waiting())
        });
        let builder = builder();
        let connection = builder.serve_connection(TokioIo::new(socket), service);
        let mut connection = std::pin::pin!(connection);
        let mut stopping = self.stopping.clone();
        let ended = async {
            tokio::select! {
                _ended = connection.as_mut() => {}
                () = stopped(&mut stopping) => {
                    connection.as_mut().graceful_shutdown();
                    // A client that breaks off harms itself only.
                    let _ = connection.await;
                }
                () = overdue(&connected) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout(END_WITHIN, connection).await;
                }
            }
        };
        tokio::select! {
            () = ended => {}
            () = connected.displaced() => {}
            () = cut.0.notified() => {
                self.log_line(&format!("{peer}: the client does not read the answer; the connection was closed"));
            }
        }
        drop(place);
    }
}

/// Configuration of HTTP.
fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // `overdue` ends connections whose requests do not come.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY);
    builder
}

/// Waits until a connection may stay no longer.
async fn overdue(connected: &Connected) {
    while let Stay::Until(end) = connected.stay(Instant::now()) {
        sleep_until(end.into()).await;
    }
}

/// Answers a request, which counts as in progress until its answer has gone.
async fn answer(
    router: TowerToHyperService<Router>,
    mut request: Request<Incoming>,
    working: Option<(Working, Member)>,
    waiting: Waiting,
) -> Result<Response<Body>, Infallible> {
    if working.is_none() {
        request.extensions_mut().insert(Crowded);
    }
    let (request, leftover) = linger(request);
    let mut response = router.call(request.map(Body::new)).await?;
    leftover.announce_end(&mut response);
    waiting.begin();
    Ok(response.map(|body| {
        Body::new(Kept {
            body,
            rest: Bytes::new(),
            waiting,
            _working: working,
        })
    }))
}

/// The body of an answer, and its request. An HTTP/2 client without a window leaves the body unread. So the body counts as waiting from the
/// start, and after each frame, until the connection asks for the next one.
struct Kept {
    body: Body,
    /// The unsent part of a long frame.
    rest: Bytes,
    waiting: Waiting,
    _working: Option<(Working, Member)>,
}

impl Kept {
    /// The next frame from the unsent part.
    fn part(&mut self) -> Frame<Bytes> {
        let length = self.rest.len().min(FRAME_BYTES_MAX);
        Frame::data(self.rest.split_to(length))
    }
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.waiting.end();
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        self.waiting.begin();
        Poll::Ready(Some(Ok(self.part())))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// Waits until the server stops.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is the same.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Whether a listener has been refusing, so that it logs this once.
struct Refusing {
    what: &'static str,
    now: bool,
}

impl Refusing {
    const fn new(what: &'static str) -> Self {
        Self { what, now: false }
    }

    /// The accepted connection. After an error, waits and returns none.
    async fn accepted<T>(
        &mut self,
        connections: &Connections,
        accepted: io::Result<T>,
    ) -> Option<T> {
        match accepted {
            Ok(socket) => {
                self.now = false;
                Some(socket)
            }
            Err(error) => {
                if !self.now {
                    (connections.log)(&format!("{} cannot take connections: {error}", self.what));
                }
                self.now = true;
                tokio::time::sleep(REFUSED_PAUSE).await;
                None
            }
        }
    }
}

/// Accepts connections of a management address until the server stops.
pub(crate) async fn listen_by_tls(connections: Connections, listener: TcpListener) {
    let mut stopping = connections.stopping.clone();
    let mut refusing = Refusing::new("the management address");
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stopping) => return,
        };
        let accepted = accepted.and_then(|(socket, _)| socket.into_std());
        if let Some(socket) = refusing.accepted(&connections, accepted).await {
            tokio::spawn(connections.clone().serve_tls(socket));
        }
    }
}

/// Accepts connections of the Unix socket until the server stops.
pub(crate) async fn listen(connections: Connections, listener: UnixListener) {
    let mut stopping = connections.stopping.clone();
    let mut refusing = Refusing::new("the API's socket");
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stopping) => return,
        };
        let Some((socket, _)) = refusing.accepted(&connections, accepted).await else {
            continue;
        };
        let Ok(credentials) = socket.peer_cred() else {
            continue;
        };
        let uid = credentials.uid();
        if !connections.arrivals.take(uid, Instant::now()) {
            continue;
        }
        let peer = Peer::Local { uid };
        let place = connections.places.take(peer, Instant::now());
        let own = connections.clone();
        tokio::spawn(async move { own.serve(socket, peer, place).await });
    }
}
