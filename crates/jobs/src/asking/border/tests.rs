//! Tests of what this node takes from the words of other sites.
//! Asks none.

use super::*;

#[test]
fn groups_beyond_the_bound_are_counted_under_one() {
    let group = |n: u64| FailureGroup {
        reason: Reason {
            code: Code::of_word(&format!("c{n}")),
            text: "x".to_owned(),
        },
        count: n,
        examples: vec!["x".repeat(10_000); 100],
    };
    let untrusted = groups((1..=100).map(group).collect());
    assert_eq!(untrusted.len(), GROUPS_MAX);
    assert_eq!(
        untrusted.iter().map(|group| group.count).sum::<u64>(),
        5_050
    );
    assert!(
        untrusted
            .iter()
            .all(|group| group.examples.len() <= EXAMPLES_MAX)
    );
    assert_eq!(groups((1..=59).map(group).collect()).len(), 59);
}

#[test]
fn codes_of_this_node_alone_are_not_taken_from_others() {
    for (untrusted, taken) in [
        ("permission", "permission"),
        ("of_a_newer_version", "of_a_newer_version"),
        ("node_lost", "other"),
        ("complete", "other"),
        ("relay_wrong", "other"),
        ("a\nb", "other"),
        ("", "other"),
        (&"x".repeat(65), "other"),
    ] {
        let code = reason(&Code::of_word(untrusted), "").code;
        assert_eq!(code.as_str(), taken);
    }
}

#[test]
fn a_refusal_has_a_word_and_a_text_that_the_state_takes() {
    let untrusted = of_site(
        "siteB",
        Err(Refusal {
            code: Code::of_word("a\nb"),
            ..Refusal::new(OTHER, "x".repeat(1 << 20))
        }),
    );
    let untrusted = untrusted.expect_err("refused");
    assert_eq!(untrusted.code, OTHER);
    assert!(untrusted.message.len() < 4_352);
}

#[test]
fn a_node_of_the_cluster_names_nodes_and_a_site_has_its_numbered() {
    let untrusted = || {
        let node = |node: &str| NodeProgress {
            node: node.to_owned(),
            to: "b1".to_owned(),
            ..NodeProgress::default()
        };
        vec![node("a1"), node("a\n2")]
    };
    let named = |by| {
        let mut untrusted = untrusted();
        nodes(&mut untrusted, by);
        let names = untrusted.into_iter().map(|node| (node.node, node.to));
        names.collect::<Vec<_>>()
    };
    let pair = |node: &str, to: &str| (node.to_owned(), to.to_owned());
    let by_member = [pair("a1", "b1"), pair("node 2", "b1")];
    assert_eq!(named(By::Member), by_member);
    let by_site = [pair("siteB node 1", ""), pair("siteB node 2", "")];
    assert_eq!(named(By::Site("siteB")), by_site);
}

#[test]
fn times_and_amounts_of_progress_are_bounded() {
    for at in [i64::MIN, i64::MAX] {
        let mut untrusted = ProgressView {
            at: Timestamp(at),
            bytes_total: Some(u64::MAX),
            files_total: u64::MAX,
            files_settled: u64::MAX,
            failed: u64::MAX,
            ..ProgressView::default()
        };
        progress(&mut untrusted, By::Site("siteB"));
        assert!(
            (TIMES.start..=TIMES.end).contains(&untrusted.at.0),
            "{untrusted:?}"
        );
        assert_eq!(untrusted.bytes_total, Some(AMOUNT_MAX));
        let amounts = [
            untrusted.files_total,
            untrusted.files_settled,
            untrusted.failed,
        ];
        assert_eq!(amounts, [AMOUNT_MAX; 3]);
    }
}

#[test]
fn a_long_summary_keeps_its_figures() {
    let untrusted = serde_json::json!({"bytes": 7, "words": "x".repeat(SUMMARY_BYTES_MAX)});
    assert_eq!(summary(untrusted), Some(serde_json::json!({"bytes": 7})));
    assert_eq!(summary(serde_json::json!("words")), None);
}

#[test]
fn a_summary_and_a_line_hold_few_values() {
    use godwit_api::event::TransferSummary;
    let whole = serde_json::to_value(TransferSummary::default()).expect("a document");
    let mut untrusted = whole.clone();
    untrusted["a"] = vec![0; 30_000].into();
    assert_eq!(summary(untrusted.clone()), Some(whole));
    let mut long = LogLine {
        seq: 1,
        at: Timestamp(1),
        attempt: 1,
        event: untrusted,
        from: None,
        node: None,
    };
    line(&mut long);
    assert!(long.event.to_string().len() < 200, "{}", long.event);
}
