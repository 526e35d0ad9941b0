//! Owns one TLS session on top of the unbuffered API: sealing, opening, key updates, orderly close.
//! Touches no socket; bytes in, bytes out.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error};

use crate::buffer::OutBuffer;
use crate::limits::{RECORD_OVERHEAD_BYTES, RECORD_PLAIN_BYTES};

/// One end of a TLS connection, either side.
pub(crate) struct Session {
    side: Side,
    /// Records sealed since the keys were last replaced.
    records: u64,
    records_max: u64,
    key_updates: u64,
}

enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// What became of the bytes given to [`Session::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Bytes of the input that are done with.
    pub(crate) used: usize,
    /// Application data may be sent: the handshake is over.
    pub(crate) traffic: bool,
    /// The peer said that nothing follows.
    pub(crate) closed: bool,
}

impl Session {
    pub(crate) fn client(connection: UnbufferedClientConnection, records_max: u64) -> Self {
        Self::new(Side::Client(connection), records_max)
    }

    pub(crate) fn server(connection: UnbufferedServerConnection, records_max: u64) -> Self {
        Self::new(Side::Server(connection), records_max)
    }

    fn new(side: Side, records_max: u64) -> Self {
        Self {
            side,
            records: 0,
            records_max,
            key_updates: 0,
        }
    }

    /// Processes whole records; application data goes to `sink`, what TLS itself has to say is appended to `out`.
    pub(crate) fn open(
        &mut self,
        records: &mut [u8],
        out: &mut OutBuffer,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Opened, Error> {
        match &mut self.side {
            Side::Client(connection) => open(connection, records, out, sink),
            Side::Server(connection) => open(connection, records, out, sink),
        }
    }

    /// Encrypts `plain` to the end of `out`, replacing the keys first when they have sealed enough.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut OutBuffer) -> Result<(), Error> {
        let rekey = self.records >= self.records_max;
        if rekey {
            self.records = 0;
            self.key_updates += 1;
        }
        self.records += plain.len().div_ceil(RECORD_PLAIN_BYTES) as u64;
        match &mut self.side {
            Side::Client(connection) => seal(connection, plain, rekey, out),
            Side::Server(connection) => seal(connection, plain, rekey, out),
        }
    }

    /// Appends the alert that tells the peer that nothing follows.
    pub(crate) fn close(&mut self, out: &mut OutBuffer) -> Result<(), Error> {
        match &mut self.side {
            Side::Client(connection) => close(connection, out),
            Side::Server(connection) => close(connection, out),
        }
    }

    pub(crate) fn key_updates(&self) -> u64 {
        self.key_updates
    }

    pub(crate) fn state(&self) -> &CommonState {
        match &self.side {
            Side::Client(connection) => connection,
            Side::Server(connection) => connection,
        }
    }
}

/// The one call that rustls has twice, for its two sides.
trait Unbuffered {
    type Data;

    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8])
    -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Unbuffered for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }
}

impl Unbuffered for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }
}

fn open<C: Unbuffered>(
    connection: &mut C,
    records: &mut [u8],
    out: &mut OutBuffer,
    sink: &mut dyn FnMut(&[u8]),
) -> Result<Opened, Error> {
    let mut opened = Opened {
        used: 0,
        traffic: false,
        closed: false,
    };
    loop {
        let status = connection.process(&mut records[opened.used..]);
        let mut discard = status.discard;
        let mut quiet = false;
        match status.state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    sink(record.payload);
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(out, |room| data.encode(room))?,
            // Whatever is in `out` leaves before anything sealed later.
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed) => opened.closed = true,
            Ok(ConnectionState::Closed) => {
                opened.closed = true;
                quiet = true;
            }
            Ok(ConnectionState::WriteTraffic(_)) => {
                opened.traffic = true;
                quiet = true;
            }
            Ok(ConnectionState::BlockedHandshake) => quiet = true,
            Ok(_) => return Err(Error::General("unexpected early data".into())),
            Err(error) => {
                collect_alert(connection, out);
                return Err(error);
            }
        }
        opened.used += discard;
        if quiet {
            return Ok(opened);
        }
    }
}

fn seal<C: Unbuffered>(
    connection: &mut C,
    plain: &[u8],
    mut rekey: bool,
    out: &mut OutBuffer,
) -> Result<(), Error> {
    let mut room_bytes = sealed_bytes_max(plain.len());
    loop {
        match connection.process(&mut []).state? {
            ConnectionState::EncodeTlsData(mut data) => encode(out, |room| data.encode(room))?,
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::PeerClosed => {}
            ConnectionState::WriteTraffic(traffic) if rekey => {
                rekey = false;
                traffic.refresh_traffic_keys()?;
            }
            ConnectionState::WriteTraffic(mut traffic) => {
                match traffic.encrypt(plain, out.room(room_bytes)) {
                    Ok(sealed) => {
                        out.commit(sealed);
                        return Ok(());
                    }
                    Err(EncryptError::InsufficientSize(size)) => room_bytes = size.required_size,
                    Err(EncryptError::EncryptExhausted) => return Err(Error::EncryptError),
                }
            }
            _ => return Err(Error::HandshakeNotComplete),
        }
    }
}

fn close<C: Unbuffered>(connection: &mut C, out: &mut OutBuffer) -> Result<(), Error> {
    loop {
        match connection.process(&mut []).state? {
            ConnectionState::EncodeTlsData(mut data) => encode(out, |room| data.encode(room))?,
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::PeerClosed => {}
            ConnectionState::WriteTraffic(mut traffic) => {
                match traffic.queue_close_notify(out.room(CONTROL_BYTES)) {
                    Ok(sealed) => out.commit(sealed),
                    Err(_) => return Err(Error::EncryptError),
                }
                return Ok(());
            }
            _ => return Ok(()),
        }
    }
}

/// After a failure: the alert that tells the peer why, if rustls has one.
fn collect_alert<C: Unbuffered>(connection: &mut C, out: &mut OutBuffer) {
    while let Ok(ConnectionState::EncodeTlsData(mut data)) = connection.process(&mut []).state {
        if encode(out, |room| data.encode(room)).is_err() {
            return;
        }
    }
}

fn encode(
    out: &mut OutBuffer,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), Error> {
    let mut room_bytes = CONTROL_BYTES;
    loop {
        match encode(out.room(room_bytes)) {
            Ok(encoded) => {
                out.commit(encoded);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(size)) => room_bytes = size.required_size,
            Err(error) => return Err(Error::General(error.to_string())),
        }
    }
}

/// Bytes that `plain_bytes` take on the wire, with room for key updates that go before them.
fn sealed_bytes_max(plain_bytes: usize) -> usize {
    plain_bytes + (plain_bytes / RECORD_PLAIN_BYTES + 1) * RECORD_OVERHEAD_BYTES + CONTROL_BYTES
}

/// Room for alerts, key updates and the small messages of the handshake; larger ones ask for more.
const CONTROL_BYTES: usize = 256;
