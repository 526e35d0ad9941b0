//! Owns the checks that hold for any bytes as a journal. Shared by the fuzz target and the test that replays its corpus.
//! Does not choose the bytes.

use std::io::Cursor;

use godwit_store::journal::{Recovered, ReplayError, replay};

/// Replays any `bytes`: the recorded ranges add up, and the contents of whole records stay when a partial record follows.
pub(crate) fn check(bytes: &[u8]) -> Option<Recovered> {
    let recovered = match replay(Cursor::new(bytes)) {
        Ok(recovered) => recovered,
        Err(ReplayError::Header) => return None,
        Err(ReplayError::Read(error)) => panic!("memory cannot fail: {error}"),
    };
    assert!(recovered.resumed);
    let partial: u128 = recovered
        .partial
        .values()
        .map(|partial| u128::from(partial.digest.covered()))
        .sum();
    assert!(u128::from(recovered.vouched_bytes) >= partial.min(u128::from(u64::MAX)));
    for partial in recovered.partial.values() {
        assert_eq!(partial.digest.kind(), recovered.header.digest);
    }
    if recovered.damage.is_some() {
        return Some(recovered); // more bytes could complete a torn record
    }
    let mut longer = bytes.to_vec();
    longer.extend_from_slice(&[0; 7]);
    let again = replay(Cursor::new(&longer)).expect("the header is as good as before");
    assert!(again.damage.is_some(), "seven bytes are no record");
    assert_eq!(again.header, recovered.header);
    assert_eq!(again.done, recovered.done);
    assert_eq!(again.partial, recovered.partial);
    assert_eq!(again.received_bytes, recovered.received_bytes);
    Some(recovered)
}
