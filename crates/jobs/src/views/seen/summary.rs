//! Owns the outline of a summary: its figures, and how the job ended.
//! See `seen` for everything else of a job.

use godwit_api::event::{Status, Verdict};
use serde_json::{Map, Value};

/// The figures of a summary, and how the job ended. Another site may have written all its other texts.
pub(super) fn figures(summary: &Value) -> Option<Value> {
    match summary {
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(summary.clone()),
        Value::String(_) | Value::Array(_) => None,
        Value::Object(fields) => {
            let is_word = |name: &str| ["event", "status"].contains(&name);
            let fields = fields.iter().filter_map(|(name, value)| {
                let kept = match value {
                    Value::String(word) if is_word(name) && is_status(word) => Some(value.clone()),
                    value => figures(value),
                };
                kept.map(|value| (name.clone(), value))
            });
            Some(Value::Object(fields.collect::<Map<String, Value>>()))
        }
    }
}

/// Whether a summary may use this word for its event, or for the end of the job.
fn is_status(word: &str) -> bool {
    let ends = [
        Status::Complete,
        Status::Partial,
        Status::Interrupted,
        Status::Failed,
    ];
    let verdicts = [Verdict::Same, Verdict::Different, Verdict::Interrupted];
    let ends = ends.map(Status::name);
    word == "summary" || ends.contains(&word) || verdicts.map(Verdict::name).contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_summary_is_left_with_its_figures() {
        let summary = json!({
            "event": "summary", "status": "partial", "bytes": null, "files": 2, "message": "secret.txt: no",
            "manifest": {"path": "/secret", "entries": 3}, "not_kept": {"acls": 1}, "examples": ["secret"],
        });
        let left = json!({
            "event": "summary", "status": "partial", "bytes": null, "files": 2,
            "manifest": {"entries": 3}, "not_kept": {"acls": 1},
        });
        assert_eq!(figures(&summary), Some(left));
    }
}
