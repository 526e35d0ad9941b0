//! Owns a measurement: how fast one core of this machine seals records.
//! Sends nothing.

use std::time::Duration;

use rustls::crypto::cipher::{AeadKey, Iv, OutboundChunks, OutboundPlainMessage};
use rustls::{ContentType, ProtocolVersion};

use crate::limits::RECORD_PLAIN_BYTES;
use crate::tls::Cipher;

/// Bytes a second that one core seals with `cipher`, measured for about `time` of `clock`; `None` where it cannot be
/// measured. A clock of the thread's processor time leaves out what others made it wait.
#[must_use]
pub fn seal_rate(cipher: Cipher, time: Duration, clock: fn() -> Duration) -> Option<u64> {
    // Its key cannot be given from outside; it is a little faster than the one of 256 bits.
    let cipher = match cipher {
        Cipher::Aes128Gcm => Cipher::Aes256Gcm,
        other => other,
    };
    let suite = cipher.suite().tls13()?;
    let mut encrypter = suite
        .aead_alg
        .encrypter(AeadKey::from([7; 32]), Iv::from([9; 12]));
    let plain = [5; RECORD_PLAIN_BYTES];
    let started = clock();
    let mut records = 0;
    loop {
        let message = OutboundPlainMessage {
            typ: ContentType::ApplicationData,
            version: ProtocolVersion::TLSv1_3,
            payload: OutboundChunks::Single(&plain),
        };
        std::hint::black_box(encrypter.encrypt(message, records).ok()?);
        records += 1;
        let elapsed = clock().saturating_sub(started);
        if elapsed >= time {
            let bytes = u128::from(records) * RECORD_PLAIN_BYTES as u128;
            return u64::try_from(bytes * 1_000_000 / elapsed.as_micros().max(1)).ok();
        }
    }
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
    fn every_cipher_has_a_rate() {
        for cipher in Cipher::ALL {
            let rate = seal_rate(cipher, Duration::from_millis(1), clock);
            assert!(rate.is_some_and(|rate| rate > 0), "{cipher:?}: {rate:?}");
        }
    }
}
