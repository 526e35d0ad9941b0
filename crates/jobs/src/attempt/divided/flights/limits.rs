//! Counts how often each stage limited a divided job, for the summary at its end.
//! Finds no stage: `nodes` does.

use std::collections::BTreeMap;

use godwit_api::event::{Evidence, Limited};
use godwit_api::rest::Bottleneck;

/// How often each stage limited the job, and the last sentence about it.
#[derive(Default)]
pub(super) struct Limits(BTreeMap<Bottleneck, (u64, String)>);

impl Limits {
    pub(super) fn add(&mut self, stage: Bottleneck, text: &str) {
        let (count, last) = self.0.entry(stage).or_default();
        *count += 1;
        text.clone_into(last);
    }

    /// The stage that limited the job most often.
    pub(super) fn most(&self) -> Option<Limited> {
        let (stage, (_, text)) = self.0.iter().max_by_key(|(_, (count, _))| *count)?;
        let figure = text.strip_prefix(stage.words()).unwrap_or(text);
        Some(Limited {
            stage: *stage,
            evidence: Evidence {
                figure: figure.trim_start_matches([':', ' ']).to_owned(),
                advice: None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_stage_that_limited_most_often() {
        let mut limits = Limits::default();
        assert_eq!(limits.most(), None);
        limits.add(Bottleneck::Network, "network at a1 to b1: full");
        for busy in [91, 97] {
            let text = format!("destination storage at b2: busy {busy} %");
            limits.add(Bottleneck::DestinationStorage, &text);
        }
        let most = limits.most().expect("a stage");
        assert_eq!(most.stage, Bottleneck::DestinationStorage);
        assert_eq!(most.evidence.figure, "at b2: busy 97 %");
    }
}
