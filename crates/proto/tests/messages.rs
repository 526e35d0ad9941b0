//! Compares `docs/wire.proto` with the messages of this crate: names, numbers, types and labels must be equal. Does
//! not encode; the golden vectors do.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// For each message its fields by number, each in the form of a `.proto` file: `repeated bytes tokens`.
type Messages = BTreeMap<String, BTreeMap<u32, String>>;

#[test]
fn the_document_has_the_messages_of_the_crate() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(here.join("../../docs/wire.proto")).unwrap();
    let mut crate_has = Messages::new();
    read_directory(&here.join("src"), &mut crate_has);
    let document_has = documented(&document);
    assert!(document_has.contains_key("Status"), "{document_has:?}");
    for (name, fields) in &crate_has {
        assert_eq!(document_has.get(name), Some(fields), "message {name}");
    }
    for (name, fields) in &document_has {
        assert!(
            fields.is_empty() || crate_has.contains_key(name),
            "the crate has no message {name}"
        );
    }
}

fn documented(text: &str) -> Messages {
    let mut messages = Messages::new();
    let mut name = "";
    for line in text.lines() {
        let code = line.split("//").next().unwrap().trim();
        if let Some(rest) = code.strip_prefix("message ") {
            name = rest.split(' ').next().unwrap();
            messages.entry(name.to_owned()).or_default();
        } else if let Some((field, number)) = code.split_once(" = ")
            && let Ok(number) = number.trim_end_matches(';').parse()
        {
            let known = messages.get_mut(name).unwrap();
            let earlier = known.insert(number, field.to_owned());
            assert_eq!(earlier, None, "{name} has {number} twice");
        }
    }
    messages
}

fn read_directory(directory: &Path, messages: &mut Messages) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_directory(&path, messages);
        } else {
            read_source(&fs::read_to_string(path).unwrap(), messages);
        }
    }
}

/// Reads the fields with an attribute such as `#[prost(uint64, optional, tag = "6")]`.
fn read_source(text: &str, messages: &mut Messages) {
    let mut name = "";
    let mut attribute = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("pub struct ") {
            name = rest.split(' ').next().unwrap();
        } else if let Some(words) = line.strip_prefix("#[prost(")
            && let Some((words, number)) = words.split_once("tag = \"")
        {
            let number: u32 = number.split('"').next().unwrap().parse().unwrap();
            attribute = Some((words.split(',').map(str::trim).collect::<Vec<_>>(), number));
        } else if let Some(field) = line.strip_prefix("pub ")
            && let Some((words, number)) = attribute.take()
        {
            let (field, of) = field.split_once(": ").unwrap();
            let kind = match words[0].split(' ').next().unwrap() {
                "message" => of
                    .split(['<', '>', ':', ','])
                    .rfind(|word| !word.is_empty())
                    .unwrap(),
                kind => kind,
            };
            // Any message field may be missing, so only optional numbers have the label.
            let label = match (words.contains(&"repeated"), words.contains(&"optional")) {
                (true, _) => "repeated ",
                (false, true) if words[0] != "message" => "optional ",
                (false, _) => "",
            };
            let fields = messages.entry(name.to_owned()).or_default();
            fields.insert(number, format!("{label}{kind} {field}"));
        }
    }
}
