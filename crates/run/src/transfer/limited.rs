//! From what the engine finds to what is told of what limits a transfer.
//! Finds nothing out itself.

use godwit_api::event::{Limited, LimitedTold};
use godwit_engine::{Bottleneck, Finding};

pub(super) fn limited(finding: Finding) -> Limited {
    Limited {
        stage: finding.stage.as_str().to_owned(),
        told: LimitedTold {
            figure: finding.figure,
            advice: finding.advice,
        },
    }
}

/// The same where both ends are here: there is no network between them that could limit anything.
pub(super) fn limited_here(finding: Finding) -> Option<Limited> {
    (finding.stage != Bottleneck::Network).then(|| limited(finding))
}
