//! Owns the TLS of the bare pipes: rustls without its buffers; frames are encrypted and records decrypted one at a time. Does not
//! authenticate the sender, and trusts only the certificate that the receiver made for this run.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite::TLS13_AES_256_GCM_SHA384};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{ClientConfig, RootCertStore, ServerConfig, version::TLS13};

use super::link::Link;

/// The name in the certificate; it is never resolved.
const SERVER_NAME: &str = "pipe.invalid";
/// The header of every TLS record: type, version, length.
const RECORD_HEADER_BYTES: usize = 5;
/// Payload of a full TLS record.
const RECORD_PAYLOAD_BYTES: usize = 16 << 10;
/// Header, inner content type and tag of a record, rounded up.
const RECORD_OVERHEAD_BYTES: usize = 32;
/// Space for handshake messages, a key update, or an alert.
const HANDSHAKE_BYTES: usize = 16 << 10;

/// The configuration of a receiver: makes a key and a certificate, and writes the certificate to the file `certificate`.
pub(crate) fn server(certificate: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])
        .context("cannot make a certificate")?;
    let der = made.cert.der().clone();
    std::fs::write(certificate, &der).with_context(|| format!("cannot write {certificate:?}"))?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|reason| anyhow!("cannot use the key: {reason}"))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![der], key)?;
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The configuration of a sender that trusts the receiver's `certificate`.
pub(crate) fn client(certificate: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    let der = std::fs::read(certificate).with_context(|| format!("cannot read {certificate:?}"))?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(der))?;
    Ok(Arc::new(
        ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth(),
    ))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![TLS13_AES_256_GCM_SHA384],
        ..aws_lc_rs::default_provider()
    })
}

/// Connects as the sending end and performs the handshake.
pub(crate) fn dial(
    socket: TcpStream,
    config: Arc<ClientConfig>,
    block_bytes: usize,
) -> anyhow::Result<TlsLink<UnbufferedClientConnection>> {
    let name = ServerName::try_from(SERVER_NAME)?;
    TlsLink::open(
        UnbufferedClientConnection::new(config, name)?,
        socket,
        block_bytes,
    )
}

/// Accepts as the receiving end and performs the handshake.
pub(crate) fn accept(
    socket: TcpStream,
    config: Arc<ServerConfig>,
    block_bytes: usize,
) -> anyhow::Result<TlsLink<UnbufferedServerConnection>> {
    TlsLink::open(
        UnbufferedServerConnection::new(config)?,
        socket,
        block_bytes,
    )
}

/// Common interface of the two unbuffered connections of rustls.
pub(crate) trait Connection: Send {
    type Data;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Connection for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Connection for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

/// Result of one call to the connection.
enum Step {
    /// The call made progress; call again.
    Again,
    /// The connection needs another whole record.
    Starved,
    /// The connection may send and receive.
    Ready,
    /// Number of decrypted bytes that were copied; the rest is in `left_over`.
    Plain(usize),
    /// The peer has closed the connection in order.
    Ended,
}

/// One TLS connection with its two reused buffers.
pub(crate) struct TlsLink<C> {
    connection: C,
    socket: TcpStream,
    /// Received ciphertext that is not yet decrypted: `incoming[start..end]`.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    outgoing: Vec<u8>,
    /// Number of handshake bytes in `outgoing` that wait to be sent.
    queued: usize,
    /// Decrypted bytes that did not fit into the last receiver's buffer.
    left_over: Vec<u8>,
    /// The peer has closed the connection in order.
    ended: bool,
}

impl<C: Connection> TlsLink<C> {
    fn open(connection: C, socket: TcpStream, block_bytes: usize) -> anyhow::Result<Self> {
        // The records of a frame may make it longer than the block; the rest is overhead of TLS.
        let plain = block_bytes + super::wire::FRAME_EXTRA_BYTES;
        let sealed =
            plain + (plain / RECORD_PAYLOAD_BYTES + 1) * RECORD_OVERHEAD_BYTES + HANDSHAKE_BYTES;
        let mut link = Self {
            connection,
            socket,
            incoming: vec![0; sealed],
            start: 0,
            end: 0,
            outgoing: vec![0; sealed],
            queued: 0,
            left_over: Vec::new(),
            ended: false,
        };
        loop {
            match link.step(&mut [])? {
                Step::Again => {}
                Step::Starved => link.fill()?,
                Step::Ready => return Ok(link),
                Step::Plain(_) | Step::Ended => bail!("data before the end of the handshake"),
            }
        }
    }

