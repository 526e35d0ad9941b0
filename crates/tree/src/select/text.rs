//! Parses rules in text form: from a flag, or from a file with one rule per line. Does not prepare them for use (`Select`).

use godwit_proto::Rule;
use godwit_proto::limits::PATTERN_BYTES_MAX;

use super::pattern::{Pattern, PatternError};

/// Reason why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The pattern is invalid.
    #[error("{pattern}: {error}")]
    Pattern {
        /// The pattern as shown to users.
        pattern: String,
        /// The error in the pattern.
        error: PatternError,
    },
    /// A `!` alone.
    #[error("a lone ! has no meaning here: all earlier rules stay in force")]
    Reset,
    /// The rule is longer than [`PATTERN_BYTES_MAX`].
    #[error("a pattern of {0} bytes is longer than the limit of {PATTERN_BYTES_MAX}")]
    TooLong(usize),
}

/// Reads one rule. `include` depends on the flag or file of the rule. `+ ` in front includes, `- ` excludes and `!` reverses the default.
/// `\!` in front is an ordinary `!`.
///
/// # Errors
/// The error in the rule.
pub fn parse_rule(text: &[u8], include: bool) -> Result<Rule, RuleError> {
    let (text, include) = match text {
        [b'+', b' ', rest @ ..] => (rest, true),
        [b'-', b' ', rest @ ..] => (rest, false),
        [b'!'] => return Err(RuleError::Reset),
        [b'!', rest @ ..] => (rest, !include),
        [b'\\', b'!', ..] => (&text[1..], include),
        _ => (text, include),
    };
    if text.len() > PATTERN_BYTES_MAX {
        return Err(RuleError::TooLong(text.len()));
    }
    Pattern::parse(text).map_err(|error| RuleError::Pattern {
        pattern: shown(text),
        error,
    })?;
    Ok(Rule {
        include,
        pattern: text.to_vec(),
    })
}

/// Reads a file of rules, one per line (or, with `from0`, each followed by a zero byte). Without `from0`, empty lines and lines that
/// begin with `#` or `;` are skipped; a carriage return at the end of a line is ignored.
///
/// # Errors
/// Number of the line, from 1, and the error in it.
pub fn parse_rules(
    content: &[u8],
    include: bool,
    from0: bool,
) -> Result<Vec<Rule>, (usize, RuleError)> {
    let separator = if from0 { 0 } else { b'\n' };
    let mut rules = Vec::new();
    for (number, line) in (1..).zip(content.split(|byte| *byte == separator)) {
        let line = if from0 {
            line
        } else {
            line.strip_suffix(b"\r").unwrap_or(line)
        };
        let comment = !from0 && matches!(line.first(), Some(b'#' | b';'));
        if !line.is_empty() && !comment {
            rules.push(parse_rule(line, include).map_err(|error| (number, error))?);
        }
    }
    Ok(rules)
}

/// The pattern in a message.
pub(super) fn shown(pattern: &[u8]) -> String {
    format!(
        "`{}`",
        pattern.escape_ascii().to_string().replace("\\\\", "\\")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(include: bool, pattern: &[u8]) -> Rule {
        Rule {
            include,
            pattern: pattern.to_vec(),
        }
    }

    #[test]
    fn a_prefix_sets_the_direction_of_a_rule() {
        let cases: [(&[u8], bool, Rule); 8] = [
            (b"*.tmp", false, rule(false, b"*.tmp")),
            (b"*.tmp", true, rule(true, b"*.tmp")),
            (b"!*.tmp", false, rule(true, b"*.tmp")),
            (b"!*.tmp", true, rule(false, b"*.tmp")),
            (b"+ *.tmp", false, rule(true, b"*.tmp")),
            (b"- *.tmp", true, rule(false, b"*.tmp")),
            (b"\\!x", false, rule(false, b"!x")),
            (b"-x \xff", false, rule(false, b"-x \xff")),
        ];
        for (text, include, expected) in cases {
            assert_eq!(parse_rule(text, include), Ok(expected), "{text:?}");
        }
        assert_eq!(parse_rule(b"!", false), Err(RuleError::Reset));
        assert_eq!(
            parse_rule(&[b'x'; 4097], false),
            Err(RuleError::TooLong(4097))
        );
    }

    #[test]
    fn files_of_rules() {
        let content = b"# comment\n\n; another\r\n*.tmp\r\n+ keep\n \xff\n";
        let rules = parse_rules(content, false, false).expect("valid");
        let expected = [
            rule(false, b"*.tmp"),
            rule(true, b"keep"),
            rule(false, b" \xff"),
        ];
        assert_eq!(rules, expected);
        let rules = parse_rules(b"#a\nb\0\0;c\0", true, true).expect("valid");
        assert_eq!(rules, [rule(true, b"#a\nb"), rule(true, b";c")]);
        let (line, error) = parse_rules(b"a\nb[\n", false, false).expect_err("wrong");
        assert_eq!(line, 2);
        assert_eq!(
            error.to_string(),
            "`b[`: the bracket is not closed; for the character itself write \\["
        );
    }
}
