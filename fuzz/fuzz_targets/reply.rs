//! Owns the fuzz target of the REPLY frame: whatever head is accepted has one encoding.
//! The check itself is shared with the tests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| godwit_fuzz::check(godwit_fuzz::FrameKind::REPLY, data));
