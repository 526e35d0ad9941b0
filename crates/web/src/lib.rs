//! The REST API of a node and its page: HTTP over its Unix socket and over TLS, the rights of callers, and the documents of the answers.
//! Decides nothing about jobs (`jobs`) and keeps nothing itself (`state`); serves no data connection (`node`).
//!
//! The server has a separate tokio runtime. Blocking calls, such as all reads of the state, run on a bounded number of extra threads.
//! Threads that move data never run here.

mod admission;
mod app;
mod arrivals;
mod browser;
mod buffers;
mod caller;
mod changes;
mod config;
mod credentials;
mod crowd;
mod errand;
mod extract;
mod graphite;
mod hub;
mod judged;
mod lasting;
mod lingering;
mod logins;
mod long_answer;
mod machine;
mod metrics;
mod middleware;
mod page;
mod password;
mod places;
mod problem;
mod rates;
mod rates_file;
mod refusals;
mod routes;
mod secret;
mod server;
mod session;
mod socket;
mod standing;
mod throttle;
mod tls;
mod turns;
mod unread;
mod webhooks;

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use godwit_api::record::{NewsSink, TransferNews};
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use buffers::answer_of;
pub use config::{
    BufferControl, BufferMates, ChangePace, ExportInfo, NodeInfo, Patience, UNREAD_MAX, WebConfig,
};
pub use graphite::PUSH_EVERY;
pub use machine::machine_admins;
pub use tls::{CertificateError, CertificateSource, check_certificate};
pub use webhooks::address::{Network, NetworkError};

use app::App;
use places::Places;
use server::Connections;
use tls::Certificate;
use webhooks::Webhooks;

/// Threads that serve connections. Blocking calls have separate threads.
const WORKERS: usize = 2;

/// Threads for blocking calls: requests, and one thread that follows the state. Passwords have separate threads.
const BLOCKING_THREADS_MAX: usize =
    app::BLOCKING_MAX + app::PLACES_MAX + app::AUTHENTICATIONS_MAX + 1;

