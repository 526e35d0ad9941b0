//! Prints how fast one core seals records with each library and cipher, in turns: `seal [ROUNDS]`.
//! OPENSSL_ia32cap makes aws-lc ignore instructions; ring and the CRC do not read that variable.

#![expect(clippy::print_stdout, reason = "it prints figures")]

use std::time::Duration;

use godwit_net::aead::{Features, Library, library};
use godwit_net::{Cipher, seal_rate_of};
use rustix::time::{ClockId, clock_gettime};

/// Processor time, so that other programs do not count.
fn clock() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)) + Duration::from_nanos(nanos)
}

fn main() {
    let rounds: u32 = std::env::args()
        .nth(1)
        .map_or(3, |word| word.parse().expect("a number of rounds"));
    let has = Features::of_this_processor();
    println!("# {has:?}, chosen: {}", library());
    println!("round\tlibrary\tcipher\tMB/s");
    for round in 0..rounds {
        for cipher in Cipher::ALL {
            for library in Library::ALL {
                let rate = seal_rate_of(library, cipher, Duration::from_millis(200), clock);
                println!(
                    "{round}\t{library}\t{cipher}\t{}",
                    rate.unwrap_or(0) / 1_000_000
                );
            }
        }
    }
}
