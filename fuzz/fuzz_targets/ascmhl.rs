//! Owns the fuzz target of ASC MHL histories: any file is read or refused, and no name leads out of its directory.
//! The check itself is shared with the tests.
#![no_main]

#[path = "../../crates/mhl/tests/history_check/mod.rs"]
mod history_check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    history_check::check(data);
});
