//! Owns the reading of XML: generations and chains. Bounds each text and each depth, and resolves no entity but the five of XML.
//! Opens no file.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};

use crate::chain::Link;
use crate::digest::Format;
use crate::generation::{FileEntry, Generation};

/// Bytes of a text: a path has at most 4 KiB, and a C4 identifier 90 bytes.
const TEXT_MAX: usize = 32 << 10;
/// Bytes of a text, a tag or a comment in the file, where a character may have several bytes.
const TOKEN_MAX: usize = 8 * TEXT_MAX;
const DEPTH_MAX: usize = 16;
/// Files of a history.
pub(crate) const FILES_MAX: usize = 20_000_000;
/// Bytes that a path takes in memory beside its text.
pub(crate) const ENTRY_BYTES: u64 = 64;
/// Bytes that a digest takes in memory.
pub(crate) const DIGEST_BYTES: u64 = 64;
/// Bytes that each byte of a pattern takes in its matcher, and a pattern beside them.
const PATTERN_FACTOR: u64 = 64;
const PATTERN_BYTES: u64 = 256;
/// Bytes of the name of a file.
const NAME_MAX: usize = 255;
/// Digests of a file: ten times the kinds that there are.
const DIGESTS_MAX: usize = 64;
/// Attributes of an element: each is compared with all before it.
const ATTRIBUTES_MAX: usize = 64;
/// Generations of a history.
pub(crate) const GENERATIONS_MAX: usize = 100_000;

/// One element that has ended.
struct Element<'a> {
    name: &'a str,
    /// The names of the elements around this element, the outermost first.
    around: &'a [String],
    attributes: &'a [(String, String)],
    text: &'a str,
}

