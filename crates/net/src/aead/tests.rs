//! Tests of the table of processors, and of the equality of both libraries' records. Opens no socket.

use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, OutboundChunks, OutboundPlainMessage,
};
use rustls::{ContentType, ProtocolVersion};

use super::*;
use crate::buffer::OutBuffer;
use crate::limits::RECORD_PLAIN_BYTES;
use crate::speed::shake_hands;

#[test]
fn the_table_has_a_row_for_each_processor() {
    for (aes, vaes, avx512, library, first) in [
        (true, true, true, Library::AwsLc, Cipher::Aes128Gcm),
        (true, true, false, Library::Ring, Cipher::Aes128Gcm),
        (true, false, false, Library::AwsLc, Cipher::Aes128Gcm),
        (
            false,
            false,
            false,
            Library::AwsLc,
            Cipher::ChaCha20Poly1305,
        ),
        // An unknown processor is judged by its missing instructions.
        (false, true, true, Library::AwsLc, Cipher::ChaCha20Poly1305),
    ] {
        let row = row_for(Features { aes, vaes, avx512 });
        assert_eq!((row.library, row.ciphers[0]), (library, first));
        assert!(
            Cipher::ALL
                .iter()
                .all(|cipher| row.ciphers.contains(cipher))
        );
    }
}

/// The record of `plain` with a key of sevens and a nonce of nines.
fn sealed(library: Library, cipher: Cipher, plain: &[u8], sequence: u64) -> Vec<u8> {
    let aead = library.suite(cipher).tls13().expect("of TLS 1.3").aead_alg;
    let message = OutboundPlainMessage {
        typ: ContentType::ApplicationData,
        version: ProtocolVersion::TLSv1_3,
        payload: OutboundChunks::Single(plain),
    };
    let mut encrypter = aead.encrypter(AeadKey::from([7; 32]), Iv::from([9; 12]));
    let record = encrypter.encrypt(message, sequence).expect("sealed");
    record.encode()
}

fn opened(library: Library, cipher: Cipher, record: &[u8], sequence: u64) -> Option<Vec<u8>> {
    let aead = library.suite(cipher).tls13().expect("of TLS 1.3").aead_alg;
    let mut payload = record[5..].to_vec();
    let message = InboundOpaqueMessage::new(
        ContentType::ApplicationData,
        ProtocolVersion::TLSv1_2,
        &mut payload,
    );
    let mut decrypter = aead.decrypter(AeadKey::from([7; 32]), Iv::from([9; 12]));
    let plain = decrypter.decrypt(message, sequence).ok()?;
    Some(plain.payload.to_vec())
}

/// AES-128 needs a shorter key; the handshakes of `both_libraries_talk_to_each_other` test it.
const OF_32_BYTES: [Cipher; 2] = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

#[test]
fn both_libraries_give_the_same_bytes() {
    let plain: Vec<u8> = (0..u32::try_from(RECORD_PLAIN_BYTES).expect("a record is small"))
        .map(|at| (at % 251) as u8)
        .collect();
    // Lengths around which the assembly code changes its loop.
    let lengths = (0..600).chain([1023, 1024, 4095, 4097, RECORD_PLAIN_BYTES]);
    for length in lengths {
        for cipher in OF_32_BYTES {
            let plain = &plain[..length];
            let sequence = length as u64 * 0x1_0000_0001;
            let ours = sealed(Library::AwsLc, cipher, plain, sequence);
            assert_eq!(
                ours,
                sealed(Library::Ring, cipher, plain, sequence),
                "{cipher} {length}"
            );
            for library in Library::ALL {
                let back = opened(library, cipher, &ours, sequence);
                assert_eq!(back.as_deref(), Some(plain), "{library} {cipher} {length}");
                let mut bad = ours.clone();
                *bad.last_mut().expect("has a tag") ^= 1;
                assert_eq!(opened(library, cipher, &bad, sequence), None);
            }
        }
    }
}

#[test]
fn records_are_those_of_a_third_implementation() {
    for library in Library::ALL {
        for (cipher, known) in KNOWN {
            let record = sealed(library, cipher, b"godwit", 5);
            let hex: String = record.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, known, "{library} {cipher}");
        }
    }
}

/// From Python's `cryptography`: the key is 32 sevens, the nonce 12 nines XOR 5, the content `godwit` and
/// 0x17.
const KNOWN: [(Cipher, &str); 2] = [
    (
        Cipher::Aes256Gcm,
        "17030300176937242e9d16280788226de9f12cdf5de61fffbacdbedd",
    ),
    (
        Cipher::ChaCha20Poly1305,
        "170303001753a6eff102ea72ff0fd9df730dc046fb610453667ad5df",
    ),
];

/// Uses the keys of real handshakes, including AES-128.
#[test]
fn both_libraries_talk_to_each_other() {
    let plain: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    for cipher in Cipher::ALL {
        for libraries in [
            [Library::AwsLc, Library::Ring],
            [Library::Ring, Library::AwsLc],
        ] {
            let mut sessions = shake_hands(libraries, cipher).expect("shaken hands");
            for _ in 0..2 {
                let [from, to] = &mut sessions;
                let (mut out, mut answer) = (OutBuffer::default(), OutBuffer::default());
                from.seal(&plain, &mut out).expect("sealed");
                let mut records = out.filled().to_vec();
                let mut got = Vec::new();
                let mut take = |bytes: &[u8]| got.extend_from_slice(bytes);
                let opened = to.open(&mut records, &mut answer, &mut take);
                assert_eq!(opened.expect("opened").used, out.filled().len());
                assert!(got == plain, "{libraries:?} {cipher}");
                sessions.reverse();
            }
        }
    }
}
