//! Owns the fuzz target of the ssh messages before frames: any bytes hold a message or none, however they are cut.
//! The check itself is shared with the tests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| godwit_fuzz::check_agent(data));
