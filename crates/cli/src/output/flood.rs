//! Lines of one reason: the first few are shown, and the rest is counted.
//! Prints nothing itself.

use godwit_api::failure::Code;
use godwit_api::units::counted;

/// Lines of one reason that people see.
const SHOWN: u64 = 10;

/// Reasons that are counted apart. A peer may invent more; they share the last count.
const REASONS_MAX: usize = 64;

/// The reasons so far.
#[derive(Default)]
pub(super) struct Flood {
    reasons: Vec<Reason>,
}

/// One reason.
struct Reason {
    what: What,
    code: Code,
    count: u64,
}

/// The subject of the lines.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum What {
    /// Entries of a transfer that failed.
    Failed,
    /// Entries of a copy that differ from a manifest.
    Different,
    /// Entries that are not in a manifest.
    Extra,
}

impl Flood {
    /// Counts a line; returns whether people see it.
    pub(super) fn admits(&mut self, what: What, code: &Code) -> bool {
        let known = self
            .reasons
            .iter()
            .position(|reason| reason.what == what && reason.code == *code);
        let at = known.unwrap_or_else(|| {
            if self.reasons.len() < REASONS_MAX {
                self.reasons.push(Reason {
                    what,
                    code: code.clone(),
                    count: 0,
                });
            }
            self.reasons.len() - 1
        });
        let reason = &mut self.reasons[at];
        reason.count += 1;
        reason.count <= SHOWN
    }

    /// A line for each reason with lines that people did not see. Begins again afterwards.
    pub(super) fn rest(&mut self) -> Vec<String> {
        let reasons = std::mem::take(&mut self.reasons);
        let many = reasons.iter().filter(|reason| reason.count > SHOWN);
        many.map(Reason::line).collect()
    }
}

impl Reason {
    fn line(&self) -> String {
        let more = counted(self.count - SHOWN, "more entry");
        let why = match self.code.known() {
            Some(code) => code.meaning().trim_end_matches('.').to_owned(),
            None => self.code.to_string(),
        };
        let (does, flags) = match self.what {
            What::Failed => (
                "failed",
                "--verbose names all of them, --failed FILE lists them",
            ),
            What::Different => ("differ", "--verbose names all of them"),
            What::Extra => ("are extra", "--verbose names all of them"),
        };
        format!(
            "godwit: {more} {does} like the {SHOWN} above: {why} ({}); {flags}",
            self.code
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use godwit_api::failure::FailureCode;

    #[test]
    fn each_reason_has_its_first_lines_and_a_count() {
        let mut flood = Flood::default();
        let (permission, space) = (FailureCode::Permission.into(), FailureCode::NoSpace.into());
        let shown = (0..3_000)
            .filter(|_| flood.admits(What::Failed, &permission))
            .count();
        assert_eq!(shown, 10);
        assert!((0..10).all(|_| flood.admits(What::Failed, &space)));
        assert!(flood.admits(What::Different, &permission));
        let rest = flood.rest();
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert!(
            rest[0].starts_with("godwit: 2990 more entries failed"),
            "{rest:?}"
        );
        assert!(flood.rest().is_empty());
    }

    #[test]
    fn invented_reasons_take_no_memory() {
        let mut flood = Flood::default();
        for number in 0..1_000 {
            flood.admits(What::Failed, &Code::of_word(&format!("reason-{number}")));
        }
        assert_eq!(flood.reasons.len(), REASONS_MAX);
    }
}
