//! Owns the meaning of a whole file at a place that another job still fills: it was read back before it got its name, and has no temporary name.
//! Reads no file.

use godwit_api::job::Rule;

/// Digits of a temporary name.
const DIGITS: usize = 32;

/// The setting of a job whose files others take as they become whole, with its value. A file is read back before it gets its name.
pub(crate) const READ_BACK: (&str, &str) = ("verify", "true");

/// The rule of a job that takes these files. Files that are still on their way to the place are neither sent nor missed.
pub(crate) fn without_unfinished() -> Rule {
    Rule {
        include: false,
        pattern: format!(".godwit-{}", "[0-9a-f]".repeat(DIGITS))
            .as_str()
            .into(),
    }
}