    /// The length of the first whole record in `incoming`; 0 if there is none.
    fn record_bytes(&self) -> usize {
        let received = &self.incoming[self.start..self.end];
        let [_, _, _, high, low, ..] = *received else {
            return 0;
        };
        let whole = RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
        if received.len() < whole { 0 } else { whole }
    }

    /// Moves the remaining bytes to the front, and receives once more.
    fn fill(&mut self) -> anyhow::Result<()> {
        self.incoming.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let more = self
            .socket
            .read(&mut self.incoming[self.end..])
            .context("cannot receive")?;
        if more == 0 {
            bail!("the connection ended without a TLS close");
        }
        self.end += more;
        Ok(())
    }

    /// Passes one record, or none, to rustls and carries out its request. Passes one record at a time, because rustls would otherwise
    /// decrypt additional records and keep them.
    fn step(&mut self, into: &mut [u8]) -> anyhow::Result<Step> {
        let record = self.start..self.start + self.record_bytes();
        let empty = record.is_empty();
        let UnbufferedStatus { discard, state, .. } =
            self.connection.process(&mut self.incoming[record]);
        let step = match state.context("TLS")? {
            ConnectionState::EncodeTlsData(mut data) => {
                let written = data
                    .encode(&mut self.outgoing[self.queued..])
                    .context("handshake longer than its buffer")?;
                self.queued += written;
                Step::Again
            }
            ConnectionState::TransmitTlsData(data) => {
                self.socket
                    .write_all(&self.outgoing[..self.queued])
                    .context("cannot send")?;
                self.queued = 0;
                data.done();
                Step::Again
            }
            ConnectionState::ReadTraffic(mut traffic) => {
                let mut copied = 0;
                while let Some(record) = traffic.next_record() {
                    let payload = record.context("TLS")?.payload;
                    let fits = payload.len().min(into.len() - copied);
                    into[copied..copied + fits].copy_from_slice(&payload[..fits]);
                    copied += fits;
                    self.left_over.extend_from_slice(&payload[fits..]);
                }
                Step::Plain(copied)
            }
            ConnectionState::PeerClosed | ConnectionState::Closed => Step::Ended,
            ConnectionState::WriteTraffic(_) => Step::Ready,
            ConnectionState::BlockedHandshake if empty => Step::Starved,
            ConnectionState::BlockedHandshake => Step::Again,
            other => bail!("unexpected state of TLS: {other:?}"),
        };
        self.start += discard;
        Ok(step)
    }
}

impl<C: Connection> Link for TlsLink<C> {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let UnbufferedStatus { state, .. } = self.connection.process(&mut []);
        let ConnectionState::WriteTraffic(mut traffic) = state.context("TLS")? else {
            bail!("TLS does not let us send");
        };
        let sealed = traffic
            .encrypt(bytes, &mut self.outgoing)
            .context("cannot encrypt")?;
        self.socket
            .write_all(&self.outgoing[..sealed])
            .context("cannot send")
    }

    fn receive_some(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
        if !self.left_over.is_empty() {
            let fits = self.left_over.len().min(into.len());
            into[..fits].copy_from_slice(&self.left_over[..fits]);
            self.left_over.drain(..fits);
            return Ok(fits);
        }
        // One call decrypts all received whole records that fit.
        let mut copied = 0;
        while !self.ended {
            if self.record_bytes() == 0 {
                if copied > 0 {
                    return Ok(copied);
                }
                self.fill()?;
                continue;
            }
            match self.step(&mut into[copied..])? {
                Step::Plain(more) => copied += more,
                Step::Ended => self.ended = true,
                Step::Again | Step::Ready | Step::Starved => {}
            }
            if copied == into.len() || !self.left_over.is_empty() {
                break;
            }
        }
        Ok(copied)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let UnbufferedStatus { state, .. } = self.connection.process(&mut []);
        if let ConnectionState::WriteTraffic(mut traffic) = state.context("TLS")? {
            let sealed = traffic
                .queue_close_notify(&mut self.outgoing)
                .context("cannot encrypt")?;
            self.socket
                .write_all(&self.outgoing[..sealed])
                .context("cannot send")?;
        }
        self.socket
            .shutdown(Shutdown::Write)
            .context("cannot shut down")
    }
}
