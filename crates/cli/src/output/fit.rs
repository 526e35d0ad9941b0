//! Cuts a line of text where the terminal ends: between words, never inside one.
//! Does not know what the text says.

/// The text in at most `width` columns, with an ellipsis where words are left out.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for word in text.split(' ') {
        let space = usize::from(!kept.is_empty());
        let columns = kept.chars().count() + space + word.chars().count();
        // A space and the ellipsis come behind it.
        if columns + 2 > width {
            break;
        }
        if space > 0 {
            kept.push(' ');
        }
        kept.push_str(word);
    }
    if kept.is_empty() {
        return if width > 0 { "…".to_owned() } else { kept };
    }
    kept.truncate(kept.trim_end_matches([',', ':']).len());
    kept + " …"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fit;

    #[test]
    fn words_are_left_out_at_the_end() {
        let line = "12 files, 2 streams, limited by network: 20 Mbit/s on 2 streams";
        for (width, fitted) in [
            (80, line),
            (63, line),
            (
                62,
                "12 files, 2 streams, limited by network: 20 Mbit/s on 2 …",
            ),
            (50, "12 files, 2 streams, limited by network: 20 …"),
            (45, "12 files, 2 streams, limited by network: 20 …"),
            (44, "12 files, 2 streams, limited by network …"),
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
