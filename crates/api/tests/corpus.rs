//! Replays the committed corpora of the documents, with the fuzzer's own checks, on the stable compiler.
//! Finds nothing new; `fuzz/README.md` explains how to.

#[expect(unreachable_pub, reason = "public in the fuzz targets")]
mod documents_check;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use documents_check::{REQUESTS, check_answer, check_question, check_request};
use godwit_api::ask::{Answer, CLUSTER_QUESTIONS, QUESTIONS, Question};
use serde_json::Value;

/// Checks each seed of a target. Returns the seeds.
fn replay(target: &str, check: impl Fn(&[u8])) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files = fs::read_dir(&corpus).expect("a corpus");
    let seeds: Vec<Vec<u8>> = files
        .map(|file| fs::read(file.expect("a file").path()).expect("a seed"))
        .collect();
    assert!(!seeds.is_empty(), "{target} has a corpus");
    seeds.iter().for_each(|seed| check(seed));
    seeds
}

#[test]
fn each_kind_of_question_has_a_seed() {
    let seeds = replay("question_json", check_question);
    let (mut kinds, mut of_clusters) = (BTreeSet::new(), BTreeSet::new());
    for seed in seeds.iter().filter(|seed| Question::parse(seed).is_ok()) {
        let document: Value = serde_json::from_slice(seed).expect("JSON");
        let word = |value: &Value| value.as_str().map(ToOwned::to_owned);
        kinds.extend(word(&document["ask"]));
        of_clusters.extend(word(&document["with"]["cluster"]));
    }
    let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(kinds, known(&QUESTIONS));
    assert_eq!(of_clusters, known(&CLUSTER_QUESTIONS));
}

#[test]
fn answers_of_all_kinds_are_read_and_refusals_too() {
    let seeds = replay("answer_json", check_answer);
    let read = seeds.iter().filter(|seed| Answer::parse(seed).is_ok());
    assert!(read.count() > 10);
}

#[test]
fn each_kind_of_request_has_a_seed_and_the_api_has_no_other() {
    let seeds = replay("rest_json", |seed| {
        check_request(seed);
    });
    for (name, check) in REQUESTS {
        assert!(seeds.iter().any(|seed| check(seed)), "{name} has no seed");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let document = fs::read(path).expect("the description of the API");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    let mut described = BTreeSet::new();
    for item in document["paths"].as_object().expect("paths").values() {
        for operation in item.as_object().expect("operations").values() {
            let text = operation["requestBody"].to_string();
            let names = text.split("#/components/schemas/").skip(1);
            described
                .extend(names.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()));
        }
    }
    let checked: BTreeSet<String> = REQUESTS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    assert_eq!(described, checked);
}
