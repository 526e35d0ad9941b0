//! Owns the fuzz target of the document inside ASK: any bytes are a question or a refusal.
//! The check itself is shared with the tests.
#![no_main]

#[expect(dead_code, reason = "the other targets use the rest")]
#[path = "../../crates/api/tests/documents_check/mod.rs"]
mod documents_check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    documents_check::check_question(data);
});
