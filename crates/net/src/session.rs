//! Owns one TLS session on top of the unbuffered API: sealing, opening, key updates, orderly close. Does no IO:
//! bytes in, bytes out.

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
    /// Bytes of the last input that rustls still refers to, and that the caller must pass again. After a failure it
    /// is more than any input has. rustls panics over any other input.
    held: usize,
}

enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// Result of a call of [`Session::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Bytes of the input that are consumed.
    pub(crate) used: usize,
    /// The handshake has ended: application data may be sent.
    pub(crate) traffic: bool,
    /// The peer announced the end of its stream.
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
            held: 0,
        }
    }

    /// Processes whole records; application data is written to `sink`, messages of TLS are appended to `out`.
    ///
    /// The caller must pass unused bytes again at the front of the next input. After an error only `out` is valid.
    pub(crate) fn open(
        &mut self,
        records: &mut [u8],
        out: &mut OutBuffer,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Opened, Error> {
        let given = records.len();
        if given < self.held {
            return Err(failed_before());
        }
        let opened = match &mut self.side {
            Side::Client(connection) => open(connection, records, out, sink),
            Side::Server(connection) => open(connection, records, out, sink),
        };
        self.held = opened
            .as_ref()
            .map_or(usize::MAX, |opened| given - opened.used);
        opened
    }

    /// Encrypts `plain` to the end of `out`; keys that have sealed enough records are replaced first.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut OutBuffer) -> Result<(), Error> {
        self.check_usable()?;
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

    /// Appends the alert that announces the end of this stream.
    pub(crate) fn close(&mut self, out: &mut OutBuffer) -> Result<(), Error> {
        self.check_usable()?;
        match &mut self.side {
            Side::Client(connection) => close(connection, out),
            Side::Server(connection) => close(connection, out),
        }
    }

    fn check_usable(&self) -> Result<(), Error> {
        if self.held > 0 {
            return Err(failed_before());
        }
        Ok(())
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

/// The methods that rustls has for each of its two sides.
trait Unbuffered {
    type Data;

    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8])
    -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Whether a message is queued to be encoded; the next call of `process` returns it and reads no input.
    fn wants_write(&self) -> bool;
}

impl Unbuffered for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
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

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
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
            // The content of `out` is sent before anything sealed later.
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

/// Collects, after a failure, the alert that informs the peer of the reason, if rustls has one.
///
/// Takes only queued messages: otherwise rustls would process the input again, which it must not.
fn collect_alert<C: Unbuffered>(connection: &mut C, out: &mut OutBuffer) {
    while connection.wants_write() {
        let Ok(ConnectionState::EncodeTlsData(mut data)) = connection.process(&mut []).state else {
            return;
        };
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

fn failed_before() -> Error {
    Error::General("the session has failed, or is in the middle of a message".into())
}

/// Size of `plain_bytes` on the wire, with room for preceding key updates.
fn sealed_bytes_max(plain_bytes: usize) -> usize {
    plain_bytes + (plain_bytes / RECORD_PLAIN_BYTES + 1) * RECORD_OVERHEAD_BYTES + CONTROL_BYTES
}

/// Room for alerts, key updates and the small messages of the handshake; larger ones request more.
const CONTROL_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{InBuffer, Record};
    use crate::identity::Identity;
    use crate::tls::{ClientTls, Expect, ServerTls};
    use proptest::prelude::*;
    use std::sync::OnceLock;

    fn tls() -> &'static (ClientTls, ServerTls) {
        static TLS: OnceLock<(ClientTls, ServerTls)> = OnceLock::new();
        TLS.get_or_init(|| {
            let home = tempfile::tempdir().unwrap();
            let identity = Identity::load_or_create(home.path()).unwrap();
            (
                ClientTls::new(&identity, &[]).unwrap(),
                ServerTls::new(&identity, &[]).unwrap(),
            )
        })
    }

    fn sessions() -> (Session, Session) {
        let (client, server) = tls();
        let (client, _) = client.connect(Expect::Anyone).unwrap();
        (
            Session::client(client, 10),
            Session::server(server.connection().unwrap(), 10),
        )
    }

    /// Passes whole records to the session, as the handshake does; returns the session's answer, and whether it is
    /// ready.
    fn feed(session: &mut Session, bytes: &[u8]) -> Result<(Vec<u8>, bool), Error> {
        let mut incoming = InBuffer::new();
        incoming.room()[..bytes.len()].copy_from_slice(bytes);
        incoming.commit(bytes.len());
        let mut out = OutBuffer::default();
        let mut fed = 0;
        loop {
            let opened = session.open(incoming.front_mut(fed), &mut out, &mut |_| {})?;
            incoming.consume(opened.used);
            fed -= opened.used;
            match incoming.record(fed) {
                Record::Whole(bytes) => fed += bytes,
                _ => return Ok((out.filled().to_vec(), opened.traffic)),
            }
        }
    }

    fn touched(mut bytes: Vec<u8>, touch: Option<(usize, u8)>) -> Vec<u8> {
        if let Some((place, with)) = touch {
            let place = place % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= with;
            }
        }
        bytes
    }

    #[test]
    fn an_untouched_handshake_succeeds() {
        let (mut client, mut server) = sessions();
        let (hello, _) = feed(&mut client, &[]).unwrap();
        let (answer, _) = feed(&mut server, &hello).unwrap();
        let (finished, ready) = feed(&mut client, &answer).unwrap();
        assert!(ready);
        assert!(feed(&mut server, &finished).unwrap().1);
        let mut out = OutBuffer::default();
        assert!(client.seal(b"hello", &mut out).is_ok());
        assert!(feed(&mut server, out.filled()).is_ok());
    }

    #[test]
    fn a_session_that_holds_half_a_message_is_of_no_further_use() {
        let (mut client, mut server) = sessions();
        let (hello, _) = feed(&mut client, &[]).unwrap();
        // The hello is cut into two records, of which only the first is sent.
        let half = u16::try_from(hello.len() / 2).unwrap();
        let mut record = hello[..3].to_vec();
        record.extend_from_slice(&half.to_be_bytes());
        record.extend_from_slice(&hello[5..5 + usize::from(half)]);
        assert!(!feed(&mut server, &record).unwrap().1);
        let mut out = OutBuffer::default();
        assert!(server.seal(b"x", &mut out).is_err());
        assert!(server.close(&mut out).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Neither side panics, even if any bytes are changed in transit and any function is called afterwards.
        #[test]
        fn a_touched_handshake_panics_nowhere(
            flight in 0_usize..3,
            place in 0_usize..4096,
            with in 1_u8..,
            cut in prop::option::of(0_usize..4096),
        ) {
            let touch = |number: usize, bytes: Vec<u8>| {
                let mut bytes = touched(bytes, (number == flight).then_some((place, with)));
                if let (true, Some(cut)) = (number == flight, cut) {
                    bytes.truncate(cut);
                }
                bytes
            };
            let (mut client, mut server) = sessions();
            let mut run = || -> Result<(), Error> {
                let (hello, _) = feed(&mut client, &[])?;
                let (answer, _) = feed(&mut server, &touch(0, hello))?;
                let (finished, _) = feed(&mut client, &touch(1, answer))?;
                feed(&mut server, &touch(2, finished))?;
                Ok(())
            };
            let _ = run();
            let mut out = OutBuffer::default();
            let _ = client.seal(b"x", &mut out);
            let _ = client.close(&mut out);
            let _ = server.seal(b"x", &mut out);
            let _ = server.close(&mut out);
        }
    }
}
