//! Tests that the catalogue is consistent: words, numbers and sentences.
//! Does not test the users of the codes.

use std::collections::HashSet;

use super::*;

#[test]
fn every_word_is_snake_case_and_stands_once() {
    let mut words = HashSet::new();
    for code in FailureCode::ALL {
        let word = code.as_str();
        assert!(words.insert(word), "{word} stands twice");
        let is_snake = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        assert!(!word.is_empty() && word.chars().all(is_snake), "{word}");
        assert_eq!(FailureCode::parse(word), Some(*code));
    }
    assert_eq!(FailureCode::parse("no_such_word"), None);
}

#[test]
fn a_code_comes_back_from_its_number_and_from_json() {
    let mut numbers = HashSet::new();
    for code in FailureCode::ALL {
        let (scope, number) = (code.scope(), code.number());
        assert_eq!(number.is_some(), matches!(scope, Scope::Job | Scope::Entry));
        if let Some(number) = number {
            assert!(numbers.insert((scope == Scope::Job, number)), "{code}");
            assert_eq!(FailureCode::of_number(scope, number), *code);
        }
        let json = serde_json::to_string(code).expect("text");
        assert_eq!(json, format!("\"{code}\""));
        assert_eq!(serde_json::from_str::<FailureCode>(&json).ok(), Some(*code));
    }
    assert!(serde_json::from_str::<FailureCode>("\"no_such_word\"").is_err());
    let unknown = [
        (Scope::Job, FailureCode::PeerFailed),
        (Scope::Entry, FailureCode::Other),
    ];
    for (scope, code) in unknown {
        assert_eq!(FailureCode::of_number(scope, 9_999), code);
    }
}

#[test]
fn meaning_and_advice_are_one_sentence_each_that_fits_a_table() {
    for code in FailureCode::ALL {
        for text in [code.meaning(), code.advice()] {
            assert!(text.ends_with('.') && !text.contains(['|', '\n']), "{code}");
            assert!(!text[..text.len() - 1].contains(". "), "{code}: {text}");
        }
        let is_partial = code.exit() == Exit::Partial;
        assert!(code.scope() != Scope::Entry || is_partial, "{code}");
    }
}
