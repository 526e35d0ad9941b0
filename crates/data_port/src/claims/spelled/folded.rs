//! Decides whether a file system that folds names may treat two names as one, by letter case or by the form of composed letters. Uses no
//! file system. Contains no table of letters: where a table would be needed, two names count as one.
//!
//! Most file systems of Linux keep names as bytes. Several file systems that fold case may treat the composed and the decomposed form of a
//! letter as one name: directories of ext4 and f2fs, ZFS, HFS+, and shares of other systems.

use std::borrow::Cow;

/// A name without letter case, with its marks in order. Stored only if it differs from the name by more than the case of ASCII letters.
#[derive(Clone, Debug)]
pub(super) struct Folded(Option<Box<str>>);

/// A character, and the marks that follow it. A composed character contains its marks.
#[derive(PartialEq)]
struct Letter<'a> {
    base: char,
    marks: &'a str,
}

impl Folded {
    pub(super) fn of(name: &[u8]) -> Self {
        if name.is_ascii() {
            return Self(None);
        }
        // To upper case first, because a letter such as the German sharp s becomes two.
        let text = String::from_utf8_lossy(name).to_uppercase().to_lowercase();
        let mut letters: Vec<char> = text.chars().collect();
        // Marks at different positions of a letter may have any order. Any first character counts as a letter.
        if let Some((_, rest)) = letters.split_first_mut() {
            for marks in rest.chunk_by_mut(|one, other| is_mark(*one) == is_mark(*other)) {
                if marks.first().is_some_and(|first| is_mark(*first)) {
                    marks.sort_unstable();
                }
            }
        }
        Self(Some(letters.into_iter().collect::<String>().into()))
    }

    /// Whether both may be forms of one name. `name` and `other_name` are the names that were folded.
    pub(super) fn meets(&self, name: &[u8], other: &Self, other_name: &[u8]) -> bool {
        if self.0.is_none() && other.0.is_none() {
            return name.eq_ignore_ascii_case(other_name);
        }
        let (one, other) = (self.text(name), other.text(other_name));
        let (mut one, mut other) = (letters(&one), letters(&other));
        loop {
            match (one.next(), other.next()) {
                (None, None) => return true,
                (Some(one), Some(other)) if one.meets(&other) => (),
                _ => return false,
            }
        }
    }

    fn text<'a>(&'a self, name: &[u8]) -> Cow<'a, str> {
        match &self.0 {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(String::from_utf8_lossy(&name.to_ascii_lowercase()).into_owned()),
        }
    }
}

/// The letters of a folded text.
fn letters(mut text: &str) -> impl Iterator<Item = Letter<'_>> {
    std::iter::from_fn(move || {
        let base = text.chars().next()?;
        let rest = text.get(base.len_utf8()..)?;
        let after = rest.trim_start_matches(is_mark);
        let marks = rest.get(..rest.len() - after.len())?;
        text = after;
        Some(Letter { base, marks })
    })
}

impl Letter<'_> {
    /// Whether both may be forms of one letter. A composed character contains marks, and is not ASCII. It can only be a form of a letter
    /// that has marks.
    fn meets(&self, other: &Self) -> bool {
        let is_composed = |letter: &Self| !letter.base.is_ascii();
        let has_marks = !self.marks.is_empty() || !other.marks.is_empty();
        self == other || has_marks && (is_composed(self) || is_composed(other))
    }
}

/// Whether the character is the later part of a composed one: an accent, a vowel or a sign of another script, or a later part of a syllable.
fn is_mark(each: char) -> bool {
    matches!(
        each,
        '\u{300}'..='\u{36f}' // accents
            | '\u{591}'..='\u{5c7}' // Hebrew
            | '\u{653}'..='\u{655}' // Arabic
            | '\u{93c}' // Devanagari
            | '\u{9bc}' | '\u{9be}' | '\u{9d7}' // Bengali
            | '\u{a3c}' // Gurmukhi
            | '\u{b3c}' | '\u{b3e}' | '\u{b56}' | '\u{b57}' // Oriya
            | '\u{bbe}' | '\u{bd7}' // Tamil
            | '\u{c56}' // Telugu
            | '\u{cc2}' | '\u{cd5}' | '\u{cd6}' // Kannada
            | '\u{d3e}' | '\u{d57}' // Malayalam
            | '\u{dca}' | '\u{dcf}' | '\u{ddf}' // Sinhala
            | '\u{f71}'..='\u{fbc}' // Tibetan
            | '\u{102e}' // Myanmar
            | '\u{1161}'..='\u{11c2}' // Hangul
            | '\u{1b35}' // Balinese
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{3099}' | '\u{309a}' // kana
            | '\u{fe20}'..='\u{fe2f}'
            | '\u{11000}'..='\u{11fff}' // later Indic scripts
            | '\u{1d165}'..='\u{1d172}' // music
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_name_meet_and_other_names_do_not() {
        let meets = |one: &str, other: &str| {
            let (one, other) = (one.as_bytes(), other.as_bytes());
            let (first, second) = (Folded::of(one), Folded::of(other));
            let there = first.meets(one, &second, other);
            assert_eq!(there, second.meets(other, &first, one));
            there
        };
        // Composed and decomposed: Latin with one and with two marks, Cyrillic, kana, Hangul, Devanagari.
        for (composed, decomposed) in [
            ("Caf\u{e9}", "cafe\u{301}"),
            ("\u{1ead}", "a\u{323}\u{302}"),
            ("\u{1ead}", "a\u{302}\u{323}"),
            ("\u{1ead}", "\u{e2}\u{323}"),
            ("a\u{302}\u{323}", "A\u{323}\u{302}"),
            ("\u{439}", "\u{418}\u{306}"),
            ("\u{304c}", "\u{304b}\u{3099}"),
            ("\u{d55c}", "\u{1112}\u{1161}\u{11ab}"),
            (
                "\u{d558}\u{ae00}",
                "\u{1112}\u{1161}\u{1100}\u{1173}\u{11af}",
            ),
            ("\u{958}", "\u{915}\u{93c}"),
            ("\u{212b}", "\u{e5}"),
            ("stra\u{df}e", "STRASSE"),
        ] {
            assert!(meets(composed, decomposed), "{composed} {decomposed}");
        }
        for (one, other) in [
            ("cafe", "caf\u{e9}"),
            ("cafe", "cafe\u{301}"),
            ("caf\u{e9}", "caf\u{e8}"),
            ("cafe\u{301}", "cafe\u{300}"),
            ("cafe\u{301}", "cafa\u{301}"),
            ("\u{e9}", "e\u{301}s"),
            ("\u{65e5}\u{672c}", "\u{4e2d}\u{56fd}"),
            ("\u{434}\u{43e}", "\u{43d}\u{435}"),
            ("run1", "run2"),
        ] {
            assert!(!meets(one, other), "{one} {other}");
        }
        // Bytes that are not text are valid names too.
        assert!(Folded::of(b"\xffa").meets(b"\xffa", &Folded::of(b"\xffA"), b"\xffA"));
    }
}
