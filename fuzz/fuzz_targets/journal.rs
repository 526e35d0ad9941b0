//! Owns the fuzz target of the journal: any file loads or is refused, and the vouched ranges add up.
//! The check itself is shared with the tests. Checksums are not compared here, or no change would get past them.
#![no_main]

#[path = "../../crates/store/tests/journal_check/mod.rs"]
mod journal_check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    journal_check::check(data);
});
