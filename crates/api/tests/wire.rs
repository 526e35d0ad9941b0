//! Owns the comparison of `docs/wire.md` with the questions of this crate.
//! Reads no document of ASK.

use std::path::Path;

use godwit_api::ask::QUESTIONS;

#[test]
fn the_protocol_has_a_place_for_each_question() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire.md");
    let text = std::fs::read_to_string(path).expect("the protocol is there");
    let section = text.split("## 16. ").nth(1).expect("it has a section");
    let section = section.split("\n## ").next().expect("it ends");
    for name in QUESTIONS {
        let begins = |line: &str| {
            line.strip_prefix(&format!("`{name}` "))
                .is_some_and(|rest| rest.starts_with('|') || rest.starts_with("is a question"))
        };
        assert!(section.lines().any(begins), "{name} is not described");
    }
}