impl Element<'_> {
    fn is_in(&self, name: &str) -> bool {
        self.around.iter().any(|one| one == name)
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Bytes that a pattern takes in memory.
pub(crate) const fn pattern_bytes(pattern: &str) -> u64 {
    (pattern.len() as u64).saturating_mul(PATTERN_FACTOR) + PATTERN_BYTES
}

/// Reads a generation whose files and patterns take at most `room` bytes.
pub(crate) fn generation(input: impl BufRead, room: u64) -> Result<Generation, String> {
    let mut made = Generation::default();
    let mut entry = FileEntry::default();
    let mut bytes = 0;
    each_element(input, "hashlist", &mut |element| {
        if element.is_in("directoryhash") || element.is_in("roothash") {
            return Ok(());
        }
        bytes += match element.name {
            "pattern" => pattern_bytes(element.text),
            "path" | "previousPath" => element.text.len() as u64 + ENTRY_BYTES,
            name if element.is_in("hash") && Format::from_name(name).is_some() => DIGEST_BYTES,
            _ => 0,
        };
        if bytes > room {
            return Err(format!(
                "has files and patterns of more than {room} bytes, the room for a history here"
            ));
        }
        match element.name {
            "pattern" => made.ignored.push(element.text.to_owned()),
            "hash" => {
                if made.files.len() >= FILES_MAX {
                    return Err(format!("has more than {FILES_MAX} files"));
                }
                if entry.path.is_empty() {
                    return Err("has a file without a path".to_owned());
                }
                made.files.push(std::mem::take(&mut entry));
            }
            "path" if element.is_in("hash") => {
                entry.path = relative(element.text)?;
                entry.size = match element.attribute("size") {
                    None => None,
                    Some(text) => Some(text.parse().map_err(|_ignored| {
                        format!("has {text:?} for a size of {}", element.text)
                    })?),
                };
            }
            "previousPath" => entry.previous = Some(relative(element.text)?),
            name if element.is_in("hash") => {
                // Other tools may write kinds of digest that this one does not know, such as xxh32.
                if let Some(format) = Format::from_name(name) {
                    if entry.digests.len() >= DIGESTS_MAX {
                        return Err(format!("has a file with more than {DIGESTS_MAX} digests"));
                    }
                    let digest = format.parse(element.text.trim());
                    let digest = digest.ok_or_else(|| {
                        format!("has {:?}, which is no {name} digest", element.text)
                    })?;
                    entry.digests.push((format, digest));
                    entry.has_failed |= element.attribute("action") == Some("failed");
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(made)
}

/// Reads a chain.
pub(crate) fn chain(input: impl BufRead) -> Result<Vec<Link>, String> {
    let mut links = Vec::new();
    let (mut path, mut digest) = (String::new(), None);
    each_element(input, "ascmhldirectory", &mut |element| {
        match element.name {
            "path" => path = element.text.to_owned(),
            "c4" => digest = Format::C4.parse(element.text.trim()),
            "hashlist" => {
                let number = element.attribute("sequencenr");
                let number = number.and_then(|text| text.parse().ok());
                let (Some(number), Some(digest)) = (number, digest.take()) else {
                    return Err("has a generation without a number or a C4 digest".to_owned());
                };
                if path.contains('/') || path.starts_with('.') || path.len() > NAME_MAX {
                    return Err(format!("has {path:?} for the name of a generation"));
                }
                if links.len() >= GENERATIONS_MAX {
                    return Err(format!("has more than {GENERATIONS_MAX} generations"));
                }
                let file = relative(&std::mem::take(&mut path))?;
                links.push(Link {
                    number,
                    file,
                    digest,
                });
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(links)
}

/// A path that stays below its directory.
fn relative(text: &str) -> Result<String, String> {
    let is_good = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    if text.split('/').all(is_good) {
        Ok(text.to_owned())
    } else {
        Err(format!("has {text:?} for a path below its directory"))
    }
}

/// Calls `take` with each element at its end.
fn each_element(
    input: impl BufRead,
    root: &str,
    take: &mut dyn FnMut(Element<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let budget = Rc::new(Cell::new(0));
    let mut reader = Reader::from_reader(Bounded {
        input,
        budget: Rc::clone(&budget),
    });
    reader.config_mut().expand_empty_elements = true;
    let mut buffer = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut attributes: Vec<Vec<(String, String)>> = Vec::new();
    let mut text = String::new();
    let mut has_ended = false;
    loop {
        buffer.clear();
        budget.set(TOKEN_MAX);
        let event = reader.read_event_into(&mut buffer);
        match event.map_err(|error| format!("is no XML of this kind: {error}"))? {
            Event::Start(start) => {
                if open.len() >= DEPTH_MAX {
                    return Err("has too many levels".to_owned());
                }
                let name = start.local_name().as_ref().to_owned();
                if open.is_empty() && (has_ended || name != root) {
                    return Err(format!("has <{name}> in place of <{root}>"));
                }
                attributes.push(attributes_of(&start)?);
                open.push(name);
                text.clear();
            }
            Event::End(_) => {
                let (Some(name), Some(attributes)) = (open.pop(), attributes.pop()) else {
                    return Err("ends before it begins".to_owned());
                };
                has_ended = open.is_empty();
                take(Element {
                    name: &name,
                    around: &open,
                    attributes: &attributes,
                    text: &text,
                })?;
                text.clear();
            }
            Event::Text(piece) => text.push_str(&piece.xml10_content()),
            Event::CData(piece) => text.push_str(&piece.xml10_content()),
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref();
                match character.map_err(|error| error.to_string())? {
                    Some(character) => text.push(character),
                    None => {
                        let known = resolve_predefined_entity(&reference.into_inner());
                        text.push_str(known.ok_or("has an entity that XML does not define")?);
                    }
                }
            }
            Event::Eof if has_ended => return Ok(()),
            Event::Eof => return Err("is cut off".to_owned()),
            Event::DocType(_) => return Err("has a document type".to_owned()),
            _ => {}
        }
        if text.len() > TEXT_MAX {
            return Err("has a text that is too long".to_owned());
        }
    }
}

fn attributes_of(start: &BytesStart<'_>) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for attribute in start.attributes() {
        if found.len() >= ATTRIBUTES_MAX {
            return Err(format!(
                "has an element with more than {ATTRIBUTES_MAX} attributes"
            ));
        }
        let attribute = attribute.map_err(|error| format!("has an attribute: {error}"))?;
        let value = quick_xml::escape::unescape(&attribute.value)
            .map_err(|error| format!("has an attribute: {error}"))?;
        let name = attribute.key.local_name();
        found.push((name.as_ref().to_owned(), value.into_owned()));
    }
    Ok(found)
}

/// An input that ends with an error when its budget is spent. So no token takes more memory.
struct Bounded<R> {
    input: R,
    budget: Rc<Cell<usize>>,
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let left = self.budget.get();
        let found = self.input.fill_buf()?;
        if left == 0 && !found.is_empty() {
            return Err(io::Error::other("a token is too long"));
        }
        Ok(&found[..found.len().min(left)])
    }

    fn consume(&mut self, count: usize) {
        self.budget.set(self.budget.get().saturating_sub(count));
        self.input.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"<?xml version="1.0"?><hashlist version="2.0" xmlns="urn:ASC:MHL:v2.0">"#;

    fn read(body: &str) -> Result<Generation, String> {
        within(body, crate::ROOM_MAX)
    }

    fn within(body: &str, room: u64) -> Result<Generation, String> {
        generation(format!("{HEAD}{body}</hashlist>").as_bytes(), room)
    }

    fn file(path: &str, digest: &str) -> String {
        format!(
            "<hashes><hash><path size=\"3\">{path}</path><xxh64>{digest}</xxh64></hash></hashes>"
        )
    }

    #[test]
    fn files_patterns_and_former_names_are_read() {
        let made = read(
            "<processinfo><roothash><content><md5>x</md5></content></roothash><ignore><pattern>*.tmp</pattern></ignore></processinfo>\
             <hashes><hash><path size=\"3\"> a&amp;b&#x20;</path><xxh64 action=\"failed\">44bc2cf5ad770999</xxh64><xxh32>0</xxh32>\
             <previousPath>c/d</previousPath></hash><directoryhash><path>x</path></directoryhash></hashes>",
        )
        .expect("it is read");
        assert_eq!(made.ignored, ["*.tmp"]);
        let [entry] = &made.files[..] else {
            panic!("{made:?}");
        };
        assert_eq!(entry.path, " a&b ");
        assert_eq!(
            (entry.size, entry.previous.as_deref()),
            (Some(3), Some("c/d"))
        );
        assert!(entry.has_failed && entry.digests.len() == 1);
    }

    #[test]
    fn a_path_that_leaves_its_directory_is_refused() {
        for path in ["../a", "/a", "a/../b", "a//b", "", "."] {
            assert!(read(&file(path, "44bc2cf5ad770999")).is_err(), "{path}");
        }
    }

    #[test]
    fn an_element_with_many_attributes_and_a_file_with_many_digests_are_refused() {
        let attributes = |count: usize| -> String {
            let all = (0..count).map(|number| format!(" a{number}=\"\""));
            format!("<hashes{}></hashes>", all.collect::<String>())
        };
        assert!(read(&attributes(ATTRIBUTES_MAX)).is_ok());
        let refused = read(&attributes(ATTRIBUTES_MAX + 1)).expect_err("refused");
        assert!(refused.contains("attributes"), "{refused}");
        let digests = |count: usize| {
            let all = "<xxh64>44bc2cf5ad770999</xxh64>".repeat(count);
            format!("<hashes><hash><path>a</path>{all}</hash></hashes>")
        };
        assert!(read(&digests(DIGESTS_MAX)).is_ok());
        let refused = read(&digests(DIGESTS_MAX + 1)).expect_err("refused");
        assert!(refused.contains("digests"), "{refused}");
    }

    #[test]
    fn a_chain_with_too_many_generations_is_refused() {
        let digest = Format::C4.text(&crate::digest::Digest::of(Format::C4, b"x"));
        let link =
            format!("<hashlist sequencenr=\"1\"><path>g.mhl</path><c4>{digest}</c4></hashlist>");
        let of =
            |count: usize| format!("<ascmhldirectory>{}</ascmhldirectory>", link.repeat(count));
        assert!(chain(of(1).as_bytes()).is_ok());
        let refused = chain(of(GENERATIONS_MAX + 1).as_bytes()).expect_err("refused");
        assert!(refused.contains("generations"), "{refused}");
    }

    #[test]
    fn files_that_are_no_history_are_refused() {
        for body in [
            file("a", "44bc"),
            "<!DOCTYPE x>".to_owned(),
            "<hashes>&nosuch;</hashes>".to_owned(),
            "<a>".repeat(20),
            format!(
                "<hashes><hash><path>{}</path></hash></hashes>",
                "a".repeat(TEXT_MAX + 1)
            ),
            format!("<!--{}-->", "a".repeat(TOKEN_MAX)),
        ] {
            assert!(read(&body).is_err(), "{}", &body[..body.len().min(60)]);
        }
        assert!(generation(HEAD.as_bytes(), crate::ROOM_MAX).is_err());
        assert!(generation(&b"<ascmhldirectory/>"[..], crate::ROOM_MAX).is_err());
    }

    #[test]
    fn a_generation_takes_no_more_memory_than_there_is_room() {
        let one = file("a", "44bc2cf5ad770999");
        let digests = "<xxh64>44bc2cf5ad770999</xxh64>".repeat(8);
        let many = format!("<hashes><hash><path>a</path>{digests}</hash></hashes>");
        let pattern = format!(
            "<processinfo><ignore><pattern>{}</pattern></ignore></processinfo>",
            "a".repeat(8)
        );
        for (body, bytes) in [(one, 129), (many, 577), (pattern, 768)] {
            assert!(within(&body, bytes).is_ok(), "{body}");
            let refused = within(&body, bytes - 1).expect_err("refused");
            assert!(refused.contains("room for a history"), "{refused}");
        }
    }

    #[test]
    fn a_name_that_is_no_file_of_the_folder_is_refused() {
        let c4 = Format::C4.text(&crate::Digest::of(Format::C4, b"x"));
        let with = |name: &str| {
            chain(format!(
                "<ascmhldirectory><hashlist sequencenr=\"1\"><path>{name}</path><c4>{c4}</c4></hashlist></ascmhldirectory>"
            ).as_bytes())
        };
        assert!(with("0001_run42.mhl").is_ok());
        let long = "x".repeat(NAME_MAX + 1);
        for name in ["", "../x", "x/y", ".x", "x&#0;y", "x\0y", long.as_str()] {
            assert!(with(name).is_err(), "{name:?}");
        }
    }
}
