//! Owns the fuzz target of the manifest file: any file is read or refused, and each result has one form.
//! The check itself is shared with the tests.
#![no_main]

#[path = "../../crates/store/tests/manifest_check/mod.rs"]
mod manifest_check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    manifest_check::check(data);
});
