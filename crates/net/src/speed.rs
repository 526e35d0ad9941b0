//! Measures how fast one core of this machine seals records, as a stream does. Sends nothing.

use std::time::Duration;

use crate::aead::{Library, library};
use crate::buffer::OutBuffer;
use crate::identity::Identity;
use crate::limits::{RECORD_PLAIN_BYTES, SEAL_BYTES};
use crate::session::Session;
use crate::tls::{Cipher, ClientTls, Expect, ServerTls};

/// Bytes a second that one core seals with `cipher`, measured for about `time` of `clock`; `None` if it cannot be
/// measured. A clock of the thread's processor time excludes time that other programs use.
#[must_use]
pub fn seal_rate(cipher: Cipher, time: Duration, clock: fn() -> Duration) -> Option<u64> {
    seal_rate_of(library(), cipher, time, clock)
}

/// The rate of [`seal_rate`] with the ciphers of a given library.
#[must_use]
pub fn seal_rate_of(
    library: Library,
    cipher: Cipher,
    time: Duration,
    clock: fn() -> Duration,
) -> Option<u64> {
    let [mut session, _] = shake_hands([library; 2], cipher)?;
    let mut out = OutBuffer::default();
    let plain = [5; SEAL_BYTES];
    let started = clock();
    let mut bytes = 0;
    loop {
        out.clear();
        session.seal(&plain, &mut out).ok()?;
        std::hint::black_box(out.filled());
        bytes += plain.len() as u128;
        let elapsed = clock().saturating_sub(started);
        if elapsed >= time {
            return u64::try_from(bytes * 1_000_000 / elapsed.as_micros().max(1)).ok();
        }
    }
}

/// The sessions of a client and a server, by the libraries of each, after their handshake.
pub(crate) fn shake_hands(libraries: [Library; 2], cipher: Cipher) -> Option<[Session; 2]> {
    let identity = Identity::ephemeral().ok()?;
    let client = ClientTls::by(libraries[0], &identity, &[cipher]).ok()?;
    let server = ServerTls::by(libraries[1], &identity, &[cipher]).ok()?;
    let records_max = u64::MAX / RECORD_PLAIN_BYTES as u64;
    let mut client = Session::client(client.connect(Expect::Anyone).ok()?.0, records_max);
    let mut server = Session::server(server.connection().ok()?, records_max);
    let mut out = OutBuffer::default();
    client.open(&mut [], &mut out, &mut |_| {}).ok()?;
    let (_, flight) = answer(&mut server, &out)?;
    let (ready, finished) = answer(&mut client, &flight)?;
    let (done, _) = answer(&mut server, &finished)?;
    (ready && done).then_some([client, server])
}

/// Passes records to the session; returns whether the session is ready, and its answer.
fn answer(session: &mut Session, records: &OutBuffer) -> Option<(bool, OutBuffer)> {
    let mut out = OutBuffer::default();
    let mut records = records.filled().to_vec();
    let mut rest = &mut records[..];
    let mut ready = false;
    while !rest.is_empty() {
        let opened = session.open(rest, &mut out, &mut |_| {}).ok()?;
        ready = opened.traffic;
        if opened.used == 0 {
            break;
        }
        rest = &mut rest[opened.used..];
    }
    Some((ready, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    thread_local! {
        static BEGIN: Instant = Instant::now();
    }

    fn clock() -> Duration {
        BEGIN.with(Instant::elapsed)
    }

    #[test]
    fn every_cipher_of_every_library_has_a_rate() {
        for library in Library::ALL {
            for cipher in Cipher::ALL {
                let rate = seal_rate_of(library, cipher, Duration::from_millis(1), clock);
                let is_rate = rate.is_some_and(|rate| rate > 0);
                assert!(is_rate, "{library} {cipher:?}: {rate:?}");
            }
        }
    }
}
