//! Adds up the reports of the closes of one root. Does not check them.

use serde_json::{Map, Value};

use crate::bounds::{FAILURE_GROUPS_MAX, SPEC_BYTES_MAX};
use crate::model::{Closed, FailureGroup};

/// Most examples of a group of failures.
const EXAMPLES_MAX: usize = 8;

/// The status of a summary without failures.
const COMPLETE: &str = "complete";

/// Adds the report of a close to the reports of the roots.
pub(super) fn add(all: &mut Vec<Closed>, closed: &Closed) {
    let Some(sum) = all.iter_mut().find(|one| one.root == closed.root) else {
        all.push(closed.clone());
        return;
    };
    sum.files = sum.files.saturating_add(closed.files);
    sum.bytes = sum.bytes.saturating_add(closed.bytes);
    // The closes of one root may be thousands. Those of real programs have the same fields.
    let both = summary(&sum.summary, &closed.summary);
    if both.len() <= SPEC_BYTES_MAX {
        sum.summary = both;
    }
    for group in &closed.failures {
        add_group(&mut sum.failures, group);
    }
}

fn add_group(groups: &mut Vec<FailureGroup>, group: &FailureGroup) {
    let code = &group.reason.code;
    let at = groups.iter().position(|known| known.reason.code == *code);
    let is_full = groups.len() >= FAILURE_GROUPS_MAX;
    let at = at.or_else(|| is_full.then_some(FAILURE_GROUPS_MAX - 1));
    let Some(known) = at.and_then(|at| groups.get_mut(at)) else {
        groups.push(group.clone());
        return;
    };
    known.count = known.count.saturating_add(group.count);
    let room = EXAMPLES_MAX.saturating_sub(known.examples.len());
    known
        .examples
        .extend(group.examples.iter().take(room).cloned());
}

/// Combines two summaries: counts are added, and a status with failures is kept.
fn summary(one: &str, other: &str) -> String {
    let parsed = |text| serde_json::from_str::<Map<String, Value>>(text);
    match (parsed(one), parsed(other)) {
        (Ok(mut sum), Ok(other)) => {
            add_fields(&mut sum, other);
            Value::Object(sum).to_string()
        }
        (Ok(_), Err(_)) => one.to_owned(),
        (Err(_), _) => other.to_owned(),
    }
}

fn add_fields(sum: &mut Map<String, Value>, other: Map<String, Value>) {
    for (name, value) in other {
        match (sum.get_mut(&name), value) {
            (Some(Value::Object(sum)), Value::Object(other)) => add_fields(sum, other),
            (Some(Value::Number(sum)), Value::Number(other)) => {
                if let (Some(one), Some(two)) = (sum.as_u64(), other.as_u64()) {
                    *sum = one.saturating_add(two).into();
                }
            }
            (Some(Value::String(status)), Value::String(other)) if status == COMPLETE => {
                *status = other;
            }
            (None | Some(Value::Null), value) => {
                sum.insert(name, value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Reason;
    use godwit_model::failure::FailureCode;

    fn closed(root: u32, summary: &str, count: u64) -> Closed {
        let group = FailureGroup {
            reason: Reason::new(FailureCode::NoSpace, "full"),
            count,
            examples: vec!["a".to_owned(); 5],
        };
        Closed {
            root,
            files: 1,
            bytes: 2,
            summary: summary.to_owned(),
            failures: if count > 0 { vec![group] } else { Vec::new() },
        }
    }

    #[test]
    fn the_reports_of_one_root_add_up() {
        let mut all = Vec::new();
        add(
            &mut all,
            &closed(
                0,
                r#"{"status":"complete","bytes":2,"kept":{"owner":1},"code":null}"#,
                0,
            ),
        );
        add(&mut all, &closed(1, r#"{"status":"complete"}"#, 0));
        add(
            &mut all,
            &closed(
                0,
                r#"{"status":"partial","bytes":3,"kept":{"owner":2},"code":"no_space"}"#,
                4,
            ),
        );
        add(
            &mut all,
            &closed(
                0,
                r#"{"status":"complete","bytes":4,"kept":{"owner":0},"code":null,"further":1}"#,
                3,
            ),
        );
        assert_eq!(all.len(), 2);
        let sum: Value = serde_json::from_str(&all[0].summary).expect("JSON");
        let wanted = serde_json::json!({"status": "partial", "bytes": 9, "kept": {"owner": 3}, "code": "no_space", "further": 1});
        assert_eq!(sum, wanted);
        assert_eq!((all[0].files, all[0].bytes), (3, 6));
        let [group] = all[0].failures.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!((group.count, group.examples.len()), (7, EXAMPLES_MAX));
    }

    #[test]
    fn the_reports_of_one_root_do_not_grow_without_bound() {
        let mut all = Vec::new();
        for number in 0..100 {
            let name = format!("{number}-{}", "x".repeat(10_000));
            let summary = format!(r#"{{"status":"complete","{name}":1}}"#);
            add(&mut all, &closed(0, &summary, 0));
        }
        assert!(all[0].summary.len() <= SPEC_BYTES_MAX);
        assert_eq!(all[0].files, 100);
    }
}
