//! Owns the fuzz target of the prelude: whatever is accepted encodes to the same bytes.
//! The check itself is shared with the tests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| godwit_fuzz::check_prelude(data));