/// How long requests may take to end when the server stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Why the server does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The Unix socket cannot be made.
    #[error("the API's socket {path}: {source}", path = path.display())]
    Socket {
        /// Where it should be.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A management address cannot be listened on.
    #[error("cannot serve the API at {address}: {source}; choose another address with --manage")]
    Manage {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: std::io::Error,
    },
    /// No certificate can be loaded or made.
    #[error("the API's certificate: {0}")]
    Certificate(#[from] CertificateError),
    /// The configuration of TLS.
    #[error("the API cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The system lacks a resource, such as a thread or a descriptor.
    #[error("the API cannot start: {0}")]
    System(#[from] std::io::Error),
}

/// The running server. Ends when dropped or stopped.
pub struct Web {
    runtime: Option<Runtime>,
    app: Arc<App>,
    connections: Connections,
    stop: watch::Sender<bool>,
    socket: PathBuf,
    managed: Vec<SocketAddr>,
    certificate: Arc<Certificate>,
}

impl Web {
    /// Starts the server.
    ///
    /// # Errors
    /// The socket cannot be made, or the system lacks resources. Nothing runs then.
    pub fn start(config: WebConfig) -> Result<Self, StartError> {
        let WebConfig {
            jobs,
            cluster,
            node,
            socket,
            manage,
            certificate,
            unread_max,
            patience,
            pace,
            webhook_networks,
            graphite,
            graphite_every,
            log,
        } = config;
        let shown = Arc::new(Certificate::load(&certificate, Arc::clone(&log))?);
        let tls = tls::server_config(Arc::clone(&shown))?;
        let listener = socket::bind(&socket).map_err(|source| StartError::Socket {
            path: socket.clone(),
            source,
        })?;
        let mut listeners = Vec::with_capacity(manage.len());
        let mut managed = Vec::with_capacity(manage.len());
        let found = godwit_sys::listening::listen(&manage).map_err(|unheard| {
            let godwit_sys::listening::Unheard { address, source } = unheard;
            StartError::Manage { address, source }
        })?;
        for listener in found {
            listener.set_nonblocking(true)?;
            managed.push(listener.local_addr()?);
            listeners.push(listener);
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("gw-web")
            .enable_all()
            .build()?;
        let (stop, stopping) = watch::channel(false);
        let app = App::new(
            jobs,
            cluster,
            node,
            Arc::clone(&log),
            matches!(certificate, CertificateSource::Files { .. }),
            pace,
            stopping.clone(),
        );
        let app = Arc::new(app?);
        let tls = TlsAcceptor::from(Arc::new(tls));
        let router = routes::router(&app);
        let places = Arc::new(Places::new(patience));
        let connections = Connections::new(router, places, tls, unread_max, stopping.clone(), log);
        let entered = runtime.enter();
        let listener = UnixListener::from_std(listener)?;
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            runtime.spawn(server::listen_by_tls(connections.clone(), listener));
        }
        drop(entered);
        runtime.spawn(server::listen(connections.clone(), listener));
        let (own, handle, until) = (Arc::clone(&app), runtime.handle().clone(), stopping.clone());
        runtime.spawn_blocking(move || hub::follow(&own, &handle, until));
        let webhooks = Webhooks {
            app: Arc::clone(&app),
            networks: webhook_networks,
            tls: webhooks::post::tls()?,
        };
        runtime.spawn(webhooks.run(stopping.clone()));
        runtime.spawn(rates::follow(Arc::clone(&app), stopping.clone()));
        if let Some(to) = graphite {
            let pushes = graphite::run(Arc::clone(&app), to, graphite_every, stopping.clone());
            runtime.spawn(pushes);
        }
        runtime.spawn(hub::report_progress(Arc::clone(&app), stopping));
        Ok(Self {
            runtime: Some(runtime),
            app,
            connections,
            stop,
            socket,
            managed,
            certificate: shown,
        })
    }

    /// Where the Unix socket is.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Management addresses, with the ports that were chosen.
    #[must_use]
    pub fn managed(&self) -> &[SocketAddr] {
        &self.managed
    }

    /// SHA-256 of the certificate, in the form that browsers show.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.certificate.fingerprint()
    }

    /// SHA-256 of the key of the certificate, in the same form. It stays when the node renews its own certificate.
    #[must_use]
    pub fn key_fingerprint(&self) -> String {
        self.certificate.key_fingerprint()
    }

    /// Event streams that are open.
    #[must_use]
    pub fn event_streams(&self) -> usize {
        self.app.hub.streams()
    }

    /// Serves a network connection of which nothing was read yet.
    pub fn take(&self, socket: TcpStream) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(self.connections.clone().serve_tls(socket));
        }
    }

    /// Returns a function that does as [`Self::take`], for the acceptor of connections. After the end of the server it closes them.
    #[must_use]
    pub fn taker(&self) -> Arc<dyn Fn(TcpStream) + Send + Sync> {
        let connections = self.connections.clone();
        let handle = self
            .runtime
            .as_ref()
            .map(|runtime| runtime.handle().clone());
        Arc::new(move |socket| {
            if let Some(handle) = &handle {
                handle.spawn(connections.clone().serve_tls(socket));
            }
        })
    }

    /// Returns a function that counts transfers in the figures.
    #[must_use]
    pub fn news_sink(&self) -> Arc<NewsSink> {
        let app = Arc::clone(&self.app);
        Arc::new(move |news: &TransferNews| match news {
            TransferNews::Ended(record) => app.metrics.transferred(record),
            TransferNews::Stranger(did) => app.metrics.stranger(*did),
            TransferNews::Started(_) | TransferNews::Refused(_) => {}
        })
    }

    /// Takes no further connection, waits for requests to end, and then ends. Blocks for a few seconds at most.
    pub fn stop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        // A node that starts meanwhile has made a new socket there.
        let _ = std::fs::remove_file(&self.socket);
        self.stop.send_replace(true);
        runtime.block_on(async {
            // Requests that are not done by then are cut off.
            let _ = tokio::time::timeout(STOP_WITHIN, self.connections.wait_until_empty()).await;
        });
        runtime.shutdown_timeout(STOP_WITHIN);
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The document that describes the API, as JSON text.
#[must_use]
pub fn openapi() -> String {
    routes::document().to_pretty_json().unwrap_or_default()
}
