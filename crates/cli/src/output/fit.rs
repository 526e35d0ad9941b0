//! Cuts a line of text at the width of the terminal: between words, never inside one.
//! Does not interpret the text.

/// The text in at most `width` columns, with an ellipsis in place of left-out words.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut kept: Vec<&str> = Vec::new();
    // The ellipsis.
    let mut columns = 1;
    for word in text.split(' ') {
        // Plus the space before the next word.
        columns += word.chars().count() + 1;
        if columns > width {
            break;
        }
        kept.push(word);
    }
    // A number without its unit means nothing.
    while kept.last().is_some_and(|word| is_number(word)) {
        kept.pop();
    }
    let kept = kept.join(" ");
    match kept.trim_end_matches([',', ':']) {
        "" if width == 0 => String::new(),
        "" => "…".to_owned(),
        kept => format!("{kept} …"),
    }
}

/// The end of a name in at most `width` columns: names of one directory differ there. Signs beyond the Latin, Greek, Cyrillic and Semitic
/// scripts may take two columns.
pub(super) fn fit_name(name: &str, width: usize) -> String {
    let columns = |sign: char| if sign < '\u{1100}' { 1 } else { 2 };
    if name.chars().map(columns).sum::<usize>() <= width {
        return name.to_owned();
    }
    // The ellipsis.
    let mut left = width.saturating_sub(1);
    let mut kept = name.len();
    for (at, sign) in name.char_indices().rev() {
        let Some(rest) = left.checked_sub(columns(sign)) else {
            break;
        };
        (left, kept) = (rest, at);
    }
    match width {
        0 => String::new(),
        _ => format!("…{}", &name[kept..]),
    }
}

fn is_number(word: &str) -> bool {
    word.bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{fit, fit_name};

    #[test]
    fn a_name_keeps_its_end() {
        for (name, width, fitted) in [
            ("run42/d/a.h5", 12, "run42/d/a.h5"),
            ("run42/d/a.h5", 11, "…n42/d/a.h5"),
            ("run42/d/a.h5", 1, "…"),
            ("run42/d/a.h5", 0, ""),
            ("数据/数据.h5", 12, "数据/数据.h5"),
            ("数据/数据.h5", 9, "…/数据.h5"),
            ("数据/数据.h5", 7, "…据.h5"),
        ] {
            assert_eq!(fit_name(name, width), fitted, "{name} {width}");
        }
    }

    #[test]
    fn words_are_left_out_at_the_end() {
        let line = "12 files, 2 streams, limited by network: 20 Mbit/s on 2 streams";
        for (width, fitted) in [
            (80, line),
            (63, line),
            (
                62,
                "12 files, 2 streams, limited by network: 20 Mbit/s on …",
            ),
            (54, "12 files, 2 streams, limited by network: 20 Mbit/s …"),
            (51, "12 files, 2 streams, limited by network …"),
            (41, "12 files, 2 streams, limited by …"),
            (3, "…"),
            (0, ""),
        ] {
            assert_eq!(fit(line, width), fitted, "{width}");
        }
    }

    proptest! {
        #[test]
        fn it_fits_and_has_whole_words(text in "[a-zä]{1,9}( [a-zä]{1,9}){0,12}", width in 0_usize..90) {
            let fitted = fit(&text, width);
            prop_assert!(fitted.chars().count() <= width);
            let words: Vec<&str> = text.split(' ').collect();
            for (word, whole) in fitted.split(' ').filter(|word| !word.is_empty() && *word != "…").zip(words) {
                prop_assert_eq!(word, whole);
            }
        }
    }
}
