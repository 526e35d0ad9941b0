//! Makes a text safe to show: it escapes control sequences, changes of text direction, and invisible characters.
//! Not for documents: JSON, manifests and lists keep each name as it is.
//!
//! The page of a node has the same ranges in `ui/src/lib/safe.ts`; a test compares them.

use std::fmt::Write as _;

/// Characters that change how others are shown, or show nothing: first and last of each range. Control characters are handled separately.
const UNSEEN: [(u32, u32); 17] = [
    // Soft hyphen, and marks that draw nothing.
    (0xad, 0xad),
    (0x34f, 0x34f),
    // Marks of direction.
    (0x61c, 0x61c),
    // Fillers without a shape.
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    // Without width, joiners, marks of direction.
    (0x200b, 0x200f),
    // Separators of lines; embeddings and overrides of direction.
    (0x2028, 0x202e),
    // Joiners, invisible operators, isolates.
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    // The byte order mark.
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    // Formats of shorthand and of music.
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    // Tags, and selectors of variants.
    (0xe_0000, 0xe_0fff),
    // Formats of hieroglyphs.
    (0x1_3430, 0x1_343f),
];

fn is_unseen(sign: char) -> bool {
    let code = u32::from(sign);
    sign.is_control()
        || UNSEEN
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&code))
}

/// A name, or a message with a name, for people. Newlines are escaped, too: inside a name they would make one message look like two.
#[must_use]
pub fn printable(text: &str) -> String {
    escaped(text, |_| false)
}

/// A text of several lines for people. Its newlines stay.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    escaped(text, |sign| sign == '\n')
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        if is_unseen(sign) && !stays(sign) {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", sign.escape_default());
        } else {
            out.push(sign);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn control_and_invisible_characters_are_escaped_and_the_rest_stays() {
        assert_eq!(
            printable("a\x1b[2J\x07\nb\u{9b}"),
            "a\\u{1b}[2J\\u{7}\\nb\\u{9b}"
        );
        assert_eq!(printable("in\u{202e}gpj.exe"), "in\\u{202e}gpj.exe");
        for sign in (0x202a..=0x202e).chain(0x2066..=0x2069) {
            let sign = char::from_u32(sign).expect("a character");
            let escape = format!("\\u{{{:x}}}", u32::from(sign));
            assert_eq!(printable(&sign.to_string()), escape);
        }
        assert_eq!(printable("a\u{200b}b\u{feff}"), "a\\u{200b}b\\u{feff}");
        let seen = "läuft שלום مرحبا 数据 ❤️ a b\\c";
        assert_eq!(printable(seen), seen);
        assert_eq!(printable_lines("a\nb\tc\x1b"), "a\nb\\tc\\u{1b}");
    }

    #[test]
    fn the_page_escapes_the_same() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/lib/safe.ts");
        let text = fs::read_to_string(page).expect("the helper of the page");
        let (_, table) = text.split_once("UNSEEN").expect("a table");
        let (table, _) = table.split_once("];").expect("its end");
        let numbers: Vec<u32> = table
            .split("0x")
            .skip(1)
            .map(|text| {
                let end = text.find(|sign: char| !sign.is_ascii_hexdigit());
                let digits = &text[..end.unwrap_or(text.len())];
                u32::from_str_radix(digits, 16).expect("a number")
            })
            .collect();
        let own: Vec<u32> = UNSEEN
            .iter()
            .flat_map(|(first, last)| [*first, *last])
            .collect();
        assert_eq!(numbers, own);
    }
}
